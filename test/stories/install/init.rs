//! `layercake init`: a cluster without anything becomes a management cluster that creates VMs.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use clap::Parser as _;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::Config;
use kube::ResourceExt;
use kube::api::{DeleteParams, DynamicObject, ListParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use layercake::args::{Cli, CliCommand};
use layercake::init;
use serde_json::{Value, json};

use crate::harness::killed_client::Kill;
use crate::harness::nodeless::Nodeless;
use crate::harness::own_server::exe;
use crate::harness::story::{CLUSTER, Story, api_resource, assert_contains, story};

/// The newest release whose nodes are simulated.
const RELEASE: &str = "v1.35";

#[test]
fn a_cluster_with_nothing_becomes_a_management_cluster() {
    story("init", |story| async move {
        let cluster =
            Nodeless::start(&story, &[("vmop", "--probe-address-map=10.0.0.0/8=127.0.0.0/8")]).await;
        let files = tempfile::tempdir().unwrap();
        let site = files.path().join("site.yaml");
        std::fs::write(&site, site_file(&story).await).unwrap();
        let site = site.to_str().unwrap();

        assert_refuses(&story, &cluster, site, files.path()).await;
        let planned = run_init(&story, &cluster, &["-f", site, "--dry-run"]).await;
        assert_ends(&planned, 0, &["cluster-api            v1.14.2 is installed", "Nothing was changed"]);
        let deployments: Api<Deployment> = Api::all(cluster.client());
        assert!(deployments.list(&ListParams::default()).await.unwrap().items.is_empty());

        let installed = run_init(&story, &cluster, &["-f", site]).await;
        assert_ends(&installed, 0, &["gcm                    v0.1.0 is available", "Next: layercake doctor"]);
        let before = generations(&deployments).await;
        assert_eq!(before.len(), 7, "{before:?}");

        create_cluster(&story, &cluster).await;
        // Again, and without the password: it is known by now.
        let again = run(&cluster, &["init", "-f", site]).await;
        assert_ends(&again, 0, &["42 are served"]);
        assert_eq!(generations(&deployments).await, before, "a second time replaces no Pod");
        let plan = run(&cluster, &["uninstall", "--plan"]).await;
        assert_ends(&plan, 3, &["1 TanzuKubernetesCluster", "Delete them first"]);
        assert_contains(String::from_utf8_lossy(&plan.stdout), &["vmop", "namespace vmware-system-vmop"]);

        delete_cluster(&story, &cluster).await;
        for namespace in ["vmware-system-tkg", "vmware-system-capw", "vmware-system-vmop"] {
            crate::harness::own_server::assert_no_right_is_missing(&cluster.program(namespace));
        }
        cluster.stop().await;
    });
}

/// What `site discover` writes for the simulated vCenter. Control planes get addresses that the stack's own pool assigns last.
async fn site_file(story: &Story) -> String {
    let pools: Api<DynamicObject> = story.cluster_api("GlobalInClusterIPPool");
    let pool = pools.get("control-planes").await.unwrap();
    let claimed = pool.data["spec"]["addresses"][0].as_str().unwrap().to_owned();
    let (_, last) = claimed.rsplit_once('-').unwrap();
    let network = last.rsplit_once('.').unwrap().0;
    let endpoints = format!("{network}.240-{last}");
    let gateway = format!("{network}.1");
    let untrusted = discover(story, &[]);
    let thumbprint = untrusted.rsplit(' ').next().unwrap().trim().to_owned();
    let args =
        ["--thumbprint", &thumbprint, "--endpoints", &endpoints, "--prefix", "16", "--gateway", &gateway];
    let found = discover(story, &[&args[..], &["--namespace", &story.namespace]].concat());
    assert!(found.contains("GlobalInClusterIPPool"), "{found}");
    found
}

fn discover(story: &Story, args: &[&str]) -> String {
    let vcenter = &story.shared.session.vcenter;
    let url = vcenter.url();
    let address = url.trim_start_matches("https://").split('/').next().unwrap();
    let output = Command::new(exe())
        .args(["site", "discover", "--vcenter", address, "--user", &vcenter.username, "--password-file"])
        .arg(&vcenter.password_file)
        .args(["--network", "workload-network", "--library", "layercake", "--node-addresses", "10.0.0.0/8"])
        .args(args)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = if output.stdout.is_empty() { output.stderr } else { output.stdout };
    String::from_utf8(text).unwrap()
}

/// Each refusal comes before the first write.
async fn assert_refuses(story: &Story, cluster: &Nodeless, site: &str, files: &Path) {
    let missing = run(cluster, &["init", "-f", site]).await;
    assert_ends(
        &missing,
        3,
        &["there is no Secret vmware-system-vmop/vcenter-credentials", "--password-file"],
    );
    let text = std::fs::read_to_string(site).unwrap();
    let changed = |name: &str, from: &str, to: &str| {
        let path = files.join(name);
        std::fs::write(&path, text.replace(from, to)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let cases = [
        (changed("library", "ContentSource: ", "ContentSource: no-"), "LC0601 content library no-"),
        (changed("configuration", "VcPNID", "VcName"), "has no VcPNID"),
        (changed("datacenter", "Datacenter: datacenter-", "Datacenter: datacenter-9"), "does not exist"),
    ];
    for (path, words) in cases {
        assert_ends(&run_init(story, cluster, &["-f", &path]).await, 3, &[words, "Nothing was changed"]);
    }
}

/// A TanzuKubernetesCluster of the new management cluster becomes a running cluster.
async fn create_cluster(story: &Story, cluster: &Nodeless) {
    let classes: Api<DynamicObject> =
        Api::all_with(cluster.client(), &api_resource("TanzuKubernetesRelease"));
    story
        .wait_for("the release exists", CLUSTER, || async {
            let found = classes.list(&ListParams::default()).await.unwrap();
            found.items.iter().any(|release| release.name_any().starts_with(RELEASE)).then_some(())
        })
        .await;
    let manifest = json!({
        "apiVersion": "run.tanzu.vmware.com/v1alpha3", "kind": "TanzuKubernetesCluster",
        "metadata": { "name": "first", "namespace": story.namespace },
        "spec": { "topology": {
            "controlPlane": {
                "replicas": 1, "vmClass": "best-effort-small", "storageClass": storage_class(cluster).await,
                "tkr": { "reference": { "name": RELEASE } },
            },
            "nodePools": [],
        }},
    });
    layercake::apply::apply(&cluster.client(), &manifest).await.unwrap();
    let clusters: Api<DynamicObject> =
        Api::namespaced_with(cluster.client(), &story.namespace, &api_resource("TanzuKubernetesCluster"));
    story
        .wait_for("the cluster is running", CLUSTER, || async {
            let found = clusters.get("first").await.unwrap();
            (found.data["status"]["phase"] == "running").then_some(())
        })
        .await;
}

async fn storage_class(cluster: &Nodeless) -> Value {
    let classes: Api<k8s_openapi::api::storage::v1::StorageClass> = Api::all(cluster.client());
    classes.list(&ListParams::default()).await.unwrap().items[0].name_any().into()
}

async fn delete_cluster(story: &Story, cluster: &Nodeless) {
    let clusters: Api<DynamicObject> =
        Api::namespaced_with(cluster.client(), &story.namespace, &api_resource("TanzuKubernetesCluster"));
    clusters.delete("first", &DeleteParams::default()).await.unwrap();
    story
        .wait_for("the cluster is gone", CLUSTER, || async {
            clusters.get_opt("first").await.unwrap().is_none().then_some(())
        })
        .await;
}

async fn generations(deployments: &Api<Deployment>) -> Vec<(String, Option<i64>)> {
    let found = deployments.list(&ListParams::default()).await.unwrap();
    found.iter().map(|one| (one.name_any(), one.metadata.generation)).collect()
}

async fn run_init(story: &Story, cluster: &Nodeless, args: &[&str]) -> Output {
    let vcenter = &story.shared.session.vcenter;
    let password = vcenter.password_file.display().to_string();
    run(cluster, &[&["init", "--user", &vcenter.username, "--password-file", &password], args].concat()).await
}

async fn run(cluster: &Nodeless, args: &[&str]) -> Output {
    let mut command = Command::new(exe());
    command.args(args).arg("--kubeconfig").arg(cluster.kubeconfig()).stdin(Stdio::null());
    // The API server calls programs by way of this process meanwhile.
    tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap()
}

fn assert_ends(output: &Output, status: i32, words: &[&str]) {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{errors}");
    assert_contains(&errors, words);
}

/// Whatever an installation had written when it was killed, the next one continues.
#[test]
#[ignore = "installs two hundred times"]
fn an_installation_that_is_killed_at_each_of_its_writes_is_continued() {
    story("init-killed", |story| async move {
        let cluster = Nodeless::start(&story, &[]).await;
        let files = tempfile::tempdir().unwrap();
        let site = files.path().join("site.yaml");
        std::fs::write(&site, site_file(&story).await).unwrap();
        let vcenter = &story.shared.session.vcenter;
        let password = vcenter.password_file.display().to_string();
        let site = site.to_str().unwrap();
        let args =
            ["layercake", "init", "-f", site, "--user", &vcenter.username, "--password-file", &password];
        let CliCommand::Init(args) = Cli::parse_from(args).command else { panic!("another command") };
        let kubeconfig = Kubeconfig::read_from(cluster.kubeconfig()).unwrap();
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();

        let mut at = 0;
        loop {
            at += 1;
            let kill = Kill::new(at, at % 2 == 0);
            match kill.run(init::install(kill.client(config.clone()), &args)).await {
                None => {}
                Some(Ok(())) => break,
                Some(Err(error)) => panic!("killed at write {at}: {error:#}"),
            }
        }
        println!("[init-killed] killed at each of {} writes", at - 1);
        assert!(at > 100, "{at}");
        assert_called_webhooks_are_trusted(&cluster).await;
        let before = installed_versions(&cluster).await;
        init::install(cluster.client(), &args).await.unwrap();
        assert_eq!(installed_versions(&cluster).await, before, "a complete installation changes nothing");
        cluster.stop().await;
    });
}

/// The API server reaches a webhook of each of Cluster API's managers, and refuses what they refuse.
async fn assert_called_webhooks_are_trusted(cluster: &Nodeless) {
    let wrong = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": { "name": "x.y", "namespace": "default" },
        "spec": { "topology": { "classRef": { "name": "none" }, "version": "wrong" } },
    });
    let refused = layercake::apply::dry_run(&cluster.client(), &wrong).await.unwrap_err().to_string();
    assert!(!refused.contains("failed calling webhook"), "{refused}");
}

/// The versions of the objects that an installation makes trusted or runs.
async fn installed_versions(cluster: &Nodeless) -> Vec<String> {
    let all = ListParams::default();
    let deployments: Api<Deployment> = Api::all(cluster.client());
    let definitions: Api<CustomResourceDefinition> = Api::all(cluster.client());
    let hooks: Api<ValidatingWebhookConfiguration> = Api::all(cluster.client());
    let secrets: Api<Secret> = Api::all(cluster.client());
    let mut versions = Vec::new();
    versions.extend(deployments.list_metadata(&all).await.unwrap().items.iter().map(version_of));
    versions.extend(definitions.list_metadata(&all).await.unwrap().items.iter().map(version_of));
    versions.extend(hooks.list_metadata(&all).await.unwrap().items.iter().map(version_of));
    versions.extend(secrets.list_metadata(&all).await.unwrap().items.iter().map(version_of));
    versions
}

fn version_of(object: &impl ResourceExt) -> String {
    let namespace = object.namespace().unwrap_or_default();
    format!("{namespace} {} {}", object.name_any(), object.resource_version().unwrap())
}
