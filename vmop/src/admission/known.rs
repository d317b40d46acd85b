//! The facts that admission needs about objects other than the one in the request. They come from caches that every replica
//! has.

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

/// The facts about other objects (storage class, zone, configuration) that the rules need for one VM.
#[derive(Clone, Copy, Debug, Default)]
pub struct Facts {
    /// True if the VM's storage class exists and is assigned to the namespace. `None` if that isn't known yet.
    pub storage_class_assigned: Option<bool>,
    /// The state of the VM's zone.
    pub zone: Zone,
    /// True if interfaces can refer to vCenter networks by name.
    pub named_networks: bool,
    /// True if VMs can be reached only on port 6443.
    pub restricted_network: bool,
}

/// The state of a zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Zone {
    /// Unknown, because zones don't exist or weren't read yet.
    #[default]
    Unknown,
    /// The zone exists.
    There,
    /// The zone is being deleted.
    Going,
    /// The zone doesn't exist.
    Missing,
}

/// The part of the provider configuration that admission uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdmissionSettings {
    /// The network provider (`NetworkProvider`): `NAMED`, `VSPHERE_NETWORK` or `NSXT`.
    pub network_provider: Option<NetworkProvider>,
    /// The default network for interfaces (`Network`).
    pub network: Option<String>,
    /// True if VMs can be reached only on port 6443 (`IsRestrictedNetwork`).
    pub restricted_network: bool,
    /// The names of users whom admission treats as administrators (`PrivilegedUsers`, separated by commas).
    pub privileged: Vec<String>,
}

impl AdmissionSettings {
    /// Parses the provider configuration's data.
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

/// The caches and the configuration for admission.
#[derive(Clone)]
pub struct Known {
    caches: ReplicaCaches,
    settings: Arc<RwLock<Arc<AdmissionSettings>>>,
    /// True once the provider configuration was read.
    configured: state::Receiver<bool>,
}

impl Known {
    /// Starts to watch the provider configuration. Wait for [`Self::complete`] before you serve requests, because networks that
    /// the configuration allows would be rejected until then.
    pub fn start(runtime: &Runtime, caches: &ReplicaCaches) -> Self {
        let settings = Arc::default();
        let api = Api::namespaced(runtime.client.clone(), &runtime.namespace);
        let (read, configured) = state::channel(false);
        tokio::spawn(followed(api, Arc::clone(&settings), read));
        Self { caches: caches.clone(), settings, configured }
    }

    /// Waits until all caches and the configuration were read.
    pub async fn complete(&self) {
        let mut configured = self.configured.clone();
        // The sender lives as long as the program.
        let configured = async { drop(configured.wait_for(|read| *read).await) };
        tokio::join!(self.caches.complete(), configured);
    }

    /// Returns the current provider configuration.
    pub fn settings(&self) -> Arc<AdmissionSettings> {
        Arc::clone(&self.settings.read())
    }

    /// Returns the facts for one VM.
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

    /// Returns the reason why the VM isn't allowed to connect to the vCenter network with that name. Returns `None` if the VM
    /// is allowed to, or if that isn't known yet.
    pub fn network_refusal(&self, vm: &VirtualMachine, name: &str) -> Option<String> {
        let settings = self.settings();
        if !settings.named_networks() || !self.caches.namespaces.is_complete() {
            return None;
        }
        let default = default_network(settings.network_provider, settings.network.as_deref());
        refusal(&vm.namespace().unwrap_or_default(), name, default, &self.caches.namespaces)
    }

    /// Returns the name of the cluster that owns the VM's resource policy, or `None` if the policy isn't owned by a cluster.
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

    /// Returns the state of a namespaced or cluster-wide zone. The state is unknown if the zones weren't read yet, or if there
    /// aren't any.
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

/// Follows the provider configuration. Sets `read` once the configuration was read or is known not to exist.
async fn followed(
    api: Api<ConfigMap>,
    settings: Arc<RwLock<Arc<AdmissionSettings>>>,
    read: state::Sender<bool>,
) {
    let mut maps = watch::one(api, PROVIDER_CONFIGURATION);
    while let Some(map) = maps.next().await {
        let data = map.and_then(|map| map.data).unwrap_or_default();
        *settings.write() = Arc::new(AdmissionSettings::read(&data));
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
            // Respond only to the first request, the list, and not to the watch that follows.
            asked.notified().await;
            let map = json!({"metadata": {"name": PROVIDER_CONFIGURATION}, "data": {"Network": "workload-network"}});
            Json(json!({"metadata": {"resourceVersion": "1"}, "items": [map]}))
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let serving = tokio::spawn(async move { axum::serve(listener, server).await });
        let client = kube::Client::try_from(kube::Config::new(url.parse().unwrap())).unwrap();
        let settings = Arc::<RwLock<Arc<AdmissionSettings>>>::default();
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
