//! A tenant without permissions for Secrets tries to read them through a guest, to remove finalizers, and to make her
//! VM part of a cluster.

use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::harness::objects::one_node;
use crate::harness::plain_vm::PlainVm;
use crate::harness::story::{SOON, assert_contains, merge, story};
use crate::harness::tenants::Tenants;

const CLASS: &str = "best-effort-xsmall";
/// The Secret that she wants to read.
const WANTED: &str = "b-kubeconfig";

#[test]
fn who_names_a_secret_may_get_it() {
    story("secrets", |story| async move {
        let tenants = Tenants::prepare(&story, CLASS).await;
        let hostile = &tenants.hostile;
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": WANTED, "namespace": hostile.namespace},
            "stringData": {"value": "apiVersion: v1 # of nobody else"},
        });
        hostile.apply_object(&secret).await;
        naming_a_secret_in_a_vm(&tenants).await;
        naming_a_secret_elsewhere(&tenants).await;

        // Once she has permission to get the Secret, she may name it.
        let rule =
            json!({"apiGroups": [""], "resources": ["secrets"], "resourceNames": [WANTED], "verbs": ["get"]});
        tenants.grant("mallory-granted", &json!([rule])).await;
        let mut vm = PlainVm::named("secrets-vm").object(&hostile.namespace);
        vm["spec"]["vmMetadata"] = json!({"secretName": WANTED, "transport": "CloudInit"});
        let may = async || tenants.mallory_applies(&vm).await.is_ok();
        story.wait_until("mallory may name the Secret", SOON, may).await;
        hostile.delete("VirtualMachine", "secrets-vm", SOON).await;
    });
}

async fn naming_a_secret_in_a_vm(tenants: &Tenants) {
    let (hostile, metadata) = (&tenants.hostile, json!({"secretName": WANTED, "transport": "CloudInit"}));
    let refusal = ["spec.vmMetadata.secretName", WANTED, "you are not allowed to get it"];
    let mut vm = PlainVm::named("secrets-vm").object(&hostile.namespace);
    vm["spec"]["vmMetadata"] = metadata.clone();
    assert_contains(tenants.mallory_applies(&vm).await.expect_err("a Secret at creation"), &refusal);

    // She may get ConfigMaps, so she may name one, but she can't replace it with the Secret.
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "data", "namespace": hostile.namespace},
        "data": {"user-data": "#cloud-config"},
    });
    tenants.mallory_applies(&map).await.unwrap();
    vm["spec"]["vmMetadata"] = json!({"configMapName": "data", "transport": "CloudInit"});
    vm["spec"]["powerState"] = "poweredOff".into();
    tenants.mallory_applies(&vm).await.unwrap();
    let vms = tenants.mallory_api("VirtualMachine");
    let changed = json!({"spec": {"vmMetadata": {"secretName": WANTED, "configMapName": null}}});
    let changed = merge(&vms, "secrets-vm", changed).await;
    assert_contains(changed.expect_err("a Secret later"), &refusal);

    // She can change other fields of an administrator's VM that names the Secret, but not the way in which the guest
    // sees the Secret.
    let named = json!({"spec": {"vmMetadata": {"secretName": WANTED, "configMapName": null}}});
    hostile.patch("VirtualMachine", "secrets-vm", named).await;
    let labelled = json!({"metadata": {"labels": {"a": "b"}}});
    merge(&vms, "secrets-vm", labelled).await.expect("a label");
    let transport = json!({"spec": {"vmMetadata": {"transport": "ExtraConfig"}}});
    let transport = merge(&vms, "secrets-vm", transport).await;
    assert_contains(transport.expect_err("another transport"), &refusal);
    hostile.delete("VirtualMachine", "secrets-vm", SOON).await;
}

async fn naming_a_secret_elsewhere(tenants: &Tenants) {
    let hostile = &tenants.hostile;
    let bundle = |labels: Value| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "bundle", "namespace": hostile.namespace, "labels": labels},
            "data": {"secret": format!(" {WANTED}\n")},
        })
    };
    let labels = json!({"tkg.tanzu.vmware.com/addon-name": "mine"});
    let refusal = tenants.mallory_applies(&bundle(labels.clone())).await.expect_err("a bundle");
    assert_contains(refusal, &["data.secret", WANTED, "you are not allowed to get it"]);
    tenants.mallory_applies(&bundle(json!({}))).await.expect("a ConfigMap that is no bundle");
    let refusal = tenants.mallory_applies(&bundle(labels)).await.expect_err("it becomes one");
    assert_contains(refusal, &["data.secret", WANTED, "you are not allowed to get it"]);

    let cluster = one_node("secrets-cluster", "v1.34.2---vmware.1-vkr.1", [CLASS, "gold"]);
    let cluster = cluster.replace("NAMESPACE", &hostile.namespace);
    let pool = format!("nodePools: [{{name: a, replicas: 1, vmClass: {CLASS}, storageClass: gold}}]");
    let cluster = cluster.replace("nodePools: []", &pool);
    let cluster = serde_saphyr::from_str::<Value>(&cluster).expect("YAML");
    let refusal = tenants.mallory_applies(&cluster).await.expect_err("a cluster");
    assert_contains(refusal, &["Secret secrets-cluster-ca", "you are not allowed to get it"]);

    let rule = json!({"apiGroups": ["cluster.x-k8s.io"], "resources": ["machines"], "verbs": ["*"]});
    tenants.grant("mallory-granted", &json!([rule])).await;
    let machine = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
        "metadata": {"name": "thief", "namespace": hostile.namespace},
        "spec": {
            "clusterName": "none", "bootstrap": {"dataSecretName": WANTED},
            "infrastructureRef": {"apiGroup": "infrastructure.cluster.vmware.com", "kind": "WCPMachine", "name": "thief"},
        },
    });
    let refused = async || {
        let refusal = tenants.mallory_applies(&machine).await.expect_err("a Machine");
        refusal.contains("bootstrap.dataSecretName: the node would see Secret")
    };
    hostile.wait_until("the Machine is refused for its Secret", SOON, refused).await;
}

