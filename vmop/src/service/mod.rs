//! VirtualMachineService: a load-balanced address for VMs.
//!
//! The controller creates a Service without a selector, which the cluster's load balancer serves, and EndpointSlices
//! with the addresses of the ready VMs.

pub mod plan;

use std::sync::Arc;
use std::time::Duration;

use api::vmop::{VirtualMachine, VirtualMachineService};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kit::apply::Api;
use kit::events::{Events, named};
use kit::index::Index;
use kit::watch::{self, Cache, Change};
use kit::{Controller, Disposition, Next, ReconcileError, Runtime};
use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher;

use crate::caches::{Caches, label_keys, selector_key};
use crate::error;
use crate::error::OwnError;
use crate::pause;

/// The context for service reconciles.
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

/// The reasons why a service reconcile fails.
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

/// Reconciles services until the program ends.
pub fn run(runtime: &Runtime, caches: &Caches) -> impl Future<Output = ()> + use<> {
    let client = || runtime.client.clone();
    let (label, value) = plan::MANAGED_BY;
    let ours = watcher::Config::default().labels(&format!("{label}={value}"));
    let live: Cache<Service> = watch::objects(runtime, kube::Api::all(client()));
    let slices = watch::selected(runtime, kube::Api::all(client()), ours);
    let by_selector = caches.services_by_label.clone();
    let ctx = Arc::new(Context {
        api: Api::new(runtime, "vmop/service"),
        events: Events::new(runtime, "vmop-service"),
        services: live.clone(),
        slices: slices.clone(),
        vms_by_label: caches.vms_by_label.clone(),
    });
    Controller::new("virtualmachineservice", runtime, &caches.services)
        // Mapped by name and not by owner, so that the deletion of a conflicting Service triggers a reconcile.
        .watches(&live, |live| vec![reference_of(live)])
        .owns(&slices)
        .watches_changes(&caches.vms, move |change| affected(change, &by_selector))
        .run(ctx, reconcile)
}

fn reference_of(live: &Service) -> ObjectRef<VirtualMachineService> {
    ObjectRef::new(&live.name_any()).within(&live.namespace().unwrap_or_default())
}

/// Returns the services that select the old or new VirtualMachine, if a relevant part changed.
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

/// Reconciles one service: its Service and EndpointSlices.
pub async fn reconcile(service: Arc<VirtualMachineService>, ctx: Arc<Context>) -> Result<Next, Error> {
    if pause::paused(&*service) || service.metadata.deletion_timestamp.is_some() {
        return Ok(Next::OnChange);
    }
    let result = apply(&service, &ctx).await;
    let outcome = match &result {
        Ok(live) => Some(Ok(&**live)),
        Err(Error::Own(Invalid(why))) => Some(Err(why.as_str())),
        Err(_) => None,
    };
    if let Some(outcome) = outcome {
        let mut status = plan::status(outcome, &selected_vms(&service, &ctx));
        let old = service.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        status.conditions = kit::status::settle(old, status.conditions, jiff::Timestamp::now());
        if ctx.api.patch_status(&*service, &status).await? {
            ctx.events.transitions(&*service, old, &status.conditions, |condition| {
                condition.severity.as_deref() == Some(api::conditions::ERROR)
            });
        }
    }
    result.map(|_| Next::OnChange)
}

async fn apply(service: &VirtualMachineService, ctx: &Context) -> Result<Arc<Service>, Error> {
    let (namespace, name) = (service.namespace(), service.name_any());
    let live = ctx.services.current(namespace.as_deref(), &name)?;
    if let Some(live) = &live
        && kit::controller::controller_of::<VirtualMachineService, _>(&**live)
            .is_none_or(|owner| owner.name != name)
    {
        let message = format!(
            "{} exists and does not belong to this object. Delete it, or rename this object",
            named(&**live)
        );
        return Err(Error::Own(Invalid(message)));
    }
    let applied = ctx.api.apply(&plan::service(service), live.as_ref()).await?;
    if !service.spec.selector.is_empty() {
        let vms = selected_vms(service, ctx);
        for family in [plan::Ip::V4, plan::Ip::V6] {
            let live = ctx.slices.current(namespace.as_deref(), &plan::slice_name(service, family))?;
            let slice = plan::slice(service, &vms, family);
            // The IPv6 slice is created only when a VM has an IPv6 address.
            if family == plan::Ip::V4
                || live.is_some()
                || slice.endpoints.as_ref().is_some_and(|all| !all.is_empty())
            {
                ctx.api.apply(&slice, live.as_ref()).await?;
            }
        }
    }
    Ok(Arc::clone(applied.object()))
}

/// Returns the selected VirtualMachines, sorted by name.
fn selected_vms(service: &VirtualMachineService, ctx: &Context) -> Vec<Arc<VirtualMachine>> {
    let Some(key) = selector_key(service) else { return Vec::new() };
    let mut vms = ctx.vms_by_label.objects(&key);
    vms.retain(|vm| plan::selects(service, vm));
    vms.sort_by_key(|vm| vm.name_any());
    vms
}
