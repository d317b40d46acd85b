//! The vCenter user lacks a privilege. The object that needs it names the privilege until the user has it again.

use kube::ResourceExt;
use kube::api::DeleteParams;
use serde_json::{Value, json};
use support::wait::poll;
use vsphere::PRIVILEGES;

use crate::harness::objects::content_source_binding;
use crate::harness::plain_vm::PlainVm;
use crate::harness::story::{SOON, Story, condition, disruptive_story, merge};

const GROUP: &str = "vmoperator.vmware.com/v1alpha1";
const MACHINE: &str = "VirtualMachine";
const POLICY: &str = "VirtualMachineSetResourcePolicy";
const PUBLISH: &str = "VirtualMachinePublishRequest";
/// Privileges without which a session isn't possible or doesn't see objects. Only the doctor reports them.
const OF_SESSIONS: &[&str] = &["System.View", "System.Read"];
/// A console request doesn't have conditions, so it reports the missing privilege in an event.
const BY_EVENT: &[&str] = &["VirtualMachine.Interact.ConsoleInteract"];

/// A user action that needs the privilege.
enum Deed {
    /// Creates a VM with these spec fields.
    Creates(Value),
    /// Creates a VM from an image that wasn't used yet.
    UsesImage,
    /// Changes a running VM's spec.
    Changes(Value),
    /// Deletes an existing VM.
    Deletes,
    CreatesPolicy,
    /// Deletes an existing policy.
    DeletesPolicy,
    Publishes,
}

impl Deed {
    /// Returns the object kind that needs the privilege.
    fn kind(&self) -> &'static str {
        match self {
            Self::CreatesPolicy | Self::DeletesPolicy => POLICY,
            Self::Publishes => PUBLISH,
            Self::Creates(_) | Self::UsesImage | Self::Changes(_) | Self::Deletes => MACHINE,
        }
    }
}

fn deeds() -> Vec<(&'static str, Deed)> {
    use Deed::{Changes, Creates, CreatesPolicy, Deletes, DeletesPolicy, Publishes, UsesImage};
    let disk = json!({ "name": "data", "vSphereVolume": { "capacity": { "ephemeral-storage": "1Gi" } } });
    let two_nics = json!({ "networkInterfaces": [{ "networkName": "workload-network" }, { "networkName": "VM Network" }] });
    let plain = || Creates(json!({}));
    vec![
        ("VirtualMachine.Provisioning.MarkAsTemplate", UsesImage),
        ("VirtualMachine.State.CreateSnapshot", UsesImage),
        ("VApp.Import", UsesImage),
        ("VirtualMachine.Inventory.Create", UsesImage),
        ("ContentLibrary.AddLibraryItem", Publishes),
        ("VApp.Export", Publishes),
        ("VirtualMachine.Inventory.CreateFromExisting", plain()),
        ("VirtualMachine.Provisioning.DeployTemplate", plain()),
        ("VirtualMachine.Config.AdvancedConfig", plain()),
        ("VirtualMachine.Config.CPUCount", plain()),
        ("VirtualMachine.Config.Memory", plain()),
        ("VirtualMachine.Config.Resource", plain()),
        ("VirtualMachine.Config.Settings", plain()),
        ("VirtualMachine.Config.ManagedBy", plain()),
        ("VirtualMachine.Config.EditDevice", plain()),
        ("VirtualMachine.Interact.PowerOn", plain()),
        ("VirtualMachine.Provisioning.Customize", plain()),
        ("Resource.AssignVMToPool", plain()),
        ("Datastore.AllocateSpace", plain()),
        ("Network.Assign", plain()),
        ("VirtualMachine.Config.AddNewDisk", Creates(json!({ "volumes": [disk] }))),
        ("VirtualMachine.Config.AddRemoveDevice", Creates(two_nics)),
        (
            "VApp.ApplicationConfig",
            Creates(json!({ "vmMetadata": { "transport": "OvfEnv", "configMapName": "ovf" } })),
        ),
        ("VirtualMachine.Provisioning.PromoteDisks", Creates(json!({ "promoteDisksMode": "Online" }))),
        ("VirtualMachine.Interact.PowerOff", Changes(json!({ "powerState": "poweredOff" }))),
        ("VirtualMachine.Interact.Suspend", Changes(json!({ "powerState": "suspended" }))),
        ("VirtualMachine.Interact.Reset", Changes(json!({ "nextRestartTime": "now" }))),
        (
            "VirtualMachine.Config.ChangeTracking",
            Changes(json!({ "advancedOptions": { "changeBlockTracking": true } })),
        ),
        ("VirtualMachine.Inventory.Delete", Deletes),
        ("Folder.Create", CreatesPolicy),
        ("Resource.CreatePool", CreatesPolicy),
        ("Folder.Delete", DeletesPolicy),
        ("Resource.DeletePool", DeletesPolicy),
        ("Folder.Rename", DeletesPolicy),
    ]
}

