//! Node images that QEMU machines boot: the files that `layercake image build` writes.

use std::fs;
use std::path::{Path, PathBuf};

/// The error for a missing or invalid node image file.
#[derive(Debug, thiserror::Error)]
#[error("node image {}: {why}. `layercake image build` makes all files of one in a folder", path.display())]
pub struct ImageError {
    path: PathBuf,
    why: String,
}

/// A node image that QEMU can boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootImage {
    /// The content library item name, which is also the prefix of all file names.
    pub name: String,
    /// The qcow2 base image for the machines' copy-on-write disks.
    pub disk: PathBuf,
    /// The path to the Linux kernel (`vmlinuz`).
    pub kernel: PathBuf,
    /// The path to the initial RAM disk.
    pub initrd: PathBuf,
    /// The kernel command line, without surrounding whitespace.
    pub command_line: String,
    /// The OVF descriptor (XML).
    pub descriptor: String,
}

impl BootImage {
    /// Opens the image that belongs to an OVA. The image's other files must be in the same folder as the OVA.
    pub fn open(ova: &Path) -> Result<Self, ImageError> {
        let wrong = |path: &Path, why: &str| ImageError { path: path.to_owned(), why: why.to_owned() };
        let ova = fs::canonicalize(ova).map_err(|error| wrong(ova, &error.to_string()))?;
        let name = ova.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(".ova"));
        let name = name.ok_or_else(|| wrong(&ova, "its name does not end in .ova"))?.to_owned();
        let beside = |kind: &str| {
            let path = ova.with_file_name(format!("{name}.{kind}"));
            if path.is_file() { Ok(path) } else { Err(wrong(&path, "it is not there")) }
        };
        let command_line = beside("cmdline")?;
        let command_line =
            fs::read_to_string(&command_line).map_err(|error| wrong(&command_line, &error.to_string()))?;
        Ok(Self {
            disk: beside("qcow2")?,
            kernel: beside("vmlinuz")?,
            initrd: beside("initrd")?,
            command_line: command_line.trim().to_owned(),
            descriptor: descriptor(&ova).map_err(|why| wrong(&ova, &why))?,
            name,
        })
    }
}

/// Reads the OVF descriptor, which must be the first file in the OVA.
fn descriptor(ova: &Path) -> Result<String, String> {
    let file = fs::File::open(ova).map_err(|error| error.to_string())?;
    let mut archive = tar::Archive::new(file);
    let first = archive.entries().and_then(|mut entries| entries.next().transpose());
    let mut first = first.map_err(|error| error.to_string())?.ok_or("it is empty")?;
    let is_descriptor = first.path().is_ok_and(|path| path.extension().is_some_and(|kind| kind == "ovf"));
    if !is_descriptor {
        return Err("its first file is no OVF descriptor".to_owned());
    }
    let mut text = String::new();
    std::io::Read::read_to_string(&mut first, &mut text).map_err(|error| error.to_string())?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_has_all_its_files_beside_its_ova() {
        let folder = tempfile::tempdir().unwrap();
        let ova = folder.path().join("node.ova");
        let mut archive = tar::Builder::new(fs::File::create(&ova).unwrap());
        let mut header = tar::Header::new_gnu();
        header.set_size(11);
        archive.append_data(&mut header, "node.ovf", &b"<Envelope/>"[..]).unwrap();
        archive.finish().unwrap();
        for kind in ["cmdline", "qcow2", "vmlinuz", "initrd"] {
            let missing = BootImage::open(&ova).unwrap_err().to_string();
            assert!(missing.contains(&format!("node.{kind}: it is not there")), "{missing}");
            fs::write(folder.path().join(format!("node.{kind}")), "root=LABEL=root\n").unwrap();
        }
        let image = BootImage::open(&ova).unwrap();
        assert_eq!((image.name.as_str(), image.command_line.as_str()), ("node", "root=LABEL=root"));
        assert_eq!(image.descriptor, "<Envelope/>");
        assert!(BootImage::open(&folder.path().join("node.qcow2")).is_err());
    }
}
