//! Compares the crate table in docs/architecture.md with the crates' manifests.

use std::collections::{BTreeMap, BTreeSet};

/// The page that contains the table.
pub const PAGE: &str = "docs/architecture.md";
/// The table's header row.
const HEADER: &str = "| crate | depends on |";

/// Returns the crates in `members` on which a crate depends. Dev-dependencies don't count.
pub fn dependencies<'a>(manifest: &'a str, members: &BTreeSet<&str>) -> BTreeSet<&'a str> {
    let of_section = manifest.lines().skip_while(|line| *line != "[dependencies]").skip(1);
    of_section
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split(['.', ' ', '=']).next())
        .filter(|name| members.contains(name))
        .collect()
}

/// Returns a message for each table row that differs from the manifests, and for each crate without a row.
pub fn differences(page: &str, manifests: &BTreeMap<&str, String>) -> Vec<String> {
    let members: BTreeSet<_> = manifests.keys().copied().collect();
    let mut differences = Vec::new();
    let mut missing = members.clone();
    for cells in rows(page, HEADER) {
        let mut cells = cells.map(quoted);
        let (crates, written) = (cells.next().unwrap_or_default(), cells.next().unwrap_or_default());
        for name in crates {
            missing.remove(name);
            let Some(manifest) = manifests.get(name) else {
                differences.push(format!("there is no crate {name}"));
                continue;
            };
            let actual = dependencies(manifest, &members);
            if actual != written {
                differences.push(format!(
                    "{name} depends on {}, and not on {}",
                    list(&actual),
                    list(&written)
                ));
            }
        }
    }
    differences.extend(missing.into_iter().map(|name| format!("{name} has no row")));
    differences
}

/// Returns the cells in each row below this table header.
pub fn rows<'a>(page: &'a str, header: &str) -> impl Iterator<Item = impl Iterator<Item = &'a str>> {
    let lines = page.lines().skip_while(move |line| *line != header).skip(2);
    lines.take_while(|line| line.starts_with('|')).map(|row| row.split('|').skip(1))
}

/// Returns the words in backquotes.
pub fn quoted(cell: &str) -> BTreeSet<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// Joins names for a message.
pub fn list(names: &BTreeSet<&str>) -> String {
    if names.is_empty() { "none".to_owned() } else { names.iter().copied().collect::<Vec<_>>().join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_differs_from_the_manifest_is_found() {
        let manifests = BTreeMap::from([
            ("api", "[dependencies]\nserde.workspace = true\n".to_owned()),
            (
                "kit",
                "[dependencies]\napi.workspace = true\n\n[dev-dependencies]\nplane.workspace = true\n"
                    .to_owned(),
            ),
            ("plane", "[dependencies]\napi.workspace = true\n".to_owned()),
        ]);
        let of =
            |rows: &str| differences(&format!("text\n\n{HEADER}\n|---|---|\n{rows}\n\nmore"), &manifests);
        assert_eq!(of("| `api` | no other crate |\n| `kit`, `plane` | `api` |"), Vec::<String>::new());
        assert_eq!(
            of("| `api`, `gone` | no other crate |\n| `kit` | `api`, `plane` |"),
            ["there is no crate gone", "kit depends on api, and not on api, plane", "plane has no row"]
        );
    }
}
