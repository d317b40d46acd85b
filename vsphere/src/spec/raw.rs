//! VM settings from a VirtualMachineClass: raw VI/JSON, which the client's own settings override.

use super::order::{CONFIG_SPEC, TYPES};
use crate::{MoRef, Object, Value};

/// Settings that belong to a single VM and are ignored in a class.
const OF_ONE: &[&str] =
    &["changeVersion", "name", "createDate", "uuid", "instanceUuid", "files", "vmProfile"];
const SPEC: &str = "VirtualMachineConfigSpec";

/// VM settings that were read from VI/JSON, with their fields in WSDL order.
#[derive(Clone, Debug, PartialEq)]
pub struct BaseConfig(Object);

impl BaseConfig {
    /// Reads a JSON `VirtualMachineConfigSpec`. Settings that belong to a single VM are ignored.
    ///
    /// The error is a message that names the unsupported member or value.
    pub fn read(json: &serde_json::Value) -> Result<Self, String> {
        let fields = json.as_object().ok_or("it is not an object")?;
        if let Some(name) = fields.get("_typeName").filter(|name| *name != SPEC) {
            return Err(format!("_typeName is {name}, not {SPEC}"));
        }
        for name in fields.keys().filter(|name| *name != "_typeName") {
            if !CONFIG_SPEC.contains(&name.as_str()) {
                return Err(format!("{SPEC} has no {name}"));
            }
        }
        let mut object = Object::new(SPEC);
        for name in CONFIG_SPEC.iter().filter(|name| !OF_ONE.contains(name)) {
            if let Some(value) = fields.get(*name).filter(|value| !value.is_null()) {
                object.push(*name, read(name, value)?);
            }
        }
        Ok(Self(object))
    }

    /// Returns a config without any settings.
    pub fn empty() -> Self {
        Self(Object::new(SPEC))
    }

    /// Adds a passthrough device and reserves all memory, because passthrough devices require it.
    #[must_use]
    pub fn with_passthrough(self, device: Object) -> Self {
        let add = Object::new("VirtualDeviceConfigSpec").with("operation", "add").with("device", device);
        let more =
            Object::new(SPEC).with("deviceChange", vec![add]).with("memoryReservationLockedToMax", true);
        Self(merge_specs(&more, &self.0))
    }

    /// Adds ExtraConfig options, as keys and values. Existing values take precedence.
    #[must_use]
    pub fn with_default_options(self, options: &[(&str, &str)]) -> Self {
        let options: Vec<_> = options
            .iter()
            .map(|(key, value)| {
                Object::new("OptionValue").with("key", *key).with("value", Value::any_string(*value))
            })
            .collect();
        Self(merge_specs(&self.0, &Object::new(SPEC).with("extraConfig", options)))
    }

    /// Returns true if the config sets the cores per socket.
    pub fn has_cores_per_socket(&self) -> bool {
        !self.0.get("numCoresPerSocket").is_null()
    }

    /// Returns true if the config contains a PCI passthrough device.
    pub fn has_passthrough(&self) -> bool {
        let devices = self.0.get("deviceChange").items().iter().map(|change| change.get("device"));
        devices.map(Value::type_name).any(|name| name == "VirtualPCIPassthrough")
    }

    /// Returns the settings for a VM that already has its devices, without `deviceChange`. Returns `None` if none
    /// remain.
    pub fn without_devices(&self) -> Option<Self> {
        let mut settings = Object::new(SPEC);
        for name in CONFIG_SPEC.iter().filter(|name| **name != "deviceChange") {
            let value = self.0.get(name);
            if !value.is_null() {
                settings.push(*name, value.clone());
            }
        }
        (settings.fields().count() > 0).then_some(Self(settings))
    }

    /// Merges `own` with these settings, and returns the result. Fields in `own` take precedence.
    pub(super) fn below(&self, own: &Object) -> Object {
        merge_specs(own, &self.0)
    }
}

/// Merges two specs in WSDL order. Fields in `own` take precedence, except that device changes are concatenated, and
/// ExtraConfig and allocations are merged entry by entry.
fn merge_specs(own: &Object, base: &Object) -> Object {
    let mut whole = Object::new(SPEC);
    for name in CONFIG_SPEC {
        let (ours, theirs) = (own.get(name), base.get(name));
        let value = match (*name, ours.is_null(), theirs.is_null()) {
            (_, true, true) => continue,
            (_, true, false) => theirs.clone(),
            (_, false, true) => ours.clone(),
            ("deviceChange", ..) => {
                theirs.items().iter().chain(ours.items()).cloned().collect::<Vec<_>>().into()
            }
            ("extraConfig", ..) => merge_options(ours, theirs),
            ("cpuAllocation" | "memoryAllocation", ..) => merge_allocation(ours, theirs),
            _ => ours.clone(),
        };
        whole.push(*name, value);
    }
    whole
}

fn merge_options(ours: &Value, theirs: &Value) -> Value {
    let key = |option: &Value| option.get("key").as_str().unwrap_or_default().to_owned();
    let taken: Vec<String> = ours.items().iter().map(key).collect();
    let free = theirs.items().iter().filter(|option| !taken.contains(&key(option)));
    free.chain(ours.items()).cloned().collect::<Vec<_>>().into()
}

