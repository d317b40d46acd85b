//! The cache folder, with one folder per Go module and version. All of a user's stacks share the cache.

use std::fs::{self, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::module::Module;
use super::progress::BuildProgress;
use super::tool::Tool;
use crate::error::{Error, OperationContext, Result};

#[derive(Debug, Clone)]
pub(super) struct BuildCache {
    root: PathBuf,
}

/// Returns the user's cache folder: `$LAYERCAKE_CACHE`, or `layercake` in the system's cache folder.
pub fn folder() -> Result<PathBuf> {
    let from_env = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = from_env("LAYERCAKE_CACHE")
        .or_else(|| Some(from_env("XDG_CACHE_HOME")?.join("layercake")))
        .or_else(|| Some(from_env("HOME")?.join(".cache/layercake")))
        .ok_or_else(|| Error::Tool {
            tool: "the cache of programs".to_owned(),
            reason: "neither LAYERCAKE_CACHE nor HOME is set; set LAYERCAKE_CACHE to a folder".to_owned(),
        })?;
    std::path::absolute(&folder).doing(|| format!("find {}", folder.display()))
}

impl BuildCache {
    /// Opens the cache in the given folder, or in the user's cache folder. Doesn't create it.
    pub(super) fn open(given: Option<PathBuf>) -> Result<Self> {
        let root = given.map_or_else(folder, Ok)?;
        let root = std::path::absolute(&root).doing(|| format!("find {}", root.display()))?;
        Ok(Self { root: root.join("tools") })
    }

    /// Returns the folder for a module's programs.
    pub(super) fn folder(&self, module: &Module) -> PathBuf {
        self.root.join(module.folder())
    }

    /// Returns the path to a program after its build.
    pub(super) fn program(&self, tool: &Tool) -> PathBuf {
        self.folder(tool.module).join(tool.name)
    }

    /// Returns the path to the file that stores the results of version checks. Only programs outside the cache are
    /// checked.
    pub(super) fn notes(&self) -> PathBuf {
        self.root.join("versions.json")
    }

    /// Creates the cache folder, readable only by its owner.
    pub(super) fn make(&self) -> Result<()> {
        make_private(&self.root)
    }

    /// Locks the cache. Waits until other processes have finished building. Dropping the returned file releases the lock.
    pub(super) fn lock(&self, progress: &dyn BuildProgress) -> Result<File> {
        self.make()?;
        let path = self.root.join("lock");
        let file = File::create(&path).doing(|| format!("make {}", path.display()))?;
        if file.try_lock().is_err() {
            progress.note("waiting for another build of the same programs");
            file.lock().doing(|| format!("lock {}", path.display()))?;
        }
        Ok(file)
    }
}

/// Creates a folder and its parents. New folders are readable only by their owner.
pub(super) fn make_private(folder: &Path) -> Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .doing(|| format!("make {}", folder.display()))
}
