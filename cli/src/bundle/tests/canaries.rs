//! Generates objects with a canary in every schema field.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use serde_json::{Map, Value, json};

/// Canaries by path, in the path format of [`super::super::select::LeftOut`].
#[derive(Default)]
pub struct Canaries {
    pub planted: Vec<(String, String)>,
}

impl Canaries {
    /// Returns an object that sets every field in the schema.
    pub fn object(&mut self, schema: &JSONSchemaProps) -> Value {
        let mut object = self.value(schema, "");
        object["metadata"] = self.metadata();
        object["apiVersion"] = json!("v1");
        object["kind"] = json!("Kind");
        object
    }

    fn metadata(&mut self) -> Value {
        let mut text = |path: &str| json!(self.plant(path));
        json!({
            "name": "the-name", "namespace": "the-namespace",
            "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": text("last-applied"),
                "run.tanzu.vmware.com/conversion-data": text("conversion-data"),
                "anybody.test/key": text("annotation"),
            },
            "labels": {"anybody.test/key": text("label")},
            "managedFields": [{"manager": text("manager"), "fieldsV1": {"f:data": {"f:x": text("managed-field")}}}],
            "selfLink": text("self-link"),
        })
    }

    /// Returns a unique string, and records it for this path.
    pub fn plant(&mut self, path: &str) -> String {
        let canary = format!("canary{:04}x", self.planted.len());
        self.planted.push((path.to_owned(), canary.clone()));
        canary
    }

    fn value(&mut self, schema: &JSONSchemaProps, path: &str) -> Value {
        if let Some(properties) = &schema.properties {
            let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
            let fields =
                properties.iter().filter(|(name, _)| !path.is_empty() || name.as_str() != "metadata");
            return fields.map(|(name, schema)| (name.clone(), self.value(schema, &below(name)))).collect();
        }
        if let Some(JSONSchemaPropsOrArray::Schema(items)) = &schema.items {
            return json!([self.value(items, &format!("{path}[]"))]);
        }
        if let Some(JSONSchemaPropsOrBool::Schema(values)) = &schema.additional_properties {
            let path = format!("{path}.*");
            return Value::Object(Map::from_iter([(self.plant(&path), self.value(values, &path))]));
        }
        match schema.type_.as_deref() {
            Some("object") | None if schema.x_kubernetes_int_or_string != Some(true) => {
                let path = format!("{path}.*");
                Value::Object(Map::from_iter([(self.plant(&path), json!({"deep": self.plant(&path)}))]))
            }
            // Numeric canaries have ten digits.
            Some("integer" | "number") => {
                let number = 7_000_000_000_u64 + self.planted.len() as u64;
                self.planted.push((path.to_owned(), number.to_string()));
                json!(number)
            }
            Some("boolean") => json!(true),
            _ => json!(self.plant(path)),
        }
    }
}
