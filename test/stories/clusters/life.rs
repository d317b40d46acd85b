//! The life of one cluster, from a v1alpha1 manifest to its deletion.

use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::core::v1::{Node, Secret};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, ResourceExt};
use layercake::args::SiteNetwork;
use serde_json::{Value, json};
use sim::control::PowerAction;

use crate::harness::own_server::{assert_no_right_is_missing, kubectl};
use crate::harness::shared_stack::network;
use crate::harness::story::{CLUSTER, SOON, Story, assert_contains, story};
use crate::moves::plain_cluster::clusterctl;

const MANIFEST: &str = r#"
apiVersion: run.tanzu.vmware.com/v1alpha1
kind: TanzuKubernetesCluster
metadata: {name: life, namespace: NAMESPACE}
spec:
  topology:
    controlPlane: {count: 1, class: best-effort-small, storageClass: gc-storage-profile}
    workers: {count: 1, class: best-effort-small, storageClass: gc-storage-profile}
  distribution: {version: v1.33}
  settings:
    network:
      cni: {name: flannel}
      services: {cidrBlocks: ["198.51.100.0/12"]}
      pods: {cidrBlocks: ["192.0.2.0/16"]}
      serviceDomain: tanzukubernetescluster.local
"#;

/// The columns that users see for Cluster API and capw kinds.
const COLUMNS: [(&str, &[&str]); 8] = [
    ("cluster", &["PHASE", "AGE"]),
    ("wcpcluster", &["AGE"]),
    ("machine", &["PROVIDER ID", "PHASE", "AGE"]),
    ("kubeadmconfig", &["AGE"]),
    ("machinedeployment", &["AGE"]),
    ("machineset", &["AGE"]),
    ("wcpmachinetemplate", &["AGE"]),
    ("kubeadmconfigtemplate", &["AGE"]),
];

#[test]
fn a_cluster_is_created_read_scaled_rebooted_and_deleted() {
    story("life", |story| async move {
        story.apply(MANIFEST).await;
        let cluster = story.wait_until_running("life").await;
        its_status_tells_everything(&cluster);
        its_events_name_the_milestones(&story).await;
        it_reads_the_same_in_three_versions(&story).await;
        its_columns_are_those_of_the_field(&story);
        its_machines_and_their_configurations_are_marked(&story).await;
        its_nodes_are_real(&story).await;
        people_get_into_its_nodes(&story).await;
        it_scales(&story, 2).await;
        it_scales_while_nodes_cannot_be_deleted(&story).await;
        a_rebooted_node_comes_back(&story).await;
        nothing_is_left_of_it(&story).await;
        what_config_grants_was_enough(&story).await;
    });
}

/// The programs run with the service accounts and arguments in config/.
async fn what_config_grants_was_enough(story: &Story) {
    let stack = story.shared.stack().await;
    for name in layercake::local::cluster::PROGRAMS {
        assert_no_right_is_missing(stack.program(name).expect(name));
    }
}

fn its_status_tells_everything(cluster: &Value) {
    let status = &cluster["status"];
    let distribution = cluster["spec"]["distribution"]["fullVersion"].as_str().unwrap();
    assert_eq!(distribution, "v1.33.1+vmware.1-fips-vkr.2");
    assert!(status["apiEndpoints"][0]["host"].as_str().unwrap().starts_with("127."));
    let vms = status["vmStatus"].as_object().unwrap();
    let nodes = status["nodeStatus"].as_object().unwrap();
    assert_eq!((vms.len(), nodes.len()), (2, 2), "{status}");
    assert!(vms.values().chain(nodes.values()).all(|state| state == "ready"), "{status}");
    assert_eq!(status["totalWorkerReplicas"], 1);
}

async fn its_events_name_the_milestones(story: &Story) {
    let milestones =
        ["Creating", "EndpointAssigned", "FirstVMReady", "ControlPlaneInitialized", "NodeReady", "Running"];
    story.wait_for_events("TanzuKubernetesCluster", "life", &milestones).await;
}

