//! A world with a proxy before its API server, guests that report addresses, and rooms to run in.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context as _, Result};
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt};
use plane::Running;
use serde_json::{Value, json};
use site::door::{Door, GuestReport};
use tokio::task::JoinHandle;

use crate::proxy::Proxy;
use crate::world::{Webhooks, Wire, World};

/// Who the VM operator is to the API server.
const ACCOUNT: &str = "system:serviceaccount:vmware-system-vmop:vmware-system-vmop-controller-manager";
/// The kinds whose objects hold something of vCenter.
pub const KINDS: [&str; 2] = ["VirtualMachine", "VirtualMachineSetResourcePolicy"];
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
    guests: Guests,
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
        let guests = Guests(tokio::spawn(guests(world.door().clone())));
        Ok(Self { world, proxy, vmop, rival, guests })
    }

    /// Objects of a kind of ours in a namespace.
    pub fn api(&self, kind: &str, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.world.client(), namespace, &resource(kind))
    }

    /// A namespace with its folder, its classes and a guest's data.
    pub async fn room(&self, name: &str) -> Result<Room> {
        let vcenter = self.world.vcenter();
        let folder = self.world.door().make_folder(&vcenter.folder, name).await?;
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
                self.removed(&api, &object.name_any()).await?;
            }
        }
        let images = Api::<DynamicObject>::all_with(self.world.client(), &resource("VirtualMachineImage"));
        self.removed(&images, &image()).await?;
        let door = self.world.door();
        door.remove_faults(None).await?;
        let inventory = door.inventory().await?;
        door.clear_folder(&room.folder).await.context("cannot clear the folder")?;
        let below = &self.world.vcenter().resource_pool;
        for pool in inventory.pools.iter().filter(|pool| pool.parent == *below) {
            door.clear_pool(&pool.moid).await.context("cannot clear the pool")?;
        }
        door.expire_sessions().await?;
        Ok(())
    }

    async fn removed(&self, api: &Api<DynamicObject>, name: &str) -> Result<()> {
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

    /// The version at which the API server is.
    pub async fn version(&self) -> Result<String> {
        let api = Api::<k8s_openapi::api::core::v1::Namespace>::all(self.world.client());
        let list = api.list_metadata(&ListParams::default().limit(1)).await?;
        list.metadata.resource_version.context("a list without a version")
    }

    /// Stops everything.
    pub async fn stop(self) -> Result<()> {
        drop(self.guests);
        self.vmop.kill().await;
        self.rival.kill().await;
        self.world.stop().await
    }
}

/// A kind of ours.
pub fn resource(kind: &str) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("vmoperator.vmware.com", "v1alpha1", kind))
}

/// The image that all machines are made from.
pub fn image() -> String {
    site::releases::NODE_IMAGES.last().map(|image| image.item.to_owned()).unwrap_or_default()
}

/// Reports an address for every VM that is powered on, once a boot.
async fn guests(door: Door) {
    let mut since = None;
    let mut booted: HashMap<String, u64> = HashMap::new();
    loop {
        let Ok(vms) = door.vms(since, Duration::from_secs(5)).await else {
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
            if door.report(&vm.moid, &report).await.is_ok() {
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
