//! Addresses that others use although the clusters that claimed them have no nodes yet: two management clusters may have the same address
//! pool, and neither knows what the other assigned.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use api::names::API_SERVER_PORT;
use tokio::net::TcpStream;
use tokio::time::Instant;

/// The maximum number of addresses that a cluster claims, one after another.
pub const MAX_CLAIMS: usize = 8;
/// The time between two looks at an address that answers.
pub const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// The time that an address has to answer.
const WITHIN: Duration = Duration::from_millis(500);
/// An address that answers for so long is left to its user. The VMs of a cluster that was just deleted answer for a moment.
const LASTING: Duration = Duration::from_secs(12);

/// How capw knows that an address is in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sign {
    /// It answers.
    Answer,
    /// This VM in vCenter has it as its control plane endpoint, and may be switched off.
    Vm(String),
}

/// An address that others use before the cluster that claimed it has a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OccupiedAddress {
    /// The address.
    pub address: IpAddr,
    /// Its claim, as `IPAddressClaim namespace/name`.
    pub claim: String,
    /// The sign of its use.
    pub sign: Sign,
    /// It is in use for so long that the cluster claims another.
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

/// Since when each address has answered, by the claim's uid.
#[derive(Default)]
pub struct Occupied(Mutex<HashMap<String, Instant>>);

impl Occupied {
    /// Connects to an address. Returns it if it answers. `uid` and `claim` identify its claim.
    pub async fn look(&self, address: IpAddr, uid: &str, claim: String) -> Option<OccupiedAddress> {
        let answers = answers(SocketAddr::new(address, u16::try_from(API_SERVER_PORT).ok()?)).await;
        let since = self.record(uid, answers)?;
        Some(OccupiedAddress { address, claim, sign: Sign::Answer, is_lasting: since.elapsed() >= LASTING })
    }

    /// Records whether a claim's address answers now. Returns since when it has.
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
