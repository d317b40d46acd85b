//! The admission and conversion webhooks, served by every replica.
//!
//! The API server sends the stored version to admission, whichever version the user sent. Messages name fields as in the user's
//! version. Objects that can't be parsed are allowed: the schema check runs later and reports the fault more clearly.

mod cluster_secrets;
pub mod service_configuration;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::capi::Machine;
use api::capw::WCPCluster;
use api::gcm::convert;
use api::gcm::{TanzuKubernetesCluster, TkgServiceConfiguration};
use api::ipam::InClusterIpPool;
use api::names::{kubeconfig_secret, label};
use api::topology::{AvailabilityZone, Zone, zones_of};
use api::vmop::VirtualMachineClassBinding;
use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};
use ipnet::IpNet;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, ResourceQuota};
use k8s_openapi::api::rbac::v1::RoleBinding;
use kit::api_error::is_not_served;
use kit::webhook::conversion::{self, Conversion};
use kit::webhook::review::Review;
use kit::webhook::self_managed::SelfManaged;
use kube::api::{ListParams, ObjectList};
use kube::{Api, Client, ResourceExt};
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::addons::choice::{container_networks, has_login_service};
use crate::admission::denial::FieldDenial;
use crate::admission::overlap::UsedRange;
use crate::admission::{self, InstallationFacts, defaults};
use crate::release::cache::ReleaseCache;
use crate::release::virtual_ip::VirtualIpFlags;
use crate::spec::authentication::issuers;
use crate::spec::groups::zone;
use crate::sync::namespace::assigned_classes;
use crate::sync::role_bindings::{self, People};
use service_configuration::ServiceConfiguration;

/// The defaulting webhook's path.
pub const MUTATE: &str = "/mutate-run-tanzu-vmware-com-v1alpha3-tanzukubernetescluster";
/// The validating webhook's path.
pub const VALIDATE: &str = "/validate-run-tanzu-vmware-com-v1alpha3-tanzukubernetescluster";
/// The validating webhook's path for the TkgServiceConfiguration.
pub const VALIDATE_CONFIGURATION: &str = "/validate-run-tanzu-vmware-com-v1alpha3-tkgserviceconfiguration";
/// The conversion webhook's path.
pub const CONVERT: &str = "/convert";
/// The timeout for lookups that only add warnings or quota checks, so that users don't wait for these lookups.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(2);
/// The timeout for reading bundles and Secrets, which decide if a cluster is denied. The API server waits ten seconds for a
/// review, and a review can include two further lookups that each take [`LOOKUP_TIMEOUT`].
const READ_TIMEOUT: Duration = Duration::from_secs(5);
/// The maximum number of concurrent lookups. The responses to lookups are large, and any user can cause reviews.
const LOOKERS: usize = 2;
/// The maximum number of bundles read from a namespace.
const MAX_BUNDLES: u32 = 100;
/// The maximum number of objects of each kind that are read from a namespace, to find the addresses in use and the zones.
const MAX_OBJECTS: u32 = 500;

/// The names of the webhook objects in config/gcm.
pub const OWN_CERTIFICATE: SelfManaged = SelfManaged {
    secret: "vmware-system-tkg-webhook-own-cert",
    service: "vmware-system-tkg-webhook-service",
    mutating: "vmware-system-tkg-mutating-webhook-configuration",
    validating: "vmware-system-tkg-validating-webhook-configuration",
    definition: "tanzukubernetesclusters.run.tanzu.vmware.com",
};

/// The state that the webhook handlers share.
#[derive(Clone)]
pub struct Webhooks {
    pub release_cache: ReleaseCache,
    /// The client that reads classes, quotas, zones, bundles and Secrets.
    pub client: Client,
    /// The address ranges outside the clusters that cluster nodes must be able to reach.
    pub management: Vec<IpNet>,
    /// The flags that decide which program announces control plane addresses.
    pub virtual_ip: VirtualIpFlags,
    /// The configuration from which new clusters inherit values.
    pub configuration: ServiceConfiguration,
    pub lookers: Lookers,
}

/// Limits the number of concurrent lookups in the API server.
#[derive(Clone)]
pub struct Lookers(Arc<Semaphore>);

impl Default for Lookers {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(LOOKERS)))
    }
}

impl Lookers {
    /// Returns the result of `looking`, or the default value after [`LOOKUP_TIMEOUT`].
    async fn find<T: Default>(&self, looking: impl Future<Output = T>) -> T {
        self.find_within(LOOKUP_TIMEOUT, looking).await.unwrap_or_default()
    }

    /// Returns the result of `looking`, or `None` after `timeout`, which includes the wait for a permit.
    async fn find_within<T>(&self, timeout: Duration, looking: impl Future<Output = T>) -> Option<T> {
        let found = async {
            let _place = self.0.acquire().await;
            looking.await
        };
        tokio::time::timeout(timeout, found).await.ok()
    }
}

