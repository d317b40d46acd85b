//! Further disks of nodes: what cloud-init is given so that each is formatted once and mounted at every boot, before
//! containerd and the kubelet start.
//!
//! At the first boot a disk is found by its place on the SCSI controller, which is the target of its SCSI address; the
//! kernel's letters follow no order. Later it is found by the label of its filesystem: by then there may be disks of
//! persistent volumes on other controllers. It is mounted by systemd, and what uses it requires the mount: a node whose
//! disk is away is not Ready, rather than one that writes to the folder below.

use api::capi::KubeadmConfigSpecDiskSetupFilesystems as DiskFilesystem;
use api::gcm::parts::Volume;
use api::names;

use crate::cluster::node_file::NodeFile;

/// Where containerd keeps images and containers.
const CONTAINERD: &str = "/var/lib/containerd";
/// Where etcd keeps its data, in which kubeadm wants nothing.
const ETCD: &str = "/var/lib/etcd";
/// What containerd has as soon as there is an image.
const CONTAINERD_BLOBS: &str = "/var/lib/containerd/io.containerd.content.v1.content/blobs";
/// Where the image's own folders are looked at while a disk hides one of them.
const BELOW: &str = "/run/volumes/below";
/// A filesystem that every node image can make.
const FILESYSTEM: &str = "ext4";
/// A disk that is away must not keep a node from its network and console: what needs the disk requires the mount itself.
const MOUNT_OPTIONS: &str = "defaults,nofail";
/// The longest label of such a filesystem.
const LONGEST_LABEL: usize = 16;
/// udev's rules for the names of the disks.
const RULES: &str = "/etc/udev/rules.d/61-node-volumes.rules";

/// How the volumes of a group of nodes come about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VolumesAs {
    /// As disks of the VM's own, which cloud-init formats and mounts.
    Disks,
    /// As PersistentVolumeClaims that nobody mounts. Machines of before have these; they are not replaced for it.
    Claims,
}

/// What a node is given to have its volumes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VolumeSetup {
    /// Before everything else: names for the disks.
    pub boot_commands: Vec<String>,
    /// Filesystems, one a volume.
    pub filesystems: Vec<DiskFilesystem>,
    /// Entries of fstab, folders before those in them.
    ///
    /// They have four fields: Cluster API would write the other two as numbers, which cloud-init's schema refuses.
    pub mounts: Vec<Vec<String>>,
    /// What makes containerd and the kubelet wait for the mounts.
    pub files: Vec<NodeFile>,
    /// Before kubeadm: no disk lacks, and each holds what its user expects.
    pub commands: Vec<String>,
}

/// The place of a group's volume on SCSI controller 0: after the image's disk, without the controller's own.
pub fn unit_number(at: usize) -> i32 {
    let unit = i32::try_from(at).unwrap_or(i32::MAX - 2) + 1;
    if unit < 7 { unit } else { unit + 1 }
}

/// What nodes with these volumes are given.
pub fn volume_setup(volumes: Option<&[Volume]>, kind: VolumesAs) -> VolumeSetup {
    let volumes = volumes.unwrap_or_default();
    if volumes.is_empty() || kind == VolumesAs::Claims {
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

/// A label that the node image's own filesystems do not have.
fn label(volume: &Volume) -> String {
    names::joined(&format!("data-{}", volume.name), "", LONGEST_LABEL)
}

/// Rules that name each disk after its volume, and their application to the disks that are there.
fn name_disks(volumes: &[Volume]) -> Vec<String> {
    let rules = volumes.iter().enumerate().map(|(at, volume)| {
        let into = if at == 0 { ">" } else { ">>" };
        format!(
            "echo 'SUBSYSTEM==\"block\", ENV{{DEVTYPE}}==\"disk\", KERNELS==\"*:0:{}:0\", SYMLINK+=\"{}\"' {into} {RULES}",
            unit_number(at),
            device(volume)
        )
    });
    // udev looks for new rules every few seconds only, unless it is asked to.
    let apply = ["udevadm control --reload", "udevadm trigger --subsystem-match=block", "udevadm settle"];
    rules.chain(apply.map(str::to_owned)).collect()
}

/// A filesystem without a partition table: the whole disk is one, which cloud-init calls `none`.
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

/// A unit does not start without the mounts, at any boot.
fn drop_in(unit: &str, volumes: &[&Volume]) -> NodeFile {
    let paths: Vec<_> = volumes.iter().map(|volume| path(volume)).collect();
    NodeFile {
        path: format!("/etc/systemd/system/{unit}.service.d/10-volumes.conf"),
        permissions: "0644",
        content: format!("[Unit]\nRequiresMountsFor={}\n", paths.join(" ")),
    }
}

/// What is checked and done before kubeadm runs. A disk that is not mounted ends the boot.
fn prepare(volumes: &[&Volume]) -> Vec<String> {
    let of_containerd = volumes.iter().any(|volume| path(volume) == CONTAINERD);
    let mut commands: Vec<_> =
        volumes.iter().map(|volume| format!("mountpoint {} || exit 1", path(volume))).collect();
    if of_containerd {
        // Some systems start containerd before cloud-init mounts.
        commands.push("systemctl stop containerd".to_owned());
        commands.extend(fill_containerd());
    }
    for volume in volumes {
        // mkfs leaves a folder; kubeadm wants etcd's empty.
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

/// The images that the node image brings go with containerd onto its disk, unless the node image sees to it.
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
        let setup = volume_setup(Some(&volumes), VolumesAs::Disks);
        let paths: Vec<_> = setup.mounts.iter().map(|mount| mount[1].as_str()).collect();
        assert_eq!(paths, ["/data", "/data/db", "/var/log"]);
        assert!(
            setup.mounts.iter().all(|mount| mount.len() == 4),
            "numbers in YAML are none of cloud-init's"
        );
        assert!(setup.files.iter().all(|file| file.content.ends_with("=/data /data/db /var/log\n")));
        assert!(!setup.commands.iter().any(|command| command.contains("containerd")), "it is left alone");
        assert_eq!(volume_setup(Some(&volumes), VolumesAs::Claims), VolumeSetup::default());
        assert_eq!(volume_setup(None, VolumesAs::Disks), VolumeSetup::default());
    }
}
