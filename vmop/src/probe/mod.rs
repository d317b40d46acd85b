//! TCP readiness probes. They run outside reconciles, which set targets and read results.
//!
//! A changed result enqueues its object. A target that refuses connections is probed every second, so that a node isn't
//! delayed by a full period. A target that doesn't respond at all is probed with backoff. Each namespace has a
//! connection share, so that unresponsive addresses delay only probes in their own namespace.

pub mod address;

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use address::AddressMap;
use bounds::Lane;
use futures::FutureExt;
use futures::future::BoxFuture;
use kube::Resource;
use kube::runtime::reflector::ObjectRef;
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

/// The maximum number of concurrent connection attempts in total. An attempt can take a minute, so a few namespaces with
/// unresponsive addresses must not use all of them.
const AT_ONCE: usize = 256;
/// The maximum number of concurrent connection attempts for one namespace.
const SHARE: usize = 16;
/// The retry interval for a target that refuses connections, unless its period is shorter.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// The maximum retry interval for a target that doesn't respond.
const SLOWEST: Duration = Duration::from_secs(30);

/// The address, port and timing for a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeTarget {
    /// The address that the VM reports.
    pub address: IpAddr,
    /// The TCP port.
    pub port: u16,
    /// The interval between two probes of a target that accepts connections.
    pub period: Duration,
    /// The timeout for an attempt.
    pub timeout: Duration,
}

/// A probe's result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ProbeResult {
    /// Not probed yet.
    #[default]
    Unknown,
    /// The port accepts connections, or the guest sends the requested heartbeat.
    Answers,
    /// The probe failed. Contains the cause.
    NoAnswer(String),
}

/// An object with a probe, as the key for the probe's target and result.
pub trait Probed: Clone + Eq + Hash + Send + 'static {
    /// Returns the namespace whose connection share the probe uses.
    fn namespace(&self) -> &str;
}

impl<K> Probed for ObjectRef<K>
where
    K: Resource<DynamicType: Clone + Eq + Hash + Send> + 'static,
{
    fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or_default()
    }
}

/// The function that opens a connection.
type Connect = fn(SocketAddr) -> BoxFuture<'static, io::Result<()>>;

fn connect(address: SocketAddr) -> BoxFuture<'static, io::Result<()>> {
    async move { TcpStream::connect(address).await.map(drop) }.boxed()
}

/// Probes objects' targets and reports changed results.
pub struct Prober<K> {
    probes: Mutex<HashMap<K, Probe>>,
    maps: Vec<AddressMap>,
    connect: Connect,
    lane: Lane,
    changed: mpsc::UnboundedSender<K>,
}

struct Probe {
    target: ProbeTarget,
    result: Arc<Mutex<ProbeResult>>,
    _task: AbortOnDropHandle<()>,
}

impl<K: Probed> Prober<K> {
    /// Returns a prober without targets, and a receiver that yields an object each time its result changes.
    pub fn new(maps: Vec<AddressMap>) -> (Self, mpsc::UnboundedReceiver<K>) {
        Self::with(maps, connect)
    }

    fn with(maps: Vec<AddressMap>, connect: Connect) -> (Self, mpsc::UnboundedReceiver<K>) {
        let (changed, receiver) = mpsc::unbounded_channel();
        let lane = Lane::new(AT_ONCE, SHARE);
        (Self { probes: Mutex::default(), maps, connect, lane, changed }, receiver)
    }

    /// Starts or changes the object's probe, or stops it if `target` is `None`.
    pub fn set_target(&self, object: &K, target: Option<ProbeTarget>) {
        let mut probes = self.probes.lock();
        let Some(target) = target else {
            probes.remove(object);
            return;
        };
        if probes.get(object).is_some_and(|probe| probe.target == target) {
            return;
        }
        let result = Arc::new(Mutex::new(ProbeResult::Unknown));
        let address = self.maps.iter().fold(target.address, |address, map| map.dial(address));
        let watched = Watched {
            dial: SocketAddr::new(address, target.port),
            target,
            connect: self.connect,
            result: Arc::clone(&result),
            lane: self.lane.clone(),
        };
        let watch = watch(watched, self.changed.clone(), object.clone());
        let task = AbortOnDropHandle::new(tokio::spawn(watch));
        probes.insert(object.clone(), Probe { target, result, _task: task });
    }

