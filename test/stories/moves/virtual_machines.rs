//! A user moves VirtualMachines to another management cluster like `clusterctl move` does. Their VMs aren't touched.

use kube::Api;
use kube::api::{DeleteParams, DynamicObject};
use serde_json::{Value, json};

use crate::harness::plain_vm::PlainVm;
use crate::harness::second_cluster::{SecondCluster, copy_object};
use crate::harness::story::{SOON, Story, condition, disruptive_story, merge};
use crate::moves::cluster::assert_untouched;

const PAUSED: &str = "cluster.x-k8s.io/paused";
const NAMES: [&str; 3] = ["moved-a", "moved-b", "moved-c"];

#[test]
fn machines_move_to_another_api_server_and_nothing_happens_to_them() {
    disruptive_story("moved", |story| async move {
        story.prepare_namespace("best-effort-xsmall").await;
        let policy = json!({
            "apiVersion": "vmoperator.vmware.com/v1alpha1", "kind": "VirtualMachineSetResourcePolicy",
            "metadata": {"name": "moved", "namespace": story.namespace},
            "spec": {"folder": {"name": "moved"}, "resourcepool": {"name": "moved"}},
        });
        story.apply_object(&policy).await;
        for name in NAMES {
            let mut vm = PlainVm::named(name).object(&story.namespace);
            if name == NAMES[0] {
                vm["spec"]["resourcePolicyName"] = "moved".into();
            }
            story.apply_object(&vm).await;
        }
        for name in NAMES {
            story.wait_until_powered_on(name).await;
        }
        let second = SecondCluster::start(&story, &[]).await;
        let before = vms_of(&story).await;
        assert_eq!(before.len(), NAMES.len());
        story.shared.control().take_journal().await.unwrap();

        for (kind, name) in moved_objects() {
            set_paused(&story.api(kind), name, true).await;
        }
        for (kind, name) in moved_objects() {
            second.take_over(&story, kind, name).await;
        }
        for (kind, name) in moved_objects() {
            leave(&story, kind, name).await;
        }
        for (kind, name) in moved_objects() {
            set_paused(&second.api(kind, &story.namespace), name, false).await;
        }
        for name in NAMES {
            second.wait_until_known(&story, name).await;
        }

        assert_untouched(&story).await;
        assert_eq!(vms_of(&story).await, before);
        second.clear(&story).await;
        assert!(story.vms_named(NAMES[0]).await.is_empty());
        second.stop().await;
    });
}

/// Returns the moved objects, owners first.
fn moved_objects() -> Vec<(&'static str, &'static str)> {
    let vms = NAMES.map(|name| ("VirtualMachine", name));
    [("VirtualMachineSetResourcePolicy", "moved")].into_iter().chain(vms).collect()
}

/// Returns the story's VMs in vCenter, with IDs, folders and power states.
async fn vms_of(story: &Story) -> Vec<(String, String, String, String)> {
    let inventory = story.shared.control().inventory().await.unwrap();
    let ours = inventory.vms.into_iter().filter(|vm| NAMES.contains(&vm.name.as_str()));
    let mut vms: Vec<_> = ours.map(|vm| (vm.name, vm.moid, vm.folder, vm.power_state)).collect();
    vms.sort();
    vms
}

async fn set_paused(api: &Api<DynamicObject>, name: &str, pause: bool) {
    let value = if pause { json!("") } else { Value::Null };
    merge(api, name, json!({"metadata": {"annotations": {PAUSED: value}}})).await.unwrap();
}

/// Marks the source object as moved, deletes it and removes its finalizers.
async fn leave(story: &Story, kind: &str, name: &str) {
    let mark = json!({"metadata": {"annotations": {"clusterctl.cluster.x-k8s.io/delete-for-move": ""}}});
    story.patch(kind, name, mark).await;
    story.force_delete(kind, name).await;
}

impl SecondCluster {
    /// Copies the object to this cluster, without its status.
    async fn take_over(&self, story: &Story, kind: &str, name: &str) {
        copy_object(&story.api(kind), name, &self.client()).await;
    }

    /// Waits until the VirtualMachine has the status that it had in the source cluster.
    async fn wait_until_known(&self, story: &Story, name: &str) {
        let api = self.api("VirtualMachine", &story.namespace);
        story
            .wait_for(&format!("{name} is known to its new cluster"), SOON, || async {
                let vm = api.get(name).await.ok()?;
                let is_created = condition(&vm.data, "VirtualMachineCreated")?["status"] == "True";
                (is_created && vm.data["status"]["powerState"] == "poweredOn").then_some(())
            })
            .await;
    }

    /// Deletes the VirtualMachines, and thus their VMs.
    async fn clear(&self, story: &Story) {
        for (kind, name) in moved_objects().into_iter().rev() {
            let api = self.api(kind, &story.namespace);
            api.delete(name, &DeleteParams::default()).await.unwrap();
            story.wait_until_deleted(&api, name).await;
        }
    }
}
