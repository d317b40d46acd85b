//! The bundle's output file, or standard output.

use std::io::{self, IsTerminal as _, Stdout, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use jiff::Timestamp;
use tempfile::NamedTempFile;

use crate::files::begin_file;

/// The output of the bundle: a file or standard output.
pub enum Destination {
    /// A temporary file in the folder of the final path. Only its owner can read it. It is renamed when the bundle is
    /// complete.
    File {
        unfinished: NamedTempFile,
        /// The final path.
        path: PathBuf,
        /// True if an existing file may be replaced.
        force: bool,
    },
    Stdout(Stdout),
}

impl Destination {
    /// Opens the destination. `-` is standard output; `None` is a file with a generated name in the working directory.
    /// Fails if standard output is a terminal, or if the file exists and `force` isn't set.
    pub fn open(output: Option<&Path>, force: bool, is_encrypted: bool, now: Timestamp) -> Result<Self> {
        if output == Some(Path::new("-")) {
            let stdout = io::stdout();
            if stdout.is_terminal() {
                bail!("a bundle is binary: redirect standard output, or use --output-file FILE");
            }
            return Ok(Self::Stdout(stdout));
        }
        let path = output.map_or_else(|| default_name(is_encrypted, now), Path::to_owned);
        // The finished file is renamed to this path, which would replace a device.
        if path.exists() && !path.is_file() {
            bail!(
                "{} is not a file: use -o with the name of a file, or with - for standard output",
                path.display()
            );
        }
        if !force && path.exists() {
            bail!("{} exists: use another name, or --force to replace it", path.display());
        }
        let unfinished = begin_file(&path, ".layercake-bundle-")?;
        Ok(Self::File { unfinished, path, force })
    }

    /// Renames the complete file to its final path, and returns the path. For standard output, only flushes it.
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn opened(path: &str, force: bool) -> Result<Destination> {
        Destination::open(Some(Path::new(path)), force, false, Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn only_a_file_is_replaced_and_only_if_asked() {
        let refused = |path: &str, force| opened(path, force).err().unwrap().to_string();
        for path in ["/dev/null", "/tmp"] {
            assert!(refused(path, true).contains("is not a file"));
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bundle");
        let path = path.to_str().unwrap();
        std::fs::write(path, "old").unwrap();
        assert!(refused(path, false).contains("--force"));
        let mut forced = opened(path, true).unwrap();
        forced.write_all(b"new").unwrap();
        assert_eq!(std::fs::read_to_string(path).unwrap(), "old", "it is not whole yet");
        forced.finish().unwrap();
        assert_eq!(std::fs::read_to_string(path).unwrap(), "new");
        assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
        drop(opened(path, true).unwrap());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "an unfinished one is left");
    }
}
