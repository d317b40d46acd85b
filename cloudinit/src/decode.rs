//! Guestinfo keys read as cloud-init's VMware datasource reads them, and a view of them for people.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read as _;

use base64::alphabet::STANDARD as ALPHABET;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::{DecodeError, Engine as _};
use bounds::{Budget, Exceeded};
use flate2::read::MultiGzDecoder;

use crate::{Counted, ENCODING, Error, METADATA, Metadata, REDACTED, USERDATA, VENDORDATA};

/// As Python's decoder, which does not insist on what pads the end.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &ALPHABET,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// What guestinfo tells a node. Missing, empty and redacted values are `None`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Decoded {
    /// Who the node is: YAML or JSON.
    pub metadata: Option<Vec<u8>>,
    /// What the node does on first boot. Secret.
    pub userdata: Option<Vec<u8>>,
    /// As userdata, from whoever made the image. Secret.
    pub vendordata: Option<Vec<u8>>,
}

impl Decoded {
    /// The metadata, read.
    pub fn metadata(&self, budget: &Budget) -> Result<Metadata, Error> {
        read_metadata(self.metadata.as_deref(), budget)
    }
}

fn read_metadata(bytes: Option<&[u8]>, budget: &Budget) -> Result<Metadata, Error> {
    let missing = || Error::NotMetadata { reason: "the value is missing".to_owned() };
    let text = std::str::from_utf8(bytes.ok_or_else(missing)?)
        .map_err(|_| Error::NotMetadata { reason: "it is not UTF-8".to_owned() })?;
    Metadata::from_yaml(text, budget)
}

impl fmt::Debug for Decoded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoded")
            .field("metadata", &self.metadata.as_deref().map(String::from_utf8_lossy))
            .field("userdata", &self.userdata.as_deref().map(Counted))
            .field("vendordata", &self.vendordata.as_deref().map(Counted))
            .finish()
    }
}

/// Reads guestinfo keys as cloud-init does: `base64`, `b64`, `gzip+base64`, `gz+b64`, and any other
/// encoding as plain text. Whatever it makes is spent of the budget.
pub fn decode(keys: &BTreeMap<String, String>, budget: &Budget) -> Result<Decoded, Error> {
    Ok(Decoded {
        metadata: value(keys, METADATA, budget)?,
        userdata: value(keys, USERDATA, budget)?,
        vendordata: value(keys, VENDORDATA, budget)?,
    })
}

/// Reads the metadata alone.
pub fn decode_metadata(keys: &BTreeMap<String, String>, budget: &Budget) -> Result<Metadata, Error> {
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
    // Without its white space, and what base64 stands for.
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

/// Returns what is wrong with base64. The decoder's own text contains a character of the value.
fn not_base64(error: &DecodeError) -> String {
    match error {
        DecodeError::InvalidByte(at, _) | DecodeError::InvalidLastSymbol(at, _) => {
            format!("character {} is none of base64", at + 1)
        }
        DecodeError::InvalidLength(_) | DecodeError::InvalidPadding => "its end is missing".to_owned(),
    }
}

/// A value in plain, from what people keep: plain, gzip, base64, or gzip in base64. The error quotes nothing; whatever is
/// made is spent of the budget.
pub fn unpacked(value: &[u8], budget: &Budget) -> Result<Vec<u8>, Error> {
    // Without its white space, what base64 stands for, and a copy of what is plain.
    budget.spend(value.len().saturating_mul(3))?;
    let trimmed: Vec<u8> = value.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    // What is not base64 from end to end is meant as it is.
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

/// Why something can't be decompressed.
enum Gunzip {
    Garbled(std::io::Error),
    Exceeded(Exceeded),
}

/// Decompresses piece by piece, each of which is spent before it is kept.
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

/// The same keys for people to read: metadata in plain text, and of what is secret only how long it is.
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
