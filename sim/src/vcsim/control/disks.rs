//! Disks: first class ones, which are no VM's own, as a storage provider makes them, and those attached by hand.

use reqwest::Method;
use serde::Deserialize;
use serde_json::json;

use super::client::ControlApi;
use super::error::Error;

/// A first class disk, as vCenter has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FirstClassDisk {
    /// Its identity.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Size, MiB.
    #[serde(rename = "capacityMiB")]
    pub capacity_mib: i64,
    /// Whether its data is there: who destroys a VM destroys what is attached to it.
    pub exists: bool,
    /// The VM it is attached to; empty while it is attached to none.
    pub vm: String,
    /// By which that VM's guest knows it.
    #[serde(rename = "diskUUID")]
    pub disk_uuid: String,
}

impl ControlApi {
    /// All first class disks.
    pub async fn disks(&self) -> Result<Vec<FirstClassDisk>, Error> {
        self.call_for_one(Method::GET, "/v1/disks", None, "disks").await
    }

    /// Makes a disk; answers its id.
    pub async fn make_disk(&self, name: &str, capacity_mib: i64) -> Result<String, Error> {
        let order = json!({"name": name, "capacityMiB": capacity_mib});
        self.call_for_one(Method::POST, "/v1/disks", Some(order), "id").await
    }

    /// Deletes a disk, which is refused while it is attached to a VM.
    pub async fn delete_disk(&self, id: &str) -> Result<(), Error> {
        self.send(Method::DELETE, &format!("/v1/disks/{id}"), None).await
    }

    /// Attaches a disk to a VM, unless it is attached already; answers by which UUID the guest knows it.
    pub async fn attach_disk(&self, moid: &str, id: &str) -> Result<String, Error> {
        self.call_for_one(Method::PUT, &format!("/v1/vms/{moid}/disks/{id}"), None, "diskUUID").await
    }

    /// Detaches a disk from a VM, if it is attached.
    pub async fn detach_disk(&self, moid: &str, id: &str) -> Result<(), Error> {
        self.send(Method::DELETE, &format!("/v1/vms/{moid}/disks/{id}"), None).await
    }

    /// Attaches the disk of that file (`[datastore] folder/name.vmdk`) to a VM behind our back; it is made if it is not
    /// there. Answers its UUID.
    pub async fn attach(&self, moid: &str, file: &str, capacity_mib: u64) -> Result<String, Error> {
        let order = json!({"file": file, "capacityMiB": capacity_mib});
        self.call_for_one(Method::POST, &format!("/v1/vms/{moid}/disks"), Some(order), "uuid").await
    }

    /// Hangs the disk of that file into the place of a VM's last disk, which is destroyed. It is refused where the VM has
    /// only one.
    pub async fn swap_last_disk(&self, moid: &str, file: &str, capacity_mib: u64) -> Result<(), Error> {
        let order = json!({"file": file, "capacityMiB": capacity_mib, "inPlaceOf": "last"});
        self.send(Method::POST, &format!("/v1/vms/{moid}/disks"), Some(order)).await
    }
}
