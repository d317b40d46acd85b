//! Settings of a program that an administrator can change: arguments and resources.

use std::collections::BTreeMap;

use serde_json::Value;

/// The changed settings of one program. Everything else keeps its default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramSettings {
    /// Arguments that follow all others, such as `--log-level=debug`.
    pub args: Vec<String>,
    /// The container's resource requests, such as `memory: 64Mi`, by resource.
    pub requests: BTreeMap<String, String>,
    /// The container's resource limits, by resource.
    pub limits: BTreeMap<String, String>,
}

/// The changed settings by component name, or [`guest_proxy::CONTAINER`](crate::guest_proxy::CONTAINER).
pub type SettingsByProgram = BTreeMap<&'static str, ProgramSettings>;

impl ProgramSettings {
    /// Sets the container's arguments and resources.
    pub(crate) fn apply(&self, container: &mut Value) {
        if let Some(args) = container["args"].as_array_mut() {
            args.extend(self.args.iter().cloned().map(Value::from));
        }
        for (kind, amounts) in [("requests", &self.requests), ("limits", &self.limits)] {
            for (resource, amount) in amounts {
                container["resources"][kind][resource] = amount.as_str().into();
            }
        }
    }
}
