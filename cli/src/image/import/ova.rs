//! Reads an OVA file and verifies that it is complete.
//!
//! The whole file is read once before vCenter is changed. Parts are recorded by offset, so that they can be uploaded
//! directly from the file.

mod descriptor;
mod manifest;
mod part;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, bail};
use api::names::hex;
use percent_encoding::percent_decode_str;
use sha2::{Digest as _, Sha256};

pub use self::part::OvaFile;

use self::descriptor::{Reference, References};
use self::part::AGAIN;

/// The buffer size for reads, in bytes.
const CHUNK: usize = 1 << 20;
/// The maximum size of a descriptor or manifest, in bytes.
const LONGEST_TEXT: u64 = 16 << 20;

/// A complete OVA.
#[derive(Clone, Debug)]
pub struct Ova {
    pub path: PathBuf,
    /// The SHA-256 of the whole file, in hexadecimal.
    pub sha256: String,
    /// The descriptor, then the files that it references, in descriptor order.
    pub parts: Vec<OvaFile>,
    /// True if a manifest covers all parts.
    pub has_manifest: bool,
}

impl Ova {
    /// Returns the total size of all parts in bytes.
    pub fn size(&self) -> u64 {
        self.parts.iter().map(|part| part.size).sum()
    }

    /// Reads a file and verifies it against its manifest. `done` counts the bytes that were read.
    pub fn read(path: &Path, done: &AtomicU64) -> Result<Self> {
        let shown = path.display();
        let file = File::open(path).with_context(|| format!("cannot open {shown}"))?;
        if !file.metadata().with_context(|| format!("cannot read {shown}"))?.is_file() {
            bail!("{shown} is not a file");
        }
        if is_gzip(path).with_context(|| format!("cannot read {shown}"))? {
            bail!("{shown} is packed with gzip. Unpack it first: gunzip <{shown} >NEW.ova");
        }
        let read = Contents::read(file, done).with_context(|| format!("{shown} is not a complete OVA"))?;
        read.verified(path).with_context(|| format!("{shown} is not a complete OVA"))
    }
}

/// The contents of an OVA before verification.
struct Contents {
    sha256: String,
    parts: Vec<OvaFile>,
    /// The text of descriptors and manifests by name.
    texts: BTreeMap<String, String>,
}

impl Contents {
    fn read(file: File, done: &AtomicU64) -> Result<Self> {
        let mut hashed = Hashed { inner: file, digest: Sha256::new(), done };
        let mut archive = tar::Archive::new(&mut hashed);
        let (mut parts, mut texts) = (Vec::new(), BTreeMap::new());
        for entry in archive.entries()? {
            let mut entry = entry.map_err(|error| unreadable(&error))?;
            // `tar c .` also adds the folder itself.
            if entry.header().entry_type().is_dir() && matches!(&*entry.path_bytes(), b"./" | b".") {
                continue;
            }
            let (part, text) = read_entry(&mut entry)?;
            if parts.iter().any(|other: &OvaFile| other.name == part.name) {
                bail!("it contains two files with the name {}", part.name);
            }
            texts.extend(text.map(|text| (part.name.clone(), text)));
            parts.push(part);
        }
        io::copy(&mut hashed, &mut io::sink())?;
        Ok(Self { sha256: hex(&hashed.digest.finalize()), parts, texts })
    }

    fn verified(self, path: &Path) -> Result<Ova> {
        let Self { sha256, parts, texts } = self;
        let named = |extension: &str| {
            let mut all = texts.keys().filter(|name| has_extension(name, extension)).cloned();
            (all.next(), all.next())
        };
        let descriptor = match named("ovf") {
            (Some(name), None) => name,
            (None, _) => bail!("it has no .ovf file. Use the .ova that a build or an export wrote"),
            (Some(_), Some(_)) => bail!("it has more than one .ovf file"),
        };
        let (manifest, None) = named("mf") else { bail!("it has more than one .mf file") };
        let text = |name: &str| texts.get(name).map(String::as_str).unwrap_or_default();
        let References(references) =
            References::read(text(&descriptor)).with_context(|| descriptor.clone())?;
        let digests =
            manifest.as_deref().map(|name| manifest::read(text(name)).with_context(|| name.to_owned()));
        let digests = digests.transpose()?;
        if let Some(digests) = &digests {
            manifest::compare(digests, &parts)?;
        }
        let wanted = named_parts(&descriptor, &references, &parts)?;
        if let Some(digests) = &digests {
            manifest::covers(digests, &wanted)?;
        }
        Ok(Ova { path: path.to_owned(), sha256, parts: wanted, has_manifest: digests.is_some() })
    }
}

