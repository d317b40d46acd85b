//! Content libraries and what is in them.

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
    /// Its UUID.
    pub id: String,
    /// Its name.
    pub name: String,
    /// `LOCAL` or `SUBSCRIBED`.
    #[serde(rename = "type", default)]
    pub kind: String,
}

/// An item of a content library.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct LibraryItem {
    /// Its UUID.
    pub id: String,
    /// The library it is in.
    #[serde(default)]
    pub library_id: String,
    /// Its name.
    pub name: String,
    /// Free text.
    #[serde(default)]
    pub description: String,
    /// Such as `ovf` or `iso`.
    #[serde(rename = "type", default)]
    pub kind: String,
    /// Changes with every change of the item.
    #[serde(default)]
    pub version: String,
    /// Changes with every change of its files; what a golden template is made of.
    #[serde(default)]
    pub content_version: String,
    /// Size of its files in bytes.
    #[serde(default)]
    pub size: u64,
    /// When it was made.
    #[serde(rename = "creation_time", default)]
    pub created: Option<jiff::Timestamp>,
    /// Whether its files are here; false for a subscribed item that was not fetched.
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

/// Where the bytes of a file come from or go to.
#[derive(Deserialize)]
pub(super) struct Endpoint {
    pub uri: String,
}

const LIBRARIES: &str = "content/library";
pub(super) const ITEMS: &str = "content/library/item";
const DOWNLOADS: &str = "content/library/item/download-session";
/// The files of download sessions, which the old form does not have below the session.
const REST_FILES: &str = "content/library/item/downloadsession/file";

/// A descriptor holds some kilobytes.
const LONGEST_DESCRIPTOR: usize = 16 << 20;

/// How often a prepared file is asked for, and for how long.
const PREPARING: (Duration, u32) = (Duration::from_millis(250), 120);

impl Client {
    /// The library with that id.
    pub async fn library(&self, id: &str) -> Result<Library> {
        self.automation("library", self.reading(), |form| Call::get(form.one(LIBRARIES, id)))
            .await
            .map_err(|error: Error| error.on(id))
    }

    /// All libraries that exist until they are read. One call, and one for each library.
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

    /// The libraries with that name; names need not be unique.
    pub async fn libraries_named(&self, name: &str) -> Result<Vec<Library>> {
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

    /// The ids of a library's items.
    pub async fn library_items(&self, library_id: &str) -> Result<Vec<String>> {
        let part = part(library_id);
        self.automation("library items", self.reading(), |form| {
            Call::get(format!("{}?library_id={part}", form.all(ITEMS)))
        })
        .await
        .map_err(|error: Error| error.on(library_id))
    }

    /// The ids of a library's items of that name; vCenter gives a name once.
    pub async fn library_items_named(&self, library_id: &str, name: &str) -> Result<Vec<String>> {
        let spec = json!({ "library_id": library_id, "name": name });
        self.automation("library item find", self.reading(), |form| find(ITEMS, spec.clone(), form))
            .await
            .map_err(|error: Error| error.on(name))
    }

    /// An item.
    pub async fn library_item(&self, id: &str) -> Result<LibraryItem> {
        self.automation("library item", self.reading(), |form| Call::get(form.one(ITEMS, id)))
            .await
            .map_err(|error: Error| error.on(id))
    }

    /// vCenter begins to fetch the files of an item of a subscribed library; [`LibraryItem::cached`] shows when it has.
    ///
    /// Once begun, a second request does no harm.
    pub async fn sync_subscribed_item(&self, id: &str) -> Result<()> {
        let call = |form: Form| {
            let path = form.action(&form.one("content/library/subscribed-item", id), "sync");
            Call::post(path, json!({ "force_sync_content": true }))
        };
        let synced: Result<Json> = self.automation("library item sync", self.reading(), call).await;
        synced.map(drop).map_err(|error| error.on(id))
    }

    /// The text of an OVF item's descriptor, by a download session.
    pub async fn ovf_descriptor(&self, item_id: &str) -> Result<String> {
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
            // The Automation API reports this only when asked.
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

    /// An open session only holds a lock for some minutes, so its end is not worth an error.
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
