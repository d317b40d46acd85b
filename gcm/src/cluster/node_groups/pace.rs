//! Limits the pace at which node pools grow.
//!
//! A MachineSet creates all missing Machines in one loop, and notices a lower number or a deletion only afterward. A
//! MachineDeployment therefore grows in steps, so that a number that was too large can be corrected.

use std::sync::Arc;

use api::capi::MachineDeployment;
use api::gcm::parts::NodePool;
use api::names::label;
use kube::ResourceExt;

use super::replicas::ReplicaCounts;

/// The number of nodes that a cluster's pools together may request in addition to the nodes that are ready.
pub const STEP: i32 = 50;

/// Returns the replicas that the MachineDeployment of `pool` gets now, or `None` if another component scales the pool.
///
/// `live` contains the cluster's MachineDeployments. Growing pools share the step, and each gets at least one node, so that
/// a pool whose nodes don't become ready doesn't block the others. A pool never shrinks to keep the pace.
pub fn next_replicas(pool: &NodePool, pools: &[NodePool], live: &[Arc<MachineDeployment>]) -> Option<i32> {
    let wanted = pool.replicas?;
    let now = deployment(pool, live);
    let requested = now.and_then(|now| now.spec.replicas).unwrap_or_default();
    if wanted <= requested {
        return Some(wanted);
    }
    let growing = pools.iter().filter(|pool| pool.replicas.is_some_and(|wanted| wanted > ready(pool, live)));
    let share = i32::try_from(growing.count()).map_or(1, |pools| STEP / pools.max(1)).max(1);
    Some(requested.max(wanted.min(ready(pool, live).saturating_add(share))))
}

fn deployment<'l>(pool: &NodePool, live: &'l [Arc<MachineDeployment>]) -> Option<&'l MachineDeployment> {
    let of_pool = |live: &&Arc<MachineDeployment>| live.labels().get(label::NODE_POOL) == Some(&pool.name);
    live.iter().find(of_pool).map(AsRef::as_ref)
}

fn ready(pool: &NodePool, live: &[Arc<MachineDeployment>]) -> i32 {
    deployment(pool, live).map_or(0, |live| ReplicaCounts::of_pool(live).ready)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cluster::fixtures::from;

    fn pool(name: &str, replicas: Option<i32>) -> NodePool {
        NodePool { name: name.to_owned(), replicas, ..NodePool::default() }
    }

    fn live(pool: &str, replicas: i32, ready: i32) -> Arc<MachineDeployment> {
        Arc::new(from(json!({
            "metadata": {"name": pool, "labels": {"run.tanzu.vmware.com/node-pool": pool}},
            "spec": {"clusterName": "c", "selector": {}, "replicas": replicas, "template": {"spec": {
                "clusterName": "c", "bootstrap": {}, "infrastructureRef": {"apiGroup": "g", "kind": "k", "name": "n"},
            }}},
            "status": {"replicas": replicas, "readyReplicas": ready},
        })))
    }

    fn next(wanted: i32, live: &[Arc<MachineDeployment>]) -> Option<i32> {
        let pool = pool("a", Some(wanted));
        next_replicas(&pool, std::slice::from_ref(&pool), live)
    }

    #[test]
    fn a_large_number_is_approached_in_steps_and_can_be_taken_back() {
        assert_eq!(next(3, &[]), Some(3));
        assert_eq!(next(5000, &[]), Some(50));
        assert_eq!(next(5000, &[live("a", 50, 0)]), Some(50), "no node is ready yet");
        assert_eq!(next(5000, &[live("a", 50, 7)]), Some(57));
        assert_eq!(next(60, &[live("a", 57, 20)]), Some(60));
        assert_eq!(next(1, &[live("a", 57, 7)]), Some(1), "taken back");
        assert_eq!(next(0, &[live("a", 57, 7)]), Some(0));
    }

    #[test]
    fn an_outage_takes_no_node_away() {
        assert_eq!(next(200, &[live("a", 200, 10)]), Some(200));
        assert_eq!(next(300, &[live("a", 200, 10)]), Some(200), "it grows when its nodes are ready again");
        assert_eq!(next(300, &[live("a", 200, 190)]), Some(240));
    }

    #[test]
    fn pools_share_a_step_and_a_broken_one_does_not_hold_up_the_others() {
        let pools = [pool("a", Some(100)), pool("b", Some(100)), pool("c", Some(1)), pool("d", None)];
        let live = [live("a", 25, 0), live("b", 25, 24), live("c", 1, 1), live("d", 900, 0)];
        let next: Vec<_> = pools.iter().map(|pool| next_replicas(pool, &pools, &live)).collect();
        assert_eq!(next, [Some(25), Some(49), Some(1), None]);
        let many: Vec<_> = (0..64).map(|at| pool(&at.to_string(), Some(70))).collect();
        assert_eq!(next_replicas(&many[0], &many, &[]), Some(1), "64 pools request 64 nodes");
    }
}
