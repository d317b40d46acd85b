//! The Go modules that a program is made of.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::cache::Cache;
use super::go::{check, go, output, write_sources};
use super::tool::Tool;
use crate::error::Result;

/// A Go module that programs are made of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Dependency {
    /// Its path.
    pub path: String,
    /// Its version.
    pub version: String,
    /// Where its sources lie.
    pub folder: PathBuf,
}

const LINE: &str = "{{with .Module}}{{with .Replace}}{{.Path}}\t{{.Version}}\t{{.Dir}}{{else}}{{.Path}}\t{{.Version}}\t{{.Dir}}{{end}}{{end}}";

/// The modules that programs of one module are made of, without those whose sources are part of ours.
pub fn dependencies(tools: &[&'static Tool]) -> Result<Vec<Dependency>> {
    let Some(first) = tools.first() else { return Ok(Vec::new()) };
    check([first.name].into_iter())?;
    let cache = Cache::open(None)?;
    let mut list = go(&write_sources(&cache, first.module)?);
    list.args(["list", "-mod=readonly", "-deps", "-f", LINE])
        .arg(format!("-tags={}", first.module.tags.join(",")))
        .args(tools.iter().map(|tool| tool.package));
    let lines = output(&mut list, first.name)?;
    let modules: BTreeSet<_> = lines.lines().filter_map(parsed).collect();
    Ok(modules.into_iter().collect())
}

/// The module of a line; none for what has no version, as our own.
fn parsed(line: &str) -> Option<Dependency> {
    let mut fields = line.split('\t');
    let (path, version, folder) = (fields.next()?, fields.next()?, fields.next()?);
    let is_released = !version.is_empty();
    is_released.then(|| Dependency {
        path: path.to_owned(),
        version: version.to_owned(),
        folder: PathBuf::from(folder),
    })
}

/// The version of Go that builds, as it calls itself.
pub fn go_version() -> Result<String> {
    check(["the programs of a node"].into_iter())?;
    let cache = Cache::open(None)?;
    let sources = write_sources(&cache, &super::module::K8S)?;
    Ok(output(go(&sources).args(["env", "GOVERSION"]), "go")?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_without_version_is_our_own() {
        let found = parsed("go.etcd.io/bbolt\tv1.4.3\t/go/pkg/mod/go.etcd.io/bbolt@v1.4.3").unwrap();
        assert_eq!((found.path.as_str(), found.version.as_str()), ("go.etcd.io/bbolt", "v1.4.3"));
        assert_eq!(parsed("layercake.invalid/etcd\t\t/src"), None);
        assert_eq!(parsed(""), None);
    }
}
