//! A testbed for faults: an API server proxy, guests that report addresses, and namespaces for the runs.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt::Debug;
use std::time::Duration;

use anyhow::{Context as _, Result};
use api::cns::CnsNodeVmAttachment;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use k8s_openapi::api::core::v1::{Event, PersistentVolume, PersistentVolumeClaim};
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams};
use kube::{Client, Resource, ResourceExt};
use layercake::site::manifests::class_binding;
use plane::Running;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sim::control::{ControlApi, GuestReport};
use sim::storage::RunningStorageProvider;
use tokio::task::JoinHandle;

use super::foreign_disks::ForeignDisks;
use super::report::count_leaks;
use crate::proxy::ApiProxy;
use crate::testbed::{Testbed, WebhookCalls, WireFlag, namespace_object};
use crate::vms::node_image;

/// The user that the proxy impersonates for the VM operator.
const ACCOUNT: &str = "system:serviceaccount:vmware-system-vmop:vmware-system-vmop-controller-manager";
/// The kinds whose objects own objects in vCenter.
pub const KINDS: [&str; 2] = ["VirtualMachine", "VirtualMachineSetResourcePolicy"];
/// The image template's canonical name. The real name differs between environments.
const TEMPLATE: &str = "template";
/// The folder into which vCenter puts VMs that it discovers on hosts.
const DISCOVERED: &str = "Discovered virtual machine";
/// A marker in each guest's data. It must not appear in a log.
pub const MARKER: &str = "LAYERCAKE-SECRET-MARKER-6f1d";

/// A running testbed for faults.
pub struct FaultTestbed {
    pub testbed: Testbed,
    /// The proxy between the VM operator and the API server.
    pub proxy: ApiProxy,
    pub vmop: Running,
    /// A second VM operator that runs without leader election.
    pub second_vmop: Running,
    /// Disks that don't belong to the VM operator.
    pub disks: ForeignDisks,
    /// Counts secrets that were found in objects and events.
    pub leaks: Cell<u64>,
    /// The image template's name in this environment.
    template: RefCell<Option<String>>,
    guests: Guests,
    /// The simulated storage provider that attaches volumes.
    storage: RunningStorageProvider,
}

struct Guests(JoinHandle<()>);

impl Drop for Guests {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A namespace with its own vCenter folder.
#[derive(Clone, Debug)]
pub struct Namespace {
    pub name: String,
    /// The folder ID in vCenter.
    pub folder: String,
}

impl FaultTestbed {
    /// Starts everything. Both VM operators are stopped at first.
    pub async fn start(wire: WireFlag, level: &str) -> Result<Self> {
        let testbed = Testbed::start(&[]).await?;
        let proxy = ApiProxy::start(testbed.client(), ACCOUNT).await?;
        let kubeconfig = testbed.plane().stack().folder().join("through-the-proxy");
        proxy.write_kubeconfig(&kubeconfig)?;
        let arguments = [
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--log-level={level}"),
            "--log-format=text".to_owned(),
        ];
        let vmop = testbed.start_vmop(wire, WebhookCalls::Uncalled, &arguments).await?;
        vmop.kill().await;
        let second_vmop = testbed.start_second_vmop(&arguments).await?;
        second_vmop.kill().await;
        let disks = ForeignDisks::new(testbed.control().clone(), &testbed.vcenter().datastore);
        let guests = Guests(tokio::spawn(report_addresses(testbed.control().clone())));
        let storage = RunningStorageProvider::serving(testbed.client(), testbed.control().clone());
        Ok(Self {
            testbed,
            proxy,
            vmop,
            second_vmop,
            disks,
            leaks: Cell::default(),
            template: RefCell::default(),
            guests,
            storage,
        })
    }

    /// Returns an API for a VM operator kind in a namespace.
    pub fn api(&self, kind: &str, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.testbed.client(), namespace, &api_resource(kind))
    }

    /// Returns a name for the vCenter object that is the same in all environments. Library item IDs, template names
    /// and the names that folders get during removal differ.
    pub fn canonical_name(&self, object: &str) -> String {
        if object.starts_with('/') {
            return String::new();
        }
        if let Some((name, _id)) = object.split_once(".deleted-") {
            return format!("{name}.deleted-*");
        }
        if !object.starts_with(&node_image()) {
            return object.to_owned();
        }
        self.template.replace(Some(object.to_owned()));
        TEMPLATE.to_owned()
    }

    /// Returns the object's name in this environment, or `None` if any object matches.
    pub fn local_name(&self, object: &str) -> Option<String> {
        match object {
            "" => None,
            TEMPLATE => self.template.borrow().clone(),
            name => Some(name.to_owned()),
        }
    }

