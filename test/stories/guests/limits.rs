//! A cluster lacks optional parts. The user sees each one, but only parts that the cluster asks for keep it from
//! being ready.

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, StorageClass};
use kube::api::{ListParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use crate::harness::objects::{SMALL, one_node, role_binding};
use crate::harness::story::{CLUSTER, SOON, Story, assert_contains, condition, story};

const RBAC: &str = "rbac.authorization.k8s.io";
const DRIVER: &str = "csi.vsphere.vmware.com";
/// A condition that is False, with its severity and reason.
type Expected<'a> = (&'a str, &'a str, &'a str);

#[test]
fn a_cluster_says_what_it_lacks_and_is_ready() {
    story("bare", |story| async move {
        story.apply(&one_node("bare", "v1.33.1---vmware.1-fips-vkr.2", SMALL)).await;
        let people = json!([
            {"kind": "User", "name": "sso:ann@vsphere.local", "apiGroup": RBAC},
            {"kind": "Group", "name": "sso:devs@vsphere.local", "apiGroup": RBAC},
        ]);
        story.apply_object(&role_binding(&story.namespace, "editors", "edit", &people)).await;
        story.wait_until_running("bare").await;
        what_nothing_asks_for_is_named_and_ignored(&story).await;
        let guest = story.guest_client("bare").await;
        what_is_asked_for_counts_until_it_is_there(&story, &guest).await;
        a_token_that_an_add_on_needs_is_used_or_named(&story).await;
        story.delete("TanzuKubernetesCluster", "bare", CLUSTER).await;
    });
}

/// Registers the storage driver on a node, as the driver does through the kubelet.
pub async fn register_driver(guest: &Client) {
    let nodes = Api::<Node>::all(guest.clone()).list(&ListParams::default()).await.expect("nodes").items;
    let name = nodes.first().expect("a node").name_any();
    let node = json!({"metadata": {"name": name}, "spec": {"drivers": [{"name": DRIVER, "nodeID": name}]}});
    let node: CSINode = serde_json::from_value(node).expect("a CSINode");
    Api::<CSINode>::all(guest.clone()).create(&PostParams::default(), &node).await.expect("the CSINode");
}

/// Creates the CSIDriver that the storage classes name.
pub async fn create_driver(guest: &Client) {
    let driver = json!({"metadata": {"name": DRIVER}, "spec": {"attachRequired": true}});
    let driver: CSIDriver = serde_json::from_value(driver).expect("a CSIDriver");
    Api::<CSIDriver>::all(guest.clone())
        .create(&PostParams::default(), &driver)
        .await
        .expect("the CSIDriver");
}

/// Runs a Pod with the storage driver's token, like the paravirtual driver, as soon as its namespace exists in the
/// guest.
pub async fn use_storage_token(story: &Story, guest: &Client) {
    let pod = json!({
        "metadata": {"name": "controller", "namespace": "vmware-system-csi"},
        "spec": {
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "controller", "image": "registry.k8s.io/e2e-test-images/agnhost:2.53"}],
            "volumes": [{"name": "token", "secret": {"secretName": "pvcsi-provider-creds"}}],
        },
    });
    let pod: Pod = serde_json::from_value(pod).expect("a Pod");
    let pods = Api::<Pod>::namespaced(guest.clone(), "vmware-system-csi");
    story
        .wait_until("a Pod of the storage driver", SOON, async || {
            pods.create(&PostParams::default(), &pod).await.is_ok()
        })
        .await;
}

/// Waits until the cluster's conditions are False as expected, and `Ready` has this status.
async fn wait_for_limits(story: &Story, expected: &[Expected<'_>], ready: &str) -> Value {
    story
        .wait_for(&format!("{expected:?}, and Ready is {ready}"), SOON, || async {
            let cluster = story.get("TanzuKubernetesCluster", "bare").await?;
            let is_so = |(type_, severity, reason): &Expected<'_>| {
                condition(&cluster, type_).is_some_and(|found| {
                    found["status"] == "False" && found["severity"] == *severity && found["reason"] == *reason
                })
            };
            let is_ready = condition(&cluster, "Ready")?["status"] == ready;
            (expected.iter().all(is_so) && is_ready).then_some(cluster)
        })
        .await
}

async fn what_nothing_asks_for_is_named_and_ignored(story: &Story) {
    let limits = [
        ("StorageClassSynced", "Info", "NoStorageDriver"),
        ("ProviderServiceAccountsReady", "Info", "ProviderServiceAccountsUnused"),
        ("RoleBindingSynced", "Info", "NoAuthenticator"),
    ];
    let cluster = wait_for_limits(story, &limits, "True").await;
    let message = |type_: &str| condition(&cluster, type_).unwrap()["message"].as_str().unwrap_or_default();
    assert_contains(
        message("StorageClassSynced"),
        &[
            "2 storage classes",
            DRIVER,
            "stay Pending",
            "vsphere-pv-csi, which needs a Supervisor's storage provider",
        ],
    );
    assert_contains(
        message("ProviderServiceAccountsReady"),
        &["vmware-system-cloud-provider/cloud-provider-creds", "vmware-system-csi/pvcsi-provider-creds"],
    );
    assert_contains(message("RoleBindingSynced"), &["1 user and 1 group", "Secret bare-kubeconfig"]);
    assert_eq!(condition(&cluster, "AddonsReady").unwrap()["status"], "True");
    assert_contains(message("AddonsReady"), &["antrea", "calico", "metrics-server", "vsphere-pv-csi"]);
    let described = story.describe("bare").await;
    assert_eq!(described.blocking, None);
    let reasons: Vec<_> = described.limits.iter().map(|limit| limit.reason.as_str()).collect();
    let expected =
        ["AddonsLeftInImage", "ProviderServiceAccountsUnused", "NoAuthenticator", "NoStorageDriver"];
    assert_eq!(reasons, expected);
    assert_contains(
        described.text(false),
        &["Limits of this cluster", "StorageClassSynced: NoStorageDriver: 2"],
    );
}

