//! A user creates clusters from each kind of node image. The image's content decides how the control plane address is
//! held, and which container network the cluster gets.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ContainerStatus, Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{EvictParams, ListParams, PostParams};
use kube::{Api, ResourceExt};
use layercake::args::SiteNetwork;
use serde_json::{Value, json};
use sim::control::PowerAction;

use crate::harness::command::layercake;
use crate::harness::objects::{cluster_of_release, upgrade};
use crate::harness::shared_stack::network;
use crate::harness::story::{
    CLUSTER, SOON, Story, assert_contains, condition, is_ready, story, story_on_own_stack,
    story_without_registry,
};

/// The cluster name, release, static Pod that holds the address, its image, and the container network for each kind
/// of node image.
const KINDS: [(&str, &str, &str, &str, &str); 5] = [
    ("older", "v1.26.5---vmware.2-fips.1-tkg.1", "kube-vip", "ghcr.io/kube-vip/kube-vip:v1.0.1", "antrea"),
    ("named", NAMES_KUBE_VIP, "kube-vip", "localhost:5000/vmware.io/kube-vip:v0.8.9_vmware.1", "flannel"),
    ("pulled", HOLDS_NOTHING, "kube-vip", "ghcr.io/kube-vip/kube-vip:v1.0.1", "flannel"),
    ("built", "v1.31.4", "kube-vip", "ghcr.io/kube-vip/kube-vip:v1.0.1", "flannel"),
    ("own", NEEDS_NOTHING, "keepalived", "localhost/layercake/keepalived:debian-13", "flannel"),
];
/// A release whose image doesn't contain a program to hold an address.
const HOLDS_NOTHING: &str = "v1.33.1---vmware.1-fips-vkr.2";
/// A release whose image contains kube-vip, and Packages with container networks.
const NAMES_KUBE_VIP: &str = "v1.34.2---vmware.1-vkr.1";
/// A private registry whose authority is in `spec.settings.network.trust`.
const TRUSTED: &str = "registry.corp.example";
/// A private registry whose authority isn't trusted.
const UNTRUSTED: &str = "registry.other.example";
/// The time for which the registry is down.
const OUTAGE: Duration = Duration::from_hours(1);
/// A release that doesn't pull images from a registry.
const NEEDS_NOTHING: &str = "v1.36.3---layercake.1";

