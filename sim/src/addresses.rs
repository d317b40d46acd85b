//! Address allocation: each stack claims a /16 slice in 127.0.0.0/8, so that its traffic never leaves the host.
//!
//! A VM reports a private address in 10.0.0.0/8, because Kubernetes rejects loopback addresses in EndpointSlices, and
//! because vCenter should show an address like a real guest's. Clients connect to the loopback address with the same
//! last three octets.
//!
//! Go programs don't use a proxy for loopback addresses. To test proxies, set the environment variable
//! `LAYERCAKE_SERVE_REPORTED`. Guests then listen on their reported addresses, which requires a network namespace in
//! which 10.0.0.0/8 is local.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;

/// The first octet in addresses that guests report.
const REPORTED: u8 = 10;
const LOOPBACK: u8 = 127;
/// The first octet in addresses on which guests listen.
static SERVED: LazyLock<u8> =
    LazyLock::new(
        || {
            if std::env::var_os("LAYERCAKE_SERVE_REPORTED").is_some() { REPORTED } else { LOOPBACK }
        },
    );

/// Returns true if guests listen on the addresses that they report.
pub fn are_served_as_reported() -> bool {
    *SERVED == REPORTED
}

/// The port on 127.X.0.1 that a stack keeps bound while it owns 127.X.0.0/16.
const CLAIM_PORT: u16 = 6440;
/// The third octet in load balancer addresses.
const VIP_BLOCK: u8 = 255;
/// The third octet in addresses that the IPAM provider assigns.
const CLAIMED_BLOCK: u8 = VIP_BLOCK - 1;

/// Returns true if guests can listen on this address: it is in 127.0.0.0/8, or in 10.0.0.0/8 if [`are_served_as_reported`].
pub fn is_of_guests(address: Ipv4Addr) -> bool {
    address.octets()[0] == *SERVED
}

/// Returns the address on this host that serves a reported address.
///
/// ```
/// # use std::net::Ipv4Addr;
/// assert_eq!(sim::addresses::served(Ipv4Addr::new(10, 7, 1, 2)), Ipv4Addr::new(127, 7, 1, 2));
/// ```
pub fn served(reported: Ipv4Addr) -> Ipv4Addr {
    let [_, b, c, d] = reported.octets();
    Ipv4Addr::new(*SERVED, b, c, d)
}

/// Returns the address that a guest reports if it listens on `served`.
pub fn reported(served: Ipv4Addr) -> Ipv4Addr {
    let [_, b, c, d] = served.octets();
    Ipv4Addr::new(REPORTED, b, c, d)
}

/// A guest address in both forms: the address that the guest reports, and the address to which clients connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GuestAddress {
    /// The address that the guest reports to vCenter: 10.X.b.c.
    pub reported: Ipv4Addr,
    /// The address on which the guest listens: 127.X.b.c, or `reported` if [`are_served_as_reported`].
    pub served: Ipv4Addr,
}

impl GuestAddress {
    /// Returns the pair for an address on which a guest listens.
    pub fn served_on(served: Ipv4Addr) -> Self {
        Self { reported: reported(served), served }
    }

    /// Returns the pair for an address that a guest was assigned.
    pub fn reported_as(reported: Ipv4Addr) -> Self {
        Self { reported, served: served(reported) }
    }
}

/// The reasons why an address slice or a guest address can't be allocated.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Other stacks own all slices, or loopback addresses can't be bound.
    #[error("no free address range in 127.2.0.0 to 127.250.0.0: stop another stack (last: {0})")]
    NoSubnet(std::io::Error),
    /// All addresses in the slice are in use.
    #[error("no free address left in 127.{0}.0.0/16")]
    Exhausted(u8),
    /// The requested address isn't a virtual IP of the slice, or another owner has it.
    #[error("the address {0} is not available")]
    Unavailable(Ipv4Addr),
}

/// A claimed slice 127.X.0.0/16 and its leases.
///
/// Dropping the last clone releases the claim.
#[derive(Clone, Debug)]
pub struct Subnet(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    number: u8,
    _claim: TcpListener,
    guests: Mutex<Pool>,
    vips: Mutex<Pool>,
}

impl Subnet {
    /// Claims a slice that other stacks on this host don't use. The search starts at a random slice.
    pub fn claim() -> Result<Self, Error> {
        let start = rand::random_range(2..=250_u8);
        let mut last = std::io::Error::other("not tried");
        // Skip 10.96.0.0/12, because clusters use it for Services.
        let numbers = (start..=250).chain(2..start).filter(|number| !(96..=111).contains(number));
        for number in numbers {
            match TcpListener::bind((Ipv4Addr::new(127, number, 0, 1), CLAIM_PORT)) {
                Ok(claim) => return Ok(Self::of(number, claim)),
                Err(error) => last = error,
            }
        }
        Err(Error::NoSubnet(last))
    }

    fn of(number: u8, claim: TcpListener) -> Self {
        let guests = Pool::new(number, 1, CLAIMED_BLOCK - 1);
        let vips = Pool::new(number, VIP_BLOCK, VIP_BLOCK);
        Self(Arc::new(Inner { number, _claim: claim, guests: Mutex::new(guests), vips: Mutex::new(vips) }))
    }

    /// Returns the second octet of every address in this slice.
    pub fn number(&self) -> u8 {
        self.0.number
    }

    /// Returns the address range for the IPAM provider, in the format of its pools (`FIRST-LAST`).
    ///
    /// If `real` is true, the range is in the QEMU machines' network. Otherwise, simulated guests can listen on it.
    pub fn claimed_addresses(&self, real: bool) -> String {
        let first = format!("{}.{}.{CLAIMED_BLOCK}", if real { REPORTED } else { *SERVED }, self.number());
        format!("{first}.1-{first}.254")
    }

