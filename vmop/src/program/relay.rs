//! Enqueues the VirtualMachines of changed VMs in vCenter, and all VirtualMachines and policies when the connection state
//! changes.

use std::sync::Arc;

use kit::index::reference;
use kit::watch::{Cache, Watchable};
use vsphere::Vm;
use vsphere::inventory::InventoryChange;

use crate::enqueue::Enqueue;
use crate::orphans::Orphans;
use crate::program::parts::ProgramParts;
use crate::vcenter::{ConnectionState, VCenter, mark};

/// Relays vCenter's events and connection state changes until dropped.
pub async fn relay(parts: ProgramParts, orphans: Orphans) {
    parts.caches.vms.complete().await;
    parts.caches.shared.policies.complete().await;
    let mut state = parts.provider.changes();
    loop {
        let now = state.borrow_and_update().clone();
        if !matches!(now, ConnectionState::Starting) {
            enqueue_all(&parts.caches.shared.policies, &parts.policies);
            enqueue_all(&parts.caches.vms, &parts.vms);
        }
        let relaying = async {
            match &now {
                ConnectionState::Connected(vcenter) => {
                    tokio::join!(relay_changes(vcenter, &parts, &orphans), orphans.report(vcenter));
                }
                ConnectionState::Starting | ConnectionState::Broken(_) => {}
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            changed = state.changed() => if changed.is_err() { return },
            () = relaying => {}
        }
    }
}

/// Enqueues the VirtualMachine of each changed VM, or all VirtualMachines when the inventory is complete (again).
async fn relay_changes(vcenter: &VCenter, parts: &ProgramParts, orphans: &Orphans) {
    let mut changes = vcenter.inventory.subscribe();
    // If the inventory completes again, a new session read it, and events in between may be missing.
    let mut anew = vcenter.inventory.complete();
    while let Some(batch) = changes.next().await {
        for change in batch {
            match change {
                InventoryChange::Vm { was, now, .. } => relay_vm(was, now, vcenter, parts, orphans),
                InventoryChange::Complete => {
                    if std::mem::replace(&mut anew, true) {
                        // vCenter may have been restored from a backup, so previous reads are no longer reliable.
                        vcenter.memberships.forget_all();
                        vcenter.realized_policies.doubt_all();
                        enqueue_all(&parts.caches.shared.policies, &parts.policies);
                    }
                    enqueue_all(&parts.caches.vms, &parts.vms);
                    parts.collect_templates.notify_one();
                    orphans.inspect_all();
                }
                InventoryChange::Incomplete => tracing::warn!("reading the inventory of vCenter again"),
            }
        }
    }
}

fn relay_vm(
    was: Option<Arc<Vm>>,
    now: Option<Arc<Vm>>,
    vcenter: &VCenter,
    parts: &ProgramParts,
    orphans: &Orphans,
) {
    let has_base = |side: &Option<Arc<Vm>>| side.as_deref().and_then(mark::base).is_some();
    if has_base(&was) && !has_base(&now) {
        parts.collect_templates.notify_one();
    }
    if let Some(now) = &now {
        orphans.inspect(now, vcenter);
    }
    let sides = [was, now].into_iter().flatten();
    let owner = sides.filter_map(|vm| mark::owner(&vm, &vcenter.settings.stack)).last();
    if let Some(owner) = owner {
        parts.vms.enqueue(owner);
    }
}

fn enqueue_all<K: Watchable>(cache: &Cache<K>, enqueue: &Enqueue<K>) {
    cache.all().iter().for_each(|object| enqueue.enqueue(reference(&**object)));
}
