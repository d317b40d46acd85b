//! A world with a proxy before its API server, guests that report addresses, and rooms to run in.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context as _, Result};
use api::cns::CnsNodeVmAttachment;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use k8s_openapi::api::core::v1::{Event, PersistentVolume, PersistentVolumeClaim};
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt};
use plane::Running;
use serde_json::{Value, json};
use sim::control::{ControlApi, GuestReport};
use sim::storage::Storage;
use tokio::task::JoinHandle;

use super::disks::Disks;
use super::report;
use crate::proxy::Proxy;
use crate::world::{Webhooks, Wire, World};

/// Who the VM operator is to the API server.
const ACCOUNT: &str = "system:serviceaccount:vmware-system-vmop:vmware-system-vmop-controller-manager";
/// The kinds whose objects hold something of vCenter.
pub const KINDS: [&str; 2] = ["VirtualMachine", "VirtualMachineSetResourcePolicy"];
/// What the image's template is called in every arena.
const TEMPLATE: &str = "template";
/// In every guest's data; it must appear in no log.
pub const MARKER: &str = "LAYERCAKE-SECRET-MARKER-6f1d";

/// A running world in which things go wrong.
pub struct Arena {
    /// The world.
    pub world: World,
    /// What stands between its API server and the VM operator.
    pub proxy: Proxy,
    /// The VM operator.
    pub vmop: Running,
    /// A second one, which asks for no lease.
    pub rival: Running,
    /// Disks that are not the VM operator's.
    pub disks: Disks,
    /// Secrets that were found in objects and events.
    pub leaks: Cell<u64>,
    /// The name of the image's template here.
    template: RefCell<Option<String>>,
    /// The guests.
    guests: Guests,
    /// Who attaches volumes.
    storage: Storage,
}

struct Guests(JoinHandle<()>);

impl Drop for Guests {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A namespace with a folder of its own.
#[derive(Clone, Debug)]
pub struct Room {
    /// The namespace.
    pub namespace: String,
    /// Id of the folder.
    pub folder: String,
}

impl Arena {
    /// Starts everything; the VM operator is left dead.
    pub async fn start(wire: Wire, level: &str) -> Result<Self> {
        let world = World::start(&[]).await?;
        let proxy = Proxy::start(world.client(), ACCOUNT).await?;
        let kubeconfig = world.plane().stack().folder().join("through-the-proxy");
        proxy.kubeconfig(&kubeconfig)?;
        let arguments = [
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--log-level={level}"),
            "--log-format=text".to_owned(),
        ];
        let vmop = world.vmop(wire, Webhooks::Uncalled, &arguments).await?;
        vmop.kill().await;
        let rival = world.rival(&arguments).await?;
        rival.kill().await;
        let disks = Disks::new(world.control().clone(), &world.vcenter().datastore);
        let guests = Guests(tokio::spawn(guests(world.control().clone())));
        let storage = Storage::serving(world.client(), world.control().clone());
        Ok(Self {
            world,
            proxy,
            vmop,
            rival,
            disks,
            leaks: Cell::default(),
            template: RefCell::default(),
            guests,
            storage,
        })
    }

    /// Objects of a kind of ours in a namespace.
    pub fn api(&self, kind: &str, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.world.client(), namespace, &resource(kind))
    }

    /// What to call an object of vCenter so that every arena means the same: items of libraries have ids of their own,
    /// and so have the names of templates.
    pub fn everywhere(&self, object: &str) -> String {
        if object.starts_with('/') {
            return String::new();
        }
        if !object.starts_with(&image()) {
            return object.to_owned();
        }
        self.template.replace(Some(object.to_owned()));
        TEMPLATE.to_owned()
    }

    /// How the object is called here; none where any is meant.
    pub fn here(&self, object: &str) -> Option<String> {
        match object {
            "" => None,
            TEMPLATE => self.template.borrow().clone(),
            name => Some(name.to_owned()),
        }
    }