fn merge_allocation(ours: &Value, theirs: &Value) -> Value {
    const ALLOCATION: &str = "ResourceAllocationInfo";
    let mut whole = Object::new(ALLOCATION);
    for name in order(ALLOCATION).unwrap_or_default() {
        let value = if ours.get(name).is_null() { theirs.get(name) } else { ours.get(name) };
        if !value.is_null() {
            whole.push(*name, value.clone());
        }
    }
    whole.into()
}

fn order(type_name: &str) -> Option<&'static [&'static str]> {
    TYPES.iter().find(|(name, _)| *name == type_name).map(|(_, fields)| *fields)
}

fn read(path: &str, json: &serde_json::Value) -> Result<Value, String> {
    Ok(match json {
        serde_json::Value::Null => Value::Null,
        serde_json::Value::Bool(truth) => Value::Bool(*truth),
        serde_json::Value::Number(number) => number
            .as_i64()
            .map(Value::Int)
            .or_else(|| number.as_f64().map(Value::Float))
            .ok_or_else(|| format!("{path}: {number} is too large"))?,
        serde_json::Value::String(text) => Value::Str(text.clone()),
        serde_json::Value::Array(items) => {
            Value::List(items.iter().map(|item| read(path, item)).collect::<Result<_, _>>()?)
        }
        serde_json::Value::Object(fields) => object(path, fields)?,
    })
}

fn object(path: &str, fields: &serde_json::Map<String, serde_json::Value>) -> Result<Value, String> {
    let name = fields.get("_typeName").and_then(serde_json::Value::as_str);
    let name = name.ok_or_else(|| format!("{path}: _typeName is missing"))?;
    if let Some(boxed) = fields.get("_value") {
        let primitive = PRIMITIVES.iter().find(|known| **known == name);
        let primitive = primitive.ok_or_else(|| format!("{path}: a {name} can't be set"))?;
        return Ok(Value::Any(primitive, Box::new(read(path, boxed)?)));
    }
    if name == "ManagedObjectReference" {
        let text = |key: &str| fields.get(key).and_then(serde_json::Value::as_str).unwrap_or_default();
        return Ok(Value::Ref(MoRef::new(text("type"), text("value"))));
    }
    let order = order(name).ok_or_else(|| format!("{path}: the type {name} is not supported"))?;
    if let Some(odd) = fields.keys().find(|key| *key != "_typeName" && !order.contains(&key.as_str())) {
        return Err(format!("{path}: {name} has no {odd}"));
    }
    let mut object = Object::new(name.to_owned());
    for field in order {
        if let Some(value) = fields.get(*field).filter(|value| !value.is_null()) {
            object.push(*field, read(&format!("{path}.{field}"), value)?);
        }
    }
    Ok(object.into())
}

const PRIMITIVES: &[&str] = &["string", "boolean", "byte", "short", "int", "long", "float", "double"];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{Allocation, ConfigSpec};

    fn config() -> serde_json::Value {
        json!({
            "_typeName": SPEC,
            "name": "never",
            "numCPUs": 64,
            "memoryAllocation": { "_typeName": "ResourceAllocationInfo", "limit": 1,
                "shares": { "level": "high", "shares": 0, "_typeName": "SharesInfo" } },
            "extraConfig": [
                { "value": { "_value": "1", "_typeName": "string" }, "key": "a", "_typeName": "OptionValue" },
                { "_typeName": "OptionValue", "key": "b", "value": { "_typeName": "string", "_value": "2" } },
            ],
            "deviceChange": [{
                "_typeName": "VirtualDeviceConfigSpec", "operation": "add",
                "device": { "_typeName": "VirtualTPM", "key": -50 },
            }],
            "numCoresPerSocket": 2,
        })
    }

    #[test]
    fn a_class_lies_below_what_is_ours_in_the_order_of_the_wsdl() {
        let spec = ConfigSpec {
            base: Some(
                BaseConfig::read(&config())
                    .unwrap()
                    .with_passthrough(Object::new("VirtualPCIPassthrough").with("key", -60)),
            ),
            num_cpus: Some(2),
            memory_allocation: Some(Allocation { reservation: Some(0), limit: Some(-1), expandable: None }),
            extra_config: vec![("a".into(), "ours".into())].into(),
            ..ConfigSpec::default()
        };
        insta::assert_debug_snapshot!(Value::from(spec));
    }

    #[test]
    fn what_can_not_be_used_is_named() {
        for (given, expected) in [
            (json!([]), "it is not an object"),
            (json!({ "numCpus": 2 }), "VirtualMachineConfigSpec has no numCpus"),
            (json!({ "_typeName": "X" }), "_typeName is \"X\", not VirtualMachineConfigSpec"),
            (json!({ "flags": {} }), "flags: _typeName is missing"),
            (
                json!({ "ftInfo": { "_typeName": "FaultToleranceConfigInfo" } }),
                "ftInfo: the type FaultToleranceConfigInfo is not supported",
            ),
            (
                json!({ "flags": { "_typeName": "VirtualMachineFlagInfo", "x": 1 } }),
                "flags: VirtualMachineFlagInfo has no x",
            ),
        ] {
            assert_eq!(BaseConfig::read(&given).unwrap_err(), expected);
        }
    }
}