/// Returns the descriptor, then the files that it references.
fn named_parts(descriptor: &str, references: &[Reference], parts: &[OvaFile]) -> Result<Vec<OvaFile>> {
    let find = |name: &str| parts.iter().find(|part| part.name == name).cloned();
    let mut wanted: Vec<OvaFile> = find(descriptor).into_iter().collect();
    for reference in references {
        let Some(part) = find(&reference.href) else {
            if let Some(part) = find(&percent_decode_str(&reference.href).decode_utf8_lossy()) {
                bail!(
                    "{descriptor} names {} with escapes, as {}. Such names are not supported: rename the file, and pack the OVA again",
                    part.name,
                    reference.href
                );
            }
            bail!(
                "it does not contain {}, which {descriptor} names, so it was truncated or repacked. {AGAIN}",
                reference.href
            );
        };
        if let Some(size) = reference.size.filter(|size| *size != part.size) {
            bail!("{} has {} bytes, but {descriptor} declares {size}. {AGAIN}", part.name, part.size);
        }
        wanted.push(part);
    }
    Ok(wanted)
}

/// Reads one archive entry to its end. Returns the part, and the content of a descriptor or manifest. The content is
/// `None` for other files.
fn read_entry(entry: &mut tar::Entry<'_, impl Read>) -> Result<(OvaFile, Option<String>)> {
    let path = entry.path_bytes().into_owned();
    let name = std::str::from_utf8(&path).ok().map(|name| name.strip_prefix("./").unwrap_or(name).to_owned());
    let Some(name) = name.filter(|name| is_plain(name)) else {
        bail!("the archive contains a file whose name is not a plain file name: {}", readable(&path));
    };
    if !entry.header().entry_type().is_file() {
        bail!("{name} is not a regular file");
    }
    let (offset, size) = (entry.raw_file_position(), entry.size());
    let is_text = has_extension(&name, "ovf") || has_extension(&name, "mf");
    if is_text && size > LONGEST_TEXT {
        bail!("{name} has {size} bytes, which is too large for a descriptor or a manifest");
    }
    let (mut digest, mut text, mut count) = (Sha256::new(), Vec::new(), 0);
    let mut chunk = vec![0; CHUNK];
    loop {
        let read = entry.read(&mut chunk).map_err(|error| unreadable(&error))?;
        if read == 0 {
            break;
        }
        digest.update(&chunk[..read]);
        count += read as u64;
        if is_text {
            text.extend_from_slice(&chunk[..read]);
        }
    }
    if count != size {
        bail!("it ends in the middle of {name}, after {count} of {size} bytes. {AGAIN}");
    }
    let text = if is_text {
        Some(String::from_utf8(text).with_context(|| format!("{name} is not UTF-8 text"))?)
    } else {
        None
    };
    Ok((OvaFile { name, offset, size, sha256: hex(&digest.finalize()) }, text))
}

fn unreadable(error: &io::Error) -> anyhow::Error {
    // For files that aren't archives, the error quotes binary data as a name.
    let reason = error.to_string();
    let is_text = reason.chars().all(|c| !c.is_control() && c != char::REPLACEMENT_CHARACTER);
    let reason = if is_text { format!(": {reason}") } else { String::new() };
    anyhow::anyhow!("it is not a complete tar archive{reason}. {AGAIN}")
}

/// Converts the bytes of a file name to text, with escapes for unprintable characters.
fn readable(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        let _ = write!(text, "{}{}", chunk.valid().escape_debug(), chunk.invalid().escape_ascii());
    }
    text
}

/// Returns true if the file starts with the gzip magic number.
fn is_gzip(path: &Path) -> io::Result<bool> {
    let mut begin = Vec::new();
    File::open(path)?.take(2).read_to_end(&mut begin)?;
    Ok(begin == [0x1f, 0x8b])
}

fn is_plain(name: &str) -> bool {
    !name.is_empty() && name != ".." && name != "." && !name.contains(['/', '\\'])
}

fn has_extension(name: &str, extension: &str) -> bool {
    Path::new(name).extension().is_some_and(|it| it.eq_ignore_ascii_case(extension))
}

/// A reader that hashes and counts the bytes that pass through it.
struct Hashed<'a> {
    inner: File,
    digest: Sha256,
    done: &'a AtomicU64,
}

impl Read for Hashed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.digest.update(&buffer[..read]);
        self.done.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

#[cfg(test)]
pub mod tests;
