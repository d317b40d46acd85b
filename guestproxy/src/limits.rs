//! The limits, with the reasons for their values.
//!
//! Cluster API's managers hold three kinds of data from a workload cluster: responses that they decode, cached objects,
//! and connection buffers. Memory is estimated as the decoded size ([`bounds::JsonMeter::decoded_bytes`]). In
//! measurements, a manager uses up to three times as much while it decodes.

use std::time::Duration;

/// The bytes by which each Machine raises its cluster's limits. A node with 50 images and its managed fields is
/// estimated at 105 KiB.
pub const MACHINE: usize = 128 << 10;
/// The maximum decoded size of a response, in bytes, for a cluster without Machines. Watches are exempt.
pub const ANSWER: usize = 16 << 20;
/// The maximum decoded size, in bytes, of a response that is forwarded without waiting for other responses.
pub const SMALL_ANSWER: usize = 1 << 20;
/// The maximum number of responses from one cluster that are larger than [`SMALL_ANSWER`] and are forwarded at the same time.
pub const LARGE_ANSWERS_OF_A_GUEST: usize = 1;
/// The maximum number of responses from all clusters that are larger than [`SMALL_ANSWER`] and are forwarded at the same time.
/// Four responses take an estimated 64 MiB.
pub const LARGE_ANSWERS: usize = 4;
/// The maximum decoded size of an error response, in bytes. Managers copy the text into conditions and logs.
pub const ERROR: usize = 64 << 10;

/// The maximum encoded size of a watch event, in bytes. etcd stores at most 1.5 MiB per object.
pub const EVENT_BYTES: usize = 2 << 20;
/// The maximum decoded size of a watch event, in bytes.
pub const EVENT: usize = 4 << 20;
/// The minimum size, in bytes, with which a cached object is counted.
pub const OBJECT: usize = 2 << 10;
/// The allowance for each cluster's cached objects, in bytes. Each of the cluster's Machines raises it by [`MACHINE`].
pub const CACHED: usize = 512 << 10;
/// The maximum number of bytes in [`MORE_CACHED`] that one cluster can use.
pub const MORE_CACHED_OF_A_GUEST: usize = 16 << 20;
/// The allowance, in bytes, that clusters share when their own allowances are used up. The smallest memory limit of a manager
/// is 1 GiB, and this is an eighth of it.
pub const MORE_CACHED: usize = 128 << 20;
/// The time for which a watch is refused after it exceeded its cluster's limit.
pub const REFUSED_FOR: Duration = Duration::from_secs(30);

/// The maximum number of bytes from a cluster through a tunnel. KubeadmControlPlane opens a tunnel for each of its few etcd
/// calls. The largest response, the member list with the certificates for the TLS handshake, is smaller than 16 KiB.
pub const TUNNEL: u64 = 256 << 10;
/// The maximum tunnel duration. KubeadmControlPlane's calls time out after 15 s.
pub const TUNNEL_TIME: Duration = Duration::from_mins(2);
/// The maximum number of bytes from a cluster through a connection that can't be decrypted, because the management cluster
/// doesn't have the key of the cluster's certificate authority.
pub const OPAQUE: u64 = 64 << 20;

/// The connection limit for one cluster. A manager uses one connection for each watch and each concurrent call, fewer
/// than 20.
pub const CONNECTIONS_OF_A_GUEST: usize = 128;
/// The connection limit for all clusters. 500 clusters with 8 connections each need half of it.
pub const CONNECTIONS: usize = 8192;
/// The limit for connections whose client hasn't shown a certificate for the cluster. At the limit, a new connection evicts
/// the oldest.
pub const STRANGERS: usize = 256;
/// The maximum size for HTTP headers, in bytes.
pub const HEADERS: usize = 64 << 10;

/// The timeout for the `CONNECT` request to the proxy, and for a switch of a connection's protocol.
pub const CONNECT: Duration = Duration::from_secs(5);
/// The timeout to connect to a cluster. Managers time out requests after 10 s.
pub const DIAL: Duration = Duration::from_secs(8);
/// The timeout for a TLS handshake.
pub const HANDSHAKE: Duration = Duration::from_secs(10);
/// The maximum time until a response begins, or until a large response may continue. An API server ends requests other than
/// watches after 60 s.
pub const ANSWER_BEGINS: Duration = Duration::from_secs(90);
/// The maximum time between two pieces of a response other than a watch, and between two pieces of a watch event.
pub const PIECE: Duration = Duration::from_secs(30);
/// The maximum watch duration. Managers ask for 5 to 10 minutes.
pub const WATCH: Duration = Duration::from_mins(15);
/// The idle time after which keep-alive probes check a connection. A virtual IP moves without closing connections.
pub const KEEPALIVE: Duration = Duration::from_secs(15);

/// Returns the maximum decoded size, in bytes, of a response or of all pages in a list. `machines` is the cluster's Machine
/// count.
pub fn answer(machines: usize) -> usize {
    ANSWER.saturating_add(MACHINE.saturating_mul(machines))
}

/// Returns a cluster's own allowance for cached objects, in bytes. `machines` is the cluster's Machine count.
pub fn cached(machines: usize) -> usize {
    CACHED.saturating_add(MACHINE.saturating_mul(machines))
}
