//! Checks values against OVF property types, in vCenter's notation.
//!
//! vCenter rejects a value of the wrong type when the VM is created or powered on, and quotes the value in its error. The
//! messages here quote only the type, which comes from the image, because the value may come from a Secret.

use std::net::IpAddr;

use bounds::printable;

/// The maximum number of characters of a type in a message.
const LONGEST: usize = 200;

/// Returns a message if the value doesn't have the type. Unknown types accept every value, and all types accept an empty
/// value, which unsets a property.
pub fn unmet_type(kind: &str, value: &str) -> Option<String> {
    if value.is_empty() || is_of_type(kind, value) {
        return None;
    }
    Some(format!("needs a value of the type {}", printable(kind, LONGEST)))
}

fn is_of_type(kind: &str, value: &str) -> bool {
    if let Some((word, choices)) = kind.split_once('[') {
        return !is_text(word) || is_choice(choices, value);
    }
    let (word, range) = kind.strip_suffix(')').and_then(|kind| kind.split_once('(')).unwrap_or((kind, ""));
    match word {
        "string" | "password" => is_within(value.chars().count(), range),
        "int" => is_integer(value) && value.parse().is_ok_and(|number: f64| is_number_within(number, range)),
        "real" | "real32" | "real64" => {
            value.parse().is_ok_and(|number: f64| number.is_finite() && is_number_within(number, range))
        }
        "boolean" => value.eq_ignore_ascii_case("true") || value.eq_ignore_ascii_case("false"),
        "ip" => value.parse::<IpAddr>().is_ok(),
        // Types from OVF descriptors, which vCenter converts to ranges.
        "uint8" => value.parse::<u8>().is_ok(),
        "sint8" => value.parse::<i8>().is_ok(),
        "uint16" => value.parse::<u16>().is_ok(),
        "sint16" => value.parse::<i16>().is_ok(),
        "uint32" => value.parse::<u32>().is_ok(),
        "sint32" => value.parse::<i32>().is_ok(),
        "uint64" => value.parse::<u64>().is_ok(),
        "sint64" => value.parse::<i64>().is_ok(),
        _ => true,
    }
}

fn is_text(word: &str) -> bool {
    matches!(word, "string" | "password")
}

fn is_integer(value: &str) -> bool {
    value.parse::<i64>().is_ok() || value.parse::<u64>().is_ok()
}

/// Returns true if the value is a choice. `choices` is a JSON array of strings without its opening bracket. If it can't be
/// parsed, every value is allowed.
fn is_choice(choices: &str, value: &str) -> bool {
    let all = serde_json::from_str::<Vec<String>>(&format!("[{choices}"));
    all.map_or(true, |all| all.iter().any(|choice| choice == value))
}

/// Returns true if the length is in the inclusive range `min..max`. Both bounds are optional.
fn is_within(length: usize, range: &str) -> bool {
    let (least, most) = range.split_once("..").unwrap_or_default();
    let bound = |text: &str| text.trim().parse::<usize>().ok();
    bound(least).is_none_or(|least| length >= least) && bound(most).is_none_or(|most| length <= most)
}

fn is_number_within(number: f64, range: &str) -> bool {
    let (least, most) = range.split_once("..").unwrap_or_default();
    let bound = |text: &str| text.trim().parse::<f64>().ok();
    bound(least).is_none_or(|least| number >= least) && bound(most).is_none_or(|most| number <= most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_of_the_types_that_vcenter_knows() {
        for (kind, good, bad) in [
            ("string", "anything", None),
            ("string(4..6)", "12345", Some("123")),
            ("string(..3)", "abc", Some("abcd")),
            ("password(4..)", "abcd", Some("abc")),
            ("string[\"gold\",\"tin\"]", "tin", Some("silver")),
            ("int", "-5", Some("five")),
            ("int(0..65535)", "65535", Some("99999")),
            ("int(0..)", "7", Some("-1")),
            ("uint16", "9000", Some("99999")),
            ("real", "1.5", Some("x")),
            ("boolean", "False", Some("maybe")),
            ("ip", "fd00::1", Some("10.0.0.300")),
            ("ip:workload", "anything", None),
            ("expression", "${autoIp:lan}", None),
            ("", "anything", None),
            ("string[broken", "anything", None),
        ] {
            assert_eq!(unmet_type(kind, good), None, "{kind}");
            assert_eq!(unmet_type(kind, ""), None, "{kind}");
            let refused = bad.map(|bad| unmet_type(kind, bad).unwrap());
            let shown = |text: String| text.ends_with(kind) && bad.is_some_and(|bad| !text.contains(bad));
            assert!(refused.is_none_or(shown), "{kind}");
        }
    }
}
