//! Wires watches, controllers and vCenter together.

use std::sync::Arc;

use api::names::annotation;
use api::vmop::{
    VirtualMachine, VirtualMachineImage, VirtualMachineService, VirtualMachineSetResourcePolicy,
};
use k8s_openapi::api::core::v1::{Namespace, Service};
use kit::events::Events;
use kit::index::{Index, key, reference};
use kit::run::Fatal;
use kit::watch::{self, Cache, Change};
use kit::{Controller, Started, apply};
use kube::api::PartialObjectMeta;
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher;
use kube::{Api, Resource, ResourceExt};
use tokio::sync::{Notify, mpsc};
use vsphere::inventory::Change as Happened;

use crate::admission;
use crate::admission::Known;
use crate::caches::{Caches, ReplicaCaches, hard_keys, label_key, made_for};
use crate::data_sources::DataSourceWatches;
use crate::enqueue::{Enqueue, into_stream};
use crate::image;
use crate::image::{Images, SyncRequests};
use crate::orphans::Orphans;
use crate::probe::Prober;
use crate::templates;
use crate::templates::TemplateCache;
use crate::vcenter;
use crate::vcenter::{ConnectionState, Provider, VCenter, mark};
use crate::{Flags, console, policy, publish, service, virtualmachine};

/// Runs all controllers of this replica, once it leads.
pub async fn start(started: Started, flags: Flags) -> Result<(), Fatal> {
    let mut metrics = vsphere::Metrics::default();
    started.metrics.register(|registry| metrics = vsphere::Metrics::registered(registry));
    let shared = ReplicaCaches::start(&started);
    let hooks = admission::router(Known::start(&started, &shared));
    kit::webhook::serve_or_own(&started, &flags.webhook, hooks, admission::OWN).await?;
    started.lead().await?;
    let caches = Caches::start(&started, &shared);
    let provider = Provider::new();
    let (vms, woken_vms) = Enqueue::new();
    let (policies, woken_policies) = Enqueue::new();
    let (prober, verdicts) = Prober::new(flags.probe_address_map.clone());

    let waiting = (caches.vms_by_image.clone(), vms.clone());
    let (templates, requests) = TemplateCache::new(Arc::new(move |image: &str| {
        waiting.0.refs(image).into_iter().for_each(|vm| waiting.1.enqueue(vm));
    }));
    let deploying = tokio::spawn(templates::deploy_requested(Arc::clone(&templates), requests));
    let connection = tokio::spawn(connected(&started, &provider, &caches, metrics));
    let idle = Arc::<Notify>::default();
    let stream = tokio::spawn(relayed(
        Arc::clone(&provider),
        caches.clone(),
        vms.clone(),
        policies.clone(),
        Arc::clone(&idle),
        Orphans::new(&started, &caches.vms, &provider),
    ));

    let sync_requests = Arc::<SyncRequests>::default();
    let machines = machines(
        &started,
        &caches,
        &provider,
        (prober, &sync_requests, &templates),
        &vms,
        &policies,
        (woken_vms, verdicts),
    );
    let resource_policies = resource_policies(&started, &caches, &provider, &vms, woken_policies);
    let services = services(&started, &caches);
    let collecting =
        tokio::spawn(collecting(Arc::clone(&provider), Arc::clone(&templates), caches.clone(), idle));
    let consoles = console::run(&started, &caches, &provider);
    let publications = publish::run(&started, &caches, &provider, Arc::clone(&sync_requests));
    let images = image::follow(
        Images {
            api: apply::Api::new(&started, "vmop/image"),
            provider: Arc::clone(&provider),
            cache: caches.images.clone(),
            sources: caches.sources.clone(),
            providers: caches.providers.clone(),
            period: flags.image_sync_period(),
            sync_requests,
        },
        started.shutdown.clone(),
    );
    tokio::join!(machines, resource_policies, services, consoles, publications, images);
    connection.abort();
    stream.abort();
    collecting.abort();
    deploying.abort();
    if let Ok(vcenter) = provider.vcenter() {
        vcenter.leave().await;
    }
    Ok(())
}

