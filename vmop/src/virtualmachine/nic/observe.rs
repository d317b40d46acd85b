//! What each card of a machine is plugged into.

use api::conditions::vmop as reason;
use api::names::annotation;
use api::vmop::{NETWORK_TYPE_NSX_T, VirtualMachine, VirtualMachineNetworkInterface};
use kube::{Resource, ResourceExt};
use vsphere::{MoRef, Network};

use crate::unmet::Need;
use crate::unmet::Unmet;
use crate::vcenter::VCenter;
use crate::virtualmachine::nic::interface::{
    Ask, Handshake, NetworkId, Plug, Providers, Realised, ask, plug,
};
use crate::virtualmachine::nic::nic::Card;
use crate::virtualmachine::nic::{interface, nic};
use crate::virtualmachine::{Context, Error};

/// What the cards are plugged into, and what has to be asked of the network provider for it.
pub struct Plugged {
    pub cards: Need<Vec<Card>>,
    pub asks: Vec<Ask>,
}

/// What each card is plugged into; a machine that names none gets one on the configured network.
pub async fn cards(
    vm: &VirtualMachine,
    pool: Option<&MoRef>,
    vcenter: &VCenter,
    ctx: &Context,
) -> Result<Plugged, Error> {
    let default = [VirtualMachineNetworkInterface::default()];
    let interfaces = match vm.spec.network_interfaces.as_slice() {
        [] if without_default(vm, vcenter) => &[],
        [] => default.as_slice(),
        given => given,
    };
    let mut plugged = Plugged { cards: Ok(Vec::with_capacity(interfaces.len())), asks: Vec::new() };
    for interface in interfaces {
        // All are looked at: the provider can be at all of them at the same time.
        let card = card(vm, interface, pool, vcenter, ctx, &mut plugged.asks).await?;
        match (&mut plugged.cards, card) {
            (Ok(cards), Ok(card)) => cards.push(card),
            (cards @ Ok(_), Err(unmet)) => *cards = Err(unmet),
            (Err(first), Err(unmet)) if first.underway && !unmet.underway => *first = unmet,
            (Err(_), _) => {}
        }
    }
    Ok(plugged)
}

/// Whether a machine that names no card keeps what its template has, or gets none at all.
fn without_default(vm: &VirtualMachine, vcenter: &VCenter) -> bool {
    let settings = &vcenter.settings;
    vm.annotations().contains_key(annotation::NO_DEFAULT_NIC)
        || (settings.network.is_none()
            && !settings.network_provider.is_some_and(crate::vcenter::settings::NetworkProvider::has_objects))
}

async fn card(
    vm: &VirtualMachine,
    interface: &VirtualMachineNetworkInterface,
    pool: Option<&MoRef>,
    vcenter: &VCenter,
    ctx: &Context,
    asks: &mut Vec<Ask>,
) -> Result<Need<Card>, Error> {
    let namespace = vm.namespace().unwrap_or_default();
    let caches = &ctx.caches;
    let providers = Providers {
        configured: vcenter.settings.network_provider,
        default_network: vcenter.settings.network.is_some(),
        net_operator: caches.interfaces.is_served(),
        nsx: caches.nsx_interfaces.is_served(),
    };
    let kind = nic::card_kind(interface);
    let (kind, plug) = match kind.and_then(|kind| Ok((kind, plug(vm, interface, providers)?))) {
        Ok(planned) => planned,
        Err(unmet) => return Ok(Err(unmet)),
    };
    let realised = match &plug {
        Plug::Named(name) => return named(*name, kind, vcenter).await,
        Plug::Realised(name) => {
            let network = caches.networks.cache().get(Some(&namespace), name);
            return match nic::realised(&namespace, name, network.as_deref()) {
                Ok(()) => named(None, kind, vcenter).await,
                Err(unmet) => Ok(Err(unmet)),
            };
        }
        Plug::Given(handshake, name) => answered(vm, *handshake, name, interface, ctx)?,
        Plug::Asked(handshake, name) => {
            let answer = answered(vm, *handshake, name, interface, ctx)?;
            if answer.is_none() {
                asks.push(ask(vm, *handshake, name, interface.network_name.as_deref()));
            }
            answer
        }
    };
    let realised = match realised {
        Some(Ok(realised)) => realised,
        Some(Err(unmet)) => return Ok(Err(unmet)),
        None => return Ok(Err(absent(&namespace, &plug))),
    };
    Ok(network(&realised.network, pool, vcenter).await?.map(|network| {
        let Realised { mac, external_id, addressing, network: _ } = realised;
        Card { kind, backing: network.backing, mac, external_id, addressing }
    }))
}

