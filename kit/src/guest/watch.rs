//! Lists and watches metadata. A watch is an endless response, so each line has a size limit and a
//! deadline, and the total rate is limited.

use std::time::Duration;

use http_body_util::BodyExt;
use kube::api::{ListParams, WatchParams};
use kube::client::Body;
use kube::core::Request;
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use super::GuestClient;
use super::answer::{self, Keys, Metadata, MetadataOnly};
use super::error::{ApiRejection, GuestError};
use super::few::Few;
use crate::retry::jitter;
use crate::share::responses::HeldBytes;

/// The maximum number of objects that are read from a list.
pub const MAX_OBJECTS: usize = 500;
/// The page size, in objects.
const PAGE: usize = 50;
/// The page size, in objects, if a page of [`PAGE`] objects is too large.
const SMALL_PAGE: usize = 4;
/// The maximum size of a page in bytes. An object can have 256 KiB of annotations, and as much again in managed fields.
const MAX_PAGE: usize = 2 << 20;
/// The maximum size of a watch event in bytes.
const MAX_EVENT: usize = 1 << 20;
/// The first and the maximum delay before a watch that failed is restarted.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));
/// The minimum duration of a watch that counts as working. If a watch was shorter, the delay before the next watch grows.
const LASTED: Duration = Duration::from_mins(1);
/// The time in seconds for which the guest is asked to keep a watch open.
const OPEN: u32 = 290;
/// The maximum time without a line from the guest.
const SILENCE: Duration = Duration::from_mins(5);

/// An update about a kind's objects.
#[derive(Debug)]
pub enum Event<K> {
    /// The complete list.
    Listed(Vec<Metadata<K>>),
    /// An object was created or changed.
    Changed(Metadata<K>),
    /// An object was deleted, or isn't selected any more.
    Gone(Metadata<K>),
}

#[derive(Deserialize)]
#[serde(bound = "K: Keys")]
struct Page<K> {
    #[serde(default)]
    metadata: PageMetadata,
    #[serde(default)]
    items: Few<MetadataOnly<K>, PAGE>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PageMetadata {
    #[serde(deserialize_with = "answer::word")]
    resource_version: Option<String>,
    r#continue: Option<String>,
}

#[derive(Deserialize)]
#[serde(bound = "K: Keys")]
struct Line<K> {
    r#type: String,
    object: MetadataOnly<K>,
}

/// The reasons why a watch ends.
enum Ended {
    /// The guest ended the watch without an error. The next watch can continue from this resourceVersion.
    Late(String),
    /// The listener is gone.
    Unwanted,
    /// The guest broke off the watch, or sent invalid data.
    Failed,
}

impl GuestClient {
    /// Lists the metadata of the objects at `path` that match the label selector `labels`, up to [`MAX_OBJECTS`].
    ///
    /// # Errors
    /// Same as [`GuestClient::read`].
    pub async fn list<K>(&self, path: &str, labels: &str) -> Result<Vec<Metadata<K>>, GuestError>
    where
        K: Keys + Send + 'static,
    {
        Ok(self.list_at(path, labels).await?.0)
    }

    /// Same as [`Self::list`], but also returns the list's resourceVersion.
    async fn list_at<K>(&self, path: &str, labels: &str) -> Result<(Vec<Metadata<K>>, String), GuestError>
    where
        K: Keys + Send + 'static,
    {
        let large = self.list_by(path, labels, PAGE).await;
        match large {
            Err(GuestError::Refused(refusal)) if refusal.is_too_large() => {
                self.list_by(path, labels, SMALL_PAGE).await
            }
            listed => listed,
        }
    }

    async fn list_by<K>(
        &self,
        path: &str,
        labels: &str,
        page: usize,
    ) -> Result<(Vec<Metadata<K>>, String), GuestError>
    where
        K: Keys + Send + 'static,
    {
        let request = Request::new(path);
        let mut params = ListParams::default().labels(labels).limit(u32::try_from(page).unwrap_or(u32::MAX));
        let mut listed: Vec<Metadata<K>> = Vec::new();
        loop {
            let Page { metadata, items } = self.read(request.list_metadata(&params), MAX_PAGE).await?;
            let most = MAX_OBJECTS.saturating_sub(listed.len());
            let is_empty = items.0.is_empty();
            listed.extend(items.0.into_iter().map(|object: MetadataOnly<K>| object.metadata).take(most));
            let next = metadata.r#continue.filter(|next| !next.is_empty() && !is_empty);
            match next.filter(|_| listed.len() < MAX_OBJECTS) {
                Some(next) => params.continue_token = Some(next),
                None => return Ok((listed, metadata.resource_version.unwrap_or_default())),
            }
        }
    }