    /// Returns the object's latest result for `target`, or [`ProbeResult::Unknown`] if that target isn't probed.
    pub fn result(&self, object: &K, target: Option<&ProbeTarget>) -> ProbeResult {
        let probes = self.probes.lock();
        let probe = probes.get(object).filter(|probe| Some(&probe.target) == target);
        probe.map_or(ProbeResult::Unknown, |probe| probe.result.lock().clone())
    }
}

/// A target and its probe's resources.
struct Watched {
    dial: SocketAddr,
    target: ProbeTarget,
    connect: Connect,
    result: Arc<Mutex<ProbeResult>>,
    lane: Lane,
}

async fn watch<K: Probed>(watched: Watched, changed: mpsc::UnboundedSender<K>, object: K) {
    let Watched { dial, target, connect, result, lane } = watched;
    let mut failures = 0;
    loop {
        let answer = {
            let _turn = lane.enter(object.namespace()).await;
            attempt(connect(dial), target.timeout).await
        };
        failures = if answer.is_ok() { 0 } else { failures + 1 };
        let old = result.lock().clone();
        let (new, pause) = judged(&old, answer, failures, &target);
        if new != old {
            *result.lock() = new;
            if changed.send(object.clone()).is_err() {
                return;
            }
        }
        tokio::time::sleep(pause).await;
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    /// The target refused the connection.
    Refused(io::ErrorKind),
    /// The target didn't respond within this time.
    Silent(Duration),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(kind) => kind.fmt(f),
            Self::Silent(limit) => write!(f, "no answer within {} s", limit.as_secs()),
        }
    }
}

async fn attempt(connecting: BoxFuture<'static, io::Result<()>>, limit: Duration) -> Result<(), Failure> {
    match tokio::time::timeout(limit, connecting).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(Failure::Refused(error.kind())),
        Err(_elapsed) => Err(Failure::Silent(limit)),
    }
}

