//! Simulates a VRRP virtual IP: which machine holds it, the failover delay, and client behavior during a failover.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use axum::serve::Listener;
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use super::balancer::join;

/// The failover delay after the holder resigns: the VRRP skew time for priority 100.
const RESIGNED: Duration = Duration::from_millis(610);
/// The failover delay after the holder disappears: three missed advertisements, one per second, plus the skew time.
const SILENT: Duration = Duration::from_millis(3610);
/// The time until a client's connection fails while the address doesn't have a holder: three ARP requests.
const NO_HOST: Duration = Duration::from_secs(3);

/// The VRRP addresses on a site.
#[derive(Debug, Default)]
pub struct HeldAddresses(Mutex<HashMap<SocketAddr, Weak<HeldAddress>>>);

impl HeldAddresses {
    /// Returns the shared state of an address. All callers get the same value as long as at least one of them keeps it.
    pub fn at(&self, address: SocketAddr) -> Arc<HeldAddress> {
        let mut all = self.0.lock();
        all.retain(|_, one| one.strong_count() > 0);
        all.get(&address).and_then(Weak::upgrade).unwrap_or_else(|| {
            let one = Arc::new(HeldAddress::new(address));
            all.insert(address, Arc::downgrade(&one));
            one
        })
    }
}

/// A VRRP address that several machines can hold in turn.
#[derive(Debug)]
pub struct HeldAddress {
    address: SocketAddr,
    holder: watch::Sender<Option<SocketAddr>>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    free_from: Instant,
    accepting: Option<AbortOnDropHandle<()>>,
}

impl HeldAddress {
    fn new(address: SocketAddr) -> Self {
        let state = State { free_from: Instant::now(), accepting: None };
        Self { address, holder: watch::Sender::new(None), state: Mutex::new(state) }
    }

    /// Makes `server` the holder if the address is free and the failover delay has passed.
    ///
    /// Returns `None` if another server holds the address, if the delay hasn't passed, or if the address can't be
    /// bound.
    pub fn take(self: &Arc<Self>, server: SocketAddr) -> Option<Holding> {
        self.take_at(server, Instant::now())
    }

    fn take_at(self: &Arc<Self>, server: SocketAddr, now: Instant) -> Option<Holding> {
        let mut state = self.state.lock();
        if self.holder.borrow().is_some() || now < state.free_from {
            return None;
        }
        if state.accepting.is_none() {
            state.accepting = Some(listen(self.address, &self.holder).ok()?);
        }
        self.holder.send_replace(Some(server));
        Some(Holding { address: Arc::clone(self), taken_after: SILENT })
    }

    fn vacate(&self, taken_after: Duration) {
        let mut state = self.state.lock();
        state.free_from = Instant::now() + taken_after;
        self.holder.send_replace(None);
    }
}

/// Proof that a machine holds an address. Dropping it simulates a machine that stops sending advertisements.
#[derive(Debug)]
pub struct Holding {
    address: Arc<HeldAddress>,
    taken_after: Duration,
}

impl Holding {
    /// Gives the address up with an announcement, so that another machine can take it after the short delay.
    pub fn resign(mut self) {
        self.taken_after = RESIGNED;
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        self.address.vacate(self.taken_after);
    }
}

fn listen(
    address: SocketAddr,
    holder: &watch::Sender<Option<SocketAddr>>,
) -> std::io::Result<AbortOnDropHandle<()>> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let mut listener = TcpListener::from_std(listener)?;
    let holder = holder.subscribe();
    let accept = async move {
        loop {
            // The trait's `accept` waits and tries again if the process runs out of file descriptors.
            let (client, _) = Listener::accept(&mut listener).await;
            tokio::spawn(carry(client, holder.clone()));
        }
    };
    Ok(AbortOnDropHandle::new(tokio::spawn(accept)))
}

/// Forwards a client to the holder. If there isn't a holder, waits for one for `NO_HOST`, and then closes the connection.
async fn carry(mut client: TcpStream, mut holder: watch::Receiver<Option<SocketAddr>>) {
    let next = tokio::time::timeout(NO_HOST, holder.wait_for(Option::is_some)).await;
    let Some(server) = next.ok().and_then(|next| next.ok().and_then(|next| *next)) else { return };
    join(&mut client, server).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address() -> Arc<HeldAddress> {
        let probe = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        HeldAddresses::default().at(probe.local_addr().unwrap())
    }

    #[tokio::test]
    async fn an_address_goes_on_at_once_if_its_holder_resigns_and_late_if_it_falls_silent() {
        let (address, server) = (address(), SocketAddr::from(([127, 0, 0, 1], 1)));
        let first = address.take(server).unwrap();
        assert!(address.take(server).is_none(), "somebody holds it");
        let before = Instant::now();
        first.resign();
        assert!(address.take_at(server, before).is_none(), "nobody knows yet");
        let second = address.take_at(server, Instant::now() + RESIGNED).unwrap();
        let before = Instant::now();
        drop(second);
        assert!(address.take_at(server, before + RESIGNED).is_none(), "it may only be slow");
        assert!(address.take_at(server, Instant::now() + SILENT).is_some());
    }

    #[tokio::test]
    async fn one_address_is_one_for_all() {
        let all = HeldAddresses::default();
        let at = |port| all.at(SocketAddr::from(([127, 0, 0, 1], port)));
        let one = at(1);
        assert!(Arc::ptr_eq(&one, &at(1)) && !Arc::ptr_eq(&one, &at(2)));
    }
}
