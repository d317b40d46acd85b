//! VirtualMachineService: a load-balanced address for VMs.
//!
//! The controller creates a Service without a selector, which the cluster's load balancer serves, and EndpointSlices
//! with the addresses of the ready VMs.

pub mod plan;

use std::sync::Arc;
use std::time::Duration;

use api::vmop::{VirtualMachine, VirtualMachineService, VirtualMachineServiceStatus};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kit::apply::Api;
use kit::events::{Events, describe_object};
use kit::index::Index;
use kit::reconcile::{ReconcileOutcome, Seen};
use kit::watch::{self, Cache, Change};
use kit::{Controller, Disposition, Reconcile, ReconcileError, Runtime};
use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher;

use crate::caches::{Caches, label_keys, selector_key};
use crate::error;
use crate::error::OwnError;
use crate::pause;

/// The context for VirtualMachineService reconciles.
pub struct Context {
    /// The API client with this controller's field manager.
    pub api: Api,
    /// The recorder for this controller's events.
    pub events: Events,
    /// All Services.
    pub services: Cache<Service>,
    /// The EndpointSlices from this controller.
    pub slices: Cache<EndpointSlice>,
    pub vms_by_label: Index<VirtualMachine>,
}

/// The reasons why a VirtualMachineService reconcile fails.
pub type Error = error::Error<Invalid>;

/// The service can't be created as specified. The user must act.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Invalid(String);

impl ReconcileError for Invalid {
    fn disposition(&self) -> Disposition {
        Disposition::Invalid
    }

    fn label(&self) -> &'static str {
        "Invalid"
    }
}

impl OwnError for Invalid {
    const PROVIDER_RETRY: Option<Duration> = None;
}

/// Reconciles VirtualMachineServices until the program ends.
pub fn run(runtime: &Runtime, caches: &Caches) -> impl Future<Output = ()> + use<> {
    let client = || runtime.client.clone();
    let (label, value) = plan::MANAGED_BY;
    let ours = watcher::Config::default().labels(&format!("{label}={value}"));
    let live: Cache<Service> = watch::objects(runtime, kube::Api::all(client()));
    let slices = watch::selected(runtime, kube::Api::all(client()), ours);
    let by_selector = caches.services_by_label.clone();
    let ctx = Context {
        api: Api::new(runtime, "vmop/service"),
        events: Events::new(runtime, "vmop-service"),
        services: live.clone(),
        slices: slices.clone(),
        vms_by_label: caches.vms_by_label.clone(),
    };
    Controller::new("virtualmachineservice", runtime, &caches.services)
        // Mapped by name and not by owner, so that the deletion of a conflicting Service triggers a reconcile.
        .watches(&live, |live| vec![reference_of(live)])
        .owns(&slices)
        .watches_changes(&caches.vms, move |change| affected(change, &by_selector))
        .drive(ctx)
}

fn reference_of(live: &Service) -> ObjectRef<VirtualMachineService> {
    ObjectRef::new(&live.name_any()).within(&live.namespace().unwrap_or_default())
}

/// Returns the services that select the old or new VirtualMachine, if its labels or the addresses that get traffic changed.
fn affected(
    change: &Change<VirtualMachine>,
    by_selector: &Index<VirtualMachineService>,
) -> Vec<ObjectRef<VirtualMachineService>> {
    let relevant = |vm: &Arc<VirtualMachine>| {
        (vm.metadata.labels.clone(), plan::backends(vm), plan::unassigned_address(vm).map(str::to_owned))
    };
    if change.old.as_ref().map(relevant) == change.new.as_ref().map(relevant) {
        return Vec::new();
    }
    let keys = change.sides().flat_map(|vm| label_keys(&**vm));
    keys.flat_map(|key| by_selector.refs(&key)).collect()
}

/// The facts about one service.
pub struct Facts {
    /// The Service with the same name, if it exists.
    live: Option<Arc<Service>>,
    /// The EndpointSlice for each IP family, if it exists.
    slices: [(plan::Ip, Option<Arc<EndpointSlice>>); 2],
    /// The selected VirtualMachines, sorted by name.
    vms: Vec<Arc<VirtualMachine>>,
}

