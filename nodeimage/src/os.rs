//! The operating systems that images are made of.

use crate::error::{Error, Result};

/// An operating system.
#[derive(Debug, PartialEq, Eq)]
pub struct OperatingSystem {
    /// As the command names it.
    pub name: &'static str,
    /// Its name and version in OVF properties.
    pub(crate) distro: &'static str,
    pub(crate) version: &'static str,
    /// What Debian calls it.
    pub(crate) suite: &'static str,
    /// What vSphere calls it; older hosts know no newer one, and treat it alike.
    pub(crate) guest_id: &'static str,
}

/// Every operating system.
pub static SYSTEMS: [OperatingSystem; 1] = [OperatingSystem {
    name: "debian-13",
    distro: "debian",
    version: "13",
    suite: "trixie",
    guest_id: "debian12_64Guest",
}];

impl OperatingSystem {
    /// The operating system of a name.
    pub fn find(name: &str) -> Result<&'static Self> {
        SYSTEMS.iter().find(|os| os.name == name).ok_or_else(|| {
            let known: Vec<_> = SYSTEMS.iter().map(|os| os.name).collect();
            Error::Request(format!("images of {name} are not supported; supported are {}", known.join(", ")))
        })
    }
}
