//! VirtualMachinePublishRequest: publishes a VM as a content library item, which becomes an image.
//!
//! The item's description contains the request's UID. Therefore, after a lost response or a crash, the item is found and not
//! created again. vCenter also gets the same idempotency token each time.

mod plan;
mod target;
mod unfit;
#[cfg(test)]
mod vcsim_tests;

use std::sync::Arc;
use std::time::Duration;

use api::conditions::vmop::publish as known;
use api::vmop::{VirtualMachine, VirtualMachineImage, VirtualMachinePublishRequest};
use futures::FutureExt;
use kit::apply::Api;
use kit::events::Events;
use kit::index::{Index, key};
use kit::watch::{self, Cache};
use kit::{Controller, Next, Runtime};
use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;
use vsphere::{MoRef, Result as Vcenter};

use crate::caches::Caches;
use crate::error::Error;
use crate::image::SyncRequests;
use crate::pause;
use crate::publish::plan::{Facts, PublishStep, PublishedItem};
use crate::publish::unfit::Unfit;
use crate::vcenter::{Provider, VCenter, mark};
use crate::watches::{namespaced_name, to, when_changed};

/// The timeout for copying a VM's disks in vCenter.
const UPLOAD: Duration = Duration::from_hours(2);
/// The maximum time that a request waits for its turn before it is reconciled again.
const QUEUE: Duration = Duration::from_hours(24);
/// The retry interval for changes that aren't watched, such as the end of an upload that another process began.
const UNWATCHED: Duration = Duration::from_secs(15);

/// The context for VirtualMachinePublishRequest reconciles.
pub struct Context {
    api: Api,
    events: Events,
    provider: Arc<Provider>,
    vms: Cache<VirtualMachine>,
    images: Index<VirtualMachineImage>,
    library_syncs: Arc<SyncRequests>,
}

/// Reconciles VirtualMachinePublishRequests until the program ends. `library_syncs` triggers image syncs after uploads.
pub fn run(
    runtime: &Runtime,
    caches: &Caches,
    provider: &Arc<Provider>,
    library_syncs: Arc<SyncRequests>,
) -> impl Future<Output = ()> + use<> {
    let requests: Cache<VirtualMachinePublishRequest> =
        watch::objects(runtime, kube::Api::all(runtime.client.clone()));
    let by_source = requests.index(|request| {
        vec![key(request.metadata.namespace.as_deref(), &plan::source(request).name.unwrap_or_default())]
    });
    let by_item = requests.index(|request| vec![plan::item_name(request)]);
    let ctx = Arc::new(Context {
        api: Api::new(runtime, "vmop/publish"),
        events: Events::new(runtime, "vmop-publish"),
        provider: Arc::clone(provider),
        vms: caches.vms.clone(),
        images: caches.images.index(|image| vec![image.spec.image_id.clone()]),
        library_syncs,
    });
    Controller::new("virtualmachinepublishrequest", runtime, &requests)
        // Only the VM's existence matters, not its state.
        .watches_changes(&caches.vms, when_changed(moid, to(&by_source, namespaced_name)))
        .watches(&caches.images, to(&by_item, |image: &VirtualMachineImage| image.status.clone()?.image_name))
        // Long uploads must not block other requests, so the client's capture lane limits uploads, and not this number. This
        // number bounds the memory for waiting requests.
        .concurrency(1000)
        .deadline(QUEUE + UPLOAD + Duration::from_mins(10))
        .run(ctx, reconcile)
}

fn moid(vm: &VirtualMachine) -> Option<String> {
    vm.status.as_ref()?.unique_id.clone()
}

/// Reconciles one request: uploads the VM, and waits until the item has become an image.
async fn reconcile(request: Arc<VirtualMachinePublishRequest>, ctx: Arc<Context>) -> Result<Next, Error> {
    if pause::paused(&*request) || request.metadata.deletion_timestamp.is_some() {
        return Ok(Next::OnChange);
    }
    if request.status.as_ref().and_then(|status| status.ready) == Some(true) {
        return keep_or_expire(&request, &ctx).await;
    }
    let vcenter = ctx.provider.vcenter()?;
    let facts = gather(&request, &vcenter, &ctx).await?;
    let step = plan::step(&request, &facts);
    if matches!(step, PublishStep::Upload(_)) {
        return upload_in_turn(&request, facts, &vcenter, &ctx).await;
    }
    report(&request, &facts, &step, None, &ctx).await?;
    match step {
        PublishStep::Blocked | PublishStep::Uploading => Ok(Next::After(UNWATCHED)),
        PublishStep::AwaitImage => {
            ctx.library_syncs.request();
            Ok(Next::After(UNWATCHED * 2))
        }
        PublishStep::Done | PublishStep::Queued | PublishStep::Upload(_) => Ok(Next::After(Duration::ZERO)),
    }
}

