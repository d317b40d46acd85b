//! The lock file, which pins every package in an image and every build tool by digest.
//!
//! Debian's archive changes. With the lock file from an earlier build, the same packages produce the same image, as
//! long as they are in the cache or still in an archive.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{Error, IoContext, Result};

/// The packages and the Go version for an image build.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lock {
    /// The operating system, such as `debian-13`.
    pub os: String,
    /// The Go version that built the programs, such as `go1.26.8`.
    pub go: String,
    /// The timestamp for all files in the image, in seconds since 1970: the date in the newest package index.
    pub epoch: i64,
    /// The packages that are installed on the node.
    pub node: Vec<DebianPackage>,
    /// The packages from which container images take files.
    pub containers: Vec<DebianPackage>,
    /// The packages with the build tools.
    pub builder: Vec<DebianPackage>,
}

/// A Debian package at a fixed version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DebianPackage {
    /// The download URI.
    pub uri: String,
    /// The file's SHA-256 digest in hexadecimal.
    pub sha256: String,
}

impl DebianPackage {
    /// Returns the file name in the URI, which contains name, version and architecture.
    pub fn file(&self) -> &str {
        self.uri.rsplit('/').next().unwrap_or(&self.uri)
    }

    /// Returns true if both fields are safe to use as file names and command arguments: the digest has 64 hexadecimal
    /// digits, and the URI is an HTTP or HTTPS URI with a `.deb` file, in printable ASCII without spaces, quotes or
    /// backslashes.
    fn is_safe(&self) -> bool {
        let digest = self.sha256.len() == 64 && self.sha256.bytes().all(|byte| byte.is_ascii_hexdigit());
        let scheme = ["http://", "https://"].iter().any(|scheme| self.uri.starts_with(scheme));
        let plain = self.uri.chars().all(|c| c.is_ascii_graphic() && !matches!(c, '\'' | '"' | '\\'));
        let deb = Path::new(self.file()).extension().is_some_and(|extension| extension == "deb");
        digest && scheme && plain && deb
    }
}

impl Lock {
    /// Reads and validates a lock file. Fails if it is for another operating system than `os`.
    pub fn read(path: &Path, os: &str) -> Result<Self> {
        let refusal = |reason: String| Error::Lock { path: path.display().to_string(), reason };
        let text = fs::read(path).doing("read", path)?;
        let lock: Self = serde_json::from_slice(&text).map_err(|error| {
            refusal(format!(
                "it cannot be read ({error}); use the file that an earlier build wrote, or build without --lock"
            ))
        })?;
        if lock.os != os {
            return Err(refusal(format!("it is for {}, but the image is for {os}", lock.os)));
        }
        let wrong = lock.all().find(|package| !package.is_safe());
        match wrong {
            None => Ok(lock),
            Some(package) => Err(refusal(format!("{:?} is not a package with its SHA-256", package.uri))),
        }
    }

    /// Returns the lock file's content in JSON.
    pub fn text(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }

    /// Returns all packages. A package can occur more than once.
    pub fn all(&self) -> impl Iterator<Item = &DebianPackage> {
        self.node.iter().chain(&self.containers).chain(&self.builder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock() -> Lock {
        let package = DebianPackage {
            uri: "http://deb.debian.org/debian/pool/main/d/dash/dash_0.5.12-12_amd64.deb".to_owned(),
            sha256: "a8".repeat(32),
        };
        Lock {
            os: "debian-13".to_owned(),
            go: "go1.26.8".to_owned(),
            epoch: 1_789_199_741,
            node: vec![package.clone()],
            containers: Vec::new(),
            builder: vec![package],
        }
    }

    #[test]
    fn a_lock_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock.json");
        fs::write(&path, lock().text()).unwrap();
        assert_eq!(Lock::read(&path, "debian-13").unwrap(), lock());
        let refusal = Lock::read(&path, "debian-14").unwrap_err().to_string();
        assert!(refusal.ends_with("it is for debian-13, but the image is for debian-14"), "{refusal}");
    }

    #[test]
    fn a_lock_that_would_run_something_else_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock.json");
        for uri in ["file:///etc/passwd", "http://x/a'b.deb", "http://x/a", "http://x/\n.deb"] {
            let mut lock = lock();
            lock.node[0].uri = uri.to_owned();
            fs::write(&path, lock.text()).unwrap();
            assert!(Lock::read(&path, "debian-13").is_err(), "{uri}");
        }
        fs::write(&path, "{}").unwrap();
        let refusal = Lock::read(&path, "debian-13").unwrap_err().to_string();
        assert!(refusal.contains("cannot be read"), "{refusal}");
    }
}
