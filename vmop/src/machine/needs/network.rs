//! What the cards of a machine are plugged into.

use std::sync::Arc;

use api::conditions::vmop as reason;
use api::net::VirtualNetwork;
use api::vmop::{NETWORK_TYPE_DISTRIBUTED, NETWORK_TYPE_NSX_T, VirtualMachineNetworkInterface};
use vsphere::{Backing, EthernetKind};

use super::{Need, Unmet};

/// A network card as it shall be.
#[derive(Clone, Debug, PartialEq)]
pub struct Card {
    /// What the guest sees.
    pub kind: EthernetKind,
    /// What it is plugged into.
    pub backing: Backing,
}

/// The network that a card is plugged into, by its name in vCenter; `None` is the configured one.
pub fn network_name<'a>(
    namespace: &str,
    interface: &'a VirtualMachineNetworkInterface,
    realised: impl Fn(&str) -> Option<Arc<VirtualNetwork>>,
) -> Need<Option<&'a str>> {
    let name = interface.network_name.as_deref().filter(|name| !name.is_empty());
    match interface.network_type.as_deref().unwrap_or_default() {
        "" | NETWORK_TYPE_DISTRIBUTED => Ok(name),
        NETWORK_TYPE_NSX_T => {
            let name = name.unwrap_or_default();
            let found = realised(name);
            let ready = found
                .as_ref()
                .and_then(|network| network.status.as_ref())
                .is_some_and(|status| api::conditions::holds(&status.conditions, api::net::READY));
            match (found, ready) {
                (_, true) => Ok(None),
                (Some(_), false) => Err(Unmet::underway(
                    reason::NETWORK_NOT_READY,
                    format!("VirtualNetwork {namespace}/{name} is not Ready: the network provider is at it"),
                )),
                (None, false) => Err(Unmet::wrong(
                    reason::NETWORK_NOT_READY,
                    format!(
                        "VirtualNetwork {namespace}/{name} does not exist. Create it, or name another network"
                    ),
                )),
            }
        }
        other => Err(Unmet::wrong(
            reason::NETWORK_NOT_READY,
            format!("networkType {other:?} is not supported. Use nsx-t, vsphere-distributed, or none"),
        )),
    }
}

/// The kind of card that an interface asks for.
pub fn card_kind(interface: &VirtualMachineNetworkInterface) -> Need<EthernetKind> {
    match interface.ethernet_card_type.as_deref().unwrap_or_default() {
        "" | "vmxnet3" => Ok(EthernetKind::Vmxnet3),
        "vmxnet2" => Ok(EthernetKind::Vmxnet2),
        "e1000" => Ok(EthernetKind::E1000),
        "e1000e" => Ok(EthernetKind::E1000e),
        "pcnet32" => Ok(EthernetKind::Pcnet32),
        other => Err(Unmet::wrong(
            reason::NETWORK_NOT_READY,
            format!("ethernetCardType {other:?} is unknown. Use vmxnet3, vmxnet2, e1000, e1000e or pcnet32"),
        )),
    }
}
