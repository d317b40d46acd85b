//! Creates and fills content library items: update sessions, their files, and the uploads.
//!
//! An item is created empty. In an update session, the client announces the files and uploads their bytes over HTTP.
//! When the session completes, vCenter adds the files to the item; until then, readers of the item don't see the files.
//! An item can have only one active session, and a session expires after five minutes without activity.

mod model;

pub use model::{FileStatus, ItemFile, NewFile, NewItem, UpdateFile, UpdateSession, UpdateState, Validation};

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use reqwest::header::CONTENT_LENGTH;
use reqwest::{Body, Method};
use serde_json::{Value as Json, json};
use uuid::Uuid;

use self::model::{FileInfo, SessionModel, ValidationResult};
use super::call::{Call, count, part};
use super::library::ITEMS;
use crate::http::{Pool, SHORT_ANSWER};
use crate::retry::RetryPolicy;
use crate::style::Form;
use crate::wire::{classify_status, convert_response_error};
use crate::{Client, Error, Kind, Result};

/// The maximum time that an upload may go without progress. Progress is checked once per interval, so a failure may
/// take up to twice as long to detect. The time is long because vCenter may respond late after the last byte.
const STALL: Duration = Duration::from_mins(5);
/// The maximum duration of an upload.
const LONGEST_UPLOAD: Duration = Duration::from_hours(24);

impl Client {
    /// Creates an item without files and returns its ID. Two calls with the same token create only one item.
    ///
    /// Fails with `DuplicateName` if the name is taken.
    pub async fn create_library_item(&self, item: &NewItem, token: Uuid) -> Result<String> {
        self.automation("library item create", self.reading(), |form| create_item(item, token, form))
            .await
            .map_err(|error: Error| error.on(&item.name))
    }

    /// Deletes an item and its files.
    pub async fn delete_library_item(&self, id: &str) -> Result<()> {
        let call = |form: Form| Call::delete(form.one(ITEMS, id));
        let deleted: Result<Json> = self.automation("library item delete", self.once_only(), call).await;
        deleted.map(drop).map_err(|error| error.on(id))
    }

    /// Returns an item's files. The list is empty until an update session has completed.
    pub async fn list_library_item_files(&self, id: &str) -> Result<Vec<ItemFile>> {
        self.automation("library item files", self.reading(), |form| {
            Call::get(match form {
                Form::Api => format!("{}/file", form.one(ITEMS, id)),
                Form::Rest => format!("{}/file?library_item_id={}", form.all(ITEMS), part(id)),
            })
        })
        .await
        .map_err(|error: Error| error.on(id))
    }

    /// Opens an update session for an item and returns its ID. Two calls with the same token open only one session.
    pub async fn open_update(&self, item_id: &str, token: Uuid) -> Result<String> {
        self.automation("update session create", self.reading(), |form| open_session(item_id, token, form))
            .await
            .map_err(|error: Error| error.on(item_id))
    }

    /// Returns the IDs of the item's update sessions that the current user opened.
    pub async fn update_sessions(&self, item_id: &str) -> Result<Vec<String>> {
        let item = part(item_id);
        self.automation("update sessions", self.reading(), |form| {
            Call::get(format!("{}?library_item_id={item}", form.all(UPDATES)))
        })
        .await
        .map_err(|error: Error| error.on(item_id))
    }

    /// Returns the current state of an update session.
    pub async fn update_session(&self, id: &str) -> Result<UpdateSession> {
        let call = |form: Form| Call::get(form.one(UPDATES, id));
        let model: Result<SessionModel> = self.automation("update session", self.reading(), call).await;
        let SessionModel { state, error_message } = model.map_err(|error| error.on(id))?;
        Ok(UpdateSession { state, error: error_message.map(|message| message.default_message) })
    }

    /// Returns the files of an update session.
    pub async fn update_files(&self, id: &str) -> Result<Vec<UpdateFile>> {
        let call = |form: Form| {
            Call::get(match form {
                Form::Api => files_path(id, form),
                Form::Rest => format!("{}?update_session_id={}", form.all(REST_FILES), part(id)),
            })
        };
        let infos: Result<Vec<FileInfo>> =
            self.automation("update session files", self.reading(), call).await;
        Ok(infos.map_err(|error| error.on(id))?.into_iter().map(UpdateFile::from).collect())
    }

