//! Reads `layercake doctor --record` recordings: one JSON value per line, with a header line and a last line that
//! counts the exchanges.

use serde_json::Value as Json;

use crate::exchange::Exchange;

/// The key that contains the format version in the first line.
const FORMAT: &str = "layercakeRecording";
/// The supported format version.
const VERSION: u64 = 1;

/// The reason why a recording can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}. {remedy}")]
pub struct RecordingError {
    /// The line number, from 1.
    pub line: usize,
    /// The problem.
    pub what: String,
    /// The remedy.
    pub remedy: &'static str,
}

const AGAIN: &str = "Run layercake doctor --record again, or restore the file";

/// Returns true if the text begins like a recording.
pub fn is_recording(text: &str) -> bool {
    text.lines().next().is_some_and(|first| first.contains(FORMAT))
}

/// Reads all exchanges of a recording, in order.
pub fn read(text: &str) -> Result<Vec<Exchange>, RecordingError> {
    let broken = |line: usize, what: String| RecordingError { line, what, remedy: AGAIN };
    let mut lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    let head = lines.next().map(|(_, line)| parse(line)).transpose();
    let head = head.map_err(|error| broken(1, error))?.unwrap_or_default();
    let version = head[FORMAT].as_u64();
    if version != Some(VERSION) {
        let remedy = "Use the version of the project that wrote it";
        return Err(RecordingError {
            line: 1,
            what: format!("the format is {version:?}, not {VERSION}"),
            remedy,
        });
    }
    let mut exchanges = Vec::new();
    let mut last = 1;
    for (number, line) in lines {
        last = number;
        let value = parse(line).map_err(|error| broken(number, error))?;
        if let Some(count) = value["exchanges"].as_u64() {
            return if count == exchanges.len() as u64 {
                Ok(exchanges)
            } else {
                Err(broken(number, format!("{} exchanges of {count} are there", exchanges.len())))
            };
        }
        let exchange = serde_json::from_value(value);
        exchanges.push(exchange.map_err(|error| broken(number, format!("this is no exchange: {error}")))?);
    }
    Err(broken(last, format!("the recording was cut off after {} exchanges", exchanges.len())))
}

fn parse(line: &str) -> Result<Json, String> {
    serde_json::from_str(line).map_err(|error| {
        if error.is_eof() {
            format!("the recording was cut off in column {}", error.column())
        } else {
            error.to_string()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = r#"{"layercakeRecording":1,"wire":"soap"}
{"method":"POST","path":"/sdk","headers":{"SOAPAction":"urn:vim25/8.0.3.0"},"request":"<a/>","status":200,"answer":"<b/>"}
{"method":"GET","path":"/api/x","headers":{},"request":"","status":200,"answer":"[]"}
{"exchanges":2}
"#;

    #[test]
    fn a_recording_is_read() {
        let read = read(WHOLE).unwrap();
        assert_eq!(read.iter().map(|one| one.path.as_str()).collect::<Vec<_>>(), ["/sdk", "/api/x"]);
    }

    /// A recording that is cut at any byte, except the final newline, yields an error with its line and a remedy.
    #[test]
    fn a_recording_that_was_cut_off_is_an_error() {
        for end in 0..WHOLE.len() - 1 {
            let error = read(&WHOLE[..end]).unwrap_err();
            assert!(
                error.line >= 1 && error.to_string().contains("Run layercake doctor --record again")
                    || error.remedy.contains("version"),
                "{error}"
            );
        }
    }
}
