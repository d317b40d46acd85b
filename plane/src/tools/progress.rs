//! Shows a build that takes minutes: as a bar on a terminal, as plain lines elsewhere.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use parking_lot::Mutex;

/// Shows the progress of builds.
pub trait BuildProgress: Send + Sync {
    /// Reports that the build of `what` has started, the `position`th (from 1) of `total` builds.
    fn begin(&self, what: &str, position: usize, total: usize);
    /// Reports that the compiler has reached `detail`. `left` is the remaining time for all builds, if known.
    fn advance(&self, detail: &str, left: Option<Duration>);
    /// Reports that the last build is finished.
    fn end(&self);
    /// Prints a message.
    fn note(&self, message: &str);
}

/// Returns a progress bar if standard error is a terminal, and plain lines otherwise.
pub fn progress() -> Box<dyn BuildProgress> {
    if std::io::stderr().is_terminal() { Box::new(Bar::default()) } else { Box::new(Lines::default()) }
}

/// The current build, with its start time and package count.
struct Current {
    what: String,
    since: Instant,
    packages: usize,
    shown: Instant,
}

impl Current {
    fn new(what: &str, position: usize, total: usize) -> Self {
        let now = Instant::now();
        Self { what: format!("{what} ({position} of {total})"), since: now, packages: 0, shown: now }
    }
}

/// Describes the remaining time for all builds, rounded up to minutes.
fn in_words(left: Option<Duration>) -> String {
    match left.map(|left| left.as_secs()) {
        None => String::new(),
        Some(seconds) if seconds < 60 => ", less than a minute left in total".to_owned(),
        Some(seconds) => format!(", about {} min left in total", seconds.div_ceil(60)),
    }
}

/// A single line that is rewritten.
#[derive(Default)]
struct Bar(Mutex<Option<(ProgressBar, Current)>>);

impl BuildProgress for Bar {
    fn begin(&self, what: &str, position: usize, total: usize) {
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed:>4} {prefix} {wide_msg:.dim}") {
            bar.set_style(style);
        }
        let current = Current::new(what, position, total);
        bar.set_prefix(format!("building {}", current.what));
        bar.enable_steady_tick(Duration::from_millis(120));
        *self.0.lock() = Some((bar, current));
    }

    fn advance(&self, detail: &str, left: Option<Duration>) {
        if let Some((bar, current)) = self.0.lock().as_mut() {
            current.packages += 1;
            bar.set_message(format!("{} packages{}, {detail}", current.packages, in_words(left)));
        }
    }

    fn end(&self) {
        if let Some((bar, current)) = self.0.lock().take() {
            bar.finish_and_clear();
            eprintln!("built {} in {} s", current.what, current.since.elapsed().as_secs());
        }
    }

    fn note(&self, message: &str) {
        match self.0.lock().as_ref() {
            Some((bar, _)) => bar.println(message),
            None => eprintln!("{message}"),
        }
    }
}

/// Lines at the beginning and end of each build, and at regular intervals in between.
#[derive(Default)]
struct Lines(Mutex<Option<Current>>);

/// The interval between two lines: long enough not to fill a log, short enough to show that the build is alive.
const SILENCE: Duration = Duration::from_secs(30);

impl BuildProgress for Lines {
    fn begin(&self, what: &str, position: usize, total: usize) {
        let current = Current::new(what, position, total);
        eprintln!("building {}", current.what);
        *self.0.lock() = Some(current);
    }

    fn advance(&self, detail: &str, left: Option<Duration>) {
        if let Some(current) = self.0.lock().as_mut() {
            current.packages += 1;
            if current.shown.elapsed() >= SILENCE {
                current.shown = Instant::now();
                let seconds = current.since.elapsed().as_secs();
                eprintln!("  {seconds} s, {} packages{}, at {detail}", current.packages, in_words(left));
            }
        }
    }

    fn end(&self) {
        if let Some(current) = self.0.lock().take() {
            eprintln!("built {} in {} s", current.what, current.since.elapsed().as_secs());
        }
    }

    fn note(&self, message: &str) {
        eprintln!("{message}");
    }
}

/// A [`BuildProgress`] that discards everything.
#[cfg(test)]
pub(super) struct Quiet;

#[cfg(test)]
impl BuildProgress for Quiet {
    fn begin(&self, _: &str, _: usize, _: usize) {}
    fn advance(&self, _: &str, _: Option<Duration>) {}
    fn end(&self) {}
    fn note(&self, _: &str) {}
}