async fn it_reads_the_same_in_three_versions(story: &Story) {
    let read = async |version: &str| {
        let path = format!(
            "/apis/run.tanzu.vmware.com/{version}/namespaces/{}/tanzukubernetesclusters/life",
            story.namespace
        );
        let request = http::Request::get(path).body(Vec::new()).unwrap();
        story.client().request::<Value>(request).await.unwrap()
    };
    let one = story
        .wait_for("it runs", SOON, || async {
            Some(read("v1alpha1").await).filter(|one| one["status"]["phase"] == "running")
        })
        .await;
    assert_eq!(one["spec"]["topology"]["controlPlane"]["count"], 1);
    assert_eq!(one["spec"]["topology"]["workers"]["class"], "best-effort-small");
    assert_eq!(one["spec"]["distribution"]["version"], "v1.33");
    assert_eq!(one["spec"]["settings"]["network"]["pods"]["cidrBlocks"], json!(["192.0.2.0/16"]));
    assert!(one["status"]["clusterApiStatus"]["apiEndpoints"][0]["port"] == 6443, "{}", one["status"]);
    for version in ["v1alpha2", "v1alpha3"] {
        let two = read(version).await;
        assert_eq!(two["spec"]["topology"]["nodePools"][0]["name"], "workers");
        assert_eq!(two["spec"]["topology"]["nodePools"][0]["vmClass"], "best-effort-small");
        assert_eq!(
            two["spec"]["topology"]["controlPlane"]["tkr"]["reference"]["name"],
            "v1.33.1---vmware.1-fips-vkr.2"
        );
        assert_eq!(two["status"]["phase"], "running");
        assert_eq!(two["status"]["nodeStatus"], one["status"]["nodeStatus"]);
    }
}

fn its_columns_are_those_of_the_field(story: &Story) {
    let kinds = "tkc,cluster,machine,wcpcluster,wcpmachine,virtualmachine,virtualnetwork";
    let kubeconfig = &story.shared.session.kubeconfig;
    let kubectl = kubectl(kubeconfig).args(["get", kinds, "-n", &story.namespace]).output().unwrap();
    let text = String::from_utf8(kubectl.stdout).unwrap();
    assert_contains(
        &text,
        &["CONTROL PLANE", "WORKER", "TKR NAME", "PROVIDERID", "IPADDR", "POWER-STATE", "PHASE"],
    );
    assert_contains(&text, &["wcpmachine.infrastructure.cluster.vmware.com/life-control-plane-"]);
    if network() == SiteNetwork::Nsx {
        assert_contains(&text, &["virtualnetwork.vmware.com/life-vnet"]);
    }
    for (kind, columns) in COLUMNS {
        let get = ["get", kind, "-n", &story.namespace, "-o", "wide"];
        let text = String::from_utf8(self::kubectl(kubeconfig).args(get).output().unwrap().stdout).unwrap();
        let header = text.lines().next().unwrap_or_default();
        for column in columns {
            assert!(header.contains(column), "{kind} has no column {column}: {header}");
        }
        assert!(text.lines().count() > 1, "no {kind}");
    }
    let clusterctl = clusterctl(story, kubeconfig, &["describe", "cluster", "life"]).output().unwrap();
    let text = String::from_utf8(clusterctl.stdout).unwrap();
    assert_contains(
        &text,
        &[
            "Cluster life/life",
            "WCPCluster life/life",
            "KubeadmControlPlane life/life-control-plane",
            "MachineDeployment life/life-workers-",
        ],
    );
}

