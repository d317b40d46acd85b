//! Every read that a machine's plan rests on.

use std::sync::Arc;
use std::time::Duration;

use api::conditions::vmop as reason;
use api::names::annotation;
use api::vmop::{VirtualMachine, VirtualMachineNetworkInterface};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kit::apply;
use kit::index::key;
use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;
use vsphere::inventory::{Location, Presence};
use vsphere::{MoRef, Vm};

use super::clone::Identity;
use super::needs::{self, Bootstrap, Card, Need, Needs, Source, Unmet};
use super::plan::{Claim, Facts, Found, Nothing, existed};
use super::{Context, Error, readiness};
use crate::appearance::Kind;
use crate::caches::Caches;
use crate::provider::golden::{Goldens, Progress, Recipe};
use crate::provider::{Place, Site, mark, mark::Mark};

/// How far the stream may lag behind what vCenter answers; a machine of ours has entered by then.
const LAG: Duration = Duration::from_secs(1);
/// Reason of a namespace without folder or pool.
const PLACEMENT_NOT_READY: &str = "PlacementNotReady";

/// Everything that is to be known of `vm`.
pub async fn facts(vm: &VirtualMachine, identity: Identity, ctx: &Context) -> Result<Facts, Error> {
    let (namespace, name) = (vm.namespace().unwrap_or_default(), vm.name_any());
    let site = match ctx.provider.site() {
        Ok(site) => site,
        Err(problem) => {
            let mark = Mark::new(&namespace, &name, "");
            return Ok(Facts { identity, mark, found: Found::Unknown(problem), probe: None, host: None });
        }
    };
    let mark = Mark::new(&namespace, &name, &site.settings.stack);
    let found = found(vm, identity, &mark, &site, ctx).await?;
    let (probe, host) = match &found {
        Found::Ours(machine) | Found::Moved(machine) => {
            (readiness::probed(vm, machine, &ctx.prober), site.host_name(machine).await)
        }
        _ => (None, None),
    };
    Ok(Facts { identity, mark, found, probe, host })
}

async fn found(
    vm: &VirtualMachine,
    identity: Identity,
    mark: &Mark,
    site: &Arc<Site>,
    ctx: &Context,
) -> Result<Found, Error> {
    let home = home(&vm.namespace().unwrap_or_default(), site, &ctx.caches);
    if let Ok(home) = &home
        && let Err(error) = site.covers(&home.folder).await
    {
        let problem = site.problem(&error);
        return Ok(if error.is_not_found() {
            Found::Nowhere(Unmet::in_vcenter(PLACEMENT_NOT_READY, problem.to_string()))
        } else {
            Found::Unknown(problem)
        });
    }
    if let Some(problem) = site.trouble() {
        return Ok(Found::Unknown(problem));
    }
    let place = match &home {
        Ok(home) => place(vm, home, site, ctx),
        Err(unmet) => Err(unmet.clone()),
    };
    if let Some(found) = cached(vm, identity, mark, site, place.as_ref().ok()) {
        return Ok(found);
    }
    if existed(vm) {
        return Ok(elsewhere(identity, mark, site).await);
    }
    let home = match home {
        Ok(home) => home,
        Err(unmet) => return Ok(Found::Nowhere(unmet)),
    };
    nothing(vm, identity, mark, &home, place, site, ctx).await
}

/// What the cache says: the machine by its UUID, else by its name.
fn cached(
    vm: &VirtualMachine,
    identity: Identity,
    mark: &Mark,
    site: &Site,
    place: Option<&Place>,
) -> Option<Found> {
    if let Presence::Present(machine) = site.inventory.by_uuid(identity.instance) {
        return Some(claimed(mark, machine, || format!("Instance UUID {}", identity.instance)));
    }
    let name = vm.name_any();
    match site.inventory.by_name(&place?.folder, &name) {
        Presence::Present(machine) if same(&machine, identity) => {
            Some(claimed(mark, machine, || format!("The name {name} in its folder")))
        }
        Presence::Present(machine) => {
            let what = format!("The name {name} in its folder");
            Some(Found::Anothers(Claim { what, holder: mark::described(&machine) }))
        }
        Presence::Absent | Presence::Unknown => None,
    }
}

