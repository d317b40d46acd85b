//! `layercake doctor --record`: writes vCenter requests and responses to a file.

use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::json;
use tempfile::NamedTempFile;
use vsphere::Recorder;

use crate::files::begin_file;

/// The version of the file format. The first line contains it, one line per exchange follows, and the last line counts
/// the exchanges.
const VERSION: u32 = 1;

/// A recording in progress. The file is renamed to its final name when it is complete.
pub struct Recording {
    path: PathBuf,
    unfinished: NamedTempFile,
    recorder: Recorder,
}

impl Recording {
    /// Creates a temporary file before vCenter is contacted. Fails if `path` exists or its folder isn't writable.
    pub fn begin(path: &Path) -> Result<Self> {
        if path.exists() {
            bail!("{} exists: use another name for the recording", path.display());
        }
        let unfinished = begin_file(path, ".layercake-recording-")?;
        Ok(Self { path: path.to_owned(), unfinished, recorder: Recorder::new() })
    }

    /// Returns the recorder for a vCenter client.
    pub fn recorder(&self) -> Recorder {
        self.recorder.clone()
    }

    /// Writes the exchanges, and returns a summary line.
    pub fn finish(self) -> Result<String> {
        let Self { path, unfinished, recorder } = self;
        let (exchanges, left_out) = recorder.take();
        if exchanges.is_empty() {
            bail!("nothing was recorded: vCenter was not reached, or --only and --skip exclude its checks");
        }
        let failed = || format!("cannot write {}", path.display());
        let mut out = BufWriter::new(unfinished.as_file());
        let head = json!({ "layercakeRecording": VERSION, "layercake": env!("CARGO_PKG_VERSION") });
        writeln!(out, "{head}").with_context(failed)?;
        for exchange in &exchanges {
            writeln!(out, "{}", serde_json::to_string(exchange)?).with_context(failed)?;
        }
        writeln!(out, "{}", json!({ "exchanges": exchanges.len(), "leftOut": left_out }))
            .with_context(failed)?;
        out.flush().with_context(failed)?;
        drop(out);
        unfinished.as_file().sync_all().with_context(failed)?;
        unfinished.persist_noclobber(&path).map_err(|error| anyhow!("{}: {}", failed(), error.error))?;
        Ok(format!(
            "{}: {} exchanges, {left_out} left out because they could not be made safe. Look through the file before you share it",
            path.display(),
            exchanges.len()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_exists_and_an_empty_recording_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("recording.jsonl");
        let error = Recording::begin(&path).unwrap().finish().unwrap_err();
        assert!(error.to_string().contains("vCenter was not reached"), "{error}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left");
        std::fs::write(&path, "mine").unwrap();
        assert!(Recording::begin(&path).err().unwrap().to_string().contains("exists"));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
    }
}
