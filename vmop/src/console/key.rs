//! Encryption of console tickets with an RSA public key.
//!
//! RSA-OAEP with SHA-512 (RFC 8017, 7.1.1), the same as in vm-operator. This module doesn't use private keys, so timing can't
//! leak one.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kit::bounded::{Budget, Exceeded};
use num_bigint::BigUint;
use sha2::{Digest, Sha512};

/// The length of a SHA-512 digest in bytes.
const HASH: usize = 64;
/// The minimum key length. Shorter keys are insecure and can't hold a ticket.
const SHORTEST_BITS: u64 = 2048;
/// The maximum key length. Longer keys waste CPU time: the time grows with the cube of the modulus length, and with the
/// exponent length.
const LONGEST_BITS: u64 = 8192;
/// The maximum length of the public exponent. 3, 17 and 65537 are common, and some programs generate up to 2^32 + 1.
const LONGEST_EXPONENT_BITS: u64 = 33;
/// The estimated number of modulus-sized integers in memory during exponentiation.
const NUMBERS: usize = 64;

/// The reasons why a key can't encrypt a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadKey {
    /// The text isn't a PEM block with a public key.
    #[error("it is not a PEM block \"PUBLIC KEY\"")]
    NotPem,
    /// The key isn't an RSA key.
    #[error("it is not an RSA public key")]
    NotRsa,
    /// The key is too short or too long. Contains its length in bits.
    #[error("it has {0} bits, and must have 2048 to 8192")]
    Bits(u64),
    /// The exponent isn't a usual public exponent.
    #[error("its public exponent must be odd, more than 1 and at most 33 bits long; use 65537")]
    Exponent,
    /// The string is too long for the key. Contains the string's length in bytes.
    #[error("it is too short to encrypt {0} bytes; use a longer key")]
    NoRoom(usize),
}

/// The reasons why a string wasn't encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotEncrypted {
    /// The key isn't suitable.
    #[error(transparent)]
    BadKey(#[from] BadKey),
    /// Encryption exceeded its budget.
    #[error(transparent)]
    Exceeded(#[from] Exceeded),
}

/// An RSA public key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey {
    modulus: BigUint,
    exponent: BigUint,
}

impl PublicKey {
    /// Parses a PEM block `PUBLIC KEY` or `RSA PUBLIC KEY` that contains an `RSAPublicKey` or a `SubjectPublicKeyInfo`.
    pub fn from_pem(pem: &str) -> Result<Self, BadKey> {
        let der = [("PUBLIC KEY"), ("RSA PUBLIC KEY")].iter().find_map(|label| block(pem, label));
        let der = der.ok_or(BadKey::NotPem)?;
        let key = bare(&der).or_else(|| wrapped(&der)).ok_or(BadKey::NotRsa)?;
        let bits = key.modulus.bits();
        if !(SHORTEST_BITS..=LONGEST_BITS).contains(&bits) {
            return Err(BadKey::Bits(bits));
        }
        // The exponent 1 wouldn't encrypt anything.
        let is_public = key.exponent.bit(0) && (2..=LONGEST_EXPONENT_BITS).contains(&key.exponent.bits());
        if is_public { Ok(key) } else { Err(BadKey::Exponent) }
    }

    /// Encrypts the string and returns the ciphertext in base64.
    pub fn encrypt(&self, text: &str, budget: &Budget) -> Result<String, NotEncrypted> {
        let modulus = usize::try_from(self.modulus.bits().div_ceil(8)).unwrap_or(usize::MAX);
        budget.spend(modulus.saturating_mul(NUMBERS))?;
        Ok(self.encrypt_with(text.as_bytes(), &rand::random())?)
    }

    fn encrypt_with(&self, text: &[u8], seed: &[u8; HASH]) -> Result<String, BadKey> {
        let length = usize::try_from(self.modulus.bits().div_ceil(8)).unwrap_or(usize::MAX);
        let padding = length.checked_sub(text.len() + 2 * HASH + 2).ok_or(BadKey::NoRoom(text.len()))?;
        let mut block = Sha512::digest(b"").to_vec();
        block.resize(HASH + padding, 0);
        block.push(1);
        block.extend_from_slice(text);
        mask(&mut block, seed);
        let mut masked_seed = *seed;
        mask(&mut masked_seed, &block);
        let message = BigUint::from_bytes_be(&[&[0], masked_seed.as_slice(), &block].concat());
        let cipher = message.modpow(&self.exponent, &self.modulus).to_bytes_be();
        let mut whole = vec![0; length - cipher.len()];
        whole.extend(cipher);
        Ok(STANDARD.encode(whole))
    }
}

/// Applies the MGF1 mask from `seed` to `data` (RFC 8017, B.2.1).
fn mask(data: &mut [u8], seed: &[u8]) {
    for (counter, chunk) in (0u32..).zip(data.chunks_mut(HASH)) {
        let digest = Sha512::new().chain_update(seed).chain_update(counter.to_be_bytes()).finalize();
        chunk.iter_mut().zip(digest).for_each(|(byte, mask)| *byte ^= mask);
    }
}

