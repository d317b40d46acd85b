//! Update sessions and their files, as callers and the wire have them.

use serde::Deserialize;

use super::super::library::Endpoint;
use super::super::ovf::Message;

/// An item to be made, without any files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewItem {
    /// The library's id; it must be a local one.
    pub library_id: String,
    /// The item's name: 80 characters at most, and once in a library.
    pub name: String,
    /// The item's description: 2000 characters at most.
    pub description: String,
    /// Such as `ovf` or `iso`.
    pub kind: String,
}

/// A file of an item, as everybody sees it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ItemFile {
    /// Its name.
    pub name: String,
    /// Its size in bytes.
    #[serde(default)]
    pub size: u64,
}

/// What became of an update session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum UpdateState {
    /// It takes files.
    Active,
    /// The item has its files.
    Done,
    /// It failed; the item is as before.
    Error,
    /// Somebody ended it; the item is as before.
    Canceled,
    /// A state of a later release.
    #[serde(other)]
    Unknown,
}

/// An update session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateSession {
    /// What became of it.
    pub state: UpdateState,
    /// Why it failed.
    pub error: Option<String>,
}

/// A file to be uploaded in an update session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewFile {
    /// Its name, without a folder.
    pub name: String,
    /// Its size in bytes, which vCenter checks.
    pub size: u64,
    /// Its SHA-256 in hexadecimal digits, which vCenter checks.
    pub sha256: String,
}

/// How far vCenter is with a file of an update session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum FileStatus {
    /// Nothing came yet.
    WaitingForTransfer,
    /// Bytes come.
    Transferring,
    /// All bytes came and are compared with what was announced.
    Validating,
    /// It is here.
    Ready,
    /// It came in part, or is not what was announced.
    Error,
    /// A status of a later release.
    #[serde(other)]
    Unknown,
}

/// A file of an update session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateFile {
    /// Its name.
    pub name: String,
    /// How far vCenter is with it.
    pub status: FileStatus,
    /// The size that vCenter received, once it is ready.
    pub size: Option<u64>,
    /// How many bytes came so far.
    pub received: u64,
    /// Where its bytes are sent to; whoever knows it may send them.
    pub endpoint: Option<String>,
    /// What is wrong with it.
    pub error: Option<String>,
}

/// What vCenter's adapter for the item's type finds wrong with the files of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Validation {
    /// Files that the descriptor names and the session lacks.
    pub missing: Vec<String>,
    /// Files that are wrong, each with the reason.
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