    /// Announces a file. The returned `endpoint` then accepts the file's bytes.
    ///
    /// If the response is lost, the call isn't repeated: look for the file in [`Client::update_files`].
    pub async fn add_update_file(&self, id: &str, file: &NewFile) -> Result<UpdateFile> {
        let info: Result<FileInfo> =
            self.automation("update session add", self.once_only(), |form| add_file(id, file, form)).await;
        info.map(UpdateFile::from).map_err(|error| error.on(&file.name))
    }

    /// Returns the missing and invalid files of a session after all uploads have finished.
    pub async fn validate_update(&self, id: &str) -> Result<Validation> {
        let call = |form: Form| Call::post_nothing(form.action(&files_path(id, form), "validate"));
        let found: Result<ValidationResult> =
            self.automation("update session validate", self.reading(), call).await;
        let ValidationResult { missing_files, invalid_files } = found.map_err(|error| error.on(id))?;
        let named = invalid_files.into_iter().map(|file| (file.name, file.error_message.default_message));
        Ok(Validation { missing: missing_files, invalid: named.collect() })
    }

    /// Completes a session, so that vCenter adds the session's files to the item. vCenter may respond before it has
    /// finished, so poll [`Client::update_session`]. `deadline` is the maximum time to wait for the response.
    ///
    /// If the response is lost, the call isn't repeated: the session's state shows the outcome.
    pub async fn complete_update(&self, id: &str, deadline: Duration) -> Result<()> {
        let policy = RetryPolicy { timeout: deadline, repeatable: false };
        self.session_action("update session complete", policy, id, "complete", None).await
    }

    /// Prevents a session from expiring, and reports the upload's progress in percent to other clients.
    pub async fn keep_update(&self, id: &str, percent: u8) -> Result<()> {
        let progress = Some(json!({ "client_progress": percent.min(100) }));
        self.session_action("update session keep-alive", self.reading(), id, "keep-alive", progress).await
    }

    /// Cancels an active session and discards its uploads.
    pub async fn cancel_update(&self, id: &str) -> Result<()> {
        self.session_action("update session cancel", self.once_only(), id, "cancel", None).await
    }

    /// Deletes a session that is no longer active.
    pub async fn delete_update(&self, id: &str) -> Result<()> {
        let call = |form: Form| Call::delete(form.one(UPDATES, id));
        let deleted: Result<Json> = self.automation("update session delete", self.once_only(), call).await;
        deleted.map(drop).map_err(|error| error.on(id))
    }

    async fn session_action(
        &self,
        name: &'static str,
        policy: RetryPolicy,
        id: &str,
        action: &str,
        body: Option<Json>,
    ) -> Result<()> {
        let call = |form: Form| {
            let path = form.action(&form.one(UPDATES, id), action);
            Call { body: body.clone(), ..Call::post_nothing(path) }
        };
        let done: Result<Json> = self.automation(name, policy, call).await;
        done.map(drop).map_err(|error| error.on(id))
    }

    /// Uploads a file's bytes to the file's endpoint. `size` is the file size in bytes. `sent` counts the bytes as they
    /// are sent.
    ///
    /// The endpoint itself authorizes the upload, so the session token is not sent. Success doesn't mean that the
    /// file is valid: check [`Client::update_files`]. The upload is not retried.
    pub async fn upload(
        &self,
        endpoint: &str,
        size: u64,
        bytes: impl Stream<Item = io::Result<Bytes>> + Send + 'static,
        sent: &Arc<AtomicU64>,
    ) -> Result<()> {
        const NAME: &str = "upload";
        self.inner.http.check_scheme(NAME, endpoint)?;
        self.config().guard.check(NAME)?;
        let counter = Arc::clone(sent);
        let chunks = bytes.inspect(move |chunk| {
            let count = chunk.as_ref().map_or(0, Bytes::len);
            counter.fetch_add(count as u64, Ordering::Relaxed);
        });
        let http = &self.inner.http;
        let request = http.request(Pool::Calls, Method::PUT, endpoint);
        let request = request.header(CONTENT_LENGTH, size).body(Body::wrap_stream(chunks));
        let started = Instant::now();
        let answer = tokio::select! {
            answer = http.send_within(NAME, request, LONGEST_UPLOAD, SHORT_ANSWER) => answer,
            () = wait_until_stalled(sent) => Err(Error::new(NAME, Kind::TimedOut)),
        };
        let result = answer.and_then(|answer| match answer.status {
            200..300 => Ok(()),
            status => Err(convert_response_error(NAME, classify_status(status))),
        });
        count(self, NAME, started, &result);
        result
    }
}

