//! Runs stories: each has its own namespace, usually on a shared stack, and waits with deadlines.
//!
//! A story that fails prints what blocks its cluster, and the location of the logs.

use std::collections::BTreeSet;
use std::fmt::{Debug, Display};
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use futures::FutureExt;
use k8s_openapi::api::core::v1::{Event, Node, Secret};
use kube::api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt};
use layercake::args::RegistryAccess;
use layercake::describe::{self, Description};
use layercake::kube::manifest;
use layercake::local::up::prepare;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sim::control::InventoryVm;
use sim::guest::Phase;
use support::wait::poll;

use crate::harness::schedule::{self, StoryPlace};
use crate::harness::shared_stack::{RUNTIME, SharedStack};

/// The deadline for a cluster with two nodes, on two busy cores.
pub const CLUSTER: Duration = Duration::from_mins(5);
/// The deadline for changes that don't need new nodes.
pub const SOON: Duration = Duration::from_secs(90);

/// Runs a story in its own namespace, concurrently with others.
pub fn story<F: Future<Output = ()>>(namespace: &str, steps: impl FnOnce(Story) -> F) {
    let waiting = schedule::enter();
    RUNTIME.block_on(async {
        let shared = SharedStack::get().await;
        let place = waiting.place().await;
        let outcome = run_steps(&place, Story::on(shared, namespace), steps).await;
        outcome.unwrap_or_else(|panic| resume_unwind(panic));
    });
}

/// Runs a story that breaks shared parts of its stack. Such stories run one at a time, on a stack that only they use.
pub fn disruptive_story<F: Future<Output = ()>>(namespace: &str, steps: impl FnOnce(Story) -> F) {
    let waiting = schedule::enter_one_by_one();
    RUNTIME.block_on(async {
        let place = waiting.place().await;
        let shared = SharedStack::get_disturbed().await;
        let outcome = run_steps(&place, Story::on(shared, namespace), steps).await;
        if let Err(panic) = outcome {
            // The next story uses the same stack.
            let _ = shared.control().end_outages().await;
            let _ = shared.control().remove_faults(None).await;
            resume_unwind(panic);
        }
    });
}

/// Runs a story on its own stack, so that other stories don't affect it.
pub fn story_on_own_stack<F: Future<Output = ()>>(namespace: &str, steps: impl FnOnce(Story) -> F) {
    on_own_stack(namespace, RegistryAccess::Reachable, steps);
}

/// Runs a story on its own stack, whose nodes can't reach a container registry.
pub fn story_without_registry<F: Future<Output = ()>>(namespace: &str, steps: impl FnOnce(Story) -> F) {
    on_own_stack(namespace, RegistryAccess::Unreachable, steps);
}

fn on_own_stack<F: Future<Output = ()>>(
    namespace: &str,
    registry: RegistryAccess,
    steps: impl FnOnce(Story) -> F,
) {
    let waiting = schedule::enter();
    RUNTIME.block_on(async {
        let place = waiting.place().await;
        let shared = SharedStack::start_own(registry).await;
        let outcome = run_steps(&place, Story::on(shared, namespace), steps).await;
        shared.stop().await;
        outcome.unwrap_or_else(|panic| resume_unwind(panic));
    });
}

/// Runs the steps of a story. If they panic, prints what blocks the story. Otherwise deletes its machines, which would take processor
/// time from other stories.
async fn run_steps<F: Future<Output = ()>>(
    place: &StoryPlace,
    story: Story,
    steps: impl FnOnce(Story) -> F,
) -> thread::Result<()> {
    let outcome = AssertUnwindSafe(place.run(steps(story.clone()))).catch_unwind().await;
    match outcome {
        Ok(()) => story.give_machines_up().await,
        Err(_) => story.print_diagnostics().await,
    }
    outcome
}

/// A story's namespace and cluster.
#[derive(Clone)]
pub struct Story {
    pub shared: &'static SharedStack,
    pub namespace: String,
    clusters: Arc<OnceLock<String>>,
    /// The client for another management cluster than the stack's.
    client: Option<Client>,
}

impl Story {
    fn on(shared: &'static SharedStack, namespace: &str) -> Self {
        Self { shared, namespace: namespace.to_owned(), clusters: Arc::default(), client: None }
    }

    /// Returns a story in a namespace of another management cluster.
    pub fn in_cluster(&self, client: Client, namespace: &str) -> Self {
        Self { client: Some(client), ..Self::on(self.shared, namespace) }
    }

    /// Returns an administrator's client for the management cluster.
    pub fn client(&self) -> Client {
        self.client.clone().unwrap_or_else(|| self.shared.client.clone())
    }

