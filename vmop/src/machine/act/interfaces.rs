//! Network providers are asked for the cards of a machine, before it is made.

use crate::machine::needs::Ask;
use crate::machine::{Context, Error};

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
