//! Writes recordings in the wire check's format: one JSON line per exchange.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

use anyhow::Result;

use crate::exchange::Exchange;
use crate::folder::RecordingsFolder;

/// Writes one exchange file per recording into a folder.
pub fn write(recordings: &RecordingsFolder, into: &Path) -> Result<()> {
    for file in &recordings.files {
        let path = into.join(format!("{}.jsonl", file.name.replace('/', "-")));
        let mut out = BufWriter::new(File::create(&path)?);
        for (_, exchange) in &file.exchanges {
            // The wire check only knows this path for the storage policy service.
            let path = exchange.path.replace("/pbm/sdk", "/pbm");
            serde_json::to_writer(&mut out, &Exchange { path, ..exchange.clone() })?;
            out.write_all(b"\n")?;
        }
        out.flush()?;
    }
    Ok(())
}
