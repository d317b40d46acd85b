//! Groups of nodes.

use api::gcm::parts::{NodePool, Volume};

/// The storage class of a disk: its own, or that of its group.
pub fn disk_class<'a>(volume: &'a Volume, group: &'a str) -> &'a str {
    volume.storage_class.as_deref().filter(|class| !class.is_empty()).unwrap_or(group)
}

/// The zone of a pool; an empty one is none.
pub fn zone(pool: &NodePool) -> Option<&String> {
    pool.failure_domain.as_ref().filter(|zone| !zone.is_empty())
}
