//! Texts of a spec that end in what a node runs: user data, units, shell commands, arguments of the kubelet.
//!
//! User data is a jinja template to cloud-init, and a line end begins another directive in a unit. The rules of each field
//! keep both out of new clusters; these here are asked of every text of every spec whenever nodes are planned, so that an
//! object that was stored before a rule can't carry them either.

use api::gcm::TanzuKubernetesClusterSpec;
use serde_json::Value;

use super::authorities::{contains_key, pem};
use super::denial::FieldDenial;

/// What jinja begins its expressions, statements and comments with.
const JINJA: [&str; 3] = ["{{", "{%", "{#"];
/// Where base64 stands, in which line breaks are allowed and do not reach a node.
const ENCODED: &str = "spec.settings.network.trust.additionalTrustedCAs[";
/// The part of a spec that reaches no node in its user data: the API servers of a cluster read it from its own objects.
const IN_GUEST: &str = "spec.settings.authentication";
/// A message names no more of them.
const MOST: usize = 5;

/// Everything in the spec that a node would run rather than read.
pub fn denials(spec: &TanzuKubernetesClusterSpec) -> Vec<FieldDenial> {
    let mut denials = Vec::new();
    if let Ok(spec) = serde_json::to_value(spec) {
        look_at(&spec, "spec", &mut denials);
    }
    denials.truncate(MOST);
    denials
}

/// Adds them to denials, but for fields that are denied already.
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
                // A key that is a user's own text is in no path.
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
    // What of it is no base64 is refused elsewhere, and reaches no node.
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
    // Whoever writes a text trims it: many end in a line break because of how YAML was written.
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

    /// The pointers of all texts in a value.
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
        // "{{ ds }}"
        spec["settings"]["network"]["trust"]["additionalTrustedCAs"][0]["data"] = json!("e3sgZHMgfX0=");
        assert_eq!(denials(&serde_json::from_value(spec.clone()).unwrap()).len(), 1, "what is encoded");
        spec["settings"]["network"]["trust"]["additionalTrustedCAs"][0]["data"] =
            json!(STANDARD.encode("-----BEGIN EC PRIVATE KEY-----"));
        let denials = denials(&serde_json::from_value(spec).unwrap());
        assert!(denials[0].to_string().contains("it contains a private key"), "{denials:?}");
    }
}
