//! Derives the strings that the scrubber searches for from the values of Secrets. This module doesn't perform I/O.

use std::collections::BTreeSet;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The minimum value length in bytes. Shorter values match ordinary text.
const MIN_VALUE: usize = 4;
/// The minimum length for lines in a multi-line value, in bytes. Shorter lines match ordinary text.
const MIN_LINE: usize = 20;
/// The minimum length for a setting's value, in bytes. Shorter values match ordinary text.
const MIN_SETTING: usize = 8;
/// The maximum length of a string to search for, in bytes. Longer values are found by their lines, or by their base64
/// shape.
const MAX_VALUE: usize = 4096;
/// The maximum total length of all strings, in bytes. All strings are kept in memory.
const MAX_BYTES: usize = 4 << 20;
/// Common words that aren't searched for, because removing a common word would only reveal that it is the secret.
const ORDINARY: [&str; 18] = [
    "admin",
    "administrator",
    "cluster.local",
    "default",
    "false",
    "json",
    "kubernetes",
    "none",
    "null",
    "opaque",
    "pass",
    "password",
    "root",
    "secret",
    "true",
    "user",
    "username",
    "yaml",
];

/// The strings to search for. The `Debug` output doesn't contain them.
#[derive(Default)]
pub struct SecretValues {
    texts: BTreeSet<String>,
    bytes: usize,
    /// The number of strings that exceeded [`MAX_BYTES`] and were left out.
    pub omitted: usize,
}

impl fmt::Debug for SecretValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretValues({} texts, {} omitted)", self.texts.len(), self.omitted)
    }
}

impl SecretValues {
    /// Adds the strings to search for: the Secret value itself, its encodings, and, for JSON and text with several
    /// lines, also its lines and settings. Skips values in `public`, such as the namespace, and common words.
    pub fn add(&mut self, value: &[u8], public: &[&str]) {
        let Ok(text) = std::str::from_utf8(value) else {
            self.insert(STANDARD.encode(value));
            return;
        };
        let text = text.trim();
        if is_public(text, public) {
            return;
        }
        if text.len() >= MIN_VALUE {
            self.insert(text.to_owned());
            self.insert(STANDARD.encode(value));
            self.insert(STANDARD.encode(text));
            // JSON logs contain the escaped form.
            self.insert(escaped(text));
        }
        if !text.contains('\n') && !text.starts_with('{') {
            return;
        }
        for line in text.lines().map(str::trim) {
            // Skip full PEM lines, which have 64 characters. The base64 shape matches them.
            if line.len() >= MIN_LINE && line.len() != 64 {
                self.insert(line.to_owned());
            }
        }
        for setting in settings(text) {
            if setting.len() >= MIN_SETTING && !is_public(setting, public) && !is_path(setting) {
                self.insert(setting.to_owned());
            }
        }
    }

    fn insert(&mut self, text: String) {
        if text.len() > MAX_VALUE || self.texts.contains(&text) {
            return;
        }
        if self.bytes + text.len() > MAX_BYTES {
            self.omitted += 1;
            return;
        }
        self.bytes += text.len();
        self.texts.insert(text);
    }

    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    pub fn len(&self) -> usize {
        self.texts.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.texts.iter().map(String::as_str)
    }
}

fn escaped(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

fn is_public(text: &str, public: &[&str]) -> bool {
    let is_small_number = text.len() < 6 && text.chars().all(|c| c.is_ascii_digit());
    is_small_number || ORDINARY.contains(&text.to_lowercase().as_str()) || public.contains(&text)
}

/// Returns true for absolute paths in lowercase letters. For example, `certificatesDir: /etc/kubernetes/pki` isn't a
/// secret.
fn is_path(text: &str) -> bool {
    let is_of_path = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "/._-".contains(c);
    text.starts_with('/') && text.chars().all(is_of_path)
}

/// Returns the values of settings whose name suggests a secret, in YAML, JSON or `key=value` lines.
fn settings(text: &str) -> impl Iterator<Item = &str> {
    const TELLING: [&str; 11] =
        ["pass", "pwd", "token", "secret", "key", "cert", "auth", "credential", "data", "session", "cookie"];
    let settings = text.split(['\n', ',', '{', '}']).filter_map(|part| part.split_once([':', '=']));
    let telling = settings.filter(|(name, _)| {
        let name = name.to_lowercase();
        TELLING.iter().any(|word| name.contains(word))
    });
    telling.map(|(_, value)| value.trim().trim_matches(['"', '\'']))
}
