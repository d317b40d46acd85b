//! Sets an appliance's OVF properties to the user's values.

use bounds::printable;
use vsphere::{OVF_TRANSPORT_GUEST_INFO, VAppChange, VAppProperty};

use super::customization::UNATTEND;
use super::data::{Bootstrap, VApp};
use super::property_type::unmet_type;
use super::user_data::{Composed, Transport, UserData, invalid};
use super::values::Renderer;

/// The maximum number of keys in a message.
const NAMED: usize = 10;
/// The maximum number of characters of a key in a message.
const KEY: usize = 100;

/// Sets each property that the user gives. Keys that the image doesn't have or that users may not set are rejected, because
/// the guest would start without the value.
pub(super) fn changed(renderer: &Renderer<'_>) -> Composed<Bootstrap> {
    let input = renderer.input;
    check_keys(renderer.data, input.properties)?;
    let mut properties = Vec::new();
    for property in input.properties.iter().filter(|property| property.user_configurable) {
        let Some(text) = renderer.data.text(&property.id, renderer.budget)? else { continue };
        let value = renderer.render(&property.id, &text)?;
        if let Some(what) = unmet_type(property.kind.as_deref().unwrap_or_default(), &value) {
            return Err(renderer.data.wrong(&property.id, &format!("{what}. Correct it")).into());
        }
        if property.value.as_deref() != Some(&value) {
            properties.push(VAppProperty { value: Some(value), ..property.clone() });
        }
    }
    if input.properties.is_empty() {
        return Ok(Bootstrap::default());
    }
    let transports = vec![OVF_TRANSPORT_GUEST_INFO.to_owned()];
    let v_app = VApp::Changed(VAppChange { properties, transports });
    Ok(Bootstrap { v_app, ..Bootstrap::default() })
}

/// Rejects keys that aren't OVF properties of the image, or that users may not set. The key of Sysprep's answer file is exempt.
fn check_keys(data: &UserData, properties: &[VAppProperty]) -> Composed<()> {
    let has_answers = data.transport == Transport::Sysprep;
    if has_answers && !data.data.contains_key(UNATTEND) {
        // The missing answer file is reported instead.
        return Ok(());
    }
    let is_other = |key: &str| has_answers && key == UNATTEND;
    let given: Vec<_> = data.data.keys().map(String::as_str).filter(|key| !is_other(key)).collect();
    let find = |key: &str| properties.iter().find(|property| property.id == key);
    let unknown: Vec<_> = given.iter().filter(|key| find(key).is_none()).copied().collect();
    let fixed = |key: &&&str| find(key).is_some_and(|property| !property.user_configurable);
    let fixed: Vec<_> = given.iter().filter(fixed).copied().collect();
    if !unknown.is_empty() {
        let known = properties.iter().filter(|property| property.user_configurable);
        let known = format_keys(&known.map(|property| property.id.as_str()).collect::<Vec<_>>());
        let known = if known.is_empty() { "no property that can be set".to_owned() } else { known };
        let what = format!("the image has no OVF property {}. It has {known}", format_keys(&unknown));
        return Err(invalid(format!("{}: {what}. Correct the key, or remove it", data.source)).into());
    }
    if !fixed.is_empty() {
        let what = format!("the image does not allow to set its OVF property {}", format_keys(&fixed));
        return Err(invalid(format!("{}: {what}. Remove the key", data.source)).into());
    }
    Ok(())
}

fn format_keys(keys: &[&str]) -> String {
    let mut shown: Vec<_> = keys.iter().take(NAMED).map(|key| printable(key, KEY)).collect();
    if keys.len() > NAMED {
        shown.push(format!("{} more", keys.len() - NAMED));
    }
    shown.join(", ")
}
