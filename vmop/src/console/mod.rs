//! WebConsoleRequest: a ticket for a VM's console, encrypted with the requester's public key and valid for two minutes.
//!
//! Anyone who has the ticket can use it. So the ticket is encrypted at once, and doesn't appear unencrypted in logs, events or
//! the status. If the process crashes before the status is written, the ticket expires unused.

pub mod key;
mod plan;

use std::sync::Arc;
use std::time::Duration;

use api::vmop::{VirtualMachine, WebConsoleRequest, WebConsoleRequestStatus};
use jiff::Timestamp;
use kit::apply::Api;
use kit::bounded::{ComputationLimits, Exceeded, compute};
use kit::events::Events;
use kit::index::key as key_of;
use kit::reconcile::Seen;
use kit::watch::{self, Cache};
use kit::{Controller, Disposition, Next, Reconcile, ReconcileError, Runtime};
use kube::ResourceExt;

use crate::caches::Caches;
use crate::console::key::NotEncrypted;
use crate::console::plan::{Plan, TicketDenial};
use crate::error;
use crate::error::OwnError;
use crate::vcenter::{Provider, mark};
use crate::watches::{namespaced_name, to};

/// The context for WebConsoleRequest reconciles.
pub struct Context {
    api: Api,
    events: Events,
    provider: Arc<Provider>,
    vms: Cache<VirtualMachine>,
}

/// The reasons why a WebConsoleRequest reconcile fails.
pub type Error = error::Error<Unanswered>;

/// The limits for encrypting one ticket. Even the longest key needs far less.
const LIMITS: ComputationLimits = ComputationLimits { bytes: 256 * 1024, time: Duration::from_secs(10) };

/// The reasons why a request doesn't get a ticket.
#[derive(Debug, thiserror::Error)]
pub enum Unanswered {
    /// The request or the VM must change before a retry.
    #[error("{}", .0.message)]
    Refused(TicketDenial),
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

/// Reconciles WebConsoleRequests until the program ends.
pub fn run(runtime: &Runtime, caches: &Caches, provider: &Arc<Provider>) -> impl Future<Output = ()> + use<> {
    let requests: Cache<WebConsoleRequest> = watch::objects(runtime, kube::Api::all(runtime.client.clone()));
    let by_vm = requests.index(|request| {
        vec![key_of(request.metadata.namespace.as_deref(), &request.spec.virtual_machine_name)]
    });
    let ctx = Context {
        api: Api::new(runtime, "vmop/console"),
        events: Events::new(runtime, "vmop-console"),
        provider: Arc::clone(provider),
        vms: caches.vms.clone(),
    };
    Controller::new("webconsolerequest", runtime, &requests)
        .watches(&caches.vms, to(&by_vm, namespaced_name))
        .drive(ctx)
}

/// The facts about one request.
pub struct Facts {
    /// The VirtualMachine that the request names, if it exists.
    vm: Option<Arc<VirtualMachine>>,
    now: Timestamp,
}

/// The result of a plan that was carried out.
pub enum Done {
    /// The ticket is in this status, encrypted.
    Answered(WebConsoleRequestStatus),
    /// The ticket is valid for this long.
    Kept(Duration),
    /// The request was deleted, because its ticket expired.
    Removed,
}

/// Reconciles a request: writes the encrypted ticket to its status, and deletes the request after the ticket has expired.
impl Reconcile for Context {
    type Kind = WebConsoleRequest;
    type Facts = Facts;
    type Plan = Plan;
    type Done = Done;
    type Error = Error;

    fn api(&self) -> &Api {
        &self.api
    }

    fn refused(_request: &WebConsoleRequest, error: kube::Error) -> Error {
        error.into()
    }

    async fn gather(&self, request: &Arc<WebConsoleRequest>) -> Result<Facts, Error> {
        let vm = self.vms.get(request.namespace().as_deref(), &request.spec.virtual_machine_name);
        Ok(Facts { vm, now: Timestamp::now() })
    }

