//! Admission policies that a kept plane must not have when it starts.

use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client, ResourceExt as _};

/// The end of the groups that Kubernetes itself serves.
const BUILT_IN: &str = ".k8s.io";

/// Deletes the policies whose parameters are of a custom kind. The programs that bring them apply them again when they start.
///
/// An API server looks such kinds up when it starts, before it serves them, and again only 30 s later. Until then the policies would
/// refuse everything.
pub(crate) async fn forget(client: &Client) -> kube::Result<()> {
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(client.clone());
    for policy in
        policies.list(&ListParams::default()).await?.items.iter().filter(|one| has_custom_params(one))
    {
        policies.delete(&policy.name_any(), &DeleteParams::default()).await?;
    }
    Ok(())
}

fn has_custom_params(policy: &ValidatingAdmissionPolicy) -> bool {
    let kind = policy.spec.as_ref().and_then(|spec| spec.param_kind.as_ref());
    let version = kind.and_then(|kind| kind.api_version.as_deref());
    let group = version.and_then(|version| Some(version.split_once('/')?.0));
    group.is_some_and(|group| group.contains('.') && !group.ends_with(BUILT_IN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn custom_kinds_are_those_of_other_groups() {
        for (version, is_custom) in [
            (Some("infrastructure.cluster.vmware.com/v1beta2"), true),
            (Some("v1"), false),
            (Some("apps/v1"), false),
            (Some("rbac.authorization.k8s.io/v1"), false),
            (None, false),
        ] {
            let param_kind = version.map(|version| serde_json::json!({"apiVersion": version, "kind": "X"}));
            let policy = serde_json::json!({"metadata": {}, "spec": {"paramKind": param_kind}});
            let policy: ValidatingAdmissionPolicy = serde_json::from_value(policy).unwrap();
            assert_eq!(has_custom_params(&policy), is_custom, "{version:?}");
        }
    }
}
