//! Sends a VM's requests to other components: network and storage objects, a template, watches.

use api::vmop::VirtualMachine;
use kit::index::key;
use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;

use crate::vcenter::VCenter;
use crate::virtualmachine::bootstrap::observe::DataSourceWatch;
use crate::virtualmachine::context::Context;
use crate::virtualmachine::error::Error;
use crate::virtualmachine::nic::request::create_requests;
use crate::virtualmachine::requests::{ProbeRequest, Requests};
use crate::virtualmachine::storage::claims::apply_attachments;

/// Sets the probe target and the data source watch, requests image syncs, templates and module replacements, and writes the
/// volume and NIC objects.
pub async fn make_requests(vm: &VirtualMachine, requests: Requests<'_>, ctx: &Context) -> Result<(), Error> {
    // Without `..`, so that a new request that isn't sent doesn't compile.
    let Requests {
        probe: probe_target,
        data_source,
        missing_image,
        template,
        vanished_module,
        volumes,
        nics,
    } = requests;
    let object = ObjectRef::from_obj(vm);
    match probe_target {
        ProbeRequest::Keep => {}
        ProbeRequest::Set(target) => ctx.prober.set_target(&object, target),
    }
    match data_source {
        DataSourceWatch::Keep => {}
        DataSourceWatch::Watch(kind, name, version) => {
            ctx.data_sources.watch_for_change(&object, *kind, name, version.clone());
        }
        DataSourceWatch::Stop => ctx.data_sources.forget(&object),
    }
    if let Some(image) = missing_image {
        let namespace = vm.namespace().unwrap_or_default();
        ctx.sync_requests.request_missing(&namespace, &vm.uid().unwrap_or_default(), image);
    }
    if let Ok(vcenter) = ctx.provider.vcenter() {
        if let Some(key) = template {
            ctx.templates.request(&vcenter, key, &vm.namespace().unwrap_or_default());
        }
        if let Some(module) = vanished_module {
            replace_module(vm, module, &vcenter, ctx);
        }
    }
    if let Some((volumes, node)) = volumes {
        Box::pin(apply_attachments(vm, volumes, &node, &ctx.api, &ctx.caches)).await?;
    }
    create_requests(nics, &ctx.api).await
}

/// Asks the controller of resource policies to replace a cluster module that was removed from the VM's policy.
pub fn replace_module(vm: &VirtualMachine, module: &str, vcenter: &VCenter, ctx: &Context) {
    vcenter.memberships.forget(module);
    realize_policy_anew(vm, vcenter, ctx);
}

/// Asks the controller of resource policies to realize the VM's policy again.
pub fn realize_policy_anew(vm: &VirtualMachine, vcenter: &VCenter, ctx: &Context) {
    let namespace = vm.namespace().unwrap_or_default();
    if let Some(policy) = &vm.spec.resource_policy_name {
        vcenter.realized_policies.forget(&key(Some(&namespace), policy));
        ctx.policies.enqueue(ObjectRef::new(policy).within(&namespace));
    }
}
