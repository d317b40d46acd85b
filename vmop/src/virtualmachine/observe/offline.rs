//! What a machine that is there and off gets, and is told, before it runs again.

use std::sync::Arc;

use api::vmop::VirtualMachine;
use vsphere::Vm;
use vsphere::inventory::PowerState;

use crate::unmet::Need;
use crate::vcenter::VCenter;
use crate::virtualmachine::bootstrap::Bootstrap;
use crate::virtualmachine::bootstrap::observe::retold;
use crate::virtualmachine::clone::{Identity, wants_power};
use crate::virtualmachine::nic::change::{Rewired, differs};
use crate::virtualmachine::nic::interface::Ask;
use crate::virtualmachine::nic::observe::cards;
use crate::virtualmachine::{Context, Error};

/// Its cards, where the spec names others; what its guest is told of them or what its user changed; and what has to be
/// asked of the network provider for that.
type Anew = (Need<Option<Rewired>>, Need<Option<Bootstrap>>, Vec<Ask>);

/// What a machine gets and is told anew: nothing, unless it is off, shall run, and its user changed something.
pub async fn rewired(
    vm: &VirtualMachine,
    machine: &Arc<Vm>,
    identity: Identity,
    vcenter: &VCenter,
    ctx: &Context,
) -> Result<Anew, Error> {
    if machine.power_state != Some(PowerState::Off) || !wants_power(vm) {
        return Ok((Ok(None), Ok(None), Vec::new()));
    }
    if !differs(vm, machine) {
        let (retold, asks) = retold(vm, machine, identity, None, vcenter, ctx).await?;
        return Ok((Ok(None), retold, asks));
    }
    let plugged = cards(vm, machine.pool.as_ref(), vcenter, ctx).await?;
    let wanted = match plugged.cards {
        Ok(wanted) => wanted,
        Err(unmet) => return Ok((Err(unmet), Ok(None), plugged.asks)),
    };
    // Read anew: what the stream told last may be older than our own change.
    let present = vcenter.client.read_nics(&machine.moref).await?;
    let rewired = Rewired::new(vm, &present, wanted);
    let (retold, _) = retold(vm, machine, identity, Some(&rewired.cards), vcenter, ctx).await?;
    Ok((Ok(Some(rewired)), retold, plugged.asks))
}

#[cfg(test)]
mod tests;
