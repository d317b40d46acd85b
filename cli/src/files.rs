//! Reads files, and creates files and folders that only their owner can read.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::Path;

use anyhow::{Context, Result};
use tempfile::NamedTempFile;

pub fn read_text(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Reads a file, or standard input if its name is `-`.
pub fn read_text_or_input(path: &Path) -> io::Result<String> {
    if path == Path::new("-") { io::read_to_string(io::stdin()) } else { fs::read_to_string(path) }
}

/// Returns the folder of a file, or `.` if the path doesn't contain one.
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Creates a folder that only its owner can access, and its missing parents.
pub fn create_folder(path: &Path) -> Result<()> {
    let created = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    created.with_context(|| format!("cannot create {}", path.display()))
}

/// Creates a temporary file beside `path`. The caller renames it to `path` when it is complete. Only its owner can read
/// it.
pub fn begin_file(path: &Path, prefix: &str) -> Result<NamedTempFile> {
    let folder = folder_of(path);
    let mut options = tempfile::Builder::new();
    options.prefix(prefix).permissions(fs::Permissions::from_mode(0o600));
    options.tempfile_in(folder).with_context(|| format!("cannot write in {}", folder.display()))
}

/// Writes a file that only its owner can read. Replaces an existing file or symlink instead of writing to it, because
/// the owner and readers of the existing file would see the secret. Writes to devices directly.
pub fn owner_only(path: &Path, content: &[u8]) -> Result<()> {
    let failed = || format!("cannot write {}", path.display());
    if is_device(path) {
        let mut device = fs::OpenOptions::new().write(true).open(path).with_context(failed)?;
        return device.write_all(content).with_context(failed);
    }
    let mut file = begin_file(path, ".layercake-")?;
    file.write_all(content).with_context(failed)?;
    file.persist(path).map(drop).with_context(failed)
}

/// Returns true for paths in folders with devices and open files, such as `/dev/stdout`. Only root can create files in
/// these folders.
fn is_device(path: &Path) -> bool {
    ["/dev", "/dev/fd", "/proc/self/fd"].iter().any(|folder| folder_of(path) == Path::new(folder))
}

/// Reads a password from a file, without trailing line breaks.
pub fn read_password(file: &Path) -> Result<vsphere::Secret> {
    let text = read_text(file)?;
    Ok(vsphere::Secret::from(text).expose().trim_end_matches(['\r', '\n']).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_never_written_into_a_file_that_exists() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kubeconfig");
        let (kept, behind) = (folder.path().join("kept"), folder.path().join("behind"));
        let is_private = |path: &Path| {
            let found = fs::symlink_metadata(path).unwrap();
            assert!(found.is_file() && found.permissions().mode() & 0o777 == 0o600);
            fs::read_to_string(path).unwrap()
        };
        // The creator of the file may still have it open, or hard-linked.
        fs::write(&path, "old and longer than the new text").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        fs::hard_link(&path, &kept).unwrap();
        owner_only(&path, b"new").unwrap();
        assert_eq!(is_private(&path), "new");
        assert_eq!(fs::read_to_string(&kept).unwrap(), "old and longer than the new text");
        fs::remove_file(&path).unwrap();
        fs::write(&behind, "another's").unwrap();
        std::os::unix::fs::symlink(&behind, &path).unwrap();
        owner_only(&path, b"new").unwrap();
        assert_eq!(is_private(&path), "new");
        assert_eq!(fs::read_to_string(&behind).unwrap(), "another's");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3, "nothing else is left");
    }

    #[test]
    fn a_device_stays_what_it_is() {
        owner_only(Path::new("/dev/null"), b"new").unwrap();
        assert_ne!(fs::metadata("/dev/null").unwrap().permissions().mode() & 0o777, 0o600);
        assert!(is_device(Path::new("/dev/stdout")) && !is_device(Path::new("/dev/shm/file")));
    }
}
