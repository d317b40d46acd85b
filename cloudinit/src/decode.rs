//! Decodes guestinfo values as cloud-init's VMware datasource does, and redacts the values for display.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read as _;

use base64::alphabet::STANDARD as ALPHABET;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::{DecodeError, Engine as _};
use bounds::{Budget, Exceeded};
use flate2::read::MultiGzDecoder;

use crate::{Counted, ENCODING, Error, METADATA, NodeMetadata, REDACTED, USERDATA, VENDORDATA};

/// A base64 decoder that is as lenient about padding as Python's.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &ALPHABET,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Decoded guestinfo values. Missing, empty and redacted values are `None`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct DecodedGuestinfo {
    /// The node's identity as YAML or JSON.
    pub metadata: Option<Vec<u8>>,
    /// The node's first boot configuration, which is secret.
    pub userdata: Option<Vec<u8>>,
    /// Further first boot configuration from a provider, which is secret.
    pub vendordata: Option<Vec<u8>>,
}

impl DecodedGuestinfo {
    /// Parses the metadata. Fails if it is missing.
    pub fn metadata(&self, budget: &Budget) -> Result<NodeMetadata, Error> {
        read_metadata(self.metadata.as_deref(), budget)
    }
}

fn read_metadata(bytes: Option<&[u8]>, budget: &Budget) -> Result<NodeMetadata, Error> {
    let missing = || Error::NotMetadata { reason: "the value is missing".to_owned() };
    let text = std::str::from_utf8(bytes.ok_or_else(missing)?)
        .map_err(|_| Error::NotMetadata { reason: "it is not UTF-8".to_owned() })?;
    NodeMetadata::from_yaml(text, budget)
}

impl fmt::Debug for DecodedGuestinfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DecodedGuestinfo")
            .field("metadata", &self.metadata.as_deref().map(String::from_utf8_lossy))
            .field("userdata", &self.userdata.as_deref().map(Counted))
            .field("vendordata", &self.vendordata.as_deref().map(Counted))
            .finish()
    }
}

/// Decodes guestinfo values as cloud-init does. `keys` contains the values and their encodings by key.
///
/// Supports the encodings `base64`, `b64`, `gzip+base64` and `gz+b64`, and treats any other encoding as plain text. All
/// output is charged to the budget.
pub fn decode(keys: &BTreeMap<String, String>, budget: &Budget) -> Result<DecodedGuestinfo, Error> {
    Ok(DecodedGuestinfo {
        metadata: value(keys, METADATA, budget)?,
        userdata: value(keys, USERDATA, budget)?,
        vendordata: value(keys, VENDORDATA, budget)?,
    })
}

/// Decodes and parses only the metadata. Fails if it is missing.
pub fn decode_metadata(keys: &BTreeMap<String, String>, budget: &Budget) -> Result<NodeMetadata, Error> {
    read_metadata(value(keys, METADATA, budget)?.as_deref(), budget)
}

fn value(
    keys: &BTreeMap<String, String>,
    key: &'static str,
    budget: &Budget,
) -> Result<Option<Vec<u8>>, Error> {
    let Some(raw) = keys.get(key).filter(|raw| !raw.is_empty() && raw.as_str() != REDACTED) else {
        return Ok(None);
    };
    let encoding = encoding_of(keys, key);
    let garbled = |reason: String| Error::Garbled { key, encoding: encoding.to_owned(), reason };
    let unwrapped = || -> Vec<u8> { raw.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect() };
    // Charge one copy without white space, and the base64-decoded bytes.
    budget.spend(raw.len().saturating_mul(2))?;
    match encoding {
        "base64" | "b64" => BASE64.decode(unwrapped()).map(Some).map_err(|error| garbled(not_base64(&error))),
        "gzip+base64" | "gz+b64" => {
            let packed = BASE64.decode(unwrapped()).map_err(|error| garbled(not_base64(&error)))?;
            match gunzip(&packed, budget) {
                Ok(plain) => Ok(Some(plain)),
                Err(Gunzip::Garbled(error)) => Err(garbled(error.to_string())),
                Err(Gunzip::Exceeded(exceeded)) => Err(exceeded.into()),
            }
        }
        _ => Ok(Some(raw.clone().into_bytes())),
    }
}

/// Describes a base64 error without quoting the value. The decoder's own message contains a character of the value.
fn not_base64(error: &DecodeError) -> String {
    match error {
        DecodeError::InvalidByte(at, _) | DecodeError::InvalidLastSymbol(at, _) => {
            format!("character {} is none of base64", at + 1)
        }
        DecodeError::InvalidLength(_) | DecodeError::InvalidPadding => "its end is missing".to_owned(),
    }
}

/// Unpacks a value that a user may have stored as plain text, gzip, base64, or base64-encoded gzip. Errors don't quote
/// the value. All output is charged to the budget.
pub fn unpacked(value: &[u8], budget: &Budget) -> Result<Vec<u8>, Error> {
    // Charge one copy without white space, the base64-decoded bytes, and a copy of a plain value.
    budget.spend(value.len().saturating_mul(3))?;
    let trimmed: Vec<u8> = value.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    // A value that isn't valid base64 is treated as plain.
    let bytes = if trimmed.is_empty() { None } else { BASE64.decode(&trimmed).ok() };
    let bytes = bytes.unwrap_or_else(|| value.to_vec());
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return Ok(bytes);
    }
    gunzip(&bytes, budget).map_err(|error| match error {
        Gunzip::Garbled(error) => Error::NotGzip { reason: error.to_string() },
        Gunzip::Exceeded(exceeded) => exceeded.into(),
    })
}

/// The reasons why data can't be decompressed.
enum Gunzip {
    Garbled(std::io::Error),
    Exceeded(Exceeded),
}

/// Decompresses data in pieces, and charges each piece to the budget before keeping it.
fn gunzip(packed: &[u8], budget: &Budget) -> Result<Vec<u8>, Gunzip> {
    let mut decoder = MultiGzDecoder::new(packed);
    let (mut plain, mut piece) = (Vec::new(), [0; 8192]);
    loop {
        let read = decoder.read(&mut piece).map_err(Gunzip::Garbled)?;
        if read == 0 {
            return Ok(plain);
        }
        budget.spend(read).map_err(Gunzip::Exceeded)?;
        plain.extend_from_slice(&piece[..read]);
    }
}

fn encoding_of<'a>(keys: &'a BTreeMap<String, String>, key: &str) -> &'a str {
    keys.get(&format!("{key}{ENCODING}")).map_or("", |encoding| encoding.trim())
}

/// Returns the keys and values for display: metadata decoded (or the decoding error), only the encoded length of
/// userdata and vendordata, and all other values unchanged.
pub fn redacted(keys: &BTreeMap<String, String>, budget: &Budget) -> BTreeMap<String, String> {
    let shown = |(key, raw): (&String, &String)| {
        let text = match key.as_str() {
            METADATA => match value(keys, METADATA, budget) {
                Ok(bytes) => String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned(),
                Err(error) => format!("<{error}>"),
            },
            USERDATA | VENDORDATA if !raw.is_empty() && raw != REDACTED => {
                format!("<redacted, {} bytes>", raw.len())
            }
            _ => raw.clone(),
        };
        (key.clone(), text)
    };
    keys.iter().map(shown).collect()
}
