//! Shows progress on stderr: one updated line on a terminal, or a new line every ten seconds elsewhere.

use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bounds::printable;

/// The interval between lines if stderr isn't a terminal.
const LINES_APART: Duration = Duration::from_secs(10);
/// The interval between updates on a terminal.
const PICTURES_APART: Duration = Duration::from_millis(200);

/// The progress of a read or upload.
#[derive(Debug)]
pub struct TransferProgress {
    /// The number of bytes that were read or uploaded.
    pub done: Arc<AtomicU64>,
    what: &'static str,
    total: u64,
    begun: Instant,
    terminal: bool,
}

impl TransferProgress {
    /// Starts at zero of `total` bytes. `what` names the work, such as `uploading`.
    pub fn begin(what: &'static str, total: u64) -> Self {
        let terminal = std::io::stderr().is_terminal();
        Self { done: Arc::default(), what, total, begun: Instant::now(), terminal }
    }

    /// Returns the completed share in percent.
    pub fn percent(&self) -> u8 {
        percent(self.done.load(Ordering::Relaxed), self.total)
    }

    /// Shows the progress of `work` until it ends.
    pub async fn shown<T>(&self, work: impl Future<Output = T>) -> T {
        let apart = if self.terminal { PICTURES_APART } else { LINES_APART };
        let showing = async {
            loop {
                tokio::time::sleep(apart).await;
                self.show();
            }
        };
        let result = tokio::select! {
            result = work => result,
            () = showing => std::future::pending().await,
        };
        if self.terminal {
            self.show();
            eprintln!();
        }
        result
    }

    /// Prints a message on a separate line.
    pub fn note(&self, text: &str) {
        let begin = if self.terminal { "\r\x1b[K" } else { "" };
        eprintln!("{begin}{}", printable(text, usize::MAX));
    }

    fn show(&self) {
        let line = line(self.what, self.done.load(Ordering::Relaxed), self.total, self.begun.elapsed());
        if self.terminal {
            eprint!("\r\x1b[K{line}");
            let _ = std::io::stderr().flush();
        } else {
            eprintln!("{line}");
        }
    }
}

fn percent(done: u64, total: u64) -> u8 {
    let share = u128::from(done) * 100 / u128::from(total.max(1));
    u8::try_from(share.min(100)).unwrap_or(100)
}

/// Formats a line such as `uploading: 120.0 of 446.0 MB (26 %), 12.0 MB/s`.
fn line(what: &str, done: u64, total: u64, elapsed: Duration) -> String {
    let rate = u128::from(done) * 1000 / elapsed.as_millis().max(1);
    let rate = u64::try_from(rate).unwrap_or(u64::MAX);
    format!(
        "{what}: {} of {} MB ({} %), {} MB/s",
        megabytes(done),
        megabytes(total),
        percent(done, total),
        megabytes(rate)
    )
}

/// Formats bytes as megabytes (10^6 bytes) with one decimal.
pub fn megabytes(bytes: u64) -> String {
    let tenths = bytes / 100_000;
    format!("{}.{}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_bytes_share_and_rate() {
        let shown = line("uploading", 120_000_000, 446_000_000, Duration::from_secs(10));
        assert_eq!(shown, "uploading: 120.0 of 446.0 MB (26 %), 12.0 MB/s");
        assert_eq!(line("reading", 0, 0, Duration::ZERO), "reading: 0.0 of 0.0 MB (0 %), 0.0 MB/s");
        assert_eq!(percent(u64::MAX, 1), 100);
    }
}
