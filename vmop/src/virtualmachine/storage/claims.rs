//! Persistent volumes of a VM. For each volume, a CnsNodeVmAttachment requests that vSphere CSI attaches the volume.
//!
//! This module requests attachments in the order of the spec, waits for them before power-on, and requests their removal before
//! the VM is destroyed. Persistent volumes never belong to the VM.
//!
//! An attachment names its VM in an annotation and doesn't have an owner reference. When a VirtualMachine is moved to another
//! cluster, its VM keeps running, but garbage collection would detach the disks of owned attachments.

use std::sync::Arc;

use api::cns::{CnsNodeVmAttachment, CnsNodeVmAttachmentSpec, DISK_UUID};
use api::conditions::vmop as known;
use api::names::annotation;
use api::vmop::{
    PersistentVolumeClaimVolume, VirtualMachine, VirtualMachineVolume, VirtualMachineVolumeStatus,
};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::api::storage::v1::StorageClass;
use kit::apply::Api;
use kit::index::key;
use kube::ResourceExt;
use kube::api::ObjectMeta;
use serde_json::json;
use uuid::Uuid;

use crate::caches::Caches;
use crate::unmet::Unmet;
use crate::virtualmachine::error::{Blocked, Error};

/// The annotation with the location that was selected for a claim that waits for its first consumer.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// The vSphere CSI annotation that says that the selected location is a zone.
const SELECTED_NODE_IS_ZONE: &str = "cns.vmware.com/selected-node-is-zone";

/// Returns the volumes that are PersistentVolumeClaims.
fn claims(
    vm: &VirtualMachine,
) -> impl Iterator<Item = (&VirtualMachineVolume, &PersistentVolumeClaimVolume)> {
    vm.spec.volumes.iter().filter_map(|volume| Some((volume, volume.persistent_volume_claim.as_ref()?)))
}

/// Returns true if the VM has PersistentVolumeClaims.
pub fn has_claims(vm: &VirtualMachine) -> bool {
    claims(vm).next().is_some()
}

/// Returns the name of a volume's attachment.
fn name(vm: &VirtualMachine, volume: &VirtualMachineVolume) -> String {
    format!("{}-{}", vm.name_any(), volume.name)
}

/// The state of a VM's persistent volumes.
#[derive(Clone, Debug, Default)]
pub struct Volumes {
    /// True if the API server serves attachments, so that volumes can be attached.
    pub served: bool,
    /// The attachments for this VM.
    pub there: Vec<Arc<CnsNodeVmAttachment>>,
}

impl Volumes {
    /// Reads the volumes from the cache.
    pub fn of(vm: &VirtualMachine, caches: &Caches) -> Self {
        let own = key(vm.metadata.namespace.as_deref(), &vm.name_any());
        Self { served: caches.attachments.is_served(), there: caches.attachments_by_vm.objects(&own) }
    }

    fn find(&self, name: &str) -> Option<&CnsNodeVmAttachment> {
        self.there.iter().find(|there| there.name_any() == name).map(|there| &**there)
    }

    /// Returns the unmet need that prevents power-on, or `None` once every volume is attached.
    pub fn unmet(&self, vm: &VirtualMachine) -> Option<Unmet> {
        if let Some((volume, _)) = claims(vm).find(|(_, claim)| claim.instance_volume_claim.is_some()) {
            let message = format!(
                "spec.volumes: {} has an instanceVolumeClaim, which is not supported. Use a PersistentVolumeClaim of a StorageClass",
                volume.name
            );
            return Some(Unmet::wrong(known::VOLUMES_NOT_ATTACHED, message));
        }
        let (volume, claim) = claims(vm).find(|(volume, claim)| {
            !self.find(&name(vm, volume)).is_some_and(|there| attached(there) && fits(there, claim))
        })?;
        let volume = &volume.name;
        if !self.served {
            let message = format!(
                "Volume {volume} can't be attached: the API server does not serve CnsNodeVmAttachment. Install vSphere CSI, or remove the volume from the spec"
            );
            return Some(Unmet::wrong(known::VOLUMES_NOT_ATTACHED, message));
        }
        let there = self.find(&format!("{}-{volume}", vm.name_any()));
        let error = there.and_then(|there| there.status.as_ref()?.error.as_deref());
        let which = format!("Volume {volume} (claim {})", claim.claim_name);
        Some(if let Some(error) = error.filter(|error| !error.is_empty()) {
            Unmet::wrong(known::VOLUMES_NOT_ATTACHED, format!("{which} can't be attached: {error}"))
        } else {
            Unmet::underway(known::VOLUMES_NOT_ATTACHED, format!("{which} is being attached"))
        })
    }

