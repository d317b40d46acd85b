//! The cache folder: one folder per Go module and version, shared by all of a user's stacks.

use std::fs::{self, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::module::Module;
use super::progress::Progress;
use super::tool::Tool;
use crate::error::{Doing, Error, Result};

#[derive(Debug, Clone)]
pub(super) struct Cache {
    root: PathBuf,
}

/// The user's cache folder: `$LAYERCAKE_CACHE`, else `layercake` in the system's folder for caches.
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

impl Cache {
    /// Opens the folder given, else the user's.
    pub(super) fn open(given: Option<PathBuf>) -> Result<Self> {
        let root = given.map_or_else(folder, Ok)?;
        let root = std::path::absolute(&root).doing(|| format!("find {}", root.display()))?;
        Ok(Self { root: root.join("tools") })
    }

    /// Where the programs of a module are kept.
    pub(super) fn folder(&self, module: &Module) -> PathBuf {
        self.root.join(module.folder())
    }

    /// Where a program is kept once it is built.
    pub(super) fn program(&self, tool: &Tool) -> PathBuf {
        self.folder(tool.module).join(tool.name)
    }

    /// Where it is noted which programs outside the cache have which version.
    pub(super) fn notes(&self) -> PathBuf {
        self.root.join("versions.json")
    }

    /// Makes the folder, readable by its owner only.
    pub(super) fn make(&self) -> Result<()> {
        make_private(&self.root)
    }

    /// Waits until nobody else builds here; the lock goes with the file.
    pub(super) fn lock(&self, progress: &dyn Progress) -> Result<File> {
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

/// Makes a folder and its parents, readable by their owner only where they are new.
pub(super) fn make_private(folder: &Path) -> Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .doing(|| format!("make {}", folder.display()))
}
