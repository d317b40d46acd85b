//! A user runs the commands in docs/clusters.md to create, change and delete a cluster. Invalid requests are refused.

use std::path::Path;

use api::gcm::TanzuKubernetesRelease;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use layercake::kube::connection;
use layercake::local::cluster::SIMULATED_ADDRESSES;
use serde_json::{Value, json};

use crate::harness::command;
use crate::harness::documented_commands::Page;
use crate::harness::home::Home;
use crate::harness::nodeless::Nodeless;
use crate::harness::story::{CLUSTER, SOON, Story, assert_contains, story};

const NAMESPACE: &str = "commands";
const RELEASES: [&str; 2] = ["v1.34.2---vmware.1-vkr.1", "v1.35.1---vmware.1-vkr.1"];
const STORAGE: &str = "vsan-default-storage-policy";

#[test]
fn a_cluster_is_created_changed_and_deleted_as_the_page_says() {
    story("commands-bootstrap", |story| async move {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path());
        let site = home.simulate_site("--filename", NAMESPACE);
        home.layercake(&[["bootstrap", "start", "lab"].map(str::to_owned).as_slice(), &site].concat(), 0);
        let kubeconfig = folder.path().join(".local/state/layercake/bootstrap/lab/kubeconfig");
        let client = connection::client(Some(&kubeconfig), None).await.unwrap();
        gives_the_answers_of_the_page(&story.in_cluster(client, NAMESPACE), &kubeconfig, &home).await;
        home.layercake(&["bootstrap", "remove", "lab"], 0);
        home.layercake(&["site", "stop"], 0);
        assert_eq!(home.processes(), Vec::<String>::new());
    });
}

/// A user creates, lists and deletes a cluster with the same commands on an installed management cluster, and gets the same output.
#[test]
fn an_installed_management_cluster_gives_the_same_answers() {
    story("commands-init", |story| async move {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path());
        let site = home.simulate_site("--filename", NAMESPACE);
        let cluster = Nodeless::start(&story, &[("vmop", SIMULATED_ADDRESSES)]).await;
        let kubeconfig = cluster.kubeconfig().to_owned();
        let init = ["init", "--nodes-pull-images", "--kubeconfig", kubeconfig.to_str().unwrap()];
        home.layercake(&[init.map(str::to_owned).as_slice(), &site].concat(), 0);
        let in_cluster = story.in_cluster(cluster.client(), NAMESPACE);
        in_cluster
            .wait_until("gcm has checked the releases of the library", CLUSTER, async || {
                let releases = Api::<TanzuKubernetesRelease>::all(cluster.client());
                let Ok(found) = releases.list(&ListParams::default()).await else { return false };
                RELEASES.iter().all(|name| {
                    found.iter().any(|release| release.name_any() == *name && release.is_checked())
                })
            })
            .await;
        let mut page = Page::with_kubeconfig("clusters.md", &kubeconfig);
        page.run_section("Create a cluster").await;
        lists_as_json(&in_cluster, &kubeconfig, 1);
        let (code, text) = layercake(&in_cluster, &kubeconfig, &["delete", "team"]);
        assert_eq!(code, Some(0), "{text}");
        assert_contains(
            &text,
            &["commands/team: the deletion has begun", "Machines left: ", "commands/team: deleted"],
        );
        assert_eq!(home.vms("team").await, 0);
        cluster.stop().await;
        home.layercake(&["site", "stop"], 0);
        assert_eq!(home.processes(), Vec::<String>::new());
    });
}

async fn gives_the_answers_of_the_page(story: &Story, kubeconfig: &Path, home: &Home) {
    let mut page = Page::with_kubeconfig("clusters.md", kubeconfig);
    page.run_section("Create a cluster").await;
    refuses_what_cannot_be(story, kubeconfig).await;
    page.run_section("Change a cluster").await;
    page.run_section("Changes by other tools").await;
    applies_what_other_commands_have_set(story, kubeconfig, &page.home().join("team.yaml"));
    refuses_fields_of_other_tools(story, kubeconfig).await;
    lists_as_json(story, kubeconfig, 2);
    page.run_section("Delete a cluster").await;
    page.close();
    names_what_holds_a_cluster(story, kubeconfig).await;
    assert_eq!(home.vms("team").await, 0);
}

