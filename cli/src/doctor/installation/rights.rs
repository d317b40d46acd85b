//! Checks that the programs' ServiceAccounts have the necessary rights.

use api::names::{CAPW_NAMESPACE, GCM_NAMESPACE, VMOP_NAMESPACE};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kit::diagnosis::{Check, Diagnosis};
use kube::api::PostParams;
use kube::{Api, Client};

/// The remedy for an incomplete installation.
pub(super) const INSTALL_AGAIN: &str =
    "Run layercake init again, or the tool with which you applied the output of layercake manifests";

/// A ServiceAccount: namespace and name.
type Account = (&'static str, &'static str);

/// A right that a program needs in all namespaces: account, verb, API group and resource.
type Right = (Account, &'static str, &'static str, &'static str);

const GCM: Account = (GCM_NAMESPACE, "vmware-system-tkg-controller-manager");
const CAPW: Account = (CAPW_NAMESPACE, "vmware-system-capw-controller-manager");
const VMOP: Account = (VMOP_NAMESPACE, "vmware-system-vmop-controller-manager");

/// The rights to check. The programs need them for the main steps from a TanzuKubernetesCluster to a VM.
const RIGHTS: &[Right] = &[
    (GCM, "list", "run.tanzu.vmware.com", "tanzukubernetesclusters"),
    (GCM, "create", "cluster.x-k8s.io", "clusters"),
    (GCM, "create", "cluster.x-k8s.io", "machinedeployments"),
    (GCM, "create", "controlplane.cluster.x-k8s.io", "kubeadmcontrolplanes"),
    (GCM, "create", "infrastructure.cluster.vmware.com", "wcpclusters"),
    (CAPW, "list", "cluster.x-k8s.io", "machines"),
    (CAPW, "list", "infrastructure.cluster.vmware.com", "wcpmachines"),
    (CAPW, "create", "vmoperator.vmware.com", "virtualmachines"),
    (CAPW, "create", "vmoperator.vmware.com", "virtualmachineservices"),
    (VMOP, "list", "vmoperator.vmware.com", "virtualmachines"),
    (VMOP, "get", "", "secrets"),
    (VMOP, "create", "events.k8s.io", "events"),
];

pub async fn check(client: &Client, check: Check) -> Vec<Diagnosis> {
    let mut present = Vec::new();
    for account @ (namespace, name) in [GCM, CAPW, VMOP] {
        match Api::<ServiceAccount>::namespaced(client.clone(), namespace).get_opt(name).await {
            Ok(Some(_)) => present.push(account),
            Ok(None) => {}
            Err(error) => return vec![check.unread("ServiceAccounts", &error)],
        }
    }
    if present.is_empty() {
        return vec![check.ok("no program runs as a ServiceAccount of this cluster")];
    }
    let reviews = Api::<SubjectAccessReview>::all(client.clone());
    let wanted: Vec<_> = RIGHTS.iter().filter(|(account, ..)| present.contains(account)).collect();
    let mut missing = Vec::new();
    for right in &wanted {
        match reviews.create(&PostParams::default(), &review(right)).await {
            Ok(answer) if answer.status.as_ref().is_some_and(|status| status.allowed) => {}
            Ok(_) => missing.push(*right),
            Err(error) => return vec![check.unread("SubjectAccessReviews", &error)],
        }
    }
    judge(check, wanted.len(), &missing)
}

fn review(right: &Right) -> SubjectAccessReview {
    let ((namespace, name), verb, group, resource) = *right;
    let attributes = ResourceAttributes {
        group: Some(group.to_owned()),
        resource: Some(resource.to_owned()),
        verb: Some(verb.to_owned()),
        ..ResourceAttributes::default()
    };
    SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(format!("system:serviceaccount:{namespace}:{name}")),
            groups: Some(vec!["system:authenticated".to_owned(), "system:serviceaccounts".to_owned()]),
            resource_attributes: Some(attributes),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    }
}

fn judge(check: Check, checked: usize, missing: &[&Right]) -> Vec<Diagnosis> {
    if missing.is_empty() {
        return vec![check.ok(format!("{checked} checked"))];
    }
    let lacks = |((namespace, name), verb, group, resource): &&Right| {
        let of = if group.is_empty() { String::new() } else { format!(".{group}") };
        let found = format!("ServiceAccount {namespace}/{name} is not allowed to {verb} {resource}{of}");
        check.error(found, INSTALL_AGAIN)
    };
    missing.iter().map(lacks).collect()
}

#[cfg(test)]
mod tests {
    use kit::diagnosis::CheckOutcome;

    use super::*;

    #[test]
    fn a_right_that_is_missing_is_named_with_whose_it_is() {
        let check = Check::new("LC0106", "");
        let complete = judge(check, 3, &[]);
        assert_eq!((complete[0].outcome, complete[0].found.as_str()), (CheckOutcome::Ok, "3 checked"));
        let found = judge(check, 3, &[&(VMOP, "get", "", "secrets")]);
        assert_eq!(found[0].outcome, CheckOutcome::Error);
        let words = "vmware-system-vmop/vmware-system-vmop-controller-manager is not allowed to get secrets";
        assert!(found[0].found.contains(words), "{found:?}");
    }
}
