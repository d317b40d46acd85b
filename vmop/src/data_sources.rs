//! Waits until a Secret or ConfigMap that a VM needs exists or changes.
//!
//! Bootstrap data is read once, when a VM is created. A watch on Secrets would require permission to list all of them.
//! The operator only has `get`, so it polls one object by name, with growing intervals.

use std::collections::HashMap;
use std::fmt::Debug;
use std::time::Duration;

use api::vmop::VirtualMachine;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kit::retry::Failures;
use kube::api::PartialObjectMeta;
use kube::runtime::reflector::ObjectRef;
use kube::{Api, Client, Resource};
use parking_lot::Mutex;
use tokio_util::task::AbortOnDropHandle;

use crate::enqueue::Enqueue;

/// The first poll interval.
const FIRST: Duration = Duration::from_secs(1);
/// The longest poll interval.
const SLOWEST: Duration = Duration::from_secs(30);

/// Polls the Secret or ConfigMap that each VM waits for. A VM waits for one object at a time.
pub struct DataSourceWatches {
    client: Client,
    enqueue: Enqueue<VirtualMachine>,
    watches: Mutex<HashMap<ObjectRef<VirtualMachine>, Watch>>,
}

struct Watch {
    what: (DataSourceKind, String, Option<String>),
    task: AbortOnDropHandle<()>,
}

/// The kind of object that a VM waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataSourceKind {
    Secret,
    ConfigMap,
}

impl DataSourceWatches {
    /// Starts without watches. VMs whose Secret or ConfigMap changed are sent to `enqueue`.
    pub fn new(client: Client, enqueue: Enqueue<VirtualMachine>) -> Self {
        Self { client, enqueue, watches: Mutex::default() }
    }

    /// Enqueues `vm` when the Secret or ConfigMap with this name has another resource version than `seen`. If `seen` is `None`,
    /// enqueues `vm` when the object exists.
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
        watches.insert(vm.clone(), Watch { what, task: AbortOnDropHandle::new(task) });
    }

    /// Stops polling the object that the VM waits for.
    pub fn forget(&self, vm: &ObjectRef<VirtualMachine>) {
        self.watches.lock().remove(vm);
    }
}

async fn changed<K>(client: Client, namespace: &str, name: &str, seen: Option<String>)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + Send + 'static,
{
    let api = Api::<PartialObjectMeta<K>>::namespaced(client, namespace);
    let failures = Failures::new(FIRST, SLOWEST);
    loop {
        tokio::time::sleep(failures.next(())).await;
        match api.get_metadata_opt(name).await {
            Ok(Some(object)) if object.metadata.resource_version != seen => return,
            Ok(_) => {}
            Err(error) => {
                tracing::debug!(%error, namespace, name, "cannot read the objects that a VM waits for");
            }
        }
    }
}