/// Keeps the provider connected, once it is known which folders matter.
fn connected(
    started: &Started,
    provider: &Arc<Provider>,
    caches: &Caches,
    metrics: vsphere::Metrics,
) -> impl Future<Output = ()> + use<> {
    let (provider, caches) = (Arc::clone(provider), caches.clone());
    let folders_of = caches.clone();
    let program = vcenter::Program {
        client: started.client.clone(),
        namespace: started.namespace.clone(),
        metrics,
        events: Events::new(started, "vmop-provider"),
        folders: Arc::new(move || folders_of.folders()),
    };
    async move {
        caches.namespaces.complete().await;
        caches.vms.complete().await;
        vcenter::keep_connected(provider, program).await;
    }
}

/// The controller of machines, and every event that concerns one.
fn machines<Woken>(
    started: &Started,
    caches: &Caches,
    provider: &Arc<Provider>,
    (prober, sync_requests, templates): (
        Prober<ObjectRef<VirtualMachine>>,
        &Arc<SyncRequests>,
        &Arc<TemplateCache>,
    ),
    vms: &Enqueue<VirtualMachine>,
    policies: &Enqueue<VirtualMachineSetResourcePolicy>,
    (woken, verdicts): (Woken, mpsc::UnboundedReceiver<ObjectRef<VirtualMachine>>),
) -> impl Future<Output = ()> + use<Woken>
where
    Woken: futures::Stream<Item = ObjectRef<VirtualMachine>> + Send + 'static,
{
    let ctx = Arc::new(virtualmachine::Context {
        api: apply::Api::new(started, "vmop/machine"),
        events: Events::new(started, "vmop-machine"),
        provider: Arc::clone(provider),
        caches: caches.clone(),
        prober,
        data_sources: DataSourceWatches::new(started.client.clone(), vms.clone()),
        asked: virtualmachine::carry_out::guest::Asked::default(),
        promotions: virtualmachine::carry_out::promotion::Promotions::new(vms.clone()),
        ended: parking_lot::Mutex::default(),
        room: Arc::new(tokio::sync::Semaphore::new(virtualmachine::ROOM)),
        told: parking_lot::Mutex::default(),
        policies: policies.clone(),
        sync_requests: Arc::clone(sync_requests),
        templates: Arc::clone(templates),
    });
    let forgotten = Arc::clone(&ctx);
    caches.vms.listen(move |change| {
        if let (Some(old), None) = (&change.old, &change.new) {
            let gone = ObjectRef::from_obj(&**old);
            forgotten.prober.set_target(&gone, None);
            forgotten.data_sources.forget(&gone);
            forgotten.asked.forget(&gone);
            forgotten.promotions.forget(&gone);
            forgotten.ended.lock().remove(&old.uid().unwrap_or_default());
        }
    });
    let of = |index: &kit::index::Index<VirtualMachine>| index.clone();
    let (by_class, by_bound) = (of(&caches.vms_by_class), of(&caches.vms_by_class));
    let (by_image, by_policy, by_network) =
        (of(&caches.vms_by_image), of(&caches.vms_by_policy), of(&caches.vms_by_network));
    let (by_zone, by_wide_zone) = (of(&caches.vms_by_namespace), of(&caches.vms_by_namespace));
    let (by_source_binding, by_source, bound) =
        (of(&caches.vms_by_namespace), of(&caches.vms_by_namespace), caches.clone());
    let (by_interface, by_nsx_interface) = (of(&caches.vms_by_interface), of(&caches.vms_by_interface));
    let (by_namespace, by_quota, by_storage) =
        (of(&caches.vms_by_namespace), of(&caches.vms_by_namespace), of(&caches.vms_by_storage));
    Controller::new("virtualmachine", started, &caches.vms)
        .watches(&caches.classes, move |class| by_class.refs(&class.name_any()))
        .watches(&caches.bindings, move |binding| {
            let in_namespace = |vm: &ObjectRef<VirtualMachine>| vm.namespace == binding.namespace();
            by_bound.refs(&binding.spec.class_ref.name).into_iter().filter(in_namespace).collect()
        })
        .watches(&caches.images, move |image| by_image.refs(&image.name_any()))
        .watches_optional(&caches.source_bindings, move |binding| {
            by_source_binding.refs(&binding.namespace().unwrap_or_default())
        })
        .watches_optional(&caches.sources, move |source| {
            let namespaces = bound.namespaces_bound_to(&source.name_any());
            namespaces.iter().flat_map(|namespace| by_source.refs(namespace)).collect()
        })
        .watches_changes(&caches.policies, move |change| match change {
            // A policy that is realised wakes its machines itself.
            Change { old: Some(_), new: Some(_) } => Vec::new(),
            other => other.sides().flat_map(|policy| by_policy.refs(&name_of(&**policy))).collect(),
        })
        .watches_optional(&caches.networks, move |network| by_network.refs(&name_of(network)))
        .watches_optional(&caches.interfaces, move |interface| machines_of(interface, &by_interface))
        .watches_optional(&caches.nsx_interfaces, move |interface| machines_of(interface, &by_nsx_interface))
        .watches_changes(&caches.namespaces, move |change| {
            let placed = |side: &Option<Arc<_>>| side.as_deref().map(placement);
            if placed(&change.old) == placed(&change.new) {
                return Vec::new();
            }
            change.new.iter().flat_map(|namespace| by_namespace.refs(&namespace.name_any())).collect()
        })
        .watches_changes(&caches.quotas, move |change| {
            let keys = |side: &Option<Arc<_>>| side.as_deref().map(hard_keys);
            if keys(&change.old) == keys(&change.new) {
                return Vec::new();
            }
            let namespace = change.sides().find_map(|quota| quota.namespace());
            by_quota.refs(&namespace.unwrap_or_default())
        })
        .watches_optional(&caches.attachments, |there| machine_of(there).into_iter().collect())
        .watches_optional(&caches.zones, move |zone| by_zone.refs(&zone.namespace().unwrap_or_default()))
        .watches_optional(&caches.availability_zones, move |zone| {
            zone.spec.namespaces.keys().flat_map(|namespace| by_wide_zone.refs(namespace)).collect()
        })
        .watches(&caches.storage_classes, move |class| by_storage.refs(&class.name_any()))
        .wakes_on(woken)
        .wakes_on(into_stream(verdicts))
        // A clone may queue in vCenter for long, and must not keep others back: vCenter's own gate counts. But at a start
        // all machines wait for the inventory, and what waits takes memory.
        .concurrency(1000)
        .deadline(std::time::Duration::from_hours(3))
        .run(ctx, virtualmachine::reconcile)
}

