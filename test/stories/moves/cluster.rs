//! A user moves a TanzuKubernetesCluster to another management cluster with `layercake move`, and it keeps working
//! there.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::discovery::{ApiGroup, Discovery, Scope, verbs};
use kube::{Client, ResourceExt};
use layercake::args::SiteNetwork;
use plane::{Program, Running};
use serde_json::json;
use sim::SiteNetworks;

use crate::harness::command::{layercake, texts};
use crate::harness::objects::one_and_one;
use crate::harness::requests::RequestProbe;
use crate::harness::second_cluster::SecondCluster;
use crate::harness::shared_stack::network;
use crate::harness::story::{CLUSTER, SOON, Story, assert_contains, disruptive_story, merge};
use crate::moves::cluster_id::{BUNDLE, ClusterId};
use crate::moves::plain_cluster::{clusterctl, management_cluster, vms_of};

/// Owners whose objects aren't moved: an account's permissions and token are recreated in the target.
const MADE_ANEW: [&str; 2] = ["ProviderServiceAccount", "ServiceAccount"];

#[test]
fn a_cluster_moves_with_all_below_it_and_its_endpoint_answers_all_along() {
    disruptive_story("moving", |story| async move {
        if network() == SiteNetwork::Nsx {
            eprintln!("skipped: a load balancer of another management cluster gives another address");
            return;
        }
        story.apply(&format!("{BUNDLE}---{}", one_and_one("mover", "workers"))).await;
        story.wait_until_running("mover").await;
        let named = ClusterId::find(&story).await;
        clusterctl_describes_it(&story).await;
        a_timeout_is_set(&story).await;
        let second = management_cluster(&story).await;
        // Two gcm replicas with different settings, as during a rollout: one leads, and admission calls the other.
        let gcm = Program::new("gcm", env!("CARGO_BIN_EXE_layercake").as_ref());
        let leader = second.run(gcm.clone().replica(1)).await;
        let _next =
            second.run(gcm.arg("--virtual-ip=kube-vip").arg("--virtual-ip-image=example.com/vip:1")).await;
        let client = RequestProbe::of(story.guest_config("mover").await);
        story.shared.control().take_journal().await.unwrap();
        it_goes(&story, &second).await;
        the_other_gcm_takes_over(&story, &second, leader).await;
        named.assert_same(&story, &second.api("TanzuKubernetesCluster", &story.namespace)).await;
        assert_untouched(&story).await;
        // The administrator installs an address provider only now, because it wasn't needed before.
        let providers =
            story.shared.stack().await.site().providers(&second.client(), SiteNetworks::PortGroups);
        it_is_scaled(&story, &second).await;
        story.shared.control().take_journal().await.unwrap();
        it_comes_back(&story, &second).await;
        named.assert_same(&story, &story.api("TanzuKubernetesCluster")).await;
        assert_untouched(&story).await;
        client.assert_none_lost();
        story.delete("TanzuKubernetesCluster", "mover", CLUSTER).await;
        assert!(vms_of(&story, "mover").await.is_empty());
        drop(providers);
        second.stop().await;
    });
}

/// Sets a timeout that the pool loses after the move.
async fn a_timeout_is_set(story: &Story) {
    let pool = json!([{
        "name": "workers", "replicas": 1, "vmClass": "best-effort-xsmall", "storageClass": "gold", "nodeDrainTimeout": "2m0s",
    }]);
    story.patch("TanzuKubernetesCluster", "mover", json!({"spec": {"topology": {"nodePools": pool}}})).await;
    let deployments = story.api("MachineDeployment");
    story
        .wait_for("the pool has a timeout", SOON, || async {
            (drain_timeout(&deployments).await? == 120).then_some(())
        })
        .await;
}

