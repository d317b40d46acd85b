//! Builds the QEMU command line for a machine.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::accelerator::Accelerator;
use super::channel;
use super::segment::Segment;
use crate::boot_image::BootImage;
use crate::vcsim::control::{Hardware, SimulatedVm, VmDisk};

/// The paths to a machine's log and sockets.
#[derive(Clone, Debug)]
pub struct MachineFiles {
    /// The serial console log, which is kept across power cycles.
    pub console: PathBuf,
    /// The socket for input to the serial console.
    pub console_socket: PathBuf,
    /// The socket on which the host serves guestinfo.
    pub channel: PathBuf,
    /// The QMP socket.
    pub control: PathBuf,
}

impl MachineFiles {
    /// Returns the paths in a VM's folder.
    pub fn in_folder(folder: &Path) -> Self {
        Self {
            console: folder.join("console.log"),
            console_socket: folder.join("console.sock"),
            channel: folder.join("guestinfo.sock"),
            control: folder.join("qmp.sock"),
        }
    }
}

/// The settings from which a machine's command line is built.
pub struct Machine<'a> {
    pub vm: &'a SimulatedVm,
    pub hardware: &'a Hardware,
    /// The image with the kernel to boot and the base for the first disk.
    pub image: &'a BootImage,
    /// SCSI disks with the paths to their files.
    pub disks: &'a [(VmDisk, PathBuf)],
    pub files: &'a MachineFiles,
    /// SMBIOS strings in addition to the guestinfo credentials.
    pub smbios: &'a [String],
}

impl Machine<'_> {
    /// Returns all QEMU arguments.
    pub fn arguments(&self, accelerator: Accelerator, segment: &Segment) -> Vec<String> {
        let mut args: Vec<String> =
            accelerator.arguments().iter().map(|&argument| argument.to_owned()).collect();
        args.extend(self.base());
        args.extend(self.boot());
        args.extend(self.disk_arguments());
        let plugged = self.hardware.nics.iter().filter(|nic| nic.connected).enumerate();
        args.extend(plugged.flat_map(|(id, nic)| segment.interface(id, &nic.mac)));
        args.extend(self.ports());
        args
    }

    fn base(&self) -> Vec<String> {
        let Hardware { num_cpus, memory_mb, .. } = self.hardware;
        words(&[
            "-name",
            &self.vm.name,
            "-uuid",
            &self.vm.uuid,
            // cloud-init's datasource expects "VMware" in the product name. A doubled comma is QEMU's escape.
            "-smbios",
            "type=1,manufacturer=VMware,, Inc.,product=VMware7,,1",
            "-machine",
            "q35,vmport=off",
            "-smp",
            &num_cpus.to_string(),
            "-m",
            &memory_mb.to_string(),
            "-no-user-config",
            "-nodefaults",
            "-display",
            "none",
            "-device",
            "virtio-rng-pci",
        ])
    }

    /// Returns the arguments for direct kernel boot, which avoids a minute of emulated firmware.
    fn boot(&self) -> Vec<String> {
        let image = self.image;
        let command_line =
            format!("{} mitigations=off tsc=reliable systemd.show_status=1", image.command_line);
        let (kernel, initrd) = (image.kernel.display().to_string(), image.initrd.display().to_string());
        let mut args = words(&["-kernel", &kernel, "-initrd", &initrd, "-append", &command_line]);
        for credential in channel::credentials().iter().chain(self.smbios) {
            args.extend(words(&["-smbios", &format!("type=11,value={}", credential.replace(',', ",,"))]));
        }
        args
    }

    fn disk_arguments(&self) -> Vec<String> {
        let mut args = Vec::new();
        let mut controllers: Vec<i32> = self.disks.iter().map(|(disk, _)| disk.controller).collect();
        controllers.sort_unstable();
        controllers.dedup();
        for controller in controllers {
            args.extend(words(&["-device", &format!("pvscsi,id=scsi{controller}")]));
        }
        for (disk, file) in self.disks {
            args.extend(words(&["-blockdev", &block(disk, file).to_string()]));
            args.extend(words(&["-device", &device(disk).to_string()]));
        }
        args
    }

    fn ports(&self) -> Vec<String> {
        let MachineFiles { console, console_socket, channel, control } = self.files;
        let path = |path: &Path| path.display().to_string().replace(',', ",,");
        words(&[
            "-chardev",
            &format!(
                "socket,id=console,path={},server=on,wait=off,logfile={},logappend=on",
                path(console_socket),
                path(console)
            ),
            "-serial",
            "chardev:console",
            "-qmp",
            &format!("unix:{},server=on,wait=off", path(control)),
            "-device",
            "virtio-serial-pci",
            "-chardev",
            &format!("socket,id=guestinfo,path={},reconnect=1", path(channel)),
            "-device",
            "virtserialport,chardev=guestinfo,name=guestinfo",
        ])
    }
}

/// Returns the QEMU name for a disk. QEMU limits such names to 31 characters.
pub fn disk_id(disk: &VmDisk) -> String {
    let uuid: String = disk.uuid.chars().filter(char::is_ascii_alphanumeric).take(24).collect();
    format!("disk{uuid}")
}

/// Returns the block device options, for both `-blockdev` and `blockdev-add`.
pub fn block(disk: &VmDisk, file: &Path) -> Value {
    json!({
        "driver": "qcow2", "node-name": disk_id(disk), "discard": "unmap",
        // Flushes aren't needed, because the disk doesn't outlive the stack.
        "file": {"driver": "file", "filename": file, "cache": {"no-flush": true}},
    })
}

/// Returns the device options for `-device` and `device_add`. vCenter's unit number becomes the SCSI target id.
pub fn device(disk: &VmDisk) -> Value {
    let (id, bus) = (disk_id(disk), format!("scsi{}.0", disk.controller));
    json!({"driver": "scsi-hd", "id": format!("device-{id}"), "drive": id, "bus": bus, "scsi-id": disk.unit, "lun": 0})
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}
