//! Starts the program: webhooks, caches, the vCenter connection and controllers.

mod collect;
mod parts;
mod relay;
mod virtual_machines;

use std::sync::Arc;

use api::vmop::vm_phase;
use futures::{Stream, stream};
use kit::Runtime;
use kit::apply;
use kit::events::Events;
use kit::run::Fatal;
use kit::webhook::Facts;

use crate::admission;
use crate::admission::Known;
use crate::caches::{Caches, ReplicaCaches};
use crate::enqueue::{Enqueue, into_stream};
use crate::flags::Flags;
use crate::image;
use crate::image::Images;
use crate::orphans::Orphans;
use crate::probe::Prober;
use crate::program::parts::ProgramParts;
use crate::templates;
use crate::templates::TemplateCache;
use crate::vcenter;
use crate::vcenter::Provider;
use crate::{console, policy, publish, service};

/// Serves the webhooks, waits for leadership, and then runs all controllers until shutdown.
pub async fn start(runtime: Runtime, flags: Flags) -> Result<(), Fatal> {
    let mut metrics = vsphere::CallMetrics::default();
    runtime.metrics.register(|registry| metrics = vsphere::CallMetrics::registered(registry));
    let shared = ReplicaCaches::start(&runtime);
    let known = Known::start(&runtime, &shared);
    let (required, decided) = (runtime.ready.require("caches of admission"), known.clone());
    let facts = Facts::read_by(async move { decided.complete().await }, required);
    let hooks = admission::router(known);
    kit::webhook::serve(&runtime, &flags.webhook, hooks, facts, admission::OWN).await?;
    runtime.lead().await?;

    let (vms, enqueued_vms) = Enqueue::new();
    let (policies, enqueued_policies) = Enqueue::new();
    let caches = Caches::start(&runtime, shared);
    let (templates, template_requests) =
        TemplateCache::new(enqueue_waiting(&caches, &vms), is_waiting(&caches));
    let (prober, probe_results) = Prober::new(flags.probe_address_map.clone());
    let provider = Provider::new();
    let (sync_requests, collect_templates) = Default::default();
    let parts = ProgramParts {
        runtime,
        caches,
        provider,
        vms,
        policies,
        templates,
        sync_requests,
        collect_templates,
    };

    let orphans = Orphans::new(&parts.runtime, &parts.caches.vms, &parts.provider);
    let background = [
        tokio::spawn(templates::deploy_requested(
            Arc::clone(&parts.templates),
            template_requests,
            Arc::clone(&parts.sync_requests),
        )),
        tokio::spawn(keep_connected(&parts, metrics)),
        tokio::spawn(relay::relay(parts.clone(), orphans)),
        tokio::spawn(collect::collect(parts.clone())),
    ];
    let ProgramParts { runtime, caches, provider, sync_requests, .. } = &parts;
    tokio::join!(
        virtual_machines::run(
            &parts,
            prober,
            flags.bootstrap_report_timeout(),
            both(enqueued_vms, into_stream(probe_results))
        ),
        policy::run(runtime, caches, provider, &parts.vms, enqueued_policies),
        service::run(runtime, caches),
        console::run(runtime, caches, provider),
        publish::run(runtime, caches, provider, Arc::clone(sync_requests)),
        image::follow(images(&parts, &flags), runtime.shutdown.clone()),
    );
    background.iter().for_each(tokio::task::JoinHandle::abort);
    if let Ok(vcenter) = provider.vcenter() {
        vcenter.disconnect().await;
    }
    Ok(())
}

fn both<T>(one: impl Stream<Item = T>, other: impl Stream<Item = T>) -> impl Stream<Item = T> {
    stream::select(one, other)
}

/// Returns the callback that enqueues the VirtualMachines that use the named image.
fn enqueue_waiting(caches: &Caches, vms: &Enqueue<api::vmop::VirtualMachine>) -> templates::OnChange {
    let (by_image, vms) = (caches.vms_by_image.clone(), vms.clone());
    Arc::new(move |image: &str| by_image.refs(image).into_iter().for_each(|vm| vms.enqueue(vm)))
}

/// Returns the function that checks if a VirtualMachine in a namespace needs an image and isn't created yet.
fn is_waiting(caches: &Caches) -> templates::IsWanted {
    let (by_image, vms) = (caches.vms_by_image.clone(), caches.vms.clone());
    Arc::new(move |namespace: &str, image: &str| {
        by_image.refs(image).into_iter().filter(|vm| vm.namespace.as_deref() == Some(namespace)).any(|vm| {
            vms.get(Some(namespace), &vm.name).is_some_and(|vm| {
                let phase = vm.status.as_ref().and_then(|status| status.phase.as_deref());
                vm.metadata.deletion_timestamp.is_none() && phase != Some(vm_phase::CREATED)
            })
        })
    })
}

/// Keeps the provider connected. Waits first for the caches that determine the VM folders.
fn keep_connected(parts: &ProgramParts, metrics: vsphere::CallMetrics) -> impl Future<Output = ()> + use<> {
    let (provider, caches) = (Arc::clone(&parts.provider), parts.caches.clone());
    let folders_of = caches.clone();
    let program = vcenter::ConnectionParts {
        client: parts.runtime.client.clone(),
        namespace: parts.runtime.namespace.clone(),
        metrics,
        tenure: parts.runtime.tenure(),
        events: Events::new(&parts.runtime, "vmop-provider"),
        folders: Arc::new(move || folders_of.folders()),
    };
    async move {
        caches.shared.namespaces.complete().await;
        caches.vms.complete().await;
        vcenter::keep_connected(provider, program).await;
    }
}

fn images(parts: &ProgramParts, flags: &Flags) -> Images {
    Images {
        api: apply::Api::new(&parts.runtime, "vmop/image"),
        provider: Arc::clone(&parts.provider),
        namespace: parts.runtime.namespace.clone(),
        cache: parts.caches.images.clone(),
        sources: parts.caches.sources.clone(),
        providers: parts.caches.providers.clone(),
        period: flags.image_sync_period(),
        sync_requests: Arc::clone(&parts.sync_requests),
    }
}