/// Returns the webhook routes.
pub fn router(webhooks: Webhooks) -> Router {
    Router::new()
        .route(MUTATE, post(mutate))
        .route(VALIDATE, post(validate))
        .route(VALIDATE_CONFIGURATION, post(validate_configuration))
        .route(CONVERT, post(converted))
        .with_state(Arc::new(webhooks))
}

async fn mutate(State(webhooks): State<Arc<Webhooks>>, review: Review) -> Json<Value> {
    let (Some(new), old) = review.objects::<TanzuKubernetesCluster>() else { return review.allow(&[]) };
    let mut values =
        admission::inherited::inherited_values(&new, old.as_ref(), &webhooks.configuration.current());
    // The patch is computed on the raw document, because gcm's types drop unknown fields.
    let document = review.document();
    // The default pod range depends on the container network, which can be inherited.
    let new = serde_json::from_value(defaults::filled_in(&document, &values)).unwrap_or(new);
    let available = webhooks.release_cache.available();
    if let Some(denial) = defaults::unknown_network_denial(&new, old.as_ref(), &available) {
        let text = denial_text(denial, &review.version);
        return review.deny(&text);
    }
    let choices = admission::upgrades::choices(&new, old.as_ref(), &available, Some(&webhooks.virtual_ip));
    values.extend(defaults::missing_values(&new, old.as_ref(), &choices));
    if values.is_empty() {
        return review.allow(&[]);
    }
    let patch = defaults::patch(&document, &values);
    review.patch(patch.as_array().map(Vec::as_slice).unwrap_or_default())
}

async fn validate(State(webhooks): State<Arc<Webhooks>>, review: Review) -> Json<Value> {
    let (Some(new), old) = review.objects::<TanzuKubernetesCluster>() else { return review.allow(&[]) };
    let available = webhooks.release_cache.available();
    let wants_bundle = admission::network::unlisted_cni(&new.spec).is_some()
        || admission::node_images::wants_bundle(&new, old.as_ref(), &available);
    let is_created = admission::is_created(&new, old.as_ref());
    let bundles = async {
        if !wants_bundle {
            return Some(BTreeSet::new());
        }
        webhooks.lookers.find_within(READ_TIMEOUT, bundles(&new, &webhooks.client)).await.flatten()
    };
    let secrets = async { if is_created { secret_denials(&new, &webhooks).await } else { Vec::new() } };
    let (bundles, secrets) = Box::pin(async { tokio::join!(bundles, secrets) }).await;
    let unread = bundles.is_none();
    let bundles = bundles.unwrap_or_default();
    let installation = InstallationFacts {
        available: &available,
        bundles: &bundles,
        virtual_ip: Some(&webhooks.virtual_ip),
    };
    let mut denials = admission::validate_with(&new, old.as_ref(), &installation);
    denials.extend(secrets);
    let reserved = || admission::overlap::denials(&new.spec, &webhooks.management);
    if is_created {
        denials.extend(reserved());
    }
    if review.version == "v1alpha1" {
        denials.extend(old.as_ref().and_then(|old| admission::unseen_pools(&new, old)));
    }
    let asks_more = old.as_ref().is_none_or(|old| names_other_classes(old, &new))
        || admission::limits::grown(&new, old.as_ref()).is_some();
    let is_asked = denials.is_empty() && asks_more;
    let offer = if is_asked {
        webhooks.lookers.find(Box::pin(NamespaceOffer::read(&new, &webhooks.client))).await
    } else {
        NamespaceOffer::default()
    };
    let quotas = offer.quotas.as_deref().unwrap_or_default();
    denials.extend(admission::limits::quota_denials(&new, old.as_ref(), quotas));
    if !denials.is_empty() {
        let mut texts: Vec<String> =
            denials.into_iter().map(|denial| denial_text(denial, &review.version)).collect();
        if unread {
            let namespace = new.namespace().unwrap_or_default();
            texts.push(format!(
                "The add-on bundles of namespace {namespace} could not be read. If one provides the container network, apply the manifest again"
            ));
        }
        return review.deny(&texts.join(" "));
    }
    let mut warnings: Vec<String> = admission::warnings(&new, &available, Timestamp::now())
        .iter()
        .map(|text| admission::path_in(&review.version, text))
        .collect();
    if let Some(old) = &old {
        let rolls = admission::rolls::warnings(old, &new);
        warnings.extend(rolls.iter().map(|text| admission::path_in(&review.version, text)));
    }
    warnings.extend(admission::copy_warning(&new, old.as_ref()));
    warnings.extend(admission::dropped::warnings(&new, old.as_ref()));
    warnings.extend(admission::queries::unsupported(&new, old.as_ref()));
    warnings.extend(offer.warnings(&new));
    if old.is_none() && !is_created {
        warnings.extend(reserved().iter().map(|denial| {
            let text = admission::path_in(&review.version, &denial.to_string());
            format!("{text} The object already has gcm's finalizer, as after a move: gcm creates nothing for it unless its Cluster exists")
        }));
    }
    if is_created {
        let namespace = new.namespace().unwrap_or_default();
        let used = Box::pin(webhooks.lookers.find(used_ranges(&namespace, &webhooks.client))).await;
        warnings.extend(admission::overlap::warnings(&new.spec, &used));
        warnings.extend(Box::pin(webhooks.lookers.find(login_warning(&new, &webhooks.client))).await);
    }
    review.allow(&warnings)
}

