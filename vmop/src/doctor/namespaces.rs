//! Checks that namespaces with a placement for VMs have VM classes and free quota.

use std::collections::{BTreeMap, BTreeSet};

use api::vmop::{VirtualMachineClass, VirtualMachineClassBinding};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ResourceQuota;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kit::diagnosis::Diagnosis;
use kube::api::ListParams;
use kube::{Api, ResourceExt};

use super::checks::{CLASSES, QUOTA};
use super::site::{BINDINGS, ConnectedSite};

/// The time in which a controller should compute the usage of a new quota.
const COMPUTED_WITHIN: SignedDuration = SignedDuration::from_mins(1);

pub async fn check(site: &ConnectedSite<'_>) -> Vec<Diagnosis> {
    let all = ListParams::default();
    let (classes, quotas) =
        (Api::<VirtualMachineClass>::all(site.kube.clone()), Api::<ResourceQuota>::all(site.kube.clone()));
    let (classes, quotas) = tokio::join!(classes.list_metadata(&all), quotas.list(&all));
    let read = CLASSES.read("VirtualMachineClasses", classes).and_then(|classes| {
        let bindings = CLASSES.read(BINDINGS, site.bindings.as_ref())?;
        Ok((classes.items.iter().map(ResourceExt::name_any).collect(), bindings))
    });
    let classes = match read {
        Ok((classes, bindings)) => judge_classes(&site.namespaces, bindings, &classes),
        Err(unread) => vec![unread],
    };
    let quotas = match QUOTA.read("ResourceQuotas", quotas) {
        Ok(quotas) => judge_quotas(&site.namespaces, &quotas.items, Timestamp::now()),
        Err(unread) => vec![unread],
    };
    [classes, quotas].concat()
}

fn judge_classes(
    namespaces: &BTreeSet<String>,
    bindings: &[VirtualMachineClassBinding],
    classes: &BTreeSet<String>,
) -> Vec<Diagnosis> {
    let mut bound: BTreeMap<&str, usize> =
        namespaces.iter().map(|namespace| (namespace.as_str(), 0)).collect();
    let mut found = Vec::new();
    for binding in bindings {
        let (namespace, class) = (binding.namespace().unwrap_or_default(), &binding.spec.class_ref.name);
        let Some(count) = bound.get_mut(namespace.as_str()) else { continue };
        if classes.contains(class) {
            *count += 1;
        } else {
            let name = binding.name_any();
            found.push(CLASSES.error(
                format!("VirtualMachineClassBinding {namespace}/{name} names the class {class}, which does not exist"),
                "Create the VirtualMachineClass, or delete the binding",
            ));
        }
    }
    for (namespace, _) in bound.iter().filter(|(_, count)| **count == 0) {
        found.push(CLASSES.warning(
            format!("namespace {namespace} cannot use any VM class"),
            format!("Create a VirtualMachineClassBinding in {namespace} for each class that it needs"),
        ));
    }
    if found.is_empty() {
        found.push(CLASSES.ok(format!("{} namespace(s)", bound.len())));
    }
    found
}

/// Warns about exhausted quotas, which reject the namespace's next claim or VM, and about quotas without computed
/// usage, which aren't enforced.
fn judge_quotas(namespaces: &BTreeSet<String>, quotas: &[ResourceQuota], now: Timestamp) -> Vec<Diagnosis> {
    let mut found = Vec::new();
    let of_ours = |quota: &&ResourceQuota| quota.namespace().is_some_and(|own| namespaces.contains(&own));
    for quota in quotas.iter().filter(of_ours) {
        found.extend(judge_computed(quota, now));
        let Some(status) = &quota.status else { continue };
        let (hard, used) = (status.hard.iter().flatten(), status.used.clone().unwrap_or_default());
        for (resource, hard) in hard {
            let (Some(limit), Some(taken)) = (amount(hard), used.get(resource).and_then(amount)) else {
                continue;
            };
            if taken >= limit && limit > 0 {
                let (namespace, name) = (quota.namespace().unwrap_or_default(), quota.name_any());
                found.push(QUOTA.warning(
                    format!("ResourceQuota {namespace}/{name}: all of {resource} ({}) is used", hard.0),
                    "Raise the quota, or delete what is not needed",
                ));
            }
        }
    }
    if found.is_empty() {
        found.push(QUOTA.ok("each has room"));
    }
    found
}