    /// Returns the status of each PersistentVolumeClaim volume in the spec.
    pub fn status(&self, vm: &VirtualMachine) -> Vec<VirtualMachineVolumeStatus> {
        let status_of = |(volume, _): (&VirtualMachineVolume, _)| {
            let status =
                self.find(&name(vm, volume)).and_then(|there| there.status.clone()).unwrap_or_default();
            VirtualMachineVolumeStatus {
                name: volume.name.clone(),
                attached: status.attached,
                disk_uuid: status.attachment_metadata.get(DISK_UUID).cloned().unwrap_or_default(),
                error: status.error.unwrap_or_default(),
            }
        };
        claims(vm).map(status_of).collect()
    }

    /// Returns the attachments to delete: attachments for volumes that were removed from the spec, and attachments that name
    /// another VM or claim.
    fn list_superfluous(&self, vm: &VirtualMachine, bios: Uuid) -> Vec<&CnsNodeVmAttachment> {
        let wanted = |there: &CnsNodeVmAttachment| {
            let node = Uuid::try_parse(&there.spec.node_uuid).ok() == Some(bios);
            claims(vm).any(|(volume, claim)| name(vm, volume) == there.name_any() && fits(there, claim))
                && node
        };
        self.there.iter().map(|there| &**there).filter(|there| !wanted(there)).collect()
    }

    /// Returns the attachments to request now. While the VM is off, they are requested one by one, to keep the disk order.
    fn missing(&self, vm: &VirtualMachine, bios: Uuid, off: bool) -> Vec<CnsNodeVmAttachment> {
        let mut missing = Vec::new();
        for (volume, claim) in claims(vm).filter(|(_, claim)| claim.instance_volume_claim.is_none()) {
            let there = self.find(&name(vm, volume));
            if there.is_none() {
                missing.push(build_attachment(vm, volume, claim, bios));
            }
            if off && !there.is_some_and(attached) {
                break;
            }
        }
        missing
    }
}

fn attached(there: &CnsNodeVmAttachment) -> bool {
    there.metadata.deletion_timestamp.is_none() && there.status.as_ref().is_some_and(|status| status.attached)
}

fn fits(there: &CnsNodeVmAttachment, claim: &PersistentVolumeClaimVolume) -> bool {
    there.spec.volume_name == claim.claim_name
}

fn build_attachment(
    vm: &VirtualMachine,
    volume: &VirtualMachineVolume,
    claim: &PersistentVolumeClaimVolume,
    bios: Uuid,
) -> CnsNodeVmAttachment {
    CnsNodeVmAttachment {
        metadata: ObjectMeta {
            name: Some(name(vm, volume)),
            namespace: vm.metadata.namespace.clone(),
            annotations: Some([(annotation::VIRTUAL_MACHINE.to_owned(), vm.name_any())].into()),
            ..ObjectMeta::default()
        },
        spec: CnsNodeVmAttachmentSpec { node_uuid: bios.to_string(), volume_name: claim.claim_name.clone() },
        status: None,
    }
}

/// Returns true if the claim isn't bound, waits for its first consumer, and doesn't have a selected location yet.
fn waits_for_place(claim: &PersistentVolumeClaim, class: Option<&StorageClass>) -> bool {
    let mode = class.and_then(|class| class.volume_binding_mode.as_deref());
    let bound = claim.spec.as_ref().is_some_and(|spec| spec.volume_name.is_some());
    mode == Some("WaitForFirstConsumer") && !bound && !claim.annotations().contains_key(SELECTED_NODE)
}

