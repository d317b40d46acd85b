//! Configures cloud-init to format each additional disk of a node once and to mount it at every boot, before containerd and the
//! kubelet start.
//!
//! At the first boot, a disk is found by its SCSI target on the controller, because the kernel assigns device letters in any
//! order. Later, the disk is found by its filesystem label, because persistent volumes may have added disks on other
//! controllers. systemd mounts the disk, and the units that use the disk require the mount: if a disk is missing, the node is
//! not Ready and doesn't write to the folder below the mount point.

use api::capi::KubeadmConfigSpecDiskSetupFilesystems as DiskFilesystem;
use api::gcm::parts::Volume;
use api::names;

use crate::cluster::node_file::NodeFile;

/// The containerd data folder.
const CONTAINERD: &str = "/var/lib/containerd";
/// The etcd data folder, which kubeadm requires to be empty.
const ETCD: &str = "/var/lib/etcd";
/// A folder that exists once containerd has an image.
const CONTAINERD_BLOBS: &str = "/var/lib/containerd/io.containerd.content.v1.content/blobs";
/// The mount point at which the node image's own folders are visible while a disk hides one of them.
const BELOW: &str = "/run/volumes/below";
/// A filesystem type that every node image can create.
const FILESYSTEM: &str = "ext4";
/// The mount options. With `nofail`, a missing disk doesn't block network and console. The units that use the disk require the
/// mount.
const MOUNT_OPTIONS: &str = "defaults,nofail";
/// The maximum length of an ext4 label, in bytes.
const LONGEST_LABEL: usize = 16;
/// The path of the file with the udev rules that name the disks.
const RULES: &str = "/etc/udev/rules.d/61-node-volumes.rules";

/// The node configuration for a group's volumes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VolumeSetup {
    /// The commands that run first. They name the disks.
    pub boot_commands: Vec<String>,
    /// The filesystems, one for each volume.
    pub filesystems: Vec<DiskFilesystem>,
    /// The fstab entries. The entry for a folder precedes those for its subfolders.
    ///
    /// Each entry has four fields: Cluster API would write the other two as numbers, which cloud-init's schema rejects.
    pub mounts: Vec<Vec<String>>,
    /// systemd drop-ins that make containerd and the kubelet wait for the mounts.
    pub files: Vec<NodeFile>,
    /// The commands that run before kubeadm. They check the mounts and prepare the contents of the disks.
    pub commands: Vec<String>,
}

/// Returns the unit number on SCSI controller 0 for the volume at index `at`. Number 0 is the image's disk, and 7 is the
/// controller.
pub fn unit_number(at: usize) -> i32 {
    let unit = i32::try_from(at).unwrap_or(i32::MAX - 2) + 1;
    if unit < 7 { unit } else { unit + 1 }
}

/// Returns the node configuration for these volumes.
pub fn volume_setup(volumes: Option<&[Volume]>) -> VolumeSetup {
    let volumes = volumes.unwrap_or_default();
    if volumes.is_empty() {
        return VolumeSetup::default();
    }
    let mut by_path: Vec<_> = volumes.iter().collect();
    by_path.sort_by_key(|volume| path(volume));
    VolumeSetup {
        boot_commands: name_disks(volumes),
        filesystems: volumes.iter().map(filesystem).collect(),
        mounts: by_path.iter().map(|volume| mount(volume)).collect(),
        files: ["containerd", "kubelet"].map(|unit| drop_in(unit, &by_path)).into(),
        commands: prepare(&by_path),
    }
}

fn path(volume: &Volume) -> &str {
    volume.mount_path.trim_end_matches('/')
}

fn device(volume: &Volume) -> String {
    format!("disk/by-volume/{}", volume.name)
}

/// Returns a volume's filesystem label. The node image's own filesystems have other labels.
fn label(volume: &Volume) -> String {
    names::joined(&format!("data-{}", volume.name), "", LONGEST_LABEL)
}

/// Returns commands that write udev rules to name each disk after its volume, and apply them to the attached disks.
fn name_disks(volumes: &[Volume]) -> Vec<String> {
    let rules = volumes.iter().enumerate().map(|(at, volume)| {
        let into = if at == 0 { ">" } else { ">>" };
        format!(
            "echo 'SUBSYSTEM==\"block\", ENV{{DEVTYPE}}==\"disk\", KERNELS==\"*:0:{}:0\", SYMLINK+=\"{}\"' {into} {RULES}",
            unit_number(at),
            device(volume)
        )
    });
    // Without these commands, udev notices new rules only after some seconds.
    let apply = ["udevadm control --reload", "udevadm trigger --subsystem-match=block", "udevadm settle"];
    rules.chain(apply.map(str::to_owned)).collect()
}