/// Waits until `sent` hasn't changed for one `STALL` interval.
async fn wait_until_stalled(sent: &AtomicU64) {
    let mut before = None;
    loop {
        let now = Some(sent.load(Ordering::Relaxed));
        if now == before {
            return;
        }
        before = now;
        tokio::time::sleep(STALL).await;
    }
}

const UPDATES: &str = "content/library/item/update-session";
/// The path of an update session's files in the `/rest` form, which doesn't nest them below the session.
const REST_FILES: &str = "content/library/item/updatesession/file";

fn files_path(session: &str, form: Form) -> String {
    match form {
        Form::Api => format!("{}/file", form.one(UPDATES, session)),
        Form::Rest => form.one(REST_FILES, session),
    }
}

/// Builds a request that creates an object of a resource kind. The `/api` form sends the token in a header, the `/rest`
/// form in the body.
fn build_creation(kind: &str, spec: Json, token: Uuid, form: Form) -> Call {
    let path = form.all(kind);
    match form {
        Form::Api => Call { client_token: Some(token.to_string()), ..Call::post(path, spec) },
        Form::Rest => Call::post(path, json!({ "client_token": token, "create_spec": spec })),
    }
}

fn create_item(item: &NewItem, token: Uuid, form: Form) -> Call {
    let NewItem { library_id, name, description, kind } = item;
    let spec = json!({ "library_id": library_id, "name": name, "description": description, "type": kind });
    build_creation(ITEMS, spec, token, form)
}

fn open_session(item_id: &str, token: Uuid, form: Form) -> Call {
    build_creation(UPDATES, json!({ "library_item_id": item_id }), token, form)
}

fn add_file(session: &str, file: &NewFile, form: Form) -> Call {
    let NewFile { name, size, sha256 } = file;
    let spec = json!({
        "name": name, "source_type": "PUSH", "size": size,
        "checksum_info": { "algorithm": "SHA256", "checksum": sha256 },
    });
    let files = files_path(session, form);
    match form {
        Form::Api => Call::post(files, spec),
        Form::Rest => Call::post(form.action(&files, "add"), json!({ "file_spec": spec })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_what_fills_an_item() {
        let item = NewItem {
            library_id: "lib-1".into(),
            name: "node".into(),
            description: "of node.ova".into(),
            kind: "ovf".into(),
        };
        let file = NewFile { name: "node.ovf".into(), size: 7, sha256: "ab".into() };
        let calls = [Form::Api, Form::Rest].map(|form| {
            let calls = [
                create_item(&item, Uuid::nil(), form),
                open_session("item-1", Uuid::nil(), form),
                add_file("s/1", &file, form),
            ];
            calls.map(|Call { path, body, client_token, .. }| {
                json!({ "path": path, "body": body, "client_token": client_token })
            })
        });
        insta::assert_json_snapshot!(calls);
    }

    #[test]
    fn what_later_releases_add_is_read() {
        let session: SessionModel = serde_json::from_value(json!({ "state": "PAUSED" })).unwrap();
        assert_eq!(session.state, UpdateState::Unknown);
        let info = json!({ "name": "a", "status": "WAITING_FOR_TRANSFER", "bytes_transferred": 0 });
        let file = UpdateFile::from(serde_json::from_value::<FileInfo>(info).unwrap());
        assert_eq!((file.status, file.endpoint), (FileStatus::WaitingForTransfer, None));
    }
}
