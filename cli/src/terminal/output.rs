//! Prints the program's output, and replaces characters that control a terminal.
//!
//! Nearly every line contains text from other sources: names, messages from guests and vCenter, manifests, file names.
//! So all output goes through this file, except a console's bytes, a bundle, and the sequences that move the cursor.

use std::io::{IsTerminal as _, Write as _};

use bounds::printable;
use serde::Serialize;

/// Prints text to standard output. A closed pipe, such as `head` leaves behind, isn't an error.
pub fn write_out(text: &str) {
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(shown(text).as_bytes()).and_then(|()| stdout.flush());
}

/// Prints text to standard error.
pub fn write_err(text: &str) {
    write_raw(&shown(text));
}

/// Prints a line to standard error in place of the current line, which may be an echoed `^C` or
/// a [`StatusLine`].
pub fn write_over(text: &str) {
    let begin = if std::io::stderr().is_terminal() { ERASE } else { "" };
    write_raw(&format!("{begin}{}\n", printable(text, usize::MAX)));
}

/// A line on standard error that each text replaces on a terminal, and that is erased at the end. Elsewhere, each text is a
/// line of its own.
pub struct StatusLine {
    is_terminal: bool,
}

impl StatusLine {
    pub fn new() -> Self {
        Self { is_terminal: std::io::stderr().is_terminal() }
    }

    pub fn show(&self, text: &str) {
        write_raw(&compose_status(self.is_terminal, text));
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        if self.is_terminal {
            write_raw(ERASE);
        }
    }
}

/// The sequence that erases the current line.
const ERASE: &str = "\r\x1b[K";

fn compose_status(is_terminal: bool, text: &str) -> String {
    let text = printable(text, usize::MAX);
    if is_terminal { format!("{ERASE}{text}") } else { format!("{text}\n") }
}

fn write_raw(text: &str) {
    let mut stderr = std::io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

/// Returns the text with each terminal control character replaced by a space. Keeps line breaks.
pub fn shown(text: &str) -> String {
    text.split_inclusive('\n').fold(String::with_capacity(text.len()), |mut all, line| {
        match line.strip_suffix('\n') {
            Some(line) => {
                all += &printable(line, usize::MAX);
                all.push('\n');
            }
            None => all += &printable(line, usize::MAX),
        }
        all
    })
}

/// Prints a document to standard output as indented JSON.
///
/// # Errors
/// Returns an error if the document can't be serialized.
pub fn write_json(document: &impl Serialize) -> serde_json::Result<()> {
    write_out(&format!("{}\n", serde_json::to_string_pretty(document)?));
    Ok(())
}

/// Returns a line for each row, with three spaces between columns. Cells are padded to the column's width, except in
/// the last column.
pub fn align<const COLUMNS: usize>(rows: &[[String; COLUMNS]]) -> Vec<String> {
    let widths: [usize; COLUMNS] = std::array::from_fn(|column| {
        rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default()
    });
    let line = |row: &[String; COLUMNS]| {
        let cells = row.iter().zip(widths).enumerate().map(|(column, (cell, width))| {
            let width = if column + 1 == COLUMNS { 0 } else { width };
            format!("{cell:<width$}")
        });
        cells.collect::<Vec<_>>().join("   ")
    };
    rows.iter().map(line).collect()
}

/// Prints a formatted line to standard error with [`write_err`].
macro_rules! say {
    ($($arg:tt)*) => { $crate::terminal::output::write_err(&(format!($($arg)*) + "\n")) };
}

pub(crate) use say;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_stay_and_what_steers_a_terminal_goes() {
        assert_eq!(shown("a\n\u{1b}]0;pwned\u{7}b\r\nc"), "a\n ]0;pwned b \nc");
        assert_eq!(shown(""), "");
        assert_eq!(shown("\n\n"), "\n\n");
    }

    #[test]
    fn a_status_replaces_the_last_one_only_on_a_terminal() {
        assert_eq!(compose_status(true, "a\u{1b}[2Jb"), "\r\x1b[Ka [2Jb");
        assert_eq!(compose_status(false, "a\nb"), "a b\n");
    }

    #[test]
    fn no_control_character_is_ever_printed() {
        let all: String = ('\0'..='\u{2fff}').collect();
        let shown = shown(&all);
        assert!(shown.chars().all(|c| c == '\n' || !c.is_control()), "{shown:?}");
        assert_eq!(shown.chars().count(), all.chars().count());
    }

    /// Only the files in `may` use macros and handles that bypass [`shown`].
    #[test]
    fn nothing_is_printed_past_this_file() {
        let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let may = [
            "terminal/output.rs",
            "local/console.rs",
            "follow/view.rs",
            "image/import/progress.rs",
            "bundle/destination.rs",
        ];
        let mut folders = vec![source.clone()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
                let name = entry.strip_prefix(&source).unwrap().to_string_lossy().into_owned();
                if entry.is_dir() {
                    folders.push(entry);
                } else if !may.contains(&name.as_str()) {
                    let text = std::fs::read_to_string(&entry).unwrap();
                    for way in ["println!(", "print!(", "io::stdout().lock", "io::stderr().lock"] {
                        assert!(!text.contains(way), "{name} prints by {way}");
                    }
                }
            }
        }
    }
}
