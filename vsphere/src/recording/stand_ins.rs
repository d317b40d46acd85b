//! What stands in a recording instead of a text: always the same for the same text, and of the same form.

use std::collections::HashMap;
use std::net::IpAddr;

use percent_encoding::percent_decode_str;
use uuid::Uuid;

/// The stand-ins of all texts so far.
#[derive(Default)]
pub(super) struct StandIns(HashMap<String, String>);

impl StandIns {
    /// The stand-in of a text.
    pub fn of(&mut self, text: &str) -> String {
        if text.trim().is_empty() {
            return text.to_owned();
        }
        let number = self.0.len() + 1;
        self.0.entry(text.to_owned()).or_insert_with(|| form(text, number)).clone()
    }

    /// The id of a managed object, in a place where vCenter has only such ids. Kept unless there is a UUID or a session in it.
    pub fn reference(&mut self, id: &str) -> String {
        if is_own_id(id) { id.to_owned() } else { self.of(id) }
    }

    /// A text that can be the id of a managed object or a name. Kept if it has the form of an id that vCenter makes, such as `vm-12`.
    pub fn reference_or_name(&mut self, text: &str) -> String {
        if has_form_of_reference(text) { text.to_owned() } else { self.of(text) }
    }

    /// A path with its query.
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
            None => pair.to_owned(),
        });
        let pairs: Vec<String> = pairs.collect();
        format!("{path}?{}", pairs.join("&"))
    }

    /// A part of a path: a word, a release, or an id, which can follow `id:`.
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

/// What the ids of managed objects begin with, before their number.
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

/// Returns true for an id of letters, digits and dashes that is no UUID.
fn is_own_id(id: &str) -> bool {
    let word = id.starts_with(|first: char| first.is_ascii_alphabetic())
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    word && id.len() <= 40 && Uuid::try_parse(id).is_err()
}

/// A stand-in that a reader takes for a value of the same kind.
fn form(text: &str, number: usize) -> String {
    let (high, low) = (number >> 8 & 0xff, number & 0xff);
    if Uuid::try_parse(text).is_ok() {
        return format!("00000000-0000-4000-8000-{number:012x}");
    }
    // Addresses of networks that are reserved, and that nobody has.
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
