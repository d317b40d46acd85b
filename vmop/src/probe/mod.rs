//! TCP readiness probes, outside the reconciles: a reconcile sets the target and reads the result.
//!
//! A result that changes wakes its object; one that holds costs nothing but the connection. Until a
//! target has answered once it is asked every second, so that a node is not late by a whole period.

pub mod address;

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use address::AddressMap;
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;

/// Connections that may be opening at one time.
const AT_ONCE: usize = 64;
/// How soon a target that does not answer is asked again, if its period is not shorter.
const IMPATIENT: Duration = Duration::from_secs(1);

/// What to dial and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// Address as the VM reports it.
    pub address: IpAddr,
    /// TCP port.
    pub port: u16,
    /// Time between two probes of a target that answers.
    pub period: Duration,
    /// Time after which an attempt counts as failed.
    pub timeout: Duration,
}

/// What the probe says of its target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ProbeResult {
    /// Not asked yet.
    #[default]
    Unknown,
    /// The port accepts connections.
    Answers,
    /// The port does not: why.
    NoAnswer(String),
}

/// Probes the targets of every object and tells which results changed.
pub struct Prober<K> {
    probes: Mutex<HashMap<K, Probe>>,
    maps: Vec<AddressMap>,
    gate: Arc<Semaphore>,
    changed: mpsc::UnboundedSender<K>,
}

struct Probe {
    target: Target,
    result: Arc<Mutex<ProbeResult>>,
    task: JoinHandle<()>,
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl<K: Clone + Eq + Hash + Send + 'static> Prober<K> {
    /// A prober without targets; the receiver yields every object whose result changed.
    pub fn new(maps: Vec<AddressMap>) -> (Self, mpsc::UnboundedReceiver<K>) {
        let (changed, receiver) = mpsc::unbounded_channel();
        let gate = Arc::new(Semaphore::new(AT_ONCE));
        (Self { probes: Mutex::default(), maps, gate, changed }, receiver)
    }

    /// The object is probed at `target` from now on, or not at all.
    pub fn set_target(&self, object: &K, target: Option<Target>) {
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
        let watch = watch(
            SocketAddr::new(address, target.port),
            target,
            Arc::clone(&result),
            Arc::clone(&self.gate),
            self.changed.clone(),
            object.clone(),
        );
        probes.insert(object.clone(), Probe { target, result, task: tokio::spawn(watch) });
    }

    /// The result so far of probing `target` for the object.
    pub fn result(&self, object: &K, target: Option<&Target>) -> ProbeResult {
        let probes = self.probes.lock();
        let probe = probes.get(object).filter(|probe| Some(&probe.target) == target);
        probe.map_or(ProbeResult::Unknown, |probe| probe.result.lock().clone())
    }
}

async fn watch<K: Clone>(
    dial: SocketAddr,
    target: Target,
    result: Arc<Mutex<ProbeResult>>,
    gate: Arc<Semaphore>,
    changed: mpsc::UnboundedSender<K>,
    object: K,
) {
    let mut failures = 0;
    loop {
        let answer = match gate.acquire().await {
            Ok(_permit) => attempt(dial, target.timeout).await,
            Err(_closed) => return,
        };
        failures = if answer.is_ok() { 0 } else { failures + 1 };
        let old = result.lock().clone();
        let (new, pause) = judged(&old, answer, failures, target.period);
        if new != old {
            *result.lock() = new;
            if changed.send(object.clone()).is_err() {
                return;
            }
        }
        tokio::time::sleep(pause).await;
    }
}

async fn attempt(dial: SocketAddr, limit: Duration) -> Result<(), String> {
    match tokio::time::timeout(limit, TcpStream::connect(dial)).await {
        Ok(Ok(_stream)) => Ok(()),
        Ok(Err(error)) => Err(error.kind().to_string()),
        Err(_elapsed) => Err(format!("no answer within {} s", limit.as_secs())),
    }
}

/// The new result, and how long to wait before asking again.
///
/// A target that answered must fail twice in a row, so that one lost packet takes no node out of service.
fn judged(
    old: &ProbeResult,
    result: Result<(), String>,
    failures: u32,
    period: Duration,
) -> (ProbeResult, Duration) {
    match result {
        Ok(()) => (ProbeResult::Answers, period),
        Err(_) if *old == ProbeResult::Answers && failures < 2 => {
            (ProbeResult::Answers, period.min(IMPATIENT))
        }
        Err(why) => (ProbeResult::NoAnswer(why), period.min(IMPATIENT)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_secs(10);

    #[test]
    fn one_lost_packet_takes_no_node_out() {
        let silent = ProbeResult::NoAnswer("connection refused".into());
        let refused = || Err("connection refused".to_owned());
        for (old, result, failures, new, pause) in [
            (ProbeResult::Unknown, Ok(()), 0, ProbeResult::Answers, PERIOD),
            (ProbeResult::Unknown, refused(), 1, silent.clone(), IMPATIENT),
            (silent.clone(), Ok(()), 0, ProbeResult::Answers, PERIOD),
            (ProbeResult::Answers, refused(), 1, ProbeResult::Answers, IMPATIENT),
            (ProbeResult::Answers, refused(), 2, silent.clone(), IMPATIENT),
        ] {
            assert_eq!(judged(&old, result, failures, PERIOD), (new, pause));
        }
    }

    #[tokio::test]
    async fn a_result_wakes_its_object() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let map = "10.0.0.0/8=127.0.0.0/8".parse().unwrap();
        let (prober, mut changed) = Prober::new(vec![map]);
        let target = Target {
            address: "10.0.0.1".parse().unwrap(),
            port: listener.local_addr().unwrap().port(),
            period: PERIOD,
            timeout: PERIOD,
        };
        prober.set_target(&"vm", Some(target));
        assert_eq!(prober.result(&"vm", Some(&target)), ProbeResult::Unknown);
        assert_eq!(changed.recv().await, Some("vm"));
        prober.set_target(&"vm", Some(target));
        assert_eq!(prober.result(&"vm", Some(&target)), ProbeResult::Answers);
        let other = Target { port: target.port.wrapping_add(1), ..target };
        assert_eq!(
            prober.result(&"vm", Some(&other)),
            ProbeResult::Unknown,
            "nothing is known of another target"
        );
        prober.set_target(&"vm", None);
        assert_eq!(prober.result(&"vm", Some(&target)), ProbeResult::Unknown);
    }
}
