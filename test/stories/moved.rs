//! Machines that go to another management cluster, as `clusterctl move` carries objects: nothing happens to them.

use std::sync::Arc;

use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use layercake::up::prepare;
use plane::{Guard, Plane, Program};
use serde_json::{Value, json};

use crate::world::{PlainVm, SOON, Story, disruptive_story, resource};

const OPERATOR: &str = "vmware-system-vmop";
const CONFIG: &str = "vsphere.provider.config.vmoperator.vmware.com";
const PAUSED: &str = "cluster.x-k8s.io/paused";
const NAMES: [&str; 3] = ["moved-a", "moved-b", "moved-c"];

#[test]
fn machines_move_to_another_api_server_and_nothing_happens_to_them() {
    disruptive_story("moved", |story| async move {
        story.ready_for_vms("best-effort-xsmall").await;
        let policy = json!({
            "apiVersion": "vmoperator.vmware.com/v1alpha1", "kind": "VirtualMachineSetResourcePolicy",
            "metadata": {"name": "moved", "namespace": story.namespace},
            "spec": {"folder": {"name": "moved"}, "resourcepool": {"name": "moved"}},
        });
        story.made(&policy).await;
        for name in NAMES {
            let mut vm = PlainVm::named(name).object(&story.namespace);
            if name == NAMES[0] {
                vm["spec"]["resourcePolicyName"] = "moved".into();
            }
            story.made(&vm).await;
        }
        for name in NAMES {
            story.powered_on(name).await;
        }
        let second = Second::started(&story).await;
        let before = machines(&story).await;
        assert_eq!(before.len(), NAMES.len());
        story.world.door().take_journal().await.unwrap();

        for (kind, name) in moved_objects() {
            paused(&story.api(kind), name, true).await;
        }
        for (kind, name) in moved_objects() {
            second.took(&story, kind, name).await;
        }
        for (kind, name) in moved_objects() {
            left(&story, kind, name).await;
        }
        for (kind, name) in moved_objects() {
            paused(&second.api(kind, &story.namespace), name, false).await;
        }
        for name in NAMES {
            second.knows(&story, name).await;
        }

        let calls = story.world.door().take_journal().await.unwrap();
        assert!(calls.is_empty(), "somebody changed something: {calls:?}");
        assert_eq!(machines(&story).await, before);
        second.cleared(&story).await;
        assert!(story.vms_named(NAMES[0]).await.is_empty());
        second.stopped().await;
    });
}

/// What goes, owners first.
fn moved_objects() -> Vec<(&'static str, &'static str)> {
    let machines = NAMES.map(|name| ("VirtualMachine", name));
    [("VirtualMachineSetResourcePolicy", "moved")].into_iter().chain(machines).collect()
}

/// The machines of the story in vCenter: which they are and how they are.
async fn machines(story: &Story) -> Vec<(String, String, String, String)> {
    let inventory = story.world.door().inventory().await.unwrap();
    let ours = inventory.vms.into_iter().filter(|vm| NAMES.contains(&vm.name.as_str()));
    let mut machines: Vec<_> = ours.map(|vm| (vm.name, vm.moid, vm.folder, vm.power_state)).collect();
    machines.sort();
    machines
}

async fn paused(api: &Api<DynamicObject>, name: &str, pause: bool) {
    let value = if pause { json!("") } else { Value::Null };
    let patch = json!({"metadata": {"annotations": {PAUSED: value}}});
    api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
}

/// The source is deleted as one that has moved, and its finalizers are taken off.
async fn left(story: &Story, kind: &str, name: &str) {
    let api = story.api(kind);
    let mark = json!({"metadata": {"annotations": {"clusterctl.cluster.x-k8s.io/delete-for-move": ""}}});
    api.patch(name, &PatchParams::default(), &Patch::Merge(&mark)).await.unwrap();
    api.delete(name, &DeleteParams::default()).await.unwrap();
    let strip = json!({"metadata": {"finalizers": null}});
    // The object may be gone already: what matters is that nothing else is.
    let _ = api.patch(name, &PatchParams::default(), &Patch::Merge(&strip)).await;
    story
        .until(&format!("{kind} {name} has left"), SOON, || async {
            story.get(kind, name).await.is_none().then_some(())
        })
        .await;
}

