//! Free ports on loopback.
//!
//! Go servers take a port number, not a socket: a port is found by binding 0 and let go again. Who loses it in
//! between ends with "address already in use", and is started anew on another.

use std::collections::HashSet;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::LazyLock;

use parking_lot::Mutex;

/// Ports that this process has handed out: their new owners may not have bound them yet.
static GIVEN: LazyLock<Mutex<HashSet<u16>>> = LazyLock::new(Mutex::default);

/// Finds `N` different free ports on 127.0.0.1, none of which this process has been given before.
pub fn free<const N: usize>() -> io::Result<[u16; N]> {
    let mut ports = [0; N];
    let mut held = Vec::new();
    let mut given = GIVEN.lock();
    for port in &mut ports {
        while *port == 0 {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            let found = listener.local_addr()?.port();
            held.push(listener);
            if given.insert(found) || held.len() > 1000 {
                *port = found;
            }
        }
    }
    Ok(ports)
}

/// Whether nobody listens on a port of 127.0.0.1.
pub fn is_free(port: u16) -> bool {
    port != 0 && TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

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
