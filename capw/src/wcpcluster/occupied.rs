//! Detects claimed addresses that other machines already use. Two management clusters can share an address pool without knowing
//! about each other's assignments.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use api::names::API_SERVER_PORT;
use tokio::net::TcpStream;
use tokio::time::Instant;

/// The maximum number of addresses that a cluster claims, one after the other.
pub const MAX_CLAIMS: usize = 8;
/// The interval between checks while an address is in use.
pub const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// The timeout of the connection attempt to the address.
const WITHIN: Duration = Duration::from_millis(500);
/// The time for which an address must answer before it counts as taken. The VMs of a deleted cluster may still answer for a
/// moment.
const LASTING: Duration = Duration::from_secs(12);

/// The evidence that an address is in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sign {
    /// The address answers.
    Answer,
    /// This VM in vCenter has the address as its control plane endpoint. The VM may be powered off.
    Vm(String),
}

/// A claimed address that another machine uses, although the cluster doesn't have a node yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OccupiedAddress {
    pub address: IpAddr,
    /// The claim, as `IPAddressClaim namespace/name`.
    pub claim: String,
    pub sign: Sign,
    /// True if the cluster must claim another address: a VM in vCenter has this one, or it has answered for at least `LASTING`.
    pub is_lasting: bool,
}

impl fmt::Display for OccupiedAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, claim, sign, is_lasting: _ } = self;
        match sign {
            Sign::Answer => write!(
                f,
                "port {API_SERVER_PORT} of {address}, the address of {claim}, answers although the cluster has no node yet. Another machine uses it, such as a control plane of another management cluster with the same pool. Use a pool of addresses that no other machine has"
            ),
            Sign::Vm(vm) => write!(
                f,
                "{vm} has {address}, the address of {claim}, as its control plane endpoint in vCenter. Use a pool of addresses that no other management cluster has. The log of the VM operator names the VM"
            ),
        }
    }
}

/// The time of the first answer from each address that still answers, by claim UID.
#[derive(Default)]
pub struct Occupied(Mutex<HashMap<String, Instant>>);

impl Occupied {
    /// Connects to the address, and returns the address if it answers. `uid` and `claim` are the UID and name of the address's
    /// claim.
    pub async fn look(&self, address: IpAddr, uid: &str, claim: String) -> Option<OccupiedAddress> {
        let answers = answers(SocketAddr::new(address, u16::try_from(API_SERVER_PORT).ok()?)).await;
        let since = self.record(uid, answers)?;
        Some(OccupiedAddress { address, claim, sign: Sign::Answer, is_lasting: since.elapsed() >= LASTING })
    }

    /// Records whether the address of the claim with this UID answers. Returns the time of the first answer, or `None` if the
    /// address doesn't answer.
    fn record(&self, claim: &str, answers: bool) -> Option<Instant> {
        let mut since = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !answers {
            since.remove(claim);
            return None;
        }
        Some(*since.entry(claim.to_owned()).or_insert_with(Instant::now))
    }
}

async fn answers(address: SocketAddr) -> bool {
    let connected = tokio::time::timeout(WITHIN, TcpStream::connect(address)).await;
    connected.is_ok_and(|connected| connected.is_ok())
}
