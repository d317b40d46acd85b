//! Stand-ins for redacted strings. Equal strings get the same stand-in. The stand-in for a UUID, an IP address or a MAC
//! address has the same format.

use std::collections::HashMap;
use std::net::IpAddr;

use percent_encoding::percent_decode_str;
use uuid::Uuid;

/// The stand-ins for all strings so far, by original string.
#[derive(Default)]
pub(super) struct StandIns(HashMap<String, String>);

impl StandIns {
    /// Returns the stand-in for a string. A blank string is its own stand-in.
    pub fn of(&mut self, text: &str) -> String {
        if text.trim().is_empty() {
            return text.to_owned();
        }
        let number = self.0.len() + 1;
        self.0.entry(text.to_owned()).or_insert_with(|| create_stand_in(text, number)).clone()
    }

    /// Redacts a string where vCenter sends only managed object IDs. Keeps the string if `is_own_id` accepts it, which
    /// excludes UUIDs and the IDs of session objects (`session[…]…`).
    pub fn reference(&mut self, id: &str) -> String {
        if is_own_id(id) { id.to_owned() } else { self.of(id) }
    }

    /// Redacts a string that may be a managed object ID or a name. Keeps the string only if it has an ID's format, such
    /// as `vm-12`.
    pub fn reference_or_name(&mut self, text: &str) -> String {
        if has_form_of_reference(text) { text.to_owned() } else { self.of(text) }
    }

    /// Redacts a path and its query. Keeps actions, and query values that have an ID's format.
    pub fn path(&mut self, path: &str) -> String {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let parts: Vec<String> = path.split('/').map(|part| self.path_part(part)).collect();
        let path = parts.join("/");
        if query.is_empty() {
            return path;
        }
        let pairs = query.split('&').map(|pair| match pair.split_once('=') {
            Some((name @ ("action" | "~action"), value)) => format!("{name}={value}"),
            Some((name, value)) => format!("{name}={}", self.reference_or_name(&decoded(value))),
            None => self.reference_or_name(&decoded(pair)),
        });
        let pairs: Vec<String> = pairs.collect();
        format!("{path}?{}", pairs.join("&"))
    }

    /// Redacts a path segment, which may begin with `id:`. Keeps releases (up to ten digits and dots),
    /// `vimServiceVersions.xml`, and the words and IDs that `reference` keeps.
    fn path_part(&mut self, part: &str) -> String {
        let part = decoded(part);
        let (prefix, id) = part.strip_prefix("id:").map_or(("", part.as_str()), |id| ("id:", id));
        let is_release = id.len() <= 10 && id.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let is_file = id == "vimServiceVersions.xml";
        let shown = if is_release || is_file || id.is_empty() { id.to_owned() } else { self.reference(id) };
        format!("{prefix}{shown}")
    }
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// The prefixes of managed object IDs. The rest of an ID is a number.
const KINDS: [&str; 14] = [
    "vm-",
    "host-",
    "domain-c",
    "domain-s",
    "group-d",
    "group-h",
    "group-n",
    "group-s",
    "group-v",
    "resgroup-",
    "datastore-",
    "network-",
    "dvportgroup-",
    "datacenter-",
];

fn has_form_of_reference(text: &str) -> bool {
    let is_number = |rest: &str| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit());
    KINDS.iter().any(|kind| text.strip_prefix(kind).is_some_and(is_number))
}

/// Returns true for an ID that begins with a letter, consists of up to 40 ASCII letters, digits, dashes and
/// underscores, and isn't a UUID.
fn is_own_id(id: &str) -> bool {
    let word = id.starts_with(|first: char| first.is_ascii_alphabetic())
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    word && id.len() <= 40 && Uuid::try_parse(id).is_err()
}

/// Creates a stand-in in the format of the original string: UUID, IP address, MAC address, or otherwise `text-N`.
/// `number` makes the stand-in unique.
fn create_stand_in(text: &str, number: usize) -> String {
    let (high, low) = (number >> 8 & 0xff, number & 0xff);
    if Uuid::try_parse(text).is_ok() {
        return format!("00000000-0000-4000-8000-{number:012x}");
    }
    // These addresses are from reserved networks.
    match text.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => return format!("240.0.{high}.{low}"),
        Ok(IpAddr::V6(_)) => return format!("2001:db8::{number:x}"),
        Err(_) => {}
    }
    let pairs: Vec<&str> = text.split(':').collect();
    let hexadecimal = |pair: &&str| pair.len() == 2 && pair.bytes().all(|byte| byte.is_ascii_hexdigit());
    if pairs.len() == 6 && pairs.iter().all(hexadecimal) {
        return format!("02:00:00:00:{high:02x}:{low:02x}");
    }
    format!("text-{number}")
}