/// Returns the node drain timeout in the only MachineDeployment.
async fn drain_timeout(deployments: &Api<DynamicObject>) -> Option<serde_json::Value> {
    let all = deployments.list(&ListParams::default()).await.ok()?.items;
    let [deployment] = all.as_slice() else { return None };
    Some(deployment.data["spec"]["template"]["spec"]["deletion"]["nodeDrainTimeoutSeconds"].clone())
}

/// The user's move is interrupted while copies are created, and then repeated.
async fn it_goes(story: &Story, second: &SecondCluster) {
    let releases = story.cluster_api("TanzuKubernetesRelease");
    story
        .wait_for("the other management cluster has the releases", SOON, || async {
            let there =
                second.cluster_api("TanzuKubernetesRelease").list(&ListParams::default()).await.ok()?;
            (there.items.len() >= releases.list(&ListParams::default()).await.ok()?.items.len()).then_some(())
        })
        .await;
    let before = vms_of(story, "mover").await;
    let below = below_cluster(&story.client(), &story.namespace).await;
    assert!(below.len() > 20, "{below:?}");
    let (here, there) = (&story.shared.session.kubeconfig, second.kubeconfig());
    let machines = second.api("Machine", &story.namespace);
    let planned = layercake_move(story, here, there, &["--dry-run"], 0);
    assert_contains(&planned, &["namespace moving: move", "Machine 2", "VirtualMachine 2"]);
    assert!(names(&second.api("Cluster", &story.namespace)).await.is_empty(), "a dry run copies nothing");
    a_refused_move_is_undone(story, second).await;
    break_off(story, (here, there), async || !names(&machines).await.is_empty()).await;
    let moved = layercake_move(story, here, there, &[], 0);
    assert_contains(&moved, &["an interrupted move has left copies", "verified: the same 2 VMs"]);
    assert_contains(layercake_move(story, here, there, &[], 0), &["nothing to move"]);
    wait_until_it_runs(story, &second.api("TanzuKubernetesCluster", &story.namespace)).await;
    assert_eq!(vms_of(story, "mover").await, before);
    let moved = below_cluster(&second.client(), &story.namespace).await;
    let missing: Vec<_> = below.difference(&moved).collect();
    assert!(missing.is_empty(), "what Kubernetes removes with its owner did not come along: {missing:?}");
    for kind in ["TanzuKubernetesCluster", "Cluster", "Machine", "VirtualMachine"] {
        assert!(story.list(kind).await.is_empty(), "a {kind} is left where it came from");
    }
}

/// The target refuses an object after others were copied.
async fn a_refused_move_is_undone(story: &Story, second: &SecondCluster) {
    let refused = Forbidden::begin(second, Forbidden::CONTROL_PLANES).await;
    story
        .wait_until("the API server knows what is forbidden", SOON, async || {
            let trial = json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "trial", "namespace": story.namespace},
            });
            let denied = layercake::kube::apply::dry_run(&second.client(), &trial).await;
            denied.is_err_and(|error| error.to_string().contains("not here"))
        })
        .await;
    let errors = layercake_move(story, &story.shared.session.kubeconfig, second.kubeconfig(), &[], 1);
    assert_contains(&errors, &["the move was undone", "not here"]);
    refused.end(second).await;
    for kind in ["TanzuKubernetesCluster", "Cluster", "WCPCluster"] {
        let left = names(&second.api(kind, &story.namespace)).await;
        assert!(left.is_empty(), "a {kind} is left in the target: {left:?}");
    }
    let source = story.api("Cluster").get("mover").await.unwrap();
    assert_ne!(source.data["spec"]["paused"], true, "the source is managed as before");
}

