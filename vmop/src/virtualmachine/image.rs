//! The image of a machine.

use api::conditions::Condition;
use api::conditions::vmop as reason;
use api::vmop::{VirtualMachine, VirtualMachineImage};

use crate::unmet::Need;
use crate::unmet::Unmet;

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
    if let Some(bad) = conditions.iter().find(|condition| keeps_from_use(condition)) {
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

/// Whether no machine can be made of an image that says this. What its guest is good for is the user's to know.
fn keeps_from_use(condition: &Condition) -> bool {
    let grave = [
        reason::VIRTUAL_MACHINE_IMAGE_PROVIDER_SECURITY_COMPLIANCE,
        reason::VIRTUAL_MACHINE_IMAGE_PROVIDER_READY,
        reason::VIRTUAL_MACHINE_IMAGE_SYNCED,
    ];
    condition.status == api::conditions::FALSE && grave.contains(&condition.type_.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_used_unless_its_library_or_its_content_is_wrong() {
        let vm = crate::testing::fixtures::virtual_machine();
        let mut there = VirtualMachineImage::default();
        there.metadata.name = Some("photon".into());
        let mut judged = |type_: &str, version: Option<&str>| {
            let status = there.status.get_or_insert_default();
            status.conditions = vec![Condition::is_false(type_, api::conditions::ERROR, "Why", "it is so")];
            status.content_version = version.map(str::to_owned);
            image(&vm, Some(&there), None).map(drop).map_err(|unmet| (unmet.reason, unmet.underway))
        };
        let not_ready = |underway| Err((reason::VIRTUAL_MACHINE_IMAGE_NOT_READY, underway));
        assert_eq!(judged(reason::VIRTUAL_MACHINE_IMAGE_SYNCED, Some("1")), not_ready(false));
        assert_eq!(judged(reason::VIRTUAL_MACHINE_IMAGE_PROVIDER_READY, Some("1")), not_ready(false));
        let compliant = reason::VIRTUAL_MACHINE_IMAGE_PROVIDER_SECURITY_COMPLIANCE;
        assert_eq!(judged(compliant, Some("1")), not_ready(false));
        assert_eq!(judged(reason::VIRTUAL_MACHINE_IMAGE_V1ALPHA1_COMPATIBLE, Some("1")), Ok(()));
        assert_eq!(judged(reason::VIRTUAL_MACHINE_IMAGE_OS_TYPE_SUPPORTED, Some("1")), Ok(()));
        assert_eq!(judged(reason::VIRTUAL_MACHINE_IMAGE_OS_TYPE_SUPPORTED, None), not_ready(true));
        let missing = image(&vm, None, Some("content library lib-1 is gone")).unwrap_err();
        assert_eq!(missing.reason, reason::VIRTUAL_MACHINE_IMAGE_NOT_FOUND);
        assert!(missing.message.contains("(content library lib-1 is gone)"), "{}", missing.message);
    }
}
