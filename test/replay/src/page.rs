//! Generates the recordings table in docs/vcenter.md, with the responses, faults and calls per server.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use vsphere::untrusted::Decoded;

use crate::exchange::Exchange;
use crate::folder::RecordingsFolder;

/// The marks around the table.
const BEGIN: &str = "<!-- recorded vCenters: written by hack/generate -->\n";
const END: &str = "<!-- end of recorded vCenters -->";

/// The recorded exchanges with one server.
#[derive(Debug, Default)]
struct Row {
    answers: usize,
    faults: usize,
    calls: BTreeSet<String>,
}

/// The product, version and build of a server. Rows are sorted by it, newest first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Server {
    product: String,
    numbers: Vec<u32>,
    version: String,
    build: String,
}

/// Returns the page with the table between its marks replaced, or `None` if the marks are missing.
pub fn with_table(page: &str, folder: &RecordingsFolder) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n{}\n{END}{after}", table(folder)))
}

fn table(folder: &RecordingsFolder) -> String {
    let mut rows: BTreeMap<Server, Row> = BTreeMap::new();
    for file in &folder.files {
        let reported = file.exchanges.iter().find_map(|(_, exchange)| about(exchange));
        for (_, exchange) in &file.exchanges {
            let row = rows.entry(reported.clone().unwrap_or_else(|| spoken_to(exchange))).or_default();
            row.answers += 1;
            row.faults += usize::from(matches!(exchange.decode(), Some(Decoded::Fault(_))));
            row.calls.insert(exchange.call().to_owned());
        }
    }
    let mut text = String::from("| server | build | answers | faults | calls |\n|---|---|---|---|---|\n");
    for (server, row) in rows.iter().rev() {
        let Server { product, version, build, .. } = server;
        let Row { answers, faults, calls } = row;
        let calls = calls.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        let _ = writeln!(text, "| {product} {version} | {build} | {answers} | {faults} | {calls} |");
    }
    text
}

/// Returns the server for an exchange in a file without service content. Only the API release is known.
fn spoken_to(exchange: &Exchange) -> Server {
    server("vCenter Server", exchange.release().unwrap_or("unknown"), "not recorded")
}

/// Returns the server that the exchange's service content describes.
fn about(exchange: &Exchange) -> Option<Server> {
    let Some(Decoded::Answer(content)) = exchange.decode() else { return None };
    let about = content.get("about");
    let text = |name: &str| about.get(name).as_str();
    let product = text("name")?.trim_start_matches("VMware ");
    Some(server(product, text("version")?, text("build").unwrap_or_default()))
}

fn server(product: &str, version: &str, build: &str) -> Server {
    let numbers = version.split('.').map(|part| part.parse().unwrap_or(0)).collect();
    Server { product: product.into(), numbers, version: version.into(), build: build.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::RecordingFile;

    #[test]
    fn each_server_has_a_row_and_the_newest_is_first() {
        let exchange = |action: &str, request: &str| {
            let mut exchange =
                Exchange { method: "POST".into(), path: "/sdk".into(), status: 200, ..Exchange::default() };
            exchange.headers.soap_action = action.into();
            exchange.request = format!("<e:Body><{request}/></e:Body>");
            exchange
        };
        let file = |name: &str, exchange: Exchange| RecordingFile {
            name: name.into(),
            exchanges: vec![(1, exchange)],
        };
        let folder = RecordingsFolder {
            files: vec![
                file("a", exchange("urn:vim25/6.7", "Login")),
                file("b", exchange("\"urn:vim25/8.0.3.0\"", "Logout")),
            ],
            skipped: Vec::new(),
        };
        let page = with_table(&format!("x\n{BEGIN}old\n{END}\ny"), &folder).unwrap();
        let rows: Vec<&str> = page.lines().filter(|line| line.contains("vCenter Server")).collect();
        assert_eq!(
            rows,
            [
                "| vCenter Server 8.0.3.0 | not recorded | 1 | 0 | Logout |",
                "| vCenter Server 6.7 | not recorded | 1 | 0 | Login |"
            ]
        );
        assert!(page.starts_with("x\n") && page.ends_with("\ny") && !page.contains("old"));
        assert_eq!(with_table("no marks", &folder), None);
    }
}