async fn its_machines_and_their_configurations_are_marked(story: &Story) {
    for machine in story.list("Machine").await {
        assert_eq!(machine["status"]["phase"], "Running", "{}", machine["metadata"]["name"]);
    }
    let configurations = story.list("KubeadmConfig").await;
    assert_eq!(configurations.len(), 2);
    let label = |object: &Value, key: &str| object["metadata"]["labels"][key].as_str().map(str::to_owned);
    let of_cluster =
        |object: &&Value| label(object, "cluster.x-k8s.io/cluster-name").as_deref() == Some("life");
    assert_eq!(configurations.iter().filter(of_cluster).count(), 2);
    let of_control_plane = |object: &&Value| label(object, "cluster.x-k8s.io/control-plane").is_some();
    assert_eq!(configurations.iter().filter(of_control_plane).count(), 1);
}

async fn its_nodes_are_real(story: &Story) {
    let nodes: Api<Node> = Api::all(story.guest_client("life").await);
    let nodes = nodes.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(nodes.len(), 2);
    for node in nodes {
        let info = node.status.as_ref().unwrap().node_info.as_ref().unwrap();
        assert_eq!(info.kubelet_version, "v1.33.1+vmware.1-fips", "{}", node.name_any());
        let spec = node.spec.as_ref().unwrap();
        assert!(spec.provider_id.as_ref().unwrap().starts_with("vsphere://"));
        assert_eq!(
            node.labels().get("run.tanzu.vmware.com/kubernetesDistributionVersion").map(String::as_str),
            Some("v1.33.1_vmware.1-fips-vkr.2")
        );
    }
}

/// The bootstrap data contains the public key and the password hash. The private key and the password are only in
/// Secrets.
async fn people_get_into_its_nodes(story: &Story) {
    let secrets = Api::<Secret>::namespaced(story.client(), &story.namespace);
    let read = async |name: &str, key: &str| {
        let data = secrets.get(name).await.unwrap().data.unwrap();
        String::from_utf8(data[key].0.clone()).unwrap()
    };
    let public = read("life-ssh", "ssh-publickey").await;
    let password = read("life-ssh-password", "ssh-passwordkey").await;
    let hash = read("life-ssh-password-hashed", "ssh-passwordkey").await;
    assert!(hash.starts_with("$6$"), "crypt with SHA-512");
    let machines = story.list("Machine").await;
    assert_eq!(machines.len(), 2);
    for machine in machines {
        let userdata = read(machine["spec"]["bootstrap"]["dataSecretName"].as_str().unwrap(), "value").await;
        assert!(userdata.contains(&public) && userdata.contains(&hash), "{}", machine["metadata"]["name"]);
        assert!(!userdata.contains(&password) && !userdata.contains("OPENSSH PRIVATE KEY"));
    }
}

async fn it_scales(story: &Story, count: usize) {
    ask_for_workers(story, count).await;
    wait_for_workers(story, count).await;
}

/// Node deletions fail, as while a control plane's endpoint moves. By default, Cluster API would give up after 10 s.
async fn it_scales_while_nodes_cannot_be_deleted(story: &Story) {
    let guest = story.guest_client("life").await;
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(guest.clone());
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(guest.clone());
    let rule =
        json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["nodes"]});
    let policy = json!({
        "metadata": {"name": "nodes-stay"},
        "spec": {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "false"}]},
    });
    let binding = json!({
        "metadata": {"name": "nodes-stay"},
        "spec": {"policyName": "nodes-stay", "validationActions": ["Deny"]},
    });
    policies.create(&PostParams::default(), &serde_json::from_value(policy).unwrap()).await.unwrap();
    bindings.create(&PostParams::default(), &serde_json::from_value(binding).unwrap()).await.unwrap();
    let nodes: Api<Node> = Api::all(guest);
    let name = nodes.list(&ListParams::default()).await.unwrap().items[0].name_any();
    story
        .wait_until("nodes cannot be deleted", SOON, async || {
            nodes.delete(&name, &DeleteParams::default().dry_run()).await.is_err()
        })
        .await;

    ask_for_workers(story, 1).await;
    let going = story
        .wait_for("a Machine is deleted", SOON, || async {
            let machines = story.api("Machine").list(&ListParams::default()).await.ok()?.items;
            Some(machines.iter().find(|machine| machine.metadata.deletion_timestamp.is_some())?.name_any())
        })
        .await;
    story.wait_for_events("Machine", &going, &["FailedDeleteNode"]).await;
    assert_eq!(story.get("Machine", &going).await.unwrap()["status"]["phase"], "Deleting");
    bindings.delete("nodes-stay", &DeleteParams::default()).await.unwrap();
    policies.delete("nodes-stay", &DeleteParams::default()).await.unwrap();
    wait_for_workers(story, 1).await;
}

