//! Finds the first cause in a cluster. Builds trees of the cluster's objects, which [`api::conditions::tree`] searches.

use std::collections::BTreeSet;

use api::conditions::cause::Cause;
use api::conditions::tree::{ADD_ON, Branch, MachineFacts, Suspect, first_cause};
use api::gcm::remedy;
use api::names::label;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;

use crate::addons::bundle::AddonType;
use crate::cluster::facts::Facts;
use crate::cluster::node_groups::nodes::{ClusterMachine, conditions};

/// Returns the cause that keeps the infrastructure from being ready.
pub fn find_infrastructure_cause(facts: &Facts) -> Option<Cause> {
    first(infrastructure(facts))
}

/// Returns the cause that keeps these nodes from being ready.
pub fn find_node_cause<'n, 'a: 'n>(
    facts: &'a Facts,
    nodes: impl IntoIterator<Item = &'n ClusterMachine<'a>>,
) -> Option<Cause> {
    first(network(facts).into_iter().chain(nodes.into_iter().map(|node| machine(facts, node))))
}

/// Returns the cause that keeps the control plane from being available.
pub fn find_control_plane_cause(facts: &Facts, nodes: &[ClusterMachine<'_>]) -> Option<Cause> {
    let machines = nodes.iter().filter(|node| node.is_control_plane()).map(|node| machine(facts, node));
    let machines: Vec<_> = machines.collect();
    let owned = match control_plane(facts) {
        Some(owner) => vec![Branch { children: machines, ..owner }],
        None => machines,
    };
    first(network(facts).into_iter().chain(owned))
}

/// Returns the cause that keeps the pools from being available or scaled up.
pub fn find_pool_cause(facts: &Facts, nodes: &[ClusterMachine<'_>]) -> Option<Cause> {
    let mut pools: Vec<_> = deployments(facts).collect();
    let mut others = Vec::new();
    for node in nodes.iter().filter(|node| !node.is_control_plane()) {
        let owner = node.machine.labels().get(label::DEPLOYMENT_NAME).map(String::as_str);
        let machines = match pools.iter_mut().find(|pool| Some(pool.name) == owner) {
            Some(pool) => &mut pool.children,
            None => &mut others,
        };
        machines.push(machine(facts, node));
    }
    first(network(facts).into_iter().chain(others).chain(pools))
}

/// Returns the failure that blocks a cluster's deletion, or `None` if the deletion only takes time.
pub fn find_deletion_cause(facts: &Facts) -> Option<Cause> {
    let nodes = ClusterMachine::all(facts);
    let machines = nodes.iter().map(|node| machine(facts, node));
    let owned: BTreeSet<_> = nodes.iter().filter_map(|node| Some(node.wcp?.name_any())).collect();
    let left = facts.wcp_machines.iter().filter(|wcp| !owned.contains(&wcp.name_any()));
    let left = left.map(|wcp| Branch::new("WCPMachine", &wcp.metadata, NONE));
    let sets = facts.sets.iter().map(|set| Branch::new("MachineSet", &set.metadata, NONE));
    let cluster = facts.cluster.iter().map(|cluster| Branch::new("Cluster", &cluster.metadata, NONE));
    let children = machines
        .chain(left)
        .chain(sets)
        .chain(deployments(facts))
        .chain(control_plane(facts))
        .chain(infrastructure(facts))
        .chain(cluster);
    let kind = "TanzuKubernetesCluster";
    let root = Branch { kind, is_deleting: true, children: children.collect(), ..Branch::default() };
    first([root]).filter(Cause::is_failing)
}

/// Returns the first cause in these trees. In capw's messages, TanzuKubernetesCluster fields replace those of capw's kinds. The
/// cause names the path from the Machine to the failing object.
fn first<'a>(roots: impl IntoIterator<Item = Branch<'a>>) -> Option<Cause> {
    let roots: Vec<_> = roots.into_iter().collect();
    let Suspect { path, cause } = first_cause(&roots)?;
    let suspect = path.last()?;
    let from = path.iter().position(|branch| branch.kind == "Machine").unwrap_or(path.len() - 1);
    let object = match suspect.held_by {
        Some(_) => format!("{} {}/{}", suspect.kind, suspect.namespace, suspect.name),
        None => path[from..].iter().map(ToString::to_string).collect::<Vec<_>>().join(": "),
    };
    let is_from_capw = suspect.kind.starts_with("WCP");
    let message = if is_from_capw { remedy::with_fields(&cause.message) } else { cause.message };
    Some(Cause { object, message, ..cause })
}

const NONE: [&Condition; 0] = [];

fn infrastructure(facts: &Facts) -> Option<Branch<'_>> {
    let wcp = facts.wcp_cluster.as_ref()?;
    let conditions = wcp.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    Some(Branch::new("WCPCluster", &wcp.metadata, conditions))
}