/// Selects the VM's zone for claims that wait for their first consumer.
async fn select_zone(
    vm: &VirtualMachine,
    volumes: &Volumes,
    zone: &str,
    api: &Api,
    caches: &Caches,
) -> Result<(), Error> {
    for (volume, claim) in claims(vm) {
        if volumes.find(&name(vm, volume)).is_some_and(attached) {
            continue;
        }
        let namespace = vm.metadata.namespace.as_deref();
        let claim: Option<PersistentVolumeClaim> = api.get(namespace, &claim.claim_name).await?;
        let Some(claim) = claim else { continue };
        let class = claim.spec.as_ref().and_then(|spec| spec.storage_class_name.as_deref());
        let class = caches.shared.storage_classes.get(None, class.unwrap_or_default());
        if waits_for_place(&claim, class.as_deref()) {
            let selected = json!({ SELECTED_NODE: zone, SELECTED_NODE_IS_ZONE: "true" });
            api.patch(&claim, json!({ "metadata": { "annotations": selected } })).await?;
        }
    }
    Ok(())
}

/// The VM that volumes are attached to.
#[derive(Clone, Copy, Debug)]
pub struct AttachTo<'a> {
    /// The VM's BIOS UUID, which CNS uses as the node's UUID.
    pub bios: Uuid,
    pub zone: Option<&'a str>,
    /// True if the VM is off.
    pub off: bool,
}

/// Deletes unwanted attachments and requests the next missing ones.
pub async fn apply_attachments(
    vm: &VirtualMachine,
    volumes: &Volumes,
    node: &AttachTo<'_>,
    api: &Api,
    caches: &Caches,
) -> Result<(), Error> {
    for gone in volumes.list_superfluous(vm, node.bios) {
        api.delete(gone).await?;
    }
    if !volumes.served {
        return Ok(());
    }
    if let Some(zone) = node.zone {
        select_zone(vm, volumes, zone, api, caches).await?;
    }
    for wanted in volumes.missing(vm, node.bios, node.off) {
        api.apply(&wanted, None).await?;
    }
    Ok(())
}

/// Deletes all attachments of the VM, because destroying a VM destroys all attached disks. Fails with an unmet need until the
/// attachments are gone.
pub async fn release_attachments(vm: &VirtualMachine, api: &Api, caches: &Caches) -> Result<(), Error> {
    for (volume, _) in claims(vm) {
        // An attachment that was just requested may not be in the cache yet.
        caches.attachments.cache().current(vm.metadata.namespace.as_deref(), &name(vm, volume))?;
    }
    let left = Volumes::of(vm, caches).there;
    for there in &left {
        api.delete(&**there).await?;
    }
    let Some(first) = left.first() else { return Ok(()) };
    let message = format!("Claim {} is being detached", first.spec.volume_name);
    Err(Blocked::Unmet(Unmet::underway(known::VOLUMES_NOT_ATTACHED, message)).into())
}

#[cfg(test)]
mod tests {
    use api::cns::CnsNodeVmAttachmentStatus;

    use super::*;
    use crate::caches::made_for;
    use crate::testing::fixtures;

    fn vm(volumes: &[&str]) -> VirtualMachine {
        let mut vm = fixtures::virtual_machine();
        vm.metadata.uid = Some("u-1".into());
        let volume = |name: &&str| {
            let claim = json!({ "claimName": format!("{name}-claim") });
            serde_json::from_value(json!({ "name": name, "persistentVolumeClaim": claim })).unwrap()
        };
        vm.spec.volumes = volumes.iter().map(volume).collect();
        vm
    }

    fn there(vm: &VirtualMachine, at: usize, attached: bool) -> Arc<CnsNodeVmAttachment> {
        let (volume, claim) = claims(vm).nth(at).unwrap();
        let mut there = build_attachment(vm, volume, claim, Uuid::nil());
        let disk = [(DISK_UUID.to_owned(), format!("6000-{at}"))];
        there.status = Some(CnsNodeVmAttachmentStatus {
            attached,
            attachment_metadata: disk.into_iter().filter(|_| attached).collect(),
            error: None,
        });
        Arc::new(there)
    }

    fn names(attachments: &[CnsNodeVmAttachment]) -> Vec<String> {
        attachments.iter().map(ResourceExt::name_any).collect()
    }

