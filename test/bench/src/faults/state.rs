//! A namespace's state in a form that is equal between runs: without times, IDs, addresses and hosts.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use anyhow::Result;
use api::cns::CnsNodeVmAttachment;
use api::names::annotation;
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};
use serde_json::{Map, Value, json};
use sim::control::{InventorySnapshot, InventoryVm};

use super::environment::{FaultTestbed, KINDS, Namespace, list_objects};
use super::findings::Violations;
use super::foreign_disks;

/// The policy annotation that lists the cluster modules it created, by cluster and group.
const MODULES: &str = "vmoperator.vmware.com/cluster-modules";
/// The prefix for cluster modules in `places`.
const MODULE: &str = "module ";

/// A namespace's canonical state, including objects left outside it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CanonicalState {
    /// The API objects by kind and name.
    pub objects: BTreeMap<String, Value>,
    /// The VMs by folder path and name.
    pub vms: BTreeMap<String, Value>,
    /// Folders and pools by path, and cluster modules by their members.
    pub places: BTreeSet<String>,
    /// Files and tasks that don't belong to an object.
    pub orphans: BTreeSet<String>,
    /// Violations that don't depend on the clean run.
    pub findings: Violations,
}

impl CanonicalState {
    /// Reads a namespace's state.
    pub async fn read(environment: &FaultTestbed, namespace: &Namespace) -> Result<Self> {
        let control = environment.testbed.control();
        let inventory = control.inventory().await?;
        let orphans = control.orphaned_files().await?;
        let others =
            environment.disks.find_destroyed(&inventory, &orphans, &environment.disks.claim_disks().await?);
        let files = orphans.files.into_iter().filter(|folder| !foreign_disks::is_foreign_folder(folder));
        let mut state = Self { orphans: files.chain(orphans.tasks).collect(), ..Self::default() };
        state.findings.judge_disks(&others);
        let paths = folder_paths(&inventory, &environment.testbed.vcenter().folder, &namespace.name);
        let pools = pool_paths(&inventory, &environment.testbed.vcenter().resource_pool);
        let modules = name_modules(&inventory);
        state.places = paths.values().chain(pools.values()).chain(&modules).cloned().collect();
        let mut by_id = HashMap::new();
        for vm in &inventory.vms {
            let path = paths.get(&vm.folder).cloned().unwrap_or_else(|| "elsewhere".to_owned());
            let guestinfo = control.guestinfo(&vm.moid).await.unwrap_or_default();
            let pool = pools.get(&vm.pool).map_or("elsewhere", String::as_str);
            let seen = canonical_vm(vm, pool, &guestinfo, &namespace.name);
            state.vms.insert(format!("{path}/{}", vm.name), seen);
            by_id.insert(vm.moid.clone(), vm);
        }
        let attachments =
            Api::<CnsNodeVmAttachment>::namespaced(environment.testbed.client(), &namespace.name);
        for attachment in attachments.list(&ListParams::default()).await? {
            let name = format!("CnsNodeVmAttachment/{}", attachment.name_any());
            state.objects.insert(name, attachment.spec.volume_name.into());
        }
        let mut owners = BTreeSet::new();
        let mut entered = BTreeSet::new();
        for kind in KINDS {
            for (name, object) in list_objects(&environment.testbed.client(), kind, &namespace.name).await? {
                owners.extend(object["spec"]["instanceUUID"].as_str().map(str::to_lowercase));
                state.findings.judge_object(kind, &name, &object, &by_id);
                entered.extend(own_modules(&object));
                state.objects.insert(format!("{kind}/{name}"), canonical(object));
            }
        }
        let findings = &mut state.findings;
        findings.judge_vms(&inventory.vms, &owners, &paths);
        findings.judge_modules(&inventory.modules, &entered);
        findings.judge_orphans(&state.orphans);
        Ok(state)
    }

    /// Returns the cluster modules, each with its members.
    pub fn modules(&self) -> Vec<&str> {
        self.places.iter().map(String::as_str).filter(|place| place.starts_with(MODULE)).collect()
    }

    pub fn places(&self) -> impl Iterator<Item = &str> {
        self.places.iter().map(String::as_str).filter(|place| !place.starts_with(MODULE))
    }

