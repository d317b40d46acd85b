//! Files with secrets.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use anyhow::{Context, Result};

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
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
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
