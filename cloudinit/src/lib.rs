//! Encodes a node's cloud-init data as VMware guestinfo keys, and decodes it.
//!
//! A virtual machine receives its metadata, userdata and vendordata as ExtraConfig keys, which cloud-init's VMware
//! datasource reads. Userdata contains the cluster's CA keys. Therefore, errors, `Debug` output and [`redacted`] never
//! contain userdata or vendordata.
//!
//! Values come from users. Decompressing, parsing and compressing the values is therefore charged to the caller's
//! [`Budget`](bounds::Budget), for all keys together.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod decode;
mod encode;
mod metadata;
mod reporter;

use std::fmt;

use bounds::Exceeded;

pub use decode::{DecodedGuestinfo, decode, decode_metadata, redacted, unpacked};
pub use encode::encode;
pub use metadata::{NodeMetadata, WaitOnNetwork, mapping};
pub use reporter::{BOOTSTRAP_CONDITION, BOOTSTRAP_LOG, BOOTSTRAP_REPORTED, BOOTSTRAP_REPORTER};

/// The metadata key, for the node's identity.
pub const METADATA: &str = "guestinfo.metadata";
/// The userdata key, for the node's first boot configuration. Its value is secret.
pub const USERDATA: &str = "guestinfo.userdata";
/// The vendordata key, for first boot configuration from a provider. cloud-init treats it like userdata. Its value is secret.
pub const VENDORDATA: &str = "guestinfo.vendordata";
/// The suffix that turns a key into the key for its encoding.
pub const ENCODING: &str = ".encoding";
/// The encoding that [`encode`] uses.
pub const GZIP_BASE64: &str = "gzip+base64";
/// The value that cloud-init writes in place of a value that it redacts.
pub const REDACTED: &str = "---";

/// The maximum length of an encoded value in bytes. Guests can't write back longer values, and vCenter's
/// limit for all values together isn't much higher.
pub const VALUE_LIMIT: usize = 64 * 1024;

/// The reasons why values can't be encoded or decoded. Errors don't contain the values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// An encoded value exceeds [`VALUE_LIMIT`].
    #[error(
        "{key} is {size} bytes when compressed and encoded, but the limit is {limit}: shorten or remove files and commands in the bootstrap data"
    )]
    TooLong {
        key: &'static str,
        /// The length of the encoded value in bytes.
        size: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// A value doesn't have the declared encoding.
    #[error("{key} is not {encoding}, as {key}.encoding says: {reason}")]
    Garbled {
        key: &'static str,
        /// The declared encoding.
        encoding: String,
        /// The decoding error, which doesn't quote the value.
        reason: String,
    },
    /// A value begins like gzip but can't be decompressed.
    #[error("can't be unpacked: {reason}")]
    NotGzip {
        /// The decompression error.
        reason: String,
    },
    /// A value isn't a YAML mapping.
    #[error("is not a YAML mapping: {reason}")]
    NotMapping {
        /// The parse error, which doesn't quote the value.
        reason: String,
    },
    /// The values exceed the budget.
    #[error(transparent)]
    Exceeded(#[from] Exceeded),
    /// The metadata isn't valid.
    #[error("guestinfo.metadata is not a YAML mapping with an instance-id: {reason}")]
    NotMetadata {
        /// The parse error, which doesn't quote the value.
        reason: String,
    },
}

/// Bytes that `Debug` prints only as a byte count.
struct Counted<'a>(&'a [u8]);

impl fmt::Debug for Counted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{} bytes>", self.0.len())
    }
}