    #[test]
    fn while_off_volumes_are_asked_for_one_after_another() {
        let vm = vm(&["a", "b", "c"]);
        let volumes = |there| Volumes { served: true, there };
        let none = volumes(Vec::new());
        assert_eq!(names(&none.missing(&vm, Uuid::nil(), true)), ["cp-0-a"]);
        assert_eq!(names(&none.missing(&vm, Uuid::nil(), false)), ["cp-0-a", "cp-0-b", "cp-0-c"]);
        let first = volumes(vec![there(&vm, 0, false)]);
        assert!(first.missing(&vm, Uuid::nil(), true).is_empty());
        let first = volumes(vec![there(&vm, 0, true)]);
        assert_eq!(names(&first.missing(&vm, Uuid::nil(), true)), ["cp-0-b"]);
        assert!(first.unmet(&vm).unwrap().message.contains("Volume b"));
        let all = volumes((0..3).map(|at| there(&vm, at, true)).collect());
        assert!(all.missing(&vm, Uuid::nil(), true).is_empty() && all.unmet(&vm).is_none());
        assert!(all.list_superfluous(&vm, Uuid::nil()).is_empty());
        assert_eq!(all.status(&vm)[2].disk_uuid, "6000-2");
    }

    #[test]
    fn what_left_the_spec_or_is_another_vm_s_goes() {
        let before = vm(&["a", "b"]);
        let volumes = Volumes { served: true, there: vec![there(&before, 0, true), there(&before, 1, true)] };
        let gone = volumes.list_superfluous(&vm(&["a"]), Uuid::nil());
        assert_eq!(gone.into_iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["cp-0-b"]);
        assert_eq!(volumes.list_superfluous(&before, Uuid::max()).len(), 2);
        let mut other = before.clone();
        other.spec.volumes[0].persistent_volume_claim.as_mut().unwrap().claim_name = "other".into();
        assert_eq!(volumes.list_superfluous(&other, Uuid::nil()).len(), 1);
        assert!(volumes.unmet(&other).is_some());
    }

    #[test]
    fn nobody_to_attach_them_and_what_is_not_supported_are_reported() {
        let unserved = Volumes::default().unmet(&vm(&["a"])).unwrap();
        assert!(!unserved.underway && unserved.message.contains("Install vSphere CSI"));
        let mut instance = vm(&["a"]);
        let claim =
            json!({ "claimName": "x", "instanceVolumeClaim": { "storageClass": "s", "size": "1Gi" } });
        instance.spec.volumes[0].persistent_volume_claim = serde_json::from_value(claim).unwrap();
        let served = Volumes { served: true, there: Vec::new() };
        assert!(served.unmet(&instance).unwrap().message.contains("not supported"));
        assert!(served.missing(&instance, Uuid::nil(), true).is_empty());
        assert_eq!(served.unmet(&vm(&[])), None);
    }

    #[test]
    fn a_claim_that_waits_for_its_consumer_gets_its_zone_once() {
        let class = |mode: &str| {
            let class = json!({ "provisioner": "csi.vsphere.vmware.com", "volumeBindingMode": mode });
            serde_json::from_value::<StorageClass>(class).unwrap()
        };
        let claim = |claim| serde_json::from_value::<PersistentVolumeClaim>(claim).unwrap();
        let new = claim(json!({ "spec": { "storageClassName": "late" } }));
        let late = class("WaitForFirstConsumer");
        assert!(waits_for_place(&new, Some(&late)));
        assert!(!waits_for_place(&new, Some(&class("Immediate"))) && !waits_for_place(&new, None));
        assert!(!waits_for_place(&claim(json!({ "spec": { "volumeName": "pvc-1" } })), Some(&late)));
        let selected = json!({ "metadata": { "annotations": { SELECTED_NODE: "zone-a" } }, "spec": {} });
        assert!(!waits_for_place(&claim(selected), Some(&late)));
    }

    #[test]
    fn an_attachment_leads_back_to_its_vm() {
        let vm = vm(&["a"]);
        let there = there(&vm, 0, false);
        assert_eq!(made_for(&*there).as_deref(), Some("ns/cp-0"));
        assert_eq!(there.metadata.owner_references, None, "it stays when its VM's object is moved away");
    }
}
