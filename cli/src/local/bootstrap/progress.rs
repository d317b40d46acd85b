//! Shows which component is being started while a bootstrap cluster starts: in place on a terminal, and as lines elsewhere.

use std::cell::Cell;
use std::time::Instant;

use crate::state::record::Record;
use crate::terminal::output::StatusLine;

/// The progress of one start.
pub struct StartProgress<'a> {
    name: &'a str,
    began: Instant,
    /// The number of components in the record that were shown.
    shown: Cell<usize>,
    line: StatusLine,
}

impl<'a> StartProgress<'a> {
    /// Begins to measure the time for the bootstrap cluster `name`.
    pub fn begin(name: &'a str) -> Self {
        Self { name, began: Instant::now(), shown: Cell::new(0), line: StatusLine::new() }
    }

    /// Shows a step.
    pub fn show(&self, step: &str) {
        self.line.show(&format!("{:>6.1}s  {}: {step}", self.began.elapsed().as_secs_f64(), self.name));
    }

    /// Shows the components that have started since the last call. Returns true if all components have started.
    pub fn show_started(&self, record: &Record) -> bool {
        for name in self.take_new(&record.started) {
            self.show(&format!("started {name}"));
        }
        record.ready
    }

    /// Returns the components that were not returned yet. If the process was started again, returns all of them again.
    fn take_new<'r>(&self, started: &'r [String]) -> &'r [String] {
        let shown = self.shown.replace(started.len());
        started.get(shown..).unwrap_or(started)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_component_is_shown_once_for_each_start() {
        let progress = StartProgress::begin("lab");
        let started = ["gcm", "capw", "vmop"].map(str::to_owned);
        for (count, expected) in [(0, 0..0), (2, 0..2), (2, 2..2), (3, 2..3), (1, 0..1), (3, 1..3)] {
            assert_eq!(progress.take_new(&started[..count]), &started[expected], "{count}");
        }
    }
}
