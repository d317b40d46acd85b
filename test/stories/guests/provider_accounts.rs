//! A guest's cloud provider and storage driver get a token for the management cluster, which is kept up to date, with
//! minimal permissions.

use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use k8s_openapi::api::core::v1::{Node, Secret};
use kube::api::{DeleteParams, DynamicObject, ListParams};
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt};
use serde_json::{Value, json};

use crate::guests::providers;
use crate::harness::story::{
    CLUSTER, SOON, Story, api_resource, assert_contains, condition, disruptive_story, merge, story,
};

const MANIFEST: &str = r"
apiVersion: run.tanzu.vmware.com/v1alpha3
kind: TanzuKubernetesCluster
metadata: {name: lent, namespace: NAMESPACE}
spec:
  topology:
    controlPlane: {replicas: 1, vmClass: best-effort-small, storageClass: gc-storage-profile, tkr: {reference: {name: v1.33.1---vmware.1-fips-vkr.2}}}
    nodePools:
    - name: workers
      replicas: 1
      vmClass: best-effort-small
      storageClass: gc-storage-profile
      volumes: [{name: containerd, mountPath: /var/lib/containerd, capacity: {storage: 4Gi}}]
";
const TYPE: &str = "ProviderServiceAccountsReady";
const VMOP: &str = "vmoperator.vmware.com";
/// The resync interval, because Secrets aren't watched: two minutes, ±20 %, and some margin.
const LOOKED_AT: std::time::Duration = std::time::Duration::from_mins(4);

#[test]
fn a_guests_programs_get_rights_in_their_namespace_and_no_more() {
    story("provider-accounts", |story| async move {
        story.apply(MANIFEST).await;
        story.wait_until_running("lent").await;
        wait_for_accounts(&story).await;
        let guest = story.guest_client("lent").await;
        the_token_opens_what_it_is_for(&story, &guest).await;
        let worker = the_guests_programs_are_served(&story, &guest, "v1alpha1").await;
        let (cloud_provider, storage) =
            (cloud_provider(&story, &guest).await, storage_driver(&story, &guest).await);
        let clients = [&cloud_provider, &storage];
        providers::change_claims_of_their_own_alone(&story, clients, &worker, "v1alpha1").await;
        providers::put_back_what_was_replaced(&story, &worker).await;
        providers::find_the_supervisor(&story, "lent", &guest).await;
        what_goes_beyond_is_refused_and_named(&story, &guest).await;
        a_token_that_is_deleted_is_made_again_and_follows(&story, &guest).await;
        story.delete("TanzuKubernetesCluster", "lent", CLUSTER).await;
        for kind in ["ProviderServiceAccount", "Secret"] {
            story.wait_until_none_left(kind).await;
        }
    });
}

/// An administrator serves v1alpha2. Other stories must not run meanwhile, because kubectl uses the newest version.
#[test]
fn a_guests_programs_are_served_in_v1alpha2() {
    disruptive_story("later-version", |story| async move {
        story.apply(MANIFEST).await;
        story.wait_until_running("lent").await;
        wait_for_accounts(&story).await;
        let guest = story.guest_client("lent").await;
        providers::serve_versions(&story, true).await;
        let steps = async {
            let worker = the_guests_programs_are_served(&story, &guest, "v1alpha2").await;
            let (cloud_provider, storage) =
                (cloud_provider(&story, &guest).await, storage_driver(&story, &guest).await);
            let clients = [&cloud_provider, &storage];
            providers::change_claims_of_their_own_alone(&story, clients, &worker, "v1alpha2").await;
            providers::change_nothing_else(&story, &story.client(), &worker).await;
        };
        let steps = AssertUnwindSafe(steps).catch_unwind().await;
        providers::serve_versions(&story, false).await;
        steps.unwrap();
        story.delete("TanzuKubernetesCluster", "lent", CLUSTER).await;
    });
}

/// Waits until the accounts are in the guest, where programs don't use them yet.
async fn wait_for_accounts(story: &Story) {
    story.wait_for_condition("WCPCluster", "lent", TYPE, "True").await;
    wait_for_reason(story, "ProviderServiceAccountsUnused").await;
    story.wait_for_condition("TanzuKubernetesCluster", "lent", "Ready", "True").await;
}

