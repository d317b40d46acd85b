//! Decoders of vCenter's answers as the fuzz program feeds them.

use crate::wire::{Codec, Soap, ViJson};

/// The status of an answer that carries a result, and of one that carries a fault.
const STATUSES: [u16; 2] = [200, 500];

/// Decodes an answer over SOAP.
pub fn decode_soap(body: &[u8]) {
    let codec = Soap { version: "8.0.3.0".to_owned() };
    for status in STATUSES {
        let _ = codec.decode(status, body);
    }
}

/// Decodes an answer over VI/JSON.
pub fn decode_vijson(body: &[u8]) {
    let codec = ViJson { release: "8.0.3.0".to_owned() };
    for status in STATUSES {
        let _ = codec.decode(status, body);
    }
}
