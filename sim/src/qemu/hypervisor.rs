//! Runs machines from power-on to power-off.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use plane::StackIdentity;
use plane::process::{self, Command, Process};
use serde_json::json;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::accelerator::Accelerator;
use super::channel::{Channel, damage};
use super::disks::Disks;
use super::error::Error;
use super::host::HostPrograms;
use super::machine::{Machine, MachineFiles, block, device, disk_id};
use super::qmp::Qmp;
use super::relay::Relay;
use super::segment::Segment;
use crate::boot_image::BootImage;
use crate::pattern::fits;
use crate::vcsim::control::{ControlApi, GuestReport, Hardware, PowerAction, SimulatedVm, VmDisk};

/// The name of the machines' folder in a stack folder.
const FOLDER: &str = "machines";
/// The time that QEMU has to exit after a termination signal.
const GRACE: Duration = Duration::from_secs(5);

/// Runs VMs as QEMU processes.
#[derive(Debug)]
pub struct Hypervisor {
    stack: Arc<StackIdentity>,
    control: ControlApi,
    programs: HostPrograms,
    accelerator: Accelerator,
    segment: Segment,
    images: BTreeMap<String, BootImage>,
    disks: Disks,
    folder: PathBuf,
    /// The disk files that are deleted with their VM, by the VM's managed object id.
    used: Mutex<BTreeMap<String, BTreeSet<PathBuf>>>,
    /// Scripts that machines run before cloud-init, each with a VM name pattern.
    damages: Mutex<Vec<(String, String)>>,
    /// Relays from the machines' network to servers on this host.
    relays: Mutex<Vec<Relay>>,
}

impl Hypervisor {
    /// Prepares the host: finds its programs, tests KVM, and creates the network 10.NUMBER.0.0/16.
    pub async fn prepare(
        stack: &Arc<StackIdentity>,
        control: &ControlApi,
        number: u8,
        images: Vec<BootImage>,
    ) -> Result<Self, Error> {
        let programs = HostPrograms::find()?;
        let Some(first) = images.first() else {
            return Err(Error::NoImage);
        };
        let accelerator = Accelerator::find(stack, &programs, first).await?;
        let segment = Segment::make(stack, &programs, number).await?;
        let folder = stack.subfolder(FOLDER)?;
        let disks = Disks::in_folder(folder.join("disks"), programs.qemu_img.clone())?;
        let images = images.into_iter().map(|image| (image.name.clone(), image)).collect();
        let (stack, control) = (Arc::clone(stack), control.clone());
        Ok(Self {
            stack,
            control,
            programs,
            accelerator,
            segment,
            images,
            disks,
            folder,
            used: Mutex::default(),
            damages: Mutex::default(),
            relays: Mutex::default(),
        })
    }

    /// Lets machines connect to a server on this host (`IP:PORT`). The machines use this host's address in their
    /// network, and the same port.
    pub async fn relay(&self, server: &str) -> Result<(), Error> {
        let at = self.segment.host_address();
        let server: SocketAddr =
            server.parse().map_err(|error| Error::Network(format!("{server}: {error}")))?;
        let relay = Relay::start(at, server).await;
        let relay = relay.map_err(|error| Error::Network(format!("{at}:{}: {error}", server.port())))?;
        self.relays.lock().push(relay);
        Ok(())
    }

    /// Returns the accelerator that works on this host.
    pub fn accelerator(&self) -> Accelerator {
        self.accelerator
    }

    /// Makes machines run a shell script before cloud-init. Applies to machines that start later and whose VM name
    /// matches `pattern`.
    pub fn damage(&self, pattern: &str, script: &str) {
        self.damages.lock().push((pattern.to_owned(), script.to_owned()));
    }

    /// Runs a VM until vCenter (`power`) or the guest powers it off. `seen` delivers changes to the VM. `reported` is
    /// called for each new report from VMware Tools.
    pub async fn run(
        &self,
        mut seen: watch::Receiver<SimulatedVm>,
        power: &CancellationToken,
        reported: impl Fn(&GuestReport),
    ) -> Result<(), Error> {
        let vm = seen.borrow_and_update().clone();
        let hardware = self.control.hardware(&vm.moid).await?;
        let folder = self.folder.join(&vm.moid);
        std::fs::create_dir_all(&folder).map_err(Error::at(&folder))?;
        let files = MachineFiles::in_folder(&folder);
        let channel = Channel::new(&vm.moid, self.control.clone());
        let mut reports = channel.reported.subscribe();
        let process = self.start(&vm, &hardware, &files).await?;
        let reporting = async {
            while reports.changed().await.is_ok() {
                if let Some(report) = &*reports.borrow_and_update() {
                    reported(report);
                }
            }
        };
        tokio::select! {
            () = power.cancelled() => process.stop(GRACE).await,
            status = process.wait() => self.ended_by_itself(&vm, &process, status).await?,
            served = channel.serve(&files.channel) => {
                process.kill().await;
                served?;
            }
            () = reporting => {}
            () = self.follow(vm.clone(), seen, &files) => {}
        }
        Ok(())
    }

