//! Lists the Debian packages and Go modules in an image, with their licenses.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use plane::tools::{Dependency, Tool, dependencies};

use crate::debian::Lock;
use crate::error::{Error, IoContext, Result};
use crate::licence;
use crate::sbom::SpdxPackage;

/// The folder on the node for Go modules' license texts.
pub(crate) const GO_LICENCES: &str = "usr/share/doc/go";

/// Returns the Go modules in all programs, plus the standard library of the Go version `go`. Copies the modules'
/// license texts to `licences`.
pub fn go_modules(programs: &[&'static Tool], go: &str, licences: &Path) -> Result<BTreeSet<SpdxPackage>> {
    let mut parts = BTreeSet::new();
    for tools in programs.chunk_by(|one, next| std::ptr::eq(one.module, next.module)) {
        for module in dependencies(tools)? {
            parts.insert(go_module(&module, licences)?);
        }
    }
    let version = go.trim_start_matches("go");
    parts.insert(SpdxPackage {
        name: "stdlib".to_owned(),
        version: version.to_owned(),
        purl: format!("pkg:golang/stdlib@{version}"),
        source: format!("https://go.dev/dl/{go}.src.tar.gz"),
        licences: ["BSD-3-Clause".to_owned()].into(),
    });
    Ok(parts)
}

fn go_module(module: &Dependency, into: &Path) -> Result<SpdxPackage> {
    let Dependency { path, version, folder } = module;
    let licences = copy_licenses(folder, &into.join(path))?;
    Ok(SpdxPackage {
        name: path.clone(),
        version: version.clone(),
        purl: format!("pkg:golang/{path}@{}", version.replace('+', "%2B")),
        source: "https://proxy.golang.org".to_owned(),
        licences,
    })
}

/// Copies the license and notice files in a module's root folder. Returns the identifiers of the licenses that are recognized.
pub fn copy_licenses(folder: &Path, into: &Path) -> Result<BTreeSet<String>> {
    let mut licences = BTreeSet::new();
    for file in licence_files(folder)? {
        let bytes = fs::read(&file).doing("read", &file)?;
        licences.extend(licence::of_text(&String::from_utf8_lossy(&bytes)).map(str::to_owned));
        fs::create_dir_all(into).doing("make", into)?;
        let to = into.join(file.file_name().unwrap_or_default());
        fs::write(&to, &bytes).doing("write", &to)?;
    }
    Ok(licences)
}

/// Returns the license and notice files in a module's root folder.
fn licence_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).doing("read", folder)? {
        let path = entry.doing("read", folder)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_uppercase();
        let named = ["LICENSE", "LICENCE", "COPYING", "NOTICE", "COPYRIGHT"]
            .iter()
            .any(|word| name.starts_with(word));
        if named && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Returns the Debian packages on the node and in the container images. `root` and `containers` are the folders with their files.
pub(crate) fn debian_packages(lock: &Lock, root: &Path, containers: &Path) -> Result<BTreeSet<SpdxPackage>> {
    let mut parts = BTreeSet::new();
    for (packages, files) in [(&lock.node, root), (&lock.containers, containers)] {
        for package in packages {
            let Some((name, version, arch)) = named(package.file()) else {
                let reason = "the name of its file is not NAME_VERSION_ARCHITECTURE.deb".to_owned();
                return Err(Error::Command { what: format!("list {}", package.uri), reason });
            };
            let copyright = files.join("usr/share/doc").join(&name).join("copyright");
            let text = match fs::read(&copyright) {
                Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
                // The folder can be a symbolic link to another package's folder, which might not exist here.
                Err(_) => String::new(),
            };
            parts.insert(SpdxPackage {
                purl: format!("pkg:deb/debian/{name}@{}?arch={arch}", version.replace('+', "%2B")),
                name,
                version,
                source: package.uri.clone(),
                licences: licence::of_copyright(&text),
            });
        }
    }
    Ok(parts)
}

/// Parses a package's file name. Returns the name, the version without its epoch, and the architecture, or `None` for a
/// file name with a different format.
fn named(file: &str) -> Option<(String, String, String)> {
    let mut fields = file.strip_suffix(".deb")?.split('_');
    let (name, version, arch) = (fields.next()?, fields.next()?, fields.next()?);
    let plain =
        |text: &str| text.replace("%2b", "+").replace("%2B", "+").replace("%7e", "~").replace("%3a", ":");
    Some((plain(name), plain(version), plain(arch)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_known_by_its_file() {
        let (name, version, arch) = named("libc6_2.41-12%2bdeb13u4_amd64.deb").unwrap();
        assert_eq!((name.as_str(), version.as_str(), arch.as_str()), ("libc6", "2.41-12+deb13u4", "amd64"));
        assert_eq!(named("dash.deb"), None);
    }

    #[test]
    fn licences_of_a_module_come_along() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("module");
        fs::create_dir(&source).unwrap();
        fs::write(source.join("LICENSE.md"), "Apache License Version 2.0").unwrap();
        fs::write(source.join("NOTICE"), "By somebody").unwrap();
        fs::write(source.join("main.go"), "package main").unwrap();
        let into = folder.path().join("doc");
        let module = Dependency { path: "a.b/c".to_owned(), version: "v1.0.0".to_owned(), folder: source };
        let part = go_module(&module, &into).unwrap();
        assert_eq!(part.licences.into_iter().collect::<Vec<_>>(), ["Apache-2.0"]);
        assert!(into.join("a.b/c/NOTICE").is_file() && !into.join("a.b/c/main.go").exists());
    }
}
