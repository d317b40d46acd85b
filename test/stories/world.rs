//! The world of the stories: one stack for all of them, a namespace for each, and patience with a deadline.
//!
//! A story that waits in vain prints what blocks its cluster and where the logs are.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::{Duration, Instant};

use clap::ValueEnum as _;
use futures::FutureExt;
use k8s_openapi::api::core::v1::{Event, Secret};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt};
use layercake::args::Wire;
use layercake::describe;
use layercake::stack::{Options, Stack};
use layercake::up::{manifest, prepare};
use serde_json::Value;
use sim::guest::Phase;
use tokio::runtime::Runtime;
use tokio::sync::{OnceCell, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Time for a cluster of two nodes on two busy cores.
pub const CLUSTER: Duration = Duration::from_mins(5);
/// Time for anything that needs no new node.
pub const SOON: Duration = Duration::from_secs(90);

/// Everything that outlives one story runs here; each story only waits in its own thread.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().expect("a runtime"));
static WORLD: OnceCell<Result<World, String>> = OnceCell::const_new();
/// Stories that break something for everybody hold this for writing.
static PEACE: RwLock<()> = RwLock::const_new(());

/// The stack that the stories share.
pub struct World {
    pub stack: tokio::sync::Mutex<Stack>,
    pub client: Client,
    pub session: layercake::session::Session,
    pub guests: sim::guest::Guests,
    pub tools: plane::tools::Tools,
}

/// A program that is built when it is first used.
pub fn tool(tool: &'static plane::tools::Tool) -> std::path::PathBuf {
    let (options, progress) = (plane::tools::Options::default(), plane::tools::progress());
    let built = || plane::tools::ensure_one(tool, &options, &*progress);
    tokio::task::block_in_place(built).expect("the program is found or built")
}

impl World {
    async fn begun() -> Result<Self, String> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let exe = env!("CARGO_BIN_EXE_layercake").into();
        let options = Options { exe, tools: BTreeMap::new(), wire: wire()? };
        let stack = Stack::start(&options).await.map_err(|error| format!("{error:#}"))?;
        let session = stack.session();
        let client = session.client().await.map_err(|error| format!("{error:#}"))?;
        let guests = stack.site().guests();
        let tools = stack.tools().clone();
        Ok(Self { stack: tokio::sync::Mutex::new(stack), client, session, guests, tools })
    }

    /// The control API of the simulated vCenter.
    pub fn control(&self) -> sim::control::ControlApi {
        self.session.control().expect("the simulator's control API")
    }
}

/// How the VM operator speaks with vCenter in the shared stack: as `LAYERCAKE_WIRE` says, as `up --wire` does.
fn wire() -> Result<Wire, String> {
    match std::env::var("LAYERCAKE_WIRE") {
        Ok(named) => Wire::from_str(&named, true).map_err(|error| format!("LAYERCAKE_WIRE: {error}")),
        Err(_) => Ok(Wire::default()),
    }
}

/// The wire that the shared stack does not speak: stories with a stack of their own take it, so that one run has both.
pub fn other_wire() -> Wire {
    match wire().expect("a wire") {
        Wire::Soap => Wire::ViJson,
        Wire::Auto | Wire::ViJson => Wire::Soap,
    }
}

/// Runs a story in a namespace of its own, beside others.
pub fn story<F: Future<Output = ()>>(namespace: &str, tell: impl FnOnce(Story) -> F) {
    told(namespace, tell, || PEACE.read().map(Hold::Shared).boxed());
}

/// Runs a story that breaks something which others use, alone.
pub fn disruptive_story<F: Future<Output = ()>>(namespace: &str, tell: impl FnOnce(Story) -> F) {
    told(namespace, tell, || PEACE.write().map(Hold::Alone).boxed());
}