    /// Applies a manifest as a user does. Its namespaces are created and prepared as by `up`.
    ///
    /// `NAMESPACE` in the text is replaced by the story's namespace.
    pub async fn apply(&self, text: &str) {
        self.try_apply(text).await.unwrap_or_else(|error| panic!("{error}"));
    }

    /// Same as [`Self::apply`], but returns a rejection.
    pub async fn try_apply(&self, text: &str) -> Result<(), String> {
        let documents = manifest::documents(&text.replace("NAMESPACE", &self.namespace)).expect("a manifest");
        let placement = self.shared.session.placement();
        let prepared = prepare::prepare_namespaces(&self.client(), &documents, &placement).await;
        prepared.unwrap_or_else(|error| panic!("{error:#}"));
        for document in &documents {
            if manifest::is_cluster(document) {
                let _ = self.clusters.set(layercake::kube::apply::key(document).1);
            }
            layercake::kube::apply::apply(&self.client(), document)
                .await
                .map_err(|error| format!("{error:#}"))?;
        }
        Ok(())
    }

    /// Waits until a cluster runs, and returns its TanzuKubernetesCluster.
    pub async fn wait_until_running(&self, name: &str) -> Value {
        let runs = |cluster: &Value| cluster["status"]["phase"] == "running";
        self.wait_for_object(&format!("{name} runs"), CLUSTER, ("TanzuKubernetesCluster", name), runs).await
    }

    /// Waits until `look` returns a value. The story fails after `deadline`.
    pub async fn wait_for<T, F>(&self, what: &str, deadline: Duration, look: impl FnMut() -> F) -> T
    where
        F: Future<Output = Option<T>>,
    {
        let started = Instant::now();
        let found = poll(what, deadline, look).await.unwrap_or_else(|late| panic!("{late}"));
        eprintln!("[{}] {what}: after {:.1} s", self.namespace, started.elapsed().as_secs_f64());
        found
    }

    /// Waits until `is_so` returns true. The story fails after `deadline`.
    pub async fn wait_until(&self, what: &str, deadline: Duration, is_so: impl AsyncFn() -> bool) {
        self.wait_for(what, deadline, async || is_so().await.then_some(())).await;
    }

    /// Waits until an object's field, given as a JSON pointer, has this value, and returns the object.
    pub async fn wait_for_field(
        &self,
        (kind, name): (&str, &str),
        (pointer, value): (&str, &str),
        deadline: Duration,
    ) -> Value {
        let what = format!("{pointer} of {kind} {name} is {value}");
        let has = |object: &Value| object.pointer(pointer).is_some_and(|field| field == value);
        self.wait_for_object(&what, deadline, (kind, name), has).await
    }

    /// Waits until `is_so` returns true for an object, and returns the object.
    pub async fn wait_for_object(
        &self,
        what: &str,
        deadline: Duration,
        (kind, name): (&str, &str),
        is_so: impl Fn(&Value) -> bool,
    ) -> Value {
        self.wait_for(what, deadline, || async { self.get(kind, name).await.filter(&is_so) }).await
    }

    /// Waits until a condition's message contains all of these words, and returns the message.
    pub async fn wait_for_message(
        &self,
        (kind, name): (&str, &str),
        type_: &str,
        deadline: Duration,
        words: &[&str],
    ) -> String {
        self.wait_for(&format!("{type_} of {kind} {name} says {words:?}"), deadline, || async {
            let object = self.get(kind, name).await?;
            let message = condition(&object, type_)?["message"].as_str()?;
            words.iter().all(|word| message.contains(word)).then(|| message.to_owned())
        })
        .await
    }

    /// Waits until an object's condition has this status, and returns the condition.
    pub async fn wait_for_condition(&self, kind: &str, name: &str, type_: &str, status: &str) -> Value {
        self.wait_for(&format!("{type_} of {kind} {name} is {status}"), SOON, || async {
            let object = self.get(kind, name).await?;
            condition(&object, type_).filter(|condition| condition["status"] == status).cloned()
        })
        .await
    }

    /// Waits until an object in the story's namespace is gone.
    pub async fn wait_until_gone(&self, kind: &str, name: &str, deadline: Duration) {
        let what = format!("{kind} {name} is gone");
        self.wait_until(&what, deadline, async || self.get(kind, name).await.is_none()).await;
    }

    /// Waits until an object is gone from this API.
    pub async fn wait_until_deleted(&self, api: &Api<DynamicObject>, name: &str) {
        let gone =
            async || api.get_opt(name).await.unwrap_or_else(|error| panic!("{name}: {error}")).is_none();
        self.wait_until(&format!("{name} is gone"), SOON, gone).await;
    }

    /// Waits until all objects of this kind in the story's namespace are gone.
    pub async fn wait_until_none_left(&self, kind: &str) {
        let what = format!("no {kind} is left");
        self.wait_until(&what, SOON, async || self.list(kind).await.is_empty()).await;
    }

