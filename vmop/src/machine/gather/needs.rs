//! What a machine that is not there yet needs.

use std::sync::Arc;

use api::conditions::vmop as reason;
use api::vmop::VirtualMachine;
use kit::index::key;
use kube::ResourceExt;
use vsphere::MoRef;

use super::cards::cards;
use crate::machine::Context;
use crate::machine::needs::{self, Bootstrap, Need, Needs, Unmet};
use crate::provider::golden::{Goldens, Progress, Recipe, Template};
use crate::provider::{Place, Site};

/// Everything a machine needs, each by itself, and the datastore.
pub(super) async fn needs(
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
) -> Need<Arc<Template>> {
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