/// Returns the new result and the delay until the next probe. `failures` is the number of failed probes in a row.
///
/// A target that accepted connections must fail twice in a row, so that a single lost packet doesn't take the node out of
/// service.
fn judged(
    old: &ProbeResult,
    result: Result<(), Failure>,
    failures: u32,
    target: &ProbeTarget,
) -> (ProbeResult, Duration) {
    let period = target.period;
    // Include the target, so that users notice a wrong address.
    let no_answer = |why: Failure| {
        ProbeResult::NoAnswer(format!("{}: {why}", SocketAddr::new(target.address, target.port)))
    };
    match result {
        Ok(()) => (ProbeResult::Answers, period),
        Err(_) if *old == ProbeResult::Answers && failures < 2 => {
            (ProbeResult::Answers, period.min(RETRY_AFTER))
        }
        Err(why @ Failure::Refused(_)) => (no_answer(why), period.min(RETRY_AFTER)),
        Err(why @ Failure::Silent(_)) => {
            let doubled = RETRY_AFTER.saturating_mul(1 << failures.saturating_sub(1).min(5));
            (no_answer(why), doubled.min(SLOWEST))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::testing::wait::until;

    const PERIOD: Duration = Duration::from_secs(10);
    const TIMEOUT: Duration = Duration::from_secs(10);
    const TARGET: ProbeTarget = ProbeTarget {
        address: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)),
        port: 6443,
        period: PERIOD,
        timeout: TIMEOUT,
    };

    #[test]
    fn one_lost_packet_takes_no_node_out() {
        let silent = ProbeResult::NoAnswer("10.0.0.1:6443: connection refused".into());
        let refused = || Err(Failure::Refused(io::ErrorKind::ConnectionRefused));
        for (old, result, failures, new, pause) in [
            (ProbeResult::Unknown, Ok(()), 0, ProbeResult::Answers, PERIOD),
            (ProbeResult::Unknown, refused(), 1, silent.clone(), RETRY_AFTER),
            (silent.clone(), Ok(()), 0, ProbeResult::Answers, PERIOD),
            (ProbeResult::Answers, refused(), 1, ProbeResult::Answers, RETRY_AFTER),
            (ProbeResult::Answers, refused(), 2, silent.clone(), RETRY_AFTER),
        ] {
            assert_eq!(judged(&old, result, failures, &TARGET), (new, pause));
        }
    }

    #[test]
    fn a_target_from_which_nothing_comes_back_is_asked_ever_less_often() {
        let silent = |failures| {
            let failure = Err(Failure::Silent(TIMEOUT));
            judged(&ProbeResult::Unknown, failure, failures, &TARGET).1.as_secs()
        };
        assert_eq!([1, 2, 3, 4, 5, 6, 7, u32::MAX].map(silent), [1, 2, 4, 8, 16, 30, 30, 30]);
    }

    /// An object in a namespace.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    struct Object(&'static str, u8);

    impl Probed for Object {
        fn namespace(&self) -> &str {
            self.0
        }
    }

    /// The number of connections to addresses that don't respond.
    static SILENT: AtomicUsize = AtomicUsize::new(0);

    /// Addresses in 10.9.0.0/16 don't respond. Others accept connections at once.
    fn connect_or_not(address: SocketAddr) -> BoxFuture<'static, io::Result<()>> {
        match address.ip() {
            IpAddr::V4(ip) if ip.octets()[1] == 9 => {
                SILENT.fetch_add(1, Ordering::Relaxed);
                futures::future::pending().boxed()
            }
            _ => futures::future::ready(Ok(())).boxed(),
        }
    }

    #[tokio::test]
    async fn one_namespaces_silent_targets_hold_up_nobody_else() {
        let (prober, mut changed) = Prober::with(Vec::new(), connect_or_not);
        let at =
            |network: u8, host: u8| ProbeTarget { address: IpAddr::from([10, network, 0, host]), ..TARGET };
        for number in 0..200 {
            prober.set_target(&Object("team-b", number), Some(at(9, number)));
        }
        until("team-b's connections are being opened", || SILENT.load(Ordering::Relaxed) >= SHARE).await;
        let (victim, target) = (Object("team-a", 1), at(1, 1));
        prober.set_target(&victim, Some(target));
        let woken = async { while changed.recv().await.as_ref() != Some(&victim) {} };
        tokio::time::timeout(Duration::from_secs(5), woken).await.expect("others are not held up");
        assert_eq!(prober.result(&victim, Some(&target)), ProbeResult::Answers);
        assert_eq!(SILENT.load(Ordering::Relaxed), SHARE, "team-b has not more than its share");
    }

    impl Probed for &'static str {
        fn namespace(&self) -> &'static str {
            "ns"
        }
    }

    #[tokio::test]
    async fn a_result_wakes_its_object() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let map = "10.0.0.0/8=127.0.0.0/8".parse().unwrap();
        let (prober, mut changed) = Prober::new(vec![map]);
        let target = ProbeTarget { port: listener.local_addr().unwrap().port(), ..TARGET };
        prober.set_target(&"vm", Some(target));
        assert_eq!(prober.result(&"vm", Some(&target)), ProbeResult::Unknown);
        assert_eq!(changed.recv().await, Some("vm"));
        prober.set_target(&"vm", Some(target));
        assert_eq!(prober.result(&"vm", Some(&target)), ProbeResult::Answers);
        let other = ProbeTarget { port: target.port.wrapping_add(1), ..target };
        let of_other = prober.result(&"vm", Some(&other));
        assert_eq!(of_other, ProbeResult::Unknown, "nothing is known of another target");
        prober.set_target(&"vm", None);
        assert_eq!(prober.result(&"vm", Some(&target)), ProbeResult::Unknown);
    }
}
