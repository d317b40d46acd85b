//! Waits for a Secret or ConfigMap that a machine needs and that is not there, or not right, yet.
//!
//! Bootstrap data is read once, when a machine is made. Watching every Secret of the cluster for that
//! would cost memory and rights for nothing; so one object is watched, by its name, while it is waited for.

use std::collections::HashMap;
use std::fmt::Debug;

use api::vmop::VirtualMachine;
use futures::StreamExt;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::PartialObjectMeta;
use kube::runtime::reflector::ObjectRef;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource};
use parking_lot::Mutex;
use tokio::task::JoinHandle;

use crate::wake::Waker;

/// What each machine waits for; one thing at a time.
pub struct Appearances {
    client: Client,
    waker: Waker<VirtualMachine>,
    awaited: Mutex<HashMap<ObjectRef<VirtualMachine>, Awaited>>,
}

struct Awaited {
    what: (Kind, String, Option<String>),
    task: JoinHandle<()>,
}

impl Drop for Awaited {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A Secret.
    Secret,
    /// A ConfigMap.
    ConfigMap,
}

impl Appearances {
    /// Nothing is waited for yet.
    pub fn new(client: Client, waker: Waker<VirtualMachine>) -> Self {
        Self { client, waker, awaited: Mutex::default() }
    }

    /// Wakes `vm` when the object is another than the version that was `seen` (`None`: when it is there).
    pub fn await_change(&self, vm: &ObjectRef<VirtualMachine>, kind: Kind, name: &str, seen: Option<String>) {
        let what = (kind, name.to_owned(), seen);
        let mut awaited = self.awaited.lock();
        if awaited.get(vm).is_some_and(|old| old.what == what && !old.task.is_finished()) {
            return;
        }
        let namespace = vm.namespace.clone().unwrap_or_default();
        let (client, waker, vm_ref) = (self.client.clone(), self.waker.clone(), vm.clone());
        let (_, name, seen) = what.clone();
        let task = tokio::spawn(async move {
            match kind {
                Kind::Secret => changed::<Secret>(client, &namespace, &name, seen).await,
                Kind::ConfigMap => changed::<ConfigMap>(client, &namespace, &name, seen).await,
            }
            waker.wake(vm_ref);
        });
        awaited.insert(vm.clone(), Awaited { what, task });
    }

    /// The machine waits for nothing any more.
    pub fn forget(&self, vm: &ObjectRef<VirtualMachine>) {
        self.awaited.lock().remove(vm);
    }
}

async fn changed<K>(client: Client, namespace: &str, name: &str, seen: Option<String>)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + Send + 'static,
{
    let api = Api::<PartialObjectMeta<K>>::namespaced(client, namespace);
    let mut objects = std::pin::pin!(watcher::watch_object(api, name).default_backoff());
    while let Some(object) = objects.next().await {
        if let Ok(Some(object)) = object
            && object.metadata.resource_version != seen
        {
            return;
        }
    }
}
