//! Where a machine lies: in its policy's folder and pool, or its namespace's.

use api::conditions::vmop as reason;
use api::vmop::VirtualMachine;
use kit::index::key;
use kube::ResourceExt;

use crate::caches::Caches;
use crate::machine::Context;
use crate::machine::needs::{self, Need, Unmet};
use crate::provider::{Place, Site};

/// Folder and pool of the namespace.
pub fn home(namespace: &str, site: &Site, caches: &Caches) -> Need<Place> {
    let object = caches.namespaces.get(None, namespace);
    let annotated = |key: &str| object.as_ref().and_then(|object| object.annotations().get(key).cloned());
    needs::home(namespace, annotated, &site.settings)
}

/// Where the machine itself lies: in its policy's folder and pool, or its namespace's.
pub(super) fn place(vm: &VirtualMachine, home: &Place, site: &Site, ctx: &Context) -> Need<Place> {
    let Some(name) = vm.spec.resource_policy_name.as_deref().filter(|name| !name.is_empty()) else {
        return Ok(home.clone());
    };
    let namespace = vm.namespace().unwrap_or_default();
    let named = format!("VirtualMachineSetResourcePolicy {namespace}/{name}");
    let Some(policy) = ctx.caches.policies.get(Some(&namespace), name) else {
        let message = format!("{named} does not exist. Create it, or name another");
        return Err(Unmet::wrong(reason::RESOURCE_POLICY_NOT_FOUND, message));
    };
    if let Some(place) = site.policy(&key(Some(&namespace), name)) {
        return Ok(place);
    }
    let conditions = policy.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let ready = api::conditions::find(conditions, api::conditions::READY);
    Err(
        match ready
            .filter(|ready| ready.status == api::conditions::FALSE)
            .and_then(|ready| ready.message.as_ref())
        {
            Some(why) => Unmet::wrong(reason::RESOURCE_POLICY_NOT_READY, format!("{named}: {why}")),
            None => Unmet::underway(
                reason::RESOURCE_POLICY_NOT_READY,
                format!("{named} is being realised in vCenter"),
            ),
        },
    )
}
