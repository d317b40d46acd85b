//! Content libraries and their items.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::call::{Call, part};
use super::ovf::Message;
use crate::error::unexpected;
use crate::style::Form;
use crate::{Client, Error, Kind, Result};

/// A content library.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Library {
    /// The library's UUID.
    pub id: String,
    /// The library's name, which needn't be unique.
    pub name: String,
    /// The library type: `LOCAL` or `SUBSCRIBED`.
    #[serde(rename = "type", default)]
    pub kind: String,
}

/// An item of a content library.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct LibraryItem {
    /// The item's UUID.
    pub id: String,
    /// The UUID of the library that contains the item.
    #[serde(default)]
    pub library_id: String,
    /// The item's name, which is unique in its library.
    pub name: String,
    /// The item's description (free text).
    #[serde(default)]
    pub description: String,
    /// The item type, such as `ovf` or `iso`.
    #[serde(rename = "type", default)]
    pub kind: String,
    /// The item's version, which changes whenever the item changes.
    #[serde(default)]
    pub version: String,
    /// The version of the item's files, which changes whenever a file changes.
    #[serde(default)]
    pub content_version: String,
    /// The total size of the item's files in bytes.
    #[serde(default)]
    pub size: u64,
    /// The creation time.
    #[serde(rename = "creation_time", default)]
    pub created: Option<jiff::Timestamp>,
    /// True if vCenter stores the item's files. False for a subscribed item that hasn't been downloaded.
    #[serde(default)]
    pub cached: bool,
}

#[derive(Deserialize)]
struct DownloadFile {
    name: String,
    #[serde(default)]
    status: String,
    download_endpoint: Option<Endpoint>,
    error_message: Option<Message>,
}

/// The URI for a file's upload or download.
#[derive(Deserialize)]
pub(super) struct Endpoint {
    pub uri: String,
}

const LIBRARIES: &str = "content/library";
pub(super) const ITEMS: &str = "content/library/item";
const DOWNLOADS: &str = "content/library/item/download-session";
/// The path of a download session's files in the `/rest` form, which doesn't nest them below the session.
const REST_FILES: &str = "content/library/item/downloadsession/file";

/// The maximum descriptor size in bytes. Descriptors usually take a few kilobytes.
const LONGEST_DESCRIPTOR: usize = 16 << 20;

/// The polling interval and the maximum number of polls while vCenter prepares a file for download.
const PREPARING: (Duration, u32) = (Duration::from_millis(250), 120);

impl Client {
    /// Returns the library with this ID.
    pub async fn library(&self, id: &str) -> Result<Library> {
        self.automation("library", self.reading(), |form| Call::get(form.one(LIBRARIES, id)))
            .await
            .map_err(|error: Error| error.on(id))
    }

    /// Returns all libraries, except those that are deleted while they are read. Sends one call for the list and one
    /// per library.
    pub async fn libraries(&self) -> Result<Vec<Library>> {
        let call = |form: Form| Call::get(form.all(LIBRARIES));
        let ids: Vec<String> = self.automation("library list", self.reading(), call).await?;
        let mut found = Vec::with_capacity(ids.len());
        for id in ids {
            match self.library(&id).await {
                Err(error) if error.is_not_found() => {}
                library => found.push(library?),
            }
        }
        Ok(found)
    }

    /// Returns the libraries with this name. Library names needn't be unique.
    pub async fn find_libraries(&self, name: &str) -> Result<Vec<Library>> {
        let ids: Vec<String> = self
            .automation("library find", self.reading(), |form| find(LIBRARIES, json!({ "name": name }), form))
            .await
            .map_err(|error: Error| error.on(name))?;
        let mut found = Vec::with_capacity(ids.len());
        for id in ids {
            found.push(self.library(&id).await?);
        }
        Ok(found)
    }

    /// Returns the IDs of a library's items.
    pub async fn list_library_items(&self, library_id: &str) -> Result<Vec<String>> {
        let part = part(library_id);
        self.automation("library items", self.reading(), |form| {
            Call::get(format!("{}?library_id={part}", form.all(ITEMS)))
        })
        .await
        .map_err(|error: Error| error.on(library_id))
    }

    /// Returns the IDs of a library's items with this name. vCenter keeps item names unique within a library.
    pub async fn find_library_items(&self, library_id: &str, name: &str) -> Result<Vec<String>> {
        let spec = json!({ "library_id": library_id, "name": name });
        self.automation("library item find", self.reading(), |form| find(ITEMS, spec.clone(), form))
            .await
            .map_err(|error: Error| error.on(name))
    }

