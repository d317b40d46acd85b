//! WebConsoleRequest: a ticket for a VM's console, encrypted with the requester's public key and valid for two minutes.
//!
//! Anyone who has the ticket can use it. So the ticket is encrypted at once, and doesn't appear unencrypted in logs, events or
//! the status. If the process crashes before the status is written, the ticket expires unused.

pub mod key;
mod plan;

use std::sync::Arc;
use std::time::Duration;

use api::vmop::{VirtualMachine, WebConsoleRequest};
use kit::apply::Api;
use kit::bounded::{Exceeded, Limits, compute};
use kit::events::Events;
use kit::index::key as key_of;
use kit::watch::{self, Cache};
use kit::{Controller, Disposition, Next, ReconcileError, Runtime};
use kube::ResourceExt;

use crate::caches::Caches;
use crate::console::key::NotEncrypted;
use crate::console::plan::Plan;
use crate::error;
use crate::error::OwnError;
use crate::vcenter::{Provider, mark};
use crate::watches::{namespaced_name, to};

/// The context for request reconciles.
pub struct Context {
    api: Api,
    events: Events,
    provider: Arc<Provider>,
    vms: Cache<VirtualMachine>,
}

/// The reasons why a request reconcile fails.
pub type Error = error::Error<Unanswered>;

/// The limits for encrypting one ticket. The longest key needs far less.
const LIMITS: Limits = Limits { bytes: 256 * 1024, time: Duration::from_secs(10) };

/// The reasons why a request doesn't get a ticket.
#[derive(Debug, thiserror::Error)]
pub enum Unanswered {
    /// The request or the VM must change before a retry.
    #[error("{0}")]
    Refused(String),
    /// Encryption exceeded its limits. If it took too long, a retry may succeed.
    #[error("the ticket could not be encrypted: {0}")]
    Exceeded(Exceeded),
}

impl ReconcileError for Unanswered {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Refused(_) | Self::Exceeded(Exceeded::Bytes { .. }) => Disposition::Invalid,
            Self::Exceeded(Exceeded::Time) => Disposition::Failed,
        }
    }

    fn label(&self) -> &'static str {
        match self {
            Self::Refused(_) => "Refused",
            Self::Exceeded(_) => "Exceeded",
        }
    }
}

impl OwnError for Unanswered {
    const PROVIDER_RETRY: Option<Duration> = Some(Duration::from_secs(1));
}

/// Reconciles requests until the program ends.
pub fn run(runtime: &Runtime, caches: &Caches, provider: &Arc<Provider>) -> impl Future<Output = ()> + use<> {
    let requests: Cache<WebConsoleRequest> = watch::objects(runtime, kube::Api::all(runtime.client.clone()));
    let by_vm = requests.index(|request| {
        vec![key_of(request.metadata.namespace.as_deref(), &request.spec.virtual_machine_name)]
    });
    let ctx = Arc::new(Context {
        api: Api::new(runtime, "vmop/console"),
        events: Events::new(runtime, "vmop-console"),
        provider: Arc::clone(provider),
        vms: caches.vms.clone(),
    });
    Controller::new("webconsolerequest", runtime, &requests)
        .watches(&caches.vms, to(&by_vm, namespaced_name))
        .run(ctx, reconcile)
}

/// Reconciles one request: writes the encrypted ticket to its status, or deletes the request after the ticket expired.
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
            Err(Error::Own(Unanswered::Refused(refusal.message)))
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
    // Other clients can write the VirtualMachine's status, so check that the VM belongs to that object.
    let owner =
        vcenter.inventory.vm(vsphere_vm).present().and_then(|vm| mark::owner(&vm, &vcenter.settings.stack));
    if owner.as_ref() != vm.map(kube::runtime::reflector::ObjectRef::from_obj).as_ref() {
        let name = &request.spec.virtual_machine_name;
        return Err(Error::Own(Unanswered::Refused(format!(
            "VM {vsphere_vm} does not belong to VirtualMachine {name}"
        ))));
    }
    if let Some(patch) = vm.and_then(|vm| plan::adopted(request, vm)) {
        ctx.api.patch(request, patch).await?;
    }
    let url = vcenter.client.console_url(vsphere_vm).await?;
    let (key, namespace) = (key.clone(), request.namespace().unwrap_or_default());
    let encrypted = compute(&namespace, LIMITS, move |budget| key.encrypt(url.expose(), budget)).await;
    let response = encrypted.map_err(|error| match error {
        NotEncrypted::BadKey(error) => {
            let message = format!("spec.publicKey can't be used: {error}");
            ctx.events.warning(request, "InvalidPublicKey", message.clone());
            Error::Own(Unanswered::Refused(message))
        }
        NotEncrypted::Exceeded(exceeded) => Error::Own(Unanswered::Exceeded(exceeded)),
    })?;
    let status = plan::answered(response, vcenter.settings.console_proxy.as_deref(), jiff::Timestamp::now());
    ctx.api.patch_status(request, &status).await?;
    Ok(Next::After(Duration::from_mins(2)))
}
