//! A user runs `layercake init` on an empty cluster, which becomes a management cluster. The docs/install.md story
//! also creates clusters.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Output;

use clap::Parser as _;
use components::catalogue::{COMPONENTS, Registries};
use components::plan;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt};
use layercake::args::{Cli, CliCommand};
use layercake::init::{self, decision, facts::Facts};
use serde_json::{Value, json};
use support::wait::poll;

use crate::command::site::{discover, thumbprint};
use crate::harness::cert_manager::CertManager;
use crate::harness::command::layercake;
use crate::harness::killed_client::Kill;
use crate::harness::nodeless::Nodeless;
use crate::harness::story::{SOON, Story, assert_contains, condition, story};

#[test]
fn an_empty_cluster_becomes_a_management_cluster() {
    story("init", |story| async move {
        let cluster = Nodeless::start(&story, &[]).await;
        let files = tempfile::tempdir().unwrap();
        let site = files.path().join("site.yaml");
        std::fs::write(&site, site_file(&story).await).unwrap();
        let site = site.to_str().unwrap();

        assert_refuses(&story, &cluster, site, files.path()).await;
        let planned = run_init(&story, &cluster, &["-f", site, "--dry-run"]).await;
        let core = COMPONENTS[0].image_reference(&Registries::default());
        let words = [
            &format!("cluster-api            install {core}"),
            "VirtualMachineClassBinding",
            "Nothing was changed",
        ];
        assert_ends(&planned, 0, &words);
        let deployments: Api<Deployment> = Api::all(cluster.client());
        assert!(deployments.list(&ListParams::default()).await.unwrap().items.is_empty());

        let programs = write_settings(files.path(), "log-level");
        let installed = run_init(&story, &cluster, &["-f", site, "-f", &programs]).await;
        let words = [SETTINGS, "gcm                    v0.1.0 is available", "Next: layercake doctor"];
        assert_ends(&installed, 0, &words);
        assert_webhooks_refuse(&cluster).await;
        assert_capw_is_changed(&cluster).await;
        let before = generations(&deployments).await;
        assert_eq!(before.len(), COMPONENTS.len(), "{before:?}");

        // The cluster already contains the site file's objects, the program settings and the credentials.
        let again = run(&cluster, &["init"]).await;
        assert_ends(&again, 0, &[SETTINGS, "are served", "Next: layercake doctor"]);
        assert_eq!(generations(&deployments).await, before, "a second installation replaces no Pod");
        assert_capw_is_changed(&cluster).await;
        assert_ends(&run(&cluster, &["init", "--dry-run"]).await, 0, &["Nothing was changed"]);
        let planned = run(&cluster, &["uninstall", "--plan"]).await;
        assert_contains(String::from_utf8_lossy(&planned.stdout), &["delete namespace vmware-system-tkg"]);
        assert_eq!(generations(&deployments).await, before, "a plan changes nothing");
        cluster.stop().await;
    });
}

#[test]
fn cert_manager_issues_the_certificates_of_webhooks() {
    story("init-cert-manager", |story| async move {
        let cluster = Nodeless::start(&story, &[]).await;
        let cert_manager = CertManager::start(cluster.kubeconfig());
        let files = tempfile::tempdir().unwrap();
        let site = files.path().join("site.yaml");
        std::fs::write(&site, site_file(&story).await).unwrap();
        let installed = run_init(&story, &cluster, &["-f", site.to_str().unwrap(), "--timeout", "2m"]).await;
        let words = [
            "cert-manager issues the certificates of webhooks",
            "gcm                    v0.1.0 is available",
        ];
        assert_ends(&installed, 0, &words);
        assert_webhooks_refuse(&cluster).await;

        let kind = GroupVersionKind::gvk("cert-manager.io", "v1", "Certificate");
        let certificates: Api<DynamicObject> =
            Api::all_with(cluster.client(), &ApiResource::from_gvk_with_plural(&kind, "certificates"));
        let certificates = certificates.list(&ListParams::default()).await.unwrap().items;
        // capw doesn't have webhooks.
        assert_eq!(certificates.len(), COMPONENTS.len() - 1);
        for certificate in certificates {
            let name = certificate.name_any();
            assert_eq!(condition(&json!(certificate), "Ready").unwrap()["status"], "True", "{name}");
        }
        let deployments: Api<Deployment> = Api::all(cluster.client());
        let before = generations(&deployments).await;
        assert_ends(&run(&cluster, &["init"]).await, 0, &["Next: layercake doctor"]);
        assert_eq!(generations(&deployments).await, before, "a second installation replaces no Pod");
        drop(cert_manager);
        cluster.stop().await;
    });
}

