//! Uploads files into an empty item, and resumes after an interrupted run.
//!
//! The descriptor and the disks are sent as separate files with their SHA-256, without manifest and certificate, like
//! `govc library.import` does with an OVA (`cli/library/import.go` in govmomi). vCenter also accepts a whole OVA, but
//! doesn't verify a checksum for it.

use std::fmt;
use std::io::{self, SeekFrom};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use futures::{Stream, TryStreamExt as _, stream};
use tokio::fs::File;
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _};
use uuid::Uuid;
use vsphere::Client;
use vsphere::automation::{FileStatus, NewFile, UpdateFile, UpdateState};

use super::item::{allow_missing, end_sessions, has_type, is_not_allowed};
use super::ova::{Ova, OvaFile};
use super::progress::TransferProgress;

/// The maximum number of attempts to upload the files.
const ATTEMPTS: u32 = 3;
/// The interval between status reads while vCenter processes files.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The timeout for vCenter to check a file, or to move an item's files.
const LONGEST_WORK: Duration = Duration::from_hours(1);
/// The time between two reads of a transfer's progress. If the transfer has received bytes in this time, it belongs to
/// another run.
const WATCH: Duration = Duration::from_secs(3);
/// The maximum chunk size for reading the OVA, in bytes.
const CHUNK: u64 = 256 << 10;

/// The error for an item that another run is uploading to. The string explains the conflict.
#[derive(Debug)]
pub struct OthersWork(&'static str);

impl fmt::Display for OthersWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}. Wait until it has finished, then run the command again", self.0)
    }
}

impl std::error::Error for OthersWork {}

pub struct Filling<'a> {
    pub vcenter: &'a Client,
    pub ova: &'a Ova,
    pub progress: &'a TransferProgress,
    /// The keep-alive interval. vCenter's session timeout is five minutes by default.
    pub keep_alive: Duration,
}

