//! The roles for people: a namespace user's permissions, and those that only administrators have.

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::Api;
use kube::api::PostParams;

use crate::harness::story::{SOON, Story, story};
use crate::harness::tenants::Tenants;

const VMOP: &str = "vmoperator.vmware.com";
const RUN: &str = "run.tanzu.vmware.com";

/// Verb, group, resource with its subresource, and whether the roles for people allow it.
const RIGHTS: &[(&str, &str, &str, bool)] = &[
    ("create", VMOP, "virtualmachines", true),
    ("patch", VMOP, "virtualmachinesetresourcepolicies", true),
    ("delete", VMOP, "virtualmachineservices", true),
    ("create", VMOP, "virtualmachinepublishrequests", true),
    ("create", VMOP, "webconsolerequests", true),
    ("create", RUN, "tanzukubernetesclusters", true),
    ("list", VMOP, "virtualmachineclassbindings", true),
    ("list", VMOP, "contentsourcebindings", true),
    ("get", "cluster.x-k8s.io", "machines", true),
    ("get", "infrastructure.cluster.vmware.com", "wcpmachines", true),
    ("create", VMOP, "virtualmachineclassbindings", false),
    ("create", VMOP, "contentsourcebindings", false),
    ("create", VMOP, "virtualmachineclasses", false),
    ("create", VMOP, "contentsources", false),
    ("patch", VMOP, "contentlibraryproviders", false),
    ("patch", VMOP, "virtualmachineimages", false),
    ("patch", VMOP, "virtualmachines/status", false),
    ("patch", VMOP, "virtualmachines/finalizers", false),
    ("patch", RUN, "tanzukubernetesclusters/status", false),
    ("create", RUN, "tanzukubernetesreleases", false),
    ("create", RUN, "osimages", false),
    ("get", RUN, "tkgserviceconfigurations", false),
    ("create", RUN, "tkgserviceconfigurations", false),
    ("create", "topology.tanzu.vmware.com", "zones", false),
    ("create", "vmware.com", "virtualnetworkinterfaces", false),
    ("create", "cluster.x-k8s.io", "machines", false),
    ("create", "infrastructure.cluster.vmware.com", "providerserviceaccounts", false),
    ("get", "bootstrap.cluster.x-k8s.io", "kubeadmconfigs", false),
    ("get", "", "secrets", false),
];

#[test]
fn a_namespaces_user_gets_what_is_the_users_and_not_what_is_the_admins() {
    story("people", |story| async move {
        let tenants = Tenants::prepare(&story, "best-effort-xsmall").await;
        let namespace = &tenants.hostile.namespace;
        for &(verb, group, resource, expected) in RIGHTS {
            let allowed = may(&tenants, namespace, verb, group, resource).await;
            assert_eq!(allowed, expected, "{verb} {resource}.{group}");
        }
        let victims = may(&tenants, &story.namespace, "list", VMOP, "virtualmachines").await;
        assert!(!victims, "another namespace's VirtualMachines");
        assert_aggregated(&story, "edit", VMOP, "virtualmachines", "create", true).await;
        assert_aggregated(&story, "view", RUN, "tanzukubernetesclusters", "list", true).await;
        assert_aggregated(&story, "view", VMOP, "virtualmachines", "create", false).await;
        assert_aggregated(&story, "admin", VMOP, "virtualmachineclassbindings", "create", false).await;
    });
}

async fn may(tenants: &Tenants, namespace: &str, verb: &str, group: &str, resource: &str) -> bool {
    let (resource, subresource) =
        resource.split_once('/').map_or((resource, None), |(it, sub)| (it, Some(sub)));
    let attributes = ResourceAttributes {
        namespace: Some(namespace.to_owned()),
        verb: Some(verb.to_owned()),
        group: Some(group.to_owned()),
        resource: Some(resource.to_owned()),
        subresource: subresource.map(str::to_owned),
        ..ResourceAttributes::default()
    };
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(attributes),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let reviews: Api<SelfSubjectAccessReview> = Api::all(tenants.mallory.clone());
    let answer = reviews.create(&PostParams::default(), &review).await.expect("an answer");
    answer.status.is_some_and(|status| status.allowed)
}

/// Checks whether one of Kubernetes' own user-facing roles includes the permission.
async fn assert_aggregated(
    story: &Story,
    role: &str,
    group: &str,
    resource: &str,
    verb: &str,
    expected: bool,
) {
    let cluster_roles: Api<ClusterRole> = Api::all(story.client());
    let has = |list: Option<&Vec<String>>, wanted: &str| {
        list.is_some_and(|list| list.iter().any(|it| it == wanted || it == "*"))
    };
    let look = || async {
        let rules = cluster_roles.get(role).await.expect("the role").rules.unwrap_or_default();
        // All of our rules are aggregated at once, so wait for any of them.
        rules.iter().find(|rule| has(rule.api_groups.as_ref(), group))?;
        let found = rules.iter().any(|rule| {
            has(rule.api_groups.as_ref(), group)
                && has(rule.resources.as_ref(), resource)
                && has(Some(&rule.verbs), verb)
        });
        (found == expected).then_some(())
    };
    let what = format!("ClusterRole {role} {} {verb} {resource}", if expected { "has" } else { "lacks" });
    story.wait_for(&what, SOON, look).await;
}