/// The other gcm applies new TanzuKubernetesCluster settings, and doesn't replace nodes because of its own settings.
async fn the_other_gcm_takes_over(story: &Story, second: &SecondCluster, leader: Running) {
    let machines = second.api("Machine", &story.namespace);
    let before = names(&machines).await;
    leader.stop().await;
    let clusters = second.api("TanzuKubernetesCluster", &story.namespace);
    merge(&clusters, "mover", json!({"spec": {"topology": {"controlPlane": {"nodeDrainTimeout": "1m0s"}}}}))
        .await
        .unwrap();
    story
        .wait_for("the other gcm is at work", SOON, || async {
            let all = machines.list(&ListParams::default()).await.ok()?.items;
            let took =
                |machine: &DynamicObject| machine.data["spec"]["deletion"]["nodeDrainTimeoutSeconds"] == 60;
            all.iter().any(took).then_some(())
        })
        .await;
    assert_eq!(names(&machines).await, before);
}

/// The user scales the pool and drops its timeout. The field is removed although clusterctl wrote it, because its
/// controller owns it.
async fn it_is_scaled(story: &Story, second: &SecondCluster) {
    let before = vms_of(story, "mover").await;
    let clusters = second.api("TanzuKubernetesCluster", &story.namespace);
    let pool =
        json!([{"name": "workers", "replicas": 2, "vmClass": "best-effort-xsmall", "storageClass": "gold"}]);
    merge(&clusters, "mover", json!({"spec": {"topology": {"nodePools": pool}}})).await.unwrap();
    story
        .wait_for("it is scaled where it went", CLUSTER, || async {
            let cluster = clusters.get_opt("mover").await.ok()??;
            let status = &cluster.data["status"];
            (status["phase"] == "running" && status["totalWorkerReplicas"] == 2).then_some(())
        })
        .await;
    let timeout = drain_timeout(&second.api("MachineDeployment", &story.namespace)).await;
    assert_eq!(timeout, Some(serde_json::Value::Null));
    let after = vms_of(story, "mover").await;
    assert!(after.len() == 3 && before.iter().all(|vm| after.contains(vm)), "{before:?} {after:?}");
}

/// The move back is interrupted while the originals are deleted. The user resumes the source, where the deleted
/// objects aren't recreated, and repeats the command.
async fn it_comes_back(story: &Story, second: &SecondCluster) {
    let before = vms_of(story, "mover").await;
    let (here, there) = (&story.shared.session.kubeconfig, second.kubeconfig());
    let (originals, control_planes) =
        (second.api("Cluster", &story.namespace), second.api("KubeadmControlPlane", &story.namespace));
    remove_before_its_infrastructure(&control_planes, &second.api("WCPCluster", &story.namespace)).await;
    let policies = second.api("VirtualMachineSetResourcePolicy", &story.namespace);
    let forbidden = Forbidden::begin(second, Forbidden::REMOVALS).await;
    wait_until_clusters_stay(story, second, true).await;
    let both_gone = async || names(&control_planes).await.is_empty() && names(&policies).await.is_empty();
    break_off(story, (there, here), both_gone).await;
    forbidden.end(second).await;
    wait_until_clusters_stay(story, second, false).await;
    resume(&originals).await;
    story
        .wait_for("gcm notices the move", SOON, || async {
            let cluster = second.api("TanzuKubernetesCluster", &story.namespace).get("mover").await.ok()?;
            cluster.data["status"]["conditions"]
                .to_string()
                .contains("the other management cluster")
                .then_some(())
        })
        .await;
    story
        .wait_for("capw decides about the policy", SOON, || async {
            let cluster = second.api("WCPCluster", &story.namespace).get("mover").await.ok()?;
            let noticed = cluster.data["status"]["conditions"].to_string().contains("MovedAway");
            (noticed || !names(&policies).await.is_empty()).then_some(())
        })
        .await;
    assert_eq!(names(&policies).await, [""; 0]);
    assert_eq!(names(&control_planes).await, [""; 0]);
    let moved = layercake_move(story, there, here, &[], 0);
    assert_contains(&moved, &["complete an interrupted move: all copies exist", "verified: the same 3 VMs"]);
    wait_until_it_runs(story, &story.api("TanzuKubernetesCluster")).await;
    assert_eq!(vms_of(story, "mover").await, before);
    for kind in ["TanzuKubernetesCluster", "Cluster", "Machine", "VirtualMachine"] {
        let left = names(&second.api(kind, &story.namespace)).await;
        assert!(left.is_empty(), "a {kind} is left where it came from: {left:?}");
    }
}