/// Privileges for calls that don't occur on the shared site any more, or that don't belong to an object. Only the
/// doctor reports them here.
const ELSEWHERE: &[&str] = &[
    "ContentLibrary.DownloadSession",
    "ContentLibrary.SyncLibraryItem",
    "Resource.EditPool",
    "StorageProfile.View",
    "VirtualMachine.Config.DiskExtend",
    "VirtualMachine.Config.RemoveDisk",
    "VirtualMachine.Config.UpgradeVirtualHardware",
];

#[test]
fn every_privilege_that_is_taken_away_is_named_by_who_needs_it() {
    disruptive_story("privileged", |story| async move {
        let deeds = deeds();
        let accounted: Vec<_> =
            deeds.iter().map(|(id, _)| *id).chain([OF_SESSIONS, BY_EVENT, ELSEWHERE].concat()).collect();
        for privilege in PRIVILEGES {
            assert!(accounted.contains(&privilege.id), "{} is nobody's", privilege.id);
        }
        prepare(&story).await;
        let mut images = unused_images(&story).await.into_iter();
        for (id, deed) in &deeds {
            have_before(&story, id, deed).await;
        }
        let control = story.shared.control();
        let mut silent = Vec::new();
        for (id, deed) in &deeds {
            control.take_privileges(&[id]).await.unwrap();
            let (kind, name) = act(&story, id, deed, images.next()).await;
            if let Err(complaint) = wait_until_named(&story, kind, &name, id).await {
                silent.push(format!("{id}: {complaint}"));
            }
        }
        control.take_privileges(&[]).await.unwrap();
        assert!(silent.is_empty(), "{} are not named:\n{}", silent.len(), silent.join("\n"));
        for (id, deed) in &deeds {
            wait_until_done(&story, id, deed).await;
        }
        for kind in [MACHINE, POLICY, PUBLISH] {
            let all = story.api(kind);
            all.delete_collection(&DeleteParams::default(), &kube::api::ListParams::default()).await.unwrap();
        }
        story.wait_until("all are gone", SOON, async || story.list(MACHINE).await.is_empty()).await;
    });
}

fn name_of(id: &str) -> String {
    id.to_lowercase().replace('.', "-")
}

fn machine(story: &Story, id: &str, spec: &Value) -> Value {
    let mut object = PlainVm::named(&name_of(id)).object(&story.namespace);
    for (member, value) in spec.as_object().unwrap() {
        object["spec"][member] = value.clone();
    }
    object
}

fn policy(story: &Story, id: &str) -> Value {
    let name = name_of(id);
    json!({
        "apiVersion": GROUP, "kind": POLICY, "metadata": { "name": name, "namespace": story.namespace },
        "spec": { "folder": { "name": name }, "resourcepool": { "name": name, "limits": { "memory": "16Gi" } } },
    })
}

async fn prepare(story: &Story) {
    story.prepare_namespace("best-effort-xsmall").await;
    let annotations = json!({ "metadata": { "annotations": { "vmware-system-networks": "VM Network" } } });
    merge(&story.cluster_api("Namespace"), &story.namespace, annotations).await.unwrap();
    let ovf = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "ovf", "namespace": story.namespace },
        "data": {},
    });
    let binding = content_source_binding(&story.namespace, "published");
    for object in [&ovf, &binding] {
        story.apply_object(object).await;
    }
    story.apply_object(&PlainVm::named("privileged-donor").object(&story.namespace)).await;
    story.wait_until_powered_on("privileged-donor").await;
}

