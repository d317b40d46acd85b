//! A running stack: its mark, which identifies its processes, and its folder, which holds all its files.

use std::fs::{self, DirBuilder, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{Error, OperationContext, Result};
use crate::members;

pub use crate::mark::{MARK, NAME};

/// The identity and the folder of a stack. All its processes share both.
#[derive(Debug)]
pub struct StackIdentity {
    id: String,
    folder: PathBuf,
    ephemeral: bool,
    /// The lock that keeps other stacks out of a kept folder for as long as this stack runs.
    _lock: Option<File>,
}

impl StackIdentity {
    /// Creates a stack in a new folder under the system's temporary folder. Its guard deletes the folder at the end.
    pub fn ephemeral() -> Result<Self> {
        let id = new_id();
        let parent = std::env::temp_dir();
        let parent = fs::canonicalize(&parent).doing(|| format!("find {}", parent.display()))?;
        let folder = parent.join(format!("layercake-{id}"));
        DirBuilder::new().mode(0o700).create(&folder).doing(|| format!("make {}", folder.display()))?;
        Ok(Self { id, folder, ephemeral: true, _lock: None })
    }

    /// Opens a stack that keeps its data in `folder`, and resumes from existing data. Kills processes that an earlier
    /// run left behind. Fails if another stack uses the folder.
    pub fn kept(folder: &Path) -> Result<Self> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .and_then(|()| fs::set_permissions(folder, fs::Permissions::from_mode(0o700)))
            .doing(|| format!("make {}", folder.display()))?;
        let folder = fs::canonicalize(folder).doing(|| format!("find {}", folder.display()))?;
        let lock = lock(&folder)?;
        let kept = kept_id(&folder)?;
        // Remaining processes have lost their parent and their guard, and would keep the data in use.
        members::end(|mark| mark.starts_with(kept.as_bytes()));
        // The previous run's guard may still be active. The new suffix hides this run's processes from that guard.
        let id = format!("{kept}.{}", new_id());
        Ok(Self { id, folder, ephemeral: false, _lock: Some(lock) })
    }

    /// Returns the stack's ID, which is the value of [`MARK`] in the environment of its processes.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the folder for all the stack's files. Only its owner can read it.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns true if the folder is deleted when the stack ends.
    pub fn is_ephemeral(&self) -> bool {
        self.ephemeral
    }

    /// Returns a subfolder in the stack's folder. Creates it if it doesn't exist.
    pub fn subfolder(&self, name: &str) -> Result<PathBuf> {
        let folder = self.folder.join(name);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder)
            .doing(|| format!("make {}", folder.display()))?;
        Ok(folder)
    }
}

fn new_id() -> String {
    format!("{:016x}", rand::random::<u64>())
}

/// Returns the mark prefix that all runs in a kept folder share. Generates it on the first run.
fn kept_id(folder: &Path) -> Result<String> {
    let path = folder.join("id");
    match fs::read_to_string(&path) {
        Ok(id) if id.len() == 16 => Ok(id),
        _ => {
            let id = new_id();
            write_private(&path, id.as_bytes())?;
            Ok(id)
        }
    }
}

/// Locks a kept folder. The kernel releases the lock when the process that holds it ends, even if it is killed.
fn lock(folder: &Path) -> Result<File> {
    let path = folder.join("lock");
    let mut file = File::options()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .mode(0o600)
        .open(&path)
        .doing(|| format!("open {}", path.display()))?;
    // A child shares the lock until it executes its program, and an exiting process holds the lock for a moment. Retry
    // for about 1 s.
    let is_free = (0..20).any(|look| {
        if look > 0 {
            std::thread::sleep(Duration::from_millis(50));
        }
        file.try_lock().is_ok()
    });
    if !is_free {
        let mut owner = String::new();
        let _ = file.read_to_string(&mut owner);
        return Err(Error::InUse { folder: folder.to_owned(), owner });
    }
    file.set_len(0)
        .and_then(|()| file.seek(SeekFrom::Start(0)))
        .and_then(|_| write!(file, "{}", std::process::id()))
        .doing(|| format!("write {}", path.display()))?;
    Ok(file)
}

/// Writes a file atomically, readable only by its owner. Replaces an existing file or symlink instead of writing into it.
pub fn write_private(path: &Path, content: &[u8]) -> Result<()> {
    let unfinished = path.with_extension("unfinished");
    // An interrupted write leaves this file behind.
    let _ = fs::remove_file(&unfinished);
    let written = File::options()
        .create_new(true)
        .write(true)
        .mode(0o600)
        .open(&unfinished)
        .and_then(|mut file| file.write_all(content).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&unfinished, path));
    written.doing(|| format!("write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_folder_has_one_user_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("data");
        let first = StackIdentity::kept(&inner).unwrap();
        let refusal = StackIdentity::kept(&inner).unwrap_err().to_string();
        assert!(refusal.contains(&format!("process {}", std::process::id())), "{refusal}");
        drop(first);
        assert!(!StackIdentity::kept(&inner).unwrap().is_ephemeral());
    }

    #[tokio::test]
    async fn a_resumed_folder_is_rid_of_its_old_processes() {
        let folder = tempfile::tempdir().unwrap();
        let first = StackIdentity::kept(folder.path()).unwrap();
        let sleeper = crate::process::Command::new(&first, "sleeper", Path::new("/bin/sleep")).unwrap();
        let process = sleeper.arg("1000").spawn().unwrap();
        drop(first);
        let second = StackIdentity::kept(folder.path()).unwrap();
        assert!(!process.wait().await.success());
        drop(second);
    }

    #[test]
    fn what_is_written_is_private() {
        let stack = StackIdentity::ephemeral().unwrap();
        let file = stack.subfolder("pki").unwrap().join("key");
        write_private(&file, b"old").unwrap();
        write_private(&file, b"new").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"new");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&file), mode(stack.folder())), (0o600, 0o700));
        let outside = stack.folder().join("outside");
        fs::write(&outside, "kept").unwrap();
        std::os::unix::fs::symlink(&outside, file.with_extension("unfinished")).unwrap();
        write_private(&file, b"newest").unwrap();
        assert_eq!(
            (fs::read(&file).unwrap(), fs::read(&outside).unwrap()),
            (b"newest".into(), b"kept".into())
        );
        fs::remove_dir_all(stack.folder()).unwrap();
    }
}
