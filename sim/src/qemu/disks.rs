//! The files of machines' disks: copies on write of images, and empty ones.

use std::fs;
use std::path::{Path, PathBuf};

use super::error::Error;
use super::host::run;
use crate::vcsim::control::VmDisk;

/// The folder of all disks, each known by its UUID: one that is detached keeps what is in it.
#[derive(Clone, Debug)]
pub struct Disks {
    folder: PathBuf,
    qemu_img: PathBuf,
}

impl Disks {
    /// The disks in `folder`.
    pub fn in_folder(folder: PathBuf, qemu_img: PathBuf) -> Result<Self, Error> {
        fs::create_dir_all(&folder).map_err(Error::at(&folder))?;
        Ok(Self { folder, qemu_img })
    }

    /// Where the disk is.
    pub fn path(&self, disk: &VmDisk) -> PathBuf {
        let name: String = disk.uuid.chars().filter(char::is_ascii_alphanumeric).collect();
        self.folder.join(format!("{name}.qcow2"))
    }

    /// The disk is there and as large as it is to be: a copy on write of `base`, or empty.
    pub async fn ensure(&self, disk: &VmDisk, base: Option<&Path>) -> Result<PathBuf, Error> {
        let path = self.path(disk);
        let size = format!("{}M", disk.capacity_mib);
        let file = path.display().to_string();
        let failed = |why| Error::Machine { vm: disk.uuid.clone(), why };
        if path.exists() {
            run(&self.qemu_img, ["resize", "-q", &file, &size]).await.map_err(failed)?;
            return Ok(path);
        }
        // Under another name first: one that is half made is none.
        let unfinished = format!("{file}.unfinished");
        let mut args = vec!["create", "-q", "-f", "qcow2"];
        let base = base.map(|base| base.display().to_string());
        if let Some(base) = &base {
            args.extend(["-F", "qcow2", "-b", base]);
        }
        args.extend([unfinished.as_str(), &size]);
        run(&self.qemu_img, args).await.map_err(failed)?;
        fs::rename(&unfinished, &path).map_err(Error::at(&path))?;
        Ok(path)
    }
}
