//! API servers write an audit log and encrypt Secrets.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::harness::objects::{one_and_one, role_binding};
use crate::harness::story::{CLUSTER, SOON, Story, api_resource, assert_contains, condition, merge, story};
use crate::harness::tenants::act_as;

const SECRET: &str = "prefix-of-hidden-value";
const KEY: &str = "kept-encryption";
const FILE: &str = "/etc/kubernetes/api-server/encryption.yaml";
const RECORD: &str = "run.tanzu.vmware.com/api-server";
const CLUSTER_ID: &str = "run.tanzu.vmware.com/cluster-id";

#[test]
fn a_new_cluster_encrypts_its_secrets_and_logs_who_reads_them() {
    story("api-server", |story| async move {
        story.apply(&one_and_one("kept", "workers")).await;
        story.wait_until_running("kept").await;
        let first = story.vm_with("kept-control-plane-").await.name;
        a_secret_is_stored_encrypted(&story, &first).await;
        the_log_names_users_and_no_content(&story, &first).await;
        users_do_not_change_what_was_noted(&story).await;
        a_lost_key_is_reported_and_no_other_made(&story).await;
        let second = a_new_node_gets_the_key_that_is_put_back(&story, &first).await;
        another_key_takes_its_place(&story, &second).await;
        story.delete("TanzuKubernetesCluster", "kept", CLUSTER).await;
    });
}

async fn a_secret_is_stored_encrypted(story: &Story, control_plane: &str) {
    let mut config = story.guest_config("kept").await;
    config.auth_info.impersonate = Some("alice".to_owned());
    config.auth_info.impersonate_groups = Some(vec!["system:masters".to_owned()]);
    let secrets: Api<Secret> = Api::default_namespaced(Client::try_from(config).unwrap());
    let mut secret = Secret { string_data: Some([("a".into(), SECRET.into())].into()), ..Secret::default() };
    secret.metadata.name = Some("hidden".to_owned());
    secrets.create(&PostParams::default(), &secret).await.unwrap();
    let read = secrets.get("hidden").await.unwrap().data.unwrap();
    assert_eq!(read["a"].0, SECRET.as_bytes());

    let stored = story.shared.guests.etcd_value(control_plane, "/registry/secrets/default/hidden").await;
    let stored = stored.unwrap().expect("etcd has it");
    assert!(stored.starts_with(b"k8s:enc:aescbc:v1:key1:"), "{}", String::from_utf8_lossy(&stored));
    assert!(!String::from_utf8_lossy(&stored).contains(SECRET));
    let map =
        story.shared.guests.etcd_value(control_plane, "/registry/configmaps/kube-system/kubeadm-config");
    assert!(map.await.unwrap().expect("etcd has it").starts_with(b"k8s\0"), "all else is as ever");
}

async fn the_log_names_users_and_no_content(story: &Story, control_plane: &str) {
    let log = || story.shared.guests.read_file(control_plane, "/var/log/kubernetes/audit.log");
    let of_alice =
        |line: &&str| line.contains("\"username\":\"alice\"") && line.contains("\"name\":\"hidden\"");
    let verbs = story
        .wait_for("alice is in the audit log", SOON, async || {
            let log = log()?;
            let entries =
                log.lines().filter(of_alice).map(|line| serde_json::from_str::<Value>(line).unwrap());
            let verbs: Vec<_> = entries.map(|entry| entry["verb"].as_str().unwrap().to_owned()).collect();
            (verbs.len() == 2).then_some(verbs)
        })
        .await;
    assert_eq!(verbs, ["create", "get"]);
    let log = log().unwrap();
    let encoded = BASE64_STANDARD.encode(SECRET);
    for hidden in [SECRET, &encoded, "requestObject", "responseObject", "\"resource\":\"leases\"", "/readyz"]
    {
        assert!(!log.contains(hidden), "{hidden} is in the audit log");
    }
}

/// gcm's webhook rejects changes to its annotations, and restores an annotation that an update drops.
async fn users_do_not_change_what_was_noted(story: &Story) {
    let alice = json!([{"kind": "User", "name": "alice", "apiGroup": "rbac.authorization.k8s.io"}]);
    for (name, role) in [("alice", "tanzukubernetescluster-edit"), ("alice-edit", "edit")] {
        story.apply_object(&role_binding(&story.namespace, name, role, &alice)).await;
    }
    let api = api_resource("TanzuKubernetesCluster");
    let clusters = Api::<kube::api::DynamicObject>::namespaced_with(
        act_as(story, "alice").await,
        &story.namespace,
        &api,
    );
    let change = async |record: &str, value: Value| {
        merge(&clusters, "kept", json!({"metadata": {"annotations": {record: value}}})).await
    };
    let changed = story
        .wait_for("alice may change clusters", SOON, async || match change(RECORD, json!("issuers")).await {
            Err(kube::Error::Api(status)) if status.message.contains("cannot patch") => None,
            other => Some(other),
        })
        .await;
    assert_contains(changed.expect_err("a refusal"), &["only gcm can set or change", RECORD]);
    let mut copy = story.get("TanzuKubernetesCluster", "kept").await.unwrap();
    let id = copy["metadata"]["uid"].as_str().unwrap().to_owned();
    copy["metadata"] = json!({
        "name": "copied", "namespace": story.namespace, "annotations": {CLUSTER_ID: copy["metadata"]["uid"]},
    });
    copy.as_object_mut().unwrap().remove("status");
    let copied = clusters.create(&PostParams::default(), &serde_json::from_value(copy).unwrap()).await;
    assert_contains(
        copied.expect_err("the id of another cluster"),
        &["only gcm can set or change", CLUSTER_ID],
    );
    let kept = change(CLUSTER_ID, Value::Null).await.unwrap();
    assert_eq!(kept.metadata.annotations.unwrap()[CLUSTER_ID], id);
}