fn resource_policies<Woken>(
    started: &Started,
    caches: &Caches,
    provider: &Arc<Provider>,
    vms: &Enqueue<VirtualMachine>,
    woken: Woken,
) -> impl Future<Output = ()> + use<Woken>
where
    Woken: futures::Stream<Item = ObjectRef<VirtualMachineSetResourcePolicy>> + Send + 'static,
{
    let ctx = Arc::new(policy::Context {
        api: apply::Api::new(started, "vmop/policy"),
        events: Events::new(started, "vmop-policy"),
        provider: Arc::clone(provider),
        caches: caches.clone(),
        machines: vms.clone(),
    });
    let by_namespace = caches.policies_by_namespace.clone();
    let (by_zone, by_wide_zone) =
        (caches.policies_by_namespace.clone(), caches.policies_by_namespace.clone());
    Controller::new("virtualmachinesetresourcepolicy", started, &caches.policies)
        .watches_optional(&caches.zones, move |zone| by_zone.refs(&zone.namespace().unwrap_or_default()))
        .watches_optional(&caches.availability_zones, move |zone| {
            zone.spec.namespaces.keys().flat_map(|namespace| by_wide_zone.refs(namespace)).collect()
        })
        .watches_changes(&caches.vms, |change| match (&change.old, &change.new) {
            // The last machine that goes lets a policy go that waits for it.
            (Some(old), None) => {
                let policy = old.spec.resource_policy_name.as_deref().filter(|name| !name.is_empty());
                let namespace = old.namespace().unwrap_or_default();
                policy.map(|name| ObjectRef::new(name).within(&namespace)).into_iter().collect()
            }
            _ => Vec::new(),
        })
        .watches_changes(&caches.namespaces, move |change| {
            let placed = |side: &Option<Arc<_>>| side.as_deref().map(placement);
            if placed(&change.old) == placed(&change.new) {
                return Vec::new();
            }
            change.new.iter().flat_map(|namespace| by_namespace.refs(&namespace.name_any())).collect()
        })
        .wakes_on(woken)
        .run(ctx, policy::reconcile)
}

