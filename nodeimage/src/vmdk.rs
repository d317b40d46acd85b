//! Makes a stream-optimized VMDK reproducible by replacing the random content id that qemu-img writes.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use crate::error::{Error, IoContext, Result};

const SECTOR: u64 = 512;
/// The descriptor size in bytes. The descriptor is text, padded with zeros.
const DESCRIPTOR: usize = 20 * 512;
const KEY: &[u8] = b"\nCID=";
const DIGITS: usize = 8;

/// Sets the disk's content id to the first eight digits of `seed`, a hexadecimal digest.
pub(crate) fn settle_content_id(path: &Path, seed: &str) -> Result<()> {
    let file = File::options().read(true).write(true).open(path).doing("open", path)?;
    let mut descriptor = vec![0; DESCRIPTOR];
    file.read_exact_at(&mut descriptor, SECTOR).doing("read", path)?;
    let unusable =
        |reason: &str| Error::Command { what: format!("read {}", path.display()), reason: reason.to_owned() };
    let digits = content_id(&descriptor)
        .ok_or_else(|| unusable("it has no descriptor with a CID, as qemu-img writes them"))?;
    let id = seed.as_bytes().get(..DIGITS).unwrap_or(b"00000001");
    descriptor.splice(digits, id.iter().copied());
    if descriptor.split_off(DESCRIPTOR).iter().any(|byte| *byte != 0) {
        return Err(unusable("its descriptor has no room for a longer CID"));
    }
    file.write_all_at(&descriptor, SECTOR).doing("write", path)
}

/// Returns the position of the content id's digits, or `None` if the descriptor doesn't contain them. There are one to
/// eight digits, because qemu-img omits leading zeros.
fn content_id(descriptor: &[u8]) -> Option<Range<usize>> {
    let start = descriptor.windows(KEY.len()).position(|window| window == KEY)? + KEY.len();
    let digits = descriptor.get(start..)?.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    (1..=DIGITS).contains(&digits).then_some(start..start + digits)
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
            disk.resize(512 + DESCRIPTOR, 0);
            disk.resize(512 + DESCRIPTOR + 4096, 7);
            disk
        };
        for drawn in ["1234abcd", "234abcd", "1"] {
            std::fs::write(&path, disk(drawn)).unwrap();
            settle_content_id(&path, "fedcba9876").unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), disk("fedcba98"), "{drawn}");
        }
        for unusable in [disk(""), disk("123456789"), vec![0; 512 + DESCRIPTOR]] {
            std::fs::write(&path, unusable).unwrap();
            assert!(settle_content_id(&path, "fedcba9876").is_err());
        }
    }
}
