//! Rights in the management cluster for the programs in the guest that provide load balancers and volumes.

use api::capw::{ProviderServiceAccount, ProviderServiceAccountSpec, WCPCluster};
use api::names;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::Resource;

use super::input::Input;

const READ: &[&str] = &["get", "list", "watch"];
const ALL: &[&str] = &["get", "list", "watch", "create", "update", "patch", "delete"];

/// The accounts of the cloud provider and of the storage driver.
pub fn accounts(input: &Input<'_>) -> Vec<ProviderServiceAccount> {
    let cloud_provider = vec![
        rule("vmoperator.vmware.com", &["virtualmachineservices"], ALL),
        rule("vmoperator.vmware.com", &["virtualmachineservices/status"], &["get"]),
        rule("vmoperator.vmware.com", &["virtualmachines"], READ),
        rule("", &["events"], &["create", "patch"]),
    ];
    let storage = vec![
        rule("vmoperator.vmware.com", &["virtualmachines"], &["get", "list", "watch", "update", "patch"]),
        rule("cns.vmware.com", &["cnsvolumemetadatas", "cnsfileaccessconfigs"], ALL),
        rule("cns.vmware.com", &["cnscsisvfeaturestates"], READ),
        rule("", &["persistentvolumeclaims"], ALL),
        rule("", &["persistentvolumeclaims/status"], &["get", "update", "patch"]),
        rule("", &["events"], READ),
    ];
    vec![
        account(
            input,
            names::cloud_provider_account,
            cloud_provider,
            "vmware-system-cloud-provider",
            "cloud-provider-creds",
        ),
        account(input, names::storage_driver_account, storage, "vmware-system-csi", "pvcsi-provider-creds"),
    ]
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> PolicyRule {
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(owned(resources)),
        verbs: owned(verbs),
        ..PolicyRule::default()
    }
}

fn account(
    input: &Input<'_>,
    name: fn(&str) -> String,
    rules: Vec<PolicyRule>,
    namespace: &str,
    secret: &str,
) -> ProviderServiceAccount {
    let wcp_cluster = ObjectReference {
        api_version: Some(WCPCluster::api_version(&()).into_owned()),
        kind: Some(WCPCluster::kind(&()).into_owned()),
        name: Some(input.name()),
        namespace: Some(input.namespace()),
        ..ObjectReference::default()
    };
    ProviderServiceAccount {
        metadata: input.metadata(&name(&input.name()), &[]),
        spec: ProviderServiceAccountSpec {
            r#ref: wcp_cluster,
            rules,
            target_namespace: namespace.to_owned(),
            target_secret_name: secret.to_owned(),
        },
        status: None,
    }
}