/// Returns a denial for each Secret that Cluster API would use for a new cluster but didn't create. If the Secrets can't be
/// read, the cluster is denied too, because the Secrets decide which server Cluster API connects to.
async fn secret_denials(tkc: &TanzuKubernetesCluster, webhooks: &Webhooks) -> Vec<FieldDenial> {
    let denials = cluster_secrets::denials(tkc, &webhooks.client);
    match webhooks.lookers.find_within(READ_TIMEOUT, denials).await {
        Some(Ok(denials)) => denials,
        Some(Err(_)) | None => vec![cluster_secrets::unread()],
    }
}

/// Formats a denial with the field names of the API version `version`.
fn denial_text(mut denial: FieldDenial, version: &str) -> String {
    denial.field = admission::path_in(version, &denial.field);
    denial.remedy = admission::path_in(version, &denial.remedy);
    denial.to_string()
}

/// Returns the addresses in use in a namespace: machine addresses, control plane endpoints and IP pools.
async fn used_ranges(namespace: &str, client: &Client) -> Vec<UsedRange> {
    let some = ListParams::default().limit(MAX_OBJECTS);
    let machines = Api::<Machine>::namespaced(client.clone(), namespace);
    let clusters = Api::<WCPCluster>::namespaced(client.clone(), namespace);
    let pools = Api::<InClusterIpPool>::namespaced(client.clone(), namespace);
    let (machines, clusters, pools) =
        tokio::join!(machines.list(&some), clusters.list(&some), pools.list(&some));
    let mut used = Vec::new();
    for machine in machines.into_iter().flatten() {
        let owner = format!("Machine {namespace}/{}", machine.name_any());
        let addresses = machine.status.and_then(|status| status.addresses).unwrap_or_default();
        used.extend(addresses.iter().flat_map(|address| UsedRange::read(&address.address, &owner)));
    }
    for cluster in clusters.into_iter().flatten() {
        let owner = format!("the control plane of cluster {namespace}/{}", cluster.name_any());
        let endpoint = cluster.spec.control_plane_endpoint.as_ref();
        used.extend(endpoint.into_iter().flat_map(|endpoint| UsedRange::read(&endpoint.host, &owner)));
    }
    for pool in pools.into_iter().flatten() {
        let owner = format!("InClusterIPPool {namespace}/{}", pool.name_any());
        used.extend(pool.spec.addresses.iter().flat_map(|text| UsedRange::read(text, &owner)));
    }
    used
}

/// Returns a warning if users or groups of the namespace become administrators of a new cluster but can't log in to it,
/// because the cluster has neither a token issuer nor a login service.
async fn login_warning(tkc: &TanzuKubernetesCluster, client: &Client) -> Option<String> {
    if !issuers(&tkc.spec).is_empty() {
        return None;
    }
    let (name, namespace) = (tkc.name_any(), tkc.namespace().unwrap_or_default());
    let bindings = Api::<RoleBinding>::namespaced(client.clone(), &namespace);
    let maps = Api::<ConfigMap>::namespaced(client.clone(), &namespace);
    let (some, labelled) = (ListParams::default().limit(MAX_OBJECTS), labelled_bundles());
    let (bindings, maps) = tokio::join!(bindings.list(&some), maps.list_metadata(&labelled));
    let bindings: Vec<_> = bindings.ok()?.items.into_iter().map(Arc::new).collect();
    let people = role_bindings::count(&bindings);
    let can_log_in = has_login_service(&maps.ok()?.items, &name);
    (people != People::default() && !can_log_in).then(|| {
        format!(
            "spec.settings.authentication: it does not list an issuer of tokens, so {people} with edit rights in namespace {namespace} cannot log in to the cluster. Add an issuer (docs/login.md), or use the kubeconfig in Secret {}",
            kubeconfig_secret(&name)
        )
    })
}

