//! Disks that the VM operator did not make: claims' volumes, attached as vSphere CSI does it, and what somebody hangs
//! on a machine behind its back. Whatever happens to the machine, they are still there afterwards.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use api::cns::{CnsNodeVmAttachment, DISK_UUID, FINALIZER};
use futures::StreamExt as _;
use kube::api::{Patch, PatchParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, ResourceExt as _};
use parking_lot::Mutex;
use serde_json::json;
use site::door::{Door, Inventory, Stray};

/// Size of each, MiB.
const SIZE: u64 = 64;

/// Others' disks, by the folders of their files.
#[derive(Clone)]
pub struct Disks {
    door: Door,
    datastore: String,
    /// Those that have to be there, as `datastore/folder`.
    kept: Arc<Mutex<BTreeSet<String>>>,
}

impl Disks {
    /// None yet.
    pub fn new(door: Door, datastore: &str) -> Self {
        Self { door, datastore: datastore.to_owned(), kept: Arc::default() }
    }

    /// Hangs a disk of somebody else's on the machine; answers its UUID.
    pub async fn hung(&self, machine: &str, folder: &str) -> Result<String> {
        let uuid = self.door.attach(machine, &self.file(folder), SIZE).await?;
        self.kept.lock().insert(format!("{}/{folder}", self.datastore));
        Ok(uuid)
    }

    fn file(&self, folder: &str) -> String {
        format!("[{}] {folder}/disk.vmdk", self.datastore)
    }

    /// Those that are gone.
    pub fn destroyed(&self, inventory: &Inventory, stray: &Stray) -> Vec<String> {
        let attached = inventory.vms.iter().flat_map(|vm| &vm.disks).filter_map(|disk| folder(&disk.file));
        let there: BTreeSet<_> = attached.chain(stray.files.iter().cloned()).collect();
        self.kept.lock().difference(&there).cloned().collect()
    }

    /// All are forgotten.
    pub fn forget(&self) {
        self.kept.lock().clear();
    }
}

const CLAIM: &str = "claim-";
const THEIRS: &str = "theirs-";

/// The folder of a disk that somebody hangs on the machine of that name.
pub fn theirs(namespace: &str, name: &str) -> String {
    format!("{THEIRS}{namespace}-{name}")
}

/// Whether a folder (`datastore/folder`) is that of a disk that no machine was made with.
pub fn is_others(folder: &str) -> bool {
    folder.rsplit('/').next().is_some_and(|name| name.starts_with(CLAIM) || name.starts_with(THEIRS))
}

/// `datastore/folder` of `[datastore] folder/name.vmdk`.
pub fn folder(file: &str) -> Option<String> {
    let (datastore, path) = file.strip_prefix('[')?.split_once("] ")?;
    Some(format!("{datastore}/{}", path.split('/').next()?))
}

/// Carries out every attachment that is asked for, and undoes those that are to go.
pub async fn attached(client: Client, disks: Disks) {
    let api = Api::<CnsNodeVmAttachment>::all(client.clone());
    let mut changes =
        std::pin::pin!(watcher(api, watcher::Config::default()).default_backoff().applied_objects());
    while let Some(change) = changes.next().await {
        let Ok(attachment) = change else { continue };
        while let Err(error) = carried_out(&client, &disks, &attachment).await {
            tracing::debug!(%error, name = attachment.name_any(), "not attached yet");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

async fn carried_out(client: &Client, disks: &Disks, attachment: &CnsNodeVmAttachment) -> Result<()> {
    let namespace = attachment.namespace().unwrap_or_default();
    let api = Api::<CnsNodeVmAttachment>::namespaced(client.clone(), &namespace);
    let Some(attachment) = api.get_opt(&attachment.name_any()).await? else { return Ok(()) };
    let name = attachment.name_any();
    let folder = format!("{CLAIM}{namespace}-{}", attachment.spec.volume_name);
    let inventory = disks.door.inventory().await?;
    let machine = inventory.vms.iter().find(|vm| vm.uuid.eq_ignore_ascii_case(&attachment.spec.node_uuid));
    let finalizers = |all: &[&str]| Patch::Merge(json!({ "metadata": { "finalizers": all } }));
    if attachment.metadata.deletion_timestamp.is_some() {
        if let Some(machine) = machine {
            disks.door.detach(&machine.moid, &disks.file(&folder)).await?;
        }
        api.patch(&name, &PatchParams::default(), &finalizers(&[])).await?;
        return Ok(());
    }
    let Some(machine) = machine.filter(|_| !attachment.status.as_ref().is_some_and(|status| status.attached))
    else {
        return Ok(());
    };
    api.patch(&name, &PatchParams::default(), &finalizers(&[FINALIZER])).await?;
    let uuid = disks.hung(&machine.moid, &folder).await?;
    let status = json!({ "status": { "attached": true, "metadata": { DISK_UUID: uuid } } });
    api.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use site::door::{InventoryDisk, InventoryVm};

    use super::*;

    #[test]
    fn a_disk_is_there_as_long_as_anybody_has_its_file() {
        let disks = Disks::new(Door::new("http://127.0.0.1:1", ""), "ds");
        disks.kept.lock().extend(["ds/theirs-n-a".to_owned(), "ds/claim-n-b".to_owned()]);
        let vm = |file: &str| InventoryVm {
            disks: vec![InventoryDisk { file: file.to_owned(), capacity_mib: 64 }],
            ..InventoryVm::default()
        };
        let inventory = Inventory { vms: vec![vm("[ds] theirs-n-a/disk.vmdk")], ..Inventory::default() };
        let stray = Stray { files: vec!["ds/claim-n-b".to_owned()], tasks: Vec::new() };
        assert!(disks.destroyed(&inventory, &stray).is_empty());
        assert_eq!(disks.destroyed(&Inventory::default(), &stray), ["ds/theirs-n-a"]);
        assert!(is_others("ds/claim-n-b") && !is_others("ds/m-01"));
        disks.forget();
        assert!(disks.destroyed(&Inventory::default(), &stray).is_empty());
    }
}
