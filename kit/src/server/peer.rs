//! Who is at the other end of a connection.

use std::net::IpAddr;

/// Who sent a request: an extension of each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    /// Where the connection comes from.
    pub address: IpAddr,
    /// Its client certificate is of the authority that the server was given.
    pub verified: bool,
}
