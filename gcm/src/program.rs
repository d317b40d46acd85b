//! The gcm process: flags, watches and controllers.

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;

use api::capw::{WCPCluster, WCPMachine};
use api::gcm::{OSImage, TanzuKubernetesCluster, TanzuKubernetesRelease, TkgServiceConfiguration};
use api::names::label;
use api::vmop::VirtualMachineImage;
use clap::{Command, CommandFactory as _, Parser};
use futures::stream;
use ipnet::IpNet;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kit::events::Events;
use kit::index::key;
use kit::optional::{Optional, watch_optional};
use kit::run::Fatal;
use kit::watch::{self, Cache, Watchable};
use kit::webhook::Facts;
use kit::{Controller, Runtime, apply, flags};
use kube::core::PartialObjectMeta;
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher;
use kube::{Api, ResourceExt};

use crate::addons::controller::{self as guest_controller, ImageAddons};
use crate::addons::guests::ReachableGuests;
use crate::cluster::context::{ClusterCaches, Context, KindCache};
use crate::cluster::flags::health::HealthFlags;
use crate::release;
use crate::release::cache::ReleaseCache;
use crate::release::virtual_ip::VirtualIpFlags;
use crate::sync::namespace::{NamespaceCaches, QuotaLimits};
use crate::sync::role_bindings::makes_administrators;
use crate::sync::supervisor::SupervisorEndpoint;
use crate::webhook::service_configuration::ServiceConfiguration;
use crate::webhook::{self, Webhooks};

/// Creates Cluster API objects from TanzuKubernetesClusters, and releases from node images.
#[derive(Clone, Debug, Parser)]
#[command(name = "gcm", version)]
pub struct Flags {
    #[command(flatten)]
    pub common: flags::Common,
    #[command(flatten)]
    pub webhook: flags::Webhook,
    #[command(flatten)]
    pub virtual_ip: VirtualIpFlags,
    /// Address ranges outside the clusters that cluster nodes must be able to reach, separated by commas: vCenter's, this
    /// cluster's, DNS servers'. New clusters cannot use them for pods or services.
    #[arg(long, value_name = "CIDR", value_delimiter = ',')]
    pub management_cidrs: Vec<IpNet>,
    /// The address at which guests reach the API server of this cluster: an IP address, and a port if it is not 6443.
    /// Default: the endpoint in kubeadm's ConfigMap kube-public/cluster-info.
    #[arg(long, value_name = "ADDRESS[:PORT]")]
    pub supervisor_endpoint: Option<SupervisorEndpoint>,
    #[command(flatten)]
    pub health: HealthFlags,
    /// The treatment of add-ons from node images, and of the built-in container network, after gcm has applied them.
    #[arg(long, value_enum, default_value_t, overrides_with = "image_addons")]
    pub image_addons: ImageAddons,
}

/// Returns the definition of gcm's flags.
pub fn command() -> Command {
    Flags::command()
}

/// Runs gcm. `args[0]` is the program name.
pub fn main(args: Vec<OsString>) -> ExitCode {
    let flags: Flags = match flags::parse(args) {
        Ok(flags) => flags,
        Err(code) => return code,
    };
    kit::run("gcm", flags.common.clone(), |started| start(started, flags))
}

