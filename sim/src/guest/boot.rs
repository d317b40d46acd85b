//! Boots one guest: runs cloud-init's stages at an instance's first boot, and only starts the kubelet at later boots.

use super::bootstrap;
use super::cloud_config::{CloudConfig, CloudConfigFile, Line, UserEntry};
use super::commands::{self, CloudInitCommand, Kubeadm};
use super::datasource::Seed;
use super::disk::{Disk, FirstBootResult};
use super::failure::{Failure, Reason};
use super::guest_vm::GuestVm;
use super::kubelet::Kubelet;
use super::registration::Registration;
use super::render::cloud_config;

/// A guest: a VM and its running programs.
///
/// Dropping it simulates a power failure. [`Guest::power_off`] also waits until all processes have ended.
pub struct Guest {
    guest_vm: GuestVm,
    kubelet: Kubelet,
}

impl Guest {
    /// Creates a guest in a powered-off VM.
    pub fn new(guest_vm: GuestVm) -> Self {
        Self { kubelet: Kubelet::new(guest_vm.clone()), guest_vm }
    }

    /// Boots the guest, and returns when its node is registered. After a failure, programs that have already started
    /// keep running.
    pub async fn boot(&mut self, seed: &Seed) -> Result<(), Failure> {
        let instance_id = seed.instance_id()?;
        self.guest_vm.disk.boot()?;
        self.guest_vm.disk.write(commands::ADDRESS, self.guest_vm.address.reported.to_string())?;
        match self.guest_vm.disk.installed() {
            Some(installed) if installed.instance_id == instance_id => {
                self.guest_vm.disk.mount_fstab()?;
                self.kubelet.start_all().await
            }
            _ => {
                let registration = self.first_boot(seed).await?;
                self.guest_vm.disk.finish(&FirstBootResult {
                    instance_id: instance_id.to_owned(),
                    node_name: registration.name,
                    kubernetes_version: registration.kubernetes_version,
                    control_plane: registration.control_plane,
                })
            }
        }
    }

    /// Returns true if the next boot is the first one for the seed's instance ID.
    pub fn is_new(&self, seed: &Seed) -> bool {
        let installed = self.guest_vm.disk.installed();
        installed.is_none_or(|installed| seed.instance_id().is_ok_and(|id| id != installed.instance_id))
    }

    /// Kills all processes at once, like a power failure.
    pub async fn power_off(&mut self) {
        self.kubelet.power_off().await;
    }

    /// Shuts the operating system down.
    pub async fn shut_down(&mut self) {
        self.kubelet.shut_down().await;
    }

    async fn first_boot(&mut self, seed: &Seed) -> Result<Registration, Failure> {
        let Some(userdata) = &seed.userdata else {
            return Err(Failure::new(Reason::NoUserdata, "guestinfo.userdata is not set"));
        };
        let disk = &self.guest_vm.disk;
        disk.write("/var/lib/cloud/instance/user-data.txt", userdata)?;
        let text = cloud_config(userdata, &seed.template_variables(self.guest_vm.address.reported))?;
        let config = CloudConfig::parse(&text)?;
        config.check()?;
        // Parse all commands before the first one takes effect.
        let (before, after) = (commands_of(&config.bootcmd)?, commands_of(&config.runcmd)?);

        disk.write(
            "/etc/hostname",
            format!("{}\n", config.hostname.as_deref().map_or_else(|| seed.hostname(), Ok)?),
        )?;
        initialize(disk, &config, &before)?;
        self.run(&after).await
    }

    async fn run(&mut self, commands: &[CloudInitCommand]) -> Result<Registration, Failure> {
        let mut node = None;
        for command in commands {
            match command {
                CloudInitCommand::Kubeadm(_) if node.is_some() => {
                    return Err(Failure::new(Reason::Command, "kubeadm is called twice"));
                }
                CloudInitCommand::Kubeadm(kubeadm) => node = Some(self.kubeadm(kubeadm).await?),
                other => other.run(&self.guest_vm.disk)?,
            }
        }
        node.ok_or_else(|| {
            Failure::new(Reason::KubeadmNotRun, "no command of the cloud-config calls kubeadm")
        })
    }

    async fn kubeadm(&mut self, kubeadm: &Kubeadm) -> Result<Registration, Failure> {
        if let Some(failure) = self.guest_vm.provoked.failure_of(&self.guest_vm.name) {
            return Err(failure);
        }
        bootstrap::run(kubeadm, &self.guest_vm, &mut self.kubelet).await
    }
}

/// Runs cloud-init's first stage: `bootcmd`, files, disks, users, and then the deferred files, which may belong to those users.
pub(super) fn initialize(
    disk: &Disk,
    config: &CloudConfig,
    before: &[CloudInitCommand],
) -> Result<(), Failure> {
    before.iter().try_for_each(|command| command.run(disk))?;
    let waits = |file: &&CloudConfigFile| file.defer == Some(true);
    config.write_files.iter().filter(|file| !waits(file)).try_for_each(|file| disk.write_file(file))?;
    disk.set_up_volumes(config)?;
    for entry in &config.users {
        if let UserEntry::User(user) = entry {
            disk.make_folder(&format!("/home/{}", user.name))?;
        }
    }
    config.write_files.iter().filter(waits).try_for_each(|file| disk.write_file(file))
}

pub(super) fn commands_of(lines: &[Line]) -> Result<Vec<CloudInitCommand>, Failure> {
    let mut all = Vec::new();
    for line in lines {
        all.extend(match line {
            Line::Shell(text) => commands::line(text)?,
            Line::Words(words) => commands::program(words)?,
        });
    }
    Ok(all)
}

/// Boots a VM from raw metadata and user data, without a vCenter. Empty user data is treated as missing.
///
/// Returns the running guest. After a failure, all its processes are stopped.
pub async fn boot(guest_vm: GuestVm, metadata: &[u8], userdata: &[u8]) -> Result<Guest, Failure> {
    let seed = Seed::from_parts(metadata, (!userdata.is_empty()).then(|| userdata.to_vec()))?;
    let mut guest = Guest::new(guest_vm);
    match guest.boot(&seed).await {
        Ok(()) => Ok(guest),
        Err(failure) => {
            guest.power_off().await;
            Err(failure)
        }
    }
}
