//! Encryption of console tickets with an RSA public key.
//!
//! RSA-OAEP with SHA-512 (RFC 8017, 7.1.1), the same as in vm-operator. This module doesn't use private keys, so timing can't
//! leak one.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kit::bounded::{Budget, Exceeded};
use rsa::pkcs1::{ALGORITHM_ID, RsaPublicKeyRef};
use rsa::pkcs8::SubjectPublicKeyInfoRef;
use rsa::pkcs8::der::Decode;
use rsa::sha2::Sha512;
use rsa::traits::PublicKeyParts;
use rsa::{BoxedUint, Error};

/// The minimum key length. Shorter keys are insecure and can't hold a ticket.
const SHORTEST_BITS: u32 = 2048;
/// The maximum key length. Longer keys waste CPU time: the time grows with the cube of the modulus length, and with the
/// exponent length.
const LONGEST_BITS: u32 = 8192;
/// The maximum length of the public exponent. 3, 17 and 65537 are common, and some programs generate up to 2^32 + 1.
const LONGEST_EXPONENT_BITS: u32 = 33;
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
    Bits(u32),
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
pub struct PublicKey(rsa::PublicKey);

impl PublicKey {
    /// Parses a PEM block `PUBLIC KEY` or `RSA PUBLIC KEY` that contains an `RSAPublicKey` or a `SubjectPublicKeyInfo`.
    pub fn from_pem(pem: &str) -> Result<Self, BadKey> {
        let der = ["PUBLIC KEY", "RSA PUBLIC KEY"].iter().find_map(|label| block(pem, label));
        let der = der.ok_or(BadKey::NotPem)?;
        let key = RsaPublicKeyRef::from_der(&der).ok().or_else(|| wrapped(&der)).ok_or(BadKey::NotRsa)?;
        let [modulus, exponent] = [key.modulus, key.public_exponent]
            .map(|number| BoxedUint::from_be_slice_vartime(number.as_bytes()));
        let bits = modulus.bit_width_vartime();
        if !(SHORTEST_BITS..=LONGEST_BITS).contains(&bits) {
            return Err(BadKey::Bits(bits));
        }
        if exponent.bit_width_vartime() > LONGEST_EXPONENT_BITS {
            return Err(BadKey::Exponent);
        }
        rsa::PublicKey::new(modulus, exponent).map(Self).map_err(|error| match error {
            Error::InvalidExponent | Error::PublicExponentTooSmall => BadKey::Exponent,
            _ => BadKey::NotRsa,
        })
    }

    /// Encrypts the string and returns the ciphertext in base64.
    pub fn encrypt(&self, text: &str, budget: &Budget) -> Result<String, NotEncrypted> {
        budget.spend(self.0.size().saturating_mul(NUMBERS))?;
        let cipher = self.0.oaep_encrypt_with_rng::<Sha512, _>(&mut rand::rng(), text.as_bytes());
        // The key is valid and the random numbers can't fail, so the text doesn't fit.
        Ok(STANDARD.encode(cipher.map_err(|_| BadKey::NoRoom(text.len()))?))
    }
}

/// Returns the decoded content of the PEM block with that label.
fn block(pem: &str, label: &str) -> Option<Vec<u8>> {
    let (_, rest) = pem.split_once(&format!("-----BEGIN {label}-----"))?;
    let (text, _) = rest.split_once(&format!("-----END {label}-----"))?;
    STANDARD.decode(text.split_ascii_whitespace().collect::<String>()).ok()
}

/// Parses a `SubjectPublicKeyInfo`.
fn wrapped(der: &[u8]) -> Option<RsaPublicKeyRef<'_>> {
    let info = SubjectPublicKeyInfoRef::from_der(der).ok().filter(|info| info.algorithm == ALGORITHM_ID)?;
    RsaPublicKeyRef::from_der(info.subject_public_key.as_bytes()?).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rsa::PrivateKey;
    use rsa::pkcs1::{EncodeRsaPublicKey, RsaPublicKey};
    use rsa::pkcs8::der::asn1::UintRef;
    use support::console_keys::{TEXT, pem};

    use super::*;

    fn line(name: &str) -> BoxedUint {
        let text = TEXT.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        BoxedUint::from_str_radix_vartime(text.trim_start_matches('='), 16).unwrap()
    }

    fn private_key() -> PrivateKey {
        let exponent = BoxedUint::from(65537u32);
        PrivateKey::from_components(line("modulus"), exponent, line("private"), Vec::new()).unwrap()
    }

    fn test_key() -> PublicKey {
        PublicKey(private_key().to_public_key())
    }

    fn decrypted(cipher: &str) -> String {
        let text = private_key().oaep_decrypt::<Sha512>(&STANDARD.decode(cipher).unwrap());
        String::from_utf8(text.unwrap()).unwrap()
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

    /// Returns the PEM of a key with that length and exponent. All bits of the modulus are set.
    fn key_of(modulus_bits: u32, exponent: &[u8]) -> String {
        let (bytes, bits) = (modulus_bits / 8, modulus_bits % 8);
        let mut modulus = vec![(1u8 << bits) - 1];
        modulus.resize(usize::try_from(bytes).unwrap() + 1, 0xff);
        let [modulus, public_exponent] = [&modulus, exponent].map(|number| UintRef::new(number).unwrap());
        let key = RsaPublicKey { modulus, public_exponent }.to_pkcs1_der().unwrap();
        format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", STANDARD.encode(key.as_bytes()))
    }

    #[test]
    fn a_key_with_a_large_exponent_is_refused() {
        let verdict = |exponent: &[u8]| PublicKey::from_pem(&key_of(2048, exponent)).map(|_| ());
        for exponent in [3u64, 17, 65537, (1 << 32) + 1] {
            assert_eq!(verdict(&exponent.to_be_bytes()), Ok(()), "{exponent}");
        }
        for exponent in [0u64, 1, 2, 65536, (1 << 33) + 1, u64::MAX] {
            assert_eq!(verdict(&exponent.to_be_bytes()), Err(BadKey::Exponent), "{exponent}");
        }
        assert_eq!(verdict(&[1; 10_000]), Err(BadKey::Exponent));
    }

    #[test]
    fn a_key_with_a_large_modulus_is_refused() {
        let verdict = |bits| PublicKey::from_pem(&key_of(bits, &[1, 0, 1])).map(|_| ());
        for bits in [2048, 3072, 4096, 8192] {
            assert_eq!(verdict(bits), Ok(()), "{bits}");
        }
        for bits in [2047, 8193, 16_384] {
            assert_eq!(verdict(bits), Err(BadKey::Bits(bits)), "{bits}");
        }
        let longest = key_of(8192, &[1, 0, 1]);
        assert!(longest.len() < 2048, "{}", longest.len());
    }

    proptest! {
        /// Keys that are accepted are cheap to encrypt with.
        #[test]
        fn a_key_that_is_read_is_cheap_to_use(bits in 0_u32..20_000, exponent in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(key) = PublicKey::from_pem(&key_of(bits, &exponent)) {
                prop_assert!(key.0.n().bit_width_vartime() <= 8192 && key.0.e().bit_width_vartime() <= 33);
            }
        }

        #[test]
        fn whatever_is_sent_as_a_key_is_read_or_refused(text in "(-----BEGIN PUBLIC KEY-----)?[A-Za-z0-9+/= \n]{0,80}(-----END PUBLIC KEY-----)?") {
            let _ = PublicKey::from_pem(&text);
        }
    }
}
