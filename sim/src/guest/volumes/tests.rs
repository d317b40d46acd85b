use super::*;
use crate::guest::boot::{commands_of, initialize};

/// The cloud-config that Cluster API writes for a node with disks for etcd and containerd.
const NODE: &str = r#"#cloud-config
write_files:
-   path: /etc/systemd/system/containerd.service.d/10-volumes.conf
    owner: root:root
    permissions: '0644'
    content: |
      [Unit]
      RequiresMountsFor=/var/lib/containerd /var/lib/etcd
-   path: /etc/systemd/system/kubelet.service.d/10-volumes.conf
    owner: root:root
    permissions: '0644'
    content: |
      [Unit]
      RequiresMountsFor=/var/lib/containerd /var/lib/etcd
bootcmd:
  - "echo 'SUBSYSTEM==\"block\", ENV{DEVTYPE}==\"disk\", KERNELS==\"*:0:1:0\", SYMLINK+=\"disk/by-volume/etcd\"' > /etc/udev/rules.d/61-node-volumes.rules"
  - "echo 'SUBSYSTEM==\"block\", ENV{DEVTYPE}==\"disk\", KERNELS==\"*:0:2:0\", SYMLINK+=\"disk/by-volume/containerd\"' >> /etc/udev/rules.d/61-node-volumes.rules"
  - "udevadm control --reload"
  - "udevadm trigger --subsystem-match=block"
  - "udevadm settle"
runcmd:
  - "mountpoint /var/lib/containerd || exit 1"
  - "mountpoint /var/lib/etcd || exit 1"
  - "systemctl stop containerd"
  - "mkdir -p /run/volumes/below"
  - "mount --bind /var/lib /run/volumes/below"
  - "test -e /var/lib/containerd/blobs || cp -a /run/volumes/below/containerd/. /var/lib/containerd/ || exit 1"
  - "umount /run/volumes/below"
  - "test ! -e /var/lib/containerd/lost+found || rmdir /var/lib/containerd/lost+found"
  - "test ! -e /var/lib/etcd/lost+found || rmdir /var/lib/etcd/lost+found"
  - "systemctl start containerd"
fs_setup:
  - label: data-etcd
    filesystem: ext4
    device: /dev/disk/by-volume/etcd
    partition: none
  - label: data-containerd
    filesystem: ext4
    device: /dev/disk/by-volume/containerd
    partition: none
mounts:
  - - LABEL=data-containerd
    - /var/lib/containerd
    - ext4
    - defaults,nofail
  - - LABEL=data-etcd
    - /var/lib/etcd
    - ext4
    - defaults,nofail
"#;

fn disk(controller: i32, unit: i32) -> VmDisk {
    VmDisk {
        bus: "scsi".into(),
        controller,
        unit,
        uuid: format!("6000c29-{controller}-{unit}"),
        capacity_mib: 4096,
        ..VmDisk::default()
    }
}

fn boot(root: &Disk, text: &str) -> Result<(), Failure> {
    root.boot()?;
    let config = CloudConfig::parse(text)?;
    config.check()?;
    let (before, after) = (commands_of(&config.bootcmd)?, commands_of(&config.runcmd)?);
    initialize(root, &config, &before)?;
    after.iter().try_for_each(|command| command.run(root))?;
    root.preflight(true)
}

fn root(folder: &tempfile::TempDir, disks: &[VmDisk]) -> Disk {
    Disk::at(folder.path().join("vm")).unwrap().with_devices(disks)
}

