//! Computes a cluster's conditions, one function per condition.

use api::capw::vm_status;
use api::conditions::cause::{self, Cause};
use api::conditions::severity::Severity;
use api::conditions::{Condition, FALSE, INFO, READY, TRUE, WARNING, capi, find, metav1, tkc as words};
use api::gcm::TanzuKubernetesCluster;
use api::gcm::parts::{NodePool, node_status};
use kube::ResourceExt;

use super::blocking;
use super::lost::find_lost_control_plane;
use crate::addons::choice::{Offer, container_networks, skipped};
use crate::admission::node_images::InstalledReleases;
use crate::cluster::facts::Facts;
use crate::cluster::guest::{ConditionWithCause, authentication, left_in_image, synced, usable};
use crate::cluster::health::budget;
use crate::cluster::node_groups::nodes::ClusterMachine;
use crate::cluster::node_groups::pace;
use crate::cluster::node_groups::replicas::{ReplicaCounts, count_pools};
use crate::cluster::upgrade::is_control_plane_sent;
use crate::release::resolution;
use crate::release::status::updates_condition;
use crate::spec::network::ClusterNetwork;
use crate::spec::release::{current_version, release_request};

/// Returns all conditions except the summary, in the order in which the summary evaluates them.
pub fn build_conditions(tkc: &TanzuKubernetesCluster, facts: &Facts) -> Vec<ConditionWithCause> {
    let nodes = ClusterMachine::all(facts);
    let mut conditions = vec![control_plane(facts, &nodes), pools(tkc, facts, &nodes)];
    conditions.push(addons(tkc, facts, &nodes));
    conditions.extend(provider_accounts(tkc, facts));
    conditions.push(nodes_healthy(tkc, facts, &nodes));
    conditions.extend(synced::conditions(tkc, facts));
    conditions.extend(authentication::condition(tkc, facts));
    conditions.extend(release(tkc, facts).into_iter().map(ConditionWithCause::from));
    conditions
}

/// Returns the summary: the first failing condition, renamed to `Ready`, or `Ready` True.
pub fn summarize_ready(conditions: &[ConditionWithCause]) -> ConditionWithCause {
    match list_failing(conditions).next().cloned() {
        Some(ConditionWithCause { condition, cause }) => {
            ConditionWithCause { condition: Condition { type_: READY.into(), ..condition }, cause }
        }
        None => Condition::is_true(READY).into(),
    }
}

/// Returns true if nodes and add-ons are ready. Failing conditions with a reason in [`words::RUNNING_WITHOUT`] are ignored.
pub fn nodes_serve(conditions: &[ConditionWithCause]) -> bool {
    let can_run = |each: &ConditionWithCause| {
        each.condition.reason.as_deref().is_some_and(|reason| words::RUNNING_WITHOUT.contains(&reason))
    };
    list_failing(conditions).all(can_run)
}

/// Returns the conditions that keep a cluster from being ready, in order.
fn list_failing(conditions: &[ConditionWithCause]) -> impl Iterator<Item = &ConditionWithCause> {
    const SUMMED: [&str; 4] =
        [words::CONTROL_PLANE_READY, words::NODE_POOLS_READY, words::ADDONS_READY, words::NODES_HEALTHY];
    conditions.iter().filter(|ConditionWithCause { condition, .. }| {
        (SUMMED.contains(&condition.type_.as_ref()) && condition.status != TRUE)
            || is_guest_failing(condition)
    })
}

/// Returns true if this condition is about the workload cluster and keeps the cluster from being ready. `Unknown` conditions
/// don't, and neither do conditions with severity `Info`, which report a missing part that wasn't requested.
pub fn is_guest_failing(condition: &Condition) -> bool {
    const OF_GUEST: [&str; 5] = [
        words::PROVIDER_SERVICE_ACCOUNTS_READY,
        words::ROLE_BINDING_SYNCED,
        words::STORAGE_CLASS_SYNCED,
        words::SERVICE_DISCOVERY_READY,
        words::AUTHENTICATION_READY,
    ];
    OF_GUEST.contains(&condition.type_.as_ref())
        && condition.status == FALSE
        && condition.severity.as_deref() != Some(INFO)
}

/// Returns a false condition whose message is `text`, followed by the cause. The cause also decides the severity.
fn build_unmet(type_: &str, reason: &str, text: &str, cause: Option<Cause>) -> ConditionWithCause {
    let severity = if cause.as_ref().is_some_and(Cause::is_failing) { WARNING } else { INFO };
    let message = cause.as_ref().map_or_else(|| text.to_owned(), |cause| format!("{text}: {cause}"));
    ConditionWithCause { condition: Condition::is_false(type_, severity, reason, message), cause }
}

