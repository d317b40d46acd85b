//! Limits connections, separately for callers that proved their identity and for strangers.

use std::net::IpAddr;
use std::time::Duration;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::server::callers::Callers;
use crate::share::addresses::{Full, Share, Shares};

/// A server's limits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServerLimits {
    /// The maximum number of connections, separately for callers that proved their identity and for others.
    pub connections: usize,
    /// The maximum number of strangers' connections per address. It doesn't apply if all legitimate callers are recognized.
    pub per_address: usize,
    /// The TLS handshake timeout.
    pub handshake: Duration,
    /// The timeout for request headers, and for a connection's first request.
    pub headers: Duration,
    /// The timeout for a request, from its headers to the response headers.
    pub request: Duration,
    /// The time after which an idle connection is closed.
    pub idle: Duration,
}

/// A server's connection slots.
pub(super) struct ConnectionSlots {
    strangers: Shares,
    callers: Shares,
}

/// One connection's slot. The values are the client's address, its share, and true if the connection was promoted to a caller.
pub(super) struct ConnectionSlot(Mutex<(IpAddr, Share, bool)>);

impl ConnectionSlots {
    pub fn new(limits: &ServerLimits, callers: &Callers) -> Self {
        let strangers = if callers.are_all_recognized() {
            // Legitimate callers are promoted, so a connection that stays a stranger may be evicted.
            Shares::newest_first(limits.connections)
        } else {
            Shares::new(limits.connections, limits.per_address)
        };
        Self { strangers, callers: Shares::new(limits.connections, limits.connections) }
    }

    /// Returns a slot for a new connection, which counts as a stranger's at first.
    pub fn enter(&self, address: IpAddr) -> Result<ConnectionSlot, Full> {
        let mut share = self.strangers.enter(address);
        share.take(1)?;
        Ok(ConnectionSlot(Mutex::new((address, share, false))))
    }

    /// Moves a connection from the strangers' slots to the callers' slots, if there is a slot for it.
    pub fn promote(&self, place: &ConnectionSlot) {
        let mut place = place.0.lock();
        let (address, share, promoted) = &mut *place;
        let mut wanted = self.callers.enter(*address);
        if !*promoted && wanted.take(1).is_ok() {
            (*share, *promoted) = (wanted, true);
        }
    }
}

impl ConnectionSlot {
    /// Returns a token that is canceled when the slot is given to another connection.
    pub fn evicted(&self) -> CancellationToken {
        self.0.lock().1.evicted().clone()
    }
}
