//! Lists the crates in the command, with their license files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

/// A crate that is linked into the command, or that produced code for it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct Crate {
    pub name: String,
    pub version: String,
    /// The license expression in the crate's manifest.
    pub license: Option<String>,
    /// The registry. `None` for crates in this repository.
    pub source: Option<String>,
    manifest_path: PathBuf,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Crate>,
}

impl Crate {
    /// The folder with the crate's sources.
    pub fn folder(&self) -> &Path {
        self.manifest_path.parent().unwrap_or(&self.manifest_path)
    }
}

/// Returns the crates that the given programs consist of. Leaves out crates that only tests or build scripts use.
pub fn of(programs: &[&str], source: &Path) -> Result<BTreeSet<Crate>> {
    let mut tree = Command::new("cargo");
    tree.args(["tree", "--locked", "--edges=normal", "--prefix=none", "--format={p}"])
        .arg("--target=x86_64-unknown-linux-gnu");
    for program in programs {
        tree.args(["--package", program]);
    }
    let listed = names(&run(tree, source)?);
    let mut metadata = Command::new("cargo");
    metadata.args(["metadata", "--locked", "--format-version=1"]);
    let metadata: Metadata =
        serde_json::from_str(&run(metadata, source)?).context("cannot parse cargo metadata")?;
    let mut known: BTreeMap<_, _> = metadata
        .packages
        .into_iter()
        .map(|package| ((package.name.clone(), package.version.clone()), package))
        .collect();
    listed
        .into_iter()
        .map(|(name, version)| {
            let missing = format!("cargo metadata does not list {name} {version}");
            known.remove(&(name, version)).context(missing)
        })
        .collect()
}

/// Parses lines such as `serde v1.0.228 (proc-macro)`.
pub fn names(tree: &str) -> BTreeSet<(String, String)> {
    let parse = |line: &str| {
        let mut words = line.split(' ');
        let (name, version) = (words.next()?, words.next()?.strip_prefix('v')?);
        Some((name.to_owned(), version.to_owned()))
    };
    tree.lines().filter_map(parse).collect()
}

fn run(mut command: Command, folder: &Path) -> Result<String> {
    let output = command.current_dir(folder).output().context("cannot run cargo")?;
    ensure!(output.status.success(), "cargo failed: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_tree_are_parsed() {
        let tree = "kit v0.1.0 (/source/kit)\nserde v1.0.228\nserde v1.0.228 (*)\n\nserde_derive v1.0.228 (proc-macro)\n";
        let names: Vec<_> =
            names(tree).into_iter().map(|(name, version)| format!("{name} {version}")).collect();
        assert_eq!(names, ["kit 0.1.0", "serde 1.0.228", "serde_derive 1.0.228"]);
    }

    /// Every crate in the command has a license, and test tools are left out.
    #[test]
    fn the_command_is_listed_with_its_crates() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let crates = of(&["layercake"], &root).unwrap();
        let find = |name: &str| crates.iter().find(|found| found.name == name);
        assert!(find("layercake").is_some_and(|own| own.source.is_none()));
        assert!(find("kube").is_some_and(|kube| kube.license.is_some() && kube.folder().is_dir()));
        assert_eq!(find("insta"), None);
        assert!(crates.iter().all(|found| found.license.is_some()));
    }
}
