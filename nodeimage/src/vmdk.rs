//! Makes a stream-optimised disk the same each time: qemu-img draws the number by which it is known.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use crate::error::{Doing, Error, Result};

const SECTOR: u64 = 512;
const KEY: &[u8] = b"\nCID=";
const DIGITS: usize = 8;

/// Gives the disk a content id that follows from `seed`, a digest in hexadecimal digits.
pub(crate) fn settle_content_id(path: &Path, seed: &str) -> Result<()> {
    let file = File::options().read(true).write(true).open(path).doing("open", path)?;
    let mut descriptor = vec![0; 20 * 512];
    let read = file.read_at(&mut descriptor, SECTOR).doing("read", path)?;
    let at = content_id(&descriptor[..read]).ok_or_else(|| Error::Command {
        what: format!("read {}", path.display()),
        reason: "it has no descriptor with a CID, as qemu-img writes them".to_owned(),
    })?;
    let at = SECTOR + u64::try_from(at).unwrap_or_default();
    file.write_all_at(seed.as_bytes().get(..DIGITS).unwrap_or(b"00000001"), at).doing("write", path)
}

/// Where the eight digits of the content id are.
fn content_id(descriptor: &[u8]) -> Option<usize> {
    let at = descriptor.windows(KEY.len()).position(|window| window == KEY)? + KEY.len();
    let digits = descriptor.get(at..at + DIGITS)?;
    digits.iter().all(u8::is_ascii_hexdigit).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_content_id_changes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk.vmdk");
        let disk = |id: &str| {
            let mut disk = vec![0; 512];
            disk.extend(format!("# Disk DescriptorFile\nversion=1\nCID={id}\nparentCID=ffffffff\n").bytes());
            disk.resize(4096, 7);
            disk
        };
        std::fs::write(&path, disk("1234abcd")).unwrap();
        settle_content_id(&path, "fedcba9876").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), disk("fedcba98"));
        std::fs::write(&path, vec![0; 4096]).unwrap();
        assert!(settle_content_id(&path, "fedcba9876").is_err());
    }
}
