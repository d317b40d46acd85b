//! Programs that a release contains, in folders that are never written to: `../lib/layercake/tools` beside the executable, and
//! the folder that LAYERCAKE_TOOLS names.
//!
//! Such a folder has the same layout as the cache. Its file `tools.json` has each program's digest, so that a damaged or
//! replaced program is detected before it runs.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

use super::cache::BuildCache;
use super::go::output;
use super::progress::BuildProgress;
use super::tool::Tool;
use crate::digest::sha256_of;
use crate::error::{Error, OperationContext, Result};

/// The variable with the path to a folder of programs.
pub const VARIABLE: &str = "LAYERCAKE_TOOLS";
/// The file in the folder that lists its programs.
const RECORD: &str = "tools.json";
/// The folder in a release, relative to the folder of the executable.
const BESIDE: &str = "../lib/layercake/tools";

/// The content of `tools.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    /// The release that contains the programs, for messages.
    release: String,
    /// The Go version that built the programs.
    go: String,
    /// The programs by their paths in the folder.
    programs: BTreeMap<String, Recorded>,
}

/// A program in `tools.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Recorded {
    /// The size in bytes.
    size: u64,
    /// The SHA-256 digest in hexadecimal.
    sha256: String,
}

/// A folder with programs from a release.
#[derive(Debug, Clone)]
pub(super) struct Shipped {
    folder: PathBuf,
    record: Record,
}

/// A program in a folder of a release. It was not compared with its digest yet.
pub(super) struct Unchecked {
    pub(super) path: PathBuf,
    /// A name for this state of the file: its path, identity, size, times and expected digest.
    pub(super) key: String,
    release: String,
    expected: Recorded,
}

/// Returns the folders to search. Fails if a folder exists but its `tools.json` can't be read.
pub(super) fn folders() -> Result<Vec<Shipped>> {
    let mut found = Vec::new();
    // Through links, because a package may install only a link to the executable in PATH.
    if let Ok(executable) = std::env::current_exe().and_then(fs::canonicalize)
        && let Some(parent) = executable.parent()
        && let Ok(folder) = fs::canonicalize(parent.join(BESIDE))
    {
        found.push(Shipped::open(folder)?);
    }
    if let Some(folder) = std::env::var_os(VARIABLE).filter(|value| !value.is_empty()) {
        found.push(Shipped::open(PathBuf::from(folder))?);
    }
    Ok(found)
}

impl Shipped {
    fn open(folder: PathBuf) -> Result<Self> {
        let path = folder.join(RECORD);
        let refusal = |reason: String| Error::Tool {
            tool: format!("the programs in {}", folder.display()),
            reason: format!(
                "{reason}. Unpack the release again, or unset {VARIABLE} if it names another folder"
            ),
        };
        let text = fs::read(&path).map_err(|error| refusal(format!("cannot read {RECORD}: {error}")))?;
        let record = serde_json::from_slice(&text)
            .map_err(|error| refusal(format!("{RECORD} is invalid: {error}")))?;
        Ok(Self { folder, record })
    }

    /// Looks a program up. Returns `None`, after a note if the folder has such a program from other sources, if the folder
    /// doesn't contain it.
    pub(super) fn find(&self, tool: &Tool, progress: &dyn BuildProgress) -> Result<Option<Unchecked>> {
        let name = format!("{}/{}", tool.module.folder(), tool.name);
        let Some(expected) = self.record.programs.get(&name) else {
            let is_other = |path: &String| path.rsplit('/').next() == Some(tool.name);
            if self.record.programs.keys().any(is_other) {
                progress.note(&format!(
                    "ignoring {} in {}: release {} built it from other sources or for another processor. Use the programs of layercake's own release",
                    tool.name,
                    self.folder.display(),
                    self.record.release
                ));
            }
            return Ok(None);
        };
        let path = self.folder.join(&name);
        let found = fs::metadata(&path)
            .map_err(|error| self.damaged(tool, &format!("cannot read {}: {error}", path.display())))?;
        if !found.is_file() || found.permissions().mode() & 0o111 == 0 {
            return Err(self.damaged(tool, &format!("{} is not an executable file", path.display())));
        }
        let key = format!(
            "{}:{}:{}:{}:{}.{}:{}.{}:{}",
            path.display(),
            found.dev(),
            found.ino(),
            found.len(),
            found.mtime(),
            found.mtime_nsec(),
            found.ctime(),
            found.ctime_nsec(),
            expected.sha256
        );
        Ok(Some(Unchecked { path, key, release: self.record.release.clone(), expected: expected.clone() }))
    }

    fn damaged(&self, tool: &Tool, what: &str) -> Error {
        damaged(tool, what, &self.record.release)
    }
}

impl Unchecked {
    /// Compares the program with its digest.
    pub(super) fn check(&self, tool: &Tool) -> Result<()> {
        let found = measure(&self.path).doing(|| format!("read {}", self.path.display()))?;
        if found == self.expected {
            return Ok(());
        }
        let what = format!(
            "{} has {} bytes with the SHA-256 digest {} instead of {} bytes with {}",
            self.path.display(),
            found.size,
            found.sha256,
            self.expected.size,
            self.expected.sha256
        );
        Err(damaged(tool, &what, &self.release))
    }
}