/// The answer of the network provider; `None` where the object is not there.
fn answered(
    vm: &VirtualMachine,
    handshake: Handshake,
    name: &str,
    interface: &VirtualMachineNetworkInterface,
    ctx: &Context,
) -> Result<Option<Need<Realised>>, Error> {
    let namespace = vm.namespace();
    let caches = &ctx.caches;
    Ok(match handshake {
        Handshake::NetOperator => {
            let segments = interface.network_type.as_deref() == Some(NETWORK_TYPE_NSX_T);
            let object = caches.interfaces.cache().current(namespace.as_deref(), name)?;
            object.map(|object| stays(&*object).and_then(|()| interface::of_net_operator(&object, segments)))
        }
        Handshake::Nsx => {
            let object = caches.nsx_interfaces.cache().current(namespace.as_deref(), name)?;
            object.map(|object| stays(&*object).and_then(|()| interface::of_nsx(&object)))
        }
    })
}

/// An object that goes, such as an earlier machine's of that name, is no answer: it is asked for anew once it is gone.
fn stays<K: Resource<DynamicType = ()>>(object: &K) -> Need<()> {
    let namespace = object.meta().namespace.clone().unwrap_or_default();
    match object.meta().deletion_timestamp {
        None => Ok(()),
        Some(_) => Err(interface::waits(&format!("{} {namespace}/{}", K::kind(&()), object.name_any()))),
    }
}

fn absent(namespace: &str, plug: &Plug<'_>) -> Unmet {
    let kind = |handshake: &Handshake| match handshake {
        Handshake::NetOperator => "NetworkInterface",
        Handshake::Nsx => "VirtualNetworkInterface",
    };
    match plug {
        Plug::Asked(handshake, name) => interface::waits(&format!("{} {namespace}/{name}", kind(handshake))),
        Plug::Given(handshake, name) => Unmet::wrong(
            reason::NETWORK_NOT_READY,
            format!("{} {namespace}/{name} (providerRef) does not exist. Create it", kind(handshake)),
        ),
        Plug::Named(_) | Plug::Realised(_) => interface::waits("The network"),
    }
}

/// A card on the network of that name, else on the configured one.
async fn named(name: Option<&str>, kind: vsphere::NicKind, vcenter: &VCenter) -> Result<Need<Card>, Error> {
    let Some(name) = name.or(vcenter.settings.network.as_deref()) else {
        let message =
            "The provider configuration has no Network to plug the card into. Add the key, or name a network";
        return Ok(Err(Unmet::wrong(reason::NETWORK_NOT_READY, message)));
    };
    Ok(found(vcenter.network(name).await, vcenter)?.map(|network| Card::plain(kind, network.backing)))
}

async fn network(id: &NetworkId, pool: Option<&MoRef>, vcenter: &VCenter) -> Result<Need<Network>, Error> {
    found(
        match id {
            NetworkId::Portgroup(id) => vcenter.network(id).await,
            NetworkId::Segment(id) => vcenter.segment(id, pool).await,
        },
        vcenter,
    )
}

fn found(network: Result<Network, vsphere::Error>, vcenter: &VCenter) -> Result<Need<Network>, Error> {
    match network {
        Ok(network) => Ok(Ok(network)),
        Err(error) if error.is_not_found() => {
            Ok(Err(Unmet::in_vcenter(reason::NETWORK_NOT_READY, vcenter.problem(&error).to_string())))
        }
        Err(error) => Err(error.into()),
    }
}