#[test]
#[ignore = "installs two hundred times, takes seven to nine minutes"]
fn an_installation_that_is_killed_at_each_of_its_writes_continues() {
    story("init-killed", |story| async move {
        let cluster = Nodeless::start(&story, &[]).await;
        let files = tempfile::tempdir().unwrap();
        let site = files.path().join("site.yaml");
        std::fs::write(&site, site_file(&story).await).unwrap();
        let vcenter = &story.shared.session.vcenter;
        let password = vcenter.password_file.to_str().unwrap();
        let site = site.to_str().unwrap();
        let args =
            ["layercake", "init", "-f", site, "--user", &vcenter.username, "--password-file", password];
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
        assert_webhooks_refuse(&cluster).await;
        let before = installed_versions(&cluster.client()).await;
        assert!(at > before.len(), "{at} writes for {} objects", before.len());
        init::install(cluster.client(), &args).await.unwrap();
        assert_eq!(installed_versions(&cluster.client()).await, before, "a second one changes nothing");
        delete_killed_at_each_write(&cluster, &config).await;
        cluster.stop().await;
    });
}

/// An uninstallation that is killed at each of its writes finally removes the whole installation.
async fn delete_killed_at_each_write(cluster: &Nodeless, config: &Config) {
    let CliCommand::Uninstall(args) = Cli::parse_from(["layercake", "uninstall"]).command else {
        panic!("another command")
    };
    let mut at = 0;
    loop {
        at += 1;
        let kill = Kill::new(at, at % 2 == 0);
        match kill.run(init::uninstall(kill.client(config.clone()), &args)).await {
            None => {}
            Some(Ok(())) => break,
            Some(Err(error)) => panic!("killed at write {at}: {error:#}"),
        }
    }
    println!("[init-killed] killed at each of {} deletions", at - 1);
    assert!(at > COMPONENTS.len());
    let definitions: Api<CustomResourceDefinition> = Api::all(cluster.client());
    assert!(definitions.list_metadata(&ListParams::default()).await.unwrap().items.is_empty());
    let namespaces: Api<Namespace> = Api::all(cluster.client());
    for component in &COMPONENTS {
        assert!(namespaces.get_opt(component.namespace).await.unwrap().is_none(), "{}", component.name);
    }
}

/// The line about the changed settings in the output of `init`.
const SETTINGS: &str = "settings               capw --log-level=debug memory limit 512Mi";

/// Writes a file with changed settings of capw, and returns its path. `flag` is the name of the flag for the log level.
fn write_settings(folder: &Path, flag: &str) -> String {
    let programs = format!("capw: {{flags: {{{flag}: debug}}, resources: {{limits: {{memory: 512Mi}}}}}}");
    let settings = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "layercake-programs", "namespace": "vmware-system-vmop" },
        "data": { "programs": programs },
    });
    let path = folder.join(format!("{flag}.yaml"));
    std::fs::write(&path, settings.to_string()).unwrap();
    path.to_str().unwrap().to_owned()
}

async fn assert_capw_is_changed(cluster: &Nodeless) {
    let deployments: Api<Deployment> = Api::namespaced(cluster.client(), "vmware-system-capw");
    let deployment = json!(deployments.get("vmware-system-capw-controller-manager").await.unwrap());
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["args"].as_array().unwrap().last().unwrap(), "--log-level=debug");
    assert_eq!(container["resources"]["limits"]["memory"], "512Mi");
}