fn claimed(mark: &Mark, machine: Arc<Vm>, what: impl FnOnce() -> String) -> Found {
    if mark.is_on(&machine) {
        Found::Ours(machine)
    } else {
        Found::Anothers(Claim { what: what(), holder: mark::described(&machine) })
    }
}

/// Whether `machine` is who it should be; vCenter may have changed one of two UUIDs, never both.
pub fn same(machine: &Vm, identity: Identity) -> bool {
    machine.uuid == Some(identity.bios) || machine.instance_uuid == Some(identity.instance)
}

/// A machine that was there and is not in the cache: moved away, or gone.
async fn elsewhere(identity: Identity, mark: &Mark, site: &Site) -> Found {
    match site.inventory.locate(identity.instance).await {
        Ok(Location::Here(machine)) if mark.is_on(&machine) => Found::Ours(machine),
        Ok(Location::Elsewhere(machine)) if mark.is_on(&machine) => Found::Moved(machine),
        Ok(_) => Found::Lost,
        Err(error) => Found::Unknown(site.problem(&error)),
    }
}

/// There is no machine yet: what it needs, and whether its BIOS UUID is free in all of vCenter.
async fn nothing(
    vm: &VirtualMachine,
    identity: Identity,
    mark: &Mark,
    home: &Place,
    place: Need<Place>,
    site: &Arc<Site>,
    ctx: &Context,
) -> Result<Found, Error> {
    let bootstrap = bootstrap(vm, ctx).await?;
    let (needs, datastore) = match needs(vm, home, place, bootstrap, site, ctx).await {
        Ok(needs) => needs,
        Err(error) => return Ok(Found::Unknown(site.problem(&error))),
    };
    if needs.first_unmet().is_none()
        && !controlled(vm)
        && let Some(found) = holder(identity, mark, site).await
    {
        return Ok(found);
    }
    Ok(Found::Nothing(Box::new(Nothing { needs, datastore })))
}

/// Whether a program made the object: then its UUIDs were drawn, and nobody else can have them.
fn controlled(vm: &VirtualMachine) -> bool {
    vm.owner_references().iter().any(|owner| owner.controller == Some(true))
}

/// The machine that has our BIOS UUID anywhere in vCenter, if there is one.
async fn holder(identity: Identity, mark: &Mark, site: &Site) -> Option<Found> {
    let unknown = |error: vsphere::Error| Some(Found::Unknown(site.problem(&error)));
    let moref = match site.client.find_by_uuid(identity.bios, false).await {
        Ok(moref) => moref?,
        Err(error) => return unknown(error),
    };
    if let Ok(machine) = site.inventory.entered(&moref, LAG).await {
        return Some(claimed(mark, machine, || format!("BIOS UUID {}", identity.bios)));
    }
    let name = match site.client.retrieve(std::slice::from_ref(&moref), &["name"]).await {
        Ok(read) => read.first().and_then(|object| object.get("name").as_str().map(str::to_owned)),
        Err(error) if error.is_not_found() => return None,
        Err(error) => return unknown(error),
    };
    let holder = format!("{} ({})", name.unwrap_or_default(), moref.id());
    Some(Found::Anothers(Claim { what: format!("BIOS UUID {}", identity.bios), holder }))
}

/// Folder and pool of the namespace.
pub fn home(namespace: &str, site: &Site, caches: &Caches) -> Need<Place> {
    let object = caches.namespaces.get(None, namespace);
    let annotated = |key: &str| object.as_ref().and_then(|object| object.annotations().get(key).cloned());
    let settings = &site.settings;
    let lacks = |key: &str| {
        Unmet::wrong(
            PLACEMENT_NOT_READY,
            format!(
                "Namespace {namespace} has no annotation {key}. Set it to the MoID of what the namespace was given in vCenter"
            ),
        )
    };
    let folder = annotated(annotation::NAMESPACE_FOLDER).or_else(|| settings.folder.clone());
    let pool = annotated(annotation::NAMESPACE_RESOURCE_POOL).or_else(|| settings.resource_pool.clone());
    Ok(Place {
        folder: MoRef::folder(folder.ok_or_else(|| lacks(annotation::NAMESPACE_FOLDER))?),
        pool: MoRef::pool(pool.ok_or_else(|| lacks(annotation::NAMESPACE_RESOURCE_POOL))?),
    })
}

