//! Finds the tools that have set an object's fields, in its `managedFields`. This module doesn't perform I/O.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;

use crate::terminal::exit::ExitStatus;

/// Prefixes of the field managers with which people change objects by hand. Other tools, such as GitOps controllers,
/// would revert a change.
const PEOPLE: [&str; 2] = ["kubectl", "layercake"];

/// A field, in the notation of `managedFields` and as a path for people.
pub struct Field {
    /// The keys from the object to the field, such as `f:spec`.
    pub keys: Vec<String>,
    /// The path, such as `spec.topology.controlPlane.replicas`.
    pub path: String,
}

impl Field {
    /// Returns a field in the spec. `keys` and `path` are relative to the spec.
    pub fn of_spec(keys: &[&str], path: &str) -> Self {
        let all = std::iter::once(&"f:spec").chain(keys);
        Self { keys: all.map(|key| (*key).to_owned()).collect(), path: format!("spec.{path}") }
    }

    /// Returns a field in the topology. `keys` and `path` are relative to the topology.
    pub fn of_topology(keys: &[&str], path: &str) -> Self {
        let all: Vec<_> = std::iter::once(&"f:topology").chain(keys).copied().collect();
        Self::of_spec(&all, &format!("topology.{path}"))
    }

    /// Returns a field in a node pool. `keys` and `path` are relative to the pool.
    pub fn of_pool(pool: &str, keys: &[&str], path: &str) -> Self {
        let item = format!("k:{{\"name\":\"{pool}\"}}");
        let keys: Vec<_> = ["f:nodePools", &item].iter().chain(keys).copied().collect();
        Self::of_topology(&keys, &format!("nodePools[{pool}].{path}"))
    }

    /// Returns the manager that has set the field, or `None` if there isn't one. Ignores managers in [`PEOPLE`].
    fn owner<'a>(&self, managers: &'a [ManagedFieldsEntry]) -> Option<&'a str> {
        managers.iter().find_map(|entry| {
            let manager = entry.manager.as_deref()?;
            let fields = &entry.fields_v1.as_ref()?.0;
            let owns = self.keys.iter().try_fold(fields, |fields, key| fields.get(key)).is_some();
            let is_persons = PEOPLE.iter().any(|person| manager.starts_with(person));
            (owns && !is_persons).then_some(manager)
        })
    }
}

/// Refuses to change fields that another tool has set.
///
/// # Errors
/// Returns an error with [`ExitStatus::Refused`] that names each field and its manager.
pub fn check(fields: &[Field], managers: Option<&[ManagedFieldsEntry]>) -> anyhow::Result<()> {
    let managers = managers.unwrap_or_default();
    let owned = fields.iter().filter_map(|field| Some((&field.path, field.owner(managers)?)));
    let owned: Vec<_> = owned.map(|(path, manager)| format!("{path} was set by {manager}")).collect();
    if owned.is_empty() {
        return Ok(());
    }
    Err(ExitStatus::Refused.error(format!(
        "{}. Nothing was changed. Change the field with that tool. --force-conflicts takes it over",
        owned.join("; ")
    )))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn managers(name: &str) -> Vec<ManagedFieldsEntry> {
        let fields = json!({"f:spec": {"f:topology": {
            "f:nodePools": {"k:{\"name\":\"workers\"}": {"f:replicas": {}}},
        }}});
        serde_json::from_value(json!([{"manager": name, "operation": "Apply", "fieldsV1": fields}])).unwrap()
    }

    #[test]
    fn a_field_of_another_tool_is_refused() {
        let replicas = |pool: &str| Field::of_pool(pool, &["f:replicas"], "replicas");
        let check = |field: Field, manager: &str| check(&[field], Some(&managers(manager)));
        for person in ["kubectl", "kubectl-client-side-apply", "kubectl-edit", "layercake", "layercake-scale"]
        {
            assert!(check(replicas("workers"), person).is_ok(), "{person}");
        }
        assert!(check(replicas("others"), "kustomize-controller").is_ok());
        let control_plane = Field::of_topology(&["f:controlPlane", "f:replicas"], "controlPlane.replicas");
        assert!(check(control_plane, "kustomize-controller").is_ok());
        let error = check(replicas("workers"), "kustomize-controller").unwrap_err().to_string();
        assert!(
            error.starts_with("spec.topology.nodePools[workers].replicas was set by kustomize-controller. "),
            "{error}"
        );
    }
}
