//! Chooses a virtual router number (VRRP's virtual router ID, VRID) for each cluster with a virtual IP. The cluster's control
//! plane nodes form one virtual router, which announces the control plane address. Virtual routers with the same number in one
//! network would compete with each other.
//!
//! The number is stored in an annotation of the WCPCluster, so that it moves with the WCPCluster. It changes only if the cluster
//! doesn't have nodes yet and a VM of another management cluster uses the number.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use api::capw::WCPCluster;
use api::names::annotation;
use kube::ResourceExt;

/// Returns the cluster's number (1 to 255), or `None` if capw hasn't stored a number yet.
pub fn virtual_router(cluster: &WCPCluster) -> Option<u8> {
    cluster.annotations().get(annotation::VIRTUAL_ROUTER)?.parse().ok().filter(|id| *id > 0)
}

/// The numbers that this process chose for existing clusters, by WCPCluster UID. A chosen number appears in the cache only after a
/// delay.
#[derive(Default)]
pub struct Draws(Mutex<BTreeMap<String, u8>>);

impl Draws {
    /// Returns a new number for a cluster, or `None` if the cluster keeps its current number. A number in `taken` is replaced.
    ///
    /// The cluster gets the first number after `start` that neither `clusters` nor `taken` contains. If all numbers are in use, it
    /// gets the number with the fewest users: so many clusters are probably in different networks. `clusters` are all clusters in
    /// the cache. The numbers of other clusters are forgotten.
    pub fn draw(
        &self,
        cluster: &WCPCluster,
        clusters: &[impl AsRef<WCPCluster>],
        taken: &[i32],
        start: u8,
    ) -> Option<u8> {
        let is_taken = |id: u8| taken.contains(&i32::from(id));
        let present = virtual_router(cluster);
        if present.is_some_and(|id| !is_taken(id)) {
            return None;
        }
        let own = cluster.uid().unwrap_or_default();
        let mut drawn = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let existing: BTreeSet<_> = clusters.iter().filter_map(|other| other.as_ref().uid()).collect();
        drawn.retain(|uid, _| existing.contains(uid) || *uid == own);
        let mut owners: BTreeMap<String, u8> = drawn.clone();
        for other in clusters.iter().map(AsRef::as_ref) {
            if let Some(id) = virtual_router(other) {
                owners.insert(other.uid().unwrap_or_default(), id);
            }
        }
        owners.remove(&own);
        let users =
            |id: u8| owners.values().filter(|owned| **owned == id).count() + usize::from(is_taken(id));
        let all = u16::from(u8::MAX);
        let candidates = (0..all).filter_map(|step| u8::try_from((u16::from(start) + step) % all + 1).ok());
        let id = candidates.min_by_key(|id| users(*id))?;
        drawn.insert(own, id);
        Some(id).filter(|_| present != Some(id))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn cluster(uid: &str, id: Option<u8>) -> WCPCluster {
        let mut cluster = WCPCluster::default();
        cluster.metadata.uid = Some(uid.to_owned());
        cluster.metadata.annotations =
            id.map(|id| [(annotation::VIRTUAL_ROUTER.to_owned(), id.to_string())].into());
        cluster
    }

    fn draw(cluster: &WCPCluster, others: &[WCPCluster], start: u8) -> Option<u8> {
        let others: Vec<_> = others.iter().cloned().map(Arc::new).collect();
        Draws::default().draw(cluster, &others, &[], start)
    }

    #[test]
    fn two_clusters_whose_addresses_end_alike_have_two_routers() {
        let first = cluster("a", Some(7));
        let new = cluster("b", None);
        assert_eq!(draw(&new, std::slice::from_ref(&first), 6), Some(8));
        assert_eq!(draw(&new, &[], 6), Some(7));
        assert_eq!(draw(&new, &[], 255), Some(1));
    }

    #[test]
    fn a_number_is_drawn_once() {
        assert_eq!(draw(&cluster("a", Some(9)), &[], 1), None);
        assert_eq!(virtual_router(&cluster("a", Some(9))), Some(9));
    }

    #[test]
    fn two_that_are_drawn_before_the_cache_shows_the_first_differ() {
        let draws = Draws::default();
        let [a, b] = ["a", "b"].map(|uid| Arc::new(cluster(uid, None)));
        let both = [Arc::clone(&a), Arc::clone(&b)];
        assert_eq!(draws.draw(&a, &both, &[], 6), Some(7));
        assert_eq!(draws.draw(&b, &both, &[], 6), Some(8));
        assert_eq!(draws.draw(&a, &both, &[], 6), Some(7), "a write that was lost is repeated");
    }

    #[test]
    fn the_number_of_a_deleted_cluster_is_free_again() {
        let draws = Draws::default();
        let [a, b] = ["a", "b"].map(|uid| Arc::new(cluster(uid, None)));
        assert_eq!(draws.draw(&a, &[Arc::clone(&a)], &[], 6), Some(7));
        assert_eq!(draws.draw(&b, &[Arc::clone(&b)], &[], 6), Some(7));
        assert_eq!(draws.0.lock().unwrap().len(), 1);
    }

    #[test]
    fn where_all_numbers_are_taken_the_least_used_is_drawn() {
        let mut all: Vec<_> = (1..=255).map(|id| cluster(&format!("u{id}"), Some(id))).collect();
        all.extend((2..=255).map(|id| cluster(&format!("v{id}"), Some(id))));
        assert_eq!(draw(&cluster("new", None), &all, 100), Some(1));
    }

    #[test]
    fn a_number_of_a_vm_in_vcenter_is_not_drawn_and_drawn_again() {
        let none: [Arc<WCPCluster>; 0] = [];
        let draw = |cluster: &WCPCluster, taken: &[i32]| Draws::default().draw(cluster, &none, taken, 6);
        assert_eq!(draw(&cluster("a", None), &[7, 8]), Some(9));
        assert_eq!(draw(&cluster("a", Some(8)), &[7, 8]), Some(9));
        assert_eq!(draw(&cluster("a", Some(9)), &[7, 8]), None);
        let all: Vec<_> = (1..=255).collect();
        assert_eq!(draw(&cluster("a", None), &all), Some(7), "in more networks than one");
        assert_eq!(draw(&cluster("a", Some(7)), &all), None);
    }
}
