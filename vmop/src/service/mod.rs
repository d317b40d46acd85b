//! VirtualMachineService: an address in front of machines.
//!
//! It becomes a Service without a selector, which the load balancer of the cluster serves, and an
//! EndpointSlice of the addresses of the machines that are ready.

pub mod plan;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use api::vmop::{VirtualMachine, VirtualMachineService};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kit::apply::Api;
use kit::events::{Events, named};
use kit::index::Index;
use kit::retry::SOON;
use kit::watch::Cache;
use kit::writes::Behind;
use kit::{Family, Next, Outcome};
use kube::ResourceExt;

use crate::caches::label_key;
use crate::pause;

/// What reconciles of services work with.
pub struct Context {
    /// Writes as this controller.
    pub api: Api,
    /// Events of this controller.
    pub events: Events,
    /// The Services there are.
    pub services: Cache<Service>,
    /// The EndpointSlices that we made.
    pub slices: Cache<EndpointSlice>,
    /// Machines by label.
    pub by_label: Index<VirtualMachine>,
}

/// Why a pass did not come through.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The spec can't be carried out; the user must act.
    #[error("{0}")]
    Invalid(String),
    /// The cache is older than our own last write.
    #[error(transparent)]
    Behind(#[from] Behind),
    /// The API server did not do it.
    #[error("API server: {0}")]
    Api(#[from] kube::Error),
}

impl Family for Error {
    fn outcome(&self) -> Outcome {
        match self {
            Self::Invalid(_) => Outcome::Invalid,
            Self::Behind(_) => Outcome::Waiting(Some(SOON)),
            Self::Api(error) => Outcome::of(error),
        }
    }

    fn label(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "Invalid",
            Self::Behind(_) => "Behind",
            Self::Api(_) => "Api",
        }
    }
}

/// Brings one service's Service and EndpointSlice to what its spec and its machines say.
pub async fn reconcile(service: Arc<VirtualMachineService>, ctx: Arc<Context>) -> Result<Next, Error> {
    if pause::paused(&*service) || service.metadata.deletion_timestamp.is_some() {
        return Ok(Next::OnChange);
    }
    let result = applied(&service, &ctx).await;
    let told = match &result {
        Ok(live) => Some(Ok(&**live)),
        Err(Error::Invalid(why)) => Some(Err(why.as_str())),
        Err(_) => None,
    };
    if let Some(told) = told {
        let mut status = plan::status(told);
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

async fn applied(service: &VirtualMachineService, ctx: &Context) -> Result<Arc<Service>, Error> {
    let (namespace, name) = (service.namespace(), service.name_any());
    let live = ctx.services.current(namespace.as_deref(), &name)?;
    if let Some(live) = &live
        && kit::controller::controller_of::<VirtualMachineService, _>(&**live)
            .is_none_or(|owner| owner.name != name)
    {
        let message =
            format!("{} exists and is not ours. Delete it, or name this object differently", named(&**live));
        return Err(Error::Invalid(message));
    }
    let applied = ctx.api.apply(&plan::service(service), live.as_ref()).await?;
    if !service.spec.selector.is_empty() {
        let machines = machines(service, ctx);
        for family in [plan::Ip::V4, plan::Ip::V6] {
            let live = ctx.slices.current(namespace.as_deref(), &plan::slice_name(service, family))?;
            let slice = plan::slice(service, &machines, family);
            // Where no machine ever had an address of the second family, there is no slice of it.
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

/// The machines that the selector picks, in order of their names.
fn machines(service: &VirtualMachineService, ctx: &Context) -> Vec<Arc<VirtualMachine>> {
    let Some(key) = selecting(service) else { return Vec::new() };
    let picked = |vm: &Arc<VirtualMachine>| {
        service.spec.selector.iter().all(|(name, value)| vm.labels().get(name) == Some(value))
    };
    let mut machines: Vec<_> = ctx.by_label.objects(&key).into_iter().filter(picked).collect();
    machines.sort_by_key(|vm| vm.name_any());
    machines
}

/// The label by which a service is found from a machine: one of its selector, any will do.
pub fn selecting(service: &VirtualMachineService) -> Option<String> {
    let (name, value) = service.spec.selector.iter().next()?;
    Some(label_key(&service.namespace().unwrap_or_default(), name, value))
}

/// What of a machine matters to services; while it stays, no service is woken.
pub fn seen(vm: &VirtualMachine) -> Seen<'_> {
    (vm.metadata.labels.as_ref(), plan::backends(vm))
}

/// Labels and addresses.
pub type Seen<'a> = (Option<&'a BTreeMap<String, String>>, (Option<Ipv4Addr>, Option<Ipv6Addr>));
