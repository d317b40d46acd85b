//! Objects that go because they live on in another management cluster.

use api::names::annotation;
use kube::{Resource, ResourceExt};

/// Whether the object is, or is about to be, deleted here because it was moved: what it stands for is another's now.
///
/// `clusterctl move` marks an object, deletes it and takes its finalizers off. Where it ends in between, an object that nobody
/// deletes has the mark: it is left alone, too.
pub fn is_moving<K: Resource>(object: &K) -> bool {
    object.annotations().contains_key(annotation::DELETE_FOR_MOVE)
}
