//! What a kind must be to be watched.

use std::fmt::Debug;

use kube::Resource;
use serde::de::DeserializeOwned;

/// A kind that can be watched: every generated kind, and [`PartialObjectMeta`](kube::api::PartialObjectMeta) of one.
pub trait Watchable:
    Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static
{
}

impl<K> Watchable for K where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static
{
}
