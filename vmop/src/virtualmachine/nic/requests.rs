//! Network providers are asked for the cards of a machine before it is made, and get them back after its end.

use api::vmop::VirtualMachine;
use kit::index::key;
use kube::ResourceExt;

use crate::virtualmachine::nic::interface::{Ask, Handshake, asked_names};
use crate::virtualmachine::{Context, Error};

/// The objects are there; their status is the providers' to write, and wakes the machine.
pub async fn asked(asks: &[Ask], ctx: &Context) -> Result<(), Error> {
    for ask in asks {
        match ask {
            Ask::NetOperator(interface) => drop(ctx.api.apply(&**interface, None).await?),
            Ask::Nsx(interface) => drop(ctx.api.apply(&**interface, None).await?),
        }
    }
    Ok(())
}

/// What was asked for is let go where the spec does not name it any more and no card is plugged in there.
pub async fn outdated(vm: &VirtualMachine, ctx: &Context) -> Result<(), Error> {
    let own = key(vm.metadata.namespace.as_deref(), &vm.name_any());
    let wanted = asked_names(vm);
    let named = |handshake, name: String| wanted.contains(&(handshake, name));
    for interface in ctx.caches.interfaces_by_vm.objects(&own) {
        if !named(Handshake::NetOperator, interface.name_any()) {
            ctx.api.delete(&*interface).await?;
        }
    }
    for interface in ctx.caches.nsx_interfaces_by_vm.objects(&own) {
        if !named(Handshake::Nsx, interface.name_any()) {
            ctx.api.delete(&*interface).await?;
        }
    }
    Ok(())
}

/// Nothing is asked for any more, for a machine that is gone: nobody else takes the objects away.
pub async fn released(vm: &VirtualMachine, ctx: &Context) -> Result<(), Error> {
    let (namespace, caches) = (vm.metadata.namespace.as_deref(), &ctx.caches);
    for (handshake, name) in asked_names(vm) {
        // One that was asked for a moment ago may not be in the cache yet.
        match handshake {
            Handshake::NetOperator => drop(caches.interfaces.cache().current(namespace, &name)?),
            Handshake::Nsx => drop(caches.nsx_interfaces.cache().current(namespace, &name)?),
        }
    }
    let own = key(namespace, &vm.name_any());
    for interface in caches.interfaces_by_vm.objects(&own) {
        ctx.api.delete(&*interface).await?;
    }
    for interface in caches.nsx_interfaces_by_vm.objects(&own) {
        ctx.api.delete(&*interface).await?;
    }
    Ok(())
}