/// Each refusal names a remedy, has the documented exit status, and doesn't change anything.
async fn refuses_what_cannot_be(story: &Story, kubeconfig: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        std::fs::write(folder.path().join(name), text).unwrap();
        folder.path().join(name).to_str().unwrap().to_owned()
    };
    let cluster = |namespace: &str, class: &str| {
        let nodes = json!({"replicas": 1, "vmClass": class, "storageClass": STORAGE});
        json!({
            "apiVersion": "run.tanzu.vmware.com/v1alpha3", "kind": "TanzuKubernetesCluster",
            "metadata": {"name": "other", "namespace": namespace},
            "spec": {"topology": {"controlPlane": nodes, "nodePools": [{"name": "a", "unknown": 1}]}},
        })
        .to_string()
    };
    let elsewhere = file("elsewhere.yaml", &cluster("default", "best-effort-small"));
    let unknown = file("unknown.yaml", &cluster(NAMESPACE, "best-effort-small"));
    let text = file("text.yaml", "just a text");
    let before = story.get("TanzuKubernetesCluster", "team").await.unwrap();
    let cases: &[(&[&str], i32, &[&str])] = &[
        (
            &["apply", "-f", &elsewhere],
            3,
            &["for namespace default, not for commands", "Nothing was changed"],
        ),
        (
            &["apply", "-f", &unknown],
            3,
            &["unknown: field not declared in schema", "unknown.yaml:1: error: ", "Nothing was changed"],
        ),
        (&["apply", "-f", &text], 2, &["is not a Kubernetes manifest"]),
        (&["apply", "-f", "nowhere.yaml"], 2, &["cannot read nowhere.yaml"]),
        (&["apply", "-f", &unknown, "--dry-run=client"], 1, &["unknown"]),
        (&["scale", "team", "--replicas", "2", "--pool", "none"], 3, &["Its pools are workers"]),
        (&["scale", "team", "--replicas", "2", "--control-plane"], 3, &["can only be either 1 or 3 nodes"]),
        (&["scale", "none", "--replicas", "2"], 1, &["commands/none does not exist", "layercake list -A"]),
        (&["upgrade", "team", "--release", "v1.99"], 3, &["v1.99"]),
        (&["list", "--context", "none"], 3, &["context none does not exist. Pass one with --context: "]),
        (&["delete", "none"], 1, &["commands/none does not exist"]),
    ];
    for (args, status, words) in cases {
        let (code, errors) = layercake(story, kubeconfig, args);
        assert_eq!(code, Some(*status), "{args:?}: {errors}");
        assert_contains(&errors, words);
    }
    let after = story.get("TanzuKubernetesCluster", "team").await.unwrap();
    assert_eq!(before["metadata"]["generation"], after["metadata"]["generation"]);
    assert!(story.get("TanzuKubernetesCluster", "other").await.is_none());
}

/// A manifest with the values that `upgrade` and `scale` have set isn't a change, in whatever form it names the
/// release.
fn applies_what_other_commands_have_set(story: &Story, kubeconfig: &Path, manifest: &Path) {
    let file = manifest.with_file_name("current.yaml");
    let text = std::fs::read_to_string(manifest).unwrap();
    let (control_plane, pools) = text.split_once("nodePools").unwrap();
    let text = format!("{control_plane}nodePools{}", pools.replace("replicas: 1", "replicas: 2"));
    let (code, errors) = layercake(story, kubeconfig, &["upgrade", "team", "--release", "v1.35"]);
    assert_eq!(code, Some(0), "{errors}");
    assert_contains(&errors, &["is release v1.35 already"]);
    for release in ["v1.35", "v1.35.1"] {
        std::fs::write(&file, text.replace("v1.34", release)).unwrap();
        let (code, errors) = layercake(story, kubeconfig, &["apply", "-f", file.to_str().unwrap()]);
        assert_eq!(code, Some(0), "{release}: {errors}");
    }
}

/// A GitOps tool has set a field. `scale` doesn't change it without `--force-conflicts`.
async fn refuses_fields_of_other_tools(story: &Story, kubeconfig: &Path) {
    let pool = json!({"name": "workers", "replicas": 2});
    let applied = json!({
        "apiVersion": "run.tanzu.vmware.com/v1alpha3", "kind": "TanzuKubernetesCluster",
        "metadata": {"name": "team"},
        "spec": {"topology": {"nodePools": [pool]}},
    });
    let params = PatchParams::apply("kustomize-controller").force();
    story.api("TanzuKubernetesCluster").patch("team", &params, &Patch::Apply(applied)).await.unwrap();
    let scale = ["scale", "team", "--replicas", "1", "--dry-run"];
    let (code, errors) = layercake(story, kubeconfig, &scale);
    assert_eq!(code, Some(3), "{errors}");
    assert_contains(
        &errors,
        &["spec.topology.nodePools[workers].replicas was set by kustomize-controller", "--force-conflicts"],
    );
    let (code, errors) = layercake(story, kubeconfig, &[&scale[..], &["--force-conflicts"]].concat());
    assert_eq!(code, Some(0), "{errors}");
    assert_contains(&errors, &["from 2 to 1 nodes (dry run: nothing was changed)"]);
}

