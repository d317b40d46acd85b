//! A guest's additional disks: their filesystems and mounts.
//!
//! A filesystem is a folder whose name is the disk's UUID, so a replacement disk doesn't contain the data. A mount is a
//! symbolic link to that folder, so that files below the mount point are stored on the disk.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::cloud_config::{CloudConfig, Filesystem};
use super::disk::Disk;
use super::failure::{Failure, Reason};
use super::udev;
use crate::vcsim::control::VmDisk;

/// The folder in which containerd stores images and containers.
const CONTAINERD: &str = "/var/lib/containerd";
/// The file with containerd's state. It contains `below` while containerd uses a folder that a mount hides, and
/// `stopped` while containerd is stopped. Otherwise, it is empty or missing.
const CONTAINERD_STATE: &str = "/run/systemd/containerd.state";
/// The file with the rules that udev has loaded.
const UDEV_LOADED: &str = "/run/udev/loaded.rules";
/// The file with the rules by which udev last named the disks.
const UDEV_APPLIED: &str = "/run/udev/applied.rules";
const FSTAB: &str = "/etc/fstab";
/// cloud-init's default mount options.
const DEFAULT_OPTIONS: &str = "defaults,nofail,x-systemd.after=cloud-init-network.service,_netdev";

/// A disk's content.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Content {
    partitions: usize,
    filesystem: String,
    label: String,
}

/// A mounted disk. `hidden` is true if the mount hides an existing folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Mount {
    path: String,
    uuid: String,
    hidden: bool,
}

fn failed(what: impl Into<String>) -> Failure {
    Failure::new(Reason::Disk, what)
}

fn host(error: &io::Error) -> Failure {
    Failure::host("keep a volume", error)
}

impl Disk {
    fn content_folder(&self, disk: &VmDisk) -> PathBuf {
        self.root().join(".volumes").join(disk.uuid.replace(['/', '.'], ""))
    }

    fn content(&self, disk: &VmDisk) -> Content {
        let text = fs::read_to_string(self.content_folder(disk).with_extension("json"));
        text.ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
    }

    fn keep_content(&self, disk: &VmDisk, content: &Content) -> Result<(), Failure> {
        let folder = self.content_folder(disk);
        fs::create_dir_all(&folder).map_err(|error| host(&error))?;
        let text = serde_json::to_string(content).unwrap_or_default();
        fs::write(folder.with_extension("json"), text).map_err(|error| host(&error))
    }

    /// Deletes a disk's data.
    fn erase_data(&self, disk: &VmDisk) -> Result<(), Failure> {
        match fs::remove_dir_all(self.content_folder(disk)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(host(&error)),
            _ => Ok(()),
        }
    }

    /// Makes udev load its rules. Without this command, udev loads rules at boot and at unpredictable later times.
    pub fn reload_udev_rules(&self) -> Result<(), Failure> {
        let rules = self.folder("/etc/udev/rules.d", ".rules");
        self.write(UDEV_LOADED, rules.join("\n"))
    }

    /// Makes udev name the disks by the loaded rules.
    pub fn trigger_udev(&self) -> Result<(), Failure> {
        let rules = self.read(UDEV_LOADED).unwrap_or_default();
        self.write(UDEV_APPLIED, rules)?;
        // Fail now if the rules are invalid or ambiguous, because cloud-init could format a wrong disk at the first boot.
        udev::names(self.devices(), &self.udev_rules()).map(drop)
    }

    fn udev_rules(&self) -> Vec<String> {
        let rules = self.read(UDEV_APPLIED).unwrap_or_default();
        rules.lines().map(str::to_owned).collect()
    }

