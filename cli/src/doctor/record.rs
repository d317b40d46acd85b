//! `layercake doctor --record`: the file with what was asked of vCenter and answered.

use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::json;
use tempfile::NamedTempFile;
use vsphere::Recorder;

use crate::files::begin_file;

/// The version of the format: a first line with it, a line for each exchange, a last line with their number.
const VERSION: u32 = 1;

/// A file that gets its name when it is whole.
pub struct Recording {
    path: PathBuf,
    unfinished: NamedTempFile,
    recorder: Recorder,
}

impl Recording {
    /// Refuses a file that exists, or a folder that cannot be written to, before vCenter is asked anything.
    pub fn begin(path: &Path) -> Result<Self> {
        if path.exists() {
            bail!("{} exists: use another name for the recording", path.display());
        }
        let unfinished = begin_file(path, ".layercake-recording-")?;
        Ok(Self { path: path.to_owned(), unfinished, recorder: Recorder::new() })
    }

    /// The recorder that a client of vCenter puts its exchanges into.
    pub fn recorder(&self) -> Recorder {
        self.recorder.clone()
    }

    /// Writes the exchanges, and returns a line about them.
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
