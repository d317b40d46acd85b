//! Free file system space.

use std::io;
use std::path::Path;

/// The free space below which a file system counts as full, in bytes.
pub const FULL_BYTES: u64 = 1 << 20;

/// Returns the number of bytes that this user can still write to the file system of `path`.
///
/// # Errors
/// Returns an error if the path doesn't exist.
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    let found = rustix::fs::statvfs(path)?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_has_space_and_a_missing_path_has_none() {
        assert!(free_bytes(&std::env::temp_dir()).is_ok());
        assert!(free_bytes(Path::new("/no/such/folder")).is_err());
    }
}
