//! Kinds of devices that clones change by their settings, and which of them this vCenter is known to give.

use vsphere::DeviceChange;

/// Kinds of devices that a clone's settings change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceKinds {
    /// Network adapters come, go, or get more than another network.
    pub nics: bool,
    /// Disks come or grow.
    pub disks: bool,
}

impl DeviceKinds {
    /// The kinds that these changes are of.
    pub fn of(changes: &[DeviceChange]) -> Self {
        changes.iter().fold(Self::default(), |kinds, change| match change {
            DeviceChange::Add(_) | DeviceChange::Edit(_) | DeviceChange::Remove(_) => {
                Self { nics: true, ..kinds }
            }
            DeviceChange::Disk(_) => Self { disks: true, ..kinds },
            DeviceChange::Other { .. } => kinds,
        })
    }

    /// Whether all of these are among those.
    pub fn within(self, those: Self) -> bool {
        (!self.nics || those.nics) && (!self.disks || those.disks)
    }

    /// These and those.
    #[must_use]
    pub fn and(self, those: Self) -> Self {
        Self { nics: self.nics || those.nics, disks: self.disks || those.disks }
    }
}
