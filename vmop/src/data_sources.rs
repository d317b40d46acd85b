//! Waits for a Secret or ConfigMap that a VM needs and that is not there, or not right, yet.
//!
//! Bootstrap data is read once, when a VM is created. Watching every Secret of the cluster for that
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

use crate::enqueue::Enqueue;

/// What each VM waits for; one thing at a time.
pub struct DataSourceWatches {
    client: Client,
    enqueue: Enqueue<VirtualMachine>,
    watches: Mutex<HashMap<ObjectRef<VirtualMachine>, Watch>>,
}

struct Watch {
    what: (DataSourceKind, String, Option<String>),
    task: JoinHandle<()>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataSourceKind {
    /// A Secret.
    Secret,
    /// A ConfigMap.
    ConfigMap,
}

impl DataSourceWatches {
    /// Nothing is waited for yet.
    pub fn new(client: Client, enqueue: Enqueue<VirtualMachine>) -> Self {
        Self { client, enqueue, watches: Mutex::default() }
    }

    /// Wakes `vm` when the object is another than the version that was `seen` (`None`: when it is there).
    pub fn watch_for_change(
        &self,
        vm: &ObjectRef<VirtualMachine>,
        kind: DataSourceKind,
        name: &str,
        seen: Option<String>,
    ) {
        let what = (kind, name.to_owned(), seen);
        let mut watches = self.watches.lock();
        if watches.get(vm).is_some_and(|old| old.what == what && !old.task.is_finished()) {
            return;
        }
        let namespace = vm.namespace.clone().unwrap_or_default();
        let (client, enqueue, vm_ref) = (self.client.clone(), self.enqueue.clone(), vm.clone());
        let (_, name, seen) = what.clone();
        let task = tokio::spawn(async move {
            match kind {
                DataSourceKind::Secret => changed::<Secret>(client, &namespace, &name, seen).await,
                DataSourceKind::ConfigMap => changed::<ConfigMap>(client, &namespace, &name, seen).await,
            }
            enqueue.enqueue(vm_ref);
        });
        watches.insert(vm.clone(), Watch { what, task });
    }

    /// The VM waits for nothing any more.
    pub fn forget(&self, vm: &ObjectRef<VirtualMachine>) {
        self.watches.lock().remove(vm);
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
