//! Checks datastores and storage policies.

use std::collections::HashSet;

use k8s_openapi::api::storage::v1::StorageClass;
use kit::diagnosis::Diagnosis;
use kube::ResourceExt;
use vsphere::{Datastore, MoRef, StoragePolicy};

use super::checks::{DATASTORES, POLICIES};
use super::site::{ConnectedSite, list_all};
use crate::vcenter::storage::PolicyName;
use crate::virtualmachine::storage::class::find_policy;

/// The vSphere CSI provisioner. StorageClasses with this provisioner refer to storage policies.
const CSI: &str = "csi.vsphere.vmware.com";
/// The free space on a datastore, in bytes, below which there is a warning.
const LITTLE: u64 = 20 << 30;

pub async fn check(site: &ConnectedSite<'_>) -> Vec<Diagnosis> {
    match POLICIES.read("StorageClasses", list_all::<StorageClass>(site.kube).await) {
        Ok(classes) => check_classes(site, &classes).await,
        Err(unread) => [check_classes(site, &[]).await, vec![unread]].concat(),
    }
}

/// Checks the datastores, and the storage policies of these classes.
pub async fn check_classes(site: &ConnectedSite<'_>, classes: &[StorageClass]) -> Vec<Diagnosis> {
    let datastores = match site.vcenter.list_datastores(&site.datacenter).await {
        Ok(datastores) => datastores,
        Err(error) => return vec![DATASTORES.error(error.to_string(), error.advice())],
    };
    let mut found = judge_datastores(&datastores, site.settings.datastore.as_deref());
    found.extend(policies(site, classes, &datastores).await);
    found
}

fn judge_datastores(datastores: &[Datastore], configured: Option<&str>) -> Vec<Diagnosis> {
    if let Some(name) = configured
        && !datastores.iter().any(|datastore| datastore.name == name || datastore.moref.id() == name)
    {
        let names: Vec<_> = datastores.iter().map(|datastore| datastore.name.as_str()).collect();
        let remedy = format!("Set Datastore to one of {}, or leave it out", names.join(", "));
        return vec![DATASTORES.error(format!("Datastore {name:?} is not in the datacenter"), remedy)];
    }
    let meant = |datastore: &&Datastore| {
        configured.is_none_or(|name| datastore.name == name || datastore.moref.id() == name)
    };
    let mut found = Vec::new();
    for Datastore { name, free, accessible, normal, .. } in datastores.iter().filter(meant) {
        if !accessible {
            let remedy = "Make it accessible again. Until then, Layercake does not change the VMs on it";
            found.push(DATASTORES.error(format!("datastore {name} is not accessible"), remedy));
        } else if !normal {
            let remedy = "Exit maintenance mode, or use another datastore";
            found.push(DATASTORES.warning(format!("datastore {name} is in maintenance mode"), remedy));
        } else if *free < LITTLE {
            let remedy = "Free space on it, or use another datastore";
            found.push(DATASTORES.warning(format!("datastore {name} has {} GiB left", free >> 30), remedy));
        }
    }
    if found.is_empty() {
        found.push(DATASTORES.ok(format!("{} datastore(s)", datastores.iter().filter(meant).count())));
    }
    found
}

async fn policies(
    site: &ConnectedSite<'_>,
    classes: &[StorageClass],
    datastores: &[Datastore],
) -> Vec<Diagnosis> {
    let named: Vec<_> = classes
        .iter()
        .filter(|class| class.provisioner == CSI)
        .filter_map(|class| Some((class.name_any(), find_policy(class)?)))
        .collect();
    if named.is_empty() {
        return vec![POLICIES.ok("no storage class names a policy")];
    }
    let policies = match site.vcenter.list_storage_policies().await {
        Ok(policies) => policies,
        Err(error) => return vec![POLICIES.error(error.to_string(), error.advice())],
    };
    let mut found = Vec::new();
    for (class, name) in &named {
        let Some(policy) = policies.iter().find(|policy| name.is(policy)) else {
            found.push(unknown_policy(class, *name, &policies));
            continue;
        };
        match site.vcenter.list_compatible_datastores(&policy.id).await {
            Ok(fitting) => found.extend(judge_policy(class, policy, &fitting, datastores)),
            Err(error) => found.push(POLICIES.error(error.to_string(), error.advice())),
        }
    }
    if found.is_empty() {
        found.push(POLICIES.ok(format!("{} storage class(es)", named.len())));
    }
    found
}

fn unknown_policy(class: &str, name: PolicyName<'_>, policies: &[StoragePolicy]) -> Diagnosis {
    let there: Vec<_> = policies.iter().map(|policy| format!("{} ({})", policy.name, policy.id)).collect();
    let remedy = format!("vCenter has: {}", there.join(", "));
    POLICIES
        .error(format!("StorageClass {class} names the storage policy {name}, which does not exist"), remedy)
}

fn judge_policy(
    class: &str,
    policy: &StoragePolicy,
    fitting: &HashSet<MoRef>,
    datastores: &[Datastore],
) -> Option<Diagnosis> {
    let usable = |datastore: &&Datastore| {
        datastore.accessible && datastore.normal && fitting.contains(&datastore.moref)
    };
    if datastores.iter().any(|datastore| usable(&datastore)) {
        return None;
    }
    let found =
        format!("no datastore in use satisfies the storage policy {} of StorageClass {class}", policy.name);
    Some(POLICIES.error(found, "Tag or add a datastore that satisfies it, or change the policy's rules"))
}

#[cfg(test)]
mod tests {
    use kit::diagnosis::CheckOutcome;

    use super::*;

    fn datastore(free: u64, accessible: bool, normal: bool) -> Datastore {
        Datastore {
            moref: MoRef::new("Datastore", "datastore-1"),
            name: "ds1".into(),
            free,
            accessible,
            normal,
        }
    }

    #[test]
    fn datastores_are_judged_by_state_and_space() {
        let cases = [
            (datastore(1 << 40, true, true), Some("ds1"), CheckOutcome::Ok),
            (datastore(1 << 40, true, true), Some("other"), CheckOutcome::Error),
            (datastore(1 << 40, false, true), None, CheckOutcome::Error),
            (datastore(1 << 40, true, false), None, CheckOutcome::Warning),
            (datastore(1 << 30, true, true), None, CheckOutcome::Warning),
        ];
        for (datastore, configured, outcome) in cases {
            let found = judge_datastores(&[datastore], configured);
            assert_eq!(found[0].outcome, outcome, "{found:?}");
        }
    }

    #[test]
    fn a_policy_needs_a_datastore_in_use() {
        let policy = StoragePolicy { id: "p".into(), name: "gold".into(), encrypts: false };
        let fitting = HashSet::from([MoRef::new("Datastore", "datastore-1")]);
        assert_eq!(judge_policy("gold", &policy, &fitting, &[datastore(1, true, true)]), None);
        assert!(judge_policy("gold", &policy, &HashSet::new(), &[datastore(1, true, true)]).is_some());
        assert!(judge_policy("gold", &policy, &fitting, &[datastore(1, true, false)]).is_some());
        let unknown = unknown_policy("gold", PolicyName::Name("glod"), &[policy]);
        assert!(unknown.remedy.contains("gold (p)"), "{}", unknown.remedy);
    }
}
