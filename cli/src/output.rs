//! Standard output.

use std::io::Write as _;

/// Writes to standard output; a reader that has gone away is not a reason to fail.
pub fn write_out(text: &str) {
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}