#[test]
fn what_lies_on_a_disk_is_there_at_every_boot_and_goes_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let disks = [disk(0, 0), disk(0, 1), disk(0, 2)];
    let node = root(&folder, &disks);
    boot(&node, NODE).unwrap();
    let mounted =
        |node: &Disk| node.mounted().into_iter().map(|(path, disk)| (path, disk.unit)).collect::<Vec<_>>();
    let expected = [("/var/lib/containerd".to_owned(), 2), ("/var/lib/etcd".to_owned(), 1)];
    assert_eq!(mounted(&node), expected);
    node.write("/var/lib/etcd/member/wal", "data").unwrap();

    // Meanwhile, disks for persistent volumes were attached to a separate controller.
    let more = root(&folder, &[disk(0, 0), disk(0, 1), disk(0, 2), disk(1, 1)]);
    more.boot().unwrap();
    assert!(!more.has("/var/lib/etcd/member/wal"), "nothing is mounted before systemd does it");
    more.mount_fstab().unwrap();
    assert_eq!(mounted(&more), expected);
    assert!(more.has("/var/lib/etcd/member/wal"));

    let other = VmDisk { uuid: "another".into(), ..disk(0, 1) };
    let exchanged = root(&folder, &[disk(0, 0), other, disk(0, 2)]);
    exchanged.boot().unwrap();
    let failure = exchanged.mount_fstab().unwrap_err();
    assert!(failure.message.contains("can't find LABEL=data-etcd"), "{failure}");
    assert!(!exchanged.has("/var/lib/etcd/member/wal"));
}

#[test]
fn a_volume_that_is_not_there_in_time_ends_the_boot() {
    let disks = [disk(0, 0), disk(0, 1), disk(0, 2)];
    let mutations: [(&str, &str, &str, &[VmDisk]); 15] = [
        ("device", "*:0:1:0", "*:0:9:0", &disks),
        ("no such disk", "#cloud-config", "#cloud-config", &disks[..2]),
        ("no trigger", "  - \"udevadm trigger --subsystem-match=block\"\n", "", &disks),
        ("no reload", "  - \"udevadm control --reload\"\n", "", &disks),
        ("letters", "/dev/disk/by-volume/etcd", "/dev/sdc", &disks),
        (
            "one disk twice",
            "device: /dev/disk/by-volume/containerd",
            "device: /dev/disk/by-volume/etcd",
            &disks,
        ),
        ("one label twice", "label: data-containerd", "label: data-etcd", &disks),
        ("a long label", "data-etcd", "data-etcd-of-cp-0", &disks),
        ("another label", "LABEL=data-etcd", "LABEL=etcd", &disks),
        ("one path twice", "    - /var/lib/etcd", "    - /var/lib/containerd", &disks),
        ("another type", "    - ext4\n", "    - xfs\n", &disks),
        ("containerd below", "  - \"systemctl start containerd\"\n", "", &disks),
        (
            "lost and found",
            "  - \"test ! -e /var/lib/etcd/lost+found || rmdir /var/lib/etcd/lost+found\"\n",
            "",
            &disks,
        ),
        ("late", "RequiresMountsFor=/var/lib/containerd /var/lib/etcd", "RequiresMountsFor=/data", &disks),
        ("late by default", "RequiresMountsFor=/var/lib/containerd /var/lib/etcd", "", &disks),
    ];
    for (name, old, new, disks) in mutations {
        let text = NODE.replace(old, new);
        let folder = tempfile::tempdir().unwrap();
        let failure = boot(&root(&folder, disks), &text).expect_err(name);
        assert!(matches!(failure.reason, Reason::Disk | Reason::Preflight), "{name}: {failure}");
    }
}

#[test]
fn a_used_disk_is_partitioned_again_only_with_overwrite() {
    let folder = tempfile::tempdir().unwrap();
    let node = root(&folder, &[disk(0, 0), disk(0, 1)]);
    let set_up = |layout: &str, overwrite: bool, partition: usize| {
        let text = format!(
            "#cloud-config\ndisk_setup:\n  /dev/sda:\n    layout: {layout}\n    overwrite: {overwrite}\nfs_setup:\n  - label: data\n    filesystem: ext4\n    device: /dev/sda\n    partition: {partition}\n"
        );
        node.set_up_volumes(&CloudConfig::parse(&text).unwrap())
    };
    let data = node.content_folder(&disk(0, 1)).join("data");
    set_up("true", false, 1).unwrap();
    fs::write(&data, "kept").unwrap();
    set_up("true", false, 1).unwrap();
    let failure = set_up("[50, 50]", false, 2).unwrap_err();
    assert_eq!(failure.message, "fs_setup: /dev/sda has no partition 2");
    set_up("true", true, 1).unwrap();
    assert!(data.exists(), "the layout is the same");
    set_up("[50, 50]", true, 2).unwrap();
    assert!(!data.exists());
}
