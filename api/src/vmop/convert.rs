//! VirtualMachine from one of its versions to the other, with nothing lost.
//!
//! v1alpha1 is stored. v1alpha2 is for the programs of guests that speak no older one: they read, and they add and remove
//! claims. What v1alpha2 cannot show of a spec travels in an annotation, from which it is put together again.
//!
//! The API server also converts partial objects, for the fields that each manager owns ([`crate::partial`]), so that a
//! missing annotation or field is no error here. Admission refuses what v1alpha2 may not change: it compares the result
//! with the stored object.

mod error;
mod restore;
mod spec;
mod status;
#[cfg(test)]
mod tests;

use serde_json::{Value, json};

pub use self::error::ConvertError;
use self::error::{read, write};
use super::{GROUP, VERSION, VirtualMachineSpec, VirtualMachineStatus, v1alpha2};
use crate::names::annotation::VM_CONVERSION_DATA;
use crate::partial::{ensure_metadata, take_member};

/// The same VirtualMachine in another version, given as `vmoperator.vmware.com/v1alpha2` or the like. Metadata is kept as it
/// is, but for one annotation. Any part of the object may be missing or null.
pub fn convert(object: &Value, desired_api_version: &str) -> Result<Value, ConvertError> {
    let text = |key: &str| object[key].as_str().unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let not_converted = |api_version: &str| ConvertError::NotConverted {
        kind: kind.to_owned(),
        api_version: api_version.to_owned(),
    };
    if kind != "VirtualMachine" {
        return Err(not_converted(api_version));
    }
    let mut converted = object.clone();
    ensure_metadata(&mut converted);
    match (version(api_version), version(desired_api_version)) {
        (Some(from), Some(to)) if from == to => {}
        (Some(VERSION), Some(_)) => show(&mut converted)?,
        (Some(_), Some(_)) => restore(&mut converted)?,
        (None, _) => return Err(not_converted(api_version)),
        (_, None) => return Err(not_converted(desired_api_version)),
    }
    converted["apiVersion"] = desired_api_version.into();
    Ok(converted)
}

fn version(api_version: &str) -> Option<&'static str> {
    match api_version.split_once('/') {
        Some((GROUP, VERSION)) => Some(VERSION),
        Some((GROUP, "v1alpha2")) => Some("v1alpha2"),
        _ => None,
    }
}

/// From v1alpha1 to v1alpha2.
fn show(object: &mut Value) -> Result<(), ConvertError> {
    if let Some(stored) = take_member(object, "spec") {
        let spec: VirtualMachineSpec = read("spec", &stored)?;
        let mut shown = write(&spec::show(&spec))?;
        spec::remove_defaults(&stored, &mut shown);
        object["spec"] = shown;
        put_annotation(object, &stored);
    }
    if let Some(stored) = take_member(object, "status") {
        let status: VirtualMachineStatus = read("status", &stored)?;
        object["status"] = write(&status::show(status))?;
    }
    Ok(())
}

/// From v1alpha2 to v1alpha1.
fn restore(object: &mut Value) -> Result<(), ConvertError> {
    let kept = take_annotation(object).and_then(|text| serde_json::from_str::<Value>(&text).ok());
    if let Some(value) = take_member(object, "spec") {
        let sent: v1alpha2::VirtualMachineSpec = read("spec", &value)?;
        // An annotation that cannot be read was not written here.
        let before = kept.and_then(|kept| Some((read::<VirtualMachineSpec>("spec", &kept).ok()?, kept)));
        let (before, kept) = before.unwrap_or_else(|| (VirtualMachineSpec::default(), json!({})));
        object["spec"] = if spec::show(&before) == sent {
            kept
        } else {
            let mut changed = restore::restore(kept, &before, &sent)?;
            spec::remove_defaults(&value, &mut changed);
            changed
        };
    }
    if let Some(sent) = take_member(object, "status") {
        let status: v1alpha2::VirtualMachineStatus = read("status", &sent)?;
        object["status"] = write(&status::restore(status))?;
    }
    Ok(())
}

fn take_annotation(object: &mut Value) -> Option<String> {
    let annotations = object.get_mut("metadata")?.get_mut("annotations")?.as_object_mut()?;
    let kept = annotations.remove(VM_CONVERSION_DATA)?;
    if annotations.is_empty() {
        object.get_mut("metadata")?.as_object_mut()?.remove("annotations");
    }
    Some(kept.as_str()?.to_owned())
}

fn put_annotation(object: &mut Value, spec: &Value) {
    let annotations = &mut object["metadata"]["annotations"];
    if !annotations.is_object() {
        *annotations = json!({});
    }
    annotations[VM_CONVERSION_DATA] = spec.to_string().into();
}