/// Returns a bundle with a Deployment whose Pods mount an account's token, and with additional objects.
fn bundle(story: &Story, name: &str, type_: &str, namespace: &str, secret: &str, more: &str) -> Value {
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": namespace},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": {
            "metadata": {"labels": {"app": name}},
            "spec": {
                "tolerations": [{"operator": "Exists"}],
                "containers": [{
                    "name": name, "image": "registry.k8s.io/e2e-test-images/agnhost:2.53",
                    "volumeMounts": [{"name": "token", "mountPath": "/etc/token"}],
                }],
                "volumes": [{"name": "token", "secret": {"secretName": secret}}],
            },
        }},
    });
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": name, "namespace": story.namespace, "labels": {"tkg.tanzu.vmware.com/addon-name": name},
            "annotations": {"tkg.tanzu.vmware.com/addon-type": type_},
        },
        "data": {"a.yaml": more, "b.yaml": deployment.to_string()},
    })
}

async fn what_is_asked_for_counts_until_it_is_there(story: &Story, guest: &Client) {
    let driver = format!(
        "{{apiVersion: storage.k8s.io/v1, kind: CSIDriver, metadata: {{name: {DRIVER}}}, spec: {{attachRequired: true}}}}"
    );
    let login = "{apiVersion: v1, kind: ConfigMap, metadata: {name: login, namespace: default}}";
    let bundles = [
        bundle(story, "storage", "csi", "vmware-system-csi", "pvcsi-provider-creds", &driver),
        bundle(story, "cloud", "cpi", "vmware-system-cloud-provider", "cloud-provider-creds", ""),
        bundle(story, "login", "authservice", "default", "of-others", login),
    ];
    for bundle in &bundles {
        story.apply_object(bundle).await;
    }
    let missing = [("StorageClassSynced", "Warning", "StorageDriverNotFound")];
    let cluster = wait_for_limits(story, &missing, "False").await;
    let message = condition(&cluster, "StorageClassSynced").unwrap()["message"].clone();
    assert_contains(&message, &["In cluster bare", DRIVER]);
    story.wait_for_ready("bare", &["StorageDriverNotFound", "no CSINode lists it"]).await;
    let blocking = story.describe("bare").await.blocking.expect("a cause");
    assert_eq!(blocking.reason, "StorageDriverNotFound");
    register_driver(guest).await;
    for type_ in ["StorageClassSynced", "ProviderServiceAccountsReady", "RoleBindingSynced", "Ready"] {
        story.wait_for_condition("TanzuKubernetesCluster", "bare", type_, "True").await;
    }
    let described = story.describe("bare").await;
    let reasons: Vec<_> = described.limits.iter().map(|limit| limit.reason.as_str()).collect();
    assert_eq!((described.blocking, reasons), (None, vec!["AddonsLeftInImage"]));
    a_bundle_brings_classes_of_its_own(story, guest).await;
}

async fn a_bundle_brings_classes_of_its_own(story: &Story, guest: &Client) {
    let annotations = json!({"run.tanzu.vmware.com/storage-classes": "none"});
    story.patch("ConfigMap", "storage", json!({"metadata": {"annotations": annotations}})).await;
    let classes = Api::<StorageClass>::all(guest.clone());
    story
        .wait_until("the classes of the namespace are gone", SOON, async || {
            classes.list(&ListParams::default()).await.is_ok_and(|list| list.items.is_empty())
        })
        .await;
    story.wait_for_condition("TanzuKubernetesCluster", "bare", "StorageClassSynced", "True").await;
}

async fn a_token_that_an_add_on_needs_is_used_or_named(story: &Story) {
    let mut cloud = bundle(story, "cloud", "cpi", "vmware-system-cloud-provider", "cloud-provider-creds", "");
    let stopped = cloud["data"]["b.yaml"].as_str().unwrap().replace("\"replicas\":1", "\"replicas\":0");
    cloud["data"]["b.yaml"] = json!(stopped);
    story.apply_object(&cloud).await;
    let unused = [("ProviderServiceAccountsReady", "Warning", "ProviderServiceAccountUserNotFound")];
    wait_for_limits(story, &unused, "False").await;
    let words = ["vmware-system-cloud-provider/cloud-provider-creds", "no running Pod"];
    story.wait_for_ready("bare", &words).await;
}
