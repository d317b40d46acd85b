//! The command as a process of a terminal: output, exit statuses and signals.

pub mod diagnostics;
pub mod exit;
pub(crate) mod interrupts;
pub(crate) mod output;