enum Hold {
    Shared(#[allow(dead_code)] RwLockReadGuard<'static, ()>),
    Alone(#[allow(dead_code)] RwLockWriteGuard<'static, ()>),
}

fn told<F: Future<Output = ()>>(
    namespace: &str,
    tell: impl FnOnce(Story) -> F,
    hold: impl FnOnce() -> futures::future::BoxFuture<'static, Hold>,
) {
    RUNTIME.block_on(async {
        let world = WORLD.get_or_init(World::begun).await;
        let world = world.as_ref().unwrap_or_else(|error| panic!("the stack does not start: {error}"));
        let _hold = hold().await;
        let story = Story { world, namespace: namespace.to_owned(), clusters: Arc::default() };
        let outcome = AssertUnwindSafe(tell(story.clone())).catch_unwind().await;
        if let Err(panic) = outcome {
            story.lament().await;
            resume_unwind(panic);
        }
    });
}

/// One story: its namespace and the clusters it has applied.
#[derive(Clone)]
pub struct Story {
    pub world: &'static World,
    pub namespace: String,
    clusters: Arc<OnceLock<String>>,
}

impl Story {
    /// Client of the management API server, as admin.
    pub fn client(&self) -> Client {
        self.world.client.clone()
    }

    /// Applies a manifest as a user does, its namespace made and set up as `up` does it.
    ///
    /// `NAMESPACE` in the text stands for the story's namespace.
    pub async fn applied(&self, text: &str) {
        self.try_applied(text).await.unwrap_or_else(|error| panic!("{error}"));
    }

    /// As [`Self::applied`]; the refusal is the result.
    pub async fn try_applied(&self, text: &str) -> Result<(), String> {
        let documents = manifest::documents(&text.replace("NAMESPACE", &self.namespace)).expect("a manifest");
        let placement = self.world.session.placement();
        let prepared = prepare::prepared(&self.client(), &documents, &placement).await;
        prepared.unwrap_or_else(|error| panic!("{error:#}"));
        for document in &documents {
            if manifest::is_cluster(document) {
                let _ = self.clusters.set(layercake::apply::key(document).1);
            }
            layercake::apply::apply(&self.client(), document).await.map_err(|error| format!("{error:#}"))?;
        }
        Ok(())
    }

    /// Waits until a cluster runs and returns its TanzuKubernetesCluster.
    pub async fn running(&self, name: &str) -> Value {
        self.until(&format!("{name} runs"), CLUSTER, || async {
            let cluster = self.get("TanzuKubernetesCluster", name).await?;
            (cluster["status"]["phase"] == "running").then_some(cluster)
        })
        .await
    }

    /// Waits until `seen` sees something; after `deadline` the story fails.
    pub async fn until<T, F>(&self, what: &str, deadline: Duration, mut seen: impl FnMut() -> F) -> T
    where
        F: Future<Output = Option<T>>,
    {
        let started = Instant::now();
        let mut ticks = tokio::time::interval(Duration::from_millis(250));
        loop {
            ticks.tick().await;
            if let Some(value) = seen().await {
                eprintln!("[{}] {what}: after {:.1} s", self.namespace, started.elapsed().as_secs_f64());
                return value;
            }
            assert!(started.elapsed() < deadline, "not within {deadline:?}: {what}");
        }
    }

    /// An object of the story's namespace as JSON.
    pub async fn get(&self, kind: &str, name: &str) -> Option<Value> {
        let object =
            self.api(kind).get_opt(name).await.unwrap_or_else(|error| panic!("{kind} {name}: {error}"))?;
        Some(serde_json::to_value(object).expect("JSON"))
    }

    /// All objects of a kind in the story's namespace.
    pub async fn list(&self, kind: &str) -> Vec<Value> {
        let list = self.api(kind).list(&ListParams::default()).await;
        let items = list.unwrap_or_else(|error| panic!("{kind}: {error}")).items;
        items.into_iter().map(|item| serde_json::to_value(item).expect("JSON")).collect()
    }

    /// The API of one of the kinds that stories look at.
    pub fn api(&self, kind: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client(), &self.namespace, &resource(kind))
    }

    /// The API of a cluster-scoped kind.
    pub fn cluster_api(&self, kind: &str) -> Api<DynamicObject> {
        Api::all_with(self.client(), &resource(kind))
    }

    /// A client of the guest cluster, with the kubeconfig that Cluster API made.
    pub async fn guest(&self, cluster: &str) -> Client {
        let secrets: Api<Secret> = Api::namespaced(self.client(), &self.namespace);
        let secret = secrets.get(&format!("{cluster}-kubeconfig")).await.expect("the kubeconfig Secret");
        let text = String::from_utf8(secret.data.expect("data")["value"].0.clone()).expect("UTF-8");
        let kubeconfig = Kubeconfig::from_yaml(&text).expect("a kubeconfig");
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        Client::try_from(config.expect("a configuration")).expect("a client")
    }

    /// Waits until events about an object gave all these reasons, or any: events come after the status they go with.
    pub async fn told_of(&self, kind: &str, name: &str, reasons: &[&str]) {
        self.told_in(&self.namespace, kind, name, reasons).await;
    }

    /// The same of an object in another namespace.
    pub async fn told_in(&self, namespace: &str, kind: &str, name: &str, reasons: &[&str]) {
        let events: Api<Event> = Api::namespaced(self.client(), namespace);
        self.until(&format!("events {reasons:?} tell of {kind} {name}"), SOON, || async {
            let events = events.list(&ListParams::default()).await.expect("events").items;
            let about = |event: &&Event| {
                event.involved_object.kind.as_deref() == Some(kind)
                    && event.involved_object.name.as_deref() == Some(name)
            };
            let told: BTreeSet<_> =
                events.iter().filter(about).filter_map(|event| event.reason.as_deref()).collect();
            (!told.is_empty() && reasons.iter().all(|reason| told.contains(reason))).then_some(())
        })
        .await;
    }

    /// The VMs of the story's namespace in the simulated vCenter, by name.
    pub async fn vms(&self) -> Vec<sim::control::InventoryVm> {
        let objects = self.api("VirtualMachine").list(&ListParams::default()).await.expect("VirtualMachines");
        let names: BTreeSet<_> = objects.items.iter().map(ResourceExt::name_any).collect();
        let inventory = self.world.control().inventory().await.expect("the inventory");
        inventory.vms.into_iter().filter(|vm| names.contains(&vm.name)).collect()
    }

    /// Deletes an object and waits until it is gone.
    pub async fn deleted(&self, kind: &str, name: &str, deadline: Duration) {
        let deleted = self.api(kind).delete(name, &kube::api::DeleteParams::default()).await;
        deleted.unwrap_or_else(|error| panic!("{kind} {name}: {error}"));
        self.until(&format!("{kind} {name} is gone"), deadline, || async {
            self.get(kind, name).await.is_none().then_some(())
        })
        .await;
    }

    /// The stack's folder, where the logs are.
    pub fn folder(&self) -> PathBuf {
        self.world.session.folder.clone()
    }

    /// Prints what blocks the story's cluster.
    async fn lament(&self) {
        eprintln!("[{}] logs: {}", self.namespace, self.folder().join("logs").display());
        let Some(cluster) = self.clusters.get() else { return };
        match describe::describe(&self.client(), &self.namespace, cluster).await {
            Ok(description) => eprintln!("{}", description.text()),
            Err(error) => eprintln!("{error:#}"),
        }
        for boot in self.world.guests.boots() {
            if let Phase::Failed(failure) = boot.phase {
                eprintln!("guest {} did not become a node: {failure}", boot.name);
            }
        }
    }
}

/// Group, version and plural of a kind.
pub fn resource(kind: &str) -> ApiResource {
    let (group, version) = match kind {
        "TanzuKubernetesCluster" | "TanzuKubernetesRelease" | "OSImage" => {
            ("run.tanzu.vmware.com", "v1alpha3")
        }
        "WCPCluster" | "WCPMachine" | "WCPMachineTemplate" | "ProviderServiceAccount" => {
            ("infrastructure.cluster.vmware.com", "v1beta2")
        }
        "VirtualNetwork" | "VirtualNetworkInterface" => ("vmware.com", "v1alpha1"),
        "NetworkInterface" => ("netoperator.vmware.com", "v1alpha1"),
        "CnsNodeVmAttachment" => ("cns.vmware.com", "v1alpha1"),
        "Cluster" | "Machine" | "MachineSet" | "MachineDeployment" | "MachineHealthCheck" => {
            ("cluster.x-k8s.io", "v1beta2")
        }
        "KubeadmControlPlane" => ("controlplane.cluster.x-k8s.io", "v1beta2"),
        "KubeadmConfig" | "KubeadmConfigTemplate" => ("bootstrap.cluster.x-k8s.io", "v1beta2"),
        "Secret"
        | "ConfigMap"
        | "Service"
        | "Namespace"
        | "ResourceQuota"
        | "PersistentVolume"
        | "PersistentVolumeClaim" => ("", "v1"),
        "StorageClass" => ("storage.k8s.io", "v1"),
        "Zone" => ("topology.tanzu.vmware.com", "v1alpha1"),
        _ => ("vmoperator.vmware.com", "v1alpha1"),
    };
    let plural = match kind.to_lowercase() {
        lower if lower.ends_with("ss") => format!("{lower}es"),
        lower if lower.ends_with('y') => format!("{}ies", lower.trim_end_matches('y')),
        lower => format!("{lower}s"),
    };
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), &plural)
}