async fn site_file(story: &Story) -> String {
    let chosen =
        ["--network", "workload-network", "--library", "layercake", "--node-addresses", "10.0.0.0/8"];
    let (endpoints, gateway) = control_plane_addresses(story).await;
    let pool = ["--endpoints", &endpoints, "--prefix", "16", "--gateway", &gateway];
    let site = ["--thumbprint", &thumbprint(story), "--namespace", &story.namespace];
    let found = discover(story, &[&chosen[..], &pool, &site].concat());
    assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stderr));
    String::from_utf8(found.stdout).unwrap()
}

/// Returns control plane addresses that the stack's own pool assigns last, and their gateway.
pub async fn control_plane_addresses(story: &Story) -> (String, String) {
    let pools: Api<DynamicObject> = story.cluster_api("GlobalInClusterIPPool");
    let pool = pools.get("control-planes").await.unwrap();
    let claimed = pool.data["spec"]["addresses"][0].as_str().unwrap().to_owned();
    let (_, last) = claimed.rsplit_once('-').unwrap();
    let network = last.rsplit_once('.').unwrap().0;
    (format!("{network}.240-{last}"), format!("{network}.1"))
}

/// Each refusal comes before the first write.
async fn assert_refuses(story: &Story, cluster: &Nodeless, site: &str, files: &Path) {
    let missing = run(cluster, &["init", "-f", site]).await;
    let words = ["there is no Secret vmware-system-vmop/vcenter-credentials", "--password-file"];
    assert_ends(&missing, 3, &words);
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
        (changed("network", "Network: workload", "Network: other"), "LC0801 network"),
        (changed("datastore", "Datastore: ", "Datastore: no-"), "LC0701 Datastore"),
        (changed("policy", "storagePolicyID: ", "storagePolicyID: 00"), "LC0702 StorageClass"),
        (changed("port", "VcPort: \"", "VcPort: \"1\" # \""), "in the site file"),
        (changed("folder", "vm-folder: group-", "vm-folder: group-9"), "does not exist"),
    ];
    for (path, words) in cases {
        assert_ends(&run_init(story, cluster, &["-f", &path]).await, 3, &[words, "Nothing was changed"]);
    }
    let unknown = run_init(story, cluster, &["-f", site, "-f", &write_settings(files, "log-levle")]).await;
    let words =
        ["capw: there is no flag log-levle that you can set. Did you mean log-level?", "Nothing was changed"];
    assert_ends(&unknown, 3, &words);
    let tag = run_init(story, cluster, &["-f", site, "--layercake-tag", "v9.9.9"]).await;
    assert_ends(
        &tag,
        3,
        &["--layercake-tag v9.9.9 is of another version", "v0.1.0-2", "Nothing was changed"],
    );
    let password = files.join("password");
    std::fs::write(&password, "wrong").unwrap();
    let user = ["--user", &story.shared.session.vcenter.username, "--password-file"];
    let wrong = [&["init", "-f", site], &user[..], &[password.to_str().unwrap()]].concat();
    assert_ends(
        &run(cluster, &wrong).await,
        3,
        &["LC0304", "Correct --user or the password in --password-file"],
    );
}

