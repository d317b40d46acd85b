//! Tests the path from a cluster to its objects, and from their state to its status.

mod accounts;
mod changes;
mod health;
mod last_release;
mod recipes;
mod rolled;
mod trust;

use std::collections::BTreeSet;
use std::sync::Arc;

use api::capi::Cluster;
use api::capw::vm_status;
use api::conditions::{READY as READY_CONDITION, find};
use api::gcm::parts::phase;
use api::gcm::{TanzuKubernetesCluster, TanzuKubernetesClusterStatus};
use kube::ResourceExt;
use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::facts::Facts;
use super::fixtures::{
    ASKED, ClusterFixture, MachineFixture, READY, from, login, nothing, plan, release_and_image, stored,
};
use super::invalid::Invalid;
use super::plan::{Obsolete, Plan};
use super::spec::ValidatedCluster;
use super::status::milestones;
use super::status::{StatusWithCause, compute_status};
use crate::addons::report::AddonState;
use crate::testing::{cluster, hub, manifest, sound};

/// Returns the cluster in seed-test-cluster.yaml, with a version hint that matches a release.
fn seed() -> TanzuKubernetesCluster {
    let (_, mut written) = manifest("seed-test-cluster.yaml");
    written["spec"]["distribution"]["version"] = json!("v1.33");
    hub(&written)
}

pub(super) fn pools() -> TanzuKubernetesCluster {
    cluster(
        "
apiVersion: run.tanzu.vmware.com/v1alpha3
kind: TanzuKubernetesCluster
metadata: {name: many, namespace: ns}
spec:
  topology:
    controlPlane:
      replicas: 1
      vmClass: guaranteed-medium
      storageClass: gold
      nodeDrainTimeout: 10m
      volumes: [{name: etcd, mountPath: /var/lib/etcd, capacity: {storage: 4Gi}}]
      tkr: {reference: {name: v1.34.2---vmware.1-vkr.1}}
    nodePools:
    - {name: small, replicas: 2, vmClass: best-effort-small, storageClass: gold}
    - name: gpu
      vmClass: guaranteed-large
      storageClass: gold
      failureDomain: zone-1
      labels: {workload: gpu, node-role.kubernetes.io/gpu: ''}
      taints: [{key: dedicated, value: gpu, effect: NoSchedule}]
      volumes: [{name: containerd, mountPath: /var/lib/containerd, capacity: {storage: 30Gi}, storageClass: silver}]
      nodeDrainTimeout: 5m
    - {name: empty, replicas: 0, vmClass: best-effort-small, storageClass: gold}
  settings:
    network:
      proxy: {httpProxy: 'http://u:p%40@10.0.0.1:80', httpsProxy: 'http://u:p@10.0.0.1:80', noProxy: [10.0.0.0/8, .local]}
      trust:
        additionalTrustedCAs:
        - {name: corp, data: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUJRRENCNTZBREFnRUNBZ0VCTUFvR0NDcUdTTTQ5QkFNQ01BOHhEVEFMQmdOVkJBTU1CR052Y25Bd0lCY04KTWpBd01UQXhNREF3TURBd1doZ1BNakV5TURBeE1ERXdNREF3TURCYU1BOHhEVEFMQmdOVkJBTU1CR052Y25BdwpXVEFUQmdjcWhrak9QUUlCQmdncWhrak9QUU1CQndOQ0FBVFBreHM1T1Fvd2pMVXdkT2FtMDByQ21oQm9GTzV1CjBBRStFUUlpSHQvTGVteWE3Ni9sZ0RyMEhlbERQT1ZnbUtVTlFGSi9NdThyejBKQVczNjNCbG05b3pJd01EQVAKQmdOVkhSTUJBZjhFQlRBREFRSC9NQjBHQTFVZERnUVdCQlEwcGhvejRmUlFXSXh3QWRkK3JBQXpOZTFqYkRBSwpCZ2dxaGtqT1BRUURBZ05JQURCRkFpQVFyZHQ1OFdId3BWMHR4S0tYQWZoaEVycGVaOFp0K0JVb3pHRjEvclV1CnRnSWhBTnBlWDY2VUxtTzFWblFYT2ZXUmkvVWprSi9QekNsZnRzZTAzL0ZHZTVjbQotLS0tLUVORCBDRVJUSUZJQ0FURS0tLS0tCg==}
",
    )
}

