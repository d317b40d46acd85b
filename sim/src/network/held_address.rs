//! An address that machines of a network hold in turn, as VRRP has it: who takes it up and when, and what its clients see
//! in between.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use super::balancer::join;

/// How soon after its holder resigned another takes the address: the skew time of priority 100.
const RESIGNED: Duration = Duration::from_millis(610);
/// How soon after its holder fell silent: three advertisements that did not come, one a second, and the skew time.
const SILENT: Duration = Duration::from_millis(3610);
/// How long the packets of a client are lost before it hears that there is no such host: ARP asks three times.
const NO_HOST: Duration = Duration::from_secs(3);

/// The addresses of a site that machines hold in turn.
#[derive(Debug, Default)]
pub struct HeldAddresses(Mutex<HashMap<SocketAddr, Weak<HeldAddress>>>);

impl HeldAddresses {
    /// The address, as all machines that take part in holding it see it.
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

/// An address, until no machine takes part any more.
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

    /// Has the machine whose server answers there hold the address, if it is its turn: nobody holds it, and for long enough.
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

/// That a machine holds an address. Dropping it is the machine's falling silent.
#[derive(Debug)]
pub struct Holding {
    address: Arc<HeldAddress>,
    taken_after: Duration,
}

impl Holding {
    /// Has the others know at once.
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
    let listener = TcpListener::from_std(listener)?;
    let holder = holder.subscribe();
    let accept = async move {
        // The listener fails only when the process has no file descriptor left: the clients see a refusal then.
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(carry(client, holder.clone()));
        }
    };
    Ok(AbortOnDropHandle::new(tokio::spawn(accept)))
}

/// Joins a client with the holder: the one there is, or the next, if it comes while the client sends its first packet again.
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