/// Returns a filesystem on the whole disk, without a partition table. cloud-init calls this partition `none`.
fn filesystem(volume: &Volume) -> DiskFilesystem {
    DiskFilesystem {
        device: format!("/dev/{}", device(volume)),
        label: Some(label(volume)),
        filesystem: FILESYSTEM.to_owned(),
        partition: Some("none".to_owned()),
        ..DiskFilesystem::default()
    }
}

fn mount(volume: &Volume) -> Vec<String> {
    let spec = format!("LABEL={}", label(volume));
    vec![spec, path(volume).to_owned(), FILESYSTEM.to_owned(), MOUNT_OPTIONS.to_owned()]
}

/// Returns a drop-in that makes a systemd unit require the mounts at every boot.
fn drop_in(unit: &str, volumes: &[&Volume]) -> NodeFile {
    let paths: Vec<_> = volumes.iter().map(|volume| path(volume)).collect();
    NodeFile {
        path: format!("/etc/systemd/system/{unit}.service.d/10-volumes.conf"),
        permissions: "0644",
        content: format!("[Unit]\nRequiresMountsFor={}\n", paths.join(" ")),
    }
}

/// Returns the commands that run before kubeadm. If a disk isn't mounted, they stop the node's first boot with an error.
fn prepare(volumes: &[&Volume]) -> Vec<String> {
    let of_containerd = volumes.iter().any(|volume| path(volume) == CONTAINERD);
    let mut commands: Vec<_> =
        volumes.iter().map(|volume| format!("mountpoint {} || exit 1", path(volume))).collect();
    if of_containerd {
        // Some operating systems start containerd before cloud-init mounts the disks.
        commands.push("systemctl stop containerd".to_owned());
        commands.extend(fill_containerd());
    }
    for volume in volumes {
        // mkfs creates lost+found. kubeadm requires an empty etcd folder.
        commands.push(format!("test ! -e {0}/lost+found || rmdir {0}/lost+found", path(volume)));
        if path(volume) == ETCD {
            commands.push(format!("chmod 0700 {ETCD}"));
        }
    }
    if of_containerd {
        commands.push("systemctl start containerd".to_owned());
    }
    commands
}

/// Returns commands that copy the node image's container images to containerd's disk, if the disk doesn't contain any yet.
fn fill_containerd() -> [String; 4] {
    [
        format!("mkdir -p {BELOW}"),
        format!("mount --bind /var/lib {BELOW}"),
        format!("test -e {CONTAINERD_BLOBS} || cp -a {BELOW}/containerd/. {CONTAINERD}/ || exit 1"),
        format!("umount {BELOW}"),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::admission::volumes::MOST_VOLUMES;

    fn volume(name: &str, path: &str) -> Volume {
        Volume { name: name.to_owned(), mount_path: path.to_owned(), ..Volume::default() }
    }

    #[test]
    fn every_volume_has_a_place_between_the_images_disk_and_the_last() {
        let units: BTreeSet<_> = (0..MOST_VOLUMES).map(unit_number).collect();
        assert_eq!(units.len(), MOST_VOLUMES);
        assert_eq!((units.first(), units.last(), units.contains(&7)), (Some(&1), Some(&15), false));
    }

    #[test]
    fn labels_differ_and_are_short_enough() {
        let names =
            ["etcd", "containerd", "a-very-long-name-of-a-volume", "a-very-long-name-of-a-volumf", "root"];
        let labels: BTreeSet<_> = names.iter().map(|name| label(&volume(name, "/x"))).collect();
        assert_eq!(labels.len(), names.len());
        assert!(
            labels.iter().all(|label| label.len() <= LONGEST_LABEL && label.starts_with("data-")),
            "{labels:?}"
        );
    }

    #[test]
    fn folders_are_mounted_before_those_in_them() {
        let volumes = [volume("db", "/data/db/"), volume("data", "/data"), volume("logs", "/var/log")];
        let setup = volume_setup(Some(&volumes));
        let paths: Vec<_> = setup.mounts.iter().map(|mount| mount[1].as_str()).collect();
        assert_eq!(paths, ["/data", "/data/db", "/var/log"]);
        assert!(
            setup.mounts.iter().all(|mount| mount.len() == 4),
            "numbers in YAML are none of cloud-init's"
        );
        assert!(setup.files.iter().all(|file| file.content.ends_with("=/data /data/db /var/log\n")));
        assert!(!setup.commands.iter().any(|command| command.contains("containerd")), "it is left alone");
        assert_eq!(volume_setup(None), VolumeSetup::default());
    }
}
