//! A tenant who can write Secrets tries to make Cluster API's managers send their token to her server.

use std::path::Path;

use kube::api::{Api, DeleteParams, DynamicObject, ListParams};
use serde_json::{Value, json};
use support::noting_server::NotingServer;

use crate::harness::objects::{SMALL, one_node};
use crate::harness::story::{CLUSTER, SOON, Story, assert_contains, merge, story};
use crate::harness::tenants::Tenants;

const RELEASE: &str = "v1.34.2---vmware.1-vkr.1";
/// The user agents of the managers that connect to workload clusters.
const MANAGERS: [&str; 3] = ["capi-core/", "capi-kubeadm-bootstrap/", "capi-kubeadm-control-plane/"];
/// A stand-in for the token in a manager's Pod.
const CANARY: &str = "token-of-cluster-api";

#[test]
fn cluster_api_sends_its_token_to_no_server_of_a_tenant() {
    story("kubeconfigs", |story| async move {
        let tenants = Tenants::prepare(&story, SMALL[0]).await;
        let rule = json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["*"]});
        tenants.grant("mallory-secrets", &json!([rule])).await;
        let secrets = tenants.mallory_api("Secret");
        let may = async || secrets.list(&ListParams::default()).await.is_ok();
        story.wait_until("mallory has her right on Secrets", SOON, may).await;
        let token = story.folder().join("token-for-kubeconfigs");
        std::fs::write(&token, CANARY).expect("a token");
        let hers = NotingServer::start().await.expect("a server of hers");
        let followed = NotingServer::start().await.expect("another server");

        before_the_cluster(&tenants, &kubeconfig(&hers, &token)).await;
        let cluster = tenants.mallory_applies(&manifest("evil", &tenants.hostile)).await;
        cluster.expect("a cluster without Secrets of hers");
        // The managers follow the administrator's kubeconfig, so they would follow hers if it weren't refused.
        story.apply_object(&manifest("control", &story)).await;
        story.apply_object(&secret("control", &story.namespace, &kubeconfig(&followed, &token))).await;
        beside_the_cluster(&tenants, &kubeconfig(&hers, &token)).await;
        let all = async || {
            let heads = followed.heads();
            let has_sent =
                |manager: &&str| heads.iter().any(|head| head.contains(*manager) && head.contains(CANARY));
            MANAGERS.iter().all(has_sent)
        };
        story.wait_until("all managers sent their token to the administrator's server", CLUSTER, all).await;

        // Then the managers also connect to mallory's cluster, at its own address.
        let is_provisioned =
            |cluster: &Value| cluster["status"]["initialization"]["infrastructureProvisioned"] == true;
        let what = "the infrastructure of mallory's cluster is there";
        tenants.hostile.wait_for_object(what, SOON, ("Cluster", "evil"), is_provisioned).await;
        assert_eq!(hers.heads(), Vec::<String>::new());
        // Cluster API immediately recreates the Secret.
        delete(&story.api("Secret"), "control-kubeconfig")
            .await
            .expect("the administrator's Secret is deleted");
        story.delete("TanzuKubernetesCluster", "control", CLUSTER).await;
        tenants.hostile.delete("TanzuKubernetesCluster", "evil", CLUSTER).await;
    });
}

/// Tries all ways to create the Secret before the cluster.
async fn before_the_cluster(tenants: &Tenants, kubeconfig: &str) {
    let namespace = &tenants.hostile.namespace;
    let refusal = ["only Cluster API can write or delete Secret evil-kubeconfig"];
    let labelled = secret("evil", namespace, kubeconfig);
    let mut plain = labelled.clone();
    plain["metadata"]["labels"] = json!({});
    let mut typed = plain.clone();
    typed["type"] = "cluster.x-k8s.io/secret".into();
    for secret in [labelled, plain.clone(), typed] {
        assert_contains(tenants.mallory_applies(&secret).await.expect_err("a kubeconfig"), &refusal);
    }
    plain["stringData"] = json!({"config": kubeconfig});
    tenants.mallory_applies(&plain).await.expect("a Secret of hers");
    let secrets = tenants.mallory_api("Secret");
    for change in [
        json!({"stringData": {"value": kubeconfig}}),
        json!({"metadata": {"labels": {"cluster.x-k8s.io/cluster-name": "evil"}}}),
    ] {
        let refused = merge(&secrets, "evil-kubeconfig", change).await.expect_err("a change");
        assert_contains(refused, &refusal);
    }
    let refused = tenants.mallory_applies(&manifest("evil", &tenants.hostile)).await.expect_err("a cluster");
    assert_contains(refused, &["Cluster API would use Secret evil-kubeconfig, which it did not create"]);
    delete(&secrets, "evil-kubeconfig").await.expect("a Secret of hers is deleted");
}

/// Tries all ways to change an existing cluster's Secrets.
async fn beside_the_cluster(tenants: &Tenants, kubeconfig: &str) {
    let secrets = tenants.mallory_api("Secret");
    for name in ["evil-ca", "evil-kubeconfig"] {
        let is_there = |secret: &Value| secret["type"] == "cluster.x-k8s.io/secret";
        tenants.hostile.wait_for_object(name, CLUSTER, ("Secret", name), is_there).await;
        let refusal = format!("only Cluster API can write or delete Secret {name}");
        for change in [
            json!({"stringData": {"value": kubeconfig}}),
            json!({"metadata": {"labels": {"cluster.x-k8s.io/cluster-name": null}}}),
            json!({"metadata": {"ownerReferences": null}}),
        ] {
            assert_contains(merge(&secrets, name, change).await.expect_err("a change"), &[&refusal]);
        }
        assert_contains(delete(&secrets, name).await.expect_err("a deletion"), &[&refusal]);
    }
}

async fn delete(secrets: &Api<DynamicObject>, name: &str) -> kube::Result<()> {
    secrets.delete(name, &DeleteParams::default()).await.map(drop)
}

fn manifest(name: &str, story: &Story) -> Value {
    let text = one_node(name, RELEASE, SMALL).replace("NAMESPACE", &story.namespace);
    serde_saphyr::from_str(&text).expect("YAML")
}

fn secret(cluster: &str, namespace: &str, kubeconfig: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {
            "name": format!("{cluster}-kubeconfig"), "namespace": namespace,
            "labels": {"cluster.x-k8s.io/cluster-name": cluster},
        },
        "stringData": {"value": kubeconfig},
    })
}

/// Returns a kubeconfig that points to a server, with a token file on the reader's disk.
fn kubeconfig(server: &NotingServer, token: &Path) -> String {
    let cluster = json!({"server": server.url(), "insecure-skip-tls-verify": true});
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "a",
        "clusters": [{"name": "a", "cluster": cluster}],
        "users": [{"name": "a", "user": {"tokenFile": token}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
    })
    .to_string()
}
