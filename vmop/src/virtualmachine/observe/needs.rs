//! What a machine that is not there yet needs.

use std::sync::Arc;

use api::conditions::vmop as reason;
use api::vmop::{VirtualMachine, VirtualMachineImage};
use kit::index::key;
use kube::ResourceExt;
use vsphere::{MoRef, Vm};

use crate::caches::Caches;
use crate::image::libraries;
use crate::image::libraries::Chain;
use crate::templates::{Template, TemplateKey, TemplateState};
use crate::unmet::Need;
use crate::unmet::Unmet;
use crate::vcenter::storage::DatastoreChoice;
use crate::vcenter::{Placement, VCenter};
use crate::virtualmachine::Context;
use crate::virtualmachine::bootstrap::observe::Read;
use crate::virtualmachine::clone::Identity;
use crate::virtualmachine::image;
use crate::virtualmachine::needs::Needs;
use crate::virtualmachine::nic::nic::Card;
use crate::virtualmachine::plan::Hardware;
use crate::virtualmachine::size::class;
use crate::virtualmachine::size::class::Size;
use crate::virtualmachine::storage::class as storage_class;
use crate::virtualmachine::storage::class::Storage;

/// Everything a machine needs, each by itself.
pub async fn needs(
    vm: &VirtualMachine,
    home: &Placement,
    place: Need<Placement>,
    (identity, told, network): (Identity, &Read<'_>, Need<Vec<Card>>),
    vcenter: &Arc<VCenter>,
    ctx: &Context,
) -> Result<Needs, vsphere::Error> {
    let namespace = vm.namespace().unwrap_or_default();
    let caches = &ctx.caches;
    let bound = !caches.bindings_by_class.refs(&key(Some(&namespace), &vm.spec.class_name)).is_empty();
    let class = caches.classes.get(None, &vm.spec.class_name);
    let class = match class::class(vm, class.as_deref(), bound) {
        Ok(class) if class::counts_cores(class) => class::size(class, vcenter.megahertz(&home.pool).await?),
        Ok(class) => class::size(class, 0),
        Err(unmet) => Err(unmet),
    };
    let storage = storage(vm, place.as_ref().unwrap_or(home), vcenter, ctx).await?;
    let image = template(vm, home, storage.as_ref().ok(), vcenter, ctx);
    let (cards, template) = (network.as_deref().ok(), image.as_deref().ok());
    let bootstrap = told.composed(vm, identity, cards, template, ctx);
    Ok(Needs { class, image, storage, network, bootstrap, place })
}

/// The size that the class of a machine that is there stands for, if it can be told.
pub async fn class_size(
    vm: &VirtualMachine,
    home: Option<&Placement>,
    vcenter: &VCenter,
    ctx: &Context,
) -> Option<Size> {
    let class = ctx.caches.classes.get(None, &vm.spec.class_name)?;
    let megahertz = if class::counts_cores(&class) { vcenter.megahertz(&home?.pool).await.ok()? } else { 0 };
    class::size(&class, megahertz).ok()
}

/// The storage class's policy, and a datastore that satisfies it.
async fn storage(
    vm: &VirtualMachine,
    place: &Placement,
    vcenter: &VCenter,
    ctx: &Context,
) -> Result<Need<Storage>, vsphere::Error> {
    let namespace = vm.namespace().unwrap_or_default();
    let class = ctx.caches.storage_classes.get(None, vm.spec.storage_class.as_deref().unwrap_or_default());
    let quotas = ctx.caches.quota_keys(&namespace);
    let required = vcenter.settings.storage_class_required;
    let policy = match storage_class::storage(vm, required, class.as_deref(), &quotas) {
        Ok(None) => None,
        Ok(Some(name)) => match vcenter.storage_policy(name).await? {
            Some(policy) => Some(policy),
            None => return Ok(Err(storage_class::no_policy(vm, name, &vcenter.settings.address()))),
        },
        Err(unmet) => return Ok(Err(unmet)),
    };
    let machine = key(Some(&namespace), &vm.name_any());
    let zoned =
        !crate::virtualmachine::placement::observe::zones_of_namespace(&namespace, &ctx.caches).is_empty();
    Ok(match vcenter.datastore_for(&machine, &place.pool, policy.as_ref(), zoned).await? {
        DatastoreChoice::Any => Ok(Storage { policy, datastore: None }),
        DatastoreChoice::On(datastore) => Ok(Storage { policy, datastore: Some(datastore) }),
        DatastoreChoice::Unavailable(message) => Err(Unmet::in_vcenter(reason::DATASTORE_NOT_FOUND, message)),
    })
}

fn template(
    vm: &VirtualMachine,
    home: &Placement,
    storage: Option<&Storage>,
    vcenter: &Arc<VCenter>,
    ctx: &Context,
) -> Need<Arc<Template>> {
    let image = ctx.caches.images.get(None, &vm.spec.image_name);
    if image.is_none() {
        ctx.sync_requests.request_missing(&vm.uid().unwrap_or_default(), &vm.spec.image_name);
    }
    let image = image::image(vm, image.as_deref(), vcenter.library_problem().as_deref())?;
    admitted(vm, image, vcenter, &ctx.caches)?;
    let content = image.status.as_ref().and_then(|status| status.content_version.clone()).unwrap_or_default();
    let settings = &vcenter.settings;
    let placement = Placement {
        folder: settings.folder.as_deref().map_or_else(|| home.folder.clone(), MoRef::folder),
        pool: settings.resource_pool.as_deref().map_or_else(|| home.pool.clone(), MoRef::pool),
    };
    let (name, item) = (image.name_any(), image.spec.image_id.clone());
    let Some(storage) = storage else {
        // Where a template has to be is not known yet.
        let message = format!("VirtualMachineImage {name} waits for its datastore to be known");
        return Err(Unmet::underway(reason::VIRTUAL_MACHINE_IMAGE_NOT_READY, message));
    };
    // What encrypts is encrypted when it is copied: the template serves all.
    let policy = storage.policy.as_ref().filter(|policy| !policy.encrypts).map(|policy| policy.id.clone());
    let datastore = storage.datastore.clone();
    let template_key = TemplateKey { image: name.clone(), item, content, placement, datastore, policy };
    let state = ctx.templates.get(vcenter, &template_key);
    ctx.templates.request(vcenter, &template_key);
    match state {
        TemplateState::Ready(template) => Ok(template),
        TemplateState::Failed(problem) => Err(Unmet::wrong(
            reason::VIRTUAL_MACHINE_IMAGE_NOT_READY,
            format!("VirtualMachineImage {name} can't be deployed as a template: {problem}"),
        )),
        TemplateState::Deploying => Err(Unmet::underway(
            reason::VIRTUAL_MACHINE_IMAGE_NOT_READY,
            format!("VirtualMachineImage {name} is being deployed as a template"),
        )),
    }
}

/// The namespace may use the image.
fn admitted(
    vm: &VirtualMachine,
    image: &VirtualMachineImage,
    vcenter: &VCenter,
    caches: &Caches,
) -> Need<()> {
    let namespace = vm.namespace().unwrap_or_default();
    let named = &image.spec.provider_ref.name;
    let provider = caches.providers.cache().get(None, named);
    let mut sources: Vec<_> =
        caches.sources_by_provider.refs(named).into_iter().map(|source| source.name).collect();
    sources.sort_unstable();
    let bound = sources.iter().any(|source| caches.namespaces_bound_to(source).contains(&namespace));
    let chain = Chain { provider: provider.as_deref(), sources: &sources, bound };
    libraries::admitted(&namespace, image, vcenter.settings.library.as_deref(), &chain)
}

/// The machine's disks, and what further ones would lie on.
pub async fn hardware(
    vm: &VirtualMachine,
    machine: &Vm,
    vcenter: &VCenter,
    ctx: &Context,
) -> Result<Hardware, vsphere::Error> {
    let devices = vcenter.devices(machine).await?;
    let home = super::home(vm, vcenter, &ctx.caches);
    let storage = match home {
        Ok(home) => storage(vm, &home, vcenter, ctx).await?,
        Err(unmet) => Err(unmet),
    };
    Ok(Hardware { devices, storage })
}
