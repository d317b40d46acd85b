//! Compares the VMs in vCenter before and after a move.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, bail};
use kube::Client;
use vsphere::MoRef;

use crate::init::given::operator_flags;

/// The VMs of a move as vCenter has them, and the recent tasks on them.
pub struct VcenterState {
    vcenter: vsphere::Client,
    before: VmsAndTasks,
}

/// VMs by MoID, and tasks by MoID.
struct VmsAndTasks {
    /// VMs that vCenter doesn't have are omitted.
    vms: BTreeMap<String, Vm>,
    /// The VM's name and the task's description.
    tasks: BTreeMap<String, String>,
}

/// A VM in vCenter.
#[derive(PartialEq)]
struct Vm {
    name: String,
    uuid: String,
    power_state: String,
}

impl VcenterState {
    /// Reads the VMs with these BIOS UUIDs from the vCenter that the management cluster uses.
    ///
    /// # Errors
    /// Returns an error if vCenter can't be read.
    pub async fn read(client: &Client, uuids: &BTreeSet<String>) -> Result<Self> {
        let options = operator_flags(None).doctor_options()?;
        let vcenter = match vmop::doctor::connect(client, &options, None).await {
            Ok(vcenter) => vcenter,
            Err(found) => {
                let causes: Vec<_> =
                    found.iter().map(|one| format!("{} {}", one.check.code, one.found)).collect();
                bail!("cannot connect to vCenter: {}", causes.join("; "));
            }
        };
        let before = VmsAndTasks::read(&vcenter, uuids).await?;
        Ok(Self { vcenter, before })
    }

    /// Returns the number of VMs.
    pub fn count(&self) -> usize {
        self.before.vms.len()
    }

    /// Reads the VMs again. Returns a line for each VM that is gone or has another power state, and for each new task.
    ///
    /// # Errors
    /// Returns an error if vCenter can't be read.
    pub async fn differences(&self) -> Result<Vec<String>> {
        let uuids = self.before.vms.values().map(|vm| vm.uuid.clone()).collect();
        let now = VmsAndTasks::read(&self.vcenter, &uuids).await?;
        let changed = self.before.vms.iter().filter_map(|(id, before)| {
            let name = &before.name;
            match now.vms.get(id) {
                Some(now) if now == before => None,
                Some(now) => {
                    Some(format!("VM {name} was {}, and is {}", before.power_state, now.power_state))
                }
                None => Some(format!("VM {name} is gone")),
            }
        });
        let new = now.tasks.iter().filter(|(task, _)| !self.before.tasks.contains_key(*task));
        Ok(changed.chain(new.map(|(_, text)| text.clone())).collect())
    }

    /// Ends the vCenter session.
    pub async fn close(self) {
        self.vcenter.logout().await;
    }
}

impl VmsAndTasks {
    async fn read(vcenter: &vsphere::Client, uuids: &BTreeSet<String>) -> Result<Self> {
        let all =
            vcenter.retrieve_all("VirtualMachine", &["name", "config.uuid", "runtime.powerState"]).await;
        let all = all.context("cannot list the VMs of vCenter")?;
        let vms: BTreeMap<_, _> = all
            .iter()
            .map(|vm| {
                let text = |path: &str| vm.get(path).as_str().unwrap_or_default().to_owned();
                let (name, uuid, power_state) =
                    (text("name"), text("config.uuid"), text("runtime.powerState"));
                (vm.obj.id().to_owned(), Vm { name, uuid, power_state })
            })
            .filter(|(_, vm)| uuids.contains(&vm.uuid))
            .collect();
        let manager = MoRef::new("TaskManager", "TaskManager");
        let paths = ["info.entity", "info.descriptionId"];
        let recent = vcenter.retrieve_members(&manager, "recentTask", "Task", &paths).await;
        let recent = recent.context("cannot list the recent tasks of vCenter")?;
        let tasks = recent.iter().filter_map(|task| {
            let vm = vms.get(task.get("info.entity").as_moref()?.id())?;
            let description = task.get("info.descriptionId").as_str().unwrap_or_default();
            Some((task.obj.id().to_owned(), format!("VM {}: task {description}", vm.name)))
        });
        let tasks = tasks.collect();
        Ok(Self { vms, tasks })
    }
}