/// Warns about a quota that has had limits without computed usage for more than [`COMPUTED_WITHIN`], because the API server
/// doesn't enforce such limits.
fn judge_computed(quota: &ResourceQuota, now: Timestamp) -> Option<Diagnosis> {
    let limits = quota.spec.as_ref()?.hard.as_ref()?;
    let used = quota.status.as_ref().and_then(|status| status.used.as_ref());
    let (unknown, _) =
        limits.iter().find(|(resource, _)| used.is_none_or(|used| !used.contains_key(*resource)))?;
    let created = quota.metadata.creation_timestamp.as_ref()?.0;
    (now.duration_since(created) > COMPUTED_WITHIN).then(|| {
        let (namespace, name) = (quota.namespace().unwrap_or_default(), quota.name_any());
        QUOTA.warning(
            format!(
                "ResourceQuota {namespace}/{name} does not limit {unknown}: its status does not say how much is used"
            ),
            "Check that the name of the resource is right, and that kube-controller-manager runs the resourcequota controller",
        )
    })
}

fn amount(quantity: &Quantity) -> Option<i128> {
    api::quantity::Quantity(quantity.0.clone()).millis().ok()
}

#[cfg(test)]
mod tests {
    use kit::diagnosis::CheckOutcome;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_namespace_needs_a_class_that_exists() {
        let namespaces = BTreeSet::from(["a".to_owned()]);
        let binding = |class: &str| -> VirtualMachineClassBinding {
            let binding = json!({
                "apiVersion": "vmoperator.vmware.com/v1alpha1", "kind": "VirtualMachineClassBinding",
                "metadata": { "name": class, "namespace": "a" }, "classRef": { "name": class },
            });
            serde_json::from_value(binding).unwrap()
        };
        let classes = BTreeSet::from(["small".to_owned()]);
        let outcomes = |bindings: &[VirtualMachineClassBinding]| -> Vec<CheckOutcome> {
            judge_classes(&namespaces, bindings, &classes).iter().map(|found| found.outcome).collect()
        };
        assert_eq!(outcomes(&[binding("small")]), [CheckOutcome::Ok]);
        assert_eq!(outcomes(&[]), [CheckOutcome::Warning]);
        assert_eq!(outcomes(&[binding("small"), binding("gone")]), [CheckOutcome::Error]);
    }

    #[test]
    fn a_quota_that_is_used_up_is_named() {
        let namespaces = BTreeSet::from(["a".to_owned()]);
        let quota = |used: &str| -> ResourceQuota {
            let status =
                json!({ "hard": { "requests.storage": "1Ti" }, "used": { "requests.storage": used } });
            serde_json::from_value(json!({ "metadata": { "name": "q", "namespace": "a" }, "status": status }))
                .unwrap()
        };
        assert_eq!(
            judge_quotas(&namespaces, &[quota("1Gi")], Timestamp::UNIX_EPOCH)[0].outcome,
            CheckOutcome::Ok
        );
        let full = judge_quotas(&namespaces, &[quota("1024Gi")], Timestamp::UNIX_EPOCH);
        assert_eq!(full[0].outcome, CheckOutcome::Warning);
        assert!(full[0].found.contains("a/q") && full[0].found.contains("requests.storage"), "{full:?}");
    }

    #[test]
    fn a_quota_whose_use_nothing_computes_is_named() {
        let namespaces = BTreeSet::from(["a".to_owned()]);
        let judged = |status: serde_json::Value, seconds: i64| {
            let quota = json!({
                "metadata": { "name": "q", "namespace": "a", "creationTimestamp": "1970-01-01T00:00:00Z" },
                "spec": { "hard": { "count/virtualmachines.vmoperator.vmware.com": "1" } },
                "status": status,
            });
            let now = Timestamp::from_second(seconds).unwrap();
            judge_quotas(&namespaces, &[serde_json::from_value(quota).unwrap()], now).remove(0)
        };
        let ignored = judged(json!({}), 61);
        assert_eq!(ignored.outcome, CheckOutcome::Warning);
        assert!(ignored.found.contains("a/q does not limit count/virtualmachines"), "{ignored:?}");
        assert_eq!(judged(json!({}), 59).outcome, CheckOutcome::Ok, "it is new");
        let counted = json!({ "used": { "count/virtualmachines.vmoperator.vmware.com": "0" } });
        assert_eq!(judged(counted, 61).outcome, CheckOutcome::Ok);
    }
}
