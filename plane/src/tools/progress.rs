//! Shows a build that takes minutes: a bar on a terminal, plain lines elsewhere.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use parking_lot::Mutex;

/// Shows how the building of programs goes.
pub trait Progress: Send + Sync {
    /// A program is being built: the `position`th of `total`.
    fn begin(&self, what: &str, position: usize, total: usize);
    /// The compiler has come to `detail`, and all is built after `left`, as far as that is known.
    fn advance(&self, detail: &str, left: Option<Duration>);
    /// The program that was begun last is there.
    fn end(&self);
    /// Something worth a line.
    fn note(&self, message: &str);
}

/// Shows progress on standard error, as fits what it is.
pub fn progress() -> Box<dyn Progress> {
    if std::io::stderr().is_terminal() { Box::new(Bar::default()) } else { Box::new(Lines::default()) }
}

/// What is being built, since when, and how many packages it took so far.
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

/// What is left of all programs, rounded as an estimate is.
fn in_words(left: Option<Duration>) -> String {
    match left.map(|left| left.as_secs()) {
        None => String::new(),
        Some(seconds) if seconds < 60 => ", less than a minute left in total".to_owned(),
        Some(seconds) => format!(", about {} min left in total", seconds.div_ceil(60)),
    }
}

/// One line, rewritten.
#[derive(Default)]
struct Bar(Mutex<Option<(ProgressBar, Current)>>);

impl Progress for Bar {
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

/// A line at the beginning and the end of each program, and now and then between them.
#[derive(Default)]
struct Lines(Mutex<Option<Current>>);

/// Long enough not to fill a log, short enough to be seen alive.
const SILENCE: Duration = Duration::from_secs(30);

impl Progress for Lines {
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

/// Shows nothing.
#[cfg(test)]
pub(super) struct Quiet;

#[cfg(test)]
impl Progress for Quiet {
    fn begin(&self, _: &str, _: usize, _: usize) {}
    fn advance(&self, _: &str, _: Option<Duration>) {}
    fn end(&self) {}
    fn note(&self, _: &str) {}
}