fn manifest(name: &str, release: &str, [control_planes, workers]: [u32; 2], query: &str) -> String {
    format!(
        "
apiVersion: run.tanzu.vmware.com/v1alpha3
kind: TanzuKubernetesCluster
metadata:
  name: {name}
  namespace: NAMESPACE
  annotations: {{run.tanzu.vmware.com/resolve-os-image: \"{query}\"}}
spec:
  topology:
    controlPlane:
      replicas: {control_planes}
      vmClass: best-effort-xsmall
      storageClass: gold
      tkr: {{reference: {{name: {release}}}}}
    nodePools:
    - {{name: workers, replicas: {workers}, vmClass: best-effort-xsmall, storageClass: gold}}
"
    )
}

#[test]
fn every_kind_of_node_image_makes_a_cluster_where_nodes_reach_a_registry() {
    story("kinds", |story| async move {
        if network() == SiteNetwork::Nsx {
            eprintln!("skipped: with NSX a load balancer has the address");
            return;
        }
        let authority = std::fs::read_to_string(&story.shared.session.vcenter.ca_file).unwrap();
        story.shared.guests.registry().add_private(TRUSTED, &authority);
        story.shared.guests.registry().add_private(UNTRUSTED, "another authority");
        let trust = json!([{"name": "corp", "data": STANDARD.encode(authority)}]);
        for (name, release, pod, image, _) in KINDS {
            let query = if name == "built" { "os-name=ubuntu" } else { "" };
            let manifest = manifest(name, release, [1, 1], query);
            story
                .apply(&format!(
                    "{manifest}  settings: {{network: {{trust: {{additionalTrustedCAs: {trust}}}}}}}\n"
                ))
                .await;
            let control_plane = story
                .wait_for("a control plane is made", SOON, || async {
                    story.get("KubeadmControlPlane", &format!("{name}-control-plane")).await
                })
                .await;
            let files = control_plane["spec"]["kubeadmConfigSpec"]["files"].to_string();
            assert_contains(files, &[&format!("/etc/kubernetes/manifests/{pod}.yaml"), image]);
        }
        for (name, .., network) in KINDS {
            let cluster = story.wait_until_running(name).await;
            assert_eq!(cluster["spec"]["settings"]["network"]["cni"]["name"], network, "{name}");
            nodes_trust_the_private_registry(&story, name).await;
        }
    });
}

/// A worker pulls an image from the registry that the cluster trusts, but not from the other one.
async fn nodes_trust_the_private_registry(story: &Story, cluster: &str) {
    let guest = story.guest_client(cluster).await;
    let pods: Api<Pod> = Api::namespaced(guest, "default");
    for (name, host) in [("trusted", TRUSTED), ("untrusted", UNTRUSTED)] {
        let pod = json!({
            "metadata": {"name": name},
            "spec": {"containers": [{"name": "app", "image": format!("{host}/app:v1")}]},
        });
        pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    }
    let runs =
        async || pods.get("trusted").await.is_ok_and(|pod| pod.status.unwrap().phase.unwrap() == "Running");
    story.wait_until(&format!("{cluster} pulls an image of the private registry"), SOON, runs).await;
    let refused = async || {
        let status = pods.get("untrusted").await.ok()?.status?;
        let waiting = status.container_statuses?.pop()?.state?.waiting?;
        Some(waiting.message.unwrap_or_default())
    };
    let message = story.wait_for("the other image is refused", SOON, refused).await;
    assert_contains(message, &["x509: certificate signed by unknown authority"]);
}

#[test]
fn a_cluster_that_no_node_image_can_make_is_refused_and_another_outlives_its_holders() {
    story_without_registry("cut-off", |story| async move {
        let remedy = ["neither keepalived nor kube-vip", "layercake image build", "--nodes-pull-images"];
        let refusal = story.try_apply(&manifest("refused", HOLDS_NOTHING, [1, 1], "")).await.unwrap_err();
        assert_contains(&refusal, &remedy);
        assert_contains(doctor(&story, &manifest("refused", HOLDS_NOTHING, [1, 1], "")), &remedy);
        let other = manifest("refused", NEEDS_NOTHING, [1, 1], "os-name=ubuntu");
        let systems = ["no node image of", "os-name=debian,os-version=13"];
        assert_contains(story.try_apply(&other).await.unwrap_err(), &systems);
        assert!(story.list("TanzuKubernetesCluster").await.is_empty());

        story.apply(&manifest("held", NEEDS_NOTHING, [3, 1], "")).await;
        story.wait_until_running("held").await;
        each_node_goes_once(&story, "held").await;
    });
}

/// Each kind gets three control plane nodes and three workers. Each control plane node holds the address at some
/// time.
#[test]
#[ignore = "makes thirty nodes, takes ten minutes"]
fn control_planes_of_every_kind_of_node_image_hand_their_address_over() {
    story("handover", |story| async move {
        if network() == SiteNetwork::Nsx {
            eprintln!("skipped: with NSX a load balancer has the address");
            return;
        }
        for (name, release, ..) in KINDS {
            let began = Instant::now();
            story.apply(&manifest(name, release, [3, 3], "")).await;
            story
                .wait_until(&format!("{name} runs"), CLUSTER * 2, async || {
                    let cluster = story.get("TanzuKubernetesCluster", name).await;
                    cluster.is_some_and(|cluster| cluster["status"]["phase"] == "running")
                })
                .await;
            let ran = began.elapsed();
            each_node_goes_once(&story, name).await;
            eprintln!("{name} runs after {ran:.0?}; each node is replaced after {:.0?}", began.elapsed());
            story.delete("TanzuKubernetesCluster", name, CLUSTER).await;
        }
    });
}

/// Running nodes don't need the registry. A new node reports what it waits for, and joins when the registry is back.
#[test]
#[ignore = "takes an hour and a quarter"]
fn a_registry_that_is_down_for_an_hour_delays_new_nodes_only() {
    story_on_own_stack("no-registry", |story| async move {
        if network() == SiteNetwork::Nsx {
            eprintln!("skipped: with NSX a load balancer has the address");
            return;
        }
        let release = "v1.31.4";
        story.apply(&manifest("steady", release, [1, 1], "")).await;
        story.wait_until_running("steady").await;
        let before: BTreeSet<_> = story.vms().await.into_iter().map(|vm| vm.moid).collect();
        story.shared.guests.registry().set_reachable(false);
        story.apply(&manifest("steady", release, [1, 2], "")).await;
        story.apply(&manifest("later", release, [1, 1], "")).await;
        let pull = [
            "ImagePullBackOff",
            "ghcr.io/flannel-io/",
            "on node steady-workers-",
            "spec.settings.network.proxy",
        ];
        let boot =
            ["BootstrapFailed", "ghcr.io/kube-vip/kube-vip", "spec.settings.network.proxy", "delete Machine"];
        for (name, words) in [("steady", pull.as_slice()), ("later", &boot)] {
            story.wait_for_ready(name, words).await;
        }
        let guest: Api<Node> = Api::all(story.guest_client("steady").await);
        let began = Instant::now();
        let messages = RefCell::new(BTreeMap::new());
        story
            .wait_until("the hour is over", OUTAGE + SOON, async || {
                for name in ["steady", "later"] {
                    let cluster = story.get("TanzuKubernetesCluster", name).await.unwrap();
                    let message = condition(&cluster, "Ready").unwrap_or(&Value::Null)["message"].to_string();
                    if messages.borrow_mut().insert(name, message.clone()).as_ref() != Some(&message) {
                        eprintln!("{:6.0?} {name}: {message}", began.elapsed());
                    }
                }
                let vms: BTreeSet<_> = story.vms().await.into_iter().map(|vm| vm.moid).collect();
                assert!(before.is_subset(&vms), "{before:?} {vms:?}");
                let nodes = guest.list(&ListParams::default()).await.unwrap();
                assert!(nodes.iter().filter(|node| is_ready(node)).count() >= 2, "{nodes:?}");
                began.elapsed() >= OUTAGE
            })
            .await;
        story.shared.guests.registry().set_reachable(true);
        story.wait_until_running("steady").await;
        // A failed first boot isn't repeated. The user deletes the Machine, as the message says.
        let machines = story.list("Machine").await;
        let names = machines.iter().filter_map(|machine| machine["metadata"]["name"].as_str());
        let failed = names.filter(|name| name.starts_with("later-control-plane-")).collect::<Vec<_>>();
        story.delete("Machine", failed[0], CLUSTER).await;
        story.wait_until_running("later").await;
        let vms: BTreeSet<_> = story.vms().await.into_iter().map(|vm| vm.moid).collect();
        assert!(before.is_subset(&vms), "{before:?} {vms:?}");
    });
}

/// An Antrea bundle for one release's VMware images: an agent whose image the node image contains.
const ANTREA: &str = "
apiVersion: v1
kind: ConfigMap
metadata:
  name: antrea
  namespace: NAMESPACE
  labels: {tkg.tanzu.vmware.com/addon-name: antrea}
  annotations: {tkg.tanzu.vmware.com/addon-type: cni}
data:
  version: v1.34.0
  antrea.yaml: |
    apiVersion: apps/v1
    kind: DaemonSet
    metadata: {name: antrea-agent, namespace: kube-system}
    spec:
      selector: {matchLabels: {app: antrea}}
      template:
        metadata: {labels: {app: antrea}}
        spec:
          hostNetwork: true
          tolerations: [{operator: Exists}]
          containers:
          - name: antrea-agent
            image: localhost:5000/vmware.io/antrea/antrea-agent:v1.34.0_vmware.1
            volumeMounts: [{name: cni, mountPath: /host/etc/cni/net.d}]
          volumes: [{name: cni, hostPath: {path: /etc/cni/net.d}}]
";

#[test]
fn a_container_network_that_nodes_cannot_have_is_refused_until_a_bundle_brings_it() {
    story_without_registry("own-cni", |story| async move {
        let of = |network: &str| {
            let manifest = manifest("carried", NAMES_KUBE_VIP, [1, 1], "");
            if network.is_empty() {
                manifest
            } else {
                format!("{manifest}  settings: {{network: {{cni: {{name: {network}}}}}}}\n")
            }
        };
        let not_pulled = ["does not contain the container images of flannel", "--nodes-pull-images"];
        let packaged =
            ["contains antrea", "Package is of API group data.packaging.carvel.dev", "addon-name: antrea"];
        for (network, refusal) in
            [("", not_pulled.as_slice()), ("flannel", &not_pulled), ("antrea", &packaged)]
        {
            assert_contains(story.try_apply(&of(network)).await.unwrap_err(), refusal);
            assert_contains(doctor(&story, &of(network)), refusal);
        }
        // The bundle names an image that is missing on the nodes. The cluster reports it, and runs after the user
        // corrects the bundle.
        story.apply(&ANTREA.replace("v1.34.0_vmware.1", "v9")).await;
        story.apply(&of("antrea")).await;
        // The message names only one Pod, which is the worker's if it has already joined.
        let missing = ["DaemonSet kube-system/antrea-agent", "on node carried-", "antrea-agent:v9"];
        story.wait_for_ready("carried", &missing).await;
        story.apply(ANTREA).await;
        story.wait_until_running("carried").await;
    });
}

/// During an upgrade, old nodes keep the agents that their image contains, and at least one CoreDNS Pod stays ready.
#[test]
fn an_upgrade_leaves_the_agents_of_old_nodes_alone() {
    story("agents", |story| async move {
        story.apply(&cluster_of_release("agents", HOLDS_NOTHING, 1, ("workers", 2))).await;
        story.wait_until_running("agents").await;
        let pods: Api<Pod> = Api::all(story.guest_client("agents").await);
        // The cluster runs before its DNS does.
        dns_may_lose_a_pod(&story).await;
        story.patch("TanzuKubernetesCluster", "agents", upgrade("v1.34.2---vmware.1-vkr.1")).await;
        let began = Instant::now();
        let missed = RefCell::new(BTreeMap::new());
        story
            .wait_until("the cluster runs v1.34.2", CLUSTER * 2, async || {
                let Ok(pods) = pods.list(&ListParams::default()).await else { return false };
                let mut now: Vec<_> = pods.iter().filter_map(missed_image).collect();
                if !pods.iter().any(serves_dns) {
                    now.push("no Pod of CoreDNS is ready".to_owned());
                }
                for what in now {
                    missed.borrow_mut().entry(what).or_insert_with(|| began.elapsed());
                }
                let Some(cluster) = story.get("TanzuKubernetesCluster", "agents").await else { return false };
                let status = &cluster["status"];
                status["version"] == "v1.34.2+vmware.1-vkr.1" && status["phase"] == "running"
            })
            .await;
        assert_eq!(missed.into_inner(), BTreeMap::new());
        // Pods on deleted nodes are removed later.
        for (image, wanted) in [("kube-proxy:v1.34.2_vmware.1", 3), ("coredns:v1.12.1_vmware.1", 2)] {
            let has_image = |pod: &Pod| {
                let mut containers = pod.spec.iter().flat_map(|spec| &spec.containers);
                containers.any(|one| one.image.as_ref().is_some_and(|one| one.ends_with(image)))
            };
            story
                .wait_until(&format!("{wanted} Pods have image {image}"), SOON, async || {
                    let pods = pods.list(&ListParams::default()).await;
                    pods.is_ok_and(|pods| pods.iter().filter(|pod| has_image(pod)).count() == wanted)
                })
                .await;
        }
        a_drain_leaves_one_pod_of_coredns(&story).await;
    });
}

/// Evicts both CoreDNS Pods, like the drain of a node with both. The second eviction is refused until another Pod is
/// ready.
async fn a_drain_leaves_one_pod_of_coredns(story: &Story) {
    dns_may_lose_a_pod(story).await;
    let guest = story.guest_client("agents").await;
    let pods: Api<Pod> = Api::namespaced(guest, "kube-system");
    let of_coredns = ListParams::default().labels("k8s-app=kube-dns");
    let dns = pods.list(&of_coredns).await.unwrap();
    assert_eq!(dns.items.len(), 2);
    for pod in dns {
        // The client retries requests that are refused with Too Many Requests.
        pods.evict(&pod.name_any(), &EvictParams::default()).await.unwrap();
    }
    let left = pods.list(&of_coredns).await.unwrap();
    assert!(left.iter().any(|pod| serves_dns(pod) && pod.metadata.deletion_timestamp.is_none()));
}

/// Waits until the CoreDNS disruption budget exists and both Pods are healthy.
async fn dns_may_lose_a_pod(story: &Story) {
    let budgets: Api<PodDisruptionBudget> =
        Api::namespaced(story.guest_client("agents").await, "kube-system");
    story
        .wait_until("the budget of CoreDNS allows one disruption", SOON, async || {
            let budget = budgets.get("coredns").await.ok().and_then(|budget| budget.status);
            budget.is_some_and(|status| status.disruptions_allowed == Some(1))
        })
        .await;
}

fn serves_dns(pod: &Pod) -> bool {
    let is_dns = pod.labels().get("k8s-app").is_some_and(|app| app == "kube-dns");
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    is_dns && conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// Returns the image that a DaemonSet's Pod can't pull, if any.
fn missed_image(pod: &Pod) -> Option<String> {
    let is_agent = pod.owner_references().iter().any(|owner| owner.kind == "DaemonSet");
    let statuses = pod.status.as_ref()?.container_statuses.as_deref()?.iter().filter(|_| is_agent);
    let waiting = |status: &ContainerStatus| status.state.as_ref()?.waiting.as_ref()?.reason.clone();
    let mut missed =
        statuses.filter(|status| waiting(status).is_some_and(|reason| reason == "ImagePullBackOff"));
    missed.next().map(|status| {
        format!("{} on {:?}", status.image, pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()))
    })
}

/// Powers off one control plane node after the other, including the one that holds the address, and waits until each
/// is back.
async fn each_node_goes_once(story: &Story, name: &str) {
    let vms: Vec<_> = story
        .vms()
        .await
        .into_iter()
        .filter(|vm| vm.name.starts_with(&format!("{name}-control-plane")))
        .collect();
    assert_eq!(vms.len(), 3);
    for vm in vms {
        story.shared.control().power(&vm.moid, PowerAction::Off).await.unwrap();
        let off = Timestamp::now();
        story
            .wait_for("another node holds the address", SOON, || async {
                let nodes: Api<Node> = Api::all(story.guest_client(name).await);
                let nodes = nodes.list(&ListParams::default()).await.ok()?;
                nodes.iter().any(|node| node.name_any() != vm.name).then_some(())
            })
            .await;
        story
            .wait_for("its kubelet runs again", CLUSTER, || async {
                let leases: Api<Lease> = Api::namespaced(story.guest_client(name).await, "kube-node-lease");
                let renewed = leases.get(&vm.name).await.ok()?.spec?.renew_time?.0;
                (renewed > off).then_some(())
            })
            .await;
        story
            .wait_for("the control plane has three nodes again", CLUSTER, || async {
                let control_plane =
                    story.get("KubeadmControlPlane", &format!("{name}-control-plane")).await?;
                let status = &control_plane["status"];
                let machines = story.list("Machine").await;
                let runs = |machine: &Value| machine["status"]["phase"] == "Running";
                (status["readyReplicas"] == 3 && machines.iter().all(runs)).then_some(())
            })
            .await;
    }
}

/// Returns the `layercake doctor` output for a manifest.
fn doctor(story: &Story, manifest: &str) -> String {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), manifest.replace("NAMESPACE", &story.namespace)).unwrap();
    let mut doctor = layercake(&["doctor", "-o", "json", "--only", "LC10", "--kubeconfig"]);
    doctor.arg(&story.shared.session.kubeconfig).arg("-f").arg(file.path());
    let output = doctor.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
