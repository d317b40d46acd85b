//! Reservations and limits for a policy's pool.
//!
//! Values in the spec are enforced: if the pool was changed in vCenter, they are restored when the policy is realized
//! again, which happens at every start and spec change. A vSphere administrator can set the values that the spec omits.

use api::conditions::vmop as known;
use api::vmop::VirtualMachineSetResourcePolicy;
use vsphere::{Allocation, MoRef, Value};

use crate::policy::context::Error;
use crate::unmet::Unmet;
use crate::vcenter::{Placement, VCenter};
use crate::virtualmachine::size::class;

/// Returns the reservations and limits in the spec, for CPU (MHz) and memory (MiB).
pub async fn allocations(
    policy: &VirtualMachineSetResourcePolicy,
    parent: &Placement,
    vcenter: &VCenter,
) -> Result<(Allocation, Allocation), Error> {
    let pool = policy.spec.resource_pool.as_ref();
    let requests = pool.and_then(|pool| pool.reservations.as_ref());
    let limits = pool.and_then(|pool| pool.limits.as_ref());
    let megahertz = if [requests, limits].into_iter().flatten().any(class::in_cores) {
        vcenter.megahertz(&parent.pool).await?
    } else {
        0
    };
    class::parse_allocations(requests, limits, megahertz)
        .map_err(|error| Unmet::wrong(known::INVALID_SPEC, format!("spec.resourcepool: {error}")).into())
}

/// Updates the pool if its reservations and limits differ from the given ones. Values that are `None` are left unchanged.
pub async fn keep_allocations(
    pool: &MoRef,
    cpu: Allocation,
    memory: Allocation,
    vcenter: &VCenter,
) -> Result<(), Error> {
    if cpu == Allocation::default() && memory == Allocation::default() {
        return Ok(());
    }
    let paths = ["config.cpuAllocation", "config.memoryAllocation"];
    let read = vcenter.client.retrieve(std::slice::from_ref(pool), &paths).await?;
    let is = |path: &str| read.first().map(|pool| allocation(pool.get(path))).unwrap_or_default();
    let wanted = (merged(is(paths[0]), cpu), merged(is(paths[1]), memory));
    if wanted != (is(paths[0]), is(paths[1])) {
        tracing::info!(%pool, "setting the pool's reservations and limits to those of its policy");
        vcenter.client.update_resource_pool(pool, wanted.0, wanted.1).await?;
    }
    Ok(())
}

fn allocation(read: &Value) -> Allocation {
    Allocation {
        reservation: read.get("reservation").as_i64(),
        expandable: read.get("expandableReservation").as_bool(),
        limit: read.get("limit").as_i64(),
    }
}

/// Returns the current allocation with the given values in place of the current ones.
fn merged(is: Allocation, given: Allocation) -> Allocation {
    Allocation {
        reservation: given.reservation.or(is.reservation),
        expandable: given.expandable.or(is.expandable),
        limit: given.limit.or(is.limit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_spec_leaves_out_stays() {
        let is = Allocation { reservation: Some(100), expandable: Some(true), limit: Some(-1) };
        let given = Allocation { limit: Some(500), ..Allocation::default() };
        assert_eq!(merged(is, given), Allocation { limit: Some(500), ..is });
        assert_eq!(merged(is, Allocation::default()), is);
        assert_eq!(merged(Allocation::default(), given), given);
    }
}