    fn plan(request: &WebConsoleRequest, facts: &Facts) -> Result<Plan, Error> {
        plan::plan(request, facts.vm.as_deref(), facts.now)
            .map_err(|refusal| Error::Own(Unanswered::Refused(refusal)))
    }

    async fn carry_out(
        &self,
        request: &mut Arc<WebConsoleRequest>,
        plan: Plan,
        facts: &Facts,
    ) -> Result<Done, Error> {
        match plan {
            Plan::Keep(left) => Ok(Done::Kept(left)),
            Plan::Remove => {
                self.api.delete(&**request).await?;
                Ok(Done::Removed)
            }
            Plan::Answer { vsphere_vm, key } => {
                answer(request, facts.vm.as_deref(), &vsphere_vm, &key, self).await.map(Done::Answered)
            }
        }
    }

    fn status(seen: &Seen<'_, Self>) -> Option<WebConsoleRequestStatus> {
        match seen.outcome.done()? {
            Done::Answered(status) => Some(status.clone()),
            Done::Kept(_) | Done::Removed => None,
        }
    }

    fn publish(&self, seen: &Seen<'_, Self>, _new: Option<&WebConsoleRequestStatus>) {
        match seen.outcome.error() {
            Some(Error::Vcenter(error)) => {
                self.events.warning(seen.object, "TicketFailed", format!("{error}. {}", error.advice()));
            }
            Some(Error::Own(Unanswered::Refused(TicketDenial { reason, message }))) => {
                self.events.warning(seen.object, reason, message.clone());
            }
            _ => {}
        }
    }

    fn conclude(done: Done) -> Result<Next, Error> {
        Ok(match done {
            Done::Answered(_) => Next::After(plan::VALIDITY),
            Done::Kept(left) => Next::After(left),
            Done::Removed => Next::OnChange,
        })
    }
}

/// Gets a ticket, and returns the status with the encrypted ticket. Sets `request` to the version that was written.
async fn answer(
    request: &mut Arc<WebConsoleRequest>,
    vm: Option<&VirtualMachine>,
    vsphere_vm: &vsphere::MoRef,
    key: &key::PublicKey,
    ctx: &Context,
) -> Result<WebConsoleRequestStatus, Error> {
    let vcenter = ctx.provider.vcenter()?;
    // Other clients can write the VirtualMachine's status, so check that the vSphere VM belongs to the VirtualMachine.
    let owner =
        vcenter.inventory.vm(vsphere_vm).present().and_then(|vm| mark::owner(&vm, &vcenter.settings.stack));
    if owner.as_ref() != vm.map(kube::runtime::reflector::ObjectRef::from_obj).as_ref() {
        let name = &request.spec.virtual_machine_name;
        let message = format!("VM {vsphere_vm} does not belong to VirtualMachine {name}");
        return Err(Error::Own(Unanswered::Refused(TicketDenial {
            reason: "VirtualMachineNotCreated",
            message,
        })));
    }
    if let Some(patch) = vm.and_then(|vm| plan::adopted(request, vm)) {
        *request = Arc::new(ctx.api.patch(&**request, patch).await?);
    }
    let url = vcenter.client.acquire_console_url(vsphere_vm).await?;
    let (key, namespace) = (key.clone(), request.namespace().unwrap_or_default());
    let encrypted = compute(&namespace, LIMITS, move |budget| key.encrypt(url.expose(), budget)).await;
    let response = encrypted.map_err(|error| match error {
        NotEncrypted::BadKey(error) => {
            let message = format!("spec.publicKey can't be used: {error}");
            Error::Own(Unanswered::Refused(TicketDenial { reason: "InvalidPublicKey", message }))
        }
        NotEncrypted::Exceeded(exceeded) => Error::Own(Unanswered::Exceeded(exceeded)),
    })?;
    Ok(plan::answered(response, vcenter.settings.console_proxy.as_deref(), Timestamp::now()))
}
