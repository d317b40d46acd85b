//! Checks hosts, DRS, resource pool headroom, VM class sizes and VM names.

use api::vmop::{SizeFault, VirtualMachine, VirtualMachineClass, size_faults};
use kit::diagnosis::Diagnosis;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use vsphere::ObjectContent;

use super::checks::{CLASSES, DRS, HEADROOM, HOSTS, NAMES};
use super::site::{BINDINGS, ConnectedSite, THREADS, list_all, name};
use crate::vcenter::LONGEST_NAME;
use crate::virtualmachine::size::class::parse_size;

pub async fn check(site: &ConnectedSite<'_>) -> Vec<Diagnosis> {
    let mut found = judge_hosts(&site.hosts);
    found.extend(judge_drs(&site.clusters));
    found.extend(headroom(site).await);
    found.push(names(site).await);
    found
}

fn judge_hosts(hosts: &[ObjectContent]) -> Vec<Diagnosis> {
    let mut found = Vec::new();
    let mut usable = 0;
    for host in hosts {
        let state = host.get("runtime.connectionState").as_str().unwrap_or_default();
        if state != "connected" {
            let remedy = "Reconnect the host. Until then, Layercake does not change the VMs on it";
            found.push(HOSTS.warning(format!("host {} is {state}", name(host)), remedy));
        } else if host.get("runtime.inMaintenanceMode").as_bool() == Some(true) {
            let found_host = format!("host {} is in maintenance mode", name(host));
            found.push(HOSTS.warning(found_host, "Exit maintenance mode when the work on it is done"));
        } else {
            usable += 1;
        }
    }
    if usable == 0 {
        let remedy = "Bring at least one host of the cluster back into service";
        found.push(HOSTS.error("no host can run a VM", remedy));
    } else if found.is_empty() {
        found.push(HOSTS.ok(format!("{usable} host(s)")));
    }
    found
}

/// Reports clusters whose DRS is off or manual. Without DRS, vCenter doesn't choose a host for a VM, and a clone call would
/// have to name one.
fn judge_drs(clusters: &[ObjectContent]) -> Vec<Diagnosis> {
    let mut found = Vec::new();
    for cluster in clusters.iter().filter(|cluster| cluster.obj.kind() == "ClusterComputeResource") {
        let drs = cluster.get("configurationEx").get("drsConfig");
        if drs.get("enabled").as_bool() != Some(true) {
            let remedy =
                "Turn DRS on (partially automated is enough), so that vCenter chooses a host for each VM";
            found.push(DRS.error(format!("DRS is off in cluster {}", name(cluster)), remedy));
        } else if drs.get("defaultVmBehavior").as_str() == Some("manual") {
            let remedy = "Set the automation level to partially or fully automated";
            found.push(DRS.error(
                format!(
                    "DRS of cluster {} is manual: each power-on waits for manual approval",
                    name(cluster)
                ),
                remedy,
            ));
        }
    }
    if found.is_empty() {
        found.push(DRS.ok(format!("{} cluster(s) or host(s)", clusters.len())));
    }
    found
}

/// Checks that each pool has enough unreserved memory for the largest guaranteed class, and that vSphere and the hosts support
/// the class sizes.
async fn headroom(site: &ConnectedSite<'_>) -> Vec<Diagnosis> {
    let read = async {
        let bindings = HEADROOM.read(BINDINGS, site.bindings.as_ref())?;
        let classes = list_all::<VirtualMachineClass>(site.kube).await;
        Ok((HEADROOM.read("VirtualMachineClasses", classes)?, bindings))
    };
    let (classes, bindings) = match read.await {
        Ok(read) => read,
        Err(unread) => return vec![unread],
    };
    // Only memory is checked, which doesn't depend on the CPU frequency (0 here).
    let bound = |class: &str| bindings.iter().any(|binding| binding.spec.class_ref.name == class);
    let reserved = classes.iter().filter(|class| bound(&class.name_any())).filter_map(|class| {
        let parsed = parse_size(class, 0).ok()?;
        Some((class.name_any(), parsed.memory.reservation.unwrap_or(0)))
    });
    let mut found = judge_headroom(&site.pools, reserved.max_by_key(|(_, mib)| *mib));
    found.extend(classes.iter().flat_map(judge_size));
    let threads = site.hosts.iter().filter_map(|host| host.get(THREADS).as_i64()).max();
    let bound = classes.iter().filter(|class| bound(&class.name_any()));
    found.extend(bound.filter_map(|class| judge_threads(class, threads?)));
    found
}

