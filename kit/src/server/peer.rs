//! The client at the other end of a connection.

use std::net::IpAddr;

/// The sender of a request, as a request extension.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    /// The IP address from which the connection comes.
    pub address: IpAddr,
    /// True if the sender presented a certificate signed by one of the server's certificate authorities, or the callers' key.
    pub verified: bool,
}
