//! Resource requests and limits of programs.

use std::collections::{BTreeMap, BTreeSet};

use api::Quantity;
use components::guest_proxy;
use components::plan::InstallationObjects;
use serde::Deserialize;
use serde_json::Value;

/// A program's resources, as the document contains them.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct GivenResources {
    requests: GivenAmounts,
    limits: GivenAmounts,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct GivenAmounts {
    cpu: Option<Quantity>,
    memory: Option<Quantity>,
}

/// Amounts by resource.
type Amounts = BTreeMap<String, String>;

impl GivenResources {
    /// Returns the requests and the limits, or all errors.
    pub(super) fn read(self) -> Result<(Amounts, Amounts), Vec<String>> {
        let mut errors = Vec::new();
        let requests = self.requests.read("requests", &mut errors);
        let limits = self.limits.read("limits", &mut errors);
        if errors.is_empty() { Ok((requests, limits)) } else { Err(errors) }
    }
}

impl GivenAmounts {
    fn read(self, kind: &str, errors: &mut Vec<String>) -> Amounts {
        let mut amounts = Amounts::new();
        for (resource, amount) in [("cpu", self.cpu), ("memory", self.memory)] {
            let Some(amount) = amount else { continue };
            match amount.millis() {
                Ok(millis) if millis > 0 => {
                    amounts.insert(resource.to_owned(), amount.0);
                }
                Ok(_) => errors.push(format!("resources.{kind}.{resource} is {amount}. Write more than 0")),
                Err(error) => errors.push(format!("resources.{kind}.{resource}: {error}")),
            }
        }
        amounts
    }
}

/// Finds programs whose limit is below their request, which the API server would refuse. One of both can be a default.
pub fn find_contradictions(installation: &InstallationObjects) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for part in &installation.parts {
        let containers = part.deployment.pointer("/spec/template/spec/containers").and_then(Value::as_array);
        for container in containers.into_iter().flatten() {
            let amount = |kind: &str, resource: &str| {
                let amount = container["resources"][kind][resource].as_str().map(Quantity::from)?;
                Some((amount.millis().ok()?, amount))
            };
            for resource in ["cpu", "memory"] {
                if let Some((request, requested)) = amount("requests", resource)
                    && let Some((limit, limited)) = amount("limits", resource)
                    && limit < request
                {
                    let name = container["name"].as_str().filter(|name| *name == guest_proxy::CONTAINER);
                    let name = name.unwrap_or(part.component.name);
                    found.insert(format!(
                        "{name}: the {resource} limit {limited} is below the request {requested}. Raise resources.limits.{resource} or lower resources.requests.{resource} (docs/flags.md)"
                    ));
                }
            }
        }
    }
    found
}
