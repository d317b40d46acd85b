//! What admission knows of other objects: from caches that every replica has.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::names::{INFRASTRUCTURE_GROUP, label};
use api::vmop::{PROVIDER_CONFIGURATION, ProviderConfiguration, VirtualMachine};
use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, ResourceQuota};
use kit::Runtime;
use kit::controller::controller_in_group;
use kit::watch;
use kube::{Api, ResourceExt};
use parking_lot::RwLock;
use tokio::sync::watch as state;

use crate::caches::{ReplicaCaches, hard_keys};
use crate::namespace_networks::{default_network, refusal};
use crate::vcenter::settings::NetworkProvider;

/// Everything that rules need to know of others, looked up for one VM.
#[derive(Clone, Copy, Debug, Default)]
pub struct Facts {
    /// Whether its storage class is there and its namespace was given it; `None` where it is unknown yet.
    pub storage_class_assigned: Option<bool>,
    /// How its zone is.
    pub zone: Zone,
    /// Networks of vCenter may be given by their names.
    pub named_networks: bool,
    /// VMs can be reached at few ports.
    pub restricted_network: bool,
}

/// How a zone is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Zone {
    /// It is unknown: there are no zones here.
    #[default]
    Unknown,
    /// It is there.
    There,
    /// It is going away.
    Going,
    /// It is not there.
    Missing,
}

/// What of the provider configuration matters here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// `NetworkProvider`: `NAMED`, `VSPHERE_NETWORK` or `NSXT`.
    pub network_provider: Option<NetworkProvider>,
    /// `Network`.
    pub network: Option<String>,
    /// `IsRestrictedNetwork`.
    pub restricted_network: bool,
    /// `PrivilegedUsers`, divided by commas.
    pub privileged: Vec<String>,
}

impl Settings {
    /// Reads the data of the provider's ConfigMap.
    pub fn read(data: &BTreeMap<String, String>) -> Self {
        let given = ProviderConfiguration::from_data(data);
        let privileged = given.privileged_users.split(',').map(str::trim).filter(|name| !name.is_empty());
        Self {
            network_provider: NetworkProvider::of(&given.network_provider),
            privileged: privileged.map(str::to_owned).collect(),
            restricted_network: given.is_restricted_network == "true",
            network: Some(given.network).filter(|network| !network.is_empty()),
        }
    }

    fn named_networks(&self) -> bool {
        matches!(self.network_provider, None | Some(NetworkProvider::Named))
    }
}

/// What admission reads, on every replica.
#[derive(Clone)]
pub struct Known {
    caches: ReplicaCaches,
    settings: Arc<RwLock<Arc<Settings>>>,
    /// True once the provider configuration has been read.
    configured: state::Receiver<bool>,
}

impl Known {
    /// Begins to watch the provider configuration. Before it has been read, a network that the configuration allows would
    /// be refused.
    pub fn start(runtime: &Runtime, caches: &ReplicaCaches) -> Self {
        let settings = Arc::default();
        let api = Api::namespaced(runtime.client.clone(), &runtime.namespace);
        let (read, configured) = state::channel(false);
        tokio::spawn(followed(api, Arc::clone(&settings), read));
        Self { caches: caches.clone(), settings, configured }
    }

    /// Resolves when everything that admission reads has been read once.
    pub async fn complete(&self) {
        let mut configured = self.configured.clone();
        // The sender lives as long as the program.
        let configured = async { drop(configured.wait_for(|read| *read).await) };
        tokio::join!(self.caches.complete(), configured);
    }

