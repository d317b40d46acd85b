//! VMs as a guest, or an operator behind our back, sees and changes them.

use std::collections::BTreeMap;
use std::time::Duration;

use reqwest::Method;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::client::ControlApi;
use super::error::Error;

/// A VM as the control API lists it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Vm {
    /// Managed object id, `vm-42`.
    pub moid: String,
    /// Name in its folder.
    pub name: String,
    /// BIOS UUID.
    pub uuid: String,
    /// vCenter's instance UUID.
    pub instance_uuid: String,
    /// `poweredOn`, `poweredOff` or `suspended`.
    pub power_state: String,
    /// Whether it is a template, which never boots.
    pub template: bool,
    /// The folder it is in.
    pub folder: String,
    /// Grows with every power-on, reset and reboot.
    pub boot_count: u64,
    /// Grows with every request to the guest to shut down, where guests carry them out themselves.
    pub shutdown_count: u64,
    /// Its disks, in the order of their places.
    #[serde(deserialize_with = "listed")]
    pub disks: Vec<VmDisk>,
    /// The MAC addresses of its network adapters.
    #[serde(deserialize_with = "listed")]
    pub macs: Vec<String>,
}

/// A disk of a VM, as its guest sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VmDisk {
    /// `scsi`, `sata`, `ide` or `nvme`.
    pub bus: String,
    /// The number of its controller among those of its bus.
    pub controller: i32,
    /// Its place there.
    pub unit: i32,
    /// Its UUID, which `disk.enableUUID` shows to the guest.
    pub uuid: String,
    /// Size, MiB.
    #[serde(rename = "capacityMiB")]
    pub capacity_mib: i64,
    /// Whether it is a volume of its own that only hangs on the VM.
    pub first_class: bool,
}

/// What a VM is made of, as a hypervisor needs to know it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Hardware {
    /// Virtual CPUs.
    #[serde(rename = "numCPUs")]
    pub num_cpus: u32,
    /// Memory, MiB.
    #[serde(rename = "memoryMB")]
    pub memory_mb: u64,
    /// `bios` or `efi`.
    pub firmware: String,
    /// The content library's item that its first disk is a copy of, by name; empty where it is a copy of none.
    pub image: String,
    /// Its disks, in the order of their places.
    #[serde(deserialize_with = "listed")]
    pub disks: Vec<VmDisk>,
    /// Its network adapters, in their order.
    #[serde(deserialize_with = "listed")]
    pub nics: Vec<Nic>,
}

/// A network adapter of a VM.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Nic {
    /// Its MAC address.
    pub mac: String,
    /// The name of its network.
    pub network: String,
    /// Whether it is plugged in at power-on.
    pub connected: bool,
}

impl Vm {
    /// Whether a guest runs in it.
    pub fn powered_on(&self) -> bool {
        self.power_state == "poweredOn" && !self.template
    }
}

/// All VMs at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Vms {
    /// To be given as `since` to the next call.
    pub revision: u64,
    /// Every VM, templates too.
    #[serde(deserialize_with = "listed")]
    pub vms: Vec<Vm>,
}

/// Go writes an empty list as null.
fn listed<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// A VM that came to be as a copy of another.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct VmCopy {
    /// Name in its folder.
    pub name: String,
    /// Managed object id.
    pub moid: String,
    /// BIOS and instance UUID.
    pub uuid: String,
    /// The address that its guest reports; empty if the original's reports none.
    pub ip: String,
}

/// What VMware Tools in the guest reports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GuestReport {
    /// The primary address; none takes it away.
    pub ip: Option<String>,
    /// The host name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_name: Option<String>,
    /// Whether VMware Tools runs.
    pub tools_running: bool,
}

/// What somebody does to a VM behind our back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum PowerAction {
    /// Power it on.
    On,
    /// Power it off, hard.
    Off,
    /// Press reset.
    Reset,
    /// Power it off and delete it from disk.
    Destroy,
    /// Take it out of the inventory.
    Unregister,
}

impl ControlApi {
    /// The VMs, at once if the revision is not `since` any more, else when something changes or `wait` is over.
    pub async fn vms(&self, since: Option<u64>, wait: Duration) -> Result<Vms, Error> {
        let path = match since {
            Some(revision) => format!("/v1/vms?since={revision}&waitMs={}", wait.as_millis()),
            None => "/v1/vms".to_owned(),
        };
        self.call(Method::GET, &path, None).await
    }

    /// What the VM is made of.
    pub async fn hardware(&self, moid: &str) -> Result<Hardware, Error> {
        self.call(Method::GET, &format!("/v1/vms/{moid}/hardware"), None).await
    }

    /// The VM's `guestinfo.*` keys.
    pub async fn guestinfo(&self, moid: &str) -> Result<BTreeMap<String, String>, Error> {
        self.call(Method::GET, &format!("/v1/vms/{moid}/guestinfo"), None).await
    }

    /// Writes `guestinfo.*` keys as the guest's RPC tool does; none removes one.
    pub async fn set_guestinfo(
        &self,
        moid: &str,
        values: &BTreeMap<String, Option<String>>,
    ) -> Result<(), Error> {
        self.send(Method::PATCH, &format!("/v1/vms/{moid}/guestinfo"), Some(json!(values))).await
    }

    /// Reports what VMware Tools sees.
    pub async fn report(&self, moid: &str, report: &GuestReport) -> Result<(), Error> {
        self.send(Method::PUT, &format!("/v1/vms/{moid}/guest"), Some(json!(report))).await
    }

    /// Shows a question about a VM, or takes it away. An operation that waits for the answer is a fault of its method.
    pub async fn ask(&self, moid: &str, question: Option<&str>) -> Result<(), Error> {
        let order = json!({ "text": question.unwrap_or_default() });
        self.send(Method::PUT, &format!("/v1/vms/{moid}/question"), Some(order)).await
    }

    /// Does something to a VM behind our back.
    pub async fn power(&self, moid: &str, action: PowerAction) -> Result<(), Error> {
        self.send(Method::POST, &format!("/v1/vms/{moid}/power"), Some(json!({ "action": action }))).await
    }

    /// So many copies of a VM come to be beside it, to be read and not to be changed.
    pub async fn copies(&self, moid: &str, count: usize, prefix: &str) -> Result<Vec<VmCopy>, Error> {
        let body = json!({"count": count, "prefix": prefix});
        self.call(Method::POST, &format!("/v1/vms/{moid}/copies"), Some(body)).await
    }

    /// Gives a VM another name behind our back.
    pub async fn rename(&self, moid: &str, name: &str) -> Result<(), Error> {
        self.send(Method::POST, &format!("/v1/vms/{moid}/rename"), Some(json!({ "name": name }))).await
    }

    /// Puts a VM into another folder behind our back.
    pub async fn relocate(&self, moid: &str, folder: &str) -> Result<(), Error> {
        self.send(Method::POST, &format!("/v1/vms/{moid}/move"), Some(json!({ "folder": folder }))).await
    }
}