/// Where the machine itself lies: in its policy's folder and pool, or its namespace's.
fn place(vm: &VirtualMachine, home: &Place, site: &Site, ctx: &Context) -> Need<Place> {
    let Some(name) = vm.spec.resource_policy_name.as_deref().filter(|name| !name.is_empty()) else {
        return Ok(home.clone());
    };
    let namespace = vm.namespace().unwrap_or_default();
    let named = format!("VirtualMachineSetResourcePolicy {namespace}/{name}");
    let Some(policy) = ctx.caches.policies.get(Some(&namespace), name) else {
        let message = format!("{named} does not exist. Create it, or name another");
        return Err(Unmet::wrong(reason::RESOURCE_POLICY_NOT_FOUND, message));
    };
    if let Some(place) = site.policy(&key(Some(&namespace), name)) {
        return Ok(place);
    }
    let conditions = policy.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let ready = api::conditions::find(conditions, api::conditions::READY);
    Err(
        match ready
            .filter(|ready| ready.status == api::conditions::FALSE)
            .and_then(|ready| ready.message.as_ref())
        {
            Some(why) => Unmet::wrong(reason::RESOURCE_POLICY_NOT_READY, format!("{named}: {why}")),
            None => Unmet::underway(
                reason::RESOURCE_POLICY_NOT_READY,
                format!("{named} is being realised in vCenter"),
            ),
        },
    )
}

async fn needs(
    vm: &VirtualMachine,
    home: &Place,
    place: Need<Place>,
    bootstrap: Need<Bootstrap>,
    site: &Arc<Site>,
    ctx: &Context,
) -> Result<(Needs, Option<MoRef>), vsphere::Error> {
    let namespace = vm.namespace().unwrap_or_default();
    let caches = &ctx.caches;
    let bound = !caches.bindings_of.refs(&key(Some(&namespace), &vm.spec.class_name)).is_empty();
    let class = caches.classes.get(None, &vm.spec.class_name);
    let class = match needs::class(vm, class.as_deref(), bound) {
        Ok(class) if needs::counts_cores(class) => needs::size(class, site.megahertz(&home.pool).await?),
        Ok(class) => needs::size(class, 0),
        Err(unmet) => Err(unmet),
    };
    let (storage, datastore) = match site.datastore().await {
        Ok(datastore) => (storage(vm, site, ctx), datastore),
        Err(error) if error.is_not_found() => {
            let name = format!("datastore {}", site.settings.datastore.as_deref().unwrap_or_default());
            (Err(unknown(reason::STORAGE_NOT_READY, &error, &name, site)), None)
        }
        Err(error) => return Err(error),
    };
    let image = template(vm, home, datastore.clone(), site, ctx);
    let network = cards(vm, site, ctx).await?;
    Ok((Needs { class, image, storage, network, bootstrap, place }, datastore))
}

fn storage(vm: &VirtualMachine, site: &Site, ctx: &Context) -> Need<()> {
    let name = vm.spec.storage_class.as_deref().unwrap_or_default();
    let exists = ctx.caches.storage_classes.get(None, name).is_some();
    let quotas = ctx.caches.quota_keys(&vm.namespace().unwrap_or_default());
    needs::storage(vm, site.settings.storage_class_required, exists, &quotas)
}

fn template(
    vm: &VirtualMachine,
    home: &Place,
    datastore: Option<MoRef>,
    site: &Arc<Site>,
    ctx: &Context,
) -> Need<Arc<crate::provider::golden::Template>> {
    let image = ctx.caches.images.get(None, &vm.spec.image_name);
    let image = needs::image(vm, image.as_deref(), site.library_trouble().as_deref())?;
    let content = image.status.as_ref().and_then(|status| status.content_version.clone()).unwrap_or_default();
    let settings = &site.settings;
    let place = Place {
        folder: settings.folder.as_deref().map_or_else(|| home.folder.clone(), MoRef::folder),
        pool: settings.resource_pool.as_deref().map_or_else(|| home.pool.clone(), MoRef::pool),
    };
    let (name, item) = (image.name_any(), image.spec.image_id.clone());
    let recipe = Recipe { image: name.clone(), item, content, place, datastore };
    match Goldens::ask(site, &recipe) {
        Progress::Ready(template) => Ok(template),
        Progress::Failing(problem) => Err(Unmet::wrong(
            reason::VIRTUAL_MACHINE_IMAGE_NOT_READY,
            format!("VirtualMachineImage {name} can't be deployed as a template: {problem}"),
        )),
        Progress::Making => Err(Unmet::underway(
            reason::VIRTUAL_MACHINE_IMAGE_NOT_READY,
            format!("VirtualMachineImage {name} is being deployed as a template"),
        )),
    }
}

