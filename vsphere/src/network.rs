//! The networks and the datastores of a datacenter.

use crate::{Backing, Client, MoRef, Result};

/// A network of a datacenter.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// Its reference.
    pub moref: MoRef,
    /// Its name.
    pub name: String,
    /// How a network card is plugged into it.
    pub backing: Backing,
}

/// A datastore of a datacenter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datastore {
    /// Its reference.
    pub moref: MoRef,
    /// Its name.
    pub name: String,
    /// Bytes that are free.
    pub free: u64,
    /// Whether hosts can reach it.
    pub accessible: bool,
}

impl Client {
    /// The networks of a datacenter: port groups, distributed port groups and opaque networks.
    pub async fn networks(&self, datacenter: &MoRef) -> Result<Vec<Network>> {
        let _ = datacenter;
        Err(crate::methods::unexpected("networks", "not written yet"))
    }

    /// The datastores of a datacenter.
    pub async fn datastores(&self, datacenter: &MoRef) -> Result<Vec<Datastore>> {
        let _ = datacenter;
        Err(crate::methods::unexpected("datastores", "not written yet"))
    }
}
