//! Words for people: messages on one line, ages as kubectl prints them, text cut to a width.

use jiff::{Timestamp, Unit};

/// A message on one line. Cluster API writes lists of causes, one a line, with a star before each.
pub fn one_line(text: &str) -> String {
    let mut line = String::new();
    for part in text.lines().map(|part| part.trim().trim_start_matches("* ")).filter(|part| !part.is_empty())
    {
        if !line.is_empty() {
            line += if line.ends_with(':') { " " } else { "; " };
        }
        line += part;
    }
    line
}

/// Reason and message as one phrase, without saying anything twice.
pub fn phrase(reason: &str, message: &str) -> String {
    let message = one_line(message);
    match (reason, message.as_str()) {
        ("", message) => message.to_owned(),
        (reason, "") => reason.to_owned(),
        (reason, message) => format!("{reason}: {message}"),
    }
}

/// The text, or as much of it as fits into `width` columns, with a mark where it is cut.
pub fn cut(text: &str, width: usize) -> String {
    console::truncate_str(text, width, "…").into_owned()
}

/// A duration as kubectl prints ages: `42s`, `3m5s`, `2h`, `5d`.
pub fn age(since: &str, now: Timestamp) -> String {
    let Ok(since) = since.parse::<Timestamp>() else { return String::new() };
    let seconds = now.since((Unit::Second, since)).map_or(0, |span| span.get_seconds()).max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 => format!("{}m{}s", seconds / 60, seconds % 60),
        600..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_causes_become_one_line() {
        let text = "* RemoteConnectionProbe: not established yet\n* WorkersAvailable:\n  * MachineDeployment a: 0 available";
        let line =
            "RemoteConnectionProbe: not established yet; WorkersAvailable: MachineDeployment a: 0 available";
        assert_eq!(one_line(text), line);
        assert_eq!(one_line(" plain\n"), "plain");
        assert_eq!(phrase("NotReady", ""), "NotReady");
        assert_eq!(phrase("", "* a\n* b"), "a; b");
    }

    #[test]
    fn cut_text_says_that_it_is_cut() {
        assert_eq!(cut("└─Cluster/abc", 9), "└─Cluste…");
        assert_eq!(cut("short", 9), "short");
    }

    #[test]
    fn ages_read_as_in_kubectl() {
        let now: Timestamp = "2026-01-03T00:00:00Z".parse().unwrap();
        let ages = [
            "2026-01-02T23:59:30Z",
            "2026-01-02T23:55:00Z",
            "2026-01-02T23:00:00Z",
            "2026-01-02T12:00:00Z",
            "2025-12-01T00:00:00Z",
        ];
        assert_eq!(ages.map(|since| age(since, now)), ["30s", "5m0s", "60m", "12h", "33d"]);
    }
}
