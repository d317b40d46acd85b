use k8s_openapi::apimachinery::pkg::apis::meta::v1::{self as meta, ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;

use super::super::Condition;
use super::super::severity::Severity;
use super::branch::*;
use super::*;

/// A condition's type, status, reason and message.
type Row = (&'static str, &'static str, &'static str, &'static str);

fn branch(kind: &'static str, rows: &[Row], children: Vec<Branch<'static>>) -> Branch<'static> {
    let view = |&(type_, status, reason, message): &Row| ConditionView {
        type_,
        status,
        reason,
        message,
        severity: None,
    };
    let conditions = rows.iter().map(view).collect();
    Branch { kind, name: "x", cluster: Some("c"), conditions, children, ..Branch::default() }
}

fn machine(rows: &[Row], children: Vec<Branch<'static>>) -> Branch<'static> {
    branch(MACHINE, rows, children)
}

fn wcp(rows: &[Row]) -> Branch<'static> {
    branch(WCP_MACHINE, rows, Vec::new())
}

fn joined(machine: Branch<'static>) -> Branch<'static> {
    Branch { machine: MachineFacts { has_node: true, ..MachineFacts::default() }, ..machine }
}

fn deleting(object: Branch<'static>) -> Branch<'static> {
    Branch { is_deleting: true, ..object }
}

/// Returns the kinds on the way to the first cause, and its reason.
fn first(root: Branch<'_>) -> String {
    first_of(&[root]).map_or_else(String::new, |(path, cause)| format!("{path} {}", cause.reason))
}

fn first_of(roots: &[Branch<'_>]) -> Option<(String, Cause)> {
    let Suspect { path, cause } = first_cause(roots)?;
    Some((path.iter().map(|branch| branch.kind).collect::<Vec<_>>().join("/"), cause))
}

const READY_ROW: Row = ("Ready", "True", "Ready", "");
const UNREADY: Row = ("Ready", "False", "NotReady", "* x");
const NO_INFRASTRUCTURE: Row = ("InfrastructureReady", "False", "PoweringOn", "mirrored");
const NO_BOOTSTRAP: Row = ("BootstrapConfigReady", "False", "NotReady", "no data yet");
const DELETED_BOOTSTRAP: Row = ("BootstrapConfigReady", "False", "Deleted", "KubeadmConfig has been deleted");
const WAITS_FOR_BOOTSTRAP: Row = ("Ready", "False", "WaitingForBootstrapData", "");
const POWERING_ON: Row = ("Ready", "False", "PoweringOn", "");

#[test]
fn each_state_of_a_machine_has_its_cause() {
    let table = [
        ("ready", machine(&[READY_ROW], vec![wcp(&[READY_ROW])]), ""),
        ("no status", machine(&[], vec![]), "Machine NotReported"),
        (
            "infrastructure starts",
            machine(&[UNREADY, NO_INFRASTRUCTURE], vec![wcp(&[POWERING_ON])]),
            "Machine/WCPMachine PoweringOn",
        ),
        (
            "no WCPMachine status",
            machine(&[UNREADY, NO_BOOTSTRAP], vec![wcp(&[])]),
            "Machine/WCPMachine NotReported",
        ),
        (
            "bootstrap data is awaited",
            machine(&[UNREADY, NO_BOOTSTRAP], vec![wcp(&[WAITS_FOR_BOOTSTRAP])]),
            "Machine NotReady",
        ),
        (
            "infrastructure comes before bootstrap data",
            machine(&[UNREADY, NO_BOOTSTRAP], vec![wcp(&[POWERING_ON])]),
            "Machine/WCPMachine PoweringOn",
        ),
        (
            "bootstrap data can't be created",
            machine(&[UNREADY, DELETED_BOOTSTRAP], vec![wcp(&[POWERING_ON])]),
            "Machine Deleted",
        ),
        (
            "WCPMachine is missing",
            machine(
                &[UNREADY, ("InfrastructureReady", "False", "DoesNotExist", "gone"), NO_BOOTSTRAP],
                vec![],
            ),
            "Machine DoesNotExist",
        ),
        ("not joined", machine(&[UNREADY], vec![wcp(&[READY_ROW])]), "Machine WaitingForNode"),
        (
            "not joined, and the WCPMachine isn't in the tree",
            machine(&[UNREADY, ("InfrastructureReady", "True", "Ready", "")], vec![]),
            "Machine WaitingForNode",
        ),
        (
            "first boot failed",
            machine(&[UNREADY], vec![wcp(&[("Ready", "False", "BootstrapFailed", "kubeadm")])]),
            "Machine/WCPMachine BootstrapFailed",
        ),
        (
            "node isn't ready",
            joined(machine(
                &[UNREADY, ("NodeReady", "False", "KubeletNotReady", "x")],
                vec![wcp(&[READY_ROW])],
            )),
            "Machine KubeletNotReady",
        ),
        (
            "vCenter doesn't reach the VM",
            joined(machine(
                &[UNREADY, ("NodeReady", "Unknown", "x", "")],
                vec![wcp(&[("Ready", "True", "Ready", "no host")])],
            )),
            "Machine/WCPMachine Unreachable",
        ),
        (
            "an outage that the node survives",
            joined(machine(&[READY_ROW], vec![wcp(&[("Ready", "True", "Ready", "no host")])])),
            "",
        ),
    ];
    for (case, root, expected) in table {
        assert_eq!(first(root), expected, "{case}");
    }
}

/// The VirtualMachine's probe only waits for the node, so the Machine and the WCPMachine know more.
#[test]
fn a_probe_that_fails_is_not_the_cause() {
    let vm = || branch("VirtualMachine", &[("Ready", "False", "NotReady", "the probe fails")], vec![]);
    let over = |row: Row| Branch { children: vec![vm()], ..wcp(&[row]) };
    let unreached = over(("Ready", "False", "NodeNotReached", "VLAN"));
    assert_eq!(first(machine(&[UNREADY], vec![unreached])), "Machine/WCPMachine NodeNotReached");
    let ill = machine(&[UNREADY, ("NodeReady", "False", "KubeletNotReady", "")], vec![over(READY_ROW)]);
    assert_eq!(first(joined(ill)), "Machine KubeletNotReady");
    assert_eq!(first(machine(&[UNREADY], vec![over(READY_ROW)])), "Machine WaitingForNode");
}

#[test]
fn a_node_that_has_not_joined_says_where_to_look() {
    let facts = |address, endpoint: Option<&str>| MachineFacts {
        has_node: false,
        address,
        endpoint: endpoint.map(str::to_owned),
    };
    let message = |machine_facts| {
        let machine = machine(&[UNREADY], vec![wcp(&[READY_ROW])]);
        first_of(&[Branch { machine: machine_facts, ..machine }]).unwrap().1.message
    };
    assert_eq!(
        message(facts(Some("10.0.0.1"), Some("https://10.0.0.9:6443"))),
        "the virtual machine is running at 10.0.0.1, but its node has not joined yet. If this persists, check that the management \
         cluster can reach the endpoint https://10.0.0.9:6443, and read /var/log/cloud-init-output.log in the guest"
    );
    assert_eq!(
        message(facts(None, None)),
        "the virtual machine is running, but its node has not joined yet. If this persists, read /var/log/cloud-init-output.log \
         in the guest"
    );
}

#[test]
fn only_what_is_being_deleted_holds_a_deletion() {
    let stage = ("Deleting", "True", "Deleting", "Drain not completed yet");
    let failed = ("Ready", "False", "DeletionFailed", "no permission");
    let table = [
        (
            "drain, although the first boot failed",
            deleting(machine(&[UNREADY, stage], vec![wcp(&[("Ready", "False", "BootstrapFailed", "x")])])),
            "Machine Deleting",
        ),
        (
            "a ready Machine drains",
            deleting(machine(&[READY_ROW, stage], vec![wcp(&[READY_ROW])])),
            "Machine Deleting",
        ),
        (
            "the VM can't be deleted",
            deleting(machine(&[UNREADY, stage], vec![deleting(wcp(&[failed]))])),
            "Machine/WCPMachine DeletionFailed",
        ),
        (
            "the WCPMachine doesn't say what it waits for",
            deleting(machine(&[UNREADY, stage], vec![deleting(wcp(&[("Ready", "False", "Deleting", "")]))])),
            "Machine Deleting",
        ),
        (
            "a Machine that stays is no obstacle",
            deleting(branch(
                CLUSTER,
                &[("Available", "False", "NotAvailable", "x")],
                vec![
                    machine(&[UNREADY], vec![wcp(&[("Ready", "False", "BootstrapFailed", "x")])]),
                    deleting(machine(&[UNREADY, stage], vec![])),
                ],
            )),
            "Cluster/Machine Deleting",
        ),
        (
            "certificate authorities go with their cluster",
            deleting(branch(
                CONTROL_PLANE,
                &[
                    ("Available", "False", "NotAvailable", "x"),
                    (
                        "CertificatesAvailable",
                        "False",
                        "NotAvailable",
                        "Cluster certificates for ca are not available",
                    ),
                ],
                vec![],
            )),
            "KubeadmControlPlane NotAvailable",
        ),
    ];
    for (case, root, expected) in table {
        assert_eq!(first(root), expected, "{case}");
    }
}

#[test]
fn an_object_that_only_foreign_finalizers_hold_is_named() {
    let metadata = ObjectMeta {
        name: Some("a".to_owned()),
        deletion_timestamp: Some(Time(Timestamp::UNIX_EPOCH)),
        finalizers: Some(vec!["backup.example/a".to_owned()]),
        ..ObjectMeta::default()
    };
    let none: [&meta::Condition; 0] = [];
    let cause = first_of(&[Branch::new(MACHINE, &metadata, none)]).unwrap().1;
    assert_eq!((cause.object.as_str(), cause.reason.as_str()), ("Machine a", "DeletionHeld"));
    assert!(
        cause.message.starts_with("deletion is blocked by finalizer backup.example/a"),
        "{}",
        cause.message
    );
    // The VM operator reports the finalizers of its objects itself.
    let ready = Condition::is_false("Ready", "Warning", "DeletionHeld", "The VM is gone from vCenter");
    let cause = first_of(&[Branch::new("VirtualMachine", &metadata, [&ready])]).unwrap().1;
    assert_eq!(cause.message, "The VM is gone from vCenter");
}

#[test]
fn owners_say_why_machines_are_missing() {
    let available = ("Available", "True", "Available", "");
    let blocked =
        ("ScalingUp", "True", "ScalingUp", "Scaling up from 1 to 2 replicas is blocked because: no template");
    let started = machine(&[UNREADY], vec![wcp(&[POWERING_ON])]);
    for owner in [CONTROL_PLANE, MACHINE_DEPLOYMENT] {
        assert_eq!(first(branch(owner, &[available], vec![])), "");
        assert_eq!(first(branch(owner, &[available, blocked], vec![])), format!("{owner} ScalingUp"));
        let with_machine = branch(owner, &[available, blocked], vec![started.clone()]);
        assert_eq!(first(with_machine), format!("{owner}/Machine/WCPMachine PoweringOn"));
    }
}

#[test]
fn a_lost_authority_says_from_what_it_is_restored() {
    let lost = |reason, message| {
        let rows =
            [("Available", "True", "Available", ""), ("CertificatesAvailable", "False", reason, message)];
        first_of(&[branch(CONTROL_PLANE, &rows, vec![])]).map(|(_, cause)| cause.message)
    };
    let message =
        "Cluster certificates for ca, sa are not available, please check cluster certificate secrets";
    assert_eq!(
        lost("NotAvailable", message).unwrap(),
        format!(
            "{message}. Restore Secret c-ca from ca.crt and ca.key, Secret c-sa from sa.pub and sa.key, which are in \
             /etc/kubernetes/pki of a control plane node, as tls.crt and tls.key"
        )
    );
    assert_eq!(lost("InternalError", "Please check controller logs for errors"), None);
}

#[test]
fn a_missing_container_network_explains_nodes_that_are_not_ready() {
    let cause = Cause {
        object: "Add-on antrea".to_owned(),
        reason: "ProvisioningFailed".to_owned(),
        message: String::new(),
        severity: Severity::Warning,
    };
    let network = || Branch { cause: Some(cause.clone()), ..branch(ADD_ON, &[], vec![]) };
    let node = |status| joined(machine(&[UNREADY, ("NodeReady", status, "KubeletNotReady", "")], vec![]));
    let first = |node| first_of(&[network(), node]).map(|(path, _)| path);
    assert_eq!(first(node("False")).as_deref(), Some(ADD_ON));
    assert_eq!(first(node("Unknown")).as_deref(), Some(MACHINE));
    assert_eq!(first(joined(machine(&[READY_ROW], vec![]))), None);
}

#[test]
fn the_gravest_cause_wins_and_of_equals_the_one_below() {
    let available = ("Available", "False", "NotAvailable", "");
    let unready = |kind, reason| branch(kind, &[("Ready", "False", reason, "")], vec![]);
    let cluster = |children| branch(CLUSTER, &[available], children);
    assert_eq!(first(cluster(vec![])), "Cluster NotAvailable");
    let (waits, fails) = (unready("WCPCluster", "WaitingForLoadBalancerIP"), fails_with("InvalidSpec"));
    assert_eq!(first(cluster(vec![waits, fails])), "Cluster/VirtualMachine InvalidSpec");
    let network = unready("VirtualNetwork", "ClusterNetworkProvisionStarted");
    let over = Branch { children: vec![network], ..unready("WCPCluster", "ClusterNetworkProvisionFailed") };
    assert_eq!(first(cluster(vec![over])), "Cluster/WCPCluster ClusterNetworkProvisionFailed", "its own");
    let failed = Branch { vm_status: "error", ..wcp(&[("Ready", "False", "VMCreationFailed", "")]) };
    assert_eq!(first_of(&[failed]).unwrap().1.severity, Severity::Error);
    let topology = ("TopologyReconciled", "False", "ReconcileFailed", "no class");
    assert_eq!(first(branch(CLUSTER, &[available, topology], vec![])), "Cluster ReconcileFailed");
    let lost = Branch {
        children: vec![fails_with("InvalidSpec")],
        ..unready("TanzuKubernetesCluster", "CannotBeRemediated")
    };
    assert_eq!(first(lost), "TanzuKubernetesCluster CannotBeRemediated");
}

fn fails_with(reason: &'static str) -> Branch<'static> {
    branch("VirtualMachine", &[("Ready", "False", reason, "")], vec![])
}

#[test]
fn a_placeholder_is_no_suspect_but_what_is_below_it_is() {
    let unread = |children| Branch { is_unread: true, ..branch(CONTROL_PLANE, &[], children) };
    assert_eq!(first(unread(vec![])), "");
    assert_eq!(
        first(unread(vec![fails_with("InvalidSpec")])),
        "KubeadmControlPlane/VirtualMachine InvalidSpec"
    );
}
