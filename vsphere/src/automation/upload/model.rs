//! The types of update sessions and their files, both public and as JSON.

use serde::Deserialize;

use super::super::library::Endpoint;
use super::super::ovf::Message;

/// An item to be created without files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewItem {
    /// The ID of the target library, which must be a local library.
    pub library_id: String,
    /// The item's name: up to 80 characters, unique in the library.
    pub name: String,
    /// The item's description: up to 2000 characters.
    pub description: String,
    /// The item type, such as `ovf` or `iso`.
    pub kind: String,
}

/// A file that an item contains.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ItemFile {
    pub name: String,
    /// The size in bytes.
    #[serde(default)]
    pub size: u64,
}

/// The state of an update session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum UpdateState {
    /// The session accepts files.
    Active,
    /// The session's files were added to the item.
    Done,
    /// The session failed, and the item is unchanged.
    Error,
    /// The session was canceled, and the item is unchanged.
    Canceled,
    /// A state that a later release introduced.
    #[serde(other)]
    Unknown,
}

/// An update session's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateSession {
    pub state: UpdateState,
    /// The failure message, if the session has failed.
    pub error: Option<String>,
}

/// A file to be uploaded in an update session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewFile {
    /// The file name, without a folder.
    pub name: String,
    /// The size in bytes, which vCenter verifies.
    pub size: u64,
    /// The hexadecimal SHA-256 digest, which vCenter verifies.
    pub sha256: String,
}

/// The transfer status of a file in an update session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum FileStatus {
    /// No bytes have arrived yet.
    WaitingForTransfer,
    /// Bytes are arriving.
    Transferring,
    /// All bytes have arrived, and vCenter compares them with the announced size and digest.
    Validating,
    /// The file has been received and verified.
    Ready,
    /// The file is incomplete or doesn't match the announced size or digest.
    Error,
    /// A status that a later release introduced.
    #[serde(other)]
    Unknown,
}

/// A file of an update session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateFile {
    pub name: String,
    pub status: FileStatus,
    /// The file size in bytes as vCenter received it, once the file is ready.
    pub size: Option<u64>,
    /// The number of bytes received so far.
    pub received: u64,
    /// The upload URL, which authorizes the upload by itself.
    pub endpoint: Option<String>,
    /// The error message of a failed transfer.
    pub error: Option<String>,
}

/// The problems that vCenter's adapter for the item type finds in a session's files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Validation {
    /// The names of files that the descriptor refers to but the session lacks.
    pub missing: Vec<String>,
    /// Invalid files: the file name and the reason.
    pub invalid: Vec<(String, String)>,
}

#[derive(Deserialize)]
pub(super) struct SessionModel {
    pub state: UpdateState,
    pub error_message: Option<Message>,
}

#[derive(Deserialize)]
pub(super) struct FileInfo {
    pub name: String,
    pub status: FileStatus,
    pub size: Option<u64>,
    #[serde(default)]
    pub bytes_transferred: u64,
    pub upload_endpoint: Option<Endpoint>,
    pub error_message: Option<Message>,
}

impl From<FileInfo> for UpdateFile {
    fn from(info: FileInfo) -> Self {
        let FileInfo { name, status, size, bytes_transferred, upload_endpoint, error_message } = info;
        let endpoint = upload_endpoint.map(|endpoint| endpoint.uri);
        let error = error_message.map(|message| message.default_message);
        Self { name, status, size, received: bytes_transferred, endpoint, error }
    }
}

#[derive(Deserialize)]
pub(super) struct ValidationResult {
    #[serde(default)]
    pub missing_files: Vec<String>,
    #[serde(default)]
    pub invalid_files: Vec<InvalidFile>,
}

#[derive(Deserialize)]
pub(super) struct InvalidFile {
    pub name: String,
    pub error_message: Message,
}
