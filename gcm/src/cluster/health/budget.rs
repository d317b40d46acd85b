//! Limits the number of nodes that are replaced in a pool within a time window. A problem that also affects new nodes must not
//! cause endless replacements.
//!
//! The budget is computed from the status, so that it survives a restart.

use api::gcm::TanzuKubernetesCluster;
use api::gcm::parts::NodePool;
use api::names;
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;

use crate::cluster::facts::Facts;
use crate::cluster::flags::health::HealthFlags;

/// Returns the time until which a pool's nodes aren't replaced because the budget is spent. Returns `None` if it isn't spent.
pub fn compute_spent_until(
    tkc: &TanzuKubernetesCluster,
    pool: &NodePool,
    health: &HealthFlags,
    now: Timestamp,
) -> Option<Timestamp> {
    let deployment =
        names::machine_deployment(&tkc.namespace().unwrap_or_default(), &tkc.name_any(), &pool.name);
    let window = window(health);
    let most = usize::try_from(health.max_remediations).ok().filter(|most| *most > 0)?;
    let remembered = tkc.status.iter().flat_map(|status| &status.remediated_nodes);
    let of_pool = remembered
        .filter(|node| node.machine.strip_prefix(&deployment).is_some_and(|rest| rest.starts_with('-')));
    let mut ends: Vec<Timestamp> =
        of_pool.filter_map(|node| node.time.parse::<Timestamp>().ok()?.checked_add(window).ok()).collect();
    ends.retain(|end| *end > now);
    ends.sort();
    ends.len().checked_sub(most).and_then(|at| ends.get(at).copied())
}

/// Returns the time for which a replacement counts toward the limit.
pub fn window(health: &HealthFlags) -> SignedDuration {
    SignedDuration::from_secs(health.remediation_window.into())
}

/// Returns the pools whose budget is spent, each with the time until which its nodes aren't replaced.
pub fn list_spent_pools<'t>(
    tkc: &'t TanzuKubernetesCluster,
    facts: &Facts,
) -> Vec<(&'t NodePool, Timestamp)> {
    let pools = &tkc.spec.topology.node_pools;
    let until = |pool: &'t NodePool| Some((pool, compute_spent_until(tkc, pool, &facts.health, facts.now)?));
    pools.iter().filter_map(until).collect()
}

#[cfg(test)]
mod tests {
    use api::gcm::parts::RemediatedNode;

    use super::*;
    use crate::cluster::fixtures::stored;
    use crate::testing::sound;

    #[test]
    fn as_many_nodes_as_may_be_are_replaced_within_an_hour_and_no_more() {
        let mut tkc = stored(sound());
        let pool = tkc.spec.topology.node_pools[0].clone();
        let deployment = names::machine_deployment("ns", "c", &pool.name);
        let at = |time: &str| format!("2026-11-21T{time}Z").parse::<Timestamp>().unwrap();
        let health = HealthFlags::default();
        let remediated = |tkc: &mut TanzuKubernetesCluster, machine: String, time: &str| {
            let node = RemediatedNode { machine, time: at(time).to_string(), ..RemediatedNode::default() };
            tkc.status.get_or_insert_default().remediated_nodes.push(node);
        };
        let until =
            |tkc: &TanzuKubernetesCluster, now: &str| compute_spent_until(tkc, &pool, &health, at(now));
        remediated(&mut tkc, format!("{deployment}-x-a"), "12:00:00");
        remediated(&mut tkc, format!("{deployment}-x-b"), "12:10:00");
        remediated(&mut tkc, "c-control-plane-x".to_owned(), "12:15:00");
        remediated(&mut tkc, format!("{deployment}2-x-b"), "12:15:00");
        assert_eq!(until(&tkc, "12:20:00"), None, "two, and two of others");
        remediated(&mut tkc, format!("{deployment}-x-c"), "12:20:00");
        assert_eq!(until(&tkc, "12:21:00"), Some(at("13:00:00")), "the first of three ends then");
        assert_eq!(until(&tkc, "13:00:00"), None);
        remediated(&mut tkc, format!("{deployment}-x-d"), "13:00:30");
        assert_eq!(until(&tkc, "13:01:00"), Some(at("13:10:00")));
        let unlimited = HealthFlags { max_remediations: 0, ..HealthFlags::default() };
        assert_eq!(compute_spent_until(&tkc, &pool, &unlimited, at("13:01:00")), None);
    }
}