fn document<K: Serialize>(object: &K) -> Value {
    serde_json::to_value(object).unwrap()
}

pub(super) fn documents(plan: &Plan) -> Vec<Value> {
    plan.documents().unwrap()
}

#[test]
fn the_objects_of_the_seeds_test_cluster() {
    let plan = plan(&stored(seed()), &nothing()).unwrap();
    insta::assert_yaml_snapshot!(documents(&plan));
}

#[test]
fn the_objects_of_a_cluster_with_pools() {
    let plan = plan(&stored(pools()), &nothing()).unwrap();
    insta::assert_yaml_snapshot!(documents(&plan));
}

/// Checks that the objects contain these fields, under the names that Cluster API uses.
#[test]
fn cluster_api_knows_every_field() {
    use super::flags::health::HealthFlags;
    use super::input::Input;
    use super::network::virtual_ip::VirtualIp;
    use super::node_groups::group_input::GroupInput;
    use super::node_groups::{control_plane, machines};
    let facts = nothing();
    let tkc = stored(pools());
    let (release, image) = release_and_image(&tkc, &facts);
    let cluster = ValidatedCluster::validate(&tkc, &facts).unwrap();
    let input = GroupInput {
        cluster: Input::new(&cluster, &release, &image),
        control_plane_waits: false,
        pools_wait: false,
        health: &HealthFlags::default(),
        virtual_ip: &VirtualIp::default(),
        login: &login(),
        unreplaced: &BTreeSet::new(),
    };
    let kcp = control_plane::build_control_plane(&input, "template", 1);
    let spec = document(&kcp)["spec"].clone();
    for path in [
        "/version",
        "/replicas",
        "/machineTemplate/spec/infrastructureRef/name",
        "/machineTemplate/spec/deletion/nodeDrainTimeoutSeconds",
        "/kubeadmConfigSpec/clusterConfiguration/certificatesDir",
        "/kubeadmConfigSpec/clusterConfiguration/imageRepository",
        "/kubeadmConfigSpec/clusterConfiguration/etcd/local/imageTag",
        "/kubeadmConfigSpec/clusterConfiguration/dns/imageTag",
        "/kubeadmConfigSpec/clusterConfiguration/apiServer/extraArgs/1/value",
        "/kubeadmConfigSpec/clusterConfiguration/apiServer/extraVolumes/0/pathType",
        "/kubeadmConfigSpec/initConfiguration/nodeRegistration/name",
        "/kubeadmConfigSpec/joinConfiguration/nodeRegistration/kubeletExtraArgs/1/value",
        "/kubeadmConfigSpec/files/0/permissions",
        "/kubeadmConfigSpec/bootCommands/0",
        "/kubeadmConfigSpec/diskSetup/filesystems/0/partition",
        "/kubeadmConfigSpec/mounts/0/3",
        "/kubeadmConfigSpec/preKubeadmCommands/0",
        "/kubeadmConfigSpec/users/0/lockPassword",
    ] {
        assert!(spec.pointer(path).is_some(), "{path}");
    }
    let pool = &tkc.spec.topology.node_pools[1];
    let deployment = document(&machines::deployment(&input.cluster, pool, "t", "c"))["spec"].clone();
    for path in [
        "/rollout/strategy/rollingUpdate/maxSurge",
        "/selector/matchLabels/cluster.x-k8s.io~1deployment-name",
        "/template/metadata/labels/workload",
        "/template/spec/bootstrap/configRef/name",
        "/template/spec/failureDomain",
        "/template/spec/deletion/nodeDrainTimeoutSeconds",
    ] {
        assert!(deployment.pointer(path).is_some(), "{path}");
    }
    assert!(deployment.get("replicas").is_none(), "somebody else decides about replicas");
}