async fn start(started: Runtime, flags: Flags) -> Result<(), Fatal> {
    let releases: Cache<TanzuKubernetesRelease> = watch(&started);
    let os_images: Cache<OSImage> = watch(&started);
    let release_cache = ReleaseCache::following(&releases, &os_images);
    // The kind is optional: without its CRD, clusters don't inherit values.
    let configurations: Optional<TkgServiceConfiguration> =
        watch_optional(&started, Api::all(started.client.clone()));
    let webhooks = Webhooks {
        release_cache: release_cache.clone(),
        client: started.client.clone(),
        management: flags.management_cidrs.clone(),
        virtual_ip: flags.virtual_ip.clone(),
        configuration: ServiceConfiguration::following(configurations.cache()),
        lookers: webhook::Lookers::default(),
    };
    // A cluster that is admitted before the caches are complete would never get its defaults.
    let required = started.ready.require("releases");
    let (facts, defaults) = ((releases.clone(), os_images.clone()), configurations.clone());
    let facts = Facts::read_by(
        async move {
            tokio::join!(facts.0.complete(), facts.1.complete(), defaults.settled());
        },
        required,
    );
    // Reading clusters needs the conversion webhook, so serve it first.
    let router = webhook::router(webhooks);
    let own = webhook::OWN_CERTIFICATE;
    kit::webhook::serve(&started, &flags.webhook, router, facts, own).await?;
    tokio::select! {
        ((), (), ()) = async {
            tokio::join!(releases.complete(), os_images.complete(), configurations.settled())
        } => {}
        () = started.shutdown.cancelled() => return Ok(()),
    }
    started.lead().await?;

    let images: Cache<VirtualMachineImage> = watch(&started);
    let clusters: Cache<TanzuKubernetesCluster> = watch(&started);
    let kinds = kinds(&started);
    let bundles = bundles(&started);
    let namespaces = NamespaceCaches::start(&started, flags.supervisor_endpoint);
    let (guests, needs_round, has_report) = ReachableGuests::new(started.shutdown.clone());
    let forgetting = guests.clone();
    clusters.listen(move |change| {
        if let (Some(old), None) = (&change.old, &change.new) {
            forgetting.forget(&key(old.namespace().as_deref(), &old.name_any()));
        }
    });
    let ctx = Context {
        api: apply::Api::new(&started, "gcm/cluster"),
        events: Events::new(&started, "gcm-cluster"),
        release_cache: release_cache.clone(),
        os_images: os_images.clone(),
        virtual_ip: flags.virtual_ip.clone(),
        health: flags.health.clone(),
        management: flags.management_cidrs.clone(),
        kinds: kinds.clone(),
        vm_images: images.clone(),
        bundles: bundles.index(|map| map.namespace().into_iter().collect()),
        namespaces: namespaces.clone(),
        guests: guests.clone(),
    };
    let reports = stream::unfold(has_report, |mut woken| async move { Some((woken.recv().await?, woken)) });
    let of_clusters = controller(&started, &clusters, &kinds, &releases, &os_images);
    let of_clusters = of_namespaces(of_clusters, &clusters, &namespaces)
        .reads(&images)
        .watches(&bundles, of_namespace(&clusters))
        .wakes_on(reports)
        .drive(ctx);
    let of_releases = release::controller::run(&started, &images, &os_images, &releases, &release_cache);
    let of_guests = guest_controller::run(&started, &clusters, flags.image_addons, guests, needs_round);
    tokio::join!(of_clusters, of_guests, of_releases);
    Ok(())
}

fn watch<K: Watchable>(started: &Runtime) -> Cache<K> {
    watch::objects(started, Api::all(started.client.clone()))
}

/// Watches the ConfigMaps that contain bundles. Caches only metadata, because users can create any number of them.
fn bundles(started: &Runtime) -> Cache<PartialObjectMeta<ConfigMap>> {
    let labelled = watcher::Config::default().labels(label::ADDON_NAME);
    watch::selected(started, Api::all(started.client.clone()), labelled)
}

/// Reconciles the clusters in a namespace when the namespace's storage quotas or administrators change, and all clusters when a
/// storage class or cluster-info changes.
fn of_namespaces(
    controller: Controller<TanzuKubernetesCluster>,
    clusters: &Cache<TanzuKubernetesCluster>,
    namespaces: &NamespaceCaches,
) -> Controller<TanzuKubernetesCluster> {
    let (of_quota, of_binding) =
        (of_namespace::<QuotaLimits>(clusters), of_namespace::<RoleBinding>(clusters));
    let all = clusters.index(|_| vec![String::new()]);
    let every = all.clone();
    controller
        .watches_changes(&namespaces.quotas, move |change| {
            let classes =
                |side: &Option<Arc<QuotaLimits>>| side.as_ref().map(|quota| quota.assigned_classes());
            let concerned =
                || change.sides().next().map(|quota| of_quota(quota.as_ref())).unwrap_or_default();
            if classes(&change.old) == classes(&change.new) { Vec::new() } else { concerned() }
        })
        .watches(&namespaces.role_bindings, move |binding| {
            if makes_administrators(binding) { of_binding(binding) } else { Vec::new() }
        })
        // Storage classes are few and rarely change, and any namespace can use any of them.
        .watches(&namespaces.storage_classes, move |_| all.refs(""))
        .watches(&namespaces.cluster_info, move |_| every.refs(""))
}