    /// Creates a namespace with a folder, class bindings and a Secret with guest data.
    pub async fn create_namespace(&self, name: &str) -> Result<Namespace> {
        let vcenter = self.testbed.vcenter();
        let folder = self.testbed.control().make_folder(&vcenter.folder, name).await?;
        let annotations = json!({
            "vmware-system-resource-pool": vcenter.resource_pool,
            "vmware-system-vm-folder": folder,
            "vmware-system-networks": "VM Network",
        });
        self.testbed.apply(&namespace_object(name, &annotations)).await?;
        for class in ["best-effort-small", "best-effort-medium"] {
            self.testbed.apply(&class_binding(class, name)).await?;
        }
        self.testbed
            .apply(&json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "boot", "namespace": name},
                "stringData": {
                    "guestinfo.metadata": "instance-id: guest",
                    "guestinfo.userdata": format!("#cloud-config\n# {MARKER}\n"),
                },
            }))
            .await?;
        Ok(Namespace { name: name.to_owned(), folder })
    }

    /// Deletes all objects in the namespace from the API server and vCenter, whatever their state. The VM operator
    /// must not run meanwhile.
    pub async fn clear_namespace(&self, namespace: &Namespace) -> Result<()> {
        for kind in KINDS {
            remove_objects(&self.api(kind, &namespace.name)).await?;
        }
        let client = || self.testbed.client();
        remove_objects(&Api::<CnsNodeVmAttachment>::namespaced(client(), &namespace.name)).await?;
        remove_objects(&Api::<PersistentVolumeClaim>::namespaced(client(), &namespace.name)).await?;
        remove_objects(&Api::<PersistentVolume>::all(client())).await?;
        let images =
            Api::<DynamicObject>::all_with(self.testbed.client(), &api_resource("VirtualMachineImage"));
        remove_object(&images, &node_image()).await?;
        let control = self.testbed.control();
        control.remove_faults(None).await?;
        let inventory = control.inventory().await?;
        control.clear_folder(&namespace.folder).await.context("cannot clear the folder")?;
        for folder in inventory.folders.iter().filter(|folder| folder.name == DISCOVERED) {
            control.clear_folder(&folder.moid).await.context("cannot clear the VMs found on hosts")?;
        }
        let below = &self.testbed.vcenter().resource_pool;
        for pool in inventory.pools.iter().filter(|pool| pool.parent == *below) {
            control.clear_pool(&pool.moid).await.context("cannot clear the pool")?;
        }
        control.clear_modules().await?;
        control.remove_orphaned_files().await?;
        self.disks.clear().await?;
        control.expire_sessions().await?;
        Ok(())
    }

    /// Counts the secrets in the namespace's objects and events.
    pub async fn search_for_secrets(&self, namespace: &Namespace) -> Result<()> {
        let secrets = self.secrets().await?;
        let events = Api::<Event>::namespaced(self.testbed.client(), &namespace.name);
        let mut text = serde_json::to_vec(&events.list(&ListParams::default()).await?.items)?;
        for kind in KINDS {
            text.extend(serde_json::to_vec(
                &self.api(kind, &namespace.name).list(&ListParams::default()).await?.items,
            )?);
        }
        self.leaks.set(self.leaks.get() + count_leaks(&text, &secrets));
        Ok(())
    }

    /// Returns all secrets, plain and in base64: bootstrap data, passwords, and all session tokens.
    pub async fn secrets(&self) -> Result<Vec<String>> {
        let vcenter = self.testbed.vcenter();
        let plain = [MARKER.to_owned(), vcenter.password()?];
        let encoded: Vec<_> = plain.iter().map(|secret| STANDARD_NO_PAD.encode(secret)).collect();
        let tokens = self.testbed.control().tokens().await?;
        Ok(plain.into_iter().chain(encoded).chain([vcenter.control_token()?]).chain(tokens).collect())
    }

    /// Returns the API server's latest resource version.
    pub async fn resource_version(&self) -> Result<String> {
        let api = Api::<k8s_openapi::api::core::v1::Namespace>::all(self.testbed.client());
        let list = api.list_metadata(&ListParams::default().limit(1)).await?;
        list.metadata.resource_version.context("a list without a version")
    }

    pub async fn stop(self) -> Result<()> {
        drop((self.guests, self.storage));
        self.vmop.kill().await;
        self.second_vmop.kill().await;
        self.testbed.stop().await
    }
}

async fn remove_objects<K>(api: &Api<K>) -> Result<()>
where
    K: Clone + Debug + DeserializeOwned + Resource,
{
    for object in api.list(&ListParams::default()).await? {
        remove_object(api, &object.name_any()).await?;
    }
    Ok(())
}

/// Removes the object's finalizers and deletes it.
async fn remove_object<K: Clone + Debug + DeserializeOwned>(api: &Api<K>, name: &str) -> Result<()> {
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

/// Returns the `ApiResource` for a `vmoperator.vmware.com` kind.
pub fn api_resource(kind: &str) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("vmoperator.vmware.com", "v1alpha1", kind))
}

/// Reports one address per boot for each powered-on VM.
async fn report_addresses(control: ControlApi) {
    let mut since = None;
    // A restored vCenter reuses IDs.
    let mut booted: HashMap<(String, String), u64> = HashMap::new();
    loop {
        let Ok(vms) = control.vms(since, Duration::from_secs(5)).await else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        since = Some(vms.revision);
        for vm in vms.vms.iter().filter(|vm| vm.powered_on()) {
            let this = (vm.moid.clone(), vm.instance_uuid.clone());
            if booted.get(&this) == Some(&vm.boot_count) {
                continue;
            }
            let number: u32 = vm.moid.trim_start_matches("vm-").parse().unwrap_or_default();
            let [.., high, low] = number.to_be_bytes();
            let ip = Some(format!("10.1.{high}.{low}"));
            let report = GuestReport { ip, host_name: Some(vm.name.clone()), tools_running: true };
            if control.report(&vm.moid, &report).await.is_ok() {
                booted.insert(this, vm.boot_count);
            }
        }
    }
}

/// Lists a kind's objects by name.
pub async fn list_objects(client: &Client, kind: &str, namespace: &str) -> Result<HashMap<String, Value>> {
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &api_resource(kind));
    let list = api.list(&ListParams::default()).await?;
    list.into_iter().map(|object| Ok((object.name_any(), serde_json::to_value(object)?))).collect()
}
