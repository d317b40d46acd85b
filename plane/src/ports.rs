//! Finds free ports on loopback.
//!
//! Go servers take a port number, not a socket, so a port is found by binding and releasing it. If possible, the port
//! is outside the kernel's range for outgoing connections, because an outgoing connection could take the port while
//! its owner starts or restarts. A process that loses its port exits with "address already in use", and is started
//! again on another port.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::sync::LazyLock;

use parking_lot::Mutex;

use crate::error::{Error, Result};

/// Ports that this process has handed out. The programs that got them might not listen on them yet.
static GIVEN: LazyLock<Mutex<HashSet<u16>>> = LazyLock::new(Mutex::default);

/// The first port to try. Well-known servers use lower ports.
const FIRST: u16 = 15_000;
/// The file that contains the kernel's port range for outgoing connections.
const OUTGOING: &str = "/proc/sys/net/ipv4/ip_local_port_range";
/// The minimum size of a port range in which two stacks rarely choose the same port.
const ENOUGH: u16 = 1_000;
const ATTEMPTS: u32 = 1_000;
/// The maximum number of attempts to start a program. Other programs rarely take a port, so repeated losses have another
/// cause.
const STARTS: u32 = 5;

/// Finds `N` free ports on 127.0.0.1. Reuses a port from an earlier call only if no other port is free.
pub fn free<const N: usize>() -> io::Result<[u16; N]> {
    let mut ports = [0; N];
    let mut given = GIVEN.lock();
    let own = below_outgoing(&fs::read_to_string(OUTGOING).unwrap_or_default());
    for port in &mut ports {
        let mut attempts = 0;
        while *port == 0 {
            attempts += 1;
            let wanted = own.clone().filter(|_| attempts < ATTEMPTS).map_or(0, rand::random_range);
            let found = match TcpListener::bind((Ipv4Addr::LOCALHOST, wanted)) {
                Ok(listener) => listener.local_addr()?.port(),
                Err(_) if wanted != 0 => continue,
                Err(error) => return Err(error),
            };
            if given.insert(found) || attempts > 2 * ATTEMPTS {
                *port = found;
            }
        }
    }
    Ok(ports)
}

/// Returns the ports from [`FIRST`] up to the range for outgoing connections, if there are at least [`ENOUGH`]. `range`
/// is the content of [`OUTGOING`].
fn below_outgoing(range: &str) -> Option<Range<u16>> {
    let first: u16 = range.split_whitespace().next()?.parse().ok()?;
    (first >= FIRST + ENOUGH).then_some(FIRST..first)
}

/// Calls `start` again, at most [`STARTS`] times in all, if another program has taken one of the ports that it chose.
pub(crate) async fn retry_if_taken<T>(mut start: impl AsyncFnMut() -> Result<T>) -> Result<T> {
    let mut attempt = 1;
    loop {
        match start().await {
            Err(Error::PortTaken { name }) if attempt < STARTS => {
                tracing::debug!(name, "a port was already in use");
                attempt += 1;
            }
            started => return started,
        }
    }
}

/// Returns true if a process can listen on 127.0.0.1:`port`.
pub fn is_free(port: u16) -> bool {
    port != 0 && TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_program_that_loses_its_port_is_started_five_times() {
        let mut starts = 0;
        let taken = |name: &str| Error::PortTaken { name: name.to_owned() };
        let lost: Result<()> = retry_if_taken(async || {
            starts += 1;
            Err(taken("etcd"))
        })
        .await;
        assert_eq!((starts, lost.unwrap_err().to_string()), (5, taken("etcd").to_string()));
        let mut starts = 0;
        let fifth = retry_if_taken(async || {
            starts += 1;
            if starts < 5 { Err(taken("etcd")) } else { Ok(starts) }
        });
        assert_eq!(fifth.await.unwrap(), 5);
    }

    #[test]
    fn ports_are_below_those_of_outgoing_connections() {
        assert_eq!(below_outgoing("32768\t60999\n"), Some(15_000..32_768));
        assert_eq!(below_outgoing("1024\t65535\n"), None);
        assert_eq!(below_outgoing(""), None);
        if let Some(own) = below_outgoing(&fs::read_to_string(OUTGOING).unwrap_or_default()) {
            assert!(free::<8>().unwrap().iter().all(|port| own.contains(port)));
        }
    }

    #[test]
    fn no_port_is_given_twice() {
        let mut all: Vec<u16> = (0..20).flat_map(|_| free::<5>().unwrap()).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 100);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        assert!(!is_free(listener.local_addr().unwrap().port()));
    }
}
