//! The vCenter inventory as an administrator sees it, and leftovers in it.

use std::collections::BTreeMap;

use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::client::ControlApi;
use super::error::Error;

/// Leftovers that a test can cause: datastore folders without a VM, and tasks that are still running.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct OrphanedFiles {
    /// Datastore folders that don't belong to a VM.
    pub files: Vec<String>,
    /// Tasks that are still running.
    pub tasks: Vec<String>,
}

/// A VM in the inventory, with the details that tests compare.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InventoryVm {
    /// The managed object id.
    pub moid: String,
    /// The name in the folder.
    pub name: String,
    /// The folder's managed object id.
    pub folder: String,
    /// The resource pool's managed object id.
    pub pool: String,
    /// True if the VM is a template.
    pub template: bool,
    /// The BIOS UUID.
    pub uuid: String,
    /// The vCenter instance UUID.
    pub instance_uuid: String,
    /// The power state: `poweredOn`, `poweredOff` or `suspended`.
    pub power_state: String,
    /// The key of the extension that manages the VM, or an empty string.
    pub managed_by: Option<Value>,
    /// The host's managed object id.
    pub host: String,
    /// The connection state: `connected`, or the reason why vCenter can't reach the VM. `orphaned` if the VM isn't on any host.
    pub connection_state: String,
    /// True if a disk file or one of its base files is missing.
    pub broken: bool,
    /// The virtual CPU count.
    #[serde(rename = "numCPUs")]
    pub num_cpus: i64,
    /// The memory size in MiB.
    #[serde(rename = "memoryMB")]
    pub memory_mb: i64,
    /// The CPU reservation in MHz.
    pub cpu_reservation: Option<i64>,
    /// The memory reservation in MiB.
    pub memory_reservation: Option<i64>,
    /// The network names, one per NIC.
    pub networks: Vec<String>,
    /// The disks in device order.
    pub disks: Vec<InventoryDisk>,
    /// All other fields in the control API's response.
    #[serde(flatten)]
    pub rest: BTreeMap<String, Value>,
}

/// A VM disk in the inventory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InventoryDisk {
    /// The disk's own file, without its bases, in vCenter's format: `[datastore] folder/name.vmdk`.
    pub file: String,
    /// The size in MiB.
    #[serde(rename = "capacityMiB")]
    pub capacity_mib: u64,
}

/// A cluster module, whose member VMs must run on different hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct InventoryModule {
    /// The module's UUID.
    pub id: String,
    /// The cluster's managed object id.
    pub cluster: String,
    /// The member VMs' managed object ids.
    pub members: Vec<String>,
}

/// A folder or resource pool in the inventory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InventoryNode {
    /// The managed object id.
    pub moid: String,
    /// The name in the parent.
    pub name: String,
    /// The parent's managed object id, or empty at the root.
    pub parent: String,
}

/// A snapshot of vCenter's inventory.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct InventorySnapshot {
    /// All VMs, including templates.
    pub vms: Vec<InventoryVm>,
    /// All folders.
    pub folders: Vec<InventoryNode>,
    /// All resource pools.
    pub pools: Vec<InventoryNode>,
    /// All cluster modules.
    pub modules: Vec<InventoryModule>,
}

impl ControlApi {
    /// Returns all VMs, folders, resource pools and cluster modules.
    pub async fn inventory(&self) -> Result<InventorySnapshot, Error> {
        self.call(Method::GET, "/v1/inventory", None).await
    }

    /// Returns datastore folders without a VM, and running tasks.
    pub async fn orphaned_files(&self) -> Result<OrphanedFiles, Error> {
        self.call(Method::GET, "/v1/orphans", None).await
    }

    /// Deletes the datastore folders that don't belong to a VM.
    pub async fn remove_orphaned_files(&self) -> Result<(), Error> {
        self.send(Method::DELETE, "/v1/orphans", None).await
    }

    /// Deletes all cluster modules.
    pub async fn clear_modules(&self) -> Result<(), Error> {
        self.send(Method::DELETE, "/v1/modules", None).await
    }

    /// Creates a VM folder and returns its managed object id.
    pub async fn make_folder(&self, parent: &str, name: &str) -> Result<String, Error> {
        let order = json!({"parent": parent, "name": name});
        self.call_for_one(Method::POST, "/v1/folders", Some(order), "moid").await
    }

    /// Destroys a folder, including all VMs and folders in it.
    pub async fn clear_folder(&self, moid: &str) -> Result<(), Error> {
        self.send(Method::DELETE, &format!("/v1/folders/{moid}"), None).await
    }

    /// Renames a folder out of band.
    pub async fn rename_folder(&self, moid: &str, name: &str) -> Result<(), Error> {
        self.send(Method::POST, &format!("/v1/folders/{moid}/rename"), Some(json!({ "name": name }))).await
    }

    /// Moves a folder and its content into another folder, out of band.
    pub async fn relocate_folder(&self, moid: &str, folder: &str) -> Result<(), Error> {
        self.send(Method::POST, &format!("/v1/folders/{moid}/move"), Some(json!({ "folder": folder }))).await
    }

    /// Destroys a resource pool, out of band.
    pub async fn clear_pool(&self, moid: &str) -> Result<(), Error> {
        self.send(Method::DELETE, &format!("/v1/pools/{moid}"), None).await
    }
}
