//! Rights in the management cluster for the programs in the guest that provide load balancers and volumes.

use api::capw::{ProviderServiceAccount, WCPCluster};
use kube::Resource;
use serde_json::{Value, json};

use super::{Input, object};

/// The accounts of the cloud provider and of the storage driver.
pub fn accounts(input: &Input<'_>) -> Result<Vec<ProviderServiceAccount>, serde_json::Error> {
    let cloud_provider = json!([
        rule(
            "vmoperator.vmware.com",
            &["virtualmachineservices"],
            &["get", "list", "watch", "create", "update", "patch", "delete"]
        ),
        rule("vmoperator.vmware.com", &["virtualmachineservices/status"], &["get"]),
        rule("vmoperator.vmware.com", &["virtualmachines"], &["get", "list", "watch"]),
        rule("", &["events"], &["create", "patch"]),
    ]);
    let storage = json!([
        rule("vmoperator.vmware.com", &["virtualmachines"], &["get", "list", "watch", "update", "patch"]),
        rule(
            "cns.vmware.com",
            &["cnsvolumemetadatas", "cnsfileaccessconfigs"],
            &["get", "list", "watch", "create", "update", "patch", "delete"]
        ),
        rule("cns.vmware.com", &["cnscsisvfeaturestates"], &["get", "list", "watch"]),
        rule(
            "",
            &["persistentvolumeclaims"],
            &["get", "list", "watch", "create", "update", "patch", "delete"]
        ),
        rule("", &["persistentvolumeclaims/status"], &["get", "update", "patch"]),
        rule("", &["events"], &["get", "list", "watch"]),
    ]);
    Ok(vec![
        account(input, "ccm", &cloud_provider, "vmware-system-cloud-provider", "cloud-provider-creds")?,
        account(input, "pvcsi", &storage, "vmware-system-csi", "pvcsi-provider-creds")?,
    ])
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({ "apiGroups": [group], "resources": resources, "verbs": verbs })
}

fn account(
    input: &Input<'_>,
    program: &str,
    rules: &Value,
    namespace: &str,
    secret: &str,
) -> Result<ProviderServiceAccount, serde_json::Error> {
    let spec = json!({
        "ref": {
            "apiVersion": WCPCluster::api_version(&()),
            "kind": WCPCluster::kind(&()),
            "name": input.name(),
            "namespace": input.namespace(),
        },
        "rules": rules,
        "targetNamespace": namespace,
        "targetSecretName": secret,
    });
    object(&input.metadata(&format!("{}-{program}", input.name()), &[]), &spec)
}