fn control_plane(facts: &Facts, nodes: &[ClusterMachine<'_>]) -> ConditionWithCause {
    let initialization =
        facts.cluster.as_ref().and_then(|cluster| cluster.status.as_ref()?.initialization.as_ref());
    if initialization.is_none_or(|done| done.infrastructure_provisioned != Some(true)) {
        return build_unmet(
            words::CONTROL_PLANE_READY,
            words::WAITING_FOR_CLUSTER_INFRASTRUCTURE,
            "Waiting for cluster infrastructure to be ready",
            blocking::find_infrastructure_cause(facts),
        );
    }
    let cause = blocking::find_control_plane_cause(facts, nodes);
    if !facts.is_initialized() {
        return build_unmet(
            words::CONTROL_PLANE_READY,
            words::WAITING_FOR_CONTROL_PLANE_INITIALIZED,
            "Waiting for the first control plane node",
            cause,
        );
    }
    if let Some(lost) = find_lost_control_plane(facts, nodes) {
        return build_unmet(
            words::CONTROL_PLANE_READY,
            words::CANNOT_BE_REMEDIATED,
            "The control plane is lost",
            Some(lost),
        );
    }
    let kcp = facts.control_plane.as_deref();
    let available = kcp
        .and_then(|kcp| kcp.status.as_ref()?.conditions.as_deref())
        .is_some_and(|c| metav1::holds(c, capi::AVAILABLE));
    if available && kcp.map(ReplicaCounts::of_control_plane).is_some_and(|group| group.is_settled()) {
        return Condition::is_true(words::CONTROL_PLANE_READY).into();
    }
    build_unmet(
        words::CONTROL_PLANE_READY,
        words::WAITING_FOR_CONTROL_PLANE,
        "Waiting for control planes to be ready",
        cause,
    )
}

fn pools(tkc: &TanzuKubernetesCluster, facts: &Facts, nodes: &[ClusterMachine<'_>]) -> ConditionWithCause {
    let wanted = &tkc.spec.topology.node_pools;
    if facts.deployments.is_empty() && !wanted.is_empty() {
        return build_unmet(
            words::NODE_POOLS_READY,
            words::NODE_POOLS_UNKNOWN,
            "The node pools do not exist yet",
            None,
        );
    }
    let unsettled: Vec<String> =
        count_pools(facts).filter_map(|(pool, group)| describe_unsettled(wanted, &pool, &group)).collect();
    if unsettled.is_empty() {
        return Condition::is_true(words::NODE_POOLS_READY).into();
    }
    let workers = || nodes.iter().filter(|node| !node.is_control_plane());
    let cause = blocking::find_pool_cause(facts, nodes);
    let failed =
        workers().any(|node| [vm_status::ERROR, vm_status::NOT_FOUND].contains(&node.vm_status().as_str()));
    let reason = if failed { words::NODE_POOLS_FAILED } else { words::NODE_POOLS_UPDATING };
    build_unmet(words::NODE_POOLS_READY, reason, &format!("Node pool {}", unsettled.join(", ")), cause)
}

/// Describes a pool that doesn't match its spec yet. Returns `None` for a settled pool.
fn describe_unsettled(wanted: &[NodePool], pool: &str, group: &ReplicaCounts) -> Option<String> {
    let of_spec = wanted.iter().find(|wanted| wanted.name == pool).and_then(|wanted| wanted.replicas);
    let all = of_spec.filter(|all| *all > group.wanted);
    if group.is_settled() && all.is_none() {
        return None;
    }
    let text = format!("{pool} has {} of {} nodes ready", group.ready, all.unwrap_or(group.wanted));
    Some(match all {
        Some(_) if !group.is_settled() => format!(
            "{text} ({} are requested so far: a cluster grows in steps of at most {} nodes)",
            group.wanted,
            pace::STEP
        ),
        _ => text,
    })
}

/// Returns true if the cluster has nodes that aren't being deleted, and all of these are ready.
pub fn all_nodes_ready(nodes: &[ClusterMachine<'_>]) -> bool {
    let mut staying = nodes.iter().filter(|node| !node.is_deleting()).peekable();
    staying.peek().is_some() && staying.all(|node| node.node_status() == node_status::READY)
}

fn addons(tkc: &TanzuKubernetesCluster, facts: &Facts, nodes: &[ClusterMachine<'_>]) -> ConditionWithCause {
    let Some(reports) = &facts.addons else {
        // The workload cluster had no round since gcm started, so keep the last condition.
        let before = tkc.status.as_ref().and_then(|status| find(&status.conditions, words::ADDONS_READY));
        if let Some(before) = before {
            return before.clone().into();
        }
        let text = "Waiting for the API server of the cluster";
        return build_unmet(words::ADDONS_READY, words::ADDONS_RECONCILING, text, None);
    };
    let serves = all_nodes_ready(nodes);
    let offer = Offer {
        cluster: &tkc.name_any(),
        cni: ClusterNetwork::read(&tkc.spec).cni,
        config_maps: &facts.bundles,
        image: None,
    };
    let skipped = skipped(&offer);
    let causes = reports.iter().filter_map(|report| report.cause(serves));
    let causes = causes.chain(skipped.iter().map(|bundle| Cause {
        object: bundle.origin.clone(),
        reason: words::PROVISIONING_FAILED.to_owned(),
        message: bundle.reason.clone(),
        severity: Severity::Warning,
    }));
    let Some(cause) = cause::gravest(causes, |cause| cause.severity) else {
        return addons_applied(facts).into();
    };
    let reason =
        if cause.is_failing() { words::ADDONS_RECONCILIATION_FAILED } else { words::ADDONS_RECONCILING };
    let settled = reports.iter().filter(|report| report.cause(serves).is_none()).count();
    let held = if is_control_plane_sent(tkc, facts) {
        ""
    } else {
        "; the control plane keeps its version until all of them can be applied"
    };
    let text =
        format!("{settled} of {} add-ons are applied and healthy{held}", reports.len() + skipped.len());
    build_unmet(words::ADDONS_READY, reason, &text, Some(cause))
}

/// Returns the condition for applied and healthy add-ons. The message lists the node image's add-ons that the cluster doesn't
/// get.
fn addons_applied(facts: &Facts) -> Condition {
    let left =
        facts.survey.as_ref().and_then(|survey| left_in_image::summarize_bundles(&survey.left_in_image));
    let reason = left.is_some().then(|| words::ADDONS_LEFT_IN_IMAGE.to_owned());
    Condition { reason, message: left, ..Condition::is_true(words::ADDONS_READY) }
}

/// Returns the condition for programs in the workload cluster and their accounts. Returns `None` until the WCPCluster
/// reports the accounts.
fn provider_accounts(tkc: &TanzuKubernetesCluster, facts: &Facts) -> Option<ConditionWithCause> {
    const TYPE: &str = words::PROVIDER_SERVICE_ACCOUNTS_READY;
    let wcp_cluster = facts.wcp_cluster.as_deref()?;
    let found = metav1::find(&wcp_cluster.status.as_ref()?.conditions, TYPE)?;
    Some(match found.status.as_str() {
        TRUE => usable::judge_accounts(tkc, facts),
        FALSE => {
            let (object, reason) = (format!("WCPCluster {}", wcp_cluster.name_any()), found.reason.clone());
            let cause = Cause { object, reason, message: found.message.clone(), severity: Severity::Warning };
            let message = cause::one_line(&found.message);
            let condition = Condition::is_false(TYPE, WARNING, &found.reason, message);
            ConditionWithCause { condition, cause: Some(cause) }
        }
        _ => Condition::is_unknown(TYPE, &found.reason, cause::one_line(&found.message)).into(),
    })
}

fn nodes_healthy(
    tkc: &TanzuKubernetesCluster,
    facts: &Facts,
    nodes: &[ClusterMachine<'_>],
) -> ConditionWithCause {
    let staying = || nodes.iter().filter(|node| !node.is_deleting());
    let ill: Vec<&ClusterMachine<'_>> =
        staying().filter(|node| node.node_status() != node_status::READY).collect();
    let all = staying().count();
    if ill.is_empty() && all > 0 {
        return Condition::is_true(words::NODES_HEALTHY).into();
    }
    let text = format!("{} of {all} nodes are ready", all - ill.len());
    let cause = blocking::find_node_cause(facts, ill.iter().copied());
    if let Some((pool, until)) = budget::list_spent_pools(tkc, facts).first() {
        let text = format!(
            "{text}; {} nodes of pool {} were replaced, and no other is replaced before {until}. Fix the causes that status.remediatedNodes lists, or delete the Machine",
            facts.health.max_remediations, pool.name
        );
        return build_unmet(words::NODES_HEALTHY, words::TOO_MANY_REMEDIATIONS, &text, cause);
    }
    build_unmet(words::NODES_HEALTHY, words::WAITING_FOR_NODES_HEALTHY, &text, cause)
}

fn release(tkc: &TanzuKubernetesCluster, facts: &Facts) -> Vec<Condition> {
    let compatible = match resolution::resolve_release(release_request(tkc), &facts.available_releases) {
        Ok(_) => Condition::is_true(words::TANZU_KUBERNETES_RELEASE_COMPATIBLE),
        Err(unresolved) => Condition::is_false(
            words::TANZU_KUBERNETES_RELEASE_COMPATIBLE,
            WARNING,
            api::conditions::release::INCOMPATIBLE,
            unresolved.to_string(),
        ),
    };
    let bundles = container_networks(facts.bundles.iter().map(AsRef::as_ref));
    let installed = InstalledReleases {
        available: &facts.available_releases,
        bundles: Some(&bundles),
        virtual_ip: Some(&facts.virtual_ip),
    };
    let updates = current_version(tkc)
        .map(|current| updates_condition(words::UPDATES_AVAILABLE, &installed.updates(tkc, &current)));
    std::iter::once(compatible).chain(updates).collect()
}