/// Returns the container networks that bundles in the namespace provide, or `None` if the bundles can't be read.
async fn bundles(tkc: &TanzuKubernetesCluster, client: &Client) -> Option<BTreeSet<String>> {
    let maps = Api::<ConfigMap>::namespaced(client.clone(), &tkc.namespace().unwrap_or_default());
    let maps = maps.list_metadata(&labelled_bundles()).await.ok()?;
    Some(container_networks(&maps.items))
}

/// Selects the ConfigMaps that contain bundles.
fn labelled_bundles() -> ListParams {
    ListParams::default().labels(label::ADDON_NAME).limit(MAX_BUNDLES)
}

fn names_other_classes(old: &TanzuKubernetesCluster, new: &TanzuKubernetesCluster) -> bool {
    let storage = |tkc: &TanzuKubernetesCluster| {
        tkc.spec.settings.as_ref().and_then(|settings| settings.storage.clone())
    };
    old.spec.topology != new.spec.topology || storage(old) != storage(new)
}

/// The classes, quotas and zones in a namespace. A field is `None` if it couldn't be read or wasn't needed.
#[derive(Default)]
struct NamespaceOffer {
    zones: Option<BTreeSet<String>>,
    bindings: Option<Vec<VirtualMachineClassBinding>>,
    quotas: Option<Vec<ResourceQuota>>,
}

impl NamespaceOffer {
    async fn read(tkc: &TanzuKubernetesCluster, client: &Client) -> Self {
        let namespace = tkc.namespace().unwrap_or_default();
        let all = ListParams::default();
        let bindings = Api::<VirtualMachineClassBinding>::namespaced(client.clone(), &namespace);
        let quotas = Api::<ResourceQuota>::namespaced(client.clone(), &namespace);
        let wants_zone = tkc.spec.topology.node_pools.iter().any(|pool| zone(pool).is_some());
        let zones = async { if wants_zone { read_zones(&namespace, client).await } else { None } };
        let (bindings, quotas, zones) = tokio::join!(bindings.list(&all), quotas.list(&all), zones);
        let (bindings, quotas) = (bindings.ok(), quotas.ok());
        Self { zones, bindings: bindings.map(|list| list.items), quotas: quotas.map(|list| list.items) }
    }

    /// Returns warnings about classes and zones that the cluster names but its namespace doesn't offer. They aren't denials,
    /// because the classes and zones can be added later.
    fn warnings(self, tkc: &TanzuKubernetesCluster) -> Vec<String> {
        let namespace = tkc.namespace().unwrap_or_default();
        let mut texts = Vec::new();
        if let Some(bindings) = self.bindings {
            let bound = bindings.into_iter().map(|binding| binding.spec.class_ref.name).collect();
            texts.extend(admission::nodes::unbound(&tkc.spec.topology, &namespace, &bound));
        }
        if let Some(quotas) = self.quotas {
            let limits = quotas.into_iter().filter_map(|quota| quota.spec?.hard);
            let assigned: BTreeSet<String> = limits.flat_map(|hard| assigned_classes(&hard)).collect();
            texts.extend(admission::nodes::unassigned(&tkc.spec.topology, &namespace, &assigned));
            texts.extend(admission::settings::unassigned(&tkc.spec, &namespace, &assigned));
        }
        if let Some(zones) = self.zones {
            texts.extend(admission::nodes::unzoned(&tkc.spec.topology, &namespace, &zones));
        }
        texts
    }
}

/// Reads the zones that a namespace can use. A kind that isn't served counts as an empty list. Returns `None` if the zones
/// can't be read.
async fn read_zones(namespace: &str, client: &Client) -> Option<BTreeSet<String>> {
    let (own, wide) =
        (Api::<Zone>::namespaced(client.clone(), namespace), Api::<AvailabilityZone>::all(client.clone()));
    let some = ListParams::default().limit(MAX_OBJECTS);
    let (own, wide) = tokio::join!(own.list(&some), wide.list(&some));
    let (own, wide) = (list_served(own)?, list_served(wide)?);
    Some(zones_of(namespace, &own, &wide))
}

fn list_served<K: Clone>(list: kube::Result<ObjectList<K>>) -> Option<Vec<K>> {
    match list {
        Ok(list) => Some(list.items),
        Err(error) if is_not_served(&error) => Some(Vec::new()),
        Err(_) => None,
    }
}

async fn validate_configuration(review: Review) -> Json<Value> {
    let (Some(new), _) = review.objects::<TkgServiceConfiguration>() else { return review.allow(&[]) };
    let denials: Vec<String> =
        admission::inherited::denials(&new.spec).iter().map(ToString::to_string).collect();
    if denials.is_empty() {
        review.allow(&admission::inherited::warnings(&new.spec, Timestamp::now()))
    } else {
        review.deny(&denials.join(" "))
    }
}

async fn converted(review: Conversion) -> Json<Value> {
    conversion::answer(&review, convert)
}

#[cfg(test)]
mod tests;
