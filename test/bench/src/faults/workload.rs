//! What the VM operator is asked for in one run: machines that are made, changed and deleted.

use std::collections::HashMap;

use anyhow::{Context as _, Result};
use api::names::annotation;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::arena::{Arena, KINDS, Room, image, objects};
use super::disks::theirs;

/// One step: what is asked for, and how far that has to come.
pub struct Stage {
    /// Its name.
    pub name: &'static str,
    /// What is asked for.
    pub asks: Vec<Ask>,
    /// Why it has not come that far, if so.
    pub open: fn(&View) -> Option<String>,
    /// Whether what is there then is compared with the clean run.
    pub compared: bool,
}

/// One request of a user.
pub enum Ask {
    /// Create this object.
    Create(&'static str, Value),
    /// Make a claim of that name, with a volume.
    Claim(&'static str),
    /// Change an object by a merge patch.
    Change(&'static str, &'static str, Value),
    /// Delete an object.
    Delete(&'static str, &'static str),
    /// Hang a disk on the machine of that name in vCenter.
    Hang(&'static str),
}

const VM: &str = "VirtualMachine";
const POLICY: &str = "VirtualMachineSetResourcePolicy";
/// The group whose machines a module keeps apart.
const GROUP: &str = "g";

/// The objects of a room, as their status tells.
#[derive(Debug, Default)]
pub struct View(HashMap<(&'static str, String), Value>);

impl View {
    /// As they are now.
    pub async fn read(arena: &Arena, room: &Room) -> Result<Self> {
        let mut all = HashMap::new();
        for kind in KINDS {
            let found = objects(&arena.world.client(), kind, &room.namespace).await?;
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

    /// The machine of an object, as its status tells.
    fn machine(&self, name: &str) -> Option<&str> {
        self.get(VM, name)["status"]["uniqueID"].as_str()
    }

    fn there(&self, kind: &'static str, name: &str) -> Option<String> {
        let object = self.get(kind, name);
        let why = || format!("{kind} {name} is still there: {}", condition(object, "Ready"));
        (!object.is_null()).then(why)
    }
}

/// A condition of an object; null if there is none.
pub fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let mut all = object["status"]["conditions"].as_array().into_iter().flatten();
    all.find(|condition| condition["type"] == kind).unwrap_or(&Value::Null)
}

/// A machine's object.
pub fn machine(name: &str, spec: &Value) -> Value {
    let mut object = json!({
        "apiVersion": "vmoperator.vmware.com/v1alpha1", "kind": VM, "metadata": {"name": name},
        "spec": {
            "imageName": image(), "className": "best-effort-small", "powerState": "poweredOn",
        },
    });
    if let (Some(all), Some(more)) = (object["spec"].as_object_mut(), spec.as_object()) {
        all.extend(more.clone());
    }
    object
}

/// The resource policy of a room: a folder, a pool, and a module that keeps machines apart.
pub fn policy() -> Value {
    json!({
        "apiVersion": "vmoperator.vmware.com/v1alpha1", "kind": POLICY, "metadata": {"name": "p"},
        "spec": {
            "folder": {"name": "p"}, "resourcepool": {"name": "p"}, "clustermodules": [{"groupname": GROUP}],
        },
    })
}

/// The object of a machine that is a member of the policy's module.
pub fn member(mut object: Value) -> Value {
    object["metadata"]["annotations"] = json!({ annotation::CLUSTER_MODULE_GROUP: GROUP });
    object["spec"]["resourcePolicyName"] = "p".into();
    object
}

/// A volume that is a disk of the machine's own.
pub fn own_volume() -> Value {
    json!({"name": "data", "vSphereVolume": {"capacity": {"ephemeral-storage": "1Gi"}}})
}

/// A volume that is a claim, which vSphere CSI attaches.
pub fn claimed_volume(claim: &str) -> Value {
    json!({"name": "claim", "persistentVolumeClaim": {"claimName": claim}})
}

/// All steps of a run.
pub fn stages() -> Vec<Stage> {
    vec![created(), changed(), resized(), restarted(), deleted()]
}

fn created() -> Stage {
    let uuid = "42370000-0000-4000-8000-00000000000a";
    let told = json!({"secretName": "boot", "transport": "ExtraConfig"});
    let a = json!({"vmMetadata": told, "biosUUID": uuid, "instanceUUID": uuid, "volumes": [own_volume()]});
    let c = json!({"vmMetadata": told, "volumes": [claimed_volume("c")]});
    Stage {
        name: "create",
        asks: vec![
            Ask::Create(POLICY, policy()),
            Ask::Claim("c"),
            Ask::Create(VM, member(machine("a", &a))),
            Ask::Create(VM, machine("b", &json!({"powerState": "poweredOff"}))),
            Ask::Create(VM, machine("c", &c)),
        ],
        open: |view| {
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
        asks: vec![
            Ask::Hang("b"),
            Ask::Change(VM, "a", json!({"spec": {"powerState": "poweredOff"}})),
            Ask::Change(VM, "b", json!({"spec": {"powerState": "poweredOn"}})),
            Ask::Delete(VM, "c"),
        ],
        open: |view| {
            view.not_in("a", "poweredOff").or_else(|| view.not_ready(VM, "b")).or_else(|| view.there(VM, "c"))
        },
        compared: false,
    }
}

fn resized() -> Stage {
    let cards = json!([{"networkName": "workload-network"}, {"networkName": "VM Network"}]);
    Stage {
        name: "resize",
        asks: vec![
            Ask::Change(
                VM,
                "a",
                json!({"spec": {"className": "best-effort-medium", "networkInterfaces": cards}}),
            ),
            Ask::Change(VM, "a", json!({"spec": {"powerState": "poweredOn"}})),
            Ask::Change(VM, "b", json!({"spec": {"powerState": "suspended"}})),
        ],
        open: |view| view.not_ready(VM, "a").or_else(|| view.not_in("b", "suspended")),
        compared: false,
    }
}

fn restarted() -> Stage {
    Stage {
        name: "restart",
        asks: vec![Ask::Change(VM, "a", json!({"spec": {"nextRestartTime": "now"}})), Ask::Delete(VM, "b")],
        open: |view| {
            view.not_restarted("a").or_else(|| view.not_ready(VM, "a")).or_else(|| view.there(VM, "b"))
        },
        compared: true,
    }
}

fn deleted() -> Stage {
    Stage {
        name: "delete",
        asks: vec![Ask::Delete(VM, "a"), Ask::Delete(POLICY, "p")],
        open: |view| view.there(VM, "a").or_else(|| view.there(POLICY, "p")),
        compared: true,
    }
}

/// Asks for it.
pub async fn ask(arena: &Arena, room: &Room, asked: &Ask) -> Result<()> {
    match asked {
        Ask::Create(kind, object) => {
            let object: DynamicObject = serde_json::from_value(object.clone())?;
            arena.api(kind, &room.namespace).create(&PostParams::default(), &object).await?;
        }
        Ask::Claim(name) => arena.disks.claimed(&arena.world.client(), &room.namespace, name).await?,
        Ask::Change(kind, name, patch) => {
            let api = arena.api(kind, &room.namespace);
            api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        }
        Ask::Delete(kind, name) => {
            arena.api(kind, &room.namespace).delete(name, &DeleteParams::default()).await?;
        }
        Ask::Hang(name) => {
            let view = View::read(arena, room).await?;
            let machine = view.machine(name).with_context(|| format!("{VM} {name} has no machine"))?;
            arena.disks.hung(machine, &theirs(&room.namespace, name)).await?;
        }
    }
    Ok(())
}
