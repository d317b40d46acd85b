//! Lists the Go modules that programs depend on.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::cache::BuildCache;
use super::go::{check, go, output, write_sources};
use super::tool::Tool;
use crate::error::Result;

/// A Go module that programs depend on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Dependency {
    pub path: String,
    pub version: String,
    /// The folder with the module's sources.
    pub folder: PathBuf,
}

const LINE: &str = "{{with .Module}}{{with .Replace}}{{.Path}}\t{{.Version}}\t{{.Dir}}{{else}}{{.Path}}\t{{.Version}}\t{{.Dir}}{{end}}{{end}}";

/// Returns the Go modules that programs depend on, except embedded modules. All `tools` must belong to the same module.
pub fn dependencies(tools: &[&'static Tool]) -> Result<Vec<Dependency>> {
    let Some(first) = tools.first() else { return Ok(Vec::new()) };
    check([first.name].into_iter())?;
    let cache = BuildCache::open(None)?;
    let mut list = go(&write_sources(&cache, first.module)?);
    list.args(["list", "-mod=readonly", "-deps", "-f", LINE])
        .arg(format!("-tags={}", first.module.tags.join(",")))
        .args(tools.iter().map(|tool| tool.package));
    let lines = output(&mut list, first.name)?;
    let modules: BTreeSet<_> = lines.lines().filter_map(parsed).collect();
    Ok(modules.into_iter().collect())
}

/// Parses a line of the `go list` output. Returns `None` for a module without a version, such as an embedded module.
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

/// Returns the version of the Go toolchain that builds the programs, as Go reports it.
pub fn go_version() -> Result<String> {
    check(["the programs of a node"].into_iter())?;
    let cache = BuildCache::open(None)?;
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
