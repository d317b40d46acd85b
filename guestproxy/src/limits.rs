//! The limits, with their reasons.
//!
//! Cluster API's managers hold three kinds of data of a workload cluster: answers that are being decoded, objects in caches, and
//! buffers of connections. Memory is estimated as the size in decoded form ([`bounds::JsonMeter::decoded_bytes`]); measured, a manager
//! uses up to three times as much while it decodes.

use std::time::Duration;

/// Each Machine raises its cluster's limits by this. A node with 50 images and its managed fields is estimated at 105 KiB.
pub const MACHINE: usize = 128 << 10;
/// One answer that is not a watch, for a cluster without Machines.
pub const ANSWER: usize = 16 << 20;
/// An answer of this size needs no turn.
pub const SMALL_ANSWER: usize = 1 << 20;
/// Larger answers at the same time: of one cluster, and of all. 4 of them take 64 MiB as estimated.
pub const LARGE_ANSWERS_OF_A_GUEST: usize = 1;
/// See [`LARGE_ANSWERS_OF_A_GUEST`].
pub const LARGE_ANSWERS: usize = 4;
/// The bytes of an answer that is an error: its text gets into conditions and logs.
pub const ERROR: usize = 64 << 10;

/// The bytes of one event of a watch: etcd stores at most 1.5 MiB of an object.
pub const EVENT_BYTES: usize = 2 << 20;
/// The estimated size of one event.
pub const EVENT: usize = 4 << 20;
/// The least that an object in a cache counts for.
pub const OBJECT: usize = 2 << 10;
/// The objects in caches that each cluster can have, beside those for its Machines.
pub const CACHED: usize = 512 << 10;
/// The part of [`MORE_CACHED`] that one cluster can use in addition.
pub const MORE_CACHED_OF_A_GUEST: usize = 16 << 20;
/// Memory that clusters share when their own is used up: an eighth of the smallest memory limit of a manager, which is 1 GiB.
pub const MORE_CACHED: usize = 128 << 20;
/// A watch that passed the limit of its cluster is refused for this time.
pub const REFUSED_FOR: Duration = Duration::from_secs(30);

/// The bytes of a tunnel from a cluster to a manager. KubeadmControlPlane makes one for each of its few calls of etcd; the largest
/// answer, the list of members with certificates of the TLS handshake, has less than 16 KiB.
pub const TUNNEL: u64 = 256 << 10;
/// The time of a tunnel. KubeadmControlPlane's calls have 15 s each.
pub const TUNNEL_TIME: Duration = Duration::from_mins(2);
/// The bytes of a connection that cannot be decrypted because the cluster's authority has no key here.
pub const OPAQUE: u64 = 64 << 20;

/// Connections of one cluster. A manager uses one for each watch and each concurrent call, fewer than 20.
pub const CONNECTIONS_OF_A_GUEST: usize = 128;
/// Connections of all clusters: 500 with 8 each, twice.
pub const CONNECTIONS: usize = 8192;
/// Connections whose client has not shown the cluster's certificate. The newest takes from the oldest.
pub const STRANGERS: usize = 256;
/// The bytes of headers.
pub const HEADERS: usize = 64 << 10;

/// The time for a request to the proxy itself.
pub const CONNECT: Duration = Duration::from_secs(5);
/// The time to connect to a cluster. Managers give a request 10 s.
pub const DIAL: Duration = Duration::from_secs(8);
/// The time of a TLS handshake.
pub const HANDSHAKE: Duration = Duration::from_secs(10);
/// The time until an answer begins. An API server ends requests other than watches after 60 s.
pub const ANSWER_BEGINS: Duration = Duration::from_secs(90);
/// The time between two pieces of an answer that is not a watch, and within one event of a watch.
pub const PIECE: Duration = Duration::from_secs(30);
/// The time of a watch. Managers ask for 5 to 10 minutes.
pub const WATCH: Duration = Duration::from_mins(15);
/// A connection on which nothing came is asked whether it lives: a virtual IP moves without a word.
pub const KEEPALIVE: Duration = Duration::from_secs(15);

/// The most that an answer, or the pages of a list, can have.
pub fn answer(machines: usize) -> usize {
    ANSWER.saturating_add(MACHINE.saturating_mul(machines))
}

/// The objects in caches that are a cluster's own.
pub fn cached(machines: usize) -> usize {
    CACHED.saturating_add(MACHINE.saturating_mul(machines))
}