/// Waits until the cluster reports this reason for its accounts, and returns the message.
async fn wait_for_reason(story: &Story, reason: &str) -> String {
    story
        .wait_for(&format!("{TYPE} is False: {reason}"), SOON, || async {
            let cluster = story.get("TanzuKubernetesCluster", "lent").await?;
            let found = condition(&cluster, TYPE)?;
            let is_so = found["status"] == "False" && found["reason"] == reason;
            is_so.then(|| found["message"].as_str().unwrap_or_default().to_owned())
        })
        .await
}

async fn guest_secret(guest: &Client, namespace: &str, name: &str) -> Option<Secret> {
    Api::<Secret>::namespaced(guest.clone(), namespace).get_opt(name).await.expect("the guest answers")
}

fn text(secret: &Secret, key: &str) -> String {
    let value = &secret.data.as_ref().expect("data")[key].0;
    String::from_utf8(value.clone()).expect("UTF-8")
}

/// Returns a client for the management API server that uses only the token and CA in the guest's Secret.
async fn with_token(story: &Story, secret: &Secret) -> Client {
    let mut kubeconfig = Kubeconfig::read_from(&story.shared.session.kubeconfig).expect("a kubeconfig");
    let token = serde_json::from_value::<AuthInfo>(json!({"token": text(secret, "token")})).expect("a user");
    kubeconfig.auth_infos.iter_mut().for_each(|user| user.auth_info = Some(token.clone()));
    let options = KubeConfigOptions::default();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &options).await.expect("a configuration");
    let authority = x509_of(&text(secret, "ca.crt"));
    config.root_cert = Some(authority);
    Client::try_from(config).expect("a client")
}

fn x509_of(pem: &str) -> Vec<Vec<u8>> {
    use base64::Engine;
    let bodies = pem.split("-----BEGIN CERTIFICATE-----").skip(1);
    let decode = |body: &str| {
        let body = body.split("-----END").next().expect("an end").split_whitespace().collect::<String>();
        base64::engine::general_purpose::STANDARD.decode(body).expect("base64")
    };
    bodies.map(decode).collect()
}

async fn list(client: &Client, kind: &str, namespace: &str) -> kube::Result<()> {
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &api_resource(kind));
    api.list(&ListParams::default()).await.map(drop)
}

async fn the_token_opens_what_it_is_for(story: &Story, guest: &Client) {
    let secret = guest_secret(guest, "vmware-system-cloud-provider", "cloud-provider-creds").await;
    let secret = secret.expect("the cloud provider's Secret");
    assert_eq!(text(&secret, "namespace"), story.namespace);
    let client = with_token(story, &secret).await;
    list(&client, "VirtualMachine", &story.namespace).await.expect("VirtualMachines of the namespace");
    for (kind, namespace) in [("Secret", story.namespace.as_str()), ("VirtualMachine", "default")] {
        let refused = list(&client, kind, namespace).await.expect_err("no rights");
        assert!(matches!(&refused, kube::Error::Api(status) if status.code == 403), "{kind}: {refused}");
    }
    let storage = guest_secret(guest, "vmware-system-csi", "pvcsi-provider-creds").await;
    list(
        &with_token(story, &storage.expect("the storage driver's")).await,
        "PersistentVolumeClaim",
        &story.namespace,
    )
    .await
    .expect("claims of the namespace");
}

/// The guest's programs create load balancers and volumes through this API version. Returns the worker node.
async fn the_guests_programs_are_served(story: &Story, guest: &Client, version: &str) -> Value {
    let nodes = Api::<Node>::all(guest.clone()).list(&ListParams::default()).await.expect("nodes").items;
    let worker = nodes.iter().find(|node| node.name_any().contains("-workers-")).expect("the worker");
    let worker = serde_json::to_value(worker).expect("JSON");
    let client = cloud_provider(story, guest).await;
    providers::serve_a_load_balancer(story, "lent", &client, &worker, version).await;
    providers::serve_a_volume(story, &storage_driver(story, guest).await, &worker, version).await;
    worker
}

