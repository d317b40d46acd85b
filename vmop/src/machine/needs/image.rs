//! The image of a machine.

use api::conditions::vmop as reason;
use api::vmop::{VirtualMachine, VirtualMachineImage};

use super::{Need, Unmet};

/// The image exists and can be used; `library` says what is wrong with the library, if something is.
pub fn image<'a>(
    vm: &VirtualMachine,
    image: Option<&'a VirtualMachineImage>,
    library: Option<&str>,
) -> Need<&'a VirtualMachineImage> {
    let name = &vm.spec.image_name;
    let Some(image) = image else {
        let why = library.map_or_else(String::new, |library| format!(" ({library})"));
        let message = format!(
            "VirtualMachineImage {name} does not exist{why}. Add the image to the content library, or name another image"
        );
        return Err(Unmet::wrong(reason::VIRTUAL_MACHINE_IMAGE_NOT_FOUND, message));
    };
    let conditions = image.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    if let Some(bad) = conditions.iter().find(|condition| condition.status == api::conditions::FALSE) {
        let why = bad.message.as_deref().or(bad.reason.as_deref()).unwrap_or("it is not ready");
        let message = format!("VirtualMachineImage {name} can't be used: {why}");
        return Err(Unmet::wrong(reason::VIRTUAL_MACHINE_IMAGE_NOT_READY, message));
    }
    if image.status.as_ref().is_none_or(|status| status.content_version.is_none()) {
        let message = format!("VirtualMachineImage {name} is being read from its library");
        return Err(Unmet::underway(reason::VIRTUAL_MACHINE_IMAGE_NOT_READY, message));
    }
    Ok(image)
}
