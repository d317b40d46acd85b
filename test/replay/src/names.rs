//! Collects the names in responses: types of data objects and faults, and property paths.

use std::collections::BTreeSet;

use vsphere::untrusted::Decoded;
use vsphere::{Object, Value};

/// The type and property names in responses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// Types of data objects and faults, such as `VirtualDisk`.
    pub types: BTreeSet<String>,
    /// Property paths, prefixed with the object type, such as `VirtualMachine.config.uuid`.
    pub properties: BTreeSet<String>,
}

impl Names {
    /// Adds the names in a response.
    pub fn add(&mut self, decoded: &Decoded) {
        match decoded {
            Decoded::Answer(value) => self.add_value(value),
            Decoded::Fault(fault) => {
                self.types.insert(fault.type_name.clone());
                self.add_value(&fault.detail);
            }
            Decoded::Versions(_) | Decoded::Json(_) | Decoded::Unreadable(_) => {}
        }
    }

    fn add_value(&mut self, value: &Value) {
        match value {
            Value::List(items) => items.iter().for_each(|item| self.add_value(item)),
            Value::Object(object) => self.add_object(object),
            Value::Any(_, inner) => self.add_value(inner),
            _ => {}
        }
    }

    fn add_object(&mut self, object: &Object) {
        if !object.type_name().is_empty() {
            self.types.insert(object.type_name().to_owned());
        }
        if let Some(of) = object.get("obj").as_moref() {
            let sets = object.get("propSet").items().iter().chain(object.get("changeSet").items());
            for name in sets.filter_map(|property| property.get("name").as_str()) {
                self.properties.insert(format!("{}.{}", of.kind(), without_keys(name)));
            }
        }
        object.fields().for_each(|(_, value)| self.add_value(value));
    }
}

/// Removes the keys from a property path: `a["b"].c` becomes `a[].c`.
fn without_keys(path: &str) -> String {
    let mut out = String::new();
    let mut inside = false;
    for letter in path.chars() {
        match letter {
            '[' => inside = true,
            ']' => {
                inside = false;
                out.push('[');
            }
            _ if inside => continue,
            _ => {}
        }
        if !inside || letter == ']' {
            out.push(letter);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use vsphere::MoRef;

    use super::*;

    #[test]
    fn types_and_properties_are_found_at_any_depth() {
        let content = Object::new("ObjectContent").with("obj", MoRef::vm("vm-1")).with(
            "propSet",
            vec![
                Object::new("")
                    .with("name", "config.hardware.device")
                    .with("val", vec![Object::new("VirtualDisk")]),
                Object::new("").with("name", "config.extraConfig[\"a.b\"].value").with("val", "x"),
            ],
        );
        let mut names = Names::default();
        names.add(&Decoded::Answer(Object::new("R").with("objects", vec![content]).into()));
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        assert_eq!(names.types, set(&["R", "ObjectContent", "VirtualDisk"]));
        assert_eq!(
            names.properties,
            set(&["VirtualMachine.config.hardware.device", "VirtualMachine.config.extraConfig[].value"])
        );
    }
}
