//! Disks that the VM operator did not make: claims' volumes, which the site's storage provider attaches, and what
//! somebody hangs on a machine behind its back. Whatever happens to the machine, they are still there afterwards.

use std::cell::RefCell;
use std::collections::BTreeSet;

use anyhow::Result;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use sim::control::{ControlApi, FirstClassDisk, Inventory, OrphanedFiles};

/// Size of each, MiB.
const SIZE: u32 = 64;

/// Others' disks.
pub struct Disks {
    control: ControlApi,
    datastore: String,
    /// What somebody has hung on machines and has to be there, as `datastore/folder`.
    kept: RefCell<BTreeSet<String>>,
}

impl Disks {
    /// None yet.
    pub fn new(control: ControlApi, datastore: &str) -> Self {
        Self { control, datastore: datastore.to_owned(), kept: RefCell::default() }
    }

    /// Hangs a disk of somebody else's on the machine.
    pub async fn hung(&self, machine: &str, folder: &str) -> Result<()> {
        let file = format!("[{}] {folder}/disk.vmdk", self.datastore);
        self.control.attach(machine, &file, SIZE.into()).await?;
        self.kept.borrow_mut().insert(format!("{}/{folder}", self.datastore));
        Ok(())
    }

    /// Makes a claim that is bound to a volume of its own.
    pub async fn claimed(&self, client: &Client, namespace: &str, claim: &str) -> Result<()> {
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
        // Nobody binds claims here.
        let bound = Patch::Merge(json!({ "status": { "phase": "Bound" } }));
        claims.patch_status(claim, &PatchParams::default(), &bound).await?;
        Ok(())
    }

    /// The first class disks of all claims.
    pub async fn claims(&self) -> Result<Vec<FirstClassDisk>> {
        Ok(self.control.disks().await?)
    }

    /// Those that are gone.
    pub fn destroyed(
        &self,
        inventory: &Inventory,
        orphans: &OrphanedFiles,
        claims: &[FirstClassDisk],
    ) -> Vec<String> {
        let attached = inventory.vms.iter().flat_map(|vm| &vm.disks).filter_map(|disk| folder(&disk.file));
        let there: BTreeSet<_> = attached.chain(orphans.files.iter().cloned()).collect();
        let hung = self.kept.borrow().difference(&there).cloned().collect::<Vec<_>>();
        let claimed = claims.iter().filter(|disk| !disk.exists).map(|disk| disk.name.clone());
        hung.into_iter().chain(claimed).collect()
    }

    /// All are removed that hang on no machine.
    pub async fn clear(&self) -> Result<()> {
        for disk in self.claims().await? {
            self.control.delete_disk(&disk.id).await?;
        }
        self.kept.borrow_mut().clear();
        Ok(())
    }
}

const THEIRS: &str = "theirs-";

/// The folder of a disk that somebody hangs on the machine of that name.
pub fn theirs(namespace: &str, name: &str) -> String {
    format!("{THEIRS}{namespace}-{name}")
}

/// Whether a folder (`datastore/folder`) is that of a disk that somebody has hung on a machine.
pub fn is_theirs(folder: &str) -> bool {
    folder.rsplit('/').next().is_some_and(|name| name.starts_with(THEIRS))
}

/// `datastore/folder` of `[datastore] folder/name.vmdk`.
pub fn folder(file: &str) -> Option<String> {
    let (datastore, path) = file.strip_prefix('[')?.split_once("] ")?;
    Some(format!("{datastore}/{}", path.split('/').next()?))
}

#[cfg(test)]
mod tests {
    use sim::control::{InventoryDisk, InventoryVm};

    use super::*;

    #[test]
    fn a_disk_is_there_as_long_as_anybody_has_its_file() {
        let disks = Disks::new(ControlApi::new("http://127.0.0.1:1", ""), "ds");
        disks.kept.borrow_mut().extend(["ds/theirs-n-a".to_owned(), "ds/theirs-n-b".to_owned()]);
        let vm = |file: &str| InventoryVm {
            disks: vec![InventoryDisk { file: file.to_owned(), capacity_mib: 64 }],
            ..InventoryVm::default()
        };
        let inventory = Inventory { vms: vec![vm("[ds] theirs-n-a/disk.vmdk")], ..Inventory::default() };
        let orphans = OrphanedFiles { files: vec!["ds/theirs-n-b".to_owned()], tasks: Vec::new() };
        let claim = |exists| FirstClassDisk { name: "n-c".to_owned(), exists, ..FirstClassDisk::default() };
        assert!(disks.destroyed(&inventory, &orphans, &[claim(true)]).is_empty());
        assert_eq!(
            disks.destroyed(&Inventory::default(), &orphans, &[claim(false)]),
            ["ds/theirs-n-a", "n-c"]
        );
        assert!(is_theirs("ds/theirs-n-a") && !is_theirs("ds/m-01"));
    }
}
