//! How many machines of a control plane or a node pool there should be, and how many there are.

use api::capi::{KubeadmControlPlane, MachineDeployment};
use api::names::label;
use kube::ResourceExt;

use crate::cluster::facts::Facts;

/// The counts of machines that are alike.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ReplicaCounts {
    /// How many there should be.
    pub wanted: i32,
    /// How many there are.
    pub there: i32,
    /// How many of them are ready.
    pub ready: i32,
    /// How many of them are as they should be.
    pub up_to_date: i32,
    /// Whether the counts are about the present spec.
    pub current: bool,
}

impl ReplicaCounts {
    /// The counts of a control plane.
    pub fn of_control_plane(kcp: &KubeadmControlPlane) -> Self {
        let status = kcp.status.as_ref();
        Self {
            wanted: kcp.spec.replicas.unwrap_or(1),
            there: status.and_then(|s| s.replicas).unwrap_or_default(),
            ready: status.and_then(|s| s.ready_replicas).unwrap_or_default(),
            up_to_date: status.and_then(|s| s.up_to_date_replicas).unwrap_or_default(),
            current: status.and_then(|s| s.observed_generation) >= kcp.metadata.generation,
        }
    }

    /// The counts of a node pool.
    pub fn of_pool(deployment: &MachineDeployment) -> Self {
        let status = deployment.status.as_ref();
        Self {
            wanted: deployment.spec.replicas.unwrap_or(1),
            there: status.and_then(|s| s.replicas).unwrap_or_default(),
            ready: status.and_then(|s| s.ready_replicas).unwrap_or_default(),
            up_to_date: status.and_then(|s| s.up_to_date_replicas).unwrap_or_default(),
            current: status.and_then(|s| s.observed_generation) >= deployment.metadata.generation,
        }
    }

    /// Whether everything is there, ready and as it should be.
    pub fn is_settled(&self) -> bool {
        let Self { wanted, there, ready, up_to_date, current } = *self;
        current && [there, ready, up_to_date].iter().all(|count| *count == wanted)
    }

    /// Whether machines are being made what the spec says since it changed.
    pub fn is_changing(&self) -> bool {
        !self.current || self.up_to_date != self.there
    }

    /// Whether machines come, go or are replaced.
    pub fn is_moving(&self) -> bool {
        self.is_changing() || self.there != self.wanted
    }
}

/// The node pools that exist, with their counts.
pub fn count_pools(facts: &Facts) -> impl Iterator<Item = (String, ReplicaCounts)> {
    facts.deployments.iter().map(|deployment| {
        let pool = deployment.labels().get(label::NODE_POOL).cloned();
        let mut counts = ReplicaCounts::of_pool(deployment);
        counts.current &= !has_former_machines(deployment, facts);
        (pool.unwrap_or_else(|| deployment.name_any()), counts)
    })
}

/// Whether a pool has machines of a template that it has no more.
///
/// A MachineDeployment has seen its new spec before its counts are about it: for seconds, all machines are still called up
/// to date.
fn has_former_machines(deployment: &MachineDeployment, facts: &Facts) -> bool {
    let name = deployment.name_any();
    let of_pool = facts.sets.iter().filter(|set| set.labels().get(label::DEPLOYMENT_NAME) == Some(&name));
    let wanted = &deployment.spec.template.spec;
    let config = wanted.bootstrap.config_ref.as_ref().map(|config| &config.name);
    let mut former = of_pool.filter(|set| {
        let made = &set.spec.template.spec;
        made.version != wanted.version
            || made.infrastructure_ref.name != wanted.infrastructure_ref.name
            || made.bootstrap.config_ref.as_ref().map(|config| &config.name) != config
    });
    former.any(|set| {
        let there = set.status.as_ref().and_then(|status| status.replicas).unwrap_or_default();
        there > 0 || set.spec.replicas.unwrap_or_default() > 0
    })
}