/// Returns the decoded content of the PEM block with that label.
fn block(pem: &str, label: &str) -> Option<Vec<u8>> {
    let (_, rest) = pem.split_once(&format!("-----BEGIN {label}-----"))?;
    let (text, _) = rest.split_once(&format!("-----END {label}-----"))?;
    STANDARD.decode(text.split_ascii_whitespace().collect::<String>()).ok()
}

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const SEQUENCE: u8 = 0x30;
/// The content of the DER-encoded `AlgorithmIdentifier` for `rsaEncryption`, without its tag and length.
const RSA: [u8; 13] = [0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00];

/// Parses an `RSAPublicKey` (PKCS #1).
fn bare(der: &[u8]) -> Option<PublicKey> {
    let (fields, rest) = element(der, SEQUENCE)?;
    let (modulus, fields) = element(fields, INTEGER)?;
    let (exponent, fields) = element(fields, INTEGER)?;
    let key =
        PublicKey { modulus: BigUint::from_bytes_be(modulus), exponent: BigUint::from_bytes_be(exponent) };
    // An RSA modulus is odd and positive.
    let sound = key.modulus.bit(0) && modulus.first().is_some_and(|byte| *byte < 0x80);
    (rest.is_empty() && fields.is_empty() && sound).then_some(key)
}

/// Parses a `SubjectPublicKeyInfo`.
fn wrapped(der: &[u8]) -> Option<PublicKey> {
    let (fields, _) = element(der, SEQUENCE)?;
    let (algorithm, fields) = element(fields, SEQUENCE)?;
    let (bits, _) = element(fields, BIT_STRING)?;
    let (unused, key) = bits.split_first()?;
    (algorithm == RSA && *unused == 0).then(|| bare(key)).flatten()
}

