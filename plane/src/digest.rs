//! SHA-256 digests of files and byte slices, in hexadecimal.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read as _, Result};
use std::path::Path;

use sha2::{Digest as _, Sha256};

/// Returns a file's SHA-256 digest.
pub fn sha256_of(path: &Path) -> Result<String> {
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hexadecimal(&hash.finalize()[..])),
            read => hash.update(&buffer[..read]),
        }
    }
}

/// Returns the SHA-256 digest of `text`.
pub fn sha256(text: &[u8]) -> String {
    hexadecimal(&Sha256::digest(text)[..])
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
