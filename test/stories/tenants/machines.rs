//! A tenant writes a WCPMachine and deletes it. capw must not delete objects that the WCPMachine doesn't own.

use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::harness::story::{SOON, story};
use crate::harness::tenants::Tenants;

#[test]
fn a_wcpmachine_deletes_only_what_it_owns() {
    story("owned-machines", |story| async move {
        let tenants = Tenants::prepare(&story, "best-effort-xsmall").await;
        let namespace = &tenants.hostile.namespace;
        // The administrator creates these in mallory's namespace. She doesn't have permissions for Secrets and
        // claims.
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "pg-cloud-init", "namespace": namespace },
            "stringData": { "guestinfo.userdata": "somebody's" },
        });
        let claim = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": { "name": "db-data", "namespace": namespace },
            "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
        });
        for object in [&secret, &claim] {
            tenants.victim.apply_object(object).await;
        }
        tenants.mallory_applies(&forged_machine(namespace)).await.unwrap();
        let machines = tenants.mallory_api("WCPMachine");
        machines.delete("pg", &DeleteParams::default()).await.unwrap();
        tenants.hostile.wait_until_gone("WCPMachine", "pg", SOON).await;
        for (kind, name) in [("Secret", "pg-cloud-init"), ("PersistentVolumeClaim", "db-data")] {
            let object = tenants.hostile.get(kind, name).await;
            let object = object.unwrap_or_else(|| panic!("{kind} {name} was deleted"));
            assert!(object["metadata"]["deletionTimestamp"].is_null(), "{kind} {name} is being deleted");
        }
    });
}

/// Returns a WCPMachine with capw's finalizer and a Machine as its owner, as if capw had created objects for it.
fn forged_machine(namespace: &str) -> Value {
    json!({
        "apiVersion": "infrastructure.cluster.vmware.com/v1beta2", "kind": "WCPMachine",
        "metadata": {
            "name": "pg", "namespace": namespace,
            "finalizers": [api::names::finalizer::WCP_MACHINE],
            "ownerReferences": [{
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "name": "db",
                "uid": "00000000-0000-4000-8000-000000000001",
            }],
        },
        "spec": {
            "className": "best-effort-xsmall", "imageName": "photon", "storageClass": "gold",
            "volumes": [{ "name": "data", "mountPath": "/data", "capacity": { "storage": "1Gi" } }],
        },
    })
}