#[test]
fn a_cluster_is_made_of_the_same_objects_every_time() {
    let fixture = ClusterFixture::running(pools());
    let again = plan(&fixture.tkc, &fixture.facts()).unwrap();
    assert_eq!(documents(&again), documents(&fixture.plan));
    assert_eq!(again.obsolete, Obsolete::default());
}

#[test]
fn what_changes_gets_new_templates_and_the_old_ones_wait_for_their_machines() {
    let fixture = ClusterFixture::running(sound());
    let mut tkc = fixture.tkc.clone();
    tkc.spec.topology.node_pools[0].vm_class = "large".to_owned();
    let mut facts = fixture.facts();
    let next = plan(&tkc, &facts).unwrap();
    let (before, after) =
        (fixture.plan.machine_templates[1].name_any(), next.machine_templates[1].name_any());
    assert_ne!(before, after);
    assert_eq!(next.machine_templates[0].name_any(), fixture.plan.machine_templates[0].name_any());
    assert_eq!(next.obsolete, Obsolete::default());
    // The MachineDeployment uses new templates. Its old MachineSet doesn't.
    facts.deployments = next.deployments.iter().cloned().map(std::sync::Arc::new).collect();
    assert_eq!(plan(&tkc, &facts).unwrap().obsolete, Obsolete::default());
    facts.sets.clear();
    assert_eq!(plan(&tkc, &facts).unwrap().obsolete, Obsolete::default(), "a machine still stands on it");
    facts.wcp_machines.retain(|wcp| wcp.labels().contains_key("cluster.x-k8s.io/control-plane"));
    assert_eq!(plan(&tkc, &facts).unwrap().obsolete.machine_templates, [before].into());
}

#[test]
fn a_pool_that_is_removed_takes_its_deployment_and_check_along() {
    let fixture = ClusterFixture::running(pools());
    let mut tkc = fixture.tkc.clone();
    tkc.spec.topology.node_pools.remove(0);
    let next = plan(&tkc, &fixture.facts()).unwrap();
    let gone = fixture.plan.deployments[0].name_any();
    assert_eq!(next.obsolete.deployments, [gone.clone()].into());
    assert_eq!(next.obsolete.checks, [gone].into());
    assert!(next.obsolete.machine_templates.is_empty(), "its machines are still there");
}

#[test]
fn what_cannot_be_planned_says_why() {
    let mut facts = nothing();
    let mut unknown = stored(sound());
    unknown.spec.distribution = None;
    unknown.spec.topology.control_plane.tkr =
        Some(api::gcm::parts::Tkr::named("v1.29.4---vmware.3-fips.1-tkg.1"));
    assert!(matches!(plan(&unknown, &facts), Err(Invalid::Denied(_))));
    let mut ubuntu = stored(sound());
    ubuntu
        .annotations_mut()
        .insert("run.tanzu.vmware.com/resolve-os-image".to_owned(), "os-name=ubuntu".to_owned());
    let error = plan(&ubuntu, &facts).unwrap_err();
    assert!(matches!(error, Invalid::NoImage { .. }), "{error}");
    assert!(error.to_string().contains("os-name=ubuntu"), "{error}");
    facts.releases = super::facts::ReleaseLookup::default();
    assert!(matches!(plan(&stored(sound()), &facts), Err(Invalid::NoImage { .. })));
}

/// Admission assumes that a cluster with gcm's finalizer was moved here. Planning still rejects a spec that isn't allowed for a
/// new cluster.
#[test]
fn a_range_of_management_is_given_to_no_cluster_that_does_not_run() {
    let facts = Facts { management: vec!["192.168.0.0/24".parse().unwrap()], ..nothing() };
    let error = plan(&stored(sound()), &facts).unwrap_err().to_string();
    assert!(error.contains("192.168.0.0/16 overlaps with 192.168.0.0/24"), "{error}");
    let fixture = ClusterFixture::running(sound());
    let running = Facts { management: facts.management, ..fixture.facts() };
    assert!(plan(&fixture.tkc, &running).is_ok(), "what runs, or was moved here, may stay");
}