fn services(started: &Started, caches: &Caches) -> impl Future<Output = ()> + use<> {
    let client = || started.client.clone();
    let ours = watcher::Config::default().labels(&format!(
        "{}={}",
        service::plan::MANAGED_BY.0,
        service::plan::MANAGED_BY.1
    ));
    let services: Cache<VirtualMachineService> = watch::pruned(started, Api::all(client()));
    let live: Cache<Service> = watch::pruned(started, Api::all(client()));
    let slices = watch::configured(started, Api::all(client()), ours);
    let by_selector = services.index(|service| service::selecting(service).into_iter().collect());
    let ctx = Arc::new(service::Context {
        api: apply::Api::new(started, "vmop/service"),
        events: Events::new(started, "vmop-service"),
        services: live.clone(),
        slices: slices.clone(),
        by_label: caches.vms_by_label.clone(),
    });
    Controller::new("virtualmachineservice", started, &services)
        // By name, not by owner: a Service that is in the way says so, and its end clears the way.
        .watches(&live, |live| {
            vec![ObjectRef::new(&live.name_any()).within(&live.namespace().unwrap_or_default())]
        })
        .owns(&slices)
        .watches_changes(&caches.vms, move |change| {
            let seen = |side: &Option<Arc<VirtualMachine>>| {
                side.as_deref().map(|vm| {
                    let (labels, backend) = service::seen(vm);
                    (labels.cloned(), backend)
                })
            };
            if seen(&change.old) == seen(&change.new) {
                return Vec::new();
            }
            let keys = change.sides().flat_map(|vm| {
                let namespace = vm.namespace().unwrap_or_default();
                let labels = vm.labels().iter();
                labels.map(|(name, value)| label_key(&namespace, name, value)).collect::<Vec<_>>()
            });
            keys.flat_map(|key| by_selector.refs(&key)).collect()
        })
        .run(ctx, service::reconcile)
}

/// Lets golden templates go that nothing needs, some time after something happened that may have made one needless.
async fn collecting(
    provider: Arc<Provider>,
    templates: Arc<TemplateCache>,
    caches: Caches,
    idle: Arc<Notify>,
) {
    let told = Arc::clone(&idle);
    caches.images.listen(move |change| {
        let content = |image: &Arc<VirtualMachineImage>| {
            let status = image.status.as_ref()?;
            Some((image.spec.image_id.clone(), status.content_version.clone()?))
        };
        if change.old.as_ref().and_then(content) != change.new.as_ref().and_then(content) {
            told.notify_one();
        }
    });
    caches.images.complete().await;
    loop {
        idle.notified().await;
        tokio::time::sleep(templates::COLLECT_DELAY).await;
        let Ok(vcenter) = provider.vcenter() else { continue };
        if vcenter.inventory_problem().is_some() || vcenter.library_problem().is_some() {
            // Who does not know what there is must not say what is needless.
            idle.notify_one();
            continue;
        }
        let images = caches.images.all();
        let needed = |item: &str, content: &str| {
            images.iter().any(|image| {
                let version = image.status.as_ref().and_then(|status| status.content_version.as_deref());
                image.spec.image_id == item && version.is_none_or(|version| version == content)
            })
        };
        if let Err(error) = templates::collect(&templates, &vcenter, needed).await {
            tracing::warn!(%error, "templates that nothing needs could not be let go; trying again");
            idle.notify_one();
        }
    }
}