/// The API server calls a webhook of gcm and of each Cluster API manager, and each refuses an invalid object.
async fn assert_webhooks_refuse(cluster: &Nodeless) {
    let object = |version: &str, kind: &str, spec: Value| {
        let metadata = json!({ "name": "wrong", "namespace": "default" });
        json!({ "apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec })
    };
    let files = json!([{
        "path": "/a", "content": "x", "contentFrom": { "secret": { "name": "s", "key": "k" } },
    }]);
    let infrastructure =
        json!({ "apiGroup": "infrastructure.cluster.vmware.com", "kind": "WCPMachineTemplate", "name": "t" });
    let wrong = [
        object(
            "cluster.x-k8s.io/v1beta2",
            "Cluster",
            json!({
                "topology": { "classRef": { "name": "none" }, "version": "wrong" },
            }),
        ),
        object("bootstrap.cluster.x-k8s.io/v1beta2", "KubeadmConfig", json!({ "files": files })),
        object(
            "controlplane.cluster.x-k8s.io/v1beta2",
            "KubeadmControlPlane",
            json!({
                "replicas": 2, "version": "v1.35.4", "machineTemplate": { "spec": { "infrastructureRef": infrastructure } },
            }),
        ),
        object(
            "ipam.cluster.x-k8s.io/v1alpha2",
            "InClusterIPPool",
            json!({
                "addresses": ["300.0.0.1"], "prefix": 24,
            }),
        ),
        object(
            "run.tanzu.vmware.com/v1alpha3",
            "TanzuKubernetesCluster",
            json!({ "topology": {
            "nodePools": [],
                "controlPlane": {
                "replicas": 1, "vmClass": "c", "storageClass": "s", "tkr": { "reference": { "name": "none" } },
            },
        } }),
        ),
    ];
    for object in wrong {
        let api = api_of(&cluster.client(), &object);
        let params = PostParams { dry_run: true, ..PostParams::default() };
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        // cert-manager may still be writing the CA into the webhook configuration.
        let refused = poll("the webhook answers", SOON, || async {
            let refused = api.create(&params, &object).await;
            let refused = refused.expect_err("an object that is wrong").to_string();
            refused.contains("admission webhook").then_some(refused)
        });
        assert_contains(refused.await.unwrap(), &["denied the request"]);
    }
}

async fn generations(deployments: &Api<Deployment>) -> Vec<(String, Option<i64>)> {
    let found = deployments.list(&ListParams::default()).await.unwrap();
    found.iter().map(|one| (one.name_any(), one.metadata.generation)).collect()
}

/// Returns the resource versions for all installed objects.
async fn installed_versions(client: &Client) -> BTreeMap<String, String> {
    let facts = Facts::gather(client).await.unwrap();
    let options = decision::options(&facts, Registries::default(), None, None, BTreeMap::new());
    let components: Vec<_> = COMPONENTS.iter().collect();
    let installation = plan::installation(&options, &components, &BTreeMap::new()).unwrap();
    let mut versions = BTreeMap::new();
    for document in installation.documents() {
        let name = document["metadata"]["name"].as_str().unwrap();
        let found = api_of(client, document).get_metadata(name).await;
        let found = found.unwrap_or_else(|error| panic!("{} {name}: {error}", document["kind"]));
        let namespace = found.namespace().unwrap_or_default();
        versions
            .insert(format!("{} {namespace}/{name}", document["kind"]), found.resource_version().unwrap());
    }
    let secrets: Api<k8s_openapi::api::core::v1::Secret> = Api::all(client.clone());
    for secret in secrets.list_metadata(&ListParams::default()).await.unwrap() {
        let (namespace, name) = (secret.namespace().unwrap(), secret.name_any());
        versions.insert(format!("Secret {namespace}/{name}"), secret.resource_version().unwrap());
    }
    versions
}

/// Returns the API for a document's kind, in its namespace if it has one.
fn api_of(client: &Client, document: &Value) -> Api<DynamicObject> {
    let version = document["apiVersion"].as_str().unwrap();
    let (group, version) = version.rsplit_once('/').unwrap_or(("", version));
    let kind = GroupVersionKind::gvk(group, version, document["kind"].as_str().unwrap());
    let resource = ApiResource::from_gvk(&kind);
    match document["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

async fn run_init(story: &Story, cluster: &Nodeless, args: &[&str]) -> Output {
    let vcenter = &story.shared.session.vcenter;
    let password = vcenter.password_file.to_str().unwrap();
    run(cluster, &[&["init", "--user", &vcenter.username, "--password-file", password], args].concat()).await
}

async fn run(cluster: &Nodeless, args: &[&str]) -> Output {
    let mut command = layercake(args);
    command.arg("--kubeconfig").arg(cluster.kubeconfig());
    // Meanwhile, this process connects the API server with the programs.
    tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap()
}

fn assert_ends(output: &Output, status: i32, words: &[&str]) {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{errors}");
    assert_contains(&errors, words);
}