    /// Changes an object in the story's namespace with a JSON merge patch.
    pub async fn patch(&self, kind: &str, name: &str, change: Value) -> DynamicObject {
        let changed = self.try_patch(kind, name, change).await;
        changed.unwrap_or_else(|error| panic!("{kind} {name}: {error}"))
    }

    /// Same as [`Self::patch`], but returns a rejection.
    pub async fn try_patch(&self, kind: &str, name: &str, change: Value) -> kube::Result<DynamicObject> {
        merge(&self.api(kind), name, change).await
    }

    /// Describes a cluster in the story's namespace, as `layercake describe tkc` does.
    pub async fn describe(&self, name: &str) -> Description {
        describe::describe(&self.client(), &self.namespace, name)
            .await
            .unwrap_or_else(|error| panic!("{error:#}"))
    }

    /// Returns the story's VM in the simulated vCenter whose name contains `part`.
    pub async fn vm_with(&self, part: &str) -> InventoryVm {
        let vm = self.vms().await.into_iter().find(|vm| vm.name.contains(part));
        vm.unwrap_or_else(|| panic!("no VM has {part} in its name"))
    }

    /// Returns an object in the story's namespace as JSON.
    pub async fn get(&self, kind: &str, name: &str) -> Option<Value> {
        let object =
            self.api(kind).get_opt(name).await.unwrap_or_else(|error| panic!("{kind} {name}: {error}"))?;
        Some(serde_json::to_value(object).expect("JSON"))
    }

    /// Returns all objects of a kind in the story's namespace.
    pub async fn list(&self, kind: &str) -> Vec<Value> {
        let list = self.api(kind).list(&ListParams::default()).await;
        let items = list.unwrap_or_else(|error| panic!("{kind}: {error}")).items;
        items.into_iter().map(|item| serde_json::to_value(item).expect("JSON")).collect()
    }

    /// Returns the API for a kind in the story's namespace.
    pub fn api(&self, kind: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client(), &self.namespace, &api_resource(kind))
    }

    /// Returns the API for a cluster-scoped kind.
    pub fn cluster_api(&self, kind: &str) -> Api<DynamicObject> {
        Api::all_with(self.client(), &api_resource(kind))
    }

    /// Returns a client for the workload cluster, with Cluster API's kubeconfig.
    pub async fn guest_client(&self, cluster: &str) -> Client {
        Client::try_from(self.guest_config(cluster).await).expect("a client")
    }

    /// Returns the client configuration for the workload cluster, from Cluster API's kubeconfig.
    pub async fn guest_config(&self, cluster: &str) -> Config {
        let secrets: Api<Secret> = Api::namespaced(self.client(), &self.namespace);
        let secret = secrets.get(&format!("{cluster}-kubeconfig")).await.expect("the kubeconfig Secret");
        let text = String::from_utf8(secret.data.expect("data")["value"].0.clone()).expect("UTF-8");
        let kubeconfig = Kubeconfig::from_yaml(&text).expect("a kubeconfig");
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        config.expect("a configuration")
    }

    /// Waits until events about an object contain all of these reasons, or until any event exists if `reasons` is empty. Events may arrive
    /// after the status that they belong to.
    pub async fn wait_for_events(&self, kind: &str, name: &str, reasons: &[&str]) {
        self.wait_for_events_in(&self.namespace, kind, name, reasons).await;
    }

    /// Same as [`Self::wait_for_events`], for an object in another namespace.
    pub async fn wait_for_events_in(&self, namespace: &str, kind: &str, name: &str, reasons: &[&str]) {
        let events: Api<Event> = Api::namespaced(self.client(), namespace);
        self.wait_for(&format!("events {reasons:?} of {kind} {name}"), SOON, || async {
            let events = events.list(&ListParams::default()).await.expect("events").items;
            let about = |event: &&Event| {
                event.involved_object.kind.as_deref() == Some(kind)
                    && event.involved_object.name.as_deref() == Some(name)
            };
            let given: BTreeSet<_> =
                events.iter().filter(about).filter_map(|event| event.reason.as_deref()).collect();
            (!given.is_empty() && reasons.iter().all(|reason| given.contains(reason))).then_some(())
        })
        .await;
    }

    /// Returns the story's VMs in the simulated vCenter.
    pub async fn vms(&self) -> Vec<InventoryVm> {
        let objects = self.api("VirtualMachine").list(&ListParams::default()).await.expect("VirtualMachines");
        let names: BTreeSet<_> = objects.items.iter().map(ResourceExt::name_any).collect();
        let inventory = self.shared.control().inventory().await.expect("the inventory");
        inventory.vms.into_iter().filter(|vm| names.contains(&vm.name)).collect()
    }

    /// Deletes an object and waits until it is gone.
    pub async fn delete(&self, kind: &str, name: &str, deadline: Duration) {
        let deleted = self.api(kind).delete(name, &DeleteParams::default()).await;
        deleted.unwrap_or_else(|error| panic!("{kind} {name}: {error}"));
        self.wait_until_gone(kind, name, deadline).await;
    }

    /// Deletes an object, removes its finalizers, and waits until it is gone.
    pub async fn force_delete(&self, kind: &str, name: &str) {
        let deleted = self.api(kind).delete(name, &DeleteParams::default()).await;
        deleted.unwrap_or_else(|error| panic!("{kind} {name}: {error}"));
        // This fails if the object is gone already.
        let _ = self.try_patch(kind, name, json!({"metadata": {"finalizers": null}})).await;
        self.wait_until_gone(kind, name, SOON).await;
    }

    /// Deletes the clusters and VMs in the story's namespace, but doesn't wait until they are gone.
    async fn give_machines_up(&self) {
        for kind in ["TanzuKubernetesCluster", "Cluster", "VirtualMachine"] {
            let (delete, all) = (DeleteParams::default(), ListParams::default());
            // Ignore errors: other stories use other namespaces.
            let _ = self.api(kind).delete_collection(&delete, &all).await;
        }
    }

    /// Returns the stack's folder, which contains the logs.
    pub fn folder(&self) -> PathBuf {
        self.shared.session.folder.clone()
    }

    /// Prints what blocks the story's cluster.
    async fn print_diagnostics(&self) {
        eprintln!("[{}] logs: {}", self.namespace, self.folder().join("logs").display());
        let Some(cluster) = self.clusters.get() else { return };
        match describe::describe(&self.client(), &self.namespace, cluster).await {
            Ok(description) => eprintln!("{}", description.text(false)),
            Err(error) => eprintln!("{error:#}"),
        }
        for boot in self.shared.guests.boots() {
            if let Phase::Failed(failure) = boot.phase {
                eprintln!("guest {} did not become a node: {failure}", boot.name);
            }
        }
    }
}

