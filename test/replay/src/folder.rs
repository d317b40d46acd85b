//! Reads a recordings folder.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::exchange::Exchange;
use crate::{cassette, recording};

/// The environment variable that names the folder.
pub const VARIABLE: &str = "LAYERCAKE_RECORDINGS";

/// All recordings below a folder.
#[derive(Debug, Default)]
pub struct RecordingsFolder {
    /// The recordings with vCenter exchanges.
    pub files: Vec<RecordingFile>,
    /// Skipped files and exchanges by name, each with the reason.
    pub skipped: Vec<(String, String)>,
}

/// A recording.
#[derive(Debug)]
pub struct RecordingFile {
    /// The path below the folder.
    pub name: String,
    /// The vCenter exchanges, each with its number in the file, from 1.
    pub exchanges: Vec<(usize, Exchange)>,
}

/// Returns the folder that the environment variable names.
pub fn from_environment() -> Option<PathBuf> {
    std::env::var_os(VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from)
}

impl RecordingsFolder {
    /// Reads all recordings below a folder. Returns an error with name and place if a recording can't be read.
    pub fn read(folder: &Path) -> Result<Self> {
        let mut read = Self::default();
        for path in files_below(folder)? {
            let name = path.strip_prefix(folder).unwrap_or(&path).to_string_lossy().into_owned();
            read.add(&path, name)?;
        }
        if read.files.is_empty() {
            bail!(
                "{}: no recording of a vCenter is there. Set {VARIABLE} to a folder of recordings",
                folder.display()
            );
        }
        Ok(read)
    }

    fn add(&mut self, path: &Path, name: String) -> Result<()> {
        let known = path.extension().is_some_and(|kind| kind == "yml" || kind == "yaml" || kind == "jsonl");
        if !known {
            return Ok(());
        }
        let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let text = String::from_utf8_lossy(&bytes);
        let exchanges = if cassette::is_cassette(&text) {
            cassette::read(&text).with_context(|| path.display().to_string())?
        } else if recording::is_recording(&text) {
            recording::read(&text).with_context(|| path.display().to_string())?
        } else {
            self.skipped.push((name, "it is no recording of HTTP".to_owned()));
            return Ok(());
        };
        let numbered = exchanges.into_iter().enumerate().map(|(index, exchange)| (index + 1, exchange));
        let (own, foreign): (Vec<_>, Vec<_>) = numbered.partition(|(_, exchange)| exchange.wire().is_some());
        for (number, exchange) in foreign {
            let Exchange { method, path, .. } = exchange;
            self.skipped.push((
                format!("{name}: exchange {number}"),
                format!("{method} {path} is no call of a vCenter"),
            ));
        }
        if !own.is_empty() {
            self.files.push(RecordingFile { name, exchanges: own });
        }
        Ok(())
    }

    /// Returns all exchanges, each with its file name and number for messages.
    pub fn exchanges(&self) -> impl Iterator<Item = (String, &Exchange)> {
        self.files.iter().flat_map(|file| {
            let place = |number: &usize| format!("{}: exchange {number}", file.name);
            file.exchanges.iter().map(move |(number, exchange)| (place(number), exchange))
        })
    }
}

fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(files_below(&path)?);
        } else {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