    /// The provider configuration as it is now.
    pub fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.settings.read())
    }

    /// What is known for one VM.
    pub fn facts(&self, vm: &VirtualMachine) -> Facts {
        let settings = self.settings();
        let namespace = vm.namespace().unwrap_or_default();
        Facts {
            storage_class_assigned: vm
                .spec
                .storage_class
                .as_deref()
                .and_then(|class| self.assigned(&namespace, class)),
            zone: vm.labels().get(label::ZONE).map(|zone| self.zone(&namespace, zone)).unwrap_or_default(),
            named_networks: settings.named_networks(),
            restricted_network: settings.restricted_network,
        }
    }

    /// Why the VM may not be connected to the network of that name; `None` where it may, or nobody knows yet.
    pub fn network_refusal(&self, vm: &VirtualMachine, name: &str) -> Option<String> {
        let settings = self.settings();
        if !settings.named_networks() || !self.caches.namespaces.is_complete() {
            return None;
        }
        let default = default_network(settings.network_provider, settings.network.as_deref());
        refusal(&vm.namespace().unwrap_or_default(), name, default, &self.caches.namespaces)
    }

    /// The cluster whose policy the VM names, if its policy is a cluster's.
    pub fn cluster_of_policy(&self, vm: &VirtualMachine) -> Option<String> {
        let name = vm.spec.resource_policy_name.as_deref().filter(|name| !name.is_empty())?;
        let policy = self.caches.policies.get(vm.metadata.namespace.as_deref(), name)?;
        let cluster = controller_in_group(&*policy, INFRASTRUCTURE_GROUP)?;
        Some(policy.labels().get(label::CLUSTER_NAME).cloned().unwrap_or_else(|| cluster.name.clone()))
    }

    fn assigned(&self, namespace: &str, class: &str) -> Option<bool> {
        if !self.caches.storage_classes.is_complete() || !self.caches.quotas.is_complete() {
            return None;
        }
        let prefix = format!("{class}.storageclass.storage.k8s.io/");
        let given = |quota: &Arc<ResourceQuota>| hard_keys(quota).iter().any(|key| key.starts_with(&prefix));
        let there = self.caches.storage_classes.get(None, class).is_some();
        Some(there && self.caches.quotas_by_namespace.objects(namespace).iter().any(given))
    }

    /// A zone of the namespace's own, or of all; where there are none, it is unknown.
    fn zone(&self, namespace: &str, name: &str) -> Zone {
        let (own, all) = (self.caches.zones.cache(), self.caches.availability_zones.cache());
        if let Some(zone) = own.get(Some(namespace), name) {
            return if zone.metadata.deletion_timestamp.is_some() { Zone::Going } else { Zone::There };
        }
        if all.get(None, name).is_some() {
            return Zone::There;
        }
        let reading = |served: bool, complete: bool| served && !complete;
        let unread = reading(self.caches.zones.is_served(), own.is_complete())
            || reading(self.caches.availability_zones.is_served(), all.is_complete());
        if unread || (own.is_empty() && all.is_empty()) { Zone::Unknown } else { Zone::Missing }
    }
}

/// Follows the provider's ConfigMap. `read` becomes true as soon as it has been read, or is absent.
async fn followed(api: Api<ConfigMap>, settings: Arc<RwLock<Arc<Settings>>>, read: state::Sender<bool>) {
    let mut maps = watch::one(api, PROVIDER_CONFIGURATION);
    while let Some(map) = maps.next().await {
        let data = map.and_then(|map| map.data).unwrap_or_default();
        *settings.write() = Arc::new(Settings::read(&data));
        read.send_replace(true);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::{Json, Router};
    use serde_json::json;
    use support::wait::poll;
    use tokio::sync::Notify;

    use super::*;

    #[tokio::test]
    async fn the_configuration_is_known_once_it_is_read() {
        let (answer, (read, configured)) = (Arc::<Notify>::default(), state::channel(false));
        let asked = Arc::clone(&answer);
        let server = Router::new().fallback(move || async move {
            // The list gets the one answer, the watch after it none.
            asked.notified().await;
            let map = json!({"metadata": {"name": PROVIDER_CONFIGURATION}, "data": {"Network": "workload-network"}});
            Json(json!({"metadata": {"resourceVersion": "1"}, "items": [map]}))
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let serving = tokio::spawn(async move { axum::serve(listener, server).await });
        let client = kube::Client::try_from(kube::Config::new(url.parse().unwrap())).unwrap();
        let settings = Arc::<RwLock<Arc<Settings>>>::default();
        let api = Api::namespaced(client, "vmop");
        let following = tokio::spawn(followed(api, Arc::clone(&settings), read));
        assert!(!*configured.borrow());
        answer.notify_one();
        let is_read = || async { configured.borrow().then_some(()) };
        poll("the configuration is read", Duration::from_mins(1), is_read).await.unwrap();
        assert_eq!(settings.read().network.as_deref(), Some("workload-network"));
        following.abort();
        serving.abort();
    }
}
