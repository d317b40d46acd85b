//! Encodes metadata, userdata and vendordata as guestinfo keys.

use std::collections::BTreeMap;
use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bounds::Budget;
use flate2::write::GzEncoder;
use flate2::{Compression, GzBuilder};

use crate::{ENCODING, Error, GZIP_BASE64, METADATA, NodeMetadata, USERDATA, VALUE_LIMIT, VENDORDATA};

/// The number of bytes that are charged to the budget and compressed at a time.
const PIECE: usize = 64 * 1024;

/// Encodes cloud-init data as six ExtraConfig keys: one for each of the three values, and one for each value's
/// encoding.
///
/// All keys are always present, with empty values where data is missing, so that a VM doesn't inherit values from its
/// template. Equal input yields equal bytes. The error for a value that is too long names the value's key. All output
/// is charged to the budget.
pub fn encode(
    metadata: &NodeMetadata,
    userdata: &[u8],
    vendordata: Option<&[u8]>,
    budget: &Budget,
) -> Result<BTreeMap<String, String>, Error> {
    let metadata = metadata.to_yaml()?;
    budget.spend(metadata.len())?;
    let parts =
        [(METADATA, metadata.as_bytes()), (USERDATA, userdata), (VENDORDATA, vendordata.unwrap_or_default())];
    let mut keys = BTreeMap::new();
    for (key, bytes) in parts {
        let (value, encoding) =
            if bytes.is_empty() { (String::new(), "") } else { (packed(key, bytes, budget)?, GZIP_BASE64) };
        keys.insert(key.to_owned(), value);
        keys.insert(format!("{key}{ENCODING}"), encoding.to_owned());
    }
    Ok(keys)
}

fn packed(key: &'static str, bytes: &[u8], budget: &Budget) -> Result<String, Error> {
    let failed = |error: std::io::Error| Error::Garbled {
        key,
        encoding: GZIP_BASE64.to_owned(),
        reason: error.to_string(),
    };
    // Omit the time and the operating system from the header, so that equal input yields equal output.
    let mut gzip: GzEncoder<Vec<u8>> =
        GzBuilder::new().mtime(0).operating_system(255).write(Vec::new(), Compression::best());
    for piece in bytes.chunks(PIECE) {
        // Charge the uncompressed size, because in the worst case the data doesn't shrink.
        budget.spend(piece.len())?;
        gzip.write_all(piece).map_err(failed)?;
    }
    let packed = gzip.finish().map_err(failed)?;
    budget.spend(packed.len().saturating_mul(2))?;
    let value = STANDARD.encode(packed);
    if value.len() > VALUE_LIMIT {
        return Err(Error::TooLong { key, size: value.len(), limit: VALUE_LIMIT });
    }
    Ok(value)
}