    /// Returns the differences between this state and `other`, one description per line.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let mut all = Vec::new();
        compare_maps(&mut all, &self.objects, &other.objects);
        compare_maps(&mut all, &self.vms, &other.vms);
        for (what, here, there) in
            [("place", &self.places, &other.places), ("orphans", &self.orphans, &other.orphans)]
        {
            all.extend(here.difference(there).map(|one| format!("{what} {one} is missing")));
            all.extend(there.difference(here).map(|one| format!("{what} {one} is too many")));
        }
        all
    }
}

fn compare_maps(all: &mut Vec<String>, wanted: &BTreeMap<String, Value>, found: &BTreeMap<String, Value>) {
    for (name, value) in wanted {
        match found.get(name) {
            None => all.push(format!("{name} is missing")),
            Some(other) => collect_differences(all, name, value, other),
        }
    }
    all.extend(
        found.keys().filter(|name| !wanted.contains_key(*name)).map(|name| format!("{name} is too many")),
    );
}

fn collect_differences(all: &mut Vec<String>, path: &str, wanted: &Value, found: &Value) {
    match (wanted, found) {
        (Value::Object(wanted), Value::Object(found)) => {
            let names: BTreeSet<_> = wanted.keys().chain(found.keys()).collect();
            for name in names {
                let of = |object: &Map<String, Value>| object.get(name).cloned().unwrap_or_default();
                collect_differences(all, &format!("{path}.{name}"), &of(wanted), &of(found));
            }
        }
        (wanted, found) if wanted != found => all.push(format!("{path} is {found} instead of {wanted}")),
        _ => {}
    }
}

/// Returns the namespace's folder paths by ID. The namespace folder itself is `~`.
fn folder_paths(inventory: &InventorySnapshot, top: &str, namespace: &str) -> HashMap<String, String> {
    let of_room = inventory.folders.iter().find(|folder| folder.parent == top && folder.name == namespace);
    let mut paths: HashMap<_, _> =
        of_room.map(|folder| (folder.moid.clone(), "~".to_owned())).into_iter().collect();
    // Parents may come after their children. No path is deeper than four folders.
    for _ in 0..4 {
        for folder in &inventory.folders {
            if let Some(parent) = paths.get(&folder.parent).cloned() {
                paths.insert(folder.moid.clone(), format!("{parent}/{}", folder.name));
            }
        }
    }
    paths
}

fn pool_paths(inventory: &InventorySnapshot, root: &str) -> HashMap<String, String> {
    let mut pools = HashMap::from([(root.to_owned(), "pool".to_owned())]);
    for pool in inventory.pools.iter().filter(|pool| pool.parent == root) {
        pools.insert(pool.moid.clone(), format!("pool/{}", pool.name));
    }
    pools
}

/// Returns the cluster module IDs that the policy's annotation lists.
fn own_modules(object: &Value) -> Vec<String> {
    let text = object["metadata"]["annotations"][MODULES].as_str().unwrap_or_default();
    let ledger: Value = serde_json::from_str(text).unwrap_or_default();
    let clusters = ledger["modules"].as_object().into_iter().flat_map(Map::values);
    let groups = clusters.filter_map(Value::as_object).flat_map(Map::values);
    groups.filter_map(|id| id.as_str().map(str::to_owned)).collect()
}

/// Describes each cluster module by its member names.
fn name_modules(inventory: &InventorySnapshot) -> Vec<String> {
    let name = |moid: &'_ String| -> String {
        inventory.vms.iter().find(|vm| vm.moid == *moid).map_or(moid, |vm| &vm.name).clone()
    };
    let mut members: Vec<_> = inventory
        .modules
        .iter()
        .map(|module| {
            let mut names: Vec<_> = module.members.iter().map(name).collect();
            names.sort_unstable();
            names.join(",")
        })
        .collect();
    members.sort_unstable();
    (1..).zip(members).map(|(number, members)| format!("{MODULE}{number} of [{members}]")).collect()
}

/// Describes a VM's disks: its own by size, foreign disks by size and folder.
fn canonical_disks(vm: &InventoryVm, namespace: &str) -> Vec<String> {
    let own = vm.disks.first().and_then(|disk| foreign_disks::disk_folder(&disk.file));
    let lines = vm.disks.iter().map(|disk| {
        let folder = foreign_disks::disk_folder(&disk.file).filter(|folder| Some(folder) != own.as_ref());
        format!("{}MiB {}", disk.capacity_mib, folder.unwrap_or_default().replace(namespace, "~"))
    });
    lines.collect()
}