async fn a_lost_key_is_reported_and_no_other_made(story: &Story) {
    story.delete("Secret", KEY, SOON).await;
    roll(story).await;
    let parts = ["api-server/kept-encryption does not exist", FILE, "backup"];
    story.wait_for_ready("kept", &parts).await;
    // The control plane isn't held up by other steps: Cluster API waits for the key.
    let waiting = async || {
        let configs = story.list("KubeadmConfig").await;
        let waits = |config: &&Value| {
            condition(config, "DataSecretAvailable").is_some_and(|condition| condition["status"] == "False")
        };
        configs.iter().filter(waits).count() > 0
    };
    story.wait_until("a node of the control plane waits for the key", CLUSTER, waiting).await;
    assert!(story.get("Secret", KEY).await.is_none(), "no other key is made");
    let cluster = story.get("TanzuKubernetesCluster", "kept").await.unwrap();
    assert_eq!(condition(&cluster, "Ready").unwrap()["reason"], "ReconcileFailed");
}

/// The user restores the key and adds a second key to begin a rotation, as docs/day-two.md says.
async fn a_new_node_gets_the_key_that_is_put_back(story: &Story, first: &str) -> String {
    let file = story.shared.guests.read_file(first, FILE).expect("the file of a node");
    let one = file.lines().find(|line| line.contains("key1")).expect("its key");
    let new = format!("      - {{name: key2, secret: {}}}", BASE64_STANDARD.encode([7; 32]));
    let both = file.replace(one, &format!("{one}\n{new}"));
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {
            "name": KEY, "namespace": story.namespace, "labels": {"clusterctl.cluster.x-k8s.io/move": ""},
        },
        "stringData": {"encryption.yaml": both},
    });
    story.apply_object(&secret).await;
    let second = new_control_plane(story, first).await;
    assert_eq!(story.shared.guests.read_file(&second, FILE), Some(both));
    assert_contains(read_hidden(story).await, &[SECRET]);
    second
}

/// The user makes the new key the first on all nodes, and rewrites each Secret.
async fn another_key_takes_its_place(story: &Story, second: &str) {
    let both = story.shared.guests.read_file(second, FILE).unwrap();
    let keys: Vec<_> = both.lines().filter(|line| line.contains("name: key")).collect();
    let [one, other] = keys[..] else { panic!("two keys") };
    let turned = both.replace(&format!("{one}\n{other}"), &format!("{other}\n{one}"));
    story.patch("Secret", KEY, json!({"stringData": {"encryption.yaml": turned}})).await;
    roll(story).await;
    let third = new_control_plane(story, second).await;
    let secrets: Api<Secret> = Api::default_namespaced(story.guest_client("kept").await);
    secrets.replace("hidden", &PostParams::default(), &secrets.get("hidden").await.unwrap()).await.unwrap();
    let stored = story.shared.guests.etcd_value(&third, "/registry/secrets/default/hidden").await;
    assert!(stored.unwrap().expect("etcd has it").starts_with(b"k8s:enc:aescbc:v1:key2:"));
    assert_contains(read_hidden(story).await, &[SECRET]);
}

/// Replaces the control plane nodes.
async fn roll(story: &Story) {
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    story
        .patch("KubeadmControlPlane", "kept-control-plane", json!({"spec": {"rollout": {"after": now}}}))
        .await;
}

/// Waits until the only control plane node is replaced and the cluster runs. Returns the new node's name.
async fn new_control_plane(story: &Story, before: &str) -> String {
    let vm = story
        .wait_for("the node of the control plane is replaced", CLUSTER, async || {
            let machines = story.list("Machine").await;
            let names = machines.iter().filter_map(|machine| machine["metadata"]["name"].as_str());
            let names: Vec<_> = names.filter(|name| name.contains("-control-plane-")).collect();
            let [name] = names[..] else { return None };
            (name != before).then(|| name.to_owned())
        })
        .await;
    story.wait_until_running("kept").await;
    vm
}

async fn read_hidden(story: &Story) -> String {
    let secrets: Api<Secret> = Api::default_namespaced(story.guest_client("kept").await);
    let read = secrets.get("hidden").await.unwrap();
    String::from_utf8(read.data.unwrap()["a"].0.clone()).unwrap()
}
