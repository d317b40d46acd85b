//! The OVF properties of an appliance, set to what the user gave.

use api::vmop::VirtualMachine;
use vsphere::{OVF_TRANSPORT_GUEST_INFO, VAppConfigSpec, VAppProperty};

use crate::unmet::Need;
use crate::virtualmachine::bootstrap::user_data::Told;
use crate::virtualmachine::bootstrap::values::rendered;
use crate::virtualmachine::bootstrap::{Bootstrap, Surroundings, VApp};

/// Every property that exists, may be set and is given gets its value; other keys mean nothing here.
pub(super) fn changed(vm: &VirtualMachine, told: &Told, around: &Surroundings<'_>) -> Need<Bootstrap> {
    let mut properties = Vec::new();
    for property in around.properties.iter().filter(|property| property.user_configurable) {
        let Some(text) = told.text(&property.id)? else { continue };
        let value = rendered(vm, told, around, &property.id, &text)?;
        if property.value.as_deref() != Some(&value) {
            properties.push(VAppProperty { value: Some(value), ..property.clone() });
        }
    }
    if around.properties.is_empty() {
        return Ok(Bootstrap::default());
    }
    let transports = vec![OVF_TRANSPORT_GUEST_INFO.to_owned()];
    let v_app = VApp::Changed(VAppConfigSpec { properties, transports });
    Ok(Bootstrap { v_app, ..Bootstrap::default() })
}
