//! VM operations from inside the guest, and out-of-band changes by an administrator.

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
pub struct SimulatedVm {
    /// The managed object id, such as `vm-42`.
    pub moid: String,
    /// The name in the folder.
    pub name: String,
    /// The BIOS UUID.
    pub uuid: String,
    /// The VM's instance UUID, by which vCenter identifies it.
    pub instance_uuid: String,
    /// The power state: `poweredOn`, `poweredOff` or `suspended`.
    pub power_state: String,
    /// True if the VM is a template, which never boots.
    pub template: bool,
    /// The folder's managed object id.
    pub folder: String,
    /// A counter of power-ons, resets and reboots.
    pub boot_count: u64,
    /// A counter of guest shutdown requests, if vCenter runs with `--real-guests`.
    pub shutdown_count: u64,
    /// The disks, ordered by bus, controller and unit.
    #[serde(deserialize_with = "listed")]
    pub disks: Vec<VmDisk>,
    /// The MAC addresses, one per network adapter.
    #[serde(deserialize_with = "listed")]
    pub macs: Vec<String>,
}

/// A VM disk as the guest sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VmDisk {
    /// The bus type: `scsi`, `sata`, `ide` or `nvme`.
    pub bus: String,
    /// The controller's bus number, which is unique per bus type.
    pub controller: i32,
    /// The unit number on the controller.
    pub unit: i32,
    /// The UUID that the guest sees if `disk.enableUUID` is set.
    pub uuid: String,
    /// The size in MiB.
    #[serde(rename = "capacityMiB")]
    pub capacity_mib: i64,
    /// True if this is a first class disk, which isn't part of the VM.
    pub first_class: bool,
}

/// The virtual hardware that a hypervisor needs to run a VM.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Hardware {
    /// The virtual CPU count.
    #[serde(rename = "numCPUs")]
    pub num_cpus: u32,
    /// The memory size in MiB.
    #[serde(rename = "memoryMB")]
    pub memory_mb: u64,
    /// The firmware type: `bios` or `efi`.
    pub firmware: String,
    /// The name of the content library item from which the first disk was copied, or empty.
    pub image: String,
    /// The disks, ordered by bus, controller and unit.
    #[serde(deserialize_with = "listed")]
    pub disks: Vec<VmDisk>,
    /// The network adapters in device order.
    #[serde(deserialize_with = "listed")]
    pub nics: Vec<NetworkAdapter>,
}

/// A VM's network adapter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkAdapter {
    /// The MAC address, colon-separated.
    pub mac: String,
    /// The network name.
    pub network: String,
    /// True if the adapter is connected at power-on.
    pub connected: bool,
}

impl SimulatedVm {
    /// Returns true if the VM is powered on and isn't a template, so that it runs a guest.
    pub fn powered_on(&self) -> bool {
        self.power_state == "poweredOn" && !self.template
    }
}

/// A snapshot of all VMs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Vms {
    /// The revision, to be passed as `since` in the next call.
    pub revision: u64,
    /// All VMs, including templates.
    #[serde(deserialize_with = "listed")]
    pub vms: Vec<SimulatedVm>,
}

/// Deserializes a list. Accepts null, which is Go's encoding for an empty list.
fn listed<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// A VM that [`ControlApi::copies`] created.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct VmCopy {
    /// The name in the folder.
    pub name: String,
    /// The managed object id.
    pub moid: String,
    /// The UUID, used both as BIOS and as instance UUID.
    pub uuid: String,
    /// The reported guest address, or empty if the original doesn't report one.
    pub ip: String,
}

/// A report from VMware Tools in the guest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GuestReport {
    /// The primary address. `None` removes it.
    pub ip: Option<String>,
    /// The host name. `None` keeps the current one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_name: Option<String>,
    /// True if VMware Tools is running.
    pub tools_running: bool,
}

/// An out-of-band operation on a VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum PowerAction {
    /// Power on.
    On,
    /// Power off without a guest shutdown.
    Off,
    /// Hard reset.
    Reset,
    /// Power off and delete from disk.
    Destroy,
    /// Power off and remove from the inventory. The files remain.
    Unregister,
}

impl ControlApi {
    /// Returns all VMs. If `since` is the current revision, waits for a change, but not longer than `wait`.
    pub async fn vms(&self, since: Option<u64>, wait: Duration) -> Result<Vms, Error> {
        let path = match since {
            Some(revision) => format!("/v1/vms?since={revision}&waitMs={}", wait.as_millis()),
            None => "/v1/vms".to_owned(),
        };
        self.call(Method::GET, &path, None).await
    }

    /// Returns a VM's virtual hardware.
    pub async fn hardware(&self, moid: &str) -> Result<Hardware, Error> {
        self.call(Method::GET, &format!("/v1/vms/{moid}/hardware"), None).await
    }

    /// Returns the VM's `guestinfo.*` values by key.
    pub async fn guestinfo(&self, moid: &str) -> Result<BTreeMap<String, String>, Error> {
        self.call(Method::GET, &format!("/v1/vms/{moid}/guestinfo"), None).await
    }

    /// Sets `guestinfo.*` keys as the guest's RPC tool does. `None` removes a key.
    pub async fn set_guestinfo(
        &self,
        moid: &str,
        values: &BTreeMap<String, Option<String>>,
    ) -> Result<(), Error> {
        self.send(Method::PATCH, &format!("/v1/vms/{moid}/guestinfo"), Some(json!(values))).await
    }

    /// Sends a VMware Tools report. Fails if the VM isn't powered on.
    pub async fn report(&self, moid: &str, report: &GuestReport) -> Result<(), Error> {
        self.send(Method::PUT, &format!("/v1/vms/{moid}/guest"), Some(json!(report))).await
    }

    /// Sets a pending question on a VM, or removes it. To make an operation wait for the answer, add a fault for its method.
    pub async fn ask(&self, moid: &str, question: Option<&str>) -> Result<(), Error> {
        let order = json!({ "text": question.unwrap_or_default() });
        self.send(Method::PUT, &format!("/v1/vms/{moid}/question"), Some(order)).await
    }

    /// Runs an out-of-band operation on a VM.
    pub async fn power(&self, moid: &str, action: PowerAction) -> Result<(), Error> {
        self.send(Method::POST, &format!("/v1/vms/{moid}/power"), Some(json!({ "action": action }))).await
    }

    /// Creates `count` copies of a VM in its folder, with the names `PREFIX-NUMBER`. The copies share state with the
    /// original, so use them only for reading.
    pub async fn copies(&self, moid: &str, count: usize, prefix: &str) -> Result<Vec<VmCopy>, Error> {
        let body = json!({"count": count, "prefix": prefix});
        self.call(Method::POST, &format!("/v1/vms/{moid}/copies"), Some(body)).await
    }

    /// Renames a VM out of band.
    pub async fn rename(&self, moid: &str, name: &str) -> Result<(), Error> {
        self.send(Method::POST, &format!("/v1/vms/{moid}/rename"), Some(json!({ "name": name }))).await
    }

    /// Moves a VM into another folder, out of band.
    pub async fn relocate(&self, moid: &str, folder: &str) -> Result<(), Error> {
        self.send(Method::POST, &format!("/v1/vms/{moid}/move"), Some(json!({ "folder": folder }))).await
    }
}