/// What each card is plugged into; a machine that names none gets one on the configured network.
async fn cards(vm: &VirtualMachine, site: &Site, ctx: &Context) -> Result<Need<Vec<Card>>, vsphere::Error> {
    let namespace = vm.namespace().unwrap_or_default();
    let default = [VirtualMachineNetworkInterface::default()];
    let interfaces = match vm.spec.network_interfaces.as_slice() {
        [] if site.settings.network.is_none() => return Ok(Ok(Vec::new())),
        [] => default.as_slice(),
        given => given,
    };
    let mut cards = Vec::with_capacity(interfaces.len());
    for interface in interfaces {
        let realised = |name: &str| ctx.caches.networks.get(Some(&namespace), name);
        let named = needs::card_kind(interface)
            .and_then(|kind| Ok((kind, needs::network_name(&namespace, interface, realised)?)));
        let (kind, name) = match named {
            Ok((kind, name)) => (kind, name.or(site.settings.network.as_deref())),
            Err(unmet) => return Ok(Err(unmet)),
        };
        let Some(name) = name else {
            let message = "The provider configuration has no Network to plug the card into. Add the key, or name a network";
            return Ok(Err(Unmet::wrong(reason::NETWORK_NOT_READY, message)));
        };
        match site.network(name).await {
            Ok(network) => cards.push(Card { kind, backing: network.backing }),
            Err(error) if error.is_not_found() => {
                return Ok(Err(Unmet::in_vcenter(
                    reason::NETWORK_NOT_READY,
                    site.problem(&error).to_string(),
                )));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(Ok(cards))
}

/// What a name stands for is not in vCenter, or what holds it is not.
fn unknown(reason: &'static str, error: &vsphere::Error, what: &str, site: &Site) -> Unmet {
    if !matches!(error.kind(), vsphere::Kind::NotFound { missing: None }) {
        return Unmet::in_vcenter(reason, site.problem(error).to_string());
    }
    let address = site.settings.address();
    let message =
        format!("vCenter {address} has no {what} in its datacenter. Create it there, or name another");
    Unmet::in_vcenter(reason, message)
}

/// The guest's data, read now; while it is not there or not right, its change wakes the machine.
async fn bootstrap(vm: &VirtualMachine, ctx: &Context) -> Result<Need<Bootstrap>, Error> {
    let namespace = vm.namespace().unwrap_or_default();
    let (kind, name, read) = match needs::source(vm) {
        Err(unmet) => return Ok(Err(unmet)),
        Ok(Source::None) => return Ok(Ok(Bootstrap::default())),
        Ok(Source::Secret(name)) => {
            let secret: Option<Secret> = apply::get(ctx.api.client(), Some(&namespace), name).await?;
            let read = secret.map(|secret| {
                let data = secret.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0));
                (secret.metadata.resource_version, data.collect::<Vec<_>>())
            });
            (Kind::Secret, name, read)
        }
        Ok(Source::ConfigMap(name)) => {
            let map: Option<ConfigMap> = apply::get(ctx.api.client(), Some(&namespace), name).await?;
            let read = map.map(|map| {
                let data =
                    map.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.into_bytes()));
                (map.metadata.resource_version, data.collect())
            });
            (Kind::ConfigMap, name, read)
        }
    };
    let source = format!("{kind:?} {namespace}/{name}");
    let (seen, need) = if let Some((version, data)) = read {
        (version, needs::bootstrap(&source, data))
    } else {
        let message = format!("{source} (spec.vmMetadata) does not exist. Create it with the guest's data");
        (None, Err(Unmet::wrong(reason::BOOTSTRAP_NOT_READY, message)))
    };
    let vm_ref = ObjectRef::from_obj(vm);
    match need {
        Ok(_) => ctx.appearances.forget(&vm_ref),
        Err(_) => ctx.appearances.await_change(&vm_ref, kind, name, seen),
    }
    Ok(need)
}