async fn ask_for_workers(story: &Story, count: usize) {
    let cluster = story.get("TanzuKubernetesCluster", "life").await.unwrap();
    let mut pools = cluster["spec"]["topology"]["nodePools"].clone();
    pools[0]["replicas"] = json!(count);
    story.patch("TanzuKubernetesCluster", "life", json!({"spec": {"topology": {"nodePools": pools}}})).await;
}

async fn wait_for_workers(story: &Story, count: usize) {
    let guest = story.guest_client("life").await;
    story
        .wait_for(&format!("{count} workers"), CLUSTER, || async {
            let cluster = story.get("TanzuKubernetesCluster", "life").await.unwrap();
            let nodes: Api<Node> = Api::all(guest.clone());
            let nodes = nodes.list(&ListParams::default()).await.ok()?.items.len();
            let settled =
                cluster["status"]["phase"] == "running" && cluster["status"]["totalWorkerReplicas"] == count;
            (settled && nodes == count + 1 && story.vms().await.len() == count + 1).then_some(())
        })
        .await;
}

async fn a_rebooted_node_comes_back(story: &Story) {
    let vms = story.vms().await;
    let worker = vms.iter().find(|vm| vm.name.contains("workers")).unwrap();
    let control = story.shared.control();
    let boots = async || {
        let vms = control.vms(None, Duration::ZERO).await.unwrap().vms;
        vms.into_iter().find(|vm| vm.moid == worker.moid).unwrap().boot_count
    };
    let before = boots().await;
    control.power(&worker.moid, PowerAction::Reset).await.unwrap();
    story.wait_until("the worker has booted again", SOON, async || boots().await > before).await;
    let guest = story.guest_client("life").await;
    story
        .wait_for("the rebooted node is Ready", SOON, || async {
            let nodes: Api<Node> = Api::all(guest.clone());
            let node = nodes.get_opt(&worker.name).await.ok()??;
            let ready = node.status?.conditions?.into_iter().find(|condition| condition.type_ == "Ready")?;
            (ready.status == "True").then_some(())
        })
        .await;
    assert_eq!(story.vms().await.len(), vms.len());
}

async fn nothing_is_left_of_it(story: &Story) {
    story.delete("TanzuKubernetesCluster", "life", CLUSTER).await;
    for kind in [
        "Cluster",
        "WCPCluster",
        "KubeadmControlPlane",
        "MachineDeployment",
        "MachineSet",
        "Machine",
        "WCPMachine",
        "WCPMachineTemplate",
        "KubeadmConfig",
        "KubeadmConfigTemplate",
        "MachineHealthCheck",
        "ProviderServiceAccount",
        "VirtualMachine",
        "VirtualMachineService",
        "VirtualMachineSetResourcePolicy",
        "VirtualNetwork",
        "IPAddressClaim",
        "IPAddress",
        "Service",
        "Secret",
    ] {
        story.wait_until_none_left(kind).await;
    }
    let inventory = story.shared.control().inventory().await.unwrap();
    let named = |name: &str| name == "life" || name.starts_with("life-");
    assert!(!inventory.vms.iter().any(|vm| named(&vm.name)), "VMs are left");
    assert!(!inventory.folders.iter().any(|folder| named(&folder.name)), "folders are left");
    assert!(!inventory.pools.iter().any(|pool| named(&pool.name)), "pools are left");
}
