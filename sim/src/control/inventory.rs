//! What vCenter holds and was asked for, as an administrator would look.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

/// Requests that vCenter was sent, by wire and method.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Requests {
    /// The sum.
    pub total: u64,
    /// What their bodies and those of the answers came to.
    pub bytes: Traffic,
    /// `vijson`, `soap`, `rest` → method → count.
    pub by_wire: BTreeMap<String, BTreeMap<String, u64>>,
}

/// Bytes as the simulator saw them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Traffic {
    /// Of requests.
    pub received: u64,
    /// Of answers.
    pub sent: u64,
}

impl Requests {
    /// How often a method was called, whatever the wire.
    pub fn of(&self, method: &str) -> u64 {
        self.by_wire.values().filter_map(|methods| methods.get(method)).sum()
    }
}

/// A call that can change something, as a client made it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Call {
    /// `vijson`, `soap` or `rest`.
    pub wire: String,
    /// The method: `CloneVM_Task`.
    pub method: String,
    /// The most telling name of its object: what it makes, else what it is called on.
    pub object: String,
}

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
    /// What its cards are plugged into, by name.
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
