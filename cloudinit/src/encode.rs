//! Metadata, userdata and vendordata as guestinfo keys.

use std::collections::BTreeMap;
use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bounds::Budget;
use flate2::write::GzEncoder;
use flate2::{Compression, GzBuilder};

use crate::{ENCODING, Error, GZIP_BASE64, METADATA, Metadata, USERDATA, VALUE_LIMIT, VENDORDATA};

/// So many bytes are compressed before the budget is asked again.
const PIECE: usize = 64 * 1024;

/// The six keys that give a node's cloud-init everything, ready to be put into ExtraConfig.
///
/// Every key is there always, empty where there is nothing to give, so that a machine made from a
/// template inherits nothing. The same input gives the same bytes. A value that a guest would not bear
/// is refused by its key. Whatever is made is spent of the budget.
pub fn encode(
    metadata: &Metadata,
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
    // No time and no operating system in the header: equal input, equal output.
    let mut gzip: GzEncoder<Vec<u8>> =
        GzBuilder::new().mtime(0).operating_system(255).write(Vec::new(), Compression::best());
    for piece in bytes.chunks(PIECE) {
        // At worst it does not get smaller.
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
