//! The program: its flags, its watches, its controllers.

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;

use api::capw::{WCPCluster, WCPMachine};
use api::gcm::{OSImage, TanzuKubernetesCluster, TanzuKubernetesRelease};
use api::names::label;
use api::vmop::VirtualMachineImage;
use clap::Parser;
use kit::events::Events;
use kit::run::Fatal;
use kit::watch::{self, Cache, Watchable};
use kit::{Controller, Runtime, apply, flags};
use kube::runtime::reflector::ObjectRef;
use kube::{Api, ResourceExt};

use crate::cluster::gather::{Context, Kind, Kinds};
use crate::releases::catalogue::Catalogue;
use crate::webhook::{self, Webhooks};
use crate::{cluster, releases};

/// Turns TanzuKubernetesClusters into Cluster API objects, and node images into releases.
#[derive(Clone, Debug, Parser)]
#[command(name = "gcm", version)]
struct Flags {
    #[command(flatten)]
    common: flags::Common,
    #[command(flatten)]
    webhook: flags::Webhook,
}

/// Runs the program; `args[0]` is its name.
pub fn main(args: Vec<OsString>) -> ExitCode {
    let flags: Flags = match flags::parse(args) {
        Ok(flags) => flags,
        Err(code) => return code,
    };
    kit::run("gcm", flags.common.clone(), |started| start(started, flags))
}

async fn start(started: Runtime, flags: Flags) -> Result<(), Fatal> {
    let releases: Cache<TanzuKubernetesRelease> = watch(&started);
    let catalogue = Catalogue::following(&releases);
    let webhooks = Webhooks { catalogue: catalogue.clone(), client: started.client.clone() };
    // Conversion must be served before the first cluster can be read.
    kit::webhook::serve(&started, &flags.webhook, webhook::router(webhooks)).await?;
    let known = started.ready.require("releases");
    tokio::select! {
        () = releases.complete() => {}
        () = started.shutdown.cancelled() => return Ok(()),
    }
    known.met();
    started.lead().await?;

    let images: Cache<VirtualMachineImage> = watch(&started);
    let os_images: Cache<OSImage> = watch(&started);
    let clusters: Cache<TanzuKubernetesCluster> = watch(&started);
    let kinds = kinds(&started);
    let ctx = Arc::new(Context {
        api: apply::Api::new(&started, "gcm/cluster"),
        events: Events::new(&started, "gcm-cluster"),
        catalogue: catalogue.clone(),
        os_images: os_images.clone(),
        kinds: kinds.clone(),
    });
    let of_clusters =
        controller(&started, &clusters, &kinds, &releases, &os_images).run(ctx, cluster::reconcile);
    let of_releases = releases::controller::run(&started, &images, &os_images, &releases, &catalogue);
    tokio::join!(of_clusters, of_releases);
    Ok(())
}

fn watch<K: Watchable>(started: &Runtime) -> Cache<K> {
    watch::objects(started, Api::all(started.client.clone()))
}

fn kinds(started: &Runtime) -> Kinds {
    Kinds {
        clusters: Kind::owned(watch(started)),
        wcp_clusters: Kind::owned(watch::<WCPCluster>(started)),
        control_planes: Kind::owned(watch(started)),
        machine_templates: Kind::owned(watch(started)),
        config_templates: Kind::owned(watch(started)),
        deployments: Kind::owned(watch(started)),
        checks: Kind::owned(watch(started)),
        accounts: Kind::owned(watch(started)),
        sets: Kind::labelled(watch(started)),
        machines: Kind::labelled(watch(started)),
        wcp_machines: Kind::labelled(watch::<WCPMachine>(started)),
    }
}

fn controller(
    started: &Runtime,
    clusters: &Cache<TanzuKubernetesCluster>,
    kinds: &Kinds,
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
        // Releases are few and change rarely; each may be an update for every cluster.
        .watches_changes(releases, move |change| {
            let spec = |side: &Option<Arc<TanzuKubernetesRelease>>| {
                side.as_ref().map(|tkr| (tkr.spec.clone(), tkr.metadata.labels.clone()))
            };
            if spec(&change.old) == spec(&change.new) { Vec::new() } else { every.refs("") }
        })
        .watches_changes(os_images, move |change| {
            let spec = |side: &Option<Arc<OSImage>>| side.as_ref().map(|image| image.spec.clone());
            if spec(&change.old) == spec(&change.new) { Vec::new() } else { all.refs("") }
        })
}

/// The cluster that Cluster API's label names.
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
