//! Shows the steps of an installation or uninstallation.

use tokio::time::Instant;

use crate::terminal::output::say;

/// Prints each step when it is complete.
pub struct InstallationProgress {
    began: Instant,
    quiet: bool,
}

impl InstallationProgress {
    /// Creates an instance that prints steps, and starts measuring time.
    pub fn begin() -> Self {
        Self { began: Instant::now(), quiet: false }
    }

    /// Creates an instance that doesn't print steps.
    pub fn quiet() -> Self {
        Self { began: Instant::now(), quiet: true }
    }

    /// Prints a completed step with the seconds since the start.
    pub fn report(&self, what: &str, text: &str) {
        if self.quiet {
            return;
        }
        say!("{what:<22} {text:<36} {:>7.1} s", self.began.elapsed().as_secs_f32());
    }
}