/// Uploads the VM when it is the namespace's turn. Only a few VMs are copied at a time, and even fewer per namespace.
async fn upload_in_turn(
    request: &VirtualMachinePublishRequest,
    mut facts: Facts,
    vcenter: &VCenter,
    ctx: &Context,
) -> Result<Next, Error> {
    let namespace = request.namespace().unwrap_or_default();
    let mut entering = Box::pin(vcenter.client.captures().enter(&namespace));
    let turn = if let Some(turn) = entering.as_mut().now_or_never() {
        turn
    } else {
        report(request, &facts, &PublishStep::Queued, None, ctx).await?;
        let Ok(turn) = tokio::time::timeout(QUEUE, entering).await else {
            return Ok(Next::After(Duration::ZERO));
        };
        // The request, its VM or its library may be gone after the wait.
        let live = ctx.api.live(request).await?;
        if live.is_none_or(|live| pause::paused(&live) || live.metadata.deletion_timestamp.is_some()) {
            return Ok(Next::OnChange);
        }
        facts = gather(request, vcenter, ctx).await?;
        turn
    };
    let step = plan::step(request, &facts);
    let PublishStep::Upload(capture) = &step else { return Ok(Next::After(Duration::ZERO)) };
    report(request, &facts, &step, None, ctx).await?;
    tracing::info!(vm = %capture.vm, item = capture.name, "publishing");
    if let Err(error) = vcenter.client.capture_ovf(&turn, capture, UPLOAD).await {
        report(request, &facts, &step, Some(&error), ctx).await?;
        return Err(error.into());
    }
    Ok(Next::After(Duration::ZERO))
}

/// Keeps a completed request, or deletes it after its TTL.
async fn keep_or_expire(request: &VirtualMachinePublishRequest, ctx: &Context) -> Result<Next, Error> {
    let Some(expiry) = plan::expiry(request) else { return Ok(Next::OnChange) };
    match Duration::try_from(expiry.duration_since(jiff::Timestamp::now())) {
        Ok(left) if !left.is_zero() => Ok(Next::After(left)),
        _ => {
            ctx.api.delete(request).await?;
            Ok(Next::OnChange)
        }
    }
}

async fn report(
    request: &VirtualMachinePublishRequest,
    facts: &Facts,
    step: &PublishStep,
    failed: plan::Uploaded<'_>,
    ctx: &Context,
) -> Result<(), Error> {
    let now = jiff::Timestamp::now();
    let old = request.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let mut status = plan::status(request, facts, step, failed, now);
    if failed.is_some() {
        // The attempt began in this reconcile, and this copy of the request doesn't show the attempt yet.
        let begun = plan::status(request, facts, step, None, now);
        (status.attempts, status.last_attempt_time) = (begun.attempts, begun.last_attempt_time);
    }
    status.conditions = kit::status::settle(old, status.conditions, now);
    if ctx.api.patch_status(request, &status).await? {
        let complete: Vec<_> = status
            .conditions
            .iter()
            .filter(|condition| condition.type_ == known::COMPLETE)
            .cloned()
            .collect();
        ctx.events.transitions(request, old, &complete, |condition| {
            condition.severity.as_deref() == Some(api::conditions::ERROR)
        });
    }
    Ok(())
}

async fn gather(
    request: &VirtualMachinePublishRequest,
    vcenter: &VCenter,
    ctx: &Context,
) -> Result<Facts, Error> {
    let namespace = request.namespace().unwrap_or_default();
    if let Some(problem) = vcenter.inventory_problem() {
        return Err(problem.into());
    }
    let source = find_source(request, &namespace, vcenter, ctx);
    let location = &request.spec.target.location;
    let target = match target::check_item_name(&plan::item_name(request)) {
        Ok(()) => target::find_library(&namespace, location, ctx.api.client(), vcenter).await?,
        Err(unfit) => Err(unfit),
    };
    let item = match &target {
        Ok(library) => find_item(request, library, vcenter).await?,
        Err(_) => None,
    };
    let image =
        item.as_ref().and_then(|item| ctx.images.objects(&item.id).first().map(|image| image.name_any()));
    Ok(Facts { source, target, item, image })
}

/// Returns the VM to publish, if it belongs to the request's VirtualMachine.
fn find_source(
    request: &VirtualMachinePublishRequest,
    namespace: &str,
    vcenter: &VCenter,
    ctx: &Context,
) -> Result<MoRef, Unfit> {
    let name = plan::source(request).name.unwrap_or_default();
    let unfit = |reason, message: String| Err(Unfit { reason, message });
    let Some(vm) = ctx.vms.get(Some(namespace), &name) else {
        let message = format!(
            "VirtualMachine {namespace}/{name} does not exist. Create it, or create a new request for another VirtualMachine"
        );
        return unfit(known::SOURCE_VIRTUAL_MACHINE_NOT_EXIST, message);
    };
    let vsphere_vm = moid(&vm).map(MoRef::vm);
    let ours = |vsphere_vm: &MoRef| {
        let owner = vcenter
            .inventory
            .vm(vsphere_vm)
            .present()
            .and_then(|vm| mark::owner(&vm, &vcenter.settings.stack));
        owner.as_ref() == Some(&ObjectRef::from_obj(&*vm))
    };
    match vsphere_vm.filter(ours) {
        Some(vsphere_vm) => Ok(vsphere_vm),
        None => unfit(
            known::SOURCE_VIRTUAL_MACHINE_NOT_CREATED,
            format!(
                "VirtualMachine {namespace}/{name} is not in vCenter yet; see its conditions for the cause"
            ),
        ),
    }
}

/// Returns the library item with the target name, if it exists.
async fn find_item(
    request: &VirtualMachinePublishRequest,
    library: &str,
    vcenter: &VCenter,
) -> Vcenter<Option<PublishedItem>> {
    let ids = vcenter.client.find_library_items(library, &plan::item_name(request)).await?;
    let Some(id) = ids.into_iter().next() else { return Ok(None) };
    match vcenter.client.read_library_item(&id).await {
        Ok(item) => {
            let (ours, complete) = (plan::made_by(request, &item.description), item.cached || item.size > 0);
            Ok(Some(PublishedItem { id, ours, complete }))
        }
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}
