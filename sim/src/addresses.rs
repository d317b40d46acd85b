//! Who lives where: every stack has a slice of 127.0.0.0/8, and no packet of it leaves the host.
//!
//! A VM reports a private address, because Kubernetes refuses loopback ones in EndpointSlices and vCenter shows what a
//! real guest would have. What dials it goes to the loopback address with the same last three numbers.
//!
//! Programs in Go use no proxy for loopback addresses. With the variable `LAYERCAKE_SERVE_REPORTED`, guests are served on the addresses
//! that they report, in a network namespace in which all of 10.0.0.0/8 is local.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;

/// The first number of the addresses that guests report, and of loopback addresses.
const REPORTED: u8 = 10;
const LOOPBACK: u8 = 127;
/// The first number of the addresses on which guests are served.
static SERVED: LazyLock<u8> =
    LazyLock::new(
        || {
            if std::env::var_os("LAYERCAKE_SERVE_REPORTED").is_some() { REPORTED } else { LOOPBACK }
        },
    );

/// Returns true if guests are served on the addresses that they report.
pub fn are_served_as_reported() -> bool {
    *SERVED == REPORTED
}

/// Held on 127.X.0.1 for as long as a stack owns 127.X.0.0/16.
const CLAIM_PORT: u16 = 6440;
/// The third number of every virtual IP that a load balancer has.
const VIP_BLOCK: u8 = 255;
/// The third number of those that are claimed of the IPAM provider.
const CLAIMED_BLOCK: u8 = VIP_BLOCK - 1;

/// Returns true if guests can be served on this address.
pub fn is_of_guests(address: Ipv4Addr) -> bool {
    address.octets()[0] == *SERVED
}

/// Where a packet for a reported address is sent on this host.
///
/// ```
/// # use std::net::Ipv4Addr;
/// assert_eq!(sim::addresses::served(Ipv4Addr::new(10, 7, 1, 2)), Ipv4Addr::new(127, 7, 1, 2));
/// ```
pub fn served(reported: Ipv4Addr) -> Ipv4Addr {
    let [_, b, c, d] = reported.octets();
    Ipv4Addr::new(*SERVED, b, c, d)
}

/// What a guest that is served on a loopback address reports as its own.
pub fn reported(served: Ipv4Addr) -> Ipv4Addr {
    let [_, b, c, d] = served.octets();
    Ipv4Addr::new(REPORTED, b, c, d)
}

/// The address of one guest, as it is reported and as it is dialled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    /// What the guest reports to vCenter: 10.X.b.c.
    pub reported: Ipv4Addr,
    /// Where its ports are open: 127.X.b.c.
    pub served: Ipv4Addr,
}

impl Address {
    /// The pair for a loopback address.
    pub fn served_on(served: Ipv4Addr) -> Self {
        Self { reported: reported(served), served }
    }

    /// The pair for an address that a guest was given.
    pub fn reported_as(reported: Ipv4Addr) -> Self {
        Self { reported, served: served(reported) }
    }
}

/// No slice or no address of it is free.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Every slice is claimed by another stack, or loopback addresses can't be bound.
    #[error("no free address range in 127.2.0.0 to 127.250.0.0: stop another stack (last: {0})")]
    NoSubnet(std::io::Error),
    /// All addresses of the slice are in use.
    #[error("no free address left in 127.{0}.0.0/16")]
    Exhausted(u8),
}

/// A claimed slice 127.X.0.0/16 and what is given out of it.
///
/// The claim ends with the last clone.
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
    /// Claims a slice that no other stack of this host has.
    pub fn claim() -> Result<Self, Error> {
        let start = rand::random_range(2..=250_u8);
        let mut last = std::io::Error::other("not tried");
        // 10.96.0.0/12 is where clusters have their Services.
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

    /// The second number of every address of this stack.
    pub fn number(&self) -> u8 {
        self.0.number
    }

    /// The range that an IPAM provider gives addresses of, as its pools have it: loopback addresses, or those of a network
    /// of `real` machines.
    pub fn claimed_addresses(&self, real: bool) -> String {
        let first = format!("{}.{}.{CLAIMED_BLOCK}", if real { REPORTED } else { *SERVED }, self.number());
        format!("{first}.1-{first}.254")
    }

    /// The address of a guest: the same one for the same owner until it is released, as a DHCP lease.
    pub fn guest_address(&self, owner: &str) -> Result<Address, Error> {
        self.0.guests.lock().lease(owner).map(Address::served_on).ok_or(Error::Exhausted(self.0.number))
    }

    /// Gives a guest's address back.
    pub fn release_guest_address(&self, owner: &str) {
        self.0.guests.lock().release(owner);
    }

    /// A virtual IP, 127.X.255.n: the same one for the same owner until it is released.
    pub fn vip(&self, owner: &str) -> Result<Ipv4Addr, Error> {
        self.0.vips.lock().lease(owner).ok_or(Error::Exhausted(self.0.number))
    }

    /// Gives a virtual IP back.
    pub fn release_vip(&self, owner: &str) {
        self.0.vips.lock().release(owner);
    }
}

/// Addresses of some /24 blocks, given out in turn so that a released one rests for as long as possible.
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
    fn two_stacks_get_two_slices() {
        let (one, two) = (Subnet::claim().unwrap(), Subnet::claim().unwrap());
        assert_ne!(one.number(), two.number());
        let address = one.guest_address("vm-1").unwrap();
        assert_eq!(served(address.reported), address.served);
        assert_eq!(reported(address.served), address.reported);
    }
}