/// The other management cluster: an API server of its own, and a VM operator on the same vCenter.
struct Second {
    guard: Guard,
    plane: Plane,
}

impl Second {
    async fn started(story: &Story) -> Self {
        let exe = env!("CARGO_BIN_EXE_layercake").as_ref();
        let stack = Arc::new(plane::Stack::ephemeral().unwrap());
        let guard = Guard::start(exe, &stack).unwrap();
        let tools = story.world.tools.clone();
        let plane = Plane::bare(plane::Options { stack, tools }).await.unwrap();
        let second = Self { guard, plane };
        second.configured(story).await;
        let vmop = Program::new("vmop", exe).arg("--probe-address-map=10.0.0.0/8=127.0.0.0/8");
        second.plane.run(vmop).await.unwrap();
        second
    }

    /// What the first one's admin gave it, and what the namespace may use.
    async fn configured(&self, story: &Story) {
        let (from, to) = (story.client(), self.plane.client());
        let namespaces = [("Namespace", OPERATOR), ("Namespace", story.namespace.as_str())];
        for (kind, name) in namespaces {
            copied(&Api::all_with(from.clone(), &resource(kind)), name, &to).await;
        }
        let operator = |kind| Api::namespaced_with(from.clone(), OPERATOR, &resource(kind));
        let config = copied(&operator("ConfigMap"), CONFIG, &to).await;
        let credentials = config["data"]["VcCredsSecretName"].as_str().unwrap();
        copied(&operator("Secret"), credentials, &to).await;
        copied(&story.cluster_api("VirtualMachineClass"), "best-effort-xsmall", &to).await;
        copied(&story.api("VirtualMachineClassBinding"), "best-effort-xsmall", &to).await;
    }

    fn client(&self) -> Client {
        self.plane.client()
    }

    fn api(&self, kind: &str, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client(), namespace, &resource(kind))
    }

    /// The object is here too, without its status.
    async fn took(&self, story: &Story, kind: &str, name: &str) {
        copied(&story.api(kind), name, &self.client()).await;
    }

    /// The machine's object says all that it said where it came from.
    async fn knows(&self, story: &Story, name: &str) {
        let api = self.api("VirtualMachine", &story.namespace);
        story
            .until(&format!("{name} is known to its new cluster"), SOON, || async {
                let vm = api.get(name).await.ok()?;
                let conditions = vm.data["status"]["conditions"].as_array()?;
                let made = |condition: &&Value| condition["type"] == "VirtualMachineCreated";
                let told = conditions.iter().find(made)?["status"] == "True";
                (told && vm.data["status"]["powerState"] == "poweredOn").then_some(())
            })
            .await;
    }

    /// The machines go with their objects: this is their home now.
    async fn cleared(&self, story: &Story) {
        for (kind, name) in moved_objects().into_iter().rev() {
            let api = self.api(kind, &story.namespace);
            api.delete(name, &DeleteParams::default()).await.unwrap();
            story
                .until(&format!("{kind} {name} is gone"), SOON, || async {
                    api.get_opt(name).await.unwrap().is_none().then_some(())
                })
                .await;
        }
    }

    async fn stopped(self) {
        self.plane.stop().await;
        tokio::task::spawn_blocking(move || self.guard.finish()).await.unwrap().unwrap();
    }
}

/// The object as it is written down: what it says of itself and what its server gave it stay behind.
async fn copied(from: &Api<DynamicObject>, name: &str, to: &Client) -> Value {
    let object = from.get(name).await.unwrap_or_else(|error| panic!("{name}: {error}"));
    let finalizers = object.finalizers().to_vec();
    let mut copy = serde_json::to_value(object).unwrap();
    copy.as_object_mut().unwrap().remove("status");
    let metadata = copy["metadata"].as_object_mut().unwrap();
    for given in
        ["uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "ownerReferences"]
    {
        metadata.remove(given);
    }
    metadata.insert("finalizers".to_owned(), json!(finalizers));
    prepare::applied(to, &copy).await.unwrap_or_else(|error| panic!("{name}: {error:#}"));
    copy
}