pub(super) fn shown(fixture: &ClusterFixture) -> TanzuKubernetesClusterStatus {
    compute_status(&fixture.tkc, &fixture.facts(), None).status
}

pub(super) fn ready_message(status: &TanzuKubernetesClusterStatus) -> String {
    let ready = find(&status.conditions, READY_CONDITION).unwrap();
    format!("{} {}", ready.reason.clone().unwrap_or_default(), ready.message.clone().unwrap_or_default())
}

pub(super) const NO_MEMORY: MachineFixture = MachineFixture::unready(
    "error",
    "VMCreationFailed",
    "VirtualMachine c-0: cannot power on: insufficient memory in resource pool c",
);
pub(super) const NO_CLASS: MachineFixture = MachineFixture::unready(
    "pending",
    "VirtualMachineClassNotFound",
    "VirtualMachine ns/c-0: VirtualMachineClass small is not there",
);
const NO_ADDRESS: MachineFixture =
    MachineFixture::unready("poweredon", "WaitingForNetworkAddress", "VirtualMachine c-0: no address yet");
const UNJOINED: MachineFixture = MachineFixture::ready(None);
const ILL: MachineFixture = MachineFixture::ready(Some("False"));

#[test]
fn the_first_cause_is_copied_up() {
    let mut waiting = ClusterFixture::new(sound());
    waiting.infrastructure =
        Err(("WaitingForLoadBalancerIP", "VirtualMachineService c-control-plane-service has no address"));
    let with = |groups: Vec<Vec<MachineFixture>>, initialized: bool| ClusterFixture {
        groups,
        initialized,
        ..ClusterFixture::new(sound())
    };
    let fixtures = vec![
        ("infrastructure", waiting),
        ("nothing yet", with(vec![vec![], vec![]], false)),
        ("asked for", with(vec![vec![ASKED], vec![ASKED]], false)),
        ("no memory", with(vec![vec![NO_MEMORY], vec![ASKED]], false)),
        ("no address", with(vec![vec![NO_ADDRESS], vec![ASKED]], false)),
        ("no class", with(vec![vec![NO_CLASS], vec![ASKED]], false)),
        ("not joined", with(vec![vec![UNJOINED], vec![ASKED]], false)),
        ("worker waits", with(vec![vec![READY], vec![ASKED]], true)),
        ("worker fails", with(vec![vec![READY], vec![NO_MEMORY]], true)),
        ("worker is ill", with(vec![vec![READY], vec![ILL]], true)),
        ("running", ClusterFixture::running(sound())),
    ];
    let table: Vec<Value> = fixtures
        .iter()
        .map(|(name, fixture)| {
            let status = shown(fixture);
            json!({ *name: { "phase": status.phase, "ready": ready_message(&status), "vm": status.vm_status.values().collect::<Vec<_>>(), "node": status.node_status.values().collect::<Vec<_>>() } })
        })
        .collect();
    insta::assert_yaml_snapshot!(table);
}

/// A failure takes precedence over a waiting Machine, regardless of their order.
#[test]
fn the_gravest_cause_among_machines_is_copied_up() {
    const FOLLOWS: MachineFixture =
        MachineFixture::unready("pending", "WaitingForClusterInfrastructureReady", "it waits");
    let copied = |machines: Vec<MachineFixture>| {
        let groups = vec![machines, vec![]];
        ready_message(&shown(&ClusterFixture { groups, initialized: false, ..ClusterFixture::new(sound()) }))
    };
    assert!(copied(vec![FOLLOWS, NO_ADDRESS]).contains("no address yet"));
    assert!(copied(vec![NO_ADDRESS, NO_CLASS]).contains("VirtualMachineClass small is not there"));
    assert!(copied(vec![NO_CLASS, NO_MEMORY]).contains("VirtualMachineClass small is not there"));
}

