//! The file that a bundle becomes, or standard output.

use std::fs::Permissions;
use std::io::{self, IsTerminal as _, Stdout, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use jiff::Timestamp;
use tempfile::NamedTempFile;

/// Where the bundle's bytes go.
pub enum Destination {
    /// A file beside the one that it becomes once it is whole; only its owner can read it.
    File {
        /// The unfinished file.
        unfinished: NamedTempFile,
        /// What it becomes.
        path: PathBuf,
        /// Whether a file of that name is replaced.
        force: bool,
    },
    /// Standard output.
    Stdout(Stdout),
}

impl Destination {
    /// Opens the destination: `-` is standard output, `None` a file in this folder with a name of its own.
    pub fn open(output: Option<&Path>, force: bool, is_encrypted: bool, now: Timestamp) -> Result<Self> {
        if output == Some(Path::new("-")) {
            let stdout = io::stdout();
            if stdout.is_terminal() {
                bail!("a bundle is no text: redirect standard output, or give -o FILE");
            }
            return Ok(Self::Stdout(stdout));
        }
        let path = output.map_or_else(|| default_name(is_encrypted, now), Path::to_owned);
        if path.is_dir() {
            bail!("{} is a folder: give -o a file's name", path.display());
        }
        if !force && path.exists() {
            bail!("{} exists: give another name, or --force to replace it", path.display());
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let unfinished = tempfile::Builder::new()
            .prefix(".layercake-bundle-")
            .permissions(Permissions::from_mode(0o600))
            .tempfile_in(folder)
            .with_context(|| format!("cannot write in {}", folder.display()))?;
        Ok(Self::File { unfinished, path, force })
    }

    /// Gives the whole bundle its name, and returns it.
    pub fn finish(self) -> Result<String> {
        match self {
            Self::Stdout(mut stdout) => {
                stdout.flush().context("cannot write to standard output")?;
                Ok("standard output".to_owned())
            }
            Self::File { unfinished, path, force } => {
                unfinished
                    .as_file()
                    .sync_all()
                    .with_context(|| format!("cannot write {}", path.display()))?;
                let named =
                    if force { unfinished.persist(&path) } else { unfinished.persist_noclobber(&path) };
                named.map_err(|error| anyhow!("cannot write {}: {}", path.display(), error.error))?;
                Ok(path.display().to_string())
            }
        }
    }
}

fn default_name(is_encrypted: bool, now: Timestamp) -> PathBuf {
    let suffix = if is_encrypted { ".age" } else { "" };
    format!("layercake-bundle-{}.tar.gz{suffix}", now.strftime("%Y%m%dT%H%M%SZ")).into()
}

impl Write for Destination {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::File { unfinished, .. } => unfinished.write(bytes),
            Self::Stdout(stdout) => stdout.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::File { unfinished, .. } => unfinished.flush(),
            Self::Stdout(stdout) => stdout.flush(),
        }
    }
}
