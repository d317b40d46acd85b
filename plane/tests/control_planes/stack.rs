//! Tests a control plane from its start to the death of its parent process.
//!
//! The executable runs in three roles: as the test, as the parent that is killed, and as that parent's guard.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, ObjectMeta, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::GroupVersionKind;
use kube::{Client, Config};
use plane::wait::until;
use plane::{Guard, Options, Plane, StackIdentity, members, tools};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;

/// Starts a control plane, prints its location, and waits until it is killed or the test closes standard input.
pub(crate) async fn parent(folder: Option<&Path>) {
    let tools = tools::ensure(&tools::Options::default(), &*tools::progress()).unwrap();
    let stack = Arc::new(folder.map_or_else(StackIdentity::ephemeral, StackIdentity::kept).unwrap());
    let _guard = Guard::start(&std::env::current_exe().unwrap(), &stack).unwrap();
    let plane =
        Plane::start(Options { stack: stack.clone(), tools, definitions: Vec::new(), guest_proxy: None })
            .await
            .unwrap();
    eprintln!("memory in MiB: {:?}", plane.memory());
    println!("{}", json!({ "id": stack.id(), "folder": stack.folder(), "kubeconfig": plane.kubeconfig() }));
    let _ = tokio::io::stdin().read_to_end(&mut Vec::new()).await;
}

struct Parent {
    child: Child,
    id: String,
    folder: PathBuf,
    client: Client,
}

impl Parent {
    async fn start(folder: Option<&Path>) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let mut child =
            command.arg("parent").args(folder).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let printed: Value = serde_json::from_str(&line).expect("the control plane did not start");
        let text = |name: &str| printed[name].as_str().unwrap().to_owned();
        let client = client(Path::new(&text("kubeconfig"))).await;
        Self { child, id: text("id"), folder: text("folder").into(), client }
    }

    /// Kills the parent with SIGKILL, and checks that all stack processes end.
    async fn kill(mut self) {
        assert!(members::of(&self.id).len() >= 6);
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        until("processes are left", Duration::from_secs(20), async || match &*members::of(&self.id) {
            [] => Ok(()),
            left => Err(format!("{left:?}")),
        })
        .await
        .unwrap();
    }
}

async fn client(kubeconfig: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

pub(crate) async fn an_ephemeral_stack_leaves_nothing() {
    let parent = Parent::start(None).await;
    definitions_lead_to_the_managers(&parent.client).await;
    rights_are_checked(&parent.folder).await;
    webhooks_are_called(&parent.client).await;
    a_namespace_can_be_deleted(&parent.client).await;
    let folder = parent.folder.clone();
    parent.kill().await;
    until("the folder is left", Duration::from_secs(20), async || {
        let is_gone = !folder.exists();
        is_gone.then_some(()).ok_or_else(|| folder.display().to_string())
    })
    .await
    .unwrap();
}

async fn definitions_lead_to_the_managers(client: &Client) {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for name in [
        "clusters.cluster.x-k8s.io",
        "kubeadmconfigs.bootstrap.cluster.x-k8s.io",
        "kubeadmcontrolplanes.controlplane.cluster.x-k8s.io",
    ] {
        let definition = definitions.get(name).await.unwrap();
        let conditions = definition.status.unwrap().conditions.unwrap();
        assert!(conditions.iter().any(|one| one.type_ == "Established" && one.status == "True"), "{name}");
        let webhook = definition.spec.conversion.unwrap().webhook.unwrap().client_config.unwrap();
        assert!(webhook.url.unwrap().starts_with("https://127.0.0.1:"), "{name}");
    }
}

/// Checks that a manager has exactly the rights in the upstream manifests.
async fn rights_are_checked(folder: &Path) {
    let manager = client(&folder.join("kubeconfigs/capi-core")).await;
    let clusters = Api::<DynamicObject>::all_with(manager.clone(), &cluster_resource("v1beta2"));
    clusters.list(&ListParams::default()).await.unwrap();
    let refusal = Api::<Node>::all(manager).list(&ListParams::default()).await.unwrap_err();
    assert!(matches!(&refusal, kube::Error::Api(status) if status.code == 403), "{refusal}");
}

fn cluster_resource(version: &str) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("cluster.x-k8s.io", version, "Cluster"))
}

async fn webhooks_are_called(client: &Client) {
    let clusters: Api<DynamicObject> =
        Api::default_namespaced_with(client.clone(), &cluster_resource("v1beta2"));
    let mut cluster = DynamicObject::new("good", &cluster_resource("v1beta2"));
    cluster.data = json!({ "spec": { "paused": true } });
    let refusal = clusters.create(&PostParams::default(), &cluster).await.unwrap_err().to_string();
    assert!(refusal.contains("spec.infrastructureRef"), "{refusal}");

    cluster.data = json!({ "spec": { "paused": true, "infrastructureRef": {
        "apiGroup": "infrastructure.cluster.vmware.com", "kind": "WCPCluster", "name": "good",
    } } });
    clusters.create(&PostParams::default(), &cluster).await.unwrap();
    let older: Api<DynamicObject> =
        Api::default_namespaced_with(client.clone(), &cluster_resource("v1beta1"));
    let converted = older.get("good").await.unwrap();
    let version = converted.data["spec"]["infrastructureRef"]["apiVersion"].as_str();
    assert_eq!(version, Some("infrastructure.cluster.vmware.com/v1beta2"), "{:?}", converted.data);
    clusters.delete("good", &DeleteParams::default()).await.unwrap();
}

async fn a_namespace_can_be_deleted(client: &Client) {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let metadata = ObjectMeta { name: Some("passing".to_owned()), ..ObjectMeta::default() };
    let namespace = Namespace { metadata, ..Namespace::default() };
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    namespaces.delete("passing", &DeleteParams::default()).await.unwrap();
    until("the namespace is still there", Duration::from_mins(1), async || {
        match namespaces.get_opt("passing").await {
            Ok(None) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await
    .unwrap();
}

pub(crate) async fn a_kept_stack_is_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let first = Parent::start(Some(folder.path())).await;
    let metadata = ObjectMeta { name: Some("kept".to_owned()), ..ObjectMeta::default() };
    let kept = ConfigMap { metadata, ..ConfigMap::default() };
    let maps: Api<ConfigMap> = Api::default_namespaced(first.client.clone());
    maps.create(&PostParams::default(), &kept).await.unwrap();
    first.kill().await;

    let second = Parent::start(Some(folder.path())).await;
    let maps: Api<ConfigMap> = Api::default_namespaced(second.client.clone());
    maps.get("kept").await.unwrap();
    webhooks_are_called(&second.client).await;
    second.kill().await;
    assert!(folder.path().join("etcd").exists());
}