/// Reports the sizes in the class that vSphere rejects.
fn judge_size(class: &VirtualMachineClass) -> Vec<Diagnosis> {
    let faults = size_faults(&class.spec).into_iter();
    let found = |fault: &SizeFault| {
        format!("VirtualMachineClass {}: {}: {}", class.name_any(), fault.field, fault.reason)
    };
    faults.map(|fault| CLASSES.error(found(&fault), fault.remedy)).collect()
}

/// Returns an error if a class has more CPUs than any host has threads, because its VMs can't be placed.
fn judge_threads(class: &VirtualMachineClass, threads: i64) -> Option<Diagnosis> {
    let cpus = class.spec.hardware.as_ref()?.cpus.filter(|cpus| *cpus > threads)?;
    let found = format!(
        "VirtualMachineClass {} has {cpus} CPUs, but no host has more than {threads} threads",
        class.name_any()
    );
    Some(CLASSES.error(found, format!("Use a class with at most {threads} CPUs")))
}

fn judge_headroom(pools: &[ObjectContent], largest: Option<(String, i64)>) -> Vec<Diagnosis> {
    let Some((class, mib)) = largest.filter(|(_, mib)| *mib > 0) else {
        return vec![HEADROOM.ok("no VM class that a namespace may use reserves memory")];
    };
    let mut found = Vec::new();
    for pool in pools {
        let unreserved = pool.get("runtime").get("memory").get("unreservedForVm").as_i64();
        let Some(free) = unreserved.map(|bytes| bytes / (1024 * 1024)).filter(|free| *free < mib) else {
            continue;
        };
        let remedy = "Raise the pool's reservation or its cluster's capacity, or use a best-effort class";
        found.push(HEADROOM.warning(
            format!(
                "resource pool {} has {free} MiB of unreserved memory; a VM of class {class} reserves {mib} MiB",
                name(pool)
            ),
            remedy,
        ));
    }
    if found.is_empty() {
        found.push(HEADROOM.ok(format!("a VM of class {class} ({mib} MiB reserved) fits into each pool")));
    }
    found
}

async fn names(site: &ConnectedSite<'_>) -> Diagnosis {
    let vms = Api::<VirtualMachine>::all(site.kube.clone()).list_metadata(&ListParams::default()).await;
    match NAMES.read("VirtualMachines", vms) {
        Ok(vms) => {
            judge_names(vms.items.iter().map(|vm| (vm.namespace().unwrap_or_default(), vm.name_any())))
        }
        Err(unread) => unread,
    }
}

fn judge_names(names: impl Iterator<Item = (String, String)>) -> Diagnosis {
    let mut longest = 0;
    for (namespace, name) in names {
        if name.len() > LONGEST_NAME {
            let found = format!("VirtualMachine {namespace}/{name} has {} characters", name.len());
            return NAMES.error(
                found,
                format!("Use a name of at most {LONGEST_NAME} characters, the limit in vCenter"),
            );
        }
        longest = longest.max(name.len());
    }
    NAMES.ok(format!("the longest has {longest} of {LONGEST_NAME} characters"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_class_with_more_cpus_than_any_host_has_threads_is_named() {
        let class =
            json!({"metadata": {"name": "huge"}, "spec": {"hardware": {"cpus": 200, "memory": "1Gi"}}});
        let class = serde_json::from_value(class).unwrap();
        let found = judge_threads(&class, 64).unwrap();
        assert_eq!(found.check.code, "LC0902");
        assert_eq!(
            found.found,
            "VirtualMachineClass huge has 200 CPUs, but no host has more than 64 threads"
        );
        assert!(judge_threads(&class, 200).is_none());
    }
}
