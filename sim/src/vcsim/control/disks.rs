//! Disk operations: first class disks, as a storage provider uses them, and disk files that an administrator attaches.

use reqwest::Method;
use serde::Deserialize;
use serde_json::json;

use super::client::ControlApi;
use super::error::Error;

/// A first class disk: a vCenter disk with a lifecycle independent of VMs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FirstClassDisk {
    /// The disk id, which PersistentVolumes use as their volume handle.
    pub id: String,
    /// The name that was given at creation.
    pub name: String,
    /// The size in MiB.
    #[serde(rename = "capacityMiB")]
    pub capacity_mib: i64,
    /// True if the disk file exists. Destroying a VM destroys the attached disks, too.
    pub exists: bool,
    /// The managed object id of the VM to which the disk is attached, or empty.
    pub vm: String,
    /// The UUID that the VM's guest sees.
    #[serde(rename = "diskUUID")]
    pub disk_uuid: String,
}

impl ControlApi {
    /// Lists all first class disks.
    pub async fn disks(&self) -> Result<Vec<FirstClassDisk>, Error> {
        self.call_for_one(Method::GET, "/v1/disks", None, "disks").await
    }

    /// Creates a first class disk and returns its id.
    pub async fn make_disk(&self, name: &str, capacity_mib: i64) -> Result<String, Error> {
        let order = json!({"name": name, "capacityMiB": capacity_mib});
        self.call_for_one(Method::POST, "/v1/disks", Some(order), "id").await
    }

    /// Deletes a first class disk.
    ///
    /// # Errors
    /// Returns [`Error::Refused`] if the disk is attached to a VM.
    pub async fn delete_disk(&self, id: &str) -> Result<(), Error> {
        self.send(Method::DELETE, &format!("/v1/disks/{id}"), None).await
    }

    /// Attaches a first class disk to a VM, unless the disk is already attached to it. Returns the UUID that the guest
    /// sees. Fails if the disk is attached to another VM.
    pub async fn attach_disk(&self, moid: &str, id: &str) -> Result<String, Error> {
        self.call_for_one(Method::PUT, &format!("/v1/vms/{moid}/disks/{id}"), None, "diskUUID").await
    }

    /// Detaches a first class disk from a VM. Succeeds if the disk isn't attached.
    pub async fn detach_disk(&self, moid: &str, id: &str) -> Result<(), Error> {
        self.send(Method::DELETE, &format!("/v1/vms/{moid}/disks/{id}"), None).await
    }

    /// Attaches a disk file (`[datastore] folder/name.vmdk`) to a VM out of band and returns the disk UUID. Creates the
    /// file if it doesn't exist.
    pub async fn attach(&self, moid: &str, file: &str, capacity_mib: u64) -> Result<String, Error> {
        let order = json!({"file": file, "capacityMiB": capacity_mib});
        self.call_for_one(Method::POST, &format!("/v1/vms/{moid}/disks"), Some(order), "uuid").await
    }

    /// Replaces a VM's last disk with a disk file, out of band. The old disk and its file are destroyed.
    ///
    /// # Errors
    /// Returns [`Error::Refused`] if the VM has only one disk.
    pub async fn swap_last_disk(&self, moid: &str, file: &str, capacity_mib: u64) -> Result<(), Error> {
        let order = json!({"file": file, "capacityMiB": capacity_mib, "inPlaceOf": "last"});
        self.send(Method::POST, &format!("/v1/vms/{moid}/disks"), Some(order)).await
    }
}
