//! Decides which strings in a message belong to the API and may be kept.

use jiff::Timestamp;

/// Members whose value is always an API word, such as types, paths, states, versions and privileges.
const WORDS: &[&str] = &[
    "_typeName",
    "accessMode",
    "action",
    "adapterType",
    "api_release",
    "api_releases",
    "apiVersion",
    "cardinality",
    "changeVersion",
    "connectionState",
    "connectState",
    "diskMode",
    "drsBehavior",
    "error_type",
    "guestHeartbeatStatus",
    "guestState",
    "heartbeatStatus",
    "kind",
    "maintenanceMode",
    "op",
    "overallStatus",
    "pathSet",
    "powerState",
    "priorVersion",
    "privId",
    "privileges",
    "privilege",
    "release",
    "sharedBus",
    "sharing",
    "standbyMode",
    "state",
    "status",
    "storageType",
    "toolsRunningStatus",
    "toolsStatus",
    "toolsVersionStatus",
    "toolsVersionStatus2",
    "type",
    "unit_type",
    "version",
];
/// Members of `AboutInfo` that describe the product.
const ABOUT: &[&str] = &[
    "name",
    "fullName",
    "vendor",
    "version",
    "patchLevel",
    "build",
    "localeVersion",
    "localeBuild",
    "osType",
    "productLineId",
    "apiType",
    "apiVersion",
    "licenseProductName",
    "licenseProductVersion",
];
/// Members that contain objects whose `name` or `path` is a property path or a selection name.
const NAMED: &[&str] = &["propSet", "changeSet", "selectSet", "missingSet"];
/// Members that are redacted even if their value looks like a number or a boolean.
const TEXTS: &[&str] = &[
    "name",
    "userName",
    "fullName",
    "password",
    "value",
    "hostName",
    "user",
    "ticket",
    "annotation",
    "serialNumber",
    "faultstring",
    "localizedMessage",
    "message",
    "vcSessionCookie",
];
/// Value types that contain free text instead of API words, such as type names and enum values.
const TEXT_TYPES: &[&str] = &["string", "anyURI", "base64Binary", "binary"];
/// The maximum length of an API word in bytes.
const LONGEST_WORD: usize = 80;
const LONGEST_PRODUCT: usize = 160;

/// Returns true if a member's string may be kept: an API word in a member that contains only API words, product
/// information, a `urn:` namespace, or a timestamp. `parent` is the member that contains the enclosing object.
pub(super) fn keeps(parent: &str, key: &str, text: &str) -> bool {
    if parent == "namespace" && key == "name" {
        return text.starts_with("urn:") && text.len() <= LONGEST_WORD;
    }
    let about = parent == "about" && ABOUT.contains(&key) && text.len() <= LONGEST_PRODUCT;
    let named = matches!(key, "name" | "path") && NAMED.contains(&parent);
    about || ((named || WORDS.contains(&key)) && is_path(text)) || is_time(text)
}

/// Returns true if the string of a typed value may be kept: a single word (`is_word`), such as a state or a number, or
/// a timestamp. Free text types and arrays are never kept.
pub(super) fn keeps_typed(type_name: &str, text: &str) -> bool {
    !TEXT_TYPES.contains(&type_name) && !type_name.starts_with("ArrayOf") && (is_word(text) || is_time(text))
}

/// Returns true if an untyped XML text is a number or a boolean, and isn't in a member that `TEXTS` lists.
pub(super) fn is_plain_value(key: &str, text: &str) -> bool {
    // `nan` and `inf` parse as numbers but may also be names.
    let number = text.ends_with(|last: char| last.is_ascii_digit()) && text.parse::<f64>().is_ok();
    (number || matches!(text, "true" | "false")) && !TEXTS.contains(&key)
}

/// Returns true if a member name looks like an API name and not like a map key: up to `LONGEST_WORD` ASCII letters,
/// digits, `_`, `@` and `~`.
pub(super) fn is_member(name: &str) -> bool {
    name.len() <= LONGEST_WORD
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_@~".contains(&byte))
}

/// Returns true for a word, and for a property path with a key, such as `config.extraConfig["vmservice.stackID"]`.
fn is_path(text: &str) -> bool {
    let keyed = text.strip_suffix("\"]").and_then(|text| text.split_once("[\""));
    keyed.map_or_else(|| is_word(text), |(path, key)| is_word(path) && is_word(key))
}

fn is_word(text: &str) -> bool {
    let word = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    word && text.len() <= LONGEST_WORD && uuid::Uuid::try_parse(text).is_err()
}

fn is_time(text: &str) -> bool {
    text.len() <= 40 && text.parse::<Timestamp>().is_ok()
}