#[test]
fn what_controllers_put_on_an_object_is_theirs_to_change() {
    story("controllers-own", |story| async move {
        let tenants = Tenants::prepare(&story, CLASS).await;
        let namespace = &tenants.hostile.namespace;
        let owner = json!([{
            "apiVersion": "infrastructure.cluster.vmware.com/v1beta2", "kind": "WCPMachine", "name": "a", "uid": "b", "controller": true,
        }]);
        let label = json!({"capw.vmware.com/cluster.name": "a"});
        for (what, metadata, words) in [
            ("a label", json!({"labels": label}), "metadata.labels: only capw can set"),
            ("an owner", json!({"ownerReferences": owner}), "metadata.ownerReferences: only capw can set"),
        ] {
            let mut vm = PlainVm::named("own-vm").object(namespace);
            for (key, value) in metadata.as_object().unwrap() {
                vm["metadata"][key] = value.clone();
            }
            assert_contains(tenants.mallory_applies(&vm).await.expect_err(what), &[words]);
        }
        tenants.mallory_applies(&PlainVm::named("own-vm").object(namespace)).await.unwrap();
        let policy = json!({
            "apiVersion": "vmoperator.vmware.com/v1alpha1", "kind": "VirtualMachineSetResourcePolicy",
            "metadata": {"name": "own-policy", "namespace": namespace}, "spec": {"folder": {"name": "own"}},
        });
        tenants.mallory_applies(&policy).await.unwrap();
        let machine = json!({
            "apiVersion": "infrastructure.cluster.vmware.com/v1beta2", "kind": "WCPMachine",
            "metadata": {"name": "own-machine", "namespace": namespace, "finalizers": [api::names::finalizer::WCP_MACHINE]},
            "spec": {"className": CLASS, "imageName": "photon", "storageClass": "gold"},
        });
        tenants.mallory_applies(&machine).await.unwrap();
        tenants.hostile.wait_until_powered_on("own-vm").await;
        let patch = async |kind: &str, name: &str, metadata: Value| {
            let refused = merge(&tenants.mallory_api(kind), name, json!({"metadata": metadata})).await;
            refused.expect_err("a refusal").to_string()
        };
        let labelled = patch("VirtualMachine", "own-vm", json!({"labels": label})).await;
        assert_contains(labelled, &["metadata.labels: only capw can set"]);
        let adopted = patch("VirtualMachine", "own-vm", json!({"ownerReferences": owner})).await;
        assert_contains(adopted, &["metadata.ownerReferences: only capw can set"]);
        let objects = [
            ("VirtualMachine", "own-vm"),
            ("VirtualMachineSetResourcePolicy", "own-policy"),
            ("WCPMachine", "own-machine"),
        ];
        for (kind, name) in objects {
            let what = format!("{kind} {name} has a finalizer");
            let is_held = |object: &Value| object["metadata"]["finalizers"].is_array();
            tenants.hostile.wait_for_object(&what, SOON, (kind, name), is_held).await;
            let stripped = patch(kind, name, json!({"finalizers": null})).await;
            assert_contains(stripped, &["metadata.finalizers", "Delete the object and wait"]);
        }
        // The rule also applies during deletion. The object goes when its controller removes the finalizer.
        let check =
            json!({"metadata": {"annotations": {"delete.check.vmoperator.vmware.com/backup": "not yet"}}});
        tenants.hostile.patch("VirtualMachine", "own-vm", check).await;
        tenants.mallory_api("VirtualMachine").delete("own-vm", &DeleteParams::default()).await.unwrap();
        let stripped = patch("VirtualMachine", "own-vm", json!({"finalizers": null})).await;
        assert_contains(stripped, &["metadata.finalizers"]);
        let free = json!({"metadata": {"annotations": {"delete.check.vmoperator.vmware.com/backup": null}}});
        tenants.hostile.patch("VirtualMachine", "own-vm", free).await;
        for (kind, name) in objects {
            tenants.hostile.delete(kind, name, SOON).await;
        }
    });
}
