//! What the guest of a machine is told, read from its Secret or ConfigMap.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::conditions::vmop as reason;
use api::vmop::VirtualMachine;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;
use vsphere::{VAppProperty, Vm};

use crate::data_sources::DataSourceKind;
use crate::templates::Template;
use crate::unmet::Need;
use crate::unmet::Unmet;
use crate::vcenter::VCenter;
use crate::virtualmachine::bootstrap::user_data;
use crate::virtualmachine::bootstrap::user_data::{Source, Told, told};
use crate::virtualmachine::bootstrap::{Bootstrap, HASH, Surroundings, bootstrap};
use crate::virtualmachine::clone::Identity;
use crate::virtualmachine::nic::interface::Ask;
use crate::virtualmachine::nic::nic::Card;
use crate::virtualmachine::nic::observe::Plugged;
use crate::virtualmachine::{Context, Error};

/// What the user wants the guest to be told, and where that was read.
pub struct Read<'a> {
    pub told: Need<Told>,
    at: Option<(DataSourceKind, &'a str, Option<String>)>,
}

type Data = (Option<String>, BTreeMap<String, Vec<u8>>);

/// Reads the guest's data now.
pub async fn read<'a>(vm: &'a VirtualMachine, ctx: &Context) -> Result<Read<'a>, Error> {
    let namespace = vm.namespace().unwrap_or_default();
    let (kind, name, read) = match user_data::source(vm) {
        Err(unmet) => return Ok(Read { told: Err(unmet), at: None }),
        Ok(Source::None) => {
            return Ok(Read { told: told(vm, String::new(), BTreeMap::new()), at: None });
        }
        Ok(Source::Secret(name)) => {
            let secret = ctx.api.get(Some(&namespace), name).await?;
            (DataSourceKind::Secret, name, secret.map(secret_data))
        }
        Ok(Source::ConfigMap(name)) => {
            let map = ctx.api.get(Some(&namespace), name).await?;
            (DataSourceKind::ConfigMap, name, map.map(map_data))
        }
    };
    let source = format!("{kind:?} {namespace}/{name}");
    let (seen, told) = if let Some((version, data)) = read {
        (version, told(vm, source, data))
    } else {
        let message = format!("{source} (spec.vmMetadata) does not exist. Create it with the guest's data");
        (None, Err(Unmet::wrong(reason::BOOTSTRAP_NOT_READY, message)))
    };
    Ok(Read { told, at: Some((kind, name, seen)) })
}

fn secret_data(secret: Secret) -> Data {
    let data = secret.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0));
    (secret.metadata.resource_version, data.collect())
}

fn map_data(map: ConfigMap) -> Data {
    let binary = map.binary_data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0));
    let text = map.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.into_bytes()));
    (map.metadata.resource_version, binary.chain(text).collect())
}

impl Read<'_> {
    /// What a machine that is to be made is told; while that is not right, a change of the data wakes the machine.
    pub fn composed(
        &self,
        vm: &VirtualMachine,
        identity: Identity,
        cards: Option<&[Card]>,
        template: Option<&Template>,
        ctx: &Context,
    ) -> Need<Bootstrap> {
        let need = self.told.clone().and_then(|told| {
            // Without these nothing is made, and what the guest is told would be told of them.
            let (Some(cards), Some(template)) = (cards, template) else { return Ok(Bootstrap::default()) };
            let around = Surroundings {
                identity,
                cards,
                present: template.devices.nics.len(),
                properties: &template.properties,
                defers: template.defers,
                network: &ctx.provider.guest_network(),
            };
            bootstrap(vm, &told, &around)
        });
        self.awaited(vm, need.is_ok(), ctx);
        need
    }

    fn awaited(&self, vm: &VirtualMachine, good: bool, ctx: &Context) {
        let vm_ref = ObjectRef::from_obj(vm);
        match &self.at {
            Some((kind, name, seen)) if !good => {
                ctx.data_sources.watch_for_change(&vm_ref, *kind, name, seen.clone());
            }
            _ => ctx.data_sources.forget(&vm_ref),
        }
    }
}

/// What a machine that is there, off and to be powered on is told anew: nothing, unless its user changed it, or it gets
/// other `cards`.
///
/// What the guest has taken out of guestinfo since is no change.
pub async fn retold(
    vm: &VirtualMachine,
    machine: &Arc<Vm>,
    identity: Identity,
    cards: Option<&[Card]>,
    vcenter: &VCenter,
    ctx: &Context,
) -> Result<(Need<Option<Bootstrap>>, Vec<Ask>), Error> {
    let nothing = (Ok(None), Vec::new());
    let Some(hash) = machine.extra_config.get(HASH).filter(|hash| !hash.is_empty()) else {
        return Ok(nothing);
    };
    let read = read(vm, ctx).await?;
    let told = match &read.told {
        Ok(told) if cards.is_some() || told.hash(identity.bios) != *hash => told,
        // Bootstrap data may go once the machine has booted.
        Ok(_) | Err(_) => return Ok(nothing),
    };
    let plugged = match cards {
        Some(cards) => Plugged { cards: Ok(cards.to_vec()), asks: Vec::new() },
        None => crate::virtualmachine::nic::observe::cards(vm, machine.pool.as_ref(), vcenter, ctx).await?,
    };
    let cards = match plugged.cards {
        Ok(cards) => cards,
        Err(unmet) => return Ok((Err(unmet), plugged.asks)),
    };
    let (properties, present) = appliance(machine, vcenter).await?;
    let around = Surroundings {
        identity,
        cards: &cards,
        present,
        properties: &properties,
        defers: false,
        network: &ctx.provider.guest_network(),
    };
    let need = bootstrap(vm, told, &around);
    read.awaited(vm, need.is_ok(), ctx);
    Ok((need.map(Some), plugged.asks))
}

/// The OVF properties of a machine, and how many cards it has.
async fn appliance(machine: &Vm, vcenter: &VCenter) -> Result<(Vec<VAppProperty>, usize), vsphere::Error> {
    let read = vcenter.client.retrieve(std::slice::from_ref(&machine.moref), &["config.vAppConfig"]).await?;
    let properties = read.first().map(|vm| vm.get("config.vAppConfig").get("property").items());
    let properties = properties.unwrap_or_default().iter().filter_map(VAppProperty::read).collect();
    Ok((properties, vcenter.devices(machine).await?.nics.len()))
}

#[cfg(test)]
pub mod tests;
