//! Which texts of a message are words of the API.

use jiff::Timestamp;

/// Members whose text is a word of the API wherever they are: types, paths, states, versions, privileges.
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
/// Members whose `name` or `path` is a property's path, or the name of a selection.
const NAMED: &[&str] = &["propSet", "changeSet", "selectSet", "missingSet"];
/// Members that are texts although they may look like numbers.
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
/// Types of values that are texts, and not words.
const TEXT_TYPES: &[&str] = &["string", "anyURI", "base64Binary", "binary"];
/// No word of the API is longer.
const LONGEST_WORD: usize = 80;
const LONGEST_PRODUCT: usize = 160;

/// Whether the text of a member can stay; `parent` is the member that holds the object that has it.
pub(super) fn keeps(parent: &str, key: &str, text: &str) -> bool {
    if parent == "namespace" && key == "name" {
        return text.starts_with("urn:") && text.len() <= LONGEST_WORD;
    }
    let about = parent == "about" && ABOUT.contains(&key) && text.len() <= LONGEST_PRODUCT;
    let named = matches!(key, "name" | "path") && NAMED.contains(&parent);
    about || ((named || WORDS.contains(&key)) && is_path(text)) || is_time(text)
}

/// Whether the text of a value that names its type can stay: a state or a number, and no text.
pub(super) fn keeps_typed(type_name: &str, text: &str) -> bool {
    !TEXT_TYPES.contains(&type_name) && !type_name.starts_with("ArrayOf") && (is_word(text) || is_time(text))
}

/// Whether an untyped text of XML is a number or a boolean.
pub(super) fn is_plain_value(key: &str, text: &str) -> bool {
    // `nan` and `inf` are names as well as numbers.
    let number = text.ends_with(|last: char| last.is_ascii_digit()) && text.parse::<f64>().is_ok();
    (number || matches!(text, "true" | "false")) && !TEXTS.contains(&key)
}

/// Whether a member's name is one of the API's, and not the key of a map.
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
