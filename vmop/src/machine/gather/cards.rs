//! What each card of a machine is plugged into.

use api::conditions::vmop as reason;
use api::vmop::{VirtualMachine, VirtualMachineNetworkInterface};
use kube::ResourceExt;

use crate::machine::Context;
use crate::machine::needs::{self, Card, Need, Unmet};
use crate::provider::Site;

/// What each card is plugged into; a machine that names none gets one on the configured network.
pub(super) async fn cards(
    vm: &VirtualMachine,
    site: &Site,
    ctx: &Context,
) -> Result<Need<Vec<Card>>, vsphere::Error> {
    let namespace = vm.namespace().unwrap_or_default();
    let default = [VirtualMachineNetworkInterface::default()];
    let interfaces = match vm.spec.network_interfaces.as_slice() {
        [] if site.settings.network.is_none() => return Ok(Ok(Vec::new())),
        [] => default.as_slice(),
        given => given,
    };
    let mut cards = Vec::with_capacity(interfaces.len());
    for interface in interfaces {
        let realised = |name: &str| ctx.caches.networks.get(Some(&namespace), name);
        let named = needs::card_kind(interface)
            .and_then(|kind| Ok((kind, needs::network_name(&namespace, interface, realised)?)));
        let (kind, name) = match named {
            Ok((kind, name)) => (kind, name.or(site.settings.network.as_deref())),
            Err(unmet) => return Ok(Err(unmet)),
        };
        let Some(name) = name else {
            let message = "The provider configuration has no Network to plug the card into. Add the key, or name a network";
            return Ok(Err(Unmet::wrong(reason::NETWORK_NOT_READY, message)));
        };
        match site.network(name).await {
            Ok(network) => cards.push(Card { kind, backing: network.backing }),
            Err(error) if error.is_not_found() => {
                return Ok(Err(Unmet::in_vcenter(
                    reason::NETWORK_NOT_READY,
                    site.problem(&error).to_string(),
                )));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(Ok(cards))
}
