//! The operating systems on which node images are based.

use crate::error::{Error, Result};

/// A guest operating system for node images.
#[derive(Debug, PartialEq, Eq)]
pub struct OperatingSystem {
    /// The name on the command line, such as `debian-13`.
    pub name: &'static str,
    /// The name in OVF properties.
    pub(crate) distro: &'static str,
    pub(crate) version: &'static str,
    /// The Debian code name.
    pub(crate) suite: &'static str,
    /// The vSphere guest ID. It may be the ID for an older Debian version, because older hosts don't know the newer ID.
    /// vSphere treats both IDs alike.
    pub(crate) guest_id: &'static str,
}

/// The supported operating systems.
pub static SYSTEMS: [OperatingSystem; 1] = [OperatingSystem {
    name: "debian-13",
    distro: "debian",
    version: "13",
    suite: "trixie",
    guest_id: "debian12_64Guest",
}];

impl OperatingSystem {
    /// Returns the operating system with this name, or an error that lists the supported operating systems.
    pub fn find(name: &str) -> Result<&'static Self> {
        SYSTEMS.iter().find(|os| os.name == name).ok_or_else(|| {
            let known: Vec<_> = SYSTEMS.iter().map(|os| os.name).collect();
            Error::Request(format!("images of {name} are not supported; supported are {}", known.join(", ")))
        })
    }
}