    /// Sends updates about the objects at `path` that match the label selector `labels`, until the listener is gone. `translate`
    /// turns each event into the values to send.
    pub async fn watch<K, T>(
        self,
        path: String,
        labels: String,
        listener: mpsc::Sender<T>,
        translate: impl Fn(Event<K>) -> Vec<T> + Send,
    ) where
        K: Keys + Send + 'static,
        T: Send,
    {
        let mut pause = PAUSES.0;
        loop {
            let begun = Instant::now();
            let mut version = match self.list_at(&path, &labels).await {
                Ok((listed, version)) => {
                    if !send_all(&listener, translate(Event::Listed(listed))).await {
                        return;
                    }
                    Some(version)
                }
                Err(_) => None,
            };
            while let Some(from) = version.take() {
                let opened = Instant::now();
                match self.follow(&path, &labels, from, &listener, &translate).await {
                    Ended::Unwanted => return,
                    Ended::Late(last) if opened.elapsed() >= LASTED => version = Some(last),
                    Ended::Late(_) | Ended::Failed => {}
                }
            }
            if begun.elapsed() >= LASTED {
                pause = PAUSES.0;
            }
            tokio::select! {
                () = listener.closed() => return,
                () = sleep(jitter(pause)) => pause = (pause * 2).min(PAUSES.1),
            }
        }
    }

    /// Watches from `version`, and sends the changes until the watch ends.
    async fn follow<K: Keys, T>(
        &self,
        path: &str,
        labels: &str,
        mut version: String,
        listener: &mpsc::Sender<T>,
        translate: &(impl Fn(Event<K>) -> Vec<T> + Send),
    ) -> Ended {
        let params = WatchParams::default().labels(labels).timeout(OPEN);
        let opened = self.within(self.open(Request::new(path).watch_metadata(&params, &version))).await;
        let Ok(body) = opened else { return Ended::Failed };
        let mut lines = Lines { guest: self, body, rest: Vec::new(), seen: 0, held: HeldBytes::default() };
        loop {
            let line = tokio::select! {
                () = listener.closed() => return Ended::Unwanted,
                line = lines.next() => line,
            };
            let line = match line {
                Ok(Some(line)) => answer::read::<Line<K>>(&line),
                Ok(None) => return Ended::Late(version),
                Err(_) => return Ended::Failed,
            };
            let Ok(Line { r#type, object: MetadataOnly { metadata } }) = line else { return Ended::Failed };
            if let Some(now) = &metadata.resource_version {
                version.clone_from(now);
            }
            let event = match r#type.as_str() {
                "ADDED" | "MODIFIED" => Event::Changed(metadata),
                "DELETED" => Event::Gone(metadata),
                "BOOKMARK" => continue,
                _ => return Ended::Failed,
            };
            if !send_all(listener, translate(event)).await {
                return Ended::Unwanted;
            }
        }
    }
}

/// Sends all values. Returns false if the listener is gone.
async fn send_all<T>(listener: &mpsc::Sender<T>, all: Vec<T>) -> bool {
    for one in all {
        if listener.send(one).await.is_err() {
            return false;
        }
    }
    true
}

/// The lines that a watch sends.
struct Lines<'g> {
    guest: &'g GuestClient,
    body: Body,
    /// The bytes that arrived and aren't returned yet.
    rest: Vec<u8>,
    /// The number of bytes at the start of `rest` that are known not to contain a line end.
    seen: usize,
    held: HeldBytes,
}

impl Lines<'_> {
    /// Returns the next line that isn't blank, or `None` at the end.
    async fn next(&mut self) -> Result<Option<Vec<u8>>, GuestError> {
        loop {
            if let Some(end) = self.rest[self.seen..].iter().position(|byte| *byte == b'\n') {
                let mut line = self.rest.split_off(self.seen + end + 1);
                std::mem::swap(&mut line, &mut self.rest);
                self.seen = 0;
                self.held.keep(self.rest.len());
                if line.iter().any(|byte| !byte.is_ascii_whitespace()) {
                    return Ok(Some(line));
                }
                continue;
            }
            self.seen = self.rest.len();
            // After a line has begun, its end must follow soon.
            let patience = if self.rest.is_empty() { SILENCE } else { self.guest.deadline };
            let late = |_| GuestError::late(patience);
            let Some(data) = timeout(patience, read_frame(&mut self.body)).await.map_err(late)?? else {
                return Ok(None);
            };
            if self.rest.len() + data.len() > MAX_EVENT {
                return Err(ApiRejection::too_large(MAX_EVENT).into());
            }
            let taken = self.guest.limits.take(data.len(), &mut self.held);
            timeout(self.guest.deadline, taken).await.map_err(late)?;
            self.rest.extend_from_slice(&data);
            let wait = self.guest.pace.lock().count(data.len());
            if let Some(wait) = wait {
                sleep(wait).await;
            }
        }
    }
}

async fn read_frame(body: &mut Body) -> Result<Option<Vec<u8>>, GuestError> {
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| GuestError::unreachable(&error))?;
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data.to_vec()));
        }
    }
    Ok(None)
}