/// Returns images from which other stories don't create VMs.
async fn unused_images(story: &Story) -> Vec<String> {
    let images = story.cluster_api("VirtualMachineImage").list(&kube::api::ListParams::default()).await;
    let names = images.unwrap().items.into_iter().map(|image| image.name_any());
    let used = ["v1.32", "v1.33", "v1.34", "v1.35"];
    names.filter(|name| !used.iter().any(|used| name.contains(used))).collect()
}

/// Creates the objects that must exist before the privilege is removed.
async fn have_before(story: &Story, id: &str, deed: &Deed) {
    match deed {
        Deed::Changes(_) | Deed::Deletes => {
            story.apply_object(&machine(story, id, &json!({}))).await;
            story.wait_until_powered_on(&name_of(id)).await;
        }
        Deed::DeletesPolicy => {
            story.apply_object(&policy(story, id)).await;
            wait_until_done(story, id, &Deed::CreatesPolicy).await;
        }
        Deed::Creates(_) | Deed::UsesImage | Deed::CreatesPolicy | Deed::Publishes => {}
    }
}

async fn act(story: &Story, id: &str, deed: &Deed, unused_image: Option<String>) -> (&'static str, String) {
    let name = name_of(id);
    match deed {
        Deed::Creates(spec) => story.apply_object(&machine(story, id, spec)).await,
        Deed::UsesImage => {
            let image = unused_image.expect("an image that nobody has used");
            story.apply_object(&machine(story, id, &json!({ "imageName": image }))).await;
        }
        Deed::Changes(spec) => drop(story.patch(MACHINE, &name, json!({ "spec": spec })).await),
        Deed::Deletes | Deed::DeletesPolicy => {
            story.api(deed.kind()).delete(&name, &DeleteParams::default()).await.unwrap();
        }
        Deed::CreatesPolicy => story.apply_object(&policy(story, id)).await,
        Deed::Publishes => {
            let target = json!({ "item": { "name": name }, "location": { "name": "published" } });
            let request = json!({
                "apiVersion": GROUP, "kind": PUBLISH,
                "metadata": { "name": name, "namespace": story.namespace },
                "spec": { "source": { "name": "privileged-donor" }, "target": target },
            });
            story.apply_object(&request).await;
        }
    }
    (deed.kind(), name)
}

/// Waits until a condition names the privilege. Otherwise returns the object's conditions as the error.
async fn wait_until_named(story: &Story, kind: &str, name: &str, id: &str) -> Result<(), String> {
    let conditions = async || {
        let object = story.get(kind, name).await.unwrap_or_default();
        object["status"]["conditions"].as_array().cloned().unwrap_or_default()
    };
    let named = poll(id, std::time::Duration::from_secs(20), || async {
        let names = |condition: &Value| {
            condition["status"] != "True"
                && condition["message"].as_str().is_some_and(|text| text.contains(id))
        };
        conditions().await.iter().any(names).then_some(())
    });
    match named.await {
        Ok(()) => Ok(()),
        Err(_) => Err(format!("{kind} {name} says {:?}", json!(conditions().await).to_string())),
    }
}

/// Waits until the action is completed without further user actions, after the privilege was restored.
async fn wait_until_done(story: &Story, id: &str, deed: &Deed) {
    let name = name_of(id);
    let ready = |object: &Value, type_: &str| {
        condition(object, type_).is_some_and(|condition| condition["status"] == "True")
    };
    story
        .wait_for(&format!("{name} is done"), SOON * 2, || async {
            let object = story.get(deed.kind(), &name).await;
            let done = match deed {
                Deed::Deletes | Deed::DeletesPolicy => object.is_none(),
                Deed::Publishes => object?["status"]["ready"] == true,
                Deed::CreatesPolicy => object?["status"]["conditions"][0]["status"] == "True",
                Deed::Creates(_) | Deed::UsesImage => ready(&object?, "VirtualMachineCreated"),
                Deed::Changes(_) => ready(&object?, "VirtualMachinePowerStateSynced"),
            };
            done.then_some(())
        })
        .await;
}