/// Returns the content of the first DER element and the remaining bytes, or `None` if the element doesn't have this tag.
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (first, rest) = der.split_first()?;
    let (short, rest) = rest.split_first()?;
    let (length, rest) = if *short < 0x80 {
        (usize::from(*short), rest)
    } else {
        let (bytes, rest) = rest.split_at_checked(usize::from(short & 0x7f))?;
        let long = bytes.len() <= 4;
        (long.then(|| bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)))?, rest)
    };
    (*first == tag).then(|| rest.split_at_checked(length)).flatten()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use support::console_keys::{TEXT, pem};

    use super::*;

    fn line(name: &str) -> BigUint {
        let text = TEXT.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        BigUint::parse_bytes(text.trim_start_matches('=').as_bytes(), 16).unwrap()
    }

    fn test_key() -> PublicKey {
        PublicKey { modulus: line("modulus"), exponent: BigUint::from(65537u32) }
    }

    /// Decrypts a base64 ciphertext with the test's private key.
    fn decrypted(cipher: &str) -> String {
        let cipher = BigUint::from_bytes_be(&STANDARD.decode(cipher).unwrap());
        let message = cipher.modpow(&line("private"), &line("modulus")).to_bytes_be();
        let mut whole = vec![0; 256 - message.len()];
        whole.extend(message);
        let (mut seed, mut data) = (whole[1..=HASH].to_vec(), whole[HASH + 1..].to_vec());
        mask(&mut seed, &data);
        mask(&mut data, &seed);
        assert_eq!((whole[0], &data[..HASH]), (0, Sha512::digest(b"").as_slice()));
        let text = data[HASH..].iter().skip_while(|byte| **byte == 0).skip(1).copied().collect();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn the_holder_of_the_key_reads_it() {
        let url = "wss://esx-1.example.com:443/ticket/0123456789abcdef";
        let key = test_key();
        let encrypt = |text: &str| key.encrypt(text, &Budget::new(1 << 16));
        let cipher = encrypt(url).unwrap();
        assert_eq!(decrypted(&cipher), url);
        assert_ne!(cipher, encrypt(url).unwrap(), "the same text is never the same twice");
        assert_eq!(encrypt(&"x".repeat(127)), Err(BadKey::NoRoom(127).into()));
        assert_eq!(decrypted(&encrypt(&"x".repeat(126)).unwrap()).len(), 126);
        let little = Budget::new(1000);
        assert_eq!(key.encrypt(url, &little), Err(Exceeded::Bytes { limit: 1000 }.into()));
    }

    /// A ciphertext from `openssl pkeyutl -encrypt -pkeyopt rsa_padding_mode:oaep`, with SHA-512 for both digests.
    const BY_OPENSSL: &str = "\
        CEw8zYwOaCj/Psih3HeaQuMI/GMemWwz9EGYh7ePVjSx1Br9UsSY2ZHrSVUmP3CQmJ+7nneb6EwlUE7Br5N+CWBS\
        cd6DO20yz4EX9NSbDbIgmk8r2JAprm6rM7O9NqItLfci9ebQejsH6RSn/Ml/VB2JpVKZPnD6qdu3ESdFlDSLZzS0\
        CXB5LTtKIozPqji+gQTpoQmduxU5SK68JiKdUEuXqtbZZCX03s6CvmLZ8AQCDM4gSqz0Sb6SIv2YryC+0UjM+ia6\
        92cwYQXpQ2bOLINhNvzlxpYsds1O6Q+hjVTSlXQURBWsbJI7CycFynLavON3cRVAv4YH/90UAHrYpA==";

    #[test]
    fn openssl_pads_as_is_read_here() {
        assert_eq!(decrypted(BY_OPENSSL), "wss://esx-1.example.com:443/ticket/0123456789abcdef");
    }

    #[test]
    fn a_key_comes_bare_or_with_its_algorithm() {
        for label in ["bare", "wrapped", "named"] {
            assert_eq!(PublicKey::from_pem(&pem(label)), Ok(test_key()), "{label}");
        }
        assert_eq!(PublicKey::from_pem(&pem("short")), Err(BadKey::Bits(1024)));
        assert_eq!(PublicKey::from_pem(&pem("elliptic")), Err(BadKey::NotRsa));
        assert_eq!(PublicKey::from_pem("ssh-rsa AAAA"), Err(BadKey::NotPem));
        assert_eq!(
            PublicKey::from_pem("-----BEGIN PUBLIC KEY-----\n?\n-----END PUBLIC KEY-----"),
            Err(BadKey::NotPem)
        );
    }

    /// Returns a DER element with that content.
    fn der(tag: u8, content: &[u8]) -> Vec<u8> {
        let length = u16::try_from(content.len()).unwrap().to_be_bytes();
        [&[tag, 0x82, length[0], length[1]], content].concat()
    }

    /// Returns the PEM of a key with that length and exponent.
    fn key_of(modulus_bits: u32, exponent: &BigUint) -> String {
        let integer = |number: &BigUint| der(INTEGER, &[&[0], number.to_bytes_be().as_slice()].concat());
        let modulus = (BigUint::from(1u8) << modulus_bits) - 1u8;
        let key = der(SEQUENCE, &[integer(&modulus), integer(exponent)].concat());
        format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", STANDARD.encode(key))
    }

    #[test]
    fn a_key_with_a_large_exponent_is_refused() {
        let one = BigUint::from(1u8);
        let verdict = |exponent: &BigUint| PublicKey::from_pem(&key_of(2048, exponent)).map(|_| ());
        for exponent in [3u64, 17, 65537, (1 << 32) + 1] {
            assert_eq!(verdict(&BigUint::from(exponent)), Ok(()), "{exponent}");
        }
        for exponent in [0u64, 1, 2, 65536, (1 << 33) + 1, u64::MAX] {
            assert_eq!(verdict(&BigUint::from(exponent)), Err(BadKey::Exponent), "{exponent}");
        }
        let huge = (one << 81_479) + 1u8;
        assert_eq!(verdict(&huge), Err(BadKey::Exponent));
    }

    #[test]
    fn a_key_with_a_large_modulus_is_refused() {
        let verdict = |bits| PublicKey::from_pem(&key_of(bits, &BigUint::from(65537u32))).map(|_| ());
        for bits in [2048, 3072, 4096, 8192] {
            assert_eq!(verdict(bits), Ok(()), "{bits}");
        }
        for bits in [2047, 8193, 16_384] {
            assert_eq!(verdict(bits), Err(BadKey::Bits(bits.into())), "{bits}");
        }
        let longest = key_of(8192, &BigUint::from(65537u32));
        assert!(longest.len() < 2048, "{}", longest.len());
    }

    proptest! {
        /// Keys that are accepted are cheap to encrypt with.
        #[test]
        fn a_key_that_is_read_is_cheap_to_use(bits in 0_u32..20_000, exponent in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(key) = PublicKey::from_pem(&key_of(bits, &BigUint::from_bytes_be(&exponent))) {
                prop_assert!(key.modulus.bits() <= 8192 && key.exponent.bits() <= 33);
            }
        }

        #[test]
        fn whatever_is_sent_as_a_key_is_read_or_refused(text in "(-----BEGIN PUBLIC KEY-----)?[A-Za-z0-9+/= \n]{0,80}(-----END PUBLIC KEY-----)?") {
            let _ = PublicKey::from_pem(&text);
        }

        #[test]
        fn no_bytes_are_read_beyond_their_end(bytes in proptest::collection::vec(any::<u8>(), 0..64), tag in any::<u8>()) {
            let _ = element(&bytes, tag);
            let _ = (bare(&bytes), wrapped(&bytes));
        }
    }
}
