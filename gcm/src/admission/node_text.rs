//! Checks the spec strings that end up in user data, systemd units, shell commands or kubelet arguments.
//!
//! cloud-init treats user data as a jinja template, and a line break starts a new directive in a unit. The rules for each field
//! exclude both in new clusters. The rules here apply to every string whenever nodes are planned, so that they also catch
//! objects that were stored before a field's rule existed.

use api::gcm::TanzuKubernetesClusterSpec;
use serde_json::Value;

use super::authorities::{contains_key, pem};
use super::denial::FieldDenial;

/// The opening delimiters for jinja expressions, statements and comments.
const JINJA: [&str; 3] = ["{{", "{%", "{#"];
/// The path prefix of the fields with base64 data. The encoded data can contain line breaks, because nodes get the decoded data.
const ENCODED: &str = "spec.settings.network.trust.additionalTrustedCAs[";
/// The path of the section that user data doesn't contain: API servers get it from objects in the workload cluster.
const IN_GUEST: &str = "spec.settings.authentication";
/// The maximum number of denials.
const MOST: usize = 5;

/// Returns a denial for each string in the spec that a node would interpret as code instead of data, up to `MOST`.
pub fn denials(spec: &TanzuKubernetesClusterSpec) -> Vec<FieldDenial> {
    let mut denials = Vec::new();
    if let Ok(spec) = serde_json::to_value(spec) {
        look_at(&spec, "spec", &mut denials);
    }
    denials.truncate(MOST);
    denials
}

/// Adds the denials of [`denials`], except for fields that are already denied.
pub(super) fn add_denials(denials: &mut Vec<FieldDenial>, spec: &TanzuKubernetesClusterSpec) {
    let is_new = |found: &FieldDenial| !denials.iter().any(|there| there.field == found.field);
    let found: Vec<_> = self::denials(spec).into_iter().filter(is_new).collect();
    denials.extend(found);
}

fn look_at(value: &Value, field: &str, denials: &mut Vec<FieldDenial>) {
    match value {
        _ if field == IN_GUEST => {}
        Value::String(text) => denials.extend(denial(text, field)),
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                look_at(item, &format!("{field}[{at}]"), denials);
            }
        }
        Value::Object(fields) => {
            for (key, value) in fields {
                // Don't include a key in a path if the key itself is denied.
                match denial(key, field) {
                    Some(denial) => denials.push(denial),
                    None => look_at(value, &format!("{field}.{key}"), denials),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn denial(text: &str, field: &str) -> Option<FieldDenial> {
    let is_encoded =
        field.strip_prefix(ENCODED).is_some_and(|rest| rest.trim_start_matches(char::is_numeric) == "].data");
    // Invalid base64 doesn't reach nodes, because another rule denies it.
    let decoded = if is_encoded { pem(text).unwrap_or_default() } else { String::new() };
    let text = if is_encoded { decoded.as_str() } else { text };
    if contains_key(text) {
        return Some(FieldDenial::new(
            field,
            "it contains a private key, which every process on the nodes could read",
            "Remove the key, and replace the key pair",
        ));
    }
    if JINJA.iter().any(|mark| text.contains(mark)) {
        return Some(FieldDenial::new(
            field,
            "it contains {{, {% or {#, which nodes would interpret as a template",
            "Remove the braces",
        ));
    }
    // Trim first: gcm trims strings before it writes them, and YAML block scalars end with a line break.
    (!is_encoded && text.trim().contains(char::is_control)).then(|| {
        FieldDenial::new(
            field,
            "it contains a line break or another control character",
            "Write it in one line",
        )
    })
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use serde_json::json;

    use super::*;
    use crate::testing::sound;

    fn full() -> Value {
        let mut spec = serde_json::to_value(sound().spec).unwrap();
        let volumes = json!([{"name": "v", "mountPath": "/v", "capacity": {"storage": "1Gi"}}]);
        let topology = &mut spec["topology"];
        topology["controlPlane"]["volumes"] = volumes.clone();
        topology["controlPlane"]["nodeDrainTimeout"] = json!("5m");
        topology["nodePools"][0]["volumes"] = volumes;
        topology["nodePools"][0]["labels"] = json!({"a": "b"});
        topology["nodePools"][0]["taints"] = json!([{"key": "a", "value": "b", "effect": "NoSchedule"}]);
        spec["settings"]["storage"] = json!({"classes": ["gold"], "defaultClass": "gold"});
        spec["settings"]["network"] = json!({
            "cni": {"name": "antrea"}, "serviceDomain": "cluster.local",
            "pods": {"cidrBlocks": ["192.168.0.0/16"]}, "services": {"cidrBlocks": ["10.96.0.0/12"]},
            "proxy": {"httpProxy": "http://10.0.0.1:80", "httpsProxy": "http://10.0.0.1:80", "noProxy": [".corp"]},
            "trust": {"additionalTrustedCAs": [{"name": "corp", "data": "LS0t\nLS0t"}]},
        });
        spec
    }

    /// Collects the JSON pointers to all strings in a value.
    fn texts(value: &Value, at: &str, found: &mut Vec<String>) {
        match value {
            Value::String(_) => found.push(at.to_owned()),
            Value::Array(items) => {
                items.iter().enumerate().for_each(|(n, item)| texts(item, &format!("{at}/{n}"), found));
            }
            Value::Object(fields) => {
                fields.iter().for_each(|(key, item)| texts(item, &format!("{at}/{key}"), found));
            }
            _ => {}
        }
    }

    #[test]
    fn no_text_of_a_spec_carries_a_line_end_or_a_template_to_a_node() {
        let full = full();
        assert_eq!(denials(&serde_json::from_value(full.clone()).unwrap()), []);
        let mut all = Vec::new();
        texts(&full, "", &mut all);
        assert!(all.len() > 20, "{all:?}");
        let hostile =
            ["x\nExecStartPre=/bin/touch /pwned", "x\u{2028}\u{85}y", "{{ 7 * 7 }}", "{% x %}", "{# x"];
        for pointer in all.iter().filter(|pointer| !pointer.ends_with("/data")) {
            for text in hostile {
                let mut spec = full.clone();
                *spec.pointer_mut(pointer).unwrap() = json!(text);
                let Ok(spec) = serde_json::from_value::<TanzuKubernetesClusterSpec>(spec) else { continue };
                assert_eq!(denials(&spec).len(), 1, "{pointer}: {text:?}");
            }
        }
        let mut spec = full.clone();
        spec["topology"]["nodePools"][0]["labels"] = json!({"{{ a }}": "b"});
        assert_eq!(denials(&serde_json::from_value(spec).unwrap()).len(), 1, "a key");
        let mut spec = full;
        // "{{ ds }}" in base64.
        spec["settings"]["network"]["trust"]["additionalTrustedCAs"][0]["data"] = json!("e3sgZHMgfX0=");
        assert_eq!(denials(&serde_json::from_value(spec.clone()).unwrap()).len(), 1, "what is encoded");
        spec["settings"]["network"]["trust"]["additionalTrustedCAs"][0]["data"] =
            json!(STANDARD.encode("-----BEGIN EC PRIVATE KEY-----"));
        let denials = denials(&serde_json::from_value(spec).unwrap());
        assert!(denials[0].to_string().contains("it contains a private key"), "{denials:?}");
    }
}
