//! The OVF properties of an appliance, set to what the user gave.

use vsphere::{OVF_TRANSPORT_GUEST_INFO, VAppConfigSpec, VAppProperty};

use super::data::{Bootstrap, VApp};
use super::user_data::Composed;
use super::values::Renderer;

/// Every property that exists, may be set and is given gets its value; other keys mean nothing here.
pub(super) fn changed(renderer: &Renderer<'_>) -> Composed<Bootstrap> {
    let input = renderer.input;
    let mut properties = Vec::new();
    for property in input.properties.iter().filter(|property| property.user_configurable) {
        let Some(text) = renderer.data.text(&property.id, renderer.budget)? else { continue };
        let value = renderer.render(&property.id, &text)?;
        if property.value.as_deref() != Some(&value) {
            properties.push(VAppProperty { value: Some(value), ..property.clone() });
        }
    }
    if input.properties.is_empty() {
        return Ok(Bootstrap::default());
    }
    let transports = vec![OVF_TRANSPORT_GUEST_INFO.to_owned()];
    let v_app = VApp::Changed(VAppConfigSpec { properties, transports });
    Ok(Bootstrap { v_app, ..Bootstrap::default() })
}
