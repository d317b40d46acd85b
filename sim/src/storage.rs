//! The site's storage provider. It does what vSphere CSI does in a Supervisor.
//!
//! It provisions a first class disk and a PersistentVolume for each claim. A CnsNodeVmAttachment attaches the disk to the VM with
//! the BIOS UUID in its spec. Deleting the CnsNodeVmAttachment detaches the disk.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use api::quantity::Quantity;
use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{Store, store};
use kube::runtime::{WatchStreamExt, reflector, watcher};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;
use tracing::info;

use crate::objects::{key, log_interruption};
use crate::vcsim::control::{ControlApi, Error};

const DRIVER: &str = "csi.vsphere.vmware.com";
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// The finalizer that keeps an attachment until its disk is detached.
const FINALIZER: &str = "cns.vmware.com";
const VOLUME_ID: &str = "cnsVolumeID";
/// The retry interval after a failure.
const AGAIN: Duration = Duration::from_secs(1);

/// The running storage provider. It stops on drop.
#[derive(Debug)]
pub struct RunningStorageProvider {
    _working: AbortOnDropHandle<()>,
}

impl RunningStorageProvider {
    /// Starts the provider for the cluster behind `client`. Disks are created in the vCenter behind `control`.
    pub fn serving(client: Client, control: ControlApi) -> Self {
        Self { _working: AbortOnDropHandle::new(tokio::spawn(work(client, control))) }
    }
}

async fn work(client: Client, control: ControlApi) {
    let kind = GroupVersionKind::gvk("cns.vmware.com", "v1alpha1", "CnsNodeVmAttachment");
    let resource = ApiResource::from_gvk_with_plural(&kind, "cnsnodevmattachments");
    let attachment_writer = Writer::new(resource.clone());
    let (claims, claim_writer) = store::<PersistentVolumeClaim>();
    let (volumes, volume_writer) = store::<PersistentVolume>();
    let attachments_api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let config = watcher::Config::default;
    let provider =
        Provider { attachments: attachment_writer.as_reader(), client, control, resource, claims, volumes };
    let (claims_api, volumes_api) = (Api::all(provider.client.clone()), Api::all(provider.client.clone()));
    let events = stream::select_all([
        reflector(attachment_writer, watcher(attachments_api, config()).default_backoff())
            .map(|event| event.map(drop))
            .boxed(),
        reflector(claim_writer, watcher(claims_api, config()).default_backoff())
            .map(|event| event.map(drop))
            .boxed(),
        reflector(volume_writer, watcher(volumes_api, config()).default_backoff())
            .map(|event| event.map(drop))
            .boxed(),
    ]);
    let mut events = pin!(events);
    let mut settled = true;
    loop {
        let event = if settled {
            events.next().await
        } else {
            // After a failure, reconcile again even without an event.
            tokio::time::timeout(AGAIN, events.next()).await.unwrap_or(Some(Ok(())))
        };
        match event {
            Some(Ok(())) => settled = provider.settle().await,
            Some(Err(error)) => log_interruption("claims, volumes and attachments", &error),
            None => return,
        }
    }
}

struct Provider {
    client: Client,
    control: ControlApi,
    resource: ApiResource,
    claims: Store<PersistentVolumeClaim>,
    volumes: Store<PersistentVolume>,
    attachments: Store<DynamicObject>,
}

/// The reason why an object can't be reconciled yet.
#[derive(Debug)]
struct Trouble(String);

impl<E: std::error::Error> From<E> for Trouble {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

type Outcome = Result<(), Trouble>;

impl Provider {
    /// Reconciles all claims, volumes and attachments. Returns false if one of them must be retried.
    async fn settle(&self) -> bool {
        let mut settled = true;
        let mut note = |what: String, outcome: Outcome| {
            if let Err(Trouble(why)) = outcome {
                info!(what, why, "not yet");
                settled = false;
            }
        };
        for claim in self.claims.state() {
            note(format!("claim {}", claim.name_any()), self.provision(&claim).await);
        }
        for volume in self.volumes.state() {
            note(format!("volume {}", volume.name_any()), self.reclaim(&volume).await);
        }
        for attachment in self.attachments.state() {
            let outcome = if attachment.metadata.deletion_timestamp.is_some() {
                self.detach(&attachment).await
            } else {
                self.attach(&attachment).await
            };
            note(format!("attachment {}", key(&attachment)), outcome);
        }
        settled
    }

