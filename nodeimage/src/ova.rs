//! Packs the OVA: a tar archive with descriptor, manifest and disk.

use std::fs::File;
use std::io::{BufWriter, Read, Write as _};
use std::path::Path;

use plane::digest::{sha256, sha256_of};
use tar::{Builder, EntryType, Header};

use crate::error::{IoContext, Result};

/// Writes the OVA to `path`. `name` is the file name of descriptor and manifest without extension, `descriptor` is the
/// descriptor's content, `disk_file` is the disk's file name in the descriptor, and `epoch` is the timestamp for all
/// files in seconds since 1970.
pub(crate) fn write(
    path: &Path,
    name: &str,
    descriptor: &str,
    disk: &Path,
    disk_file: &str,
    epoch: i64,
) -> Result<()> {
    let manifest = format!(
        "SHA256({name}.ovf)= {}\nSHA256({disk_file})= {}\n",
        sha256(descriptor.as_bytes()),
        sha256_of(disk).doing("read", disk)?
    );
    let file = File::create(path).doing("write", path)?;
    let mut archive = Builder::new(BufWriter::new(file));
    let mut add = |name: &str, size: u64, content: &mut dyn Read| {
        let mut header = Header::new_ustar();
        header.set_entry_type(EntryType::Regular);
        header.set_mode(0o644);
        header.set_size(size);
        header.set_mtime(u64::try_from(epoch).unwrap_or_default());
        archive.append_data(&mut header, name, content).doing("write", path)
    };
    // The descriptor must come first. The disk comes last, so that readers can stream it.
    for (file, text) in [(format!("{name}.ovf"), descriptor), (format!("{name}.mf"), manifest.as_str())] {
        add(&file, text.len() as u64, &mut text.as_bytes())?;
    }
    let mut content = File::open(disk).doing("read", disk)?;
    let size = content.metadata().doing("read", disk)?.len();
    add(disk_file, size, &mut content)?;
    archive.into_inner().and_then(|mut inner| inner.flush()).doing("write", path)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_same_parts_make_the_same_file() {
        let folder = tempfile::tempdir().unwrap();
        let disk = folder.path().join("disk");
        fs::write(&disk, "disk").unwrap();
        let pack = |name: &str| {
            let path = folder.path().join(name);
            write(&path, "node", "<Envelope/>", &disk, "node-disk1.vmdk", 1_789_199_741).unwrap();
            fs::read(path).unwrap()
        };
        let packed = pack("a");
        assert_eq!(packed, pack("b"));
        let mut archive = tar::Archive::new(packed.as_slice());
        let names: Vec<_> =
            archive.entries().unwrap().map(|e| e.unwrap().path().unwrap().display().to_string()).collect();
        assert_eq!(names, ["node.ovf", "node.mf", "node-disk1.vmdk"]);
    }
}
