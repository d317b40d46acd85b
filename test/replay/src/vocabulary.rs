//! Collects the names in the client's and the VM operator's sources.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result};

use crate::names::Names;

/// The names in the sources. A name is known if it is a whole string literal outside test code.
#[derive(Debug, Default)]
pub struct Vocabulary(BTreeSet<String>);

impl Vocabulary {
    /// Reads the sources in `vsphere/src` and `vmop/src`.
    pub fn of_client() -> Result<Self> {
        let mut known = Self::default();
        for crate_name in ["vsphere", "vmop"] {
            known.read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(crate_name).join("src"))?;
        }
        Ok(known)
    }

    fn read(&mut self, folder: &Path) -> Result<()> {
        let entries =
            std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
        for entry in entries {
            let path = entry?.path();
            let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
            // The recorder's strings are names that it keeps in recordings, not names that the client understands.
            let is_skipped = matches!(stem.as_str(), "snapshots" | "recording") || stem.ends_with("tests");
            if path.is_dir() && !is_skipped {
                self.read(&path)?;
            } else if path.extension().is_some_and(|kind| kind == "rs") && !is_skipped {
                let text = std::fs::read_to_string(&path)
                    .with_context(|| format!("cannot read {}", path.display()))?;
                self.add(&text);
            }
        }
        Ok(())
    }

    fn add(&mut self, source: &str) {
        let source = source.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        let strings = source
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"))
            .flat_map(|line| line.split('"').skip(1).step_by(2));
        let is_name = |text: &&str| {
            text.starts_with(|first: char| first.is_ascii_alphabetic())
                && text.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '.')
        };
        self.0.extend(strings.filter(is_name).map(str::to_owned));
    }

    /// Returns the names that the client doesn't know.
    pub fn unknown(&self, names: &Names) -> Names {
        let property = |name: &&String| {
            let path = name.split_once('.').map_or(name.as_str(), |(_, path)| path);
            !self.0.contains(path)
        };
        Names {
            types: names.types.difference(&self.0).cloned().collect(),
            properties: names.properties.iter().filter(property).cloned().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_of_the_source_are_known_and_those_is_skipped_are_not() {
        let mut known = Vocabulary::default();
        known.add("a(\"VirtualDisk\", \"config.uuid\", \"some words\");\n// \"Comment\"\n#[cfg(test)]\nmod tests { \"VirtualTPM\" }");
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        assert_eq!(known.0, set(&["VirtualDisk", "config.uuid"]));
        let names = Names {
            types: set(&["VirtualDisk", "VirtualTPM"]),
            properties: set(&["VirtualMachine.config.uuid", "VirtualMachine.layout"]),
        };
        let unknown = known.unknown(&names);
        assert_eq!(
            (unknown.types, unknown.properties),
            (set(&["VirtualTPM"]), set(&["VirtualMachine.layout"]))
        );
    }
}