    /// Creates the disk and the PersistentVolume for a claim whose storage class specifies this provisioner.
    ///
    /// Waits for a selected node if the class's binding mode is `WaitForFirstConsumer`.
    async fn provision(&self, claim: &PersistentVolumeClaim) -> Outcome {
        let Some(spec) = &claim.spec else { return Ok(()) };
        let name = format!("pvc-{}", claim.uid().unwrap_or_default());
        let there = self.volumes.state().iter().any(|volume| volume.name_any() == name);
        if there || spec.volume_name.is_some() || claim.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        let class = spec.storage_class_name.as_deref().unwrap_or_default();
        let class = Api::<StorageClass>::all(self.client.clone()).get_opt(class).await?;
        let Some(class) = class.filter(|class| class.provisioner == DRIVER) else { return Ok(()) };
        let late = class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer");
        if late && !claim.annotations().contains_key(SELECTED_NODE) {
            return Ok(());
        }
        let requests = spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
        let size = requests.and_then(|requests| requests.get("storage")).and_then(|size| mebibytes(&size.0));
        let size = size.ok_or_else(|| Trouble("its size can't be read".to_owned()))?;
        let known = self.control.disks().await?.into_iter().find(|disk| disk.name == name);
        let disk = match known {
            Some(disk) => disk.id,
            None => self.control.make_disk(&name, size).await?,
        };
        let volume = volume(claim, &class, &name, &disk);
        let volume = serde_json::from_value(volume)?;
        match Api::<PersistentVolume>::all(self.client.clone()).create(&PostParams::default(), &volume).await
        {
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            made => Ok(made.map(drop)?),
        }
    }

    /// Deletes a released volume and its disk if this provisioner created the volume and the reclaim policy is `Delete`.
    async fn reclaim(&self, volume: &PersistentVolume) -> Outcome {
        let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref());
        let spec = volume.spec.as_ref();
        let policy = spec.and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref());
        let ours = volume.annotations().get(PROVISIONED_BY).is_some_and(|by| by == DRIVER);
        let gone = volume.metadata.deletion_timestamp.is_some();
        if phase != Some("Released") || policy != Some("Delete") || !ours || gone {
            return Ok(());
        }
        match self.control.delete_disk(handle(volume)).await {
            Ok(()) | Err(Error::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let api = Api::<PersistentVolume>::all(self.client.clone());
        Ok(api.delete(&volume.name_any(), &DeleteParams::default()).await.map(drop)?)
    }

    async fn attach(&self, attachment: &DynamicObject) -> Outcome {
        if attachment.data["status"]["attached"] == true {
            return Ok(());
        }
        // The cache may be stale. Attach only if the live object isn't being deleted and has the finalizer, so that the
        // disk is detached later.
        let Some(attachment) = self.held(attachment).await? else { return Ok(()) };
        let attachment = &attachment;
        let attached = self.attach_disk(attachment).await;
        let status = match &attached {
            Ok((volume, disk)) => {
                json!({"attached": true, "metadata": {VOLUME_ID: volume, "diskUUID": disk}, "error": null})
            }
            Err(Trouble(why)) if attachment.data["status"]["error"] == why.as_str() => {
                return Err(Trouble(why.clone()));
            }
            Err(Trouble(why)) => json!({"attached": false, "error": why}),
        };
        let patch = Patch::Merge(json!({ "status": status }));
        let api = self.api(attachment);
        gone(api.patch_status(&attachment.name_any(), &PatchParams::default(), &patch).await)?;
        attached.map(|(volume, _)| info!(attachment = key(attachment), volume, "attached"))
    }

    /// Reads the live attachment and adds the finalizer if it is missing. Returns `None` if the attachment is deleted,
    /// replaced or being deleted.
    async fn held(&self, attachment: &DynamicObject) -> Result<Option<DynamicObject>, Trouble> {
        let (api, name) = (self.api(attachment), attachment.name_any());
        let Some(now) = api.get_opt(&name).await? else { return Ok(None) };
        if now.metadata.deletion_timestamp.is_some() || now.metadata.uid != attachment.metadata.uid {
            return Ok(None);
        }
        if now.finalizers().iter().any(|there| there == FINALIZER) {
            return Ok(Some(now));
        }
        let version = now.metadata.resource_version;
        let patch = json!({"metadata": {"resourceVersion": version, "finalizers": [FINALIZER]}});
        match api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            held => Ok(Some(held?)),
        }
    }

    /// Attaches the disk to its VM. Returns the volume id and the disk UUID that the guest sees.
    async fn attach_disk(&self, attachment: &DynamicObject) -> Result<(String, String), Trouble> {
        let namespace = attachment.namespace().unwrap_or_default();
        let claim = attachment.data["spec"]["volumename"].as_str().unwrap_or_default();
        let volume = self.bound(&namespace, claim)?;
        let uuid = attachment.data["spec"]["nodeuuid"].as_str().unwrap_or_default();
        let vm = self.vm(uuid).await?;
        let vm = vm.ok_or_else(|| Trouble(format!("failed to find the VM with UUID: {uuid:?}")))?;
        let disk = self.control.attach_disk(&vm, &volume).await?;
        Ok((volume, disk))
    }

