//! Formats phrases, ages like kubectl, and text truncated to a width.

use api::conditions::cause::one_line;
use jiff::{Timestamp, Unit};

/// Joins reason and message, and omits empty parts.
pub fn phrase(reason: &str, message: &str) -> String {
    let message = one_line(message);
    match (reason, message.as_str()) {
        ("", message) => message.to_owned(),
        (reason, "") => reason.to_owned(),
        (reason, message) => format!("{reason}: {message}"),
    }
}

/// Truncates text to `width` columns, with `…` at the end.
pub fn cut(text: &str, width: usize) -> String {
    console::truncate_str(text, width, "…").into_owned()
}

/// Formats an age like kubectl: `42s`, `3m5s`, `2h`, `5d`. Returns an empty string if `since` isn't an RFC 3339 time.
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
    fn a_phrase_leaves_out_what_is_empty() {
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
