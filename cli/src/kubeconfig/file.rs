//! Changes a user's kubeconfig file in the same way as kubectl.

use std::ffi::OsStr;
use std::fs;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use crate::files::folder_of;
use crate::terminal::exit::ExitStatus;

/// The time to wait for another program that changes the file.
const PATIENCE: Duration = Duration::from_secs(5);
const INTERVAL: Duration = Duration::from_millis(100);

/// Returns the file to which kubectl adds entries. Order of precedence: the flag's file, the variable's first existing
/// file, the variable's last file, the file in the home folder. Returns `None` if none of them is known.
pub fn writable(flag: Option<&Path>, variable: Option<&OsStr>, home: Option<PathBuf>) -> Option<PathBuf> {
    if let Some(flag) = flag {
        return Some(flag.to_owned());
    }
    let named: Vec<_> = variable.map(std::env::split_paths).into_iter().flatten().collect();
    let named: Vec<_> = named.into_iter().filter(|path| !path.as_os_str().is_empty()).collect();
    let existing = named.iter().find(|path| path.exists()).or(named.last());
    existing.cloned().or_else(|| home.map(|home| home.join(".kube/config")))
}

/// Changes the file while holding kubectl's lock. Creates a missing file with access for its owner only.
pub async fn change(path: &Path, change: impl FnOnce(&mut Value) -> Result<()>) -> Result<()> {
    // Keep a symlink and replace its target.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = folder_of(&path);
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let _lock = Lock::take(&path, PATIENCE).await?;
    let mut config = match fs::read_to_string(&path) {
        Ok(text) if !text.trim().is_empty() => read(&path, &text)?,
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("cannot read {}", path.display()));
        }
        _ => json!({ "apiVersion": "v1", "kind": "Config" }),
    };
    change(&mut config)?;
    let text = serde_saphyr::to_string(&config).context("cannot write YAML")?;
    let written = || -> std::io::Result<()> {
        // Only its owner can read the temporary file.
        let mut file = NamedTempFile::new_in(folder)?;
        file.write_all(text.as_bytes())?;
        file.as_file().sync_all()?;
        file.persist(&path)?;
        Ok(())
    };
    written().with_context(|| format!("cannot write {}", path.display()))
}

fn read(path: &Path, text: &str) -> Result<Value> {
    let config = serde_saphyr::from_str::<Value>(text).ok().filter(Value::is_object);
    let refused = || {
        ExitStatus::Refused.error(format!(
            "{} is no kubeconfig, and was not changed. Pass another file with --kubeconfig, or print the kubeconfig without --merge",
            path.display()
        ))
    };
    config.ok_or_else(refused)
}

/// The lock that client-go uses: a file beside the kubeconfig.
struct Lock(PathBuf);

impl Lock {
    async fn take(path: &Path, patience: Duration) -> Result<Self> {
        let mut name = path.as_os_str().to_owned();
        name.push(".lock");
        let lock = PathBuf::from(name);
        let taken = plane::wait::poll(patience, INTERVAL, async || {
            match fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&lock) {
                Ok(_) => Ok(Some(())),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(None),
                Err(error) => Err(error),
            }
        });
        let taken = taken.await.with_context(|| format!("cannot create {}", lock.display()))?;
        taken.map(|()| Self(lock.clone())).ok_or_else(|| {
            ExitStatus::Refused.error(format!(
                "another program changes {}: {} exists. If no such program runs, delete that file",
                path.display(),
                lock.display()
            ))
        })
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_file_is_the_one_that_kubectl_changes() {
        let folder = tempfile::tempdir().unwrap();
        let [one, two] = ["one", "two"].map(|name| folder.path().join(name));
        let list = std::env::join_paths([&one, &two]).unwrap();
        let home = || Some(PathBuf::from("/home/ann"));
        assert_eq!(writable(Some(&two), Some(&list), home()).as_ref(), Some(&two));
        assert_eq!(writable(None, Some(&list), home()).as_ref(), Some(&two));
        fs::write(&one, "").unwrap();
        assert_eq!(writable(None, Some(&list), home()).as_ref(), Some(&one));
        assert_eq!(writable(None, Some(OsStr::new("")), home()), Some("/home/ann/.kube/config".into()));
        assert_eq!(writable(None, None, None), None);
    }

    #[tokio::test]
    async fn a_file_is_created_for_its_owner_and_changed_in_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/config");
        let set = |member: &'static str, value: &'static str| {
            move |config: &mut Value| {
                config[member] = value.into();
                Ok(())
            }
        };
        change(&path, set("current-context", "a")).await.unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        change(&link, set("other", "b")).await.unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(serde_saphyr::from_str::<Value>(&text).unwrap()["current-context"], "a");
        assert_eq!(serde_saphyr::from_str::<Value>(&text).unwrap()["other"], "b");
        let left: Vec<_> = fs::read_dir(path.parent().unwrap()).unwrap().collect();
        assert_eq!(left.len(), 1);
    }

    #[tokio::test]
    async fn what_is_no_kubeconfig_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        fs::write(&path, "- a list").unwrap();
        let refused = change(&path, |_| Ok(())).await.unwrap_err();
        assert!(refused.to_string().contains("is no kubeconfig"), "{refused}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "- a list");
    }

    #[tokio::test]
    async fn a_lock_that_stays_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        let lock = folder.path().join("config.lock");
        fs::write(&lock, "").unwrap();
        let refused = Lock::take(&path, Duration::ZERO).await.err().unwrap();
        assert!(refused.to_string().contains("config.lock exists"), "{refused}");
        assert!(lock.exists());
    }
}
