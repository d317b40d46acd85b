//! Finds a program without building it: at a path from the user, in a release, in KUBEBUILDER_ASSETS, on PATH or in the cache.
//!
//! Programs of a release are compared with their digests, and programs elsewhere outside the cache are run to check their
//! version. The results are stored in the cache by path, size and modification time, so that each program is checked only once.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::cache::BuildCache;
use super::progress::BuildProgress;
use super::shipped::Shipped;
use super::tool::Tool;
use crate::error::{Error, Result};

/// The results of checks for programs outside the cache. The key is the path, size, modification time and expected
/// version or digest. The value is true if the program has the expected version or digest.
type Notes = BTreeMap<String, bool>;

pub(super) struct Finder<'a> {
    given: &'a BTreeMap<String, PathBuf>,
    cache: &'a BuildCache,
    progress: &'a dyn BuildProgress,
    shipped: Vec<Shipped>,
    folders: Vec<PathBuf>,
    notes: Notes,
    noted: usize,
}

impl<'a> Finder<'a> {
    pub(super) fn new(
        given: &'a BTreeMap<String, PathBuf>,
        cache: &'a BuildCache,
        progress: &'a dyn BuildProgress,
    ) -> Self {
        let notes: Notes = fs::read(cache.notes())
            .ok()
            .and_then(|text| serde_json::from_slice(&text).ok())
            .unwrap_or_default();
        let variable = |name| std::env::var_os(name).unwrap_or_default();
        let folders = folders(&variable("KUBEBUILDER_ASSETS"), &variable("PATH"));
        Self { given, cache, progress, shipped: Vec::new(), folders, noted: notes.len(), notes }
    }

    /// Also looks for programs in the folders of a release, before all other places except the user's.
    pub(super) fn with_shipped(self, shipped: Vec<Shipped>) -> Self {
        Self { shipped, ..self }
    }

    /// Returns the path to the program, or `None` if the program must be built.
    pub(super) fn find(&mut self, tool: &Tool) -> Result<Option<PathBuf>> {
        if let Some(path) = self.given.get(tool.name) {
            return self.checked(tool, path).map(Some);
        }
        for folder in &self.shipped {
            if let Some(found) = folder.find(tool, self.progress)? {
                if let Entry::Vacant(unchecked) = self.notes.entry(found.key.clone()) {
                    found.check(tool)?;
                    unchecked.insert(true);
                }
                return Ok(Some(found.path));
            }
        }
        if let Some((args, answer)) = tool.version {
            for path in self.folders.iter().map(|folder| folder.join(tool.name)).collect::<Vec<_>>() {
                if let Some(found) = executable(&path)
                    && self.fits(&path, &found, args, answer)
                {
                    return Ok(Some(path));
                }
            }
        }
        let cached = self.cache.program(tool);
        Ok(executable(&cached).is_some().then_some(cached))
    }

    /// Checks a program that the user named. Fails if it isn't usable, instead of searching for another one.
    fn checked(&mut self, tool: &Tool, path: &Path) -> Result<PathBuf> {
        let refusal = |reason: String| Error::Tool { tool: tool.name.to_owned(), reason };
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let found = executable(&path)
            .ok_or_else(|| refusal(format!("{} is not an executable file", path.display())))?;
        if let Some((args, answer)) = tool.version
            && !self.fits(&path, &found, args, answer)
        {
            return Err(refusal(format!(
                "{} has another version; `{} {}` must print {answer}",
                path.display(),
                tool.name,
                args.join(" ")
            )));
        }
        Ok(path)
    }

    fn fits(&mut self, path: &Path, found: &Metadata, args: &[&str], answer: &str) -> bool {
        let key =
            format!("{}:{}:{}.{}:{answer}", path.display(), found.len(), found.mtime(), found.mtime_nsec());
        if let Some(fits) = self.notes.get(&key) {
            return *fits;
        }
        let fits = says(path, args, answer);
        if !fits {
            self.progress.note(&format!("ignoring {}: its version is not {answer}", path.display()));
        }
        self.notes.insert(key, fits);
        fits
    }

    /// Stores the results of the version checks for the next start. Ignores errors, because the checks can be repeated.
    pub(super) fn remember(&self) {
        if self.notes.len() != self.noted
            && self.cache.make().is_ok()
            && let Ok(text) = serde_json::to_vec_pretty(&self.notes)
        {
            let _ = fs::write(self.cache.notes(), text);
        }
    }
}

