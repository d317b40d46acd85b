//! Generates an EncryptionConfiguration, and checks a configuration that a user wrote.
//!
//! A generated configuration uses AES-CBC. Every Kubernetes release supports it, and unlike `secretbox` it only uses algorithms
//! that FIPS 140 builds allow. `aesgcm` would need another key after 200,000 writes. AES-CBC doesn't detect changed data, but a
//! user who can change data in etcd can also change RBAC rules there, which aren't encrypted.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bounds::from_yaml;
use kit::bounded::Budget;
use serde::{Deserialize, Deserializer};
use zeroize::Zeroizing;

/// The length of a generated key, in bytes.
const KEY_BYTES: usize = 32;
/// The opening delimiters of cloud-init template expressions, which a node would replace.
const TEMPLATES: [&str; 3] = ["{{", "{%", "{#"];
/// The resource names that cover Secrets in an EncryptionConfiguration.
const SECRETS: [&str; 3] = ["secrets", "*.", "*.*"];

/// Returns a configuration with a new key. With this configuration, API servers can also read Secrets that aren't encrypted.
pub fn generate() -> Zeroizing<String> {
    let key = Zeroizing::new(rand::random::<[u8; KEY_BYTES]>());
    let text = Zeroizing::new(BASE64_STANDARD.encode(*key));
    Zeroizing::new(format!(
        "apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: [secrets]
  providers:
  - aescbc:
      keys:
      - {{name: key1, secret: {}}}
  - identity: {{}}
",
        *text
    ))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct EncryptionConfiguration {
    api_version: String,
    kind: String,
    resources: Vec<Resources>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Resources {
    resources: Vec<String>,
    providers: Vec<Provider>,
}

/// One encryption provider. Exactly one of the fields is set.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Provider {
    aescbc: Option<Keys>,
    aesgcm: Option<Keys>,
    secretbox: Option<Keys>,
    identity: Option<Identity>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Identity {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    keys: Vec<Key>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Key {
    name: String,
    #[serde(deserialize_with = "read_key")]
    secret: Zeroizing<String>,
}

/// Deserializes a key into a string that is wiped from memory when it is dropped.
fn read_key<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Zeroizing<String>, D::Error> {
    String::deserialize(deserializer).map(Zeroizing::new)
}

/// Checks that an API server can read a configuration. Messages don't quote the configuration.
///
/// # Errors
/// Returns the fault as a noun phrase, for a message that says what the configuration has.
pub fn check(text: &str, budget: &Budget) -> Result<(), &'static str> {
    // The configuration becomes a block in cloud-init's document, which is a template.
    if !text.bytes().all(|byte| byte == b'\n' || byte == b' ' || byte.is_ascii_graphic()) {
        return Err("characters other than printable ASCII and line feeds");
    }
    if text.starts_with([' ', '\n']) || TEMPLATES.iter().any(|begin| text.contains(begin)) {
        return Err("space at its beginning, or one of {{ {% {#");
    }
    let read = from_yaml::<EncryptionConfiguration>(text, budget);
    let EncryptionConfiguration { api_version, kind, resources } = read.map_err(
        |_| "a text that is no EncryptionConfiguration with the providers aescbc, aesgcm, secretbox or identity",
    )?;
    if api_version != "apiserver.config.k8s.io/v1" || kind != "EncryptionConfiguration" {
        return Err("another apiVersion or kind than apiserver.config.k8s.io/v1 EncryptionConfiguration");
    }
    if !resources.iter().flat_map(|entry| &entry.resources).any(|name| SECRETS.contains(&name.as_str())) {
        return Err("no entry for the resource secrets");
    }
    if resources.iter().any(|entry| entry.providers.is_empty()) {
        return Err("an entry without providers");
    }
    resources.iter().flat_map(|entry| &entry.providers).try_for_each(check_provider)
}

fn check_provider(provider: &Provider) -> Result<(), &'static str> {
    const AES: &[usize] = &[16, 24, 32];
    let Provider { aescbc, aesgcm, secretbox, identity } = provider;
    let of_keys = [(aescbc, AES), (aesgcm, AES), (secretbox, &[32])];
    let mut with_keys = of_keys.iter().filter_map(|(keys, lengths)| Some((keys.as_ref()?, *lengths)));
    match (with_keys.next(), with_keys.next(), identity) {
        (None, None, Some(Identity {})) => Ok(()),
        (Some((Keys { keys }, lengths)), None, None) => {
            let is_valid = |Key { name, secret }: &Key| {
                let bytes = BASE64_STANDARD.decode(secret.as_bytes()).map(Zeroizing::new);
                !name.is_empty() && bytes.is_ok_and(|bytes| lengths.contains(&bytes.len()))
            };
            if keys.is_empty() || !keys.iter().all(is_valid) {
                return Err(
                    "a key without a name, or one that is not base64 of 32 bytes (AES: also 16 or 24)",
                );
            }
            Ok(())
        }
        _ => Err("an entry of providers that does not name exactly one provider"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(text: &str) -> Result<(), &'static str> {
        check(text, &Budget::new(1 << 20))
    }

    #[test]
    fn a_new_configuration_has_a_random_key_and_is_valid() {
        let (one, other) = (generate(), generate());
        assert_eq!(checked(&one), Ok(()));
        assert!(one != other);
        let lines: Vec<_> = one.lines().collect();
        assert_eq!(lines[5], "  - aescbc:", "what is written is encrypted");
        assert_eq!(lines.last(), Some(&"  - identity: {}"), "and what was written without a key is read");
    }

    #[test]
    fn what_an_api_server_would_not_read_is_refused_without_a_quote() {
        let sound = generate();
        let (twenty, sixteen) = (BASE64_STANDARD.encode([7; 20]), BASE64_STANDARD.encode([7; 16]));
        let key = sound.split("secret: ").nth(1).unwrap().split('}').next().unwrap();
        let with = |from: &str, to: &str| {
            assert!(sound.contains(from), "{from}");
            sound.replacen(from, to, 1)
        };
        let json = r#"{"apiVersion":"apiserver.config.k8s.io/v1","kind":"EncryptionConfiguration","resources":[{"resources":["secrets"],"providers":[{"identity":{}}]}]}"#;
        for accepted in [
            with("aescbc", "secretbox"),
            with(key, &sixteen),
            with("[secrets]", "[configmaps, secrets]"),
            with("[secrets]", "['*.*']"),
            with("  - identity: {}\n", ""),
            json.to_owned(),
        ] {
            assert_eq!(checked(&accepted), Ok(()));
        }
        for (refused, part) in [
            (String::new(), "no EncryptionConfiguration"),
            ("hidden".to_owned(), "no EncryptionConfiguration"),
            (with("/v1", "/v1beta1"), "another apiVersion"),
            (with("[secrets]", "[configmaps]"), "no entry for the resource secrets"),
            (with("secret: ", "secret: hidden"), "base64"),
            (with(key, &twenty), "base64"),
            (with("aescbc", "secretbox").replacen(key, &sixteen, 1), "base64"),
            (with("aescbc", "kms"), "no EncryptionConfiguration"),
            (with("  - identity: {}", "  - {}"), "exactly one provider"),
            (with("name: key1", "name: ''"), "without a name"),
            (with("key1", "'{{ ds.meta_data.hidden }}'"), "{{"),
            (format!("  {}", *sound), "space at its beginning"),
            (with("key1", "k\u{e9}"), "printable ASCII"),
            (with("\n", "\r\n"), "printable ASCII"),
        ] {
            let found = checked(&refused).unwrap_err();
            assert!(found.contains(part) && !found.contains("hidden"), "{refused}: {found}");
        }
    }
}
