//! The folder and the pool of a policy in vCenter: those that the ledger records, else new ones.
//!
//! A child that others have made is never used, whatever its name: neither another policy's, be it of the same
//! namespace, nor a vSphere administrator's. Where the wanted name is taken, the child gets a suffix that stands for
//! the policy. One of ours that was renamed is used on; one that was moved is waited for, and nothing is made in its
//! place: the VMs in it would be made twice. Earlier versions kept no record of folders and pools; a child in which nothing but VMs of the
//! policy's namespace lies, and one of the policy's own, was made by them, and is recorded.

use api::conditions::vmop as reason;
use vsphere::{Allocation, Kind, MoRef};

use crate::policy::context::Error;
use crate::policy::ledger::{ChildKind, Ledger};
use crate::policy::ledger_store::LedgerStore;
use crate::policy::whereabouts::{Whereabouts, locate};
use crate::unmet::Unmet;
use crate::vcenter::VCenter;

/// A folder or pool that a policy asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct WantedChild {
    /// What it is in.
    pub parent: MoRef,
    /// The name that the spec gives.
    pub name: String,
    /// The name where that one is taken.
    pub alternative: String,
    /// What is asked for.
    pub form: Form,
}

/// What a child is to be.
#[derive(Clone, Debug, PartialEq)]
pub enum Form {
    /// A folder.
    Folder,
    /// A pool with these guarantees and limits of CPU and memory.
    Pool(Allocation, Allocation),
}

/// Whose something is that lies in a folder or a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occupant {
    /// A VM of the policy.
    OfPolicy,
    /// Another VM of the policy's namespace.
    OfNamespace,
    /// Nobody knows yet: vCenter shows too little of it.
    Unknown,
    /// Anything else.
    Stranger,
}

/// What is known of a wanted child before anything is done.
enum Look {
    /// It is there, and ours.
    Ours(MoRef),
    /// It is there, and becomes ours under this name.
    Adopt(String, MoRef),
    /// It is to be made under this name.
    Create(String),
}

impl WantedChild {
    /// The kind of child.
    pub fn kind(&self) -> ChildKind {
        match self.form {
            Form::Folder => ChildKind::Folder,
            Form::Pool(..) => ChildKind::ResourcePool,
        }
    }

    fn names(&self) -> [&str; 2] {
        [&self.name, &self.alternative]
    }
}

/// Has every wanted child exist; the answer is in their order.
pub async fn realize_children(
    wanted: &[WantedChild],
    ledger: &mut Ledger,
    store: &mut impl LedgerStore,
    occupant: &(impl Fn(&MoRef) -> Occupant + Sync),
    vcenter: &VCenter,
) -> Result<Vec<MoRef>, Error> {
    // One policy at a time: whose a name is must not change between the look and the write.
    let _turn = vcenter.making_children.lock().await;
    let before = ledger.clone();
    let mut looks = Vec::with_capacity(wanted.len());
    for child in wanted {
        looks.push(look(child, ledger, store, occupant, vcenter).await?);
    }
    for (child, look) in wanted.iter().zip(&looks) {
        match look {
            Look::Ours(_) => {}
            Look::Adopt(name, moref) => {
                tracing::info!(%moref, name, "recording a child of the policy that was not recorded");
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
            Look::Ours(moref) | Look::Adopt(_, moref) => moref,
            Look::Create(name) => {
                let created = create(child, &name, vcenter).await;
                if created.as_ref().is_err_and(|error| matches!(error.kind(), Kind::DuplicateName { .. })) {
                    // Somebody was faster: it is his, and the next look finds the name taken.
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
    occupant: &impl Fn(&MoRef) -> Occupant,
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
        let occupants: Vec<_> = contents(&found, vcenter).await?.iter().map(occupant).collect();
        if occupants.contains(&Occupant::Unknown) {
            // It may be ours: neither taken nor passed over before that is known.
            let message = format!("The owners of the VMs in {name} ({found}) in vCenter are not known yet");
            return Err(Unmet::in_vcenter(reason::RESOURCE_POLICY_NOT_READY, message).into());
        }
        let begun = ledger.child(kind, parent, name).is_some();
        if (begun && occupants.is_empty()) || made_by_earlier_version(&occupants) {
            return Ok(Look::Adopt(name.to_owned(), found));
        }
    }
    let message = format!(
        "The names {} and {} are already in use in {parent} in vCenter. Rename one of these objects, or give the policy another name",
        child.name, child.alternative
    );
    Err(Unmet::in_vcenter(reason::NAME_TAKEN, message).into())
}

fn made_by_earlier_version(occupants: &[Occupant]) -> bool {
    let known = |occupant: &Occupant| matches!(occupant, Occupant::OfPolicy | Occupant::OfNamespace);
    occupants.contains(&Occupant::OfPolicy) && occupants.iter().all(known)
}

async fn create(child: &WantedChild, name: &str, vcenter: &VCenter) -> vsphere::Result<MoRef> {
    match child.form {
        Form::Folder => vcenter.client.create_folder(&child.parent, name).await,
        Form::Pool(cpu, memory) => {
            vcenter.client.create_resource_pool(&child.parent, name, cpu, memory).await
        }
    }
}

/// What lies in a folder or a pool: VMs, and folders or pools. Nothing where it is gone.
pub async fn contents(child: &MoRef, vcenter: &VCenter) -> vsphere::Result<Vec<MoRef>> {
    let lists: &[&str] = if child.kind() == "Folder" { &["childEntity"] } else { &["vm", "resourcePool"] };
    let read = match vcenter.client.retrieve(std::slice::from_ref(child), lists).await {
        Err(error) if error.is_not_found() => return Ok(Vec::new()),
        read => read?,
    };
    let items = read.iter().flat_map(|object| lists.iter().flat_map(|list| object.get(list).items()));
    Ok(items.filter_map(|item| item.as_moref().cloned()).collect())
}