    /// Returns the volume handle (disk id) of the volume to which a claim is bound.
    fn bound(&self, namespace: &str, name: &str) -> Result<String, Trouble> {
        let claims = self.claims.state();
        let claim = claims
            .iter()
            .find(|claim| claim.namespace().as_deref() == Some(namespace) && claim.name_any() == name)
            .ok_or_else(|| {
                Trouble(format!("persistentvolumeclaims {name:?} not found in namespace {namespace}"))
            })?;
        let bound = claim.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound");
        let volume = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_ref()).filter(|_| bound);
        let volume =
            volume.ok_or_else(|| Trouble(format!("PVC {name:?} in namespace {namespace} is not bound")))?;
        let volumes = self.volumes.state();
        let volume = volumes.iter().find(|there| there.name_any() == *volume);
        volume
            .map(|volume| handle(volume).to_owned())
            .ok_or_else(|| Trouble(format!("the volume of {name:?} is gone")))
    }

    async fn detach(&self, attachment: &DynamicObject) -> Outcome {
        if !attachment.finalizers().iter().any(|there| there == FINALIZER) {
            return Ok(());
        }
        let uuid = attachment.data["spec"]["nodeuuid"].as_str().unwrap_or_default();
        let noted = attachment.data["status"]["metadata"][VOLUME_ID].as_str().map(str::to_owned);
        // The disk can be attached even if the status doesn't say so, because the status write may have failed.
        let claim = attachment.data["spec"]["volumename"].as_str().unwrap_or_default();
        let volume = noted.or_else(|| self.bound(&attachment.namespace().unwrap_or_default(), claim).ok());
        // If the VM is gone, the disk doesn't need to be detached.
        if let (Some(volume), Some(vm)) = (volume, self.vm(uuid).await?) {
            match self.control.detach_disk(&vm, &volume).await {
                Ok(()) | Err(Error::NotFound { .. }) => {
                    info!(attachment = key(attachment), volume, "detached");
                }
                Err(error) => return Err(error.into()),
            }
        }
        let left: Vec<_> = attachment.finalizers().iter().filter(|there| *there != FINALIZER).collect();
        let patch = Patch::Merge(json!({"metadata": {"finalizers": left}}));
        gone(self.api(attachment).patch(&attachment.name_any(), &PatchParams::default(), &patch).await)
    }

    /// Returns the managed object id of the VM with this BIOS UUID, or `None` if there isn't one. Ignores templates.
    async fn vm(&self, uuid: &str) -> Result<Option<String>, Trouble> {
        let vms = self.control.vms(None, Duration::ZERO).await?.vms;
        let found = vms.into_iter().find(|vm| vm.uuid.eq_ignore_ascii_case(uuid) && !vm.template);
        Ok(found.map(|vm| vm.moid))
    }

    fn api(&self, attachment: &DynamicObject) -> Api<DynamicObject> {
        let namespace = attachment.namespace().unwrap_or_default();
        Api::namespaced_with(self.client.clone(), &namespace, &self.resource)
    }
}

/// Treats 404 as success, because an object that has been deleted doesn't need the patch.
fn gone(patched: kube::Result<DynamicObject>) -> Outcome {
    match patched {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        other => Ok(other.map(drop)?),
    }
}

fn handle(volume: &PersistentVolume) -> &str {
    let csi = volume.spec.as_ref().and_then(|spec| spec.csi.as_ref());
    csi.map(|csi| csi.volume_handle.as_str()).unwrap_or_default()
}

fn volume(claim: &PersistentVolumeClaim, class: &StorageClass, name: &str, disk: &str) -> Value {
    let spec = claim.spec.clone().unwrap_or_default();
    let capacity: BTreeMap<_, _> =
        spec.resources.and_then(|resources| resources.requests).unwrap_or_default();
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {PROVISIONED_BY: DRIVER}},
        "spec": {
            "capacity": capacity,
            "accessModes": spec.access_modes,
            "claimRef": {
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "uid": claim.uid(),
                "namespace": claim.namespace(), "name": claim.name_any(),
            },
            "csi": {
                "driver": DRIVER, "volumeHandle": disk, "fsType": "ext4",
                "volumeAttributes": {"type": "vSphere CNS Block Volume"},
            },
            "persistentVolumeReclaimPolicy": class.reclaim_policy.as_deref().unwrap_or("Delete"),
            "storageClassName": class.name_any(),
            "volumeMode": spec.volume_mode.as_deref().unwrap_or("Filesystem"),
        },
    })
}

/// Parses a size such as `10Gi` and returns it in MiB, rounded up. Returns `None` for unknown units, zero and negative sizes.
fn mebibytes(size: &str) -> Option<i64> {
    Quantity::from(size).mib().ok().filter(|size| *size > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_whole_mebibytes() {
        for (size, whole) in [
            ("10Gi", 10240),
            ("1", 1),
            ("1G", 954),
            ("512Mi", 512),
            ("1025Ki", 2),
            ("1.5Gi", 1536),
            ("9223372036854775807", 1 << 43),
        ] {
            assert_eq!(mebibytes(size), Some(whole), "{size}");
        }
        for unusable in ["0", "-1Gi", "big"] {
            assert_eq!(mebibytes(unusable), None, "{unusable}");
        }
    }
}
