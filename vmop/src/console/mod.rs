//! WebConsoleRequest: a ticket to a VM's console, for the holder of a key, for two minutes.
//!
//! The ticket lets in whoever has it. It is encrypted the moment it is here, and is in no log, event
//! or status otherwise. A crash before the answer is written costs a ticket that nobody uses.

mod key;
mod plan;

use std::sync::Arc;
use std::time::Duration;

use api::vmop::{VirtualMachine, WebConsoleRequest};
use kit::apply::Api;
use kit::events::Events;
use kit::index::key as key_of;
use kit::watch::{self, Cache};
use kit::{Controller, Disposition, Next, ReconcileError, Runtime};
use kube::ResourceExt;

use crate::caches::Caches;
use crate::console::plan::Plan;
use crate::error;
use crate::error::OwnError;
use crate::vcenter::{Provider, mark};
use crate::watches::{namespaced_name, to};

/// What reconciles of requests work with.
pub struct Context {
    api: Api,
    events: Events,
    provider: Arc<Provider>,
    vms: Cache<VirtualMachine>,
}

/// Why a reconcile of a request did not come through.
pub type Error = error::Error<Refused>;

/// The request, or the VM, must change first.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Refused(String);

impl ReconcileError for Refused {
    fn disposition(&self) -> Disposition {
        Disposition::Invalid
    }

    fn label(&self) -> &'static str {
        "Refused"
    }
}

impl OwnError for Refused {
    const PROVIDER_RETRY: Option<Duration> = Some(Duration::from_secs(1));
}

/// Answers requests until the program ends.
pub fn run(started: &Runtime, caches: &Caches, provider: &Arc<Provider>) -> impl Future<Output = ()> + use<> {
    let requests: Cache<WebConsoleRequest> = watch::objects(started, kube::Api::all(started.client.clone()));
    let by_vm = requests.index(|request| {
        vec![key_of(request.metadata.namespace.as_deref(), &request.spec.virtual_machine_name)]
    });
    let ctx = Arc::new(Context {
        api: Api::new(started, "vmop/console"),
        events: Events::new(started, "vmop-console"),
        provider: Arc::clone(provider),
        vms: caches.vms.clone(),
    });
    Controller::new("webconsolerequest", started, &requests)
        .watches(&caches.vms, to(&by_vm, namespaced_name))
        .run(ctx, reconcile)
}

/// Answers one request, or lets it go once its answer has expired.
async fn reconcile(request: Arc<WebConsoleRequest>, ctx: Arc<Context>) -> Result<Next, Error> {
    if request.metadata.deletion_timestamp.is_some() {
        return Ok(Next::OnChange);
    }
    let vm = ctx.vms.get(request.namespace().as_deref(), &request.spec.virtual_machine_name);
    match plan::plan(&request, vm.as_deref(), jiff::Timestamp::now()) {
        Ok(Plan::Keep(left)) => Ok(Next::After(left)),
        Ok(Plan::Remove) => {
            ctx.api.delete(&*request).await?;
            Ok(Next::OnChange)
        }
        Ok(Plan::Answer { vsphere_vm, key }) => {
            let answered = answer(&request, vm.as_deref(), &vsphere_vm, &key, &ctx).await;
            if let Err(Error::Vcenter(error)) = &answered {
                ctx.events.warning(&*request, "TicketFailed", format!("{error}. {}", error.advice()));
            }
            answered
        }
        Err(refusal) => {
            ctx.events.warning(&*request, refusal.reason, refusal.message.clone());
            Err(Error::Own(Refused(refusal.message)))
        }
    }
}

async fn answer(
    request: &WebConsoleRequest,
    vm: Option<&VirtualMachine>,
    vsphere_vm: &vsphere::MoRef,
    key: &key::PublicKey,
    ctx: &Context,
) -> Result<Next, Error> {
    let vcenter = ctx.provider.vcenter()?;
    // A status can be written by others: the console of a VM that is not this object's stays shut.
    let owner =
        vcenter.inventory.vm(vsphere_vm).present().and_then(|vm| mark::owner(&vm, &vcenter.settings.stack));
    if owner.as_ref() != vm.map(kube::runtime::reflector::ObjectRef::from_obj).as_ref() {
        let name = &request.spec.virtual_machine_name;
        return Err(Error::Own(Refused(format!("The VM {vsphere_vm} is not VirtualMachine {name}'s"))));
    }
    if let Some(patch) = vm.and_then(|vm| plan::adopted(request, vm)) {
        ctx.api.patch(request, patch).await?;
    }
    let url = vcenter.client.console_url(vsphere_vm).await?;
    let response = key.encrypt(url.expose()).map_err(|error| {
        let message = format!("spec.publicKey can't be used: {error}");
        ctx.events.warning(request, "InvalidPublicKey", message.clone());
        Error::Own(Refused(message))
    })?;
    let status = plan::answered(response, vcenter.settings.console_proxy.as_deref(), jiff::Timestamp::now());
    ctx.api.patch_status(request, &status).await?;
    Ok(Next::After(Duration::from_mins(2)))
}