    /// Leases a guest address. The owner gets the same address until the address is released, as with DHCP.
    pub fn guest_address(&self, owner: &str) -> Result<GuestAddress, Error> {
        self.0.guests.lock().lease(owner).map(GuestAddress::served_on).ok_or(Error::Exhausted(self.0.number))
    }

    /// Releases the guest address of `owner`, if there is one.
    pub fn release_guest_address(&self, owner: &str) {
        self.0.guests.lock().release(owner);
    }

    /// Leases a virtual IP, by default 127.X.255.n. The owner gets the same address until the address is released.
    pub fn vip(&self, owner: &str) -> Result<Ipv4Addr, Error> {
        self.0.vips.lock().lease(owner).ok_or(Error::Exhausted(self.0.number))
    }

    /// Leases this virtual IP. Replaces the owner's previous lease.
    pub fn vip_at(&self, owner: &str, address: Ipv4Addr) -> Result<Ipv4Addr, Error> {
        self.0.vips.lock().lease_at(owner, address).ok_or(Error::Unavailable(address))
    }

    /// Releases the virtual IP of `owner`, if there is one.
    pub fn release_vip(&self, owner: &str) {
        self.0.vips.lock().release(owner);
    }
}

/// A pool of /24 blocks. Leases are round-robin, so that a released address is reused as late as possible.
#[derive(Debug)]
struct Pool {
    number: u8,
    blocks: std::ops::RangeInclusive<u8>,
    leases: BTreeMap<String, Ipv4Addr>,
    next: u32,
}

impl Pool {
    const HOSTS: u32 = 254;

    fn new(number: u8, first: u8, last: u8) -> Self {
        Self { number, blocks: first..=last, leases: BTreeMap::new(), next: 0 }
    }

    fn size(&self) -> u32 {
        Self::HOSTS * u32::from(self.blocks.end() - self.blocks.start() + 1)
    }

    fn address(&self, place: u32) -> Ipv4Addr {
        let [.., block] = (place / Self::HOSTS).to_be_bytes();
        let [.., host] = (place % Self::HOSTS + 1).to_be_bytes();
        Ipv4Addr::new(*SERVED, self.number, self.blocks.start() + block, host)
    }

    fn lease(&mut self, owner: &str) -> Option<Ipv4Addr> {
        if let Some(address) = self.leases.get(owner) {
            return Some(*address);
        }
        let size = self.size();
        for _ in 0..size {
            let address = self.address(self.next);
            self.next = (self.next + 1) % size;
            if !self.leases.values().any(|used| *used == address) {
                self.leases.insert(owner.to_owned(), address);
                return Some(address);
            }
        }
        None
    }

    fn lease_at(&mut self, owner: &str, address: Ipv4Addr) -> Option<Ipv4Addr> {
        let is_of_pool = (0..self.size()).any(|place| self.address(place) == address);
        let is_taken = self.leases.iter().any(|(other, used)| *used == address && other != owner);
        if !is_of_pool || is_taken {
            return None;
        }
        self.leases.insert(owner.to_owned(), address);
        Some(address)
    }

    fn release(&mut self, owner: &str) {
        self.leases.remove(owner);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_keeps_its_address_and_a_released_one_rests() {
        let mut pool = Pool::new(9, 1, 254);
        let first = pool.lease("a").unwrap();
        assert_eq!(first, Ipv4Addr::new(127, 9, 1, 1));
        assert_eq!(pool.lease("a"), Some(first));
        pool.release("a");
        assert_eq!(pool.lease("b"), Some(Ipv4Addr::new(127, 9, 1, 2)));
    }

    #[test]
    fn a_pool_runs_through_its_blocks_and_ends() {
        let mut pool = Pool::new(9, 255, 255);
        for number in 0..254 {
            let address = pool.lease(&number.to_string()).unwrap();
            assert_eq!(address.octets()[2], 255);
            assert!((1..=254).contains(&address.octets()[3]));
        }
        assert_eq!(pool.lease("one too many"), None);
        pool.release("7");
        assert_eq!(pool.lease("again"), Some(Ipv4Addr::new(127, 9, 255, 8)));
        assert_eq!(Pool::new(9, 1, 254).address(254), Ipv4Addr::new(127, 9, 2, 1));
    }

    #[test]
    fn a_requested_address_is_leased_once() {
        let mut pool = Pool::new(9, 255, 255);
        let wanted = Ipv4Addr::new(127, 9, 255, 7);
        pool.lease("a").unwrap();
        assert_eq!(pool.lease_at("a", wanted), Some(wanted));
        assert_eq!(pool.lease("a"), Some(wanted));
        assert_eq!(pool.lease_at("b", wanted), None);
        for outside in
            [Ipv4Addr::new(127, 9, 254, 7), Ipv4Addr::new(127, 9, 255, 255), Ipv4Addr::new(192, 0, 2, 1)]
        {
            assert_eq!(pool.lease_at("b", outside), None, "{outside}");
        }
        assert_eq!(pool.lease_at("b", Ipv4Addr::new(127, 9, 255, 1)), Some(Ipv4Addr::new(127, 9, 255, 1)));
    }

    #[test]
    fn two_stacks_get_two_slices() {
        let (one, two) = (Subnet::claim().unwrap(), Subnet::claim().unwrap());
        assert_ne!(one.number(), two.number());
        let address = one.guest_address("vm-1").unwrap();
        assert_eq!(served(address.reported), address.served);
        assert_eq!(reported(address.served), address.reported);
    }
}
