//! What vCenter holds, as an administrator would look, and what is left behind in it.

use std::collections::BTreeMap;

use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::client::ControlApi;
use super::error::Error;

/// What belongs to nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct OrphanedFiles {
    /// Folders of datastores that no VM has a file in.
    pub files: Vec<String>,
    /// Tasks that still run.
    pub tasks: Vec<String>,
}

/// One VM of the inventory, with all that a test may want to compare.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InventoryVm {
    /// Managed object id.
    pub moid: String,
    /// Name in its folder.
    pub name: String,
    /// Its folder's id.
    pub folder: String,
    /// Its resource pool's id.
    pub pool: String,
    /// Whether it is a template.
    pub template: bool,
    /// BIOS UUID.
    pub uuid: String,
    /// Instance UUID.
    pub instance_uuid: String,
    /// `poweredOn`, `poweredOff` or `suspended`.
    pub power_state: String,
    /// The mark of the extension that manages it.
    pub managed_by: Option<Value>,
    /// The host's id.
    pub host: String,
    /// `connected`, or why vCenter does not reach it; `orphaned` where no host has it.
    pub connection_state: String,
    /// Whether a file is gone that a disk of it is in or rests on.
    pub broken: bool,
    /// Virtual CPUs.
    #[serde(rename = "numCPUs")]
    pub num_cpus: i64,
    /// Memory, MiB.
    #[serde(rename = "memoryMB")]
    pub memory_mb: i64,
    /// Reserved CPU, MHz.
    pub cpu_reservation: Option<i64>,
    /// Reserved memory, MiB.
    pub memory_reservation: Option<i64>,
    /// The networks of its NICs, by name.
    pub networks: Vec<String>,
    /// Its disks, in their order.
    pub disks: Vec<InventoryDisk>,
    /// Everything else the control API tells.
    #[serde(flatten)]
    pub rest: BTreeMap<String, Value>,
}

/// A disk of a VM.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InventoryDisk {
    /// Its own file, as vCenter writes it: `[datastore] folder/name.vmdk`.
    pub file: String,
    /// Its size.
    #[serde(rename = "capacityMiB")]
    pub capacity_mib: u64,
}

/// A cluster module.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct InventoryModule {
    /// Its UUID.
    pub id: String,
    /// Managed object id of its cluster.
    pub cluster: String,
    /// Managed object ids of the VMs in it.
    pub members: Vec<String>,
}

/// A folder or resource pool of the inventory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InventoryNode {
    /// Managed object id.
    pub moid: String,
    /// Name.
    pub name: String,
    /// Id of what it is in.
    pub parent: String,
}

/// What vCenter holds.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Inventory {
    /// VMs and templates.
    pub vms: Vec<InventoryVm>,
    /// VM folders.
    pub folders: Vec<InventoryNode>,
    /// Resource pools.
    pub pools: Vec<InventoryNode>,
    /// Cluster modules.
    pub modules: Vec<InventoryModule>,
}

impl ControlApi {
    /// VMs, folders and pools.
    pub async fn inventory(&self) -> Result<Inventory, Error> {
        self.call(Method::GET, "/v1/inventory", None).await
    }

    /// What belongs to nothing.
    pub async fn orphaned_files(&self) -> Result<OrphanedFiles, Error> {
        self.call(Method::GET, "/v1/orphans", None).await
    }

    /// Removes the files that belong to nothing.
    pub async fn remove_orphaned_files(&self) -> Result<(), Error> {
        self.send(Method::DELETE, "/v1/orphans", None).await
    }

    /// Removes all cluster modules.
    pub async fn clear_modules(&self) -> Result<(), Error> {
        self.send(Method::DELETE, "/v1/modules", None).await
    }

    /// Makes a folder of VMs; answers its id.
    pub async fn make_folder(&self, parent: &str, name: &str) -> Result<String, Error> {
        let order = json!({"parent": parent, "name": name});
        self.call_for_one(Method::POST, "/v1/folders", Some(order), "moid").await
    }

    /// Destroys a folder with all VMs and folders in it.
    pub async fn clear_folder(&self, moid: &str) -> Result<(), Error> {
        self.send(Method::DELETE, &format!("/v1/folders/{moid}"), None).await
    }

    /// Gives a folder another name behind our back.
    pub async fn rename_folder(&self, moid: &str, name: &str) -> Result<(), Error> {
        self.send(Method::POST, &format!("/v1/folders/{moid}/rename"), Some(json!({ "name": name }))).await
    }

    /// Puts a folder with all that is in it into another behind our back.
    pub async fn relocate_folder(&self, moid: &str, folder: &str) -> Result<(), Error> {
        self.send(Method::POST, &format!("/v1/folders/{moid}/move"), Some(json!({ "folder": folder }))).await
    }

    /// Destroys a resource pool.
    pub async fn clear_pool(&self, moid: &str) -> Result<(), Error> {
        self.send(Method::DELETE, &format!("/v1/pools/{moid}"), None).await
    }
}
