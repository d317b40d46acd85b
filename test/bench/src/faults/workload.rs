//! One run's workload: VMs that are created, changed and deleted.

use std::collections::HashMap;

use anyhow::{Context as _, Result};
use api::names::annotation;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::environment::{FaultTestbed, KINDS, Namespace, list_objects};
use super::foreign_disks::foreign_folder;
use crate::vms::node_image;

/// One step: user requests, and the condition that ends it.
pub struct Stage {
    pub name: &'static str,
    pub requests: Vec<UserRequest>,
    /// Returns the reason why the step isn't done, or `None` if it is.
    pub unfinished: fn(&ObjectView) -> Option<String>,
    /// True if the state after the step is compared with the clean run.
    pub compared: bool,
}

/// A user request.
pub enum UserRequest {
    Create(&'static str, Value),
    /// Create a claim with this name, and its volume.
    Claim(&'static str),
    /// Change an object with a merge patch.
    Change(&'static str, &'static str, Value),
    Delete(&'static str, &'static str),
    /// Attach a disk to the VM with this name in vCenter.
    AttachDisk(&'static str),
}

const VM: &str = "VirtualMachine";
const POLICY: &str = "VirtualMachineSetResourcePolicy";
/// The module group whose VMs run on separate hosts.
const GROUP: &str = "g";

/// A namespace's objects, including their status.
#[derive(Debug, Default)]
pub struct ObjectView(HashMap<(&'static str, String), Value>);

impl ObjectView {
    /// Reads the current objects.
    pub async fn read(environment: &FaultTestbed, namespace: &Namespace) -> Result<Self> {
        let mut all = HashMap::new();
        for kind in KINDS {
            let found = list_objects(&environment.testbed.client(), kind, &namespace.name).await?;
            all.extend(found.into_iter().map(|(name, object)| ((kind, name), object)));
        }
        Ok(Self(all))
    }

    fn get(&self, kind: &'static str, name: &str) -> &Value {
        self.0.get(&(kind, name.to_owned())).unwrap_or(&Value::Null)
    }

    fn not_ready(&self, kind: &'static str, name: &str) -> Option<String> {
        let object = self.get(kind, name);
        let ready = condition(object, "Ready");
        let current = object["status"]["observedGeneration"].is_null()
            || object["status"]["observedGeneration"] == object["metadata"]["generation"];
        (ready["status"] != "True" || !current).then(|| format!("{kind} {name} is not Ready: {ready}"))
    }

    fn not_in(&self, name: &str, state: &str) -> Option<String> {
        let status = &self.get(VM, name)["status"];
        let why = || format!("{VM} {name} is not {state}: {}", condition(self.get(VM, name), "Ready"));
        (status["powerState"] != state).then(why)
    }

    fn not_restarted(&self, name: &str) -> Option<String> {
        let restarted = &self.get(VM, name)["status"]["lastRestartTime"];
        restarted.is_null().then(|| format!("{VM} {name} is not restarted"))
    }

    /// Returns the VM's vCenter ID from the object's status.
    fn vm_id(&self, name: &str) -> Option<&str> {
        self.get(VM, name)["status"]["uniqueID"].as_str()
    }

    fn still_there(&self, kind: &'static str, name: &str) -> Option<String> {
        let object = self.get(kind, name);
        let why = || format!("{kind} {name} is still there: {}", condition(object, "Ready"));
        (!object.is_null()).then(why)
    }
}

/// Returns an object's condition, or null if it is missing.
pub fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let mut all = object["status"]["conditions"].as_array().into_iter().flatten();
    all.find(|condition| condition["type"] == kind).unwrap_or(&Value::Null)
}

pub fn vm_object(name: &str, spec: &Value) -> Value {
    let mut object = json!({
        "apiVersion": "vmoperator.vmware.com/v1alpha1", "kind": VM, "metadata": {"name": name},
        "spec": {
            "imageName": node_image(), "className": "best-effort-small", "powerState": "poweredOn",
        },
    });
    if let (Some(all), Some(more)) = (object["spec"].as_object_mut(), spec.as_object()) {
        all.extend(more.clone());
    }
    object
}

/// Returns the namespace's resource policy: a folder, a pool, and a module that keeps VMs on separate hosts.
pub fn policy_object() -> Value {
    json!({
        "apiVersion": "vmoperator.vmware.com/v1alpha1", "kind": POLICY, "metadata": {"name": "p"},
        "spec": {
            "folder": {"name": "p"}, "resourcepool": {"name": "p"}, "clustermodules": [{"groupname": GROUP}],
        },
    })
}

/// Adds a VM object to the policy's module.
pub fn module_member(mut object: Value) -> Value {
    object["metadata"]["annotations"] = json!({ annotation::CLUSTER_MODULE_GROUP: GROUP });
    object["spec"]["resourcePolicyName"] = "p".into();
    object
}

/// Returns a volume that is created with the VM.
pub fn own_volume() -> Value {
    json!({"name": "data", "vSphereVolume": {"capacity": {"ephemeral-storage": "1Gi"}}})
}

/// Returns a volume for a claim, which vSphere CSI attaches.
pub fn claimed_volume(claim: &str) -> Value {
    json!({"name": "claim", "persistentVolumeClaim": {"claimName": claim}})
}

/// Returns a run's steps in order.
pub fn stages() -> Vec<Stage> {
    vec![created(), changed(), resized(), restarted(), deleted()]
}

fn created() -> Stage {
    let uuid = "42370000-0000-4000-8000-00000000000a";
    let bootstrap = json!({"secretName": "boot", "transport": "ExtraConfig"});
    let a =
        json!({"vmMetadata": bootstrap, "biosUUID": uuid, "instanceUUID": uuid, "volumes": [own_volume()]});
    let c = json!({"vmMetadata": bootstrap, "volumes": [claimed_volume("c")]});
    Stage {
        name: "create",
        requests: vec![
            UserRequest::Create(POLICY, policy_object()),
            UserRequest::Claim("c"),
            UserRequest::Create(VM, module_member(vm_object("a", &a))),
            UserRequest::Create(VM, vm_object("b", &json!({"powerState": "poweredOff"}))),
            UserRequest::Create(VM, vm_object("c", &c)),
        ],
        unfinished: |view| {
            view.not_ready(POLICY, "p")
                .or_else(|| view.not_ready(VM, "a"))
                .or_else(|| view.not_in("b", "poweredOff"))
                .or_else(|| view.not_ready(VM, "c"))
        },
        compared: false,
    }
}

fn changed() -> Stage {
    Stage {
        name: "change",
        requests: vec![
            UserRequest::AttachDisk("b"),
            UserRequest::Change(VM, "a", json!({"spec": {"powerState": "poweredOff"}})),
            UserRequest::Change(VM, "b", json!({"spec": {"powerState": "poweredOn"}})),
            UserRequest::Delete(VM, "c"),
        ],
        unfinished: |view| {
            view.not_in("a", "poweredOff")
                .or_else(|| view.not_ready(VM, "b"))
                .or_else(|| view.still_there(VM, "c"))
        },
        compared: false,
    }
}

fn resized() -> Stage {
    let interfaces = json!([{"networkName": "workload-network"}, {"networkName": "VM Network"}]);
    Stage {
        name: "resize",
        requests: vec![
            UserRequest::Change(
                VM,
                "a",
                json!({"spec": {"className": "best-effort-medium", "networkInterfaces": interfaces}}),
            ),
            UserRequest::Change(VM, "a", json!({"spec": {"powerState": "poweredOn"}})),
            UserRequest::Change(VM, "b", json!({"spec": {"powerState": "suspended"}})),
        ],
        unfinished: |view| view.not_ready(VM, "a").or_else(|| view.not_in("b", "suspended")),
        compared: false,
    }
}

fn restarted() -> Stage {
    Stage {
        name: "restart",
        requests: vec![
            UserRequest::Change(VM, "a", json!({"spec": {"nextRestartTime": "now"}})),
            UserRequest::Delete(VM, "b"),
        ],
        unfinished: |view| {
            view.not_restarted("a").or_else(|| view.not_ready(VM, "a")).or_else(|| view.still_there(VM, "b"))
        },
        compared: true,
    }
}

fn deleted() -> Stage {
    Stage {
        name: "delete",
        requests: vec![UserRequest::Delete(VM, "a"), UserRequest::Delete(POLICY, "p")],
        unfinished: |view| view.still_there(VM, "a").or_else(|| view.still_there(POLICY, "p")),
        compared: true,
    }
}

pub async fn send_request(
    environment: &FaultTestbed,
    namespace: &Namespace,
    request: &UserRequest,
) -> Result<()> {
    match request {
        UserRequest::Create(kind, object) => {
            let object: DynamicObject = serde_json::from_value(object.clone())?;
            environment.api(kind, &namespace.name).create(&PostParams::default(), &object).await?;
        }
        UserRequest::Claim(name) => {
            environment.disks.create_claim(&environment.testbed.client(), &namespace.name, name).await?;
        }
        UserRequest::Change(kind, name, patch) => {
            let api = environment.api(kind, &namespace.name);
            api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        }
        UserRequest::Delete(kind, name) => {
            environment.api(kind, &namespace.name).delete(name, &DeleteParams::default()).await?;
        }
        UserRequest::AttachDisk(name) => {
            let view = ObjectView::read(environment, namespace).await?;
            let vm = view.vm_id(name).with_context(|| format!("{VM} {name} has no VM"))?;
            environment.disks.attach_disk(vm, &foreign_folder(&namespace.name, name)).await?;
        }
    }
    Ok(())
}
