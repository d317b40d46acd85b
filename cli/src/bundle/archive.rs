//! The bundle archive: a gzipped tar, which is encrypted if recipients are given.

use std::io::{self, Write};

use age::Recipient;
use age::stream::StreamWriter;
use age::x25519;
use anyhow::{Context, Result, anyhow, bail};
use flate2::Compression;
use flate2::write::GzEncoder;
use tar::{Builder, Header};

use super::scrub::Scrubbed;
use super::shapes::Counts;

/// The total unpacked size limit in bytes. Files that would exceed it are left out.
const MAX_TOTAL: usize = 512 << 20;
const FOLDER: &str = "layercake-bundle";

/// A file in the bundle.
#[derive(Debug)]
pub struct Entry {
    pub path: String,
    pub bytes: usize,
    /// Removal counts by secret type.
    pub scrubbed: Counts,
}

/// A bundle that is being written.
pub struct Archive<W: Write> {
    tar: Builder<GzEncoder<Sink<W>>>,
    made_at: u64,
    bytes: usize,
    pub entries: Vec<Entry>,
    /// The number of files that exceeded [`MAX_TOTAL`] and were left out.
    pub omitted: usize,
}

impl<W: Write> Archive<W> {
    /// Starts a bundle. If there are recipients, only encrypted bytes reach `output`. `made_at` becomes the
    /// modification time of the files, in seconds since 1970.
    pub fn new(output: W, recipients: &[x25519::Recipient], made_at: u64) -> Result<Self> {
        let gzip = GzEncoder::new(Sink::new(output, recipients)?, Compression::default());
        Ok(Self { tar: Builder::new(gzip), made_at, bytes: 0, entries: Vec::new(), omitted: 0 })
    }

    pub fn add(&mut self, path: &str, content: Scrubbed) -> Result<()> {
        if self.bytes + content.text.len() > MAX_TOTAL {
            self.omitted += 1;
            return Ok(());
        }
        self.append(path, content.text.as_bytes())?;
        self.entries.push(Entry {
            path: path.to_owned(),
            bytes: content.text.len(),
            scrubbed: content.counts,
        });
        Ok(())
    }

    fn append(&mut self, path: &str, content: &[u8]) -> Result<()> {
        self.bytes += content.len();
        let mut header = Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o600);
        header.set_mtime(self.made_at);
        let appended = self.tar.append_data(&mut header, format!("{FOLDER}/{path}"), content);
        appended.with_context(|| format!("cannot write {path} into the bundle"))
    }

    /// Writes `contents.txt` and ends the archive.
    pub fn finish(mut self, contents: &Scrubbed) -> Result<W> {
        self.append("contents.txt", contents.text.as_bytes())?;
        let gzip = self.tar.into_inner().context("cannot finish the bundle")?;
        let sink = gzip.finish().context("cannot finish the bundle")?;
        sink.finish().context("cannot finish the bundle")
    }
}

/// The destination for compressed bytes.
enum Sink<W: Write> {
    Plain(W),
    Encrypted(Box<StreamWriter<W>>),
}

impl<W: Write> Sink<W> {
    fn new(output: W, recipients: &[x25519::Recipient]) -> Result<Self> {
        if recipients.is_empty() {
            return Ok(Self::Plain(output));
        }
        let recipients = recipients.iter().map(|recipient| recipient as &dyn Recipient);
        let encryptor = age::Encryptor::with_recipients(recipients).map_err(|error| anyhow!("{error}"))?;
        let writer = encryptor.wrap_output(output).context("cannot start the encrypted bundle")?;
        Ok(Self::Encrypted(Box::new(writer)))
    }

    fn finish(self) -> io::Result<W> {
        match self {
            Self::Plain(output) => Ok(output),
            Self::Encrypted(writer) => writer.finish(),
        }
    }
}

impl<W: Write> Write for Sink<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(output) => output.write(bytes),
            Self::Encrypted(writer) => writer.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(output) => output.flush(),
            Self::Encrypted(writer) => writer.flush(),
        }
    }
}

/// Parses a recipient. Errors don't repeat `text`, because it may be an identity, which is a private key.
pub fn recipient(text: &str) -> Result<x25519::Recipient> {
    if text.to_uppercase().starts_with("AGE-SECRET-KEY-") {
        bail!(
            "--encrypt has an identity, which is secret. Use its recipient instead, which begins with age1"
        );
    }
    text.parse().map_err(|_| {
        anyhow!("--encrypt needs an age recipient: age1 and 58 letters and digits, as `age-keygen` prints it")
    })
}
