//! Images that machines boot: the files of `layercake image build`.

use std::fs;
use std::path::{Path, PathBuf};

/// A file of a node image is missing or is none.
#[derive(Debug, thiserror::Error)]
#[error("node image {}: {why}. `layercake image build` makes all files of one in a folder", path.display())]
pub struct ImageError {
    /// The file.
    path: PathBuf,
    /// What is wrong.
    why: String,
}

/// A node image that machines can be started from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootImage {
    /// The name of its item in a content library, by which the names of all its files begin.
    pub name: String,
    /// The disk that machines' disks are copies of.
    pub disk: PathBuf,
    /// Its kernel.
    pub kernel: PathBuf,
    /// Its initial file system.
    pub initrd: PathBuf,
    /// The kernel's command line.
    pub command_line: String,
    /// Its OVF descriptor.
    pub descriptor: String,
}

impl BootImage {
    /// The image of that OVA, whose other files lie beside it.
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

/// The OVF descriptor, which is an OVA's first file.
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
