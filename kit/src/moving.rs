//! Detects objects that `clusterctl move` moves to another management cluster.

use api::names::annotation;
use kube::{Resource, ResourceExt};

/// Returns true if the object is deleted here only because it moved. Another management cluster now manages its resources.
///
/// `clusterctl move` annotates an object, deletes it and removes its finalizers. If the command is interrupted in
/// between, the annotated object remains. Controllers ignore that object too.
pub fn is_moving<K: Resource>(object: &K) -> bool {
    object.annotations().contains_key(annotation::DELETE_FOR_MOVE)
}
