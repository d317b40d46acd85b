//! Parses `allowlist.yaml`: the fields that a bundle takes from each kind.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

const TEXT: &str = include_str!("allowlist.yaml");

/// The scope in which a kind's objects are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReadScope {
    Cluster,
    /// The namespaces to collect from.
    Namespaces,
    /// The program namespaces, `CONTROLLER_NAMESPACES`.
    Controllers,
}

/// The objects and fields to take for one kind.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KindRule {
    /// The API group, empty for the core group.
    pub group: String,
    pub version: String,
    pub kind: String,
    /// The plural resource name.
    pub plural: String,
    /// The scope in which the kind's objects are read.
    #[serde(rename = "in")]
    pub place: ReadScope,
    /// The object names to read; empty for all.
    #[serde(default)]
    pub names: Vec<String>,
    /// The suffixes that object names must have; empty for all.
    #[serde(default)]
    pub endings: Vec<String>,
    #[serde(default)]
    take: Vec<String>,
    #[serde(default)]
    hash: Vec<String>,
    #[serde(default)]
    host: Vec<String>,
    /// The fields to take, built from `take`, `hash`, `host` and the common paths.
    #[serde(skip)]
    pub fields: FieldTree,
}

impl KindRule {
    /// Returns true if the name has one of the rule's `endings`, or if the rule doesn't have any.
    pub fn is_about(&self, name: &str) -> bool {
        self.endings.is_empty() || self.endings.iter().any(|ending| name.ends_with(ending))
    }

    /// Returns the resource name as kubectl shows it: `virtualmachines.vmoperator.vmware.com`.
    pub fn resource(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }
}

/// The form in which a listed value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    Take,
    /// The beginning of the value's SHA-256.
    Hash,
    /// A URL's scheme, host and port.
    Host,
}

/// The listed fields below one field.
#[derive(Debug, Default)]
pub struct FieldTree {
    /// The treatment of a scalar at this path, or `None` to leave it out.
    pub value: Option<Treatment>,
    pub fields: BTreeMap<String, FieldTree>,
    /// The trees below map keys. A key that ends with `*` matches all names with the prefix before it.
    pub keys: BTreeMap<String, FieldTree>,
    /// The tree below each list item.
    pub items: Option<Box<FieldTree>>,
}

impl FieldTree {
    /// Returns the tree below a field or map key, or `None` if nothing below it is listed.
    pub fn below(&self, name: &str) -> Option<&FieldTree> {
        let matches = |key: &str| key.strip_suffix('*').map_or(key == name, |start| name.starts_with(start));
        let key = || self.keys.iter().find(|(key, _)| matches(key)).map(|(_, tree)| tree);
        self.fields.get(name).or_else(key)
    }

    /// Returns true for a map with arbitrary keys, such as labels.
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

/// Parses a path: `a["b/*"][].c` is field `a`, key `b/*`, items, field `c`.
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

/// Expands braces: `a.{b,c}.d` becomes `a.b.d` and `a.c.d`.
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

/// Returns a rule's paths after brace expansion, each with the treatment of the values at this path.
fn paths(common: &[String], rule: &KindRule) -> Vec<(String, Treatment)> {
    let taken = common.iter().chain(&rule.take).map(|path| (path, Treatment::Take));
    let hashed = rule.hash.iter().map(|path| (path, Treatment::Hash));
    let hosts = rule.host.iter().map(|path| (path, Treatment::Host));
    let all = taken.chain(hashed).chain(hosts);
    all.flat_map(|(path, treatment)| expanded(path).into_iter().map(move |path| (path, treatment))).collect()
}

/// Returns the rules in the order in which the kinds are read.
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

/// Returns a kind's paths after brace expansion, for tests.
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
