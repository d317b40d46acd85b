//! An empty item gets its files, whatever an earlier run has left of that.
//!
//! The descriptor and the disks are sent as files of their own, each with its SHA-256, and neither manifest nor certificate: so
//! does `govc library.import` with an OVA (`cli/library/import.go` of govmomi). vCenter takes a whole OVA too, but checks no
//! checksum of one.

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
use super::ova::{Ova, Part};
use super::progress::Progress;

/// How often an upload that broke off is begun again.
const ATTEMPTS: u32 = 3;
/// Between two looks at what vCenter does with files that it has.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// vCenter checks a file, or moves the files of an item, for so long at most.
const LONGEST_WORK: Duration = Duration::from_hours(1);
/// A transfer that goes on moves within so long.
const WATCH: Duration = Duration::from_secs(3);
/// How much is read from the OVA at once.
const CHUNK: u64 = 256 << 10;

/// Somebody else fills the item: it is left alone.
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
    pub progress: &'a Progress,
    /// How often a session is kept from expiring; vCenter's limit is five minutes by default.
    pub keep_alive: Duration,
}

impl Filling<'_> {
    /// Uploads all files into the item; tries again what broke off.
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

    /// Completes the session of an earlier run if it has received all, else ends it; tells whether the item has its files.
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
        // The answer to an earlier completion may have been lost.
        if !self.vcenter.library_item_files(item).await?.is_empty() {
            return Ok(true);
        }
        end_sessions(self.vcenter, item).await?;
        Ok(false)
    }

    /// Refuses a session whose bytes come right now: another run is at it.
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
        let received = |part: &Part| {
            let file = files.iter().find(|file| file.name == part.name);
            file.is_some_and(|file| file.status == FileStatus::Ready && file.size == Some(part.size))
        };
        files.len() == self.ova.parts.len() && self.ova.parts.iter().all(received)
    }

    /// Sends one file, keeps the session alive meanwhile, and waits until vCenter has checked it.
    async fn send(&self, session: &str, part: &Part) -> Result<()> {
        let Part { name, offset, size, sha256 } = part;
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

    /// Resolves only when the session is gone.
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

    /// Completes the session. After an answer that was lost, the next attempt sees what became of it.
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

    /// Whether the item has its files; a session that failed is an error.
    async fn is_complete(&self, item: &str, session: &str) -> Result<bool> {
        let found = match self.vcenter.update_session(session).await {
            Ok(found) => found,
            // vCenter removes sessions that have ended.
            Err(error) if error.is_not_found() => {
                let files = self.vcenter.library_item_files(item).await?;
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

/// Whether to begin again: the connection broke, or the session is gone.
pub fn may_help_again(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<vsphere::Error>();
    error.is_some_and(|error| error.retryable() || error.is_not_found())
}

/// The bytes of a part, as they are read.
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
