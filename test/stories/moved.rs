//! Machines that go to another management cluster, as `clusterctl move` carries objects: nothing happens to them.

use kube::Api;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use crate::second::{Second, copied};
use crate::world::{PlainVm, SOON, Story, disruptive_story};

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
        let second = Second::started(&story, &[]).await;
        let before = machines(&story).await;
        assert_eq!(before.len(), NAMES.len());
        story.world.control().take_journal().await.unwrap();

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

        let calls = story.world.control().take_journal().await.unwrap();
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
    let inventory = story.world.control().inventory().await.unwrap();
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

impl Second {
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
}
