//! Which fields of which kinds are taken: `allowlist.yaml`, read.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

const TEXT: &str = include_str!("allowlist.yaml");

/// Where the objects of a kind are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    Cluster,
    /// In the namespaces that the bundle is about.
    Namespaces,
    /// In the namespaces of the programs.
    Controllers,
}

/// What is taken of the objects of one kind.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KindRule {
    /// API group; empty for the core group.
    pub group: String,
    pub version: String,
    pub kind: String,
    /// The resource's name.
    pub plural: String,
    /// Where its objects are read.
    #[serde(rename = "in")]
    pub place: Place,
    /// The only objects that are read; empty for all.
    #[serde(default)]
    pub names: Vec<String>,
    /// What the names of the objects that are taken end with; empty for all.
    #[serde(default)]
    pub endings: Vec<String>,
    #[serde(default)]
    take: Vec<String>,
    #[serde(default)]
    hash: Vec<String>,
    #[serde(default)]
    host: Vec<String>,
    /// The fields that are taken.
    #[serde(skip)]
    pub fields: FieldTree,
}

impl KindRule {
    /// Whether an object of this name is taken.
    pub fn is_about(&self, name: &str) -> bool {
        self.endings.is_empty() || self.endings.iter().any(|ending| name.ends_with(ending))
    }

    /// `virtualmachines.vmoperator.vmware.com`, as kubectl has it.
    pub fn resource(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }
}

/// What becomes of a listed value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    Take,
    /// The beginning of its SHA-256 is.
    Hash,
    /// Scheme, host and port of a URL are.
    Host,
}

/// The listed fields below one field.
#[derive(Debug, Default)]
pub struct FieldTree {
    /// What becomes of a single value here; unless it is listed, it is left out.
    pub value: Option<Treatment>,
    /// Fields by name.
    pub fields: BTreeMap<String, FieldTree>,
    /// Keys of a map: a key, or the beginning of one before `*`.
    pub keys: BTreeMap<String, FieldTree>,
    /// The items of a list.
    pub items: Option<Box<FieldTree>>,
}

impl FieldTree {
    /// What is listed below the key or field of this name.
    pub fn below(&self, name: &str) -> Option<&FieldTree> {
        let matches = |key: &str| key.strip_suffix('*').map_or(key == name, |start| name.starts_with(start));
        let key = || self.keys.iter().find(|(key, _)| matches(key)).map(|(_, tree)| tree);
        self.fields.get(name).or_else(key)
    }

    /// Whether its names are anybody's, as in a map of labels.
    pub fn is_map(&self) -> bool {
        !self.keys.is_empty()
    }

    fn insert(&mut self, path: &str, treatment: Treatment) -> Result<()> {
        let mut tree = self;
        for step in steps(path)? {
            tree = match step {
                Step::Field(name) => tree.fields.entry(name).or_default(),
                Step::Key(name) => tree.keys.entry(name).or_default(),
                Step::Items => tree.items.get_or_insert_default(),
            };
        }
        tree.value = Some(treatment);
        Ok(())
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Step {
    Field(String),
    Key(String),
    Items,
}

/// `a["b/*"][].c` is field `a`, key `b/*`, items, field `c`.
fn steps(path: &str) -> Result<Vec<Step>> {
    let mut found = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix("[]") {
            found.push(Step::Items);
            rest = after;
        } else if let Some(quoted) = rest.strip_prefix("[\"") {
            let (key, after) = quoted.split_once("\"]").with_context(|| format!("{path}: no end of key"))?;
            found.push(Step::Key(key.to_owned()));
            rest = after;
        } else {
            rest = rest.strip_prefix('.').unwrap_or(rest);
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            match &rest[..end] {
                "" => bail!("{path}: a field has no name"),
                "*" => found.push(Step::Key("*".to_owned())),
                name => found.push(Step::Field(name.to_owned())),
            }
            rest = &rest[end..];
        }
    }
    Ok(found)
}

/// `a.{b,c}.d` stands for `a.b.d` and `a.c.d`.
pub fn expanded(path: &str) -> Vec<String> {
    let Some((before, rest)) = path.split_once('{') else { return vec![path.to_owned()] };
    let Some((choices, after)) = rest.split_once('}') else { return vec![path.to_owned()] };
    choices.split(',').flat_map(|choice| expanded(&format!("{before}{choice}{after}"))).collect()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    common: Vec<String>,
    kinds: Vec<KindRule>,
}

/// Every path of a rule, written out, with what becomes of its value.
fn paths(common: &[String], rule: &KindRule) -> Vec<(String, Treatment)> {
    let taken = common.iter().chain(&rule.take).map(|path| (path, Treatment::Take));
    let hashed = rule.hash.iter().map(|path| (path, Treatment::Hash));
    let hosts = rule.host.iter().map(|path| (path, Treatment::Host));
    let all = taken.chain(hashed).chain(hosts);
    all.flat_map(|(path, treatment)| expanded(path).into_iter().map(move |path| (path, treatment))).collect()
}

/// The rules, in the order in which they are read.
pub fn rules() -> Result<Vec<KindRule>> {
    let File { common, mut kinds } = read()?;
    for rule in &mut kinds {
        for (path, treatment) in paths(&common, rule) {
            rule.fields.insert(&path, treatment)?;
        }
    }
    Ok(kinds)
}

fn read() -> Result<File> {
    serde_saphyr::from_str(TEXT).context("allowlist.yaml")
}

/// The paths of a kind as they stand in the file, written out: what tests compare with.
#[cfg(test)]
pub fn listed_paths(kind: &str) -> Vec<(String, Treatment)> {
    let file = read().unwrap();
    paths(&file.common, file.kinds.iter().find(|rule| rule.kind == kind).unwrap())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_fields_keys_and_items() {
        let field = |name: &str| Step::Field(name.to_owned());
        let key = |name: &str| Step::Key(name.to_owned());
        assert_eq!(
            steps("a[\"b.c/*\"][].d.*").unwrap(),
            [field("a"), key("b.c/*"), Step::Items, field("d"), key("*")]
        );
        assert!(steps("a..b").is_err());
        assert!(steps("a[\"b").is_err());
        assert_eq!(expanded("{a,b[]}.{c,d}"), ["a.c", "a.d", "b[].c", "b[].d"]);
    }

    #[test]
    fn each_kind_is_listed_once_and_can_be_read() {
        let rules = rules().unwrap();
        let mut kinds: Vec<_> = rules.iter().map(KindRule::resource).collect();
        kinds.sort();
        kinds.dedup();
        assert_eq!(kinds.len(), rules.len());
        assert!(rules.iter().all(|rule| rule.kind != "Secret"), "Secrets have a file of their own");
    }
}