/// During an outage, the node can't report its state, so the outage is the cause.
#[test]
fn a_vm_that_vcenter_does_not_reach_explains_a_node_that_is_not_ready() {
    let mut fixture = ClusterFixture::running(sound());
    fixture.groups[1] = vec![ILL];
    let mut facts = fixture.facts();
    let wcp = facts.wcp_machines.iter_mut().find(|wcp| !wcp.name_any().contains("control-plane")).unwrap();
    let conditions = &mut Arc::make_mut(wcp).status.as_mut().unwrap().conditions;
    conditions[0].message = "VirtualMachine ns/c-1: its datastore is inaccessible".to_owned();
    let shown = compute_status(&fixture.tkc, &facts, None).status;
    let message = ready_message(&shown);
    assert!(
        message.contains("Unreachable: VirtualMachine ns/c-1: its datastore is inaccessible"),
        "{message}"
    );
}

#[test]
fn the_whole_status_of_a_running_cluster() {
    insta::assert_yaml_snapshot!(shown(&ClusterFixture::running(seed())));
}

#[test]
fn phases_follow_what_machines_do() {
    let mut fixture = ClusterFixture::running(sound());
    let at = |fixture: &ClusterFixture| shown(fixture).phase.unwrap();
    assert_eq!(at(&fixture), phase::RUNNING);
    fixture.tkc.status = Some(shown(&fixture));
    // The spec has changed, but the objects haven't yet.
    fixture.tkc.spec.topology.node_pools[0].replicas = Some(2);
    assert_eq!(at(&fixture), phase::UPDATING);
    fixture.tkc.spec.topology.node_pools[0].replicas = Some(1);
    fixture.groups[1][0] = ILL;
    assert_eq!(at(&fixture), phase::UNHEALTHY);
    fixture.groups[1].push(ASKED);
    assert_eq!(at(&fixture), phase::UPDATING);
    let before = shown(&fixture);
    assert_eq!(before.version.as_deref(), Some("v1.33.1+vmware.1-fips-vkr.2"));
    fixture.tkc.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH));
    let deleting = shown(&fixture);
    assert_eq!(deleting.phase.as_deref(), Some(phase::DELETING));
    assert!(
        ready_message(&deleting).starts_with("Deleting Waiting for Machine "),
        "{}",
        ready_message(&deleting)
    );
}

#[test]
fn a_cluster_that_is_refused_says_so() {
    let tkc = stored(sound());
    let error = super::error::Error::Invalid(Invalid::NoImage { release: "v1".to_owned(), query: None });
    let refused = compute_status(&tkc, &nothing(), Some(&error)).status;
    assert_eq!(refused.phase.as_deref(), Some(phase::FAILED));
    assert!(ready_message(&refused).starts_with("Invalid TanzuKubernetesRelease v1 has no OSImage"));
    let fixture = ClusterFixture::running(sound());
    let kept = compute_status(&fixture.tkc, &fixture.facts(), Some(&error)).status;
    assert_ne!(kept.phase.as_deref(), Some(phase::FAILED), "what runs goes on running");
}

#[test]
fn milestones_are_reported_once_and_in_order() {
    let mut fixture = ClusterFixture::new(sound());
    let mut before = TanzuKubernetesClusterStatus::default();
    let mut notes = Vec::new();
    let mut step = |fixture: &ClusterFixture, before: &mut TanzuKubernetesClusterStatus| {
        let StatusWithCause { status: after, cause } = compute_status(&fixture.tkc, &fixture.facts(), None);
        let reached = milestones::list_milestones(before, &after, cause.as_ref());
        notes.extend(reached.into_iter().map(|m| format!("{}: {}", m.reason, m.note)));
        assert!(milestones::list_milestones(&after, &after, cause.as_ref()).is_empty());
        *before = after;
    };
    fixture.infrastructure = Err(("WaitingForLoadBalancerIP", ""));
    step(&fixture, &mut before);
    fixture.infrastructure = Ok(());
    step(&fixture, &mut before);
    for state in [
        ASKED,
        MachineFixture { vm: vm_status::CREATED, ..ASKED },
        NO_ADDRESS,
        NO_MEMORY,
        NO_ADDRESS,
        UNJOINED,
    ] {
        fixture.groups = vec![vec![state], vec![ASKED]];
        step(&fixture, &mut before);
    }
    fixture.initialized = true;
    fixture.groups = vec![vec![READY], vec![UNJOINED]];
    step(&fixture, &mut before);
    fixture.groups = vec![vec![READY], vec![READY]];
    step(&fixture, &mut before);
    fixture.tkc.status = Some(before.clone());
    fixture.groups = vec![vec![READY], vec![ILL]];
    step(&fixture, &mut before);
    insta::assert_yaml_snapshot!(notes);
}

