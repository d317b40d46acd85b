//! WebConsoleRequest: a ticket to a machine's console, for the holder of a key, for two minutes.
//!
//! The ticket lets in whoever has it. It is encrypted the moment it is here, and is in no log, event
//! or status but so. A crash before the answer is written costs a ticket that nobody uses.

mod key;
mod plan;

use std::sync::Arc;

use api::vmop::{VirtualMachine, WebConsoleRequest};
use kit::apply::Api;
use kit::events::Events;
use kit::index::key as key_of;
use kit::watch::{self, Cache};
use kit::{Controller, Family, Next, Outcome, Started};
use kube::ResourceExt;

use crate::caches::Caches;
use crate::vcenter::{Problem, Provider, mark};
use plan::Plan;

/// What reconciles of requests work with.
pub struct Context {
    api: Api,
    events: Events,
    provider: Arc<Provider>,
    machines: Cache<VirtualMachine>,
}

/// Why a pass did not come through.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The request, or the machine, must change first.
    #[error("{0}")]
    Refused(String),
    /// vCenter can't be used now.
    #[error("{0}")]
    Provider(Problem),
    /// vCenter gave no ticket.
    #[error("{0}")]
    Vcenter(#[from] vsphere::Error),
    /// The API server did not do it.
    #[error("API server: {0}")]
    Api(#[from] kube::Error),
}

impl Family for Error {
    fn outcome(&self) -> Outcome {
        match self {
            Self::Refused(_) => Outcome::Invalid,
            Self::Provider(_) => Outcome::Waiting(Some(kit::retry::SOON * 10)),
            Self::Vcenter(_) => Outcome::Failed,
            Self::Api(error) => Outcome::of(error),
        }
    }

    fn label(&self) -> &'static str {
        match self {
            Self::Refused(_) => "Refused",
            Self::Provider(_) => "Provider",
            Self::Vcenter(_) => "Vcenter",
            Self::Api(_) => "Api",
        }
    }
}

/// Answers requests until the program ends.
pub fn run(started: &Started, caches: &Caches, provider: &Arc<Provider>) -> impl Future<Output = ()> + use<> {
    let requests: Cache<WebConsoleRequest> = watch::pruned(started, kube::Api::all(started.client.clone()));
    let by_machine = requests.index(|request| {
        vec![key_of(request.metadata.namespace.as_deref(), &request.spec.virtual_machine_name)]
    });
    let ctx = Arc::new(Context {
        api: Api::new(started, "vmop/console"),
        events: Events::new(started, "vmop-console"),
        provider: Arc::clone(provider),
        machines: caches.vms.clone(),
    });
    Controller::new("webconsolerequest", started, &requests)
        .watches(&caches.vms, move |vm| {
            by_machine.refs(&key_of(vm.metadata.namespace.as_deref(), &vm.name_any()))
        })
        .run(ctx, reconcile)
}

/// Answers one request, or lets it go once its answer has expired.
async fn reconcile(request: Arc<WebConsoleRequest>, ctx: Arc<Context>) -> Result<Next, Error> {
    if request.metadata.deletion_timestamp.is_some() {
        return Ok(Next::OnChange);
    }
    let vm = ctx.machines.get(request.namespace().as_deref(), &request.spec.virtual_machine_name);
    match plan::plan(&request, vm.as_deref(), jiff::Timestamp::now()) {
        Ok(Plan::Keep(left)) => Ok(Next::After(left)),
        Ok(Plan::Remove) => {
            ctx.api.delete(&*request).await?;
            Ok(Next::OnChange)
        }
        Ok(Plan::Answer { machine, key }) => {
            let answered = answer(&request, vm.as_deref(), &machine, &key, &ctx).await;
            if let Err(Error::Vcenter(error)) = &answered {
                ctx.events.warning(&*request, "TicketFailed", format!("{error}. {}", error.advice()));
            }
            answered
        }
        Err(refusal) => {
            ctx.events.warning(&*request, refusal.reason, refusal.message.clone());
            Err(Error::Refused(refusal.message))
        }
    }
}

async fn answer(
    request: &WebConsoleRequest,
    vm: Option<&VirtualMachine>,
    machine: &vsphere::MoRef,
    key: &key::PublicKey,
    ctx: &Context,
) -> Result<Next, Error> {
    let vcenter = ctx.provider.vcenter().map_err(Error::Provider)?;
    // A status can be written by others: the console of a machine that is not this object's stays shut.
    let owner =
        vcenter.inventory.vm(machine).present().and_then(|vm| mark::owner(&vm, &vcenter.settings.stack));
    if owner.as_ref() != vm.map(kube::runtime::reflector::ObjectRef::from_obj).as_ref() {
        let name = &request.spec.virtual_machine_name;
        return Err(Error::Refused(format!("The machine {machine} is not VirtualMachine {name}'s")));
    }
    if let Some(patch) = vm.and_then(|vm| plan::adopted(request, vm)) {
        ctx.api.patch(request, patch).await?;
    }
    let url = vcenter.client.console_url(machine).await?;
    let response = key.encrypt(url.expose()).map_err(|error| {
        let message = format!("spec.publicKey can't be used: {error}");
        ctx.events.warning(request, "InvalidPublicKey", message.clone());
        Error::Refused(message)
    })?;
    let status = plan::answered(response, vcenter.settings.console_proxy.as_deref(), jiff::Timestamp::now());
    ctx.api.patch_status(request, &status).await?;
    Ok(Next::After(std::time::Duration::from_mins(2)))
}