/// Returns the folders to search: KUBEBUILDER_ASSETS, then the absolute folders in PATH.
fn folders(assets: &OsString, path: &OsString) -> Vec<PathBuf> {
    let assets = Some(PathBuf::from(assets)).filter(|folder| !folder.as_os_str().is_empty());
    assets.into_iter().chain(std::env::split_paths(path).filter(|folder| folder.is_absolute())).collect()
}

fn executable(path: &Path) -> Option<Metadata> {
    fs::metadata(path).ok().filter(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// Returns true if a program prints a line that begins with `answer`.
fn says(path: &Path, args: &[&str], answer: &str) -> bool {
    let output = Command::new(path).args(args).stdin(Stdio::null()).stderr(Stdio::null()).output();
    output.is_ok_and(|output| {
        String::from_utf8_lossy(&output.stdout).lines().any(|line| line.trim().starts_with(answer))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::progress::Quiet;
    use crate::tools::tool::CONTROL_PLANE;

    /// Writes an executable script. A file that is open for writing can't be run, and a child that another test has
    /// just started may still have it open. So another process writes the file.
    fn program(folder: &Path, name: &str, script: &str) -> PathBuf {
        let (text, path) = (folder.join(format!("{name}.sh")), folder.join(name));
        fs::write(&text, format!("#!/bin/sh\n{script}\n")).unwrap();
        let installed = Command::new("install").arg("--mode=755").arg(&text).arg(&path).status().unwrap();
        assert!(installed.success(), "{installed}");
        path
    }

    fn etcd() -> &'static Tool {
        CONTROL_PLANE.iter().find(|tool| tool.name == "etcd").unwrap()
    }

    #[test]
    fn the_order_is_given_assets_path_cache() {
        let folder = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let inner = folder.path().join(name);
            fs::create_dir_all(&inner).unwrap();
            program(&inner, "etcd", "echo etcd Version: 3.6.1")
        };
        let (given, assets, on_path) = (make("given"), make("assets"), make("path"));
        let cache = BuildCache::open(Some(folder.path().join("cache"))).unwrap();
        let cached = cache.folder(etcd().module);
        fs::create_dir_all(&cached).unwrap();
        let cached = program(&cached, "etcd", "exit 1");

        let named = BTreeMap::from([("etcd".to_owned(), given.clone())]);
        let none = BTreeMap::new();
        let find = |given, folders: &[&Path]| {
            let mut finder = Finder::new(given, &cache, &Quiet);
            finder.folders = folders.iter().map(|path| path.parent().unwrap().to_owned()).collect();
            finder.find(etcd()).unwrap().unwrap()
        };
        assert_eq!(find(&named, &[&assets, &on_path]), given);
        assert_eq!(find(&none, &[&assets, &on_path]), assets);
        assert_eq!(find(&none, &[&on_path]), on_path);
        assert_eq!(find(&none, &[]), cached);
    }

    #[test]
    fn a_wrong_version_is_passed_over_on_path_and_refused_when_given() {
        let folder = tempfile::tempdir().unwrap();
        let old = program(folder.path(), "etcd", "echo etcd Version: 3.4.23");
        let cache = BuildCache::open(Some(folder.path().join("cache"))).unwrap();
        let none = BTreeMap::new();
        let mut finder = Finder::new(&none, &cache, &Quiet);
        finder.folders = vec![folder.path().to_owned()];
        assert_eq!(finder.find(etcd()).unwrap(), None);

        let named = BTreeMap::from([("etcd".to_owned(), old)]);
        let refusal = Finder::new(&named, &cache, &Quiet).find(etcd()).unwrap_err().to_string();
        assert!(refusal.contains("3.6."), "{refusal}");
    }

    #[test]
    fn a_program_is_asked_for_its_version_once() {
        let folder = tempfile::tempdir().unwrap();
        let asked = folder.path().join("asked");
        program(folder.path(), "etcd", &format!("echo x >> {}; echo etcd Version: 3.6.1", asked.display()));
        let cache = BuildCache::open(Some(folder.path().join("cache"))).unwrap();
        let none = BTreeMap::new();
        for _ in 0..2 {
            let mut finder = Finder::new(&none, &cache, &Quiet);
            finder.folders = vec![folder.path().to_owned()];
            assert!(finder.find(etcd()).unwrap().is_some());
            finder.remember();
        }
        assert_eq!(fs::read_to_string(asked).unwrap(), "x\n");
    }

    #[test]
    fn assets_come_before_path() {
        assert_eq!(folders(&"/a".into(), &"/b:relative:/c".into()), ["/a", "/b", "/c"].map(PathBuf::from));
        assert_eq!(folders(&"".into(), &"/b".into()), ["/b"].map(PathBuf::from));
    }
}
