//! The requirements for a kind that can be watched.

use std::fmt::Debug;

use kube::Resource;
use serde::de::DeserializeOwned;

/// A kind that can be watched: every generated kind, and its [`PartialObjectMeta`](kube::api::PartialObjectMeta).
pub trait Watchable:
    Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static
{
}

impl<K> Watchable for K where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static
{
}