/// clusterctl deletes objects with the same owners in any order, and owners last. With the WCPCluster as a second
/// owner, the control plane is always deleted before it.
async fn remove_before_its_infrastructure(
    control_planes: &Api<DynamicObject>,
    infrastructure: &Api<DynamicObject>,
) {
    let owner = infrastructure.get("mover").await.unwrap();
    let kind = owner.types.as_ref().unwrap();
    let reference = json!({
        "apiVersion": kind.api_version, "kind": kind.kind, "name": owner.name_any(), "uid": owner.uid(),
    });
    let [name] = names(control_planes).await.try_into().unwrap();
    let added = json!([{"op": "add", "path": "/metadata/ownerReferences/-", "value": reference}]);
    let patch = Patch::Json::<()>(serde_json::from_value(added).unwrap());
    control_planes.patch(&name, &PatchParams::default(), &patch).await.unwrap();
}

/// Runs `layercake move` for the story's namespace until it ends with this status. Returns its output.
fn layercake_move(story: &Story, from: &Path, to: &Path, flags: &[&str], status: i32) -> String {
    let output = layercake_move_command(story, from, to).args(flags).output().unwrap();
    let (printed, errors) = texts(&output);
    eprintln!("{printed}{errors}");
    assert_eq!(output.status.code(), Some(status), "{printed}{errors}");
    printed + &errors
}

fn layercake_move_command(story: &Story, from: &Path, to: &Path) -> Command {
    let mut command = layercake(&["move", "-n", &story.namespace, "--kubeconfig"]);
    command.arg(from).arg("--to-kubeconfig").arg(to).env("HOME", story.folder());
    command
}

pub async fn assert_untouched(story: &Story) {
    let calls = story.shared.control().take_journal().await.unwrap();
    assert!(calls.is_empty(), "somebody changed something: {calls:?}");
}

async fn resume(clusters: &Api<DynamicObject>) {
    merge(clusters, "mover", json!({"spec": {"paused": false}})).await.unwrap();
}

async fn wait_until_it_runs(story: &Story, clusters: &Api<DynamicObject>) {
    story
        .wait_for("it runs where it went", CLUSTER, || async {
            let cluster = clusters.get_opt("mover").await.ok()??;
            let uid = cluster.metadata.uid.clone();
            let made_as = cluster.metadata.annotations.as_ref()?.get("run.tanzu.vmware.com/made-as").cloned();
            (cluster.data["status"]["phase"] == "running" && made_as == uid).then_some(())
        })
        .await;
}

/// A policy of the second management cluster that refuses some requests.
struct Forbidden;