/// Older Cluster API conditions may lack a reason. Such a Cluster must still be readable.
#[test]
fn a_cluster_with_sparse_conditions_is_read() {
    let cluster: Cluster = from(json!({
        "metadata": {"name": "c"},
        "spec": {},
        "status": {"deprecated": {"v1beta1": {"conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "2020-04-16T17:06:53Z"},
        ]}}},
    }));
    assert!(cluster.status.is_some());
}

fn round_trips<K: Serialize + DeserializeOwned>(value: &Value) -> bool {
    serde_json::from_value::<K>(value.clone()).is_ok_and(|object| document(&object) == *value)
}

proptest! {
    #[test]
    fn a_plan_of_the_planned_state_removes_nothing(
        replicas in prop::collection::vec(prop::option::of(0..4_i32), 0..4),
        three in any::<bool>(),
    ) {
        let mut tkc = sound();
        tkc.spec.topology.control_plane.replicas = Some(if three { 3 } else { 1 });
        let pool = tkc.spec.topology.node_pools[0].clone();
        tkc.spec.topology.node_pools = replicas
            .iter()
            .enumerate()
            .map(|(at, replicas)| api::gcm::parts::NodePool { name: format!("p{at}"), replicas: *replicas, ..pool.clone() })
            .collect();
        let fixture = ClusterFixture::running(tkc);
        let again = plan(&fixture.tkc, &fixture.facts()).unwrap();
        prop_assert_eq!(documents(&again), documents(&fixture.plan));
        prop_assert_eq!(again.obsolete, Obsolete::default());
        let status = shown(&fixture);
        prop_assert_eq!(status.phase.as_deref(), Some(phase::RUNNING));
        prop_assert!(round_trips::<TanzuKubernetesClusterStatus>(&document(&status)));
    }
}

#[test]
fn a_container_network_that_cannot_be_applied_explains_nodes_that_are_not_ready() {
    let mut fixture = ClusterFixture::running(seed());
    fixture.network.state = AddonState::Failed("DaemonSet kube-system/antrea-agent: it is wrong".to_owned());
    fixture.groups[0][0].node = Some("False");
    let StatusWithCause { status: shown, cause } = compute_status(&fixture.tkc, &fixture.facts(), None);
    let ready = find(&shown.conditions, READY_CONDITION).unwrap();
    assert!(ready.message.as_deref().unwrap().contains("Add-on antrea: ProvisioningFailed: DaemonSet"));
    assert_eq!(cause.unwrap().object, "Add-on antrea");
    assert_eq!(shown.addons[0].conditions[0].reason.as_deref(), Some("ProvisioningFailed"));
}

#[test]
fn a_container_network_of_somebody_else_keeps_no_cluster_from_running() {
    let mut fixture = ClusterFixture::running(seed());
    fixture.network.state = AddonState::Unprovided("no bundle provides antrea".to_owned());
    let shown = compute_status(&fixture.tkc, &fixture.facts(), None).status;
    assert_eq!(shown.phase.as_deref(), Some(phase::RUNNING));
    assert_eq!(shown.addons[0].conditions[0].reason.as_deref(), Some("AddonUnManaged"));
    fixture.groups[0][0].node = Some("False");
    let shown = compute_status(&fixture.tkc, &fixture.facts(), None).status;
    let ready = find(&shown.conditions, READY_CONDITION).unwrap();
    assert!(ready.message.as_deref().unwrap().contains("no bundle provides antrea"));
}