/// Returns a function that finds the clusters in an object's namespace.
fn of_namespace<K: Watchable>(
    clusters: &Cache<TanzuKubernetesCluster>,
) -> impl Fn(&K) -> Vec<ObjectRef<TanzuKubernetesCluster>> + Send + 'static {
    let of_namespace = clusters.index(|cluster| cluster.namespace().into_iter().collect());
    move |object| of_namespace.refs(&object.namespace().unwrap_or_default())
}

fn kinds(started: &Runtime) -> ClusterCaches {
    ClusterCaches {
        clusters: KindCache::owned(watch(started)),
        wcp_clusters: KindCache::owned(watch::<WCPCluster>(started)),
        control_planes: KindCache::owned(watch(started)),
        machine_templates: KindCache::owned(watch(started)),
        config_templates: KindCache::owned(watch(started)),
        deployments: KindCache::owned(watch(started)),
        checks: KindCache::owned(watch(started)),
        accounts: KindCache::owned(watch(started)),
        sets: KindCache::labelled(watch(started)),
        machines: KindCache::labelled(watch(started)),
        wcp_machines: KindCache::labelled(watch::<WCPMachine>(started)),
    }
}

fn controller(
    started: &Runtime,
    clusters: &Cache<TanzuKubernetesCluster>,
    kinds: &ClusterCaches,
    releases: &Cache<TanzuKubernetesRelease>,
    os_images: &Cache<OSImage>,
) -> Controller<TanzuKubernetesCluster> {
    let all = clusters.index(|_| vec![String::new()]);
    let every = all.clone();
    Controller::new("cluster", started, clusters)
        .owns(&kinds.clusters.cache)
        .owns(&kinds.wcp_clusters.cache)
        .owns(&kinds.control_planes.cache)
        .owns(&kinds.machine_templates.cache)
        .owns(&kinds.config_templates.cache)
        .owns(&kinds.deployments.cache)
        .owns(&kinds.checks.cache)
        .owns(&kinds.accounts.cache)
        .watches(&kinds.sets.cache, labelled)
        .watches(&kinds.machines.cache, labelled)
        .watches(&kinds.wcp_machines.cache, labelled)
        // Releases are few and rarely change, and any of them can be an update for any cluster.
        .watches_changes(releases, move |change| {
            let spec = |side: &Option<Arc<TanzuKubernetesRelease>>| {
                side.as_ref().map(|tkr| (tkr.spec.clone(), tkr.metadata.labels.clone()))
            };
            if spec(&change.old) == spec(&change.new) { Vec::new() } else { every.refs("") }
        })
        .watches_changes(os_images, move |change| {
            let spec = |side: &Option<Arc<OSImage>>| {
                side.as_ref().map(|image| (image.spec.clone(), image.metadata.labels.clone()))
            };
            if spec(&change.old) == spec(&change.new) { Vec::new() } else { all.refs("") }
        })
}

/// Returns the cluster that the object's Cluster API label names.
fn labelled<K: Watchable>(object: &K) -> Vec<ObjectRef<TanzuKubernetesCluster>> {
    let cluster = object.labels().get(label::CLUSTER_NAME);
    let reference = cluster.map(|name| {
        let reference = ObjectRef::new(name);
        match object.namespace() {
            Some(namespace) => reference.within(&namespace),
            None => reference,
        }
    });
    reference.into_iter().collect()
}