    /// Returns the item with this ID.
    pub async fn read_library_item(&self, id: &str) -> Result<LibraryItem> {
        self.automation("library item", self.reading(), |form| Call::get(form.one(ITEMS, id)))
            .await
            .map_err(|error: Error| error.on(id))
    }

    /// Starts the download of a subscribed item's files. [`LibraryItem::cached`] becomes true when the download has
    /// finished.
    ///
    /// The call is idempotent: a second request during a download has no effect.
    pub async fn sync_subscribed_item(&self, id: &str) -> Result<()> {
        let call = |form: Form| {
            let path = form.action(&form.one("content/library/subscribed-item", id), "sync");
            Call::post(path, json!({ "force_sync_content": true }))
        };
        let synced: Result<Json> = self.automation("library item sync", self.reading(), call).await;
        synced.map(drop).map_err(|error| error.on(id))
    }

    /// Downloads an OVF item's descriptor in a download session and returns the descriptor.
    pub async fn download_ovf_descriptor(&self, item_id: &str) -> Result<String> {
        let session = self.open_download(item_id).await?;
        let text = self.download_descriptor(&session, item_id).await;
        self.close_download(&session).await;
        text.map_err(|error| error.on(item_id))
    }

    async fn download_descriptor(&self, session: &str, item_id: &str) -> Result<String> {
        let files = self.download_files(session).await?;
        let named = files.into_iter().map(|file| file.name).find(|name| is_descriptor(name));
        let Some(name) = named else {
            let cause = format!("library item {item_id} has no .ovf file");
            return Err(Error::new("download", Kind::Unexpected { cause }));
        };
        let mut file = self.prepare_download(session, &name).await?;
        let (pause, mut tries) = PREPARING;
        while file.status != "PREPARED" && tries > 0 {
            if file.status == "ERROR" {
                let cause = file.error_message.map(|message| message.default_message).unwrap_or_default();
                return Err(Error::new("download", Kind::Unexpected { cause: format!("{name}: {cause}") }));
            }
            // The Automation API can't push this state, so poll it.
            tokio::time::sleep(pause).await;
            tries -= 1;
            let files = self.download_files(session).await?;
            file = files
                .into_iter()
                .find(|file| file.name == name)
                .ok_or_else(|| unexpected("download", "the file vanished"))?;
        }
        let endpoint = file.download_endpoint.ok_or_else(|| Error::new("download", Kind::TimedOut))?;
        let bytes = self.fetch(&endpoint.uri, LONGEST_DESCRIPTOR).await?;
        String::from_utf8(bytes).map_err(|_| unexpected("download", "the descriptor is not UTF-8"))
    }

    async fn open_download(&self, item_id: &str) -> Result<String> {
        let spec = json!({ "library_item_id": item_id });
        self.automation("download", self.reading(), |form| {
            Call::post(form.all(DOWNLOADS), form.body("create_spec", spec.clone()))
        })
        .await
        .map_err(|error: Error| error.on(item_id))
    }

    async fn download_files(&self, session: &str) -> Result<Vec<DownloadFile>> {
        self.automation("download files", self.reading(), |form| {
            Call::get(match form {
                Form::Api => format!("{}/file", form.one(DOWNLOADS, session)),
                Form::Rest => format!("{}?download_session_id={}", form.all(REST_FILES), part(session)),
            })
        })
        .await
    }

    async fn prepare_download(&self, session: &str, name: &str) -> Result<DownloadFile> {
        self.automation("download prepare", self.reading(), |form| {
            let path = match form {
                Form::Api => format!("{}/file", form.one(DOWNLOADS, session)),
                Form::Rest => form.one(REST_FILES, session),
            };
            Call::post(form.action(&path, "prepare"), json!({ "file_name": name }))
        })
        .await
    }

    /// Closes a download session. A failure is only logged, because an open session just holds a lock until it
    /// expires after some minutes.
    async fn close_download(&self, session: &str) {
        let call = |form: Form| Call::delete(form.one(DOWNLOADS, session));
        let closed: Result<Json> = self.automation("download close", self.once_only(), call).await;
        if let Err(error) = closed {
            tracing::debug!(%error, "cannot close the download session; it remains open until it expires");
        }
    }
}

fn find(kind: &str, spec: Json, form: Form) -> Call {
    Call::post(form.action(&form.all(kind), "find"), form.body("spec", spec))
}

fn is_descriptor(name: &str) -> bool {
    std::path::Path::new(name).extension().is_some_and(|extension| extension.eq_ignore_ascii_case("ovf"))
}