    /// A namespace with its folder, its classes and a guest's data.
    pub async fn room(&self, name: &str) -> Result<Room> {
        let vcenter = self.world.vcenter();
        let folder = self.world.control().make_folder(&vcenter.folder, name).await?;
        let annotations = json!({
            "vmware-system-resource-pool": vcenter.resource_pool,
            "vmware-system-vm-folder": folder,
        });
        self.world
            .apply(&json!({
                "apiVersion": "v1", "kind": "Namespace",
                "metadata": {"name": name, "annotations": annotations},
            }))
            .await?;
        for class in ["best-effort-small", "best-effort-medium"] {
            self.world
                .apply(&json!({
                    "apiVersion": "vmoperator.vmware.com/v1alpha1", "kind": "VirtualMachineClassBinding",
                    "metadata": {"name": class, "namespace": name},
                    "classRef": {
                        "apiVersion": "vmoperator.vmware.com/v1alpha1",
                        "kind": "VirtualMachineClass", "name": class,
                    },
                }))
                .await?;
        }
        self.world
            .apply(&json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "boot", "namespace": name},
                "stringData": {
                    "guestinfo.metadata": "instance-id: guest",
                    "guestinfo.userdata": format!("#cloud-config\n# {MARKER}\n"),
                },
            }))
            .await?;
        Ok(Room { namespace: name.to_owned(), folder })
    }

    /// Nothing is left of a room, whatever state it is in; the VM operator is to be dead.
    pub async fn clear(&self, room: &Room) -> Result<()> {
        for kind in KINDS {
            let api = self.api(kind, &room.namespace);
            for object in api.list(&ListParams::default()).await? {
                removed(&api, &object.name_any()).await?;
            }
        }
        let attachments = Api::<CnsNodeVmAttachment>::namespaced(self.world.client(), &room.namespace);
        for attachment in attachments.list(&ListParams::default()).await? {
            removed(&attachments, &attachment.name_any()).await?;
        }
        let claims = Api::<PersistentVolumeClaim>::namespaced(self.world.client(), &room.namespace);
        for claim in claims.list(&ListParams::default()).await? {
            removed(&claims, &claim.name_any()).await?;
        }
        let volumes = Api::<PersistentVolume>::all(self.world.client());
        for volume in volumes.list(&ListParams::default()).await? {
            removed(&volumes, &volume.name_any()).await?;
        }
        let images = Api::<DynamicObject>::all_with(self.world.client(), &resource("VirtualMachineImage"));
        removed(&images, &image()).await?;
        let control = self.world.control();
        control.remove_faults(None).await?;
        let inventory = control.inventory().await?;
        control.clear_folder(&room.folder).await.context("cannot clear the folder")?;
        let below = &self.world.vcenter().resource_pool;
        for pool in inventory.pools.iter().filter(|pool| pool.parent == *below) {
            control.clear_pool(&pool.moid).await.context("cannot clear the pool")?;
        }
        control.clear_modules().await?;
        control.remove_orphaned_files().await?;
        self.disks.clear().await?;
        control.expire_sessions().await?;
        Ok(())
    }

    /// Looks for secrets in the room's objects and events.
    pub async fn searched(&self, room: &Room) -> Result<()> {
        let secrets = self.secrets().await?;
        let events = Api::<Event>::namespaced(self.world.client(), &room.namespace);
        let mut text = serde_json::to_vec(&events.list(&ListParams::default()).await?.items)?;
        for kind in KINDS {
            text.extend(serde_json::to_vec(
                &self.api(kind, &room.namespace).list(&ListParams::default()).await?.items,
            )?);
        }
        self.leaks.set(self.leaks.get() + report::leaks(&text, &secrets));
        Ok(())
    }

    /// What nobody may be told, as it is and as it travels: what guests are told, passwords, tokens of all sessions.
    pub async fn secrets(&self) -> Result<Vec<String>> {
        let vcenter = self.world.vcenter();
        let plain = [MARKER.to_owned(), vcenter.password()?];
        let encoded: Vec<_> = plain.iter().map(|secret| STANDARD_NO_PAD.encode(secret)).collect();
        let tokens = self.world.control().tokens().await?;
        Ok(plain.into_iter().chain(encoded).chain([vcenter.control_token()?]).chain(tokens).collect())
    }

    /// The version at which the API server is.
    pub async fn version(&self) -> Result<String> {
        let api = Api::<k8s_openapi::api::core::v1::Namespace>::all(self.world.client());
        let list = api.list_metadata(&ListParams::default().limit(1)).await?;
        list.metadata.resource_version.context("a list without a version")
    }

    /// Stops everything.
    pub async fn stop(self) -> Result<()> {
        drop((self.guests, self.storage));
        self.vmop.kill().await;
        self.rival.kill().await;
        self.world.stop().await
    }
}

/// The object is gone, whoever wanted to see to its end.
async fn removed<K>(api: &Api<K>, name: &str) -> Result<()>
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let gone = |error: &kube::Error| matches!(error, kube::Error::Api(status) if status.is_not_found());
    let strip = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    for result in [
        api.patch(name, &PatchParams::default(), &strip).await.map(drop),
        api.delete(name, &kube::api::DeleteParams::default()).await.map(drop),
    ] {
        match result {
            Err(error) if !gone(&error) => return Err(error.into()),
            _ => {}
        }
    }
    Ok(())
}

/// A kind of ours.
pub fn resource(kind: &str) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("vmoperator.vmware.com", "v1alpha1", kind))
}

/// The image that all machines are made from.
pub fn image() -> String {
    sim::releases::NODE_IMAGES.last().map(|image| image.item.to_owned()).unwrap_or_default()
}

/// Reports an address for every VM that is powered on, once a boot.
async fn guests(control: ControlApi) {
    let mut since = None;
    let mut booted: HashMap<String, u64> = HashMap::new();
    loop {
        let Ok(vms) = control.vms(since, Duration::from_secs(5)).await else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        since = Some(vms.revision);
        for vm in vms.vms.iter().filter(|vm| vm.powered_on()) {
            if booted.get(&vm.moid) == Some(&vm.boot_count) {
                continue;
            }
            let number: u32 = vm.moid.trim_start_matches("vm-").parse().unwrap_or_default();
            let [.., high, low] = number.to_be_bytes();
            let ip = Some(format!("10.1.{high}.{low}"));
            let report = GuestReport { ip, host_name: Some(vm.name.clone()), tools_running: true };
            if control.report(&vm.moid, &report).await.is_ok() {
                booted.insert(vm.moid.clone(), vm.boot_count);
            }
        }
    }
}

/// A client's objects of one kind, by name.
pub async fn objects(client: &Client, kind: &str, namespace: &str) -> Result<HashMap<String, Value>> {
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource(kind));
    let list = api.list(&ListParams::default()).await?;
    list.into_iter().map(|object| Ok((object.name_any(), serde_json::to_value(object)?))).collect()
}