async fn cloud_provider(story: &Story, guest: &Client) -> Client {
    let secret = guest_secret(guest, "vmware-system-cloud-provider", "cloud-provider-creds").await;
    with_token(story, &secret.expect("the cloud provider's")).await
}

async fn storage_driver(story: &Story, guest: &Client) -> Client {
    let secret = guest_secret(guest, "vmware-system-csi", "pvcsi-provider-creds").await;
    with_token(story, &secret.expect("the storage driver's")).await
}

/// Grants additional permissions, with a token in the guest's Secret `default/lent-more`.
async fn lend(story: &Story, group: &str, resource: &str) {
    let account = json!({
        "apiVersion": "infrastructure.cluster.vmware.com/v1beta2", "kind": "ProviderServiceAccount",
        "metadata": {"name": "lent-more", "namespace": story.namespace},
        "spec": {
            "ref": {"name": "lent"}, "targetNamespace": "default", "targetSecretName": "lent-more",
            "rules": [{"apiGroups": [group], "resources": [resource], "verbs": ["get", "list"]}],
        },
    });
    story.apply_object(&account).await;
}

async fn what_goes_beyond_is_refused_and_named(story: &Story, guest: &Client) {
    lend(story, VMOP, "virtualmachines").await;
    story
        .wait_for("the guest has the further token", SOON, || async {
            guest_secret(guest, "default", "lent-more").await
        })
        .await;
    lend(story, "", "nodes").await;
    let message = wait_for_reason(story, "ProviderServiceAccountsReconciliationFailed").await;
    assert_contains(
        message,
        &["ProviderServiceAccount provider-accounts/lent-more", "not currently held", "nodes"],
    );
    story.wait_for_ready("lent", &["ProviderServiceAccountsReconciliationFailed"]).await;
    lend(story, "", "secrets").await;
    let is_refused = |account: &Value| {
        let message = account["status"]["errorMessage"].as_str().unwrap_or_default();
        message.contains("\"secrets\" of the API group \"\"")
    };
    let account = ("ProviderServiceAccount", "lent-more");
    story.wait_for_object("Secrets are refused", SOON, account, is_refused).await;
    story.delete("ProviderServiceAccount", "lent-more", SOON).await;
    assert!(guest_secret(guest, "default", "lent-more").await.is_none(), "the guest's Secret stays");
    for kind in ["ServiceAccount", "Role", "RoleBinding"] {
        assert!(story.get(kind, "lent-more").await.is_none(), "the {kind} stays");
    }
    wait_for_accounts(story).await;
}

async fn a_token_that_is_deleted_is_made_again_and_follows(story: &Story, guest: &Client) {
    let copy = || async {
        let secret = guest_secret(guest, "vmware-system-cloud-provider", "cloud-provider-creds").await;
        text(&secret.expect("the guest's Secret"), "token")
    };
    let before = copy().await;
    story
        .api("Secret")
        .delete("lent-ccm-secret", &DeleteParams::default())
        .await
        .expect("the token's Secret");
    let csi: Api<Secret> = Api::namespaced(guest.clone(), "vmware-system-csi");
    merge(&csi, "pvcsi-provider-creds", json!({"data": {"token": "c3BvaWx0"}}))
        .await
        .expect("the guest's Secret");
    story.wait_until("the guest has another token", LOOKED_AT, async || copy().await != before).await;
    story
        .wait_for("what the guest's user changed is as it was", LOOKED_AT, || async {
            let secret = guest_secret(guest, "vmware-system-csi", "pvcsi-provider-creds").await?;
            (text(&secret, "token") != "spoilt").then_some(())
        })
        .await;
    let secret = guest_secret(guest, "vmware-system-cloud-provider", "cloud-provider-creds").await;
    let client = with_token(story, &secret.expect("the guest's Secret")).await;
    list(&client, "VirtualMachine", &story.namespace).await.expect("VirtualMachines of the namespace");
}
