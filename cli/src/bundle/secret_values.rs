//! Which texts are looked for because a Secret holds them. Pure.

use std::collections::BTreeSet;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Shorter values are found everywhere.
const MIN_VALUE: usize = 4;
/// Shorter lines of a longer value are found everywhere.
const MIN_LINE: usize = 20;
/// Shorter values of a setting are found everywhere.
const MIN_SETTING: usize = 8;
/// What is longer is found by its lines, and in base64 by its shape.
const MAX_VALUE: usize = 4096;
/// So much is looked for, and no more: it is held in memory.
const MAX_BYTES: usize = 4 << 20;
/// Words that are everywhere: to take one out would only show what it was.
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

/// The texts to look for. `Debug` prints none of them.
#[derive(Default)]
pub struct SecretValues {
    texts: BTreeSet<String>,
    bytes: usize,
    /// How many texts there was no room for.
    pub omitted: usize,
}

impl fmt::Debug for SecretValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretValues({} texts, {} omitted)", self.texts.len(), self.omitted)
    }
}

impl SecretValues {
    /// Adds what is to be looked for because of this value. `public` are names that may be seen, as that of its
    /// namespace.
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
            // As a log in JSON has it.
            self.insert(escaped(text));
        }
        if !text.contains('\n') && !text.starts_with('{') {
            return;
        }
        for line in text.lines().map(str::trim) {
            // PEM's full lines have the shape of base64.
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

    /// Whether there is nothing to look for.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// How many texts there are.
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

/// `/etc/kubernetes/pki` is the value of `certificatesDir`, and no secret.
fn is_path(text: &str) -> bool {
    let is_of_path = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "/._-".contains(c);
    text.starts_with('/') && text.chars().all(is_of_path)
}

/// Values of settings with telling names, in YAML, JSON or `key=value` lines.
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
