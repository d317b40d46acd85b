//! Creates the machines' disk files: copy-on-write overlays on images, and empty disks.

use std::fs;
use std::path::{Path, PathBuf};

use super::error::Error;
use super::host::run;
use crate::vcsim::control::VmDisk;

/// The folder with all disk files. The files are named by disk UUID, so a disk keeps its content while it is detached.
#[derive(Clone, Debug)]
pub struct Disks {
    folder: PathBuf,
    qemu_img: PathBuf,
}

impl Disks {
    /// Stores disk files in `folder`, which is created if it doesn't exist. `qemu_img` is the path to the program.
    pub fn in_folder(folder: PathBuf, qemu_img: PathBuf) -> Result<Self, Error> {
        fs::create_dir_all(&folder).map_err(Error::at(&folder))?;
        Ok(Self { folder, qemu_img })
    }

    /// Returns the path to a disk's file. The file doesn't have to exist yet.
    pub fn path(&self, disk: &VmDisk) -> PathBuf {
        let name: String = disk.uuid.chars().filter(char::is_ascii_alphanumeric).collect();
        self.folder.join(format!("{name}.qcow2"))
    }

    /// Creates the disk file as an overlay on `base`, or as an empty disk if `base` is `None`. If the file exists, only
    /// resizes it. Returns its path.
    pub async fn ensure(&self, disk: &VmDisk, base: Option<&Path>) -> Result<PathBuf, Error> {
        let path = self.path(disk);
        let size = format!("{}M", disk.capacity_mib);
        let file = path.display().to_string();
        let failed = |why| Error::Machine { vm: disk.uuid.clone(), why };
        if path.exists() {
            run(&self.qemu_img, ["resize", "-q", &file, &size]).await.map_err(failed)?;
            return Ok(path);
        }
        // Create the file under a temporary name, so that an incomplete file is never used.
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
