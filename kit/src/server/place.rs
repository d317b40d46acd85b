//! The places of connections: for callers that have proved who they are, and for everybody else.

use std::net::IpAddr;
use std::time::Duration;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::server::callers::Callers;
use crate::server::shares::{Full, Share, Shares};

/// The limits of a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Connections at the same time: of callers that have proved who they are, and of others.
    pub connections: usize,
    /// The maximum number of connections from one address.
    pub per_address: usize,
    /// The timeout of a TLS handshake.
    pub handshake: Duration,
    /// The timeout for the headers of a request, and for the first request of a connection.
    pub headers: Duration,
    /// The timeout of a request, from its headers to the headers of its answer.
    pub request: Duration,
    /// The time after which an idle connection is closed.
    pub idle: Duration,
}

/// The places of a server.
pub(super) struct Places {
    strangers: Shares,
    callers: Shares,
}

/// The place of one connection.
pub(super) struct Place(Mutex<(IpAddr, Share, bool)>);

impl Places {
    pub fn new(limits: &Limits, callers: &Callers) -> Self {
        let strangers = if callers.are_all_recognized() {
            // Who stays a stranger here is none that the server works for.
            Shares::newest_first(limits.connections)
        } else {
            Shares::new(limits.connections, limits.per_address)
        };
        Self { strangers, callers: Shares::new(limits.connections, limits.connections) }
    }

    /// A place for a new connection, which has not proved anything.
    pub fn enter(&self, address: IpAddr) -> Result<Place, Full> {
        let mut share = self.strangers.enter(address);
        share.take(1)?;
        Ok(Place(Mutex::new((address, share, false))))
    }

    /// Gives a connection a place of the callers, if one is free. Its place among the strangers becomes free.
    pub fn promote(&self, place: &Place) {
        let mut place = place.0.lock();
        let (address, share, promoted) = &mut *place;
        let mut wanted = self.callers.enter(*address);
        if !*promoted && wanted.take(1).is_ok() {
            (*share, *promoted) = (wanted, true);
        }
    }
}

impl Place {
    /// Cancelled when the place is given to another connection.
    pub fn evicted(&self) -> CancellationToken {
        self.0.lock().1.evicted().clone()
    }
}