/// Fails the story, showing the object's conditions, unless `text` holds all of `parts`.
pub fn says(text: impl Display, parts: &[&str]) {
    let text = text.to_string();
    for part in parts {
        assert!(text.contains(part), "`{part}` is not said in: {text}");
    }
}

/// A VirtualMachine written by hand, as a plain user of the VM operator writes it.
#[derive(Clone, Debug)]
pub struct PlainVm {
    pub name: String,
    pub image: String,
    pub class: String,
    pub network: String,
    pub storage_class: Option<String>,
    pub uuid: Option<String>,
}

impl PlainVm {
    /// One that can be made: every field names something that exists.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            image: "ob-24892153-photon-5-amd64-v1.33.1---vmware.1-fips-vkr.2".to_owned(),
            class: "best-effort-xsmall".to_owned(),
            network: "workload-network".to_owned(),
            storage_class: None,
            uuid: None,
        }
    }

    /// The object.
    pub fn object(&self, namespace: &str) -> Value {
        let mut spec = serde_json::json!({
            "imageName": self.image, "className": self.class, "powerState": "poweredOn",
            "networkInterfaces": [{"networkName": self.network}],
        });
        if let Some(storage_class) = &self.storage_class {
            spec["storageClass"] = storage_class.as_str().into();
        }
        if let Some(uuid) = &self.uuid {
            spec["instanceUUID"] = uuid.as_str().into();
            spec["biosUUID"] = uuid.as_str().into();
        }
        serde_json::json!({
            "apiVersion": "vmoperator.vmware.com/v1alpha1", "kind": "VirtualMachine",
            "metadata": {"name": self.name, "namespace": namespace}, "spec": spec,
        })
    }
}

