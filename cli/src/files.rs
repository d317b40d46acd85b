//! Files that commands read, and files and folders that only their owner can read.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use anyhow::{Context, Result};
use tempfile::NamedTempFile;

/// Reads a file.
pub fn read_text(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Reads a file, or standard input if its name is `-`.
pub fn read_text_or_input(path: &Path) -> io::Result<String> {
    if path == Path::new("-") { io::read_to_string(io::stdin()) } else { fs::read_to_string(path) }
}

/// Returns the folder of a file: `.` if its path contains none.
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Creates a folder for its owner only, with the folders above it.
pub fn create_folder(path: &Path) -> Result<()> {
    let created = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    created.with_context(|| format!("cannot create {}", path.display()))
}

/// Creates a file for its owner only, beside the one that it becomes once it is whole.
pub fn begin_file(path: &Path, prefix: &str) -> Result<NamedTempFile> {
    let folder = folder_of(path);
    let mut options = tempfile::Builder::new();
    options.prefix(prefix).permissions(fs::Permissions::from_mode(0o600));
    options.tempfile_in(folder).with_context(|| format!("cannot write in {}", folder.display()))
}

/// Writes a file that only its owner can read.
pub fn owner_only(path: &Path, content: &[u8]) -> Result<()> {
    let mut options = fs::OpenOptions::new();
    let opened = options.write(true).create(true).truncate(true).mode(0o600).open(path);
    let mut file = opened.with_context(|| format!("cannot write {}", path.display()))?;
    let mut write = || {
        // An existing file has another mode, and a device keeps its own.
        if file.metadata()?.is_file() {
            file.set_permissions(fs::Permissions::from_mode(0o600))?;
        }
        file.write_all(content)
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

/// Reads a password from a file, without the line ends after it.
pub fn read_password(file: &Path) -> Result<vsphere::Secret> {
    let text = read_text(file)?;
    Ok(vsphere::Secret::from(text).expose().trim_end_matches(['\r', '\n']).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_existing_file_becomes_its_owners_before_the_secret_is_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kubeconfig");
        fs::write(&path, "old and longer than the new text").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        owner_only(&path, b"new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        owner_only(Path::new("/dev/null"), b"new").unwrap();
        assert_ne!(fs::metadata("/dev/null").unwrap().permissions().mode() & 0o777, 0o600);
    }
}