    /// Applies VM changes to the running machine: shutdown requests, and attached, detached or grown disks.
    async fn follow(
        &self,
        mut vm: SimulatedVm,
        mut seen: watch::Receiver<SimulatedVm>,
        files: &MachineFiles,
    ) {
        while seen.changed().await.is_ok() {
            let now = seen.borrow_and_update().clone();
            if let Err(why) = self.change(&vm, &now, files).await {
                tracing::warn!(vm = now.name, why, "a machine is not what its VM is");
            }
            vm = now;
        }
        std::future::pending::<()>().await;
    }

    async fn change(&self, old: &SimulatedVm, new: &SimulatedVm, files: &MachineFiles) -> Result<(), String> {
        if old.shutdown_count == new.shutdown_count && old.disks == new.disks {
            return Ok(());
        }
        let mut control = Qmp::connect(&files.control).await?;
        if old.shutdown_count != new.shutdown_count {
            control.execute("system_powerdown", json!({})).await?;
        }
        let same = |one: &VmDisk, other: &VmDisk| {
            (disk_id(one), one.controller, one.unit) == (disk_id(other), other.controller, other.unit)
        };
        for disk in old.disks.iter().filter(|disk| !new.disks.iter().any(|other| same(disk, other))) {
            control.remove_device(&format!("device-{}", disk_id(disk))).await?;
            control.execute("blockdev-del", json!({"node-name": disk_id(disk)})).await?;
        }
        for disk in new.disks.iter().filter(|disk| disk.bus == "scsi") {
            match old.disks.iter().find(|other| same(disk, other)) {
                Some(before) if before.capacity_mib != disk.capacity_mib => {
                    let size = disk.capacity_mib << 20;
                    control
                        .execute("block_resize", json!({"node-name": disk_id(disk), "size": size}))
                        .await?;
                }
                Some(_) => {}
                None => {
                    let file = self.disks.ensure(disk, None).await.map_err(|error| error.to_string())?;
                    control.execute("blockdev-add", block(disk, &file)).await?;
                    control.execute("device_add", device(disk)).await?;
                    self.note_used(&new.moid, disk, file);
                }
            }
        }
        Ok(())
    }

    /// Records the file for deletion with the VM, unless it belongs to a first class disk.
    fn note_used(&self, moid: &str, disk: &VmDisk, file: PathBuf) {
        if !disk.first_class {
            self.used.lock().entry(moid.to_owned()).or_default().insert(file);
        }
    }

    async fn start(
        &self,
        vm: &SimulatedVm,
        hardware: &Hardware,
        files: &MachineFiles,
    ) -> Result<Process, Error> {
        let image = self.images.get(&hardware.image).ok_or_else(|| Error::Machine {
            vm: vm.name.clone(),
            why: format!(
                "its first disk is no copy of a node image that this site has the files of, but of {:?}",
                hardware.image
            ),
        })?;
        let mut disks: Vec<(VmDisk, PathBuf)> = Vec::new();
        for disk in hardware.disks.iter().filter(|disk| disk.bus == "scsi") {
            let base = disks.is_empty().then_some(image.disk.as_path());
            let file = self.disks.ensure(disk, base).await?;
            self.note_used(&vm.moid, disk, file.clone());
            disks.push((disk.clone(), file));
        }
        let smbios: Vec<_> = {
            let damages = self.damages.lock();
            damages
                .iter()
                .filter(|(pattern, _)| fits(pattern, &vm.name))
                .flat_map(|(_, script)| damage(script))
                .collect()
        };
        let machine = Machine { vm, hardware, image, disks: &disks, files, smbios: &smbios };
        let (program, entering) = self.segment.entering();
        Ok(Command::new(&self.stack, &format!("machine-{}", vm.name), &program)?
            .args(entering)
            .arg(&self.programs.qemu)
            .args(machine.arguments(self.accelerator, &self.segment))
            .spawn()?)
    }

    /// Powers the VM off in vCenter after its QEMU process ended. Returns an error if QEMU failed.
    async fn ended_by_itself(
        &self,
        vm: &SimulatedVm,
        process: &Process,
        status: ExitStatus,
    ) -> Result<(), Error> {
        if let Err(error) = self.control.power(&vm.moid, PowerAction::Off).await {
            tracing::debug!(vm = vm.name, %error, "the VM was off already");
        }
        if status.success() {
            return Ok(());
        }
        let why = format!("QEMU ended: {status}: {}", process::tail(process.log(), process.log_from(), 5));
        Err(Error::Machine { vm: vm.name.clone(), why })
    }

    /// Removes a deleted VM's folder and the files of the VM's disks, except for first class disks.
    pub fn forget(&self, moid: &str) {
        for file in self.used.lock().remove(moid).into_iter().flatten() {
            let _ = std::fs::remove_file(file);
        }
        let _ = std::fs::remove_dir_all(self.folder.join(moid));
    }

    /// Stops the relays and the network. Call it after all machines have ended.
    pub async fn end(&self) {
        self.relays.lock().clear();
        self.segment.end().await;
    }
}

/// Returns true if the stack in this folder runs VMs as QEMU machines, which have console logs.
pub fn has_consoles(stack: &Path) -> bool {
    stack.join(FOLDER).is_dir()
}

/// Returns the path to a VM's serial console log, if the VM has run as a QEMU machine in the stack in this folder.
pub fn console_log(stack: &Path, moid: &str) -> Option<PathBuf> {
    let file = MachineFiles::in_folder(&stack.join(FOLDER).join(moid)).console;
    file.is_file().then_some(file)
}