fn lists_as_json(story: &Story, kubeconfig: &Path, workers: u32) {
    let (code, text) = layercake(story, kubeconfig, &["list", "-o", "json"]);
    assert_eq!(code, Some(0), "{text}");
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["schema"], 1);
    let cluster = &document["clusters"][0];
    assert_eq!((&cluster["name"], &cluster["phase"]), (&json!("team"), &json!("running")));
    assert_eq!(cluster["workers"], json!({"ready": workers, "wanted": workers}));
}

/// `scale` on a paused cluster and `delete` on a held cluster time out and name the cause. `apply` refuses a cluster
/// that is being deleted.
async fn names_what_holds_a_cluster(story: &Story, kubeconfig: &Path) {
    const HOLD: &str = "backup.example.com/hold";
    const PAUSED: &str = "cluster.x-k8s.io/paused";
    let nodes = json!({"replicas": 1, "vmClass": "best-effort-small", "storageClass": STORAGE});
    let cluster = json!({
        "apiVersion": "run.tanzu.vmware.com/v1alpha3", "kind": "TanzuKubernetesCluster",
        "metadata": {"name": "held", "finalizers": [HOLD], "annotations": {PAUSED: "true"}},
        "spec": {"topology": {"controlPlane": nodes, "nodePools": []}},
    });
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("held.json");
    std::fs::write(&file, cluster.to_string()).unwrap();
    let apply = ["apply", "-f", file.to_str().unwrap(), "--release", "v1.34", "--wait=false"];
    let (code, errors) = layercake(story, kubeconfig, &apply);
    assert_eq!(code, Some(0), "{errors}");
    let resume = format!("kubectl annotate tkc held -n {NAMESPACE} {PAUSED}-");
    let late = |args: &[&str], words: &[&str]| {
        let (code, errors) = layercake(story, kubeconfig, &[args, &["--timeout", "2s"]].concat());
        assert_eq!(code, Some(4), "{errors}");
        assert_contains(&errors, words);
    };
    let resumes = "The work continues when the cluster is resumed";
    late(&["scale", "held", "--control-plane", "--replicas", "3"], &[&resume, resumes]);
    let (_, listed) = layercake(story, kubeconfig, &["list"]);
    assert_contains(&listed, &["(paused)"]);
    let (_, described) = layercake(story, kubeconfig, &["describe", "tkc", "held"]);
    assert_contains(&described, &[&resume]);

    let words = format!("waits for finalizer {HOLD} of the TanzuKubernetesCluster");
    let is_named = async || {
        let (code, errors) = layercake(story, kubeconfig, &["delete", "held", "--timeout", "2s"]);
        assert_eq!(code, Some(4), "{errors}");
        errors.contains(&words)
    };
    story.wait_until("the finalizer is named", CLUSTER, is_named).await;
    let (code, errors) = layercake(story, kubeconfig, &apply);
    assert_eq!(code, Some(3), "{errors}");
    let gone = format!("layercake delete held -n {NAMESPACE}");
    assert_contains(&errors, &["held is being deleted", &gone, "Nothing was changed"]);
    let released = json!({"metadata": {"finalizers": null, "annotations": {PAUSED: null}}});
    story.patch("TanzuKubernetesCluster", "held", released).await;
    story.wait_until_gone("TanzuKubernetesCluster", "held", SOON).await;
}

/// Runs `layercake` in the namespace. Returns its exit status and its output on both streams.
fn layercake(story: &Story, kubeconfig: &Path, args: &[&str]) -> (Option<i32>, String) {
    let mut command = command::layercake(args);
    command.args(["-n", &story.namespace]).env("KUBECONFIG", kubeconfig);
    let output = command.output().unwrap();
    let (printed, errors) = command::texts(&output);
    (output.status.code(), printed + &errors)
}