/// Returns a kind's group, version and plural.
pub fn api_resource(kind: &str) -> ApiResource {
    let (group, version) = match kind {
        "TanzuKubernetesCluster" | "TanzuKubernetesRelease" | "OSImage" | "TkgServiceConfiguration" => {
            ("run.tanzu.vmware.com", "v1alpha3")
        }
        "WCPCluster"
        | "WCPClusterTemplate"
        | "WCPMachine"
        | "WCPMachineTemplate"
        | "ProviderServiceAccount" => ("infrastructure.cluster.vmware.com", "v1beta2"),
        "VirtualNetwork" | "VirtualNetworkInterface" => ("vmware.com", "v1alpha1"),
        "NetworkInterface" => ("netoperator.vmware.com", "v1alpha1"),
        "CnsNodeVmAttachment" => ("cns.vmware.com", "v1alpha1"),
        "Cluster" | "Machine" | "MachineSet" | "MachineDeployment" | "MachineHealthCheck" => {
            ("cluster.x-k8s.io", "v1beta2")
        }
        "IPAddress" | "IPAddressClaim" => ("ipam.cluster.x-k8s.io", "v1beta2"),
        "GlobalInClusterIPPool" => ("ipam.cluster.x-k8s.io", "v1alpha2"),
        "KubeadmControlPlane" => ("controlplane.cluster.x-k8s.io", "v1beta2"),
        "KubeadmConfig" | "KubeadmConfigTemplate" => ("bootstrap.cluster.x-k8s.io", "v1beta2"),
        "Role" | "RoleBinding" => ("rbac.authorization.k8s.io", "v1"),
        "Secret"
        | "ServiceAccount"
        | "ConfigMap"
        | "Service"
        | "Namespace"
        | "ResourceQuota"
        | "PersistentVolume"
        | "PersistentVolumeClaim" => ("", "v1"),
        "DaemonSet" | "Deployment" => ("apps", "v1"),
        "EndpointSlice" => ("discovery.k8s.io", "v1"),
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

/// Changes an object with a JSON merge patch.
pub async fn merge<K: Clone + Debug + DeserializeOwned>(
    api: &Api<K>,
    name: &str,
    change: impl Serialize + Debug,
) -> kube::Result<K> {
    api.patch(name, &PatchParams::default(), &Patch::Merge(change)).await
}

/// Returns an object's condition with this type.
pub fn condition<'a>(object: &'a Value, type_: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == type_)
}

/// Returns true if the node's `Ready` condition is true.
pub fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|conditions| {
        conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
    })
}

/// Fails the story unless `text` contains all of `parts`.
pub fn assert_contains(text: impl Display, parts: &[&str]) {
    let text = text.to_string();
    for part in parts {
        assert!(text.contains(part), "`{part}` is not in: {text}");
    }
}
