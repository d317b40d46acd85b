//! What a node's cloud-init gets, as the keys of VMware's guestinfo, and back again.
//!
//! A virtual machine gets its metadata, userdata and vendordata as ExtraConfig keys that cloud-init's
//! VMware datasource reads. Userdata carries the cluster's certificate authorities with their keys, so
//! nothing here prints it: not an error, not `Debug`, not [`redacted`].
//!
//! Values come from users. Whatever is unpacked, parsed or packed is counted in the [`Budget`](bounds::Budget) of the caller,
//! for all keys together.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod decode;
mod encode;
mod metadata;
mod reporter;

use std::fmt;

use bounds::Exceeded;

pub use decode::{Decoded, decode, decode_metadata, redacted, unpacked};
pub use encode::encode;
pub use metadata::{Metadata, WaitOnNetwork, mapping, virtual_router};
pub use reporter::{BOOTSTRAP_CONDITION, BOOTSTRAP_LOG, BOOTSTRAP_REPORTED, BOOTSTRAP_REPORTER};

/// The metadata: who the node is.
pub const METADATA: &str = "guestinfo.metadata";
/// The userdata: what the node does on first boot. Secret.
pub const USERDATA: &str = "guestinfo.userdata";
/// The vendordata: as userdata, from whoever made the image. Secret.
pub const VENDORDATA: &str = "guestinfo.vendordata";
/// What is put after a key to name the key of its encoding.
pub const ENCODING: &str = ".encoding";
/// The encoding that [`encode`] uses.
pub const GZIP_BASE64: &str = "gzip+base64";
/// What cloud-init leaves in place of a value it was asked to redact.
pub const REDACTED: &str = "---";

/// The longest encoded value, in bytes: a guest writes no longer ones back, and vCenter's own limit
/// for all of them together is not far away.
pub const VALUE_LIMIT: usize = 64 * 1024;

/// Why values could not be encoded or decoded. Carries no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// An encoded value is longer than a guest bears.
    #[error(
        "{key} is {size} bytes when compressed and encoded, but the limit is {limit}: shorten or remove files and commands in the bootstrap data"
    )]
    TooLong {
        /// The key.
        key: &'static str,
        /// How long the encoded value is, in bytes.
        size: usize,
        /// How long it may be, in bytes.
        limit: usize,
    },
    /// A value is not in the encoding it claims.
    #[error("{key} is not {encoding}, as {key}.encoding says: {reason}")]
    Garbled {
        /// The key.
        key: &'static str,
        /// The encoding it claims.
        encoding: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A value begins as gzip does, and is not.
    #[error("can't be unpacked: {reason}")]
    NotGzip {
        /// What is wrong with it.
        reason: String,
    },
    /// A value is not the mapping that it must be.
    #[error("is not a YAML mapping: {reason}")]
    NotMapping {
        /// What is wrong with it.
        reason: String,
    },
    /// The values need more than the budget allows.
    #[error(transparent)]
    Exceeded(#[from] Exceeded),
    /// Metadata is not what it must be.
    #[error("guestinfo.metadata is not a YAML mapping with an instance-id: {reason}")]
    NotMetadata {
        /// What is wrong with it.
        reason: String,
    },
}

/// Bytes that `Debug` only counts.
struct Counted<'a>(&'a [u8]);

impl fmt::Debug for Counted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{} bytes>", self.0.len())
    }
}
