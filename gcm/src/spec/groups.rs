//! Defaults for node groups.

use api::gcm::parts::{NodePool, Volume};

/// Returns a volume's storage class, or the node group's if the volume doesn't set one.
pub fn disk_class<'a>(volume: &'a Volume, group: &'a str) -> &'a str {
    volume.storage_class.as_deref().filter(|class| !class.is_empty()).unwrap_or(group)
}

/// Returns a pool's zone. An empty zone counts as unset.
pub fn zone(pool: &NodePool) -> Option<&String> {
    pool.failure_domain.as_ref().filter(|zone| !zone.is_empty())
}
