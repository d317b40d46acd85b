//! Reads the size that a VM's class defines, for the hosts on which the VM may run.

use api::vmop::{VirtualMachine, VirtualMachineClass};
use kit::index::key;
use kube::ResourceExt;

use super::class::{Size, check_class, check_threads, counts_cores, parse_size};
use crate::caches::Caches;
use crate::unmet::Need;
use crate::vcenter::{Placement, VCenter};

/// Returns the size for a VM to be created in `home`.
pub async fn resolve_needed_size(
    vm: &VirtualMachine,
    home: &Placement,
    vcenter: &VCenter,
    caches: &Caches,
) -> Result<Need<Size>, vsphere::Error> {
    let namespace = vm.namespace().unwrap_or_default();
    let bound = !caches.bindings_by_class.refs(&key(Some(&namespace), &vm.spec.class_name)).is_empty();
    let class = caches.classes.get(None, &vm.spec.class_name);
    Ok(match check_class(vm, class.as_deref(), bound) {
        Ok(class) => match parse_size(class, read_clock_rate(class, home, vcenter).await?) {
            Ok(size) => {
                let threads = vcenter.threads(&home.pool, i64::from(size.cpus)).await?;
                check_threads(vm, size, threads)
            }
            Err(unmet) => Err(unmet),
        },
        Err(unmet) => Err(unmet),
    })
}

/// Returns the size that an existing VM's class defines, if known.
pub async fn read_class_size(
    vm: &VirtualMachine,
    home: Option<&Placement>,
    vcenter: &VCenter,
    caches: &Caches,
) -> Option<Size> {
    let class = caches.classes.get(None, &vm.spec.class_name)?;
    let megahertz = match home {
        Some(home) => read_clock_rate(&class, home, vcenter).await.ok()?,
        None if counts_cores(&class) => return None,
        None => 0,
    };
    parse_size(&class, megahertz).ok()
}

/// Returns the clock rate of the pool's hosts in MHz, or zero if the class doesn't need it.
async fn read_clock_rate(
    class: &VirtualMachineClass,
    home: &Placement,
    vcenter: &VCenter,
) -> Result<i64, vsphere::Error> {
    if counts_cores(class) { vcenter.megahertz(&home.pool).await } else { Ok(0) }
}