/// The objects to apply.
pub struct Plan {
    service: Service,
    slices: Vec<(EndpointSlice, Option<Arc<EndpointSlice>>)>,
}

/// Reconciles a VirtualMachineService: its Service and EndpointSlices.
impl Reconcile for Context {
    type Kind = VirtualMachineService;
    type Facts = Facts;
    type Plan = Plan;
    type Done = Arc<Service>;
    type Error = Error;

    fn api(&self) -> &Api {
        &self.api
    }

    fn refused(_service: &VirtualMachineService, error: kube::Error) -> Error {
        error.into()
    }

    async fn gather(&self, service: &Arc<VirtualMachineService>) -> Result<Facts, Error> {
        let (namespace, name) = (service.namespace(), service.name_any());
        let slice = |family| {
            let slice = self.slices.current(namespace.as_deref(), &plan::slice_name(service, family))?;
            Ok::<_, Error>((family, slice))
        };
        Ok(Facts {
            live: self.services.current(namespace.as_deref(), &name)?,
            slices: [slice(plan::Ip::V4)?, slice(plan::Ip::V6)?],
            vms: selected_vms(service, self),
        })
    }

    fn is_paused(service: &VirtualMachineService, _facts: &Facts) -> bool {
        pause::paused(service)
    }

    fn plan(service: &VirtualMachineService, facts: &Facts) -> Result<Plan, Error> {
        if let Some(live) = &facts.live
            && kit::controller::controller_of::<VirtualMachineService, _>(&**live)
                .is_none_or(|owner| owner.name != service.name_any())
        {
            let message = format!(
                "{} exists and does not belong to this object. Delete it, or rename this object",
                describe_object(&**live)
            );
            return Err(Error::Own(Invalid(message)));
        }
        let slices = facts.slices.iter().filter(|_| !service.spec.selector.is_empty());
        let slices = slices.map(|(family, live)| (*family, plan::slice(service, &facts.vms, *family), live));
        // The IPv6 slice is created only when a VM has an IPv6 address.
        let slices = slices.filter(|(family, slice, live)| {
            *family == plan::Ip::V4
                || live.is_some()
                || slice.endpoints.as_ref().is_some_and(|all| !all.is_empty())
        });
        Ok(Plan {
            service: plan::service(service),
            slices: slices.map(|(_, slice, live)| (slice, live.clone())).collect(),
        })
    }

    async fn carry_out(
        &self,
        _service: &mut Arc<VirtualMachineService>,
        plan: Plan,
        facts: &Facts,
    ) -> Result<Arc<Service>, Error> {
        let applied = self.api.apply(&plan.service, facts.live.as_ref()).await?;
        for (slice, live) in &plan.slices {
            self.api.apply(slice, live.as_ref()).await?;
        }
        Ok(Arc::clone(applied.object()))
    }

    fn status(seen: &Seen<'_, Self>) -> Option<VirtualMachineServiceStatus> {
        let vms = &seen.facts?.vms;
        match seen.outcome {
            ReconcileOutcome::Done(live) => Some(plan::status(Ok(live), vms)),
            ReconcileOutcome::Failed(Error::Own(Invalid(why))) => Some(plan::status(Err(why), vms)),
            ReconcileOutcome::Paused | ReconcileOutcome::Failed(_) => None,
        }
    }

    fn publish(&self, seen: &Seen<'_, Self>, new: Option<&VirtualMachineServiceStatus>) {
        let Some(new) = new else { return };
        self.events.transitions(seen.object, seen.old_conditions(), &new.conditions, |condition| {
            condition.severity.as_deref() == Some(api::conditions::ERROR)
        });
    }
}

/// Returns the selected VirtualMachines, sorted by name.
fn selected_vms(service: &VirtualMachineService, ctx: &Context) -> Vec<Arc<VirtualMachine>> {
    let Some(key) = selector_key(service) else { return Vec::new() };
    let mut vms = ctx.vms_by_label.objects(&key);
    vms.retain(|vm| plan::selects(service, vm));
    vms.sort_by_key(|vm| vm.name_any());
    vms
}