impl Forbidden {
    const NAME: &str = "forbidden-here";
    /// To delete Clusters, and to mark WCPClusters for deletion. So clusterctl deletes only the other originals.
    const REMOVALS: (&str, &str, &str) = (
        r#"[{"apiGroups": ["cluster.x-k8s.io"], "apiVersions": ["*"], "operations": ["DELETE"], "resources": ["clusters"]},
            {"apiGroups": ["infrastructure.cluster.vmware.com"], "apiVersions": ["*"], "operations": ["UPDATE"], "resources": ["wcpclusters"]}]"#,
        "request.operation == 'UPDATE' && !('clusterctl.cluster.x-k8s.io/delete-for-move' in object.metadata.?annotations.orValue({}))",
        "clusters stay",
    );
    /// To create KubeadmControlPlanes, and ConfigMap `trial`.
    const CONTROL_PLANES: (&str, &str, &str) = (
        r#"[{"apiGroups": ["controlplane.cluster.x-k8s.io"], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["kubeadmcontrolplanes"]},
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]"#,
        "object.kind != 'KubeadmControlPlane' && object.metadata.name != 'trial'",
        "not here",
    );

    async fn begin(second: &SecondCluster, (rules, expression, message): (&str, &str, &str)) -> Self {
        let rules: serde_json::Value = serde_json::from_str(rules).unwrap();
        let policy = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": Self::NAME},
            "spec": {
                "matchConstraints": {"resourceRules": rules},
                "validations": [{"expression": expression, "message": message}],
            },
        });
        let binding = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": Self::NAME},
            "spec": {"policyName": Self::NAME, "validationActions": ["Deny"]},
        });
        second.apply(&policy).await;
        second.apply(&binding).await;
        Self
    }

    async fn end(self, second: &SecondCluster) {
        let bindings = Api::<ValidatingAdmissionPolicyBinding>::all(second.client());
        bindings.delete(Self::NAME, &DeleteParams::default()).await.unwrap();
    }
}

/// Waits until the second management cluster refuses to delete Clusters, or no longer refuses it.
async fn wait_until_clusters_stay(story: &Story, second: &SecondCluster, stay: bool) {
    let clusters = second.api("Cluster", &story.namespace);
    let trial = DeleteParams { dry_run: true, ..DeleteParams::default() };
    story
        .wait_until("the API server knows what is forbidden", SOON, async || {
            clusters.delete("mover", &trial).await.is_err() == stay
        })
        .await;
}

/// The `clusterctl describe` tree is complete, and soon all conditions are true.
async fn clusterctl_describes_it(story: &Story) {
    let describe = || {
        let arguments = ["describe", "cluster", "mover", "--grouping=false"];
        let output = clusterctl(story, &story.shared.session.kubeconfig, &arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let tree = story
        .wait_for("everything is available", SOON, || async {
            Some(describe()).filter(|tree| !tree.contains("False"))
        })
        .await;
    let parts = [
        "Cluster moving/mover",
        "WCPCluster moving/mover",
        "MachineDeployment moving/mover-workers-",
        "Machine moving/mover-control-plane-",
    ];
    assert_contains(&tree, &parts);
}

/// Starts the move, and kills it as soon as `at` returns true.
async fn break_off(story: &Story, (from, to): (&Path, &Path), at: impl AsyncFn() -> bool) {
    let mut command = tokio::process::Command::from(layercake_move_command(story, from, to));
    let mut moving = command.stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true).spawn().unwrap();
    story.wait_for("the move is in the midst of it", SOON, async || at().await.then_some(())).await;
    moving.kill().await.unwrap();
}

async fn names(api: &Api<DynamicObject>) -> Vec<String> {
    let objects = api.list(&ListParams::default()).await.unwrap().items;
    objects.iter().map(ResourceExt::name_any).collect()
}

/// Returns the kinds and names of all objects that the cluster owns, except those that are recreated after a move.
async fn below_cluster(client: &Client, namespace: &str) -> BTreeSet<(String, String)> {
    let discovered = Discovery::new(client.clone()).run().await.unwrap();
    let kinds = discovered.groups().flat_map(ApiGroup::recommended_resources);
    let mut below = BTreeSet::new();
    for (kind, capabilities) in kinds {
        if capabilities.scope != Scope::Namespaced || !capabilities.supports_operation(verbs::LIST) {
            continue;
        }
        let objects = Api::<DynamicObject>::namespaced_with(client.clone(), namespace, &kind);
        let owned = |object: &DynamicObject| {
            object.owner_references().iter().any(|owner| !MADE_ANEW.contains(&owner.kind.as_str()))
        };
        let objects = objects.list(&ListParams::default()).await.unwrap().items;
        below.extend(
            objects
                .iter()
                .filter(|object| owned(object))
                .map(|object| (kind.kind.clone(), object.name_any())),
        );
    }
    below
}
