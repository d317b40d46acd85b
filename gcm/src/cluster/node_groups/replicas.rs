//! Counts requested and existing machines in a control plane or node pool.

use api::capi::{KubeadmControlPlane, MachineDeployment};
use api::names::label;
use kube::ResourceExt;

use crate::cluster::facts::Facts;

/// The machine counts of a control plane or pool.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ReplicaCounts {
    /// The number of requested machines.
    pub wanted: i32,
    /// The number of existing machines.
    pub there: i32,
    /// The number of existing machines that are ready.
    pub ready: i32,
    /// The number of existing machines that match the spec.
    pub up_to_date: i32,
    /// True if the counts refer to the current spec.
    pub current: bool,
}

impl ReplicaCounts {
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

    /// Returns true if all machines exist, are ready and match the spec.
    pub fn is_settled(&self) -> bool {
        let Self { wanted, there, ready, up_to_date, current } = *self;
        current && [there, ready, up_to_date].iter().all(|count| *count == wanted)
    }

    /// Returns true if a spec change hasn't reached all machines yet.
    pub fn is_changing(&self) -> bool {
        !self.current || self.up_to_date != self.there
    }

    /// Returns true if machines are being added, removed or replaced.
    pub fn is_moving(&self) -> bool {
        self.is_changing() || self.there != self.wanted
    }
}

/// Returns the name and counts of each existing node pool.
pub fn count_pools(facts: &Facts) -> impl Iterator<Item = (String, ReplicaCounts)> {
    facts.deployments.iter().map(|deployment| {
        let pool = deployment.labels().get(label::NODE_POOL).cloned();
        let mut counts = ReplicaCounts::of_pool(deployment);
        counts.current &= !has_former_machines(deployment, facts);
        (pool.unwrap_or_else(|| deployment.name_any()), counts)
    })
}

/// Returns true if a pool still has machines with a former template or version.
///
/// For a few seconds after a MachineDeployment has observed its new spec, its counts still report all machines as up to date.
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