    /// Returns the lines in all files with this suffix in a folder, ordered by file name, without blank lines or comments.
    fn folder(&self, guest_path: &str, suffix: &str) -> Vec<String> {
        let files = fs::read_dir(self.path(guest_path)).into_iter().flatten().flatten();
        let mut names: Vec<_> = files
            .map(|file| file.file_name().to_string_lossy().into_owned())
            .filter(|name| name.ends_with(suffix))
            .collect();
        names.sort();
        let texts = names.iter().filter_map(|name| self.read(&format!("{guest_path}/{name}")));
        let lines = texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>());
        lines.filter(|line| !line.trim().is_empty() && !line.starts_with('#')).collect()
    }

    /// Returns the disk with this device name. The error message is cloud-init's.
    fn device(&self, name: &str) -> Result<&VmDisk, Failure> {
        let at = udev::names(self.devices(), &self.udev_rules())?.get(name).copied();
        at.and_then(|at| self.devices().get(at)).ok_or_else(|| {
            failed(format!("Device {name} did not exist and was not created with a udevadm settle."))
        })
    }

    fn is_boot_disk(&self, disk: &VmDisk) -> bool {
        self.devices().first() == Some(disk)
    }

    /// Creates the partitions, filesystems and mounts from a cloud-config, in cloud-init's order.
    ///
    /// A disk with partitions or a filesystem is partitioned only with `overwrite`, which deletes its data. Without it, cloud-init
    /// silently skips the disk.
    pub fn set_up_volumes(&self, config: &CloudConfig) -> Result<(), Failure> {
        for (name, setup) in &config.disk_setup {
            let partitions = match &setup.layout {
                // `false` means that the disk isn't partitioned.
                Value::Bool(false) => continue,
                Value::Bool(true) => 1,
                Value::Array(parts) => parts.len(),
                _ => return Err(failed(format!("disk_setup {name}: layout is neither true nor a list"))),
            };
            let disk = self.unused(name)?;
            let now = self.content(disk);
            let is_used = now != Content::default();
            if now.partitions == partitions || is_used && setup.overwrite != Some(true) {
                continue;
            }
            self.erase_data(disk)?;
            self.keep_content(disk, &Content { partitions, ..Content::default() })?;
        }
        for fs in &config.fs_setup {
            self.make_filesystem(fs)?;
        }
        for mount in &config.mounts {
            self.add_mount(mount)?;
        }
        Ok(())
    }

    /// Returns the disk with this device name. Fails for the boot disk.
    fn unused(&self, name: &str) -> Result<&VmDisk, Failure> {
        let disk = self.device(name)?;
        if self.is_boot_disk(disk) {
            return Err(failed(format!(
                "{name} is apparently in use by the system: the root filesystem is on it"
            )));
        }
        Ok(disk)
    }

    fn make_filesystem(&self, wanted: &Filesystem) -> Result<(), Failure> {
        let disk = self.unused(&wanted.device)?;
        let label = wanted.label.clone().unwrap_or_default();
        let longest = match wanted.filesystem.as_str() {
            "ext2" | "ext3" | "ext4" => 16,
            "xfs" => 12,
            other => return Err(failed(format!("mkfs.{other}: the node image has no such program"))),
        };
        if label.len() > longest {
            return Err(failed(format!(
                "fs_setup: label {label} has more than {longest} characters and is cut"
            )));
        }
        let now = self.content(disk);
        let partition = match wanted.partition.as_ref() {
            Some(Value::String(text)) => text.to_lowercase(),
            Some(number) => number.to_string(),
            None => "any".to_owned(),
        };
        if let Ok(number) = partition.parse::<usize>()
            && !(1..=now.partitions).contains(&number)
        {
            return Err(failed(format!("fs_setup: {} has no partition {number}", wanted.device)));
        }
        if partition == "none" && now.partitions > 0 {
            return Err(failed(format!(
                "fs_setup: {} has partitions; the filesystem would overlap them",
                wanted.device
            )));
        }
        if !now.filesystem.is_empty()
            && now.label == label
            && now.filesystem == wanted.filesystem
            && wanted.overwrite != Some(true)
        {
            return Ok(());
        }
        if !now.filesystem.is_empty() {
            return Err(failed(format!(
                "fs_setup: {} holds the filesystem {} already",
                wanted.device, now.label
            )));
        }
        if self.devices().iter().any(|other| other != disk && self.content(other).label == label) {
            return Err(failed(format!("fs_setup: two filesystems are labelled {label}")));
        }
        self.keep_content(
            disk,
            &Content { partitions: now.partitions, filesystem: wanted.filesystem.clone(), label },
        )?;
        if wanted.filesystem.starts_with("ext") {
            fs::create_dir_all(self.content_folder(disk).join("lost+found")).map_err(|error| host(&error))?;
        }
        Ok(())
    }

    /// Adds one `mounts` entry to fstab and mounts it.
    fn add_mount(&self, entry: &[String]) -> Result<(), Failure> {
        let [spec, path, rest @ ..] = entry else {
            return Err(failed("mounts: an entry lacks its device or its mount point"));
        };
        if !path.starts_with('/') {
            return Err(failed(format!("mounts: {path} is no path")));
        }
        let kind = rest.first().map_or("auto", String::as_str);
        let options = rest.get(1).map_or(DEFAULT_OPTIONS, String::as_str);
        self.check_order(path, options)?;
        let line = format!("{spec}\t{path}\t{kind}\t{options},comment=cloudconfig\t0\t2\n");
        self.mount(spec, path, kind)?;
        self.write(FSTAB, self.read(FSTAB).unwrap_or_default() + &line)?;
        if covers(path, CONTAINERD) {
            // On node images, containerd starts before cloud-init mounts the disk, so it still uses the hidden folder.
            self.write(CONTAINERD_STATE, "below")?;
        }
        Ok(())
    }

    /// Checks that kubelet and containerd wait for the mount at the next boot, if they use it and its options allow a late mount.
    fn check_order(&self, path: &str, options: &str) -> Result<(), Failure> {
        let late = options.split(',').any(|option| matches!(option, "nofail" | "_netdev"));
        let users = [("kubelet", true), ("containerd", covers(path, CONTAINERD))];
        match users.iter().find(|(unit, uses)| late && *uses && !self.waits_for(unit, path)) {
            Some((unit, _)) => Err(failed(format!(
                "mounts: {path} may be mounted after {unit}.service has started ({options}): nothing makes it wait"
            ))),
            None => Ok(()),
        }
    }

    /// Returns true if a drop-in makes the unit require the mount at this path.
    fn waits_for(&self, unit: &str, path: &str) -> bool {
        let lines = self.folder(&format!("/etc/systemd/system/{unit}.service.d"), ".conf");
        let required = lines.iter().filter_map(|line| line.strip_prefix("RequiresMountsFor="));
        required.flat_map(str::split_whitespace).any(|required| covers(path, required))
    }

    fn mount(&self, spec: &str, path: &str, kind: &str) -> Result<(), Failure> {
        let not_found = || failed(format!("mount: {path}: can't find {spec}."));
        let disk = if let Some(label) = spec.strip_prefix("LABEL=") {
            let mut labelled = self.devices().iter().filter(|disk| self.content(disk).label == label);
            let first = labelled.next().ok_or_else(not_found)?;
            if labelled.next().is_some() {
                return Err(failed(format!("mount: {path}: several disks are labelled {label}")));
            }
            first
        } else {
            self.device(spec).map_err(|_| not_found())?
        };
        let content = self.content(disk);
        if content.filesystem.is_empty() || !matches!(kind, "auto") && kind != content.filesystem {
            return Err(failed(format!("mount: {path}: wrong fs type, bad superblock on {spec}.")));
        }
        let mut mounts = self.mounts();
        if mounts.iter().any(|mount| mount.path == path || mount.uuid == disk.uuid) {
            return Err(failed(format!("mount: {path}: {spec} already mounted or mount point busy.")));
        }
        let (point, below) = (self.path(path), self.below(path));
        let folder = point.parent().unwrap_or(&point);
        fs::create_dir_all(folder).map_err(|error| host(&error))?;
        let hidden = point.exists();
        if hidden {
            let hide = fs::create_dir_all(below.parent().unwrap_or(&below))
                .and_then(|()| fs::rename(&point, &below));
            hide.map_err(|error| host(&error))?;
        }
        symlink(self.content_folder(disk), &point).map_err(|error| host(&error))?;
        mounts.push(Mount { path: path.to_owned(), uuid: disk.uuid.clone(), hidden });
        self.keep_mounts(&mounts)
    }

    /// Returns the path to which a mount moves the folder that it hides.
    fn below(&self, path: &str) -> PathBuf {
        self.root().join(".below").join(path.trim_start_matches('/').replace('/', "%"))
    }

    fn mounts(&self) -> Vec<Mount> {
        self.read("/.mounts").and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
    }

    fn keep_mounts(&self, mounts: &[Mount]) -> Result<(), Failure> {
        self.write("/.mounts", serde_json::to_string(mounts).unwrap_or_default())
    }

    /// Unmounts all volumes, as a power-off does.
    pub fn unmount_all(&self) -> Result<(), Failure> {
        for mount in self.mounts().iter().rev() {
            let point = self.path(&mount.path);
            let shown = fs::remove_file(&point).and_then(|()| {
                if mount.hidden {
                    fs::rename(self.below(&mount.path), &point)
                } else {
                    fs::create_dir_all(&point)
                }
            });
            shown.map_err(|error| host(&error))?;
        }
        self.keep_mounts(&[])
    }

    /// Mounts all fstab entries, as systemd does. A failure is reported as a failed dependency of the kubelet unit.
    pub fn mount_fstab(&self) -> Result<(), Failure> {
        for line in self.read(FSTAB).unwrap_or_default().lines() {
            let fields: Vec<_> = line.split_whitespace().collect();
            let [spec, path, kind, ..] = fields[..] else { continue };
            self.mount(spec, path, kind).map_err(|failure| {
                failed(format!("Dependency failed for kubelet.service: {}", failure.message))
            })?;
        }
        Ok(())
    }

    /// Returns true if a disk is mounted at this path.
    pub fn is_mounted(&self, path: &str) -> bool {
        self.mounts().iter().any(|mount| mount.path == path)
    }

    /// Returns the mount points with their disks.
    pub fn mounted(&self) -> Vec<(String, VmDisk)> {
        let disk = |uuid: &str| self.devices().iter().find(|disk| disk.uuid == uuid).cloned();
        self.mounts().into_iter().filter_map(|mount| Some((mount.path, disk(&mount.uuid)?))).collect()
    }

    /// Starts, stops or restarts containerd. Ignores other `systemctl` verbs.
    pub fn turn_containerd(&self, verb: &str) -> Result<(), Failure> {
        let was = self.read(CONTAINERD_STATE).unwrap_or_default();
        match (verb, was.as_str()) {
            ("stop", _) => self.write(CONTAINERD_STATE, "stopped"),
            ("restart", _) | ("start", "stopped") => {
                self.read_authorities()?;
                self.write(CONTAINERD_STATE, "")
            }
            _ => Ok(()),
        }
    }

    /// Runs kubeadm's preflight checks for containerd and, with `with_etcd`, for etcd's data directory.
    pub fn preflight(&self, with_etcd: bool) -> Result<(), Failure> {
        const ETCD: &str = "/var/lib/etcd";
        let refused = |what: String| Err(Failure::new(Reason::Preflight, what));
        match self.read(CONTAINERD_STATE).unwrap_or_default().as_str() {
            "below" => {
                return refused(format!(
                    "containerd runs on the folder below {CONTAINERD}: it was started before the disk was mounted"
                ));
            }
            "stopped" => return refused("[ERROR CRI]: container runtime is not running".to_owned()),
            _ => {}
        }
        let holds = fs::read_dir(self.path(ETCD)).is_ok_and(|mut entries| entries.next().is_some());
        if with_etcd && holds {
            return refused(format!("[ERROR DirAvailable--var-lib-etcd]: {ETCD} is not empty"));
        }
        Ok(())
    }
}

/// Returns true if `inner` is equal to `folder` or inside it.
fn covers(folder: &str, inner: &str) -> bool {
    inner
        .strip_prefix(folder.trim_end_matches('/'))
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests;