fn damaged(tool: &Tool, what: &str, release: &str) -> Error {
    Error::Tool {
        tool: tool.name.to_owned(),
        reason: format!("{what}. The program came with release {release}. Unpack that release again"),
    }
}

fn measure(path: &Path) -> io::Result<Recorded> {
    Ok(Recorded { size: fs::metadata(path)?.len(), sha256: sha256_of(path)? })
}

/// Builds programs if they aren't in the cache, and writes them to `folder` as a release contains them. All of them must have
/// been built by the Go version `go`, for example `go1.26.8`, so that two builds of a release are equal.
pub fn pack(
    tools: &[&'static Tool],
    folder: &Path,
    release: &str,
    go: &str,
    progress: &dyn BuildProgress,
) -> Result<()> {
    let cache = BuildCache::open(None)?;
    let missing: Vec<_> = tools.iter().copied().filter(|tool| !cache.program(tool).is_file()).collect();
    if !missing.is_empty() {
        super::build::build(&cache, &missing, progress)?;
    }
    let mut programs = BTreeMap::new();
    for tool in tools {
        let built = cache.program(tool);
        let answer = output(Command::new("go").arg("version").arg(&built), tool.name)?;
        if answer.trim().rsplit(' ').next() != Some(go) {
            return Err(Error::Build {
                tool: tool.name.to_owned(),
                reason: format!(
                    "{} instead of {go}. Install {go}, remove the program, and try again",
                    answer.trim()
                ),
            });
        }
        let name = format!("{}/{}", tool.module.folder(), tool.name);
        let target = folder.join(&name);
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent).doing(|| format!("make {}", parent.display()))?;
        }
        fs::copy(&built, &target).doing(|| format!("write {}", target.display()))?;
        programs.insert(name, measure(&target).doing(|| format!("read {}", target.display()))?);
    }
    let record = Record { release: release.to_owned(), go: go.to_owned(), programs };
    let path = folder.join(RECORD);
    let text = serde_json::to_string_pretty(&record).unwrap_or_default();
    fs::write(&path, text + "\n").doing(|| format!("write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::progress::Quiet;
    use crate::tools::tool::{CONTROL_PLANE, KUBEADM};

    /// Writes a folder with etcd, as a release contains it.
    fn release(folder: &Path) -> Shipped {
        let name = format!("{}/etcd", CONTROL_PLANE[0].module.folder());
        let path = folder.join(&name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "program").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let programs = BTreeMap::from([(name, measure(&path).unwrap())]);
        let record = Record { release: "v0.2.0".to_owned(), go: "go1.26.8".to_owned(), programs };
        fs::write(folder.join(RECORD), serde_json::to_vec(&record).unwrap()).unwrap();
        Shipped::open(folder.to_owned()).unwrap()
    }

    #[test]
    fn a_changed_byte_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let shipped = release(folder.path());
        let etcd = &CONTROL_PLANE[0];
        let found = shipped.find(etcd, &Quiet).unwrap().unwrap();
        found.check(etcd).unwrap();

        fs::write(&found.path, "programs").unwrap();
        fs::write(&found.path, "pr0gram").unwrap();
        let changed = shipped.find(etcd, &Quiet).unwrap().unwrap();
        assert_ne!(changed.key, found.key);
        let error = changed.check(etcd).unwrap_err().to_string();
        assert!(error.starts_with("etcd: ") && error.contains(&found.expected.sha256), "{error}");
        assert!(error.ends_with("came with release v0.2.0. Unpack that release again"), "{error}");

        fs::remove_file(&found.path).unwrap();
        let error = shipped.find(etcd, &Quiet).err().unwrap().to_string();
        assert!(error.contains("cannot read") && error.contains("v0.2.0"), "{error}");
    }

    #[test]
    fn a_program_of_another_release_is_ignored_and_named() {
        #[derive(Default)]
        struct Notes(parking_lot::Mutex<Vec<String>>);
        impl BuildProgress for Notes {
            fn begin(&self, _: &str, _: usize, _: usize) {}
            fn advance(&self, _: &str, _: Option<std::time::Duration>) {}
            fn end(&self) {}
            fn note(&self, text: &str) {
                self.0.lock().push(text.to_owned());
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let mut shipped = release(folder.path());
        let (_, recorded) = shipped.record.programs.pop_first().unwrap();
        shipped.record.programs.insert("etcd-0011223344556677/etcd".to_owned(), recorded);
        let notes = Notes::default();
        assert!(shipped.find(&CONTROL_PLANE[0], &notes).unwrap().is_none());
        assert!(shipped.find(&KUBEADM, &notes).unwrap().is_none());
        let notes = notes.0.into_inner();
        assert!(notes.len() == 1 && notes[0].contains("release v0.2.0"), "{notes:?}");
    }

    #[test]
    fn a_folder_without_a_valid_list_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let refusal = |text: Option<&str>| {
            if let Some(text) = text {
                fs::write(folder.path().join(RECORD), text).unwrap();
            }
            Shipped::open(folder.path().to_owned()).unwrap_err().to_string()
        };
        assert!(refusal(None).contains("cannot read tools.json"));
        assert!(refusal(Some("{")).contains("tools.json is invalid"));
    }
}
