//! A VM's disk: a folder that holds the guest's files under their guest paths and survives reboots.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::cloud_config::CloudConfigFile;
use super::failure::{Failure, Reason};
use crate::vcsim::control::VmDisk;

/// The result of a completed first boot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirstBootResult {
    /// The ID of the instance that cloud-init set up. A different ID causes another first boot.
    pub instance_id: String,
    pub node_name: String,
    /// The kubelet version.
    pub kubernetes_version: String,
    pub control_plane: bool,
}

/// A guest's disk. It is a folder on this host that contains the guest's files.
///
/// Only the owner can access the files, whatever modes the guest sets, because the files include the cluster's keys.
#[derive(Clone, Debug)]
pub struct Disk {
    root: PathBuf,
    devices: Arc<[VmDisk]>,
}

const INSTALLED: &str = "/var/lib/cloud/instance/boot-finished.json";

impl Disk {
    /// Opens the disk in a folder, and creates the folder if it doesn't exist.
    pub fn at(root: PathBuf) -> Result<Self, Failure> {
        let disk = Self { root, devices: Arc::default() };
        fs::create_dir_all(&disk.root)
            .and_then(|()| fs::set_permissions(&disk.root, fs::Permissions::from_mode(0o700)))
            .map_err(|error| Failure::host("make the disk's folder", &error))?;
        Ok(disk)
    }

    /// Sets the VM's disks. The boot disk must be the first one.
    #[must_use]
    pub fn with_devices(self, devices: &[VmDisk]) -> Self {
        Self { devices: devices.into(), ..self }
    }

    /// Returns the VM's disks.
    pub fn devices(&self) -> &[VmDisk] {
        &self.devices
    }

    /// Translates a guest path to a path on this host.
    pub fn path(&self, guest_path: &str) -> PathBuf {
        self.root.join(guest_path.trim_start_matches('/'))
    }

    /// Returns the disk's folder on this host.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Starts a boot: unmounts all volumes, empties `/run` and `/tmp`, and loads trusted CAs and udev rules.
    pub fn boot(&self) -> Result<(), Failure> {
        self.unmount_all()?;
        for volatile in ["/run", "/tmp"] {
            match fs::remove_dir_all(self.path(volatile)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(Failure::host("empty /run", &error));
                }
                _ => self.make_folder(volatile)?,
            }
        }
        self.read_authorities()?;
        self.reload_udev_rules()
    }

    /// Creates a folder and its parents.
    pub fn make_folder(&self, guest_path: &str) -> Result<(), Failure> {
        fs::create_dir_all(self.path(guest_path))
            .map_err(|error| Failure::new(Reason::WriteFile, format!("{guest_path}: {}", error.kind())))
    }

    /// Writes a file from the cloud-config.
    pub fn write_file(&self, file: &CloudConfigFile) -> Result<(), Failure> {
        let mut content = file.bytes()?;
        if file.append == Some(true) {
            let mut all = fs::read(self.path(&file.path)).unwrap_or_default();
            all.append(&mut content);
            content = all;
        }
        // Drop the permissions for group and others: the guest's users aren't this host's users.
        self.write_with(&file.path, &content, file.mode()? & 0o700)
    }

    /// Writes a file that only its owner can read.
    pub fn write(&self, guest_path: &str, content: impl AsRef<[u8]>) -> Result<(), Failure> {
        self.write_with(guest_path, content.as_ref(), 0o600)
    }

    fn write_with(&self, guest_path: &str, content: &[u8], mode: u32) -> Result<(), Failure> {
        let path = self.path(guest_path);
        let failed = |error: std::io::Error| {
            Failure::new(Reason::WriteFile, format!("{guest_path}: {}", error.kind()))
        };
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&path)
            .map_err(failed)?;
        file.write_all(content).map_err(failed)?;
        file.set_permissions(fs::Permissions::from_mode(mode | 0o600)).map_err(failed)
    }

    /// Reads a text file. Returns `None` if it can't be read.
    pub fn read(&self, guest_path: &str) -> Option<String> {
        fs::read_to_string(self.path(guest_path)).ok()
    }

    /// Returns true if the path exists.
    pub fn has(&self, guest_path: &str) -> bool {
        self.path(guest_path).exists()
    }

    /// Records that the first boot is complete.
    pub fn finish(&self, installed: &FirstBootResult) -> Result<(), Failure> {
        let text =
            serde_json::to_string(installed).map_err(|error| Failure::host("remember the boot", &error))?;
        self.write(INSTALLED, text)
    }

    /// Returns the result of the first boot, or `None` if the first boot isn't complete.
    pub fn installed(&self) -> Option<FirstBootResult> {
        serde_json::from_str(&self.read(INSTALLED)?).ok()
    }

    /// Deletes the disk.
    pub fn erase(self) -> std::io::Result<()> {
        fs::remove_dir_all(&self.root)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_keeps_its_files_and_loses_run() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::at(folder.path().join("vm")).unwrap();
        disk.boot().unwrap();
        let file = |path: &str, content: &str, append| CloudConfigFile {
            path: path.into(),
            content: content.into(),
            permissions: Some("0644".into()),
            append,
            ..CloudConfigFile::default()
        };
        disk.write_file(&file("/etc/a", "one\n", None)).unwrap();
        disk.write_file(&file("/etc/a", "two\n", Some(true))).unwrap();
        disk.write_file(&file("/run/b", "x", None)).unwrap();
        assert_eq!(disk.read("/etc/a").as_deref(), Some("one\ntwo\n"));
        let mode = fs::metadata(disk.path("/etc/a")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "world-readable keys of a guest");

        disk.boot().unwrap();
        assert!(disk.has("/etc/a") && !disk.has("/run/b"));
        assert_eq!(disk.installed(), None);
    }
}
