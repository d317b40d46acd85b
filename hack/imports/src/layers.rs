//! Compares the layer table in docs/architecture.md with the kinds that crates use. `api` contains a folder with each
//! layer's kinds.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::crates::{list, quoted, rows};
use crate::tree::ModuleTree;

/// The table's header row.
const HEADER: &str = "| crate | names kinds of |";
/// The kind folders in `api`.
const LAYERS: [&str; 4] = ["capi", "capw", "gcm", "vmop"];

/// The layers that a crate or an `api` folder uses, each with the first file that uses it.
pub type Named = BTreeMap<String, PathBuf>;

/// Returns the layers that a crate uses. Test code doesn't count.
pub fn named(tree: &ModuleTree) -> Named {
    let mut named = Named::new();
    for (file, name) in tree.names_of("api") {
        if LAYERS.contains(&name.as_str()) {
            named.entry(name).or_insert_with(|| file.to_owned());
        }
    }
    named
}

/// Returns for each layer folder in `api` the other layers that it uses.
pub fn named_by_folders(tree: &ModuleTree) -> BTreeMap<String, Named> {
    let mut folders: BTreeMap<_, _> =
        LAYERS.iter().map(|layer| (format!("api::{layer}"), Named::new())).collect();
    for (from, to, _) in tree.imports() {
        let (from, to) = (&tree.files[from].path, &tree.files[to].path);
        if let (Some(own), Some(other)) = (layer(from), layer(to))
            && own != other
        {
            let named = folders.entry(format!("api::{own}")).or_default();
            named.entry(other.to_owned()).or_insert_with(|| from.clone());
        }
    }
    folders
}

/// Returns the layer to which an `api` file belongs.
fn layer(path: &Path) -> Option<&'static str> {
    let first = Path::new(path.iter().next()?).with_extension("");
    LAYERS.into_iter().find(|layer| first == Path::new(layer))
}

/// Returns a message for each crate or folder whose table row differs from its imports.
pub fn differences(page: &str, actual: &BTreeMap<String, Named>) -> Vec<String> {
    let mut written: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for mut cells in rows(page, HEADER) {
        let (crates, layers) = (cells.next().unwrap_or_default(), cells.next().unwrap_or_default());
        written.extend(quoted(crates).into_iter().map(|name| (name, quoted(layers))));
    }
    let mut differences = Vec::new();
    for (name, named) in actual {
        let allowed = written.remove(name.as_str()).unwrap_or_default();
        for (layer, file) in named.iter().filter(|(layer, _)| !allowed.contains(layer.as_str())) {
            differences.push(format!("{name} may not name kinds of {layer}, as {} does", file.display()));
        }
        let unused: BTreeSet<_> = allowed.into_iter().filter(|layer| !named.contains_key(*layer)).collect();
        if !unused.is_empty() {
            differences.push(format!("{name} names no kind of {}", list(&unused)));
        }
    }
    differences.extend(written.into_keys().map(|name| format!("there is no crate or folder {name}")));
    differences
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a crate that consists of these files.
    fn tree(files: &[(&str, &str)]) -> ModuleTree {
        let read = |path: &Path| {
            files.iter().find(|(name, _)| Path::new(name) == path).map(|(_, text)| (*text).to_owned())
        };
        ModuleTree::read("lib.rs", &read).unwrap()
    }

    fn found(page: &[&str], actual: impl IntoIterator<Item = (&'static str, Named)>) -> Vec<String> {
        let page = format!("text\n\n{HEADER}\n|---|---|\n{}\n", page.join("\n"));
        let actual = actual.into_iter().map(|(name, named)| (name.to_owned(), named)).collect();
        differences(&page, &actual)
    }

    #[test]
    fn a_crate_that_names_kinds_of_a_layer_above_is_found() {
        let vmop = named(&tree(&[
            ("lib.rs", "mod plan; use api::{names::label, vmop::VirtualMachine};"),
            ("plan.rs", "fn a(_: &api::capw::WCPCluster) {} #[cfg(test)] mod tests { use api::gcm::Tkr; }"),
        ]));
        let capw = named(&tree(&[("lib.rs", "use api::capw::WCPMachine; use api::gcm::parts::vm_status;")]));
        assert_eq!(
            found(&["| `vmop` | `vmop` |", "| `capw` | `capw` |"], [("vmop", vmop), ("capw", capw)]),
            [
                "capw may not name kinds of gcm, as lib.rs does",
                "vmop may not name kinds of capw, as plan.rs does"
            ]
        );
    }

    #[test]
    fn a_folder_of_api_that_takes_a_type_of_a_layer_above_is_found() {
        let api = tree(&[
            ("lib.rs", "pub mod capw; pub mod gcm; pub mod names;"),
            ("capw.rs", "pub mod machine; pub struct Endpoint;"),
            ("capw/machine.rs", "use crate::gcm::Volume; pub struct Machine(Volume);"),
            (
                "gcm.rs",
                "use crate::capw::Endpoint; use crate::names::Name; pub struct Volume(Endpoint, Name);",
            ),
            ("names.rs", "pub struct Name;"),
        ]);
        let folders = named_by_folders(&api);
        let named = |name: &str| folders[name].clone();
        assert_eq!(
            found(
                &["| `api::gcm` | `capw` |"],
                [("api::capw", named("api::capw")), ("api::gcm", named("api::gcm"))]
            ),
            ["api::capw may not name kinds of gcm, as capw/machine.rs does"]
        );
    }

    #[test]
    fn a_row_that_allows_what_nothing_names_is_found() {
        let vmop = named(&tree(&[("lib.rs", "use api::vmop::VirtualMachine;")]));
        assert_eq!(
            found(&["| `vmop` | `capw`, `vmop` |", "| `gone` | `vmop` |"], [("vmop", vmop)]),
            ["vmop names no kind of capw", "there is no crate or folder gone"]
        );
    }
}
