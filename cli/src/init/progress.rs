//! The steps of an installation or uninstallation, as the user sees them.

use tokio::time::Instant;

use crate::output::say;

/// Shows each step when it is done.
pub struct Progress {
    began: Instant,
    quiet: bool,
}

impl Progress {
    /// Measures time from now.
    pub fn begin() -> Self {
        Self { began: Instant::now(), quiet: false }
    }

    /// Shows nothing.
    pub fn quiet() -> Self {
        Self { began: Instant::now(), quiet: true }
    }

    /// Shows a step that is done, with the seconds since the beginning.
    pub fn report(&self, what: &str, text: &str) {
        if self.quiet {
            return;
        }
        say!("{what:<22} {text:<36} {:>7.1} s", self.began.elapsed().as_secs_f32());
    }
}
