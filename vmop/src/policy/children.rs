//! A policy's folder and pool in vCenter: the objects that the ledger records, or new ones.
//!
//! A child that others created is never used, whatever its name and owner. If the wanted name is taken, the child's name gets a
//! suffix that depends on the policy. A renamed child stays in use. If a child was moved, the policy waits and doesn't create
//! another one, because the VMs in the moved child would be created twice.

use api::conditions::vmop as reason;
use vsphere::{Allocation, Kind, MoRef};

use crate::policy::context::Error;
use crate::policy::ledger::{ChildKind, Ledger};
use crate::policy::ledger_store::LedgerStore;
use crate::policy::whereabouts::{Whereabouts, locate};
use crate::unmet::Unmet;
use crate::vcenter::VCenter;

/// A folder or pool that a policy requires.
#[derive(Clone, Debug, PartialEq)]
pub struct WantedChild {
    /// The parent folder or pool.
    pub parent: MoRef,
    /// The name in the spec.
    pub name: String,
    /// The name to use if `name` is taken.
    pub alternative: String,
    pub form: ChildSettings,
}

/// The kind of a child, with the settings that it is created with.
#[derive(Clone, Debug, PartialEq)]
pub enum ChildSettings {
    Folder,
    /// A pool with these reservations and limits for CPU and memory.
    Pool(Allocation, Allocation),
}

/// The lookup result for a wanted child, before any change.
enum Look {
    /// The child exists and is recorded.
    Ours(MoRef),
    /// The child was created under this name before a crash, and must be recorded.
    Begun(String, MoRef),
    /// The child must be created under this name.
    Create(String),
}

impl WantedChild {
    /// Returns the kind of child.
    pub fn kind(&self) -> ChildKind {
        match self.form {
            ChildSettings::Folder => ChildKind::Folder,
            ChildSettings::Pool(..) => ChildKind::ResourcePool,
        }
    }

    fn names(&self) -> [&str; 2] {
        [&self.name, &self.alternative]
    }
}

/// Creates missing children, and returns all children in the order of `wanted`.
pub async fn realize_children(
    wanted: &[WantedChild],
    ledger: &mut Ledger,
    store: &mut impl LedgerStore,
    vcenter: &VCenter,
) -> Result<Vec<MoRef>, Error> {
    // One policy at a time, because a name's owner must not change between the lookup and the write.
    let _turn = vcenter.making_children.lock().await;
    let before = ledger.clone();
    let mut looks = Vec::with_capacity(wanted.len());
    for child in wanted {
        looks.push(look(child, ledger, store, vcenter).await?);
    }
    for (child, look) in wanted.iter().zip(&looks) {
        match look {
            Look::Ours(_) => {}
            Look::Begun(name, moref) => {
                ledger.enter_child(child.kind(), &child.parent, name, Some(moref.id()));
            }
            Look::Create(name) => ledger.enter_child(child.kind(), &child.parent, name, None),
        }
    }
    let mut written = before;
    write_changed(ledger, &mut written, store).await?;
    let mut made = Vec::with_capacity(wanted.len());
    for (child, look) in wanted.iter().zip(looks) {
        made.push(match look {
            Look::Ours(moref) | Look::Begun(_, moref) => moref,
            Look::Create(name) => {
                let created = create(child, &name, vcenter).await;
                if created.as_ref().is_err_and(|error| matches!(error.kind(), Kind::DuplicateName { .. })) {
                    // Another client was faster and owns the object. The next lookup finds the name taken.
                    ledger.forget_child(child.kind(), &child.parent, &name);
                    write_changed(ledger, &mut written, store).await?;
                }
                let moref = created?;
                ledger.enter_child(child.kind(), &child.parent, &name, Some(moref.id()));
                moref
            }
        });
    }
    write_changed(ledger, &mut written, store).await?;
    vcenter.claimed.lock().extend(ledger.ids().cloned());
    Ok(made)
}

async fn write_changed(
    ledger: &Ledger,
    written: &mut Ledger,
    store: &mut impl LedgerStore,
) -> Result<(), Error> {
    if ledger != written {
        store.write(ledger).await?;
        written.clone_from(ledger);
    }
    Ok(())
}

async fn look(
    child: &WantedChild,
    ledger: &mut Ledger,
    store: &impl LedgerStore,
    vcenter: &VCenter,
) -> Result<Look, Error> {
    let (kind, parent) = (child.kind(), &child.parent);
    let others = store.others();
    for name in child.names() {
        let Some(recorded) = ledger.child(kind, parent, name) else { continue };
        let Some(made) = recorded.moref() else { continue };
        if vcenter.client.find_child(parent, name).await?.as_ref() == Some(&made) {
            return Ok(Look::Ours(made));
        }
        match locate(&made, recorded, &others, vcenter).await? {
            Whereabouts::Here(made) => return Ok(Look::Ours(made)),
            Whereabouts::Moved { name, parent: now } => {
                let message = format!(
                    "folder or resource pool {name} ({made}) was moved in vCenter from {parent} to {now}. Move it back, or delete it in vCenter"
                );
                return Err(Unmet::in_vcenter(reason::RESOURCE_POLICY_NOT_READY, message).into());
            }
            Whereabouts::Gone => {
                tracing::warn!(%made, name, "it is no longer in vCenter; the policy no longer manages it");
                ledger.forget_child(kind, parent, name);
            }
        }
    }
    let claimed = |found: &MoRef| others.contains(found.id()) || vcenter.claimed.lock().contains(found.id());
    for name in child.names() {
        let Some(found) = vcenter.client.find_child(parent, name).await? else {
            return Ok(Look::Create(name.to_owned()));
        };
        if found.kind() != kind.type_name() || claimed(&found) {
            continue;
        }
        let is_begun = ledger.child(kind, parent, name).is_some();
        if is_begun && contents(&found, vcenter).await?.is_empty() {
            return Ok(Look::Begun(name.to_owned(), found));
        }
    }
    let message = format!(
        "The names {} and {} are already in use in {parent} in vCenter. Rename one of these objects, or give the policy another name",
        child.name, child.alternative
    );
    Err(Unmet::in_vcenter(reason::NAME_TAKEN, message).into())
}

async fn create(child: &WantedChild, name: &str, vcenter: &VCenter) -> vsphere::Result<MoRef> {
    match child.form {
        ChildSettings::Folder => vcenter.client.create_folder(&child.parent, name).await,
        ChildSettings::Pool(cpu, memory) => {
            vcenter.client.create_resource_pool(&child.parent, name, cpu, memory).await
        }
    }
}

/// Returns the objects in a folder or pool: VMs, folders and pools. Returns an empty list if the folder or pool doesn't exist.
pub async fn contents(child: &MoRef, vcenter: &VCenter) -> vsphere::Result<Vec<MoRef>> {
    let lists: &[&str] = if child.kind() == "Folder" { &["childEntity"] } else { &["vm", "resourcePool"] };
    let read = match vcenter.client.retrieve(std::slice::from_ref(child), lists).await {
        Err(error) if error.is_not_found() => return Ok(Vec::new()),
        read => read?,
    };
    let items = read.iter().flat_map(|object| lists.iter().flat_map(|list| object.get(list).items()));
    Ok(items.filter_map(|item| item.as_moref().cloned()).collect())
}
