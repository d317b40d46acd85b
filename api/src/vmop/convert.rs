//! Lossless conversion of VirtualMachines between v1alpha1 and v1alpha2.
//!
//! v1alpha1 is the stored version. v1alpha2 is for programs in workload clusters that don't support v1alpha1: they read
//! VMs, and add and remove claims. An annotation contains the parts of the spec that v1alpha2 can't represent.
//!
//! The API server also converts partial objects, which contain only the fields that one manager owns ([`crate::partial`]).
//! Therefore a missing annotation or field isn't an error here. Admission rejects changes that v1alpha2 doesn't allow, because it
//! compares the result with the stored object.

mod error;
mod restore;
mod spec;
mod status;
#[cfg(test)]
mod tests;

use serde_json::{Value, json};

pub use self::error::ConvertError;
use super::{GROUP, VERSION, VirtualMachineSpec, VirtualMachineStatus, v1alpha2};
use crate::conversion::{put_kept, read, take_kept, write};
use crate::names::annotation::VM_CONVERSION_DATA;
use crate::partial::{ensure_metadata, take_member};

/// Converts a VirtualMachine to another API version, such as `vmoperator.vmware.com/v1alpha2`. Only one annotation in
/// the metadata changes. Any part of the object may be missing or null.
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

/// Converts from v1alpha1 to v1alpha2.
fn show(object: &mut Value) -> Result<(), ConvertError> {
    if let Some(stored) = take_member(object, "spec") {
        let spec: VirtualMachineSpec = read("spec", &stored)?;
        let mut shown = write(&spec::show(&spec))?;
        spec::remove_defaults(&stored, &mut shown);
        object["spec"] = shown;
        put_kept(object, VM_CONVERSION_DATA, &stored);
    }
    if let Some(stored) = take_member(object, "status") {
        let status: VirtualMachineStatus = read("status", &stored)?;
        object["status"] = write(&status::show(status))?;
    }
    Ok(())
}

/// Converts from v1alpha2 to v1alpha1.
fn restore(object: &mut Value) -> Result<(), ConvertError> {
    let kept: Option<Value> = take_kept(object, VM_CONVERSION_DATA);
    if let Some(value) = take_member(object, "spec") {
        let sent: v1alpha2::VirtualMachineSpec = read("spec", &value)?;
        // Ignore an annotation that can't be parsed: this conversion didn't write it.
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
