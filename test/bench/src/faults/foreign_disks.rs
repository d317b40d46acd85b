//! Disks that the VM operator did not create: claim volumes, which the site's storage provider attaches, and disks
//! that are attached to a VM in vCenter. They must survive whatever happens to the VM.

use std::cell::RefCell;
use std::collections::BTreeSet;

use anyhow::Result;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use sim::control::{ControlApi, FirstClassDisk, InventorySnapshot, OrphanedFiles};

/// The disk size in MiB.
const SIZE: u32 = 64;

pub struct ForeignDisks {
    control: ControlApi,
    datastore: String,
    /// The disks that were attached to VMs in vCenter and must still exist, as `datastore/folder`.
    kept: RefCell<BTreeSet<String>>,
}

impl ForeignDisks {
    pub fn new(control: ControlApi, datastore: &str) -> Self {
        Self { control, datastore: datastore.to_owned(), kept: RefCell::default() }
    }

    /// Attaches a new foreign disk to the VM.
    pub async fn attach_disk(&self, vm: &str, folder: &str) -> Result<()> {
        let file = format!("[{}] {folder}/disk.vmdk", self.datastore);
        self.control.attach(vm, &file, SIZE.into()).await?;
        self.kept.borrow_mut().insert(format!("{}/{folder}", self.datastore));
        Ok(())
    }

    /// Destroys the VM's last disk and attaches a foreign disk in its place.
    pub async fn swap_disk(&self, vm: &str, folder: &str) -> Result<()> {
        let file = format!("[{}] {folder}/disk.vmdk", self.datastore);
        self.control.swap_last_disk(vm, &file, SIZE.into()).await?;
        self.kept.borrow_mut().insert(format!("{}/{folder}", self.datastore));
        Ok(())
    }

    /// Creates a claim that is bound to a new volume.
    pub async fn create_claim(&self, client: &Client, namespace: &str, claim: &str) -> Result<()> {
        let disk = self.control.make_disk(&format!("{namespace}-{claim}"), SIZE.into()).await?;
        let name = format!("{namespace}-{claim}");
        let size = json!({ "storage": format!("{SIZE}Mi") });
        let volume: PersistentVolume = serde_json::from_value(json!({
            "metadata": { "name": name },
            "spec": {
                "capacity": size, "accessModes": ["ReadWriteOnce"],
                "claimRef": { "namespace": namespace, "name": claim },
                "csi": { "driver": "csi.vsphere.vmware.com", "volumeHandle": disk },
            },
        }))?;
        Api::all(client.clone()).create(&PostParams::default(), &volume).await?;
        let asked: PersistentVolumeClaim = serde_json::from_value(json!({
            "metadata": { "name": claim },
            "spec": {
                "volumeName": name, "storageClassName": "", "accessModes": ["ReadWriteOnce"],
                "resources": { "requests": size },
            },
        }))?;
        let claims = Api::<PersistentVolumeClaim>::namespaced(client.clone(), namespace);
        claims.create(&PostParams::default(), &asked).await?;
        // The testbed has no controller that binds claims.
        let bound = Patch::Merge(json!({ "status": { "phase": "Bound" } }));
        claims.patch_status(claim, &PatchParams::default(), &bound).await?;
        Ok(())
    }

    /// Returns the first class disks for all claims.
    pub async fn claim_disks(&self) -> Result<Vec<FirstClassDisk>> {
        Ok(self.control.disks().await?)
    }

    /// Returns the foreign disks that no longer exist.
    pub fn find_destroyed(
        &self,
        inventory: &InventorySnapshot,
        orphans: &OrphanedFiles,
        claims: &[FirstClassDisk],
    ) -> Vec<String> {
        let attached =
            inventory.vms.iter().flat_map(|vm| &vm.disks).filter_map(|disk| disk_folder(&disk.file));
        let there: BTreeSet<_> = attached.chain(orphans.files.iter().cloned()).collect();
        let hung = self.kept.borrow().difference(&there).cloned().collect::<Vec<_>>();
        let claimed = claims.iter().filter(|disk| !disk.exists).map(|disk| disk.name.clone());
        hung.into_iter().chain(claimed).collect()
    }

    /// Deletes all claim disks, and forgets the attached ones.
    pub async fn clear(&self) -> Result<()> {
        for disk in self.claim_disks().await? {
            self.control.delete_disk(&disk.id).await?;
        }
        self.kept.borrow_mut().clear();
        Ok(())
    }
}

const THEIRS: &str = "theirs-";

/// Returns the foreign disk's folder for the VM with this name.
pub fn foreign_folder(namespace: &str, name: &str) -> String {
    format!("{THEIRS}{namespace}-{name}")
}

/// Returns true if the folder (`datastore/folder`) contains a disk that was attached to a VM in vCenter.
pub fn is_foreign_folder(folder: &str) -> bool {
    folder.rsplit('/').next().is_some_and(|name| name.starts_with(THEIRS))
}

/// Converts `[datastore] folder/name.vmdk` to `datastore/folder`.
pub fn disk_folder(file: &str) -> Option<String> {
    let (datastore, path) = file.strip_prefix('[')?.split_once("] ")?;
    Some(format!("{datastore}/{}", path.split('/').next()?))
}

#[cfg(test)]
mod tests {
    use sim::control::{InventoryDisk, InventoryVm};

    use super::*;

    #[test]
    fn a_disk_is_there_as_long_as_anybody_has_its_file() {
        let disks = ForeignDisks::new(ControlApi::new("http://127.0.0.1:1", ""), "ds");
        disks.kept.borrow_mut().extend(["ds/theirs-n-a".to_owned(), "ds/theirs-n-b".to_owned()]);
        let vm = |file: &str| InventoryVm {
            disks: vec![InventoryDisk { file: file.to_owned(), capacity_mib: 64 }],
            ..InventoryVm::default()
        };
        let inventory =
            InventorySnapshot { vms: vec![vm("[ds] theirs-n-a/disk.vmdk")], ..InventorySnapshot::default() };
        let orphans = OrphanedFiles { files: vec!["ds/theirs-n-b".to_owned()], tasks: Vec::new() };
        let claim = |exists| FirstClassDisk { name: "n-c".to_owned(), exists, ..FirstClassDisk::default() };
        assert!(disks.find_destroyed(&inventory, &orphans, &[claim(true)]).is_empty());
        assert_eq!(
            disks.find_destroyed(&InventorySnapshot::default(), &orphans, &[claim(false)]),
            ["ds/theirs-n-a", "n-c"]
        );
        assert!(is_foreign_folder("ds/theirs-n-a") && !is_foreign_folder("ds/m-01"));
    }
}