fn control_plane(facts: &Facts) -> Option<Branch<'_>> {
    let owner = facts.control_plane.as_ref()?;
    let conditions = owner.status.as_ref().and_then(|status| status.conditions.as_deref());
    Some(Branch::new("KubeadmControlPlane", &owner.metadata, conditions.unwrap_or_default()))
}

fn deployments(facts: &Facts) -> impl Iterator<Item = Branch<'_>> {
    facts.deployments.iter().map(|owner| {
        let conditions = owner.status.as_ref().and_then(|status| status.conditions.as_deref());
        Branch::new("MachineDeployment", &owner.metadata, conditions.unwrap_or_default())
    })
}

fn machine<'a>(facts: &'a Facts, node: &ClusterMachine<'a>) -> Branch<'a> {
    let status = node.wcp.and_then(|wcp| wcp.status.as_ref());
    let wcp = node.wcp.map(|wcp| Branch {
        vm_status: status.and_then(|status| status.vm_status.as_deref()).unwrap_or_default(),
        ..Branch::new(
            "WCPMachine",
            &wcp.metadata,
            status.map(|s| s.conditions.as_slice()).unwrap_or_default(),
        )
    });
    let machine = MachineFacts {
        has_node: node.node().is_some(),
        address: status.and_then(|status| status.vm_ip.as_deref()),
        endpoint: if facts.is_initialized() { None } else { endpoint(facts) },
    };
    let branch = Branch::new("Machine", &node.machine.metadata, conditions(node.machine));
    Branch { machine, children: wcp.into_iter().collect(), ..branch }
}

/// Returns the API server's URL, once the endpoint is known.
fn endpoint(facts: &Facts) -> Option<String> {
    let endpoint = facts.cluster.as_ref()?.spec.control_plane_endpoint.as_ref()?;
    Some(kit::guest::server(
        endpoint.host.as_deref().filter(|host| !host.is_empty())?,
        endpoint.port?.try_into().ok()?,
    ))
}

/// Returns the container network, if it can't be applied.
fn network(facts: &Facts) -> Option<Branch<'_>> {
    let mut reports = facts.addons.iter().flat_map(|reports| reports.iter());
    let report = reports.find(|report| report.type_ == Some(AddonType::Cni))?;
    let cause = report.cause(false).filter(Cause::is_failing)?;
    Some(Branch { kind: ADD_ON, name: &report.name, cause: Some(cause), ..Branch::default() })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;
    use crate::cluster::fixtures::{ClusterFixture, condition, from};
    use crate::testing::sound;

    #[test]
    fn a_deletion_names_what_holds_it() {
        let mut facts = ClusterFixture::running(sound()).facts();
        assert_eq!(find_deletion_cause(&facts), None);
        let (machine, wcp) = (&mut facts.machines[0], &mut facts.wcp_machines[0]);
        let name = machine.name_any();
        let deleted = Some(Time(jiff::Timestamp::UNIX_EPOCH));
        Arc::make_mut(machine).metadata.deletion_timestamp = deleted.clone();
        Arc::make_mut(wcp).metadata.deletion_timestamp = deleted;
        let failed =
            from(condition("Ready", "False", "DeletionFailed", "VirtualMachine ns/a: no permission"));
        Arc::make_mut(wcp).status.as_mut().unwrap().conditions = vec![failed];
        let cause = find_deletion_cause(&facts).unwrap().to_string();
        let expected =
            format!("Machine {name}: WCPMachine {name}: DeletionFailed: VirtualMachine ns/a: no permission");
        assert_eq!(cause, expected);

        facts.wcp_machines.remove(0);
        Arc::make_mut(&mut facts.machines[0]).metadata.finalizers = Some(vec!["backup.example/x".to_owned()]);
        let cause = find_deletion_cause(&facts).unwrap().to_string();
        assert!(
            cause.starts_with(&format!("Machine ns/{name}: DeletionHeld: deletion is blocked")),
            "{cause}"
        );
    }

    #[test]
    fn a_pool_without_its_machine_says_why() {
        let mut facts = ClusterFixture::running(sound()).facts();
        let nodes = |facts: &Facts| {
            find_pool_cause(facts, &ClusterMachine::all(facts)).map(|cause| cause.to_string())
        };
        let blocked = from(condition("ScalingUp", "True", "ScalingUp", "blocked: no template"));
        let deployment = Arc::make_mut(&mut facts.deployments[0]);
        deployment.status.as_mut().unwrap().conditions = Some(vec![blocked]);
        let name = deployment.name_any();
        assert_eq!(
            nodes(&facts).unwrap(),
            format!("MachineDeployment {name}: ScalingUp: blocked: no template")
        );
    }
}