impl Filling<'_> {
    /// Uploads all files into the item. If an upload is interrupted, tries again, with at most [`ATTEMPTS`] attempts.
    pub async fn fill(&self, item: &str) -> Result<()> {
        let mut attempt = 1;
        loop {
            match self.attempt(item).await {
                Err(error) if attempt < ATTEMPTS && may_help_again(&error) => {
                    self.progress.note(&format!("interrupted, starting again: {error:#}"));
                    attempt += 1;
                }
                result => return result,
            }
        }
    }

    async fn attempt(&self, item: &str) -> Result<()> {
        if self.take_over(item).await? {
            return Ok(());
        }
        self.progress.done.store(0, std::sync::atomic::Ordering::Relaxed);
        let session = match self.vcenter.open_update(item, Uuid::new_v4()).await {
            Err(error) if has_type(&error, "ResourceBusy") => {
                bail!(OthersWork(
                    "another user is uploading to the item; an interrupted session expires in minutes"
                ));
            }
            opened => opened?,
        };
        for part in &self.ova.parts {
            self.send(&session, part).await.with_context(|| part.name.clone())?;
        }
        self.validate(&session).await?;
        self.complete(item, &session).await
    }

    /// Completes the item's earlier session if it has received all files. Otherwise, ends the session. Returns true if
    /// the item contains its files. Fails if another run is uploading.
    async fn take_over(&self, item: &str) -> Result<bool> {
        for session in self.vcenter.update_sessions(item).await? {
            let found = allow_missing(self.vcenter.update_session(&session).await)?;
            if found.is_none_or(|found| found.state != UpdateState::Active) {
                continue;
            }
            let files = self.vcenter.update_files(&session).await?;
            if self.has_all(&files) {
                self.validate(&session).await?;
                self.complete(item, &session).await?;
                return Ok(true);
            }
            self.refuse_moving(&session, &files).await?;
        }
        // The response to an earlier completion may have been lost.
        if !self.vcenter.list_library_item_files(item).await?.is_empty() {
            return Ok(true);
        }
        end_sessions(self.vcenter, item).await?;
        Ok(false)
    }

    /// Fails if the session is receiving bytes, because another run is using it.
    async fn refuse_moving(&self, session: &str, files: &[UpdateFile]) -> Result<()> {
        let received = |files: &[UpdateFile]| files.iter().map(|file| file.received).sum::<u64>();
        if files.iter().all(|file| file.status != FileStatus::Transferring) {
            return Ok(());
        }
        tokio::time::sleep(WATCH).await;
        if received(&self.vcenter.update_files(session).await?) > received(files) {
            bail!(OthersWork("another run is importing the same OVA"));
        }
        Ok(())
    }

    fn has_all(&self, files: &[UpdateFile]) -> bool {
        let received = |part: &OvaFile| {
            let file = files.iter().find(|file| file.name == part.name);
            file.is_some_and(|file| file.status == FileStatus::Ready && file.size == Some(part.size))
        };
        files.len() == self.ova.parts.len() && self.ova.parts.iter().all(received)
    }

    /// Sends one file, and waits until vCenter has checked it. Keeps the session alive during this time.
    async fn send(&self, session: &str, part: &OvaFile) -> Result<()> {
        let OvaFile { name, offset, size, sha256 } = part;
        let file = NewFile { name: name.clone(), size: *size, sha256: sha256.clone() };
        let added = self.vcenter.add_update_file(session, &file).await?;
        let endpoint = added.endpoint.with_context(|| "vCenter returned no upload endpoint")?;
        let bytes = read_part(&self.ova.path, *offset, *size).await?;
        let sending = self.vcenter.upload(&endpoint, *size, bytes, &self.progress.done);
        tokio::select! {
            sent = sending => sent?,
            gone = self.keep_alive(session) => return Err(gone),
        }
        let begun = Instant::now();
        loop {
            let files = self.vcenter.update_files(session).await?;
            let file = files.into_iter().find(|file| file.name == *name);
            let file = file.with_context(|| "vCenter no longer knows the file")?;
            match file.status {
                FileStatus::Ready => return Ok(()),
                FileStatus::Error => bail!(
                    "vCenter refuses the file: {}. If the OVA was changed during the import, run the command again",
                    file.error.unwrap_or_default()
                ),
                _ if begun.elapsed() > LONGEST_WORK => {
                    bail!("vCenter has not checked the file within an hour")
                }
                _ => tokio::time::sleep(POLL_INTERVAL).await,
            }
        }
    }

    /// Renews the session periodically. Returns only when the session is gone.
    async fn keep_alive(&self, session: &str) -> anyhow::Error {
        loop {
            tokio::time::sleep(self.keep_alive).await;
            match self.vcenter.keep_update(session, self.progress.percent()).await {
                Err(error) if error.is_not_found() || is_not_allowed(&error) => return error.into(),
                Err(error) => {
                    tracing::debug!(%error, "cannot renew the session; only the upload keeps it alive");
                }
                Ok(()) => {}
            }
        }
    }

    async fn validate(&self, session: &str) -> Result<()> {
        let found = self.vcenter.validate_update(session).await?;
        let mut wrong: Vec<String> = found.missing.iter().map(|name| format!("{name} is missing")).collect();
        wrong.extend(found.invalid.iter().map(|(name, why)| format!("{name}: {why}")));
        if wrong.is_empty() { Ok(()) } else { bail!("vCenter refuses the OVF: {}", wrong.join("; ")) }
    }

    /// Completes the session. If the response is lost, the next attempt finds out the result.
    async fn complete(&self, item: &str, session: &str) -> Result<()> {
        let begun = Instant::now();
        self.vcenter.complete_update(session, LONGEST_WORK).await?;
        while !self.is_complete(item, session).await? {
            if begun.elapsed() > LONGEST_WORK {
                bail!(
                    "the files have not appeared in the item within an hour. Run the command again to check the item"
                );
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        if let Err(error) = self.vcenter.delete_update(session).await {
            tracing::debug!(%error, "cannot delete the session; it remains until it expires");
        }
        Ok(())
    }

    /// Returns true if the item contains its files, and false while vCenter processes the session. Fails if the session
    /// failed or was canceled.
    async fn is_complete(&self, item: &str, session: &str) -> Result<bool> {
        let found = match self.vcenter.update_session(session).await {
            Ok(found) => found,
            // vCenter removes ended sessions.
            Err(error) if error.is_not_found() => {
                let files = self.vcenter.list_library_item_files(item).await?;
                return if files.is_empty() { Err(error.into()) } else { Ok(true) };
            }
            Err(error) => return Err(error.into()),
        };
        match found.state {
            UpdateState::Done => Ok(true),
            UpdateState::Active | UpdateState::Unknown => Ok(false),
            UpdateState::Error => bail!("vCenter refuses the files: {}", found.error.unwrap_or_default()),
            UpdateState::Canceled => bail!("the upload was cancelled in vCenter"),
        }
    }
}

/// Returns true if a new attempt may succeed: the connection broke, or the session is gone.
pub fn may_help_again(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<vsphere::Error>();
    error.is_some_and(|error| error.retryable() || error.is_not_found())
}

/// Streams `size` bytes of the OVA, starting at `offset`.
async fn read_part(
    path: &std::path::Path,
    offset: u64,
    size: u64,
) -> Result<impl Stream<Item = io::Result<Bytes>> + Send + 'static> {
    let mut file = File::open(path).await.with_context(|| format!("cannot open {}", path.display()))?;
    file.seek(SeekFrom::Start(offset)).await?;
    let chunks = stream::try_unfold((file, size), |(mut file, left)| async move {
        if left == 0 {
            return Ok(None);
        }
        let mut chunk = Vec::new();
        let read = (&mut file).take(left.min(CHUNK)).read_to_end(&mut chunk).await?;
        if read == 0 {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the OVA file has become shorter during the import",
            ));
        }
        Ok(Some((Bytes::from(chunk), (file, left - read as u64))))
    });
    Ok(chunks.into_stream())
}
