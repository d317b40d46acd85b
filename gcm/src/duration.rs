//! Parses durations in Go's format: `5m`, `1h30m`, `0`.
//!
//! jiff's format differs in ways that matter to manifests: Go accepts units in any order, repeated and with fractions
//! (`1.5h30m`), but doesn't accept spaces between units, or unit names such as `minutes`.

/// Parses a duration and returns its whole seconds, or `None` if it is malformed, negative or too large.
pub fn parse_seconds(text: &str) -> Option<i32> {
    let text = text.trim();
    if text == "0" {
        return Some(0);
    }
    let mut rest = text;
    let mut total = 0.0_f64;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(number_end);
        let unit_end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        let scale = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        total += number.parse::<f64>().ok()? * scale;
        rest = after;
    }
    #[allow(clippy::cast_possible_truncation)]
    (total <= f64::from(i32::MAX)).then_some(total as i32)
}

#[cfg(test)]
mod tests {
    use super::parse_seconds;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, expected) in [
            ("5m", Some(300)),
            ("1h30m", Some(5400)),
            ("2h0m0s", Some(7200)),
            ("0", Some(0)),
            ("0s", Some(0)),
            ("1.5s", Some(1)),
            ("90", None),
            ("", None),
            ("-5m", None),
            ("5 m", None),
            ("m", None),
            ("999999999h", None),
        ] {
            assert_eq!(parse_seconds(text), expected, "{text:?}");
        }
    }
}