impl Story {
    /// Sets the namespace up for plain VMs of a class.
    pub async fn ready_for_vms(&self, class: &str) {
        let placement = self.world.session.placement();
        prepare::namespace_made(&self.client(), &self.namespace, &placement).await.unwrap();
        let binding = serde_json::json!({
            "apiVersion": "vmoperator.vmware.com/v1alpha1", "kind": "VirtualMachineClassBinding",
            "metadata": {"name": class, "namespace": self.namespace},
            "classRef": {"apiVersion": "vmoperator.vmware.com/v1alpha1", "kind": "VirtualMachineClass", "name": class},
        });
        self.made(&binding).await;
    }

    /// Applies one object.
    pub async fn made(&self, object: &Value) {
        layercake::apply::apply(&self.client(), object).await.unwrap_or_else(|error| panic!("{error:#}"));
    }

    /// Makes a VirtualMachine as a program does: it is not refused for what other objects lack.
    pub async fn made_by_program(&self, vm: &Value) {
        let namespace = &self.namespace;
        let path = format!("/apis/vmoperator.vmware.com/v1alpha1/namespaces/{namespace}/virtualmachines");
        let request = http::Request::post(path)
            .header("content-type", "application/json")
            .header("impersonate-user", format!("system:serviceaccount:{namespace}:program"))
            .header("impersonate-group", "system:masters")
            .body(serde_json::to_vec(vm).unwrap())
            .unwrap();
        self.client().request::<Value>(request).await.unwrap();
    }

    /// Waits until a VirtualMachine is powered on and has its id.
    pub async fn powered_on(&self, name: &str) -> Value {
        self.until(&format!("{name} is powered on"), SOON, || async {
            let vm = self.get("VirtualMachine", name).await?;
            let on = vm["status"]["powerState"] == "poweredOn" && vm["status"]["uniqueID"].is_string();
            on.then_some(vm)
        })
        .await
    }

    /// Waits until some condition of an object is False and says all of `words` in its reason and message.
    pub async fn complains(&self, kind: &str, name: &str, words: &[&str]) -> String {
        self.until(&format!("{kind} {name} says {words:?}"), SOON, || async {
            let object = self.get(kind, name).await?;
            let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.iter().filter(|condition| condition["status"] != "True").find_map(|condition| {
                let said = format!("{}: {}", condition["reason"], condition["message"]);
                words.iter().all(|word| said.contains(word)).then_some(said)
            })
        })
        .await
    }

    /// VMs in the simulated vCenter with this name.
    pub async fn vms_named(&self, name: &str) -> Vec<sim::control::InventoryVm> {
        let inventory = self.world.control().inventory().await.expect("the inventory");
        inventory.vms.into_iter().filter(|vm| vm.name == name).collect()
    }
}