fn canonical_vm(
    vm: &InventoryVm,
    pool: &str,
    guestinfo: &BTreeMap<String, String>,
    namespace: &str,
) -> Value {
    let mut hasher = DefaultHasher::new();
    guestinfo.hash(&mut hasher);
    let rest = |name: &str| vm.rest.get(name).cloned().unwrap_or_default();
    json!({
        "pool": pool, "template": vm.template, "power": vm.power_state, "cpus": vm.num_cpus, "memory": vm.memory_mb,
        "cpuReservation": vm.cpu_reservation, "memoryReservation": vm.memory_reservation,
        "managedBy": vm.managed_by, "linked": rest("linked"), "networks": rest("networks"), "keys": rest("extraConfigKeys"),
        "disks": canonical_disks(vm, namespace), "guestinfo": hasher.finish(), "limits": [rest("cpuLimit"), rest("memoryLimit")],
    })
}

/// Removes from an object all fields that differ between runs.
fn canonical(mut object: Value) -> Value {
    let strip = |value: &mut Value, names: &[&str]| {
        if let Some(map) = value.as_object_mut() {
            map.retain(|name, _| !names.contains(&name.as_str()));
        }
    };
    strip(
        &mut object["metadata"],
        &[
            "uid",
            "resourceVersion",
            "creationTimestamp",
            "managedFields",
            "namespace",
            "generation",
            "deletionTimestamp",
        ],
    );
    strip(&mut object["metadata"]["annotations"], &[MODULES, annotation::DISKS]);
    strip(&mut object["spec"], &["biosUUID", "instanceUUID", "nextRestartTime"]);
    let status = &mut object["status"];
    strip(
        status,
        &[
            "host",
            "uniqueID",
            "biosUUID",
            "instanceUUID",
            "observedGeneration",
            "vmIp",
            "endpointAddresses",
            "keptAddresses",
            "networkInterfaces",
            "folderMoID",
            "resourcepools",
            "resourcePools",
            "clustermodules",
            "lastRestartTime",
        ],
    );
    for volume in status["volumes"].as_array_mut().into_iter().flatten() {
        strip(volume, &["diskUUID"]);
    }
    for condition in status["conditions"].as_array_mut().into_iter().flatten() {
        strip(condition, &["lastTransitionTime", "message"]);
    }
    if let Some(conditions) = status["conditions"].as_array_mut() {
        conditions.sort_by_key(|condition| condition["type"].to_string());
    }
    object
}

#[cfg(test)]
mod tests {
    use sim::control::InventoryDisk;

    use super::*;

    #[test]
    fn modules_are_known_by_their_policy_and_disks_by_their_owner() {
        let ledger = r#"{"modules":{"domain-c8":{"g":"m-1"}}}"#;
        assert_eq!(own_modules(&json!({"metadata": {"annotations": {MODULES: ledger}}})), ["m-1"]);
        assert!(own_modules(&json!({"metadata": {"name": "a"}})).is_empty());
        let disk = |file: &str| InventoryDisk { file: file.to_owned(), capacity_mib: 64 };
        let disks = ["[ds] a/a.vmdk", "[ds] a/b.vmdk", "[ds] theirs-n-a/disk.vmdk"].map(disk).to_vec();
        let vm = InventoryVm { disks, ..InventoryVm::default() };
        assert_eq!(canonical_disks(&vm, "n"), ["64MiB ", "64MiB ", "64MiB ds/theirs-~-a"]);
    }

    #[test]
    fn what_differs_from_run_to_run_is_left_out() {
        let object = |uid: &str, reason: &str| {
            canonical(json!({
                "metadata": {"name": "a", "uid": uid, "finalizers": ["x"]},
                "status": {"uniqueID": uid, "conditions": [{"type": "Ready", "message": uid, "reason": reason}]},
            }))
        };
        let state = |object: Value| CanonicalState {
            objects: [("a".to_owned(), object)].into(),
            ..CanonicalState::default()
        };
        assert!(state(object("1", "Good")).differences(&state(object("2", "Good"))).is_empty());
        let differences = state(object("1", "Good")).differences(&state(object("2", "Bad")));
        assert_eq!(differences.len(), 1);
        assert!(differences[0].contains("Bad"), "{differences:?}");
    }
}
