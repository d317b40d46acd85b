//! Guestinfo keys read as cloud-init's VMware datasource reads them, and a view of them for people.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read as _;

use base64::Engine as _;
use base64::alphabet::STANDARD as ALPHABET;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use flate2::read::MultiGzDecoder;

use crate::{Counted, DECODED_LIMIT, ENCODING, Error, METADATA, Metadata, REDACTED, USERDATA, VENDORDATA};

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
    pub fn metadata(&self) -> Result<Metadata, Error> {
        let missing = || Error::NotMetadata { reason: "there is none".to_owned() };
        let bytes = self.metadata.as_deref().ok_or_else(missing)?;
        let text = std::str::from_utf8(bytes)
            .map_err(|_| Error::NotMetadata { reason: "it is not UTF-8".to_owned() })?;
        Metadata::from_yaml(text)
    }
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
/// encoding as plain text.
pub fn decode(keys: &BTreeMap<String, String>) -> Result<Decoded, Error> {
    Ok(Decoded {
        metadata: value(keys, METADATA)?,
        userdata: value(keys, USERDATA)?,
        vendordata: value(keys, VENDORDATA)?,
    })
}

fn value(keys: &BTreeMap<String, String>, key: &'static str) -> Result<Option<Vec<u8>>, Error> {
    let Some(raw) = keys.get(key).filter(|raw| !raw.is_empty() && raw.as_str() != REDACTED) else {
        return Ok(None);
    };
    let encoding = encoding_of(keys, key);
    let garbled = |reason: String| Error::Garbled { key, encoding: encoding.to_owned(), reason };
    let unwrapped = || -> Vec<u8> { raw.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect() };
    let bytes = match encoding {
        "base64" | "b64" => BASE64.decode(unwrapped()).map_err(|error| garbled(error.to_string()))?,
        "gzip+base64" | "gz+b64" => {
            let packed = BASE64.decode(unwrapped()).map_err(|error| garbled(error.to_string()))?;
            let mut bytes = Vec::new();
            MultiGzDecoder::new(packed.as_slice())
                .take(DECODED_LIMIT as u64 + 1)
                .read_to_end(&mut bytes)
                .map_err(|error| garbled(error.to_string()))?;
            bytes
        }
        _ => raw.clone().into_bytes(),
    };
    if bytes.len() > DECODED_LIMIT {
        return Err(Error::TooLongUnpacked { key, limit: DECODED_LIMIT });
    }
    Ok(Some(bytes))
}

/// A value in plain, from what people keep: plain, gzip, base64, or gzip in base64. The error quotes nothing.
pub fn unpacked(value: &[u8]) -> Result<Vec<u8>, String> {
    let trimmed: Vec<u8> = value.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    // What is not base64 from end to end is meant as it is.
    let bytes = if trimmed.is_empty() { None } else { BASE64.decode(&trimmed).ok() };
    let bytes = bytes.unwrap_or_else(|| value.to_vec());
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return Ok(bytes);
    }
    let mut plain = Vec::new();
    MultiGzDecoder::new(bytes.as_slice())
        .take(DECODED_LIMIT as u64 + 1)
        .read_to_end(&mut plain)
        .map_err(|error| format!("can't be unpacked: {error}"))?;
    if plain.len() > DECODED_LIMIT {
        return Err(format!("unpacks to more than {DECODED_LIMIT} bytes"));
    }
    Ok(plain)
}

fn encoding_of<'a>(keys: &'a BTreeMap<String, String>, key: &str) -> &'a str {
    keys.get(&format!("{key}{ENCODING}")).map_or("", |encoding| encoding.trim())
}

/// The same keys for people to read: metadata in plain text, and of what is secret only how long it is.
pub fn redacted(keys: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let shown = |(key, raw): (&String, &String)| {
        let text = match key.as_str() {
            METADATA => match value(keys, METADATA) {
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
