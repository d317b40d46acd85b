//! Parsers of untrusted input as the fuzz program feeds them; each within the budget of its caller.

use bounds::Budget;

use crate::console::key::PublicKey;
use crate::image::descriptor;

/// Reads the key of a console request and encrypts a ticket for its holder. Whatever is wrong is left to the caller's
/// measurements.
pub fn encrypt_for(pem: &str, budget: &Budget) {
    if let Ok(key) = PublicKey::from_pem(pem) {
        let _ = key.encrypt("wss://esx-1.example.com:443/ticket/0123456789abcdef", budget);
    }
}

/// Reads an OVF descriptor.
pub fn read_ovf(xml: &str, budget: &Budget) {
    let _ = descriptor::read(xml, budget);
}
