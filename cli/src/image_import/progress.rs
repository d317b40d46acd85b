//! How far an import is, on standard error: one line that is rewritten on a terminal, elsewhere a line every ten seconds.

use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bounds::printable;

/// Between two lines where nobody watches.
const LINES_APART: Duration = Duration::from_secs(10);
/// Between two pictures of the line on a terminal.
const PICTURES_APART: Duration = Duration::from_millis(200);

/// How far something is, and how it is shown.
#[derive(Debug)]
pub struct Progress {
    /// Bytes that are done.
    pub done: Arc<AtomicU64>,
    what: &'static str,
    total: u64,
    begun: Instant,
    terminal: bool,
}

impl Progress {
    /// Nothing is done of `total` bytes.
    pub fn begin(what: &'static str, total: u64) -> Self {
        let terminal = std::io::stderr().is_terminal();
        Self { done: Arc::default(), what, total, begun: Instant::now(), terminal }
    }

    /// The share that is done, in percent.
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

    /// A line of its own among those of the progress.
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

/// Such as `uploading: 120.0 of 446.0 MB (26 %), 12.0 MB/s`.
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

/// Megabytes with one digit after the point.
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
