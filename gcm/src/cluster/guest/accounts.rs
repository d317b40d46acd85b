//! Permissions in the management cluster for programs in the workload cluster that provide load balancers and volumes.

use api::capw::{ProviderServiceAccount, ProviderServiceAccountSpec, WCPCluster};
use api::names;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::Resource;

use crate::addons::survey::STORAGE_DRIVER_SECRET;
use crate::cluster::input::Input;

const READ: &[&str] = &["get", "list", "watch"];
const ALL: &[&str] = &["get", "list", "watch", "create", "update", "patch", "delete"];

/// Returns the accounts for the cloud provider and the storage driver.
pub fn build_accounts(input: &Input<'_>) -> Vec<ProviderServiceAccount> {
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
    let cluster = input.name();
    let cloud_provider_name = names::cloud_provider_account(&cluster);
    let storage_name = names::storage_driver_account(&cluster);
    vec![
        account(
            input,
            &cloud_provider_name,
            cloud_provider,
            "vmware-system-cloud-provider",
            "cloud-provider-creds",
        ),
        account(input, &storage_name, storage, "vmware-system-csi", STORAGE_DRIVER_SECRET),
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
    name: &str,
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
        metadata: input.metadata(name, &[]),
        spec: ProviderServiceAccountSpec {
            r#ref: wcp_cluster,
            rules,
            target_namespace: namespace.to_owned(),
            target_secret_name: secret.to_owned(),
        },
        status: None,
    }
}

#[cfg(test)]
mod tests {
    use kube::ResourceExt;

    use super::*;
    use crate::cluster::fixtures::{ClusterFixture, release_and_image};
    use crate::cluster::spec::ValidatedCluster;
    use crate::testing::sound;

    /// Returns the account names for a cluster with this name.
    fn account_names(cluster: &str) -> Vec<String> {
        let fixture = ClusterFixture::running(sound());
        let facts = fixture.facts();
        let mut tkc = fixture.tkc;
        tkc.metadata.name = Some(cluster.to_owned());
        let (release, image) = release_and_image(&tkc, &facts);
        let validated = ValidatedCluster::validate(&tkc, &facts).unwrap();
        let input = Input::new(&validated, &release, &image);
        build_accounts(&input).iter().map(ResourceExt::name_any).collect()
    }

    #[test]
    fn names_of_accounts_stay_within_the_bound_of_generated_names() {
        assert_eq!(account_names("c"), ["c-ccm", "c-pvcsi"]);
        let (long, other) = ("c".repeat(60), "c".repeat(61));
        let names = account_names(&long);
        assert!(names.iter().all(|name| name.len() <= names::MAX_MACHINE_NAME), "{names:?}");
        assert!(names.iter().all(|name| !account_names(&other).contains(name)), "{names:?}");
    }
}
