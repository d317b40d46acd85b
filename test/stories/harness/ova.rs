//! Small node images to import, with a real image's descriptor but without its content.

use std::fs::File;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use support::vcsim::empty_disk;

/// The descriptor that `layercake image build` writes.
const DESCRIPTOR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../nodeimage/src/testdata/node.ovf");

/// Writes a small OVA into a folder: the descriptor, changed by `edit`, and an empty disk.
pub fn pack(folder: &Path, edit: impl Fn(String) -> String) -> PathBuf {
    let disk = empty_disk();
    let size = format!("ovf:size=\"{}\"", disk.len());
    let ovf = std::fs::read_to_string(DESCRIPTOR).unwrap();
    let ovf = edit(ovf.replace("ovf:size=\"1234\"", &size));
    let digest = |bytes: &[u8]| {
        Sha256::digest(bytes).iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"))
    };
    let manifest =
        format!("SHA256(node.ovf)= {}\nSHA256(disk.vmdk)= {}\n", digest(ovf.as_bytes()), digest(&disk));
    let path = folder.join("node.ova");
    let mut archive = tar::Builder::new(File::create(&path).unwrap());
    for (name, bytes) in
        [("node.ovf", ovf.as_bytes()), ("node.mf", manifest.as_bytes()), ("disk.vmdk", &*disk)]
    {
        let mut header = tar::Header::new_ustar();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, name, bytes).unwrap();
    }
    archive.finish().unwrap();
    path
}