/// Tells objects what happens in vCenter, and everybody when it comes or goes.
async fn relayed(
    provider: Arc<Provider>,
    caches: Caches,
    vms: Enqueue<VirtualMachine>,
    policies: Enqueue<VirtualMachineSetResourcePolicy>,
    idle: Arc<Notify>,
    orphans: Orphans,
) {
    caches.vms.complete().await;
    caches.policies.complete().await;
    let mut state = provider.changes();
    loop {
        let now = state.borrow_and_update().clone();
        if !matches!(now, ConnectionState::Starting) {
            wake_all(&caches.policies, &policies);
            wake_all(&caches.vms, &vms);
        }
        let happening = async {
            match &now {
                ConnectionState::Connected(vcenter) => {
                    tokio::join!(relay(vcenter, &caches, &vms, &idle, &orphans), orphans.report(vcenter));
                }
                ConnectionState::Starting | ConnectionState::Broken(_) => {}
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            changed = state.changed() => if changed.is_err() { return },
            () = happening => {}
        }
    }
}

/// A change of one machine wakes its object; a cache that is complete (again) wakes all.
async fn relay(
    vcenter: &VCenter,
    caches: &Caches,
    vms: &Enqueue<VirtualMachine>,
    idle: &Notify,
    orphans: &Orphans,
) {
    let mut changes = vcenter.inventory.subscribe();
    while let Some(happened) = changes.next().await {
        for change in happened {
            match change {
                Happened::Vm { was, now, .. } => {
                    let rests =
                        |side: &Option<Arc<vsphere::Vm>>| side.as_deref().and_then(mark::base).is_some();
                    if rests(&was) && !rests(&now) {
                        idle.notify_one();
                    }
                    if let Some(now) = &now {
                        orphans.saw(now, vcenter);
                    }
                    let sides = [was, now].into_iter().flatten();
                    let owner = sides.filter_map(|vm| mark::owner(&vm, &vcenter.settings.stack)).last();
                    if let Some(owner) = owner {
                        vms.enqueue(owner);
                    }
                }
                Happened::Complete => {
                    wake_all(&caches.vms, vms);
                    idle.notify_one();
                    orphans.complete();
                }
                Happened::Incomplete => tracing::warn!("the inventory of vCenter is being read anew"),
            }
        }
    }
}

fn wake_all<K: watch::Watchable>(cache: &Cache<K>, waker: &Enqueue<K>) {
    cache.all().iter().for_each(|object| waker.enqueue(reference(&**object)));
}

/// The machine that an object was made for.
fn machine_of<K: Resource>(made: &K) -> Option<ObjectRef<VirtualMachine>> {
    let machine = made_for(made)?;
    let (namespace, name) = machine.split_once('/')?;
    Some(ObjectRef::new(name).within(namespace))
}

/// The machines that an interface of a network provider is for: the one it was made for, and those that name it.
fn machines_of<K: Resource>(interface: &K, named: &Index<VirtualMachine>) -> Vec<ObjectRef<VirtualMachine>> {
    machine_of(interface).into_iter().chain(named.refs(&name_of(interface))).collect()
}

fn name_of<K: Resource>(object: &K) -> String {
    key(object.meta().namespace.as_deref(), &object.name_any())
}

/// What of a namespace matters to machines.
fn placement(namespace: &PartialObjectMeta<Namespace>) -> (Option<String>, Option<String>) {
    let annotated = |key: &str| namespace.annotations().get(key).cloned();
    (annotated(annotation::NAMESPACE_FOLDER), annotated(annotation::NAMESPACE_RESOURCE_POOL))
}
