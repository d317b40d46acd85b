//! Finds a VM's image and the golden template from which the VM is cloned.

use std::sync::Arc;

use api::conditions::Condition;
use api::conditions::vmop as reason;
use api::vmop::{VirtualMachine, VirtualMachineImage};
use kube::ResourceExt;
use vsphere::MoRef;

use super::storage::class::Storage;
use crate::caches::Caches;
use crate::image::libraries::{self, LibraryAccess};
use crate::templates::{GoldenTemplate, TemplateCache, TemplateKey, TemplateState};
use crate::unmet::{Need, Unmet};
use crate::vcenter::{LibraryProblem, Placement, VCenter};

/// The facts about the template for a VM to be created.
#[derive(Debug)]
pub struct TemplateFacts {
    /// The template to clone.
    pub template: Need<Arc<GoldenTemplate>>,
    /// The template to request, if its key is known.
    pub request: Option<TemplateKey>,
    /// True if the VirtualMachineImage doesn't exist.
    pub image_missing: bool,
}

/// Finds the template for a VM to be created in `home`.
pub fn find_template(
    vm: &VirtualMachine,
    home: &Placement,
    storage: Option<&Storage>,
    vcenter: &VCenter,
    caches: &Caches,
    templates: &TemplateCache,
) -> TemplateFacts {
    let image = caches.images.get(None, &vm.spec.image_name);
    let wrong = || describe_library_problems(vm, vcenter, caches);
    let key = check_image(vm, image.as_deref(), wrong).and_then(|image| {
        check_access(vm, image, vcenter, caches)?;
        template_key(image, home, storage, vcenter)
    });
    let template =
        key.as_ref().map_err(Unmet::clone).and_then(|key| resolve_template(key, templates.get(vcenter, key)));
    TemplateFacts { template, request: key.ok(), image_missing: image.is_none() }
}

/// Returns the key of the template that is deployed from the image.
fn template_key(
    image: &VirtualMachineImage,
    home: &Placement,
    storage: Option<&Storage>,
    vcenter: &VCenter,
) -> Need<TemplateKey> {
    let content = image.status.as_ref().and_then(|status| status.content_version.clone()).unwrap_or_default();
    let settings = &vcenter.settings;
    let placement = Placement {
        folder: settings.folder.as_deref().map_or_else(|| home.folder.clone(), MoRef::folder),
        pool: settings.resource_pool.as_deref().map_or_else(|| home.pool.clone(), MoRef::pool),
    };
    let (name, item) = (image.name_any(), image.spec.image_id.clone());
    let Some(storage) = storage else {
        // The template needs the VM's datastore, which isn't known yet.
        let message = format!("The datastore of VirtualMachineImage {name} is not known yet");
        return Err(Unmet::underway(reason::VIRTUAL_MACHINE_IMAGE_NOT_READY, message));
    };
    // Disks are encrypted when they are copied, so one unencrypted template serves all encryption policies.
    let policy = storage.policy.as_ref().filter(|policy| !policy.encrypts).map(|policy| policy.id.clone());
    let datastore = storage.datastore.clone();
    Ok(TemplateKey { image: name, item, content, placement, datastore, policy })
}

/// Returns the template, or the unmet need if it isn't ready.
fn resolve_template(key: &TemplateKey, state: TemplateState) -> Need<Arc<GoldenTemplate>> {
    let name = &key.image;
    match state {
        TemplateState::Ready(template) => Ok(template),
        TemplateState::Failed(problem) => Err(Unmet::wrong(
            reason::VIRTUAL_MACHINE_IMAGE_NOT_READY,
            format!("VirtualMachineImage {name} can't be deployed as a template: {problem}"),
        )),
        TemplateState::Deploying => Err(Unmet::underway(
            reason::VIRTUAL_MACHINE_IMAGE_NOT_READY,
            format!("VirtualMachineImage {name} is being deployed as a template"),
        )),
    }
}

/// Checks that the namespace may use the image.
fn check_access(
    vm: &VirtualMachine,
    image: &VirtualMachineImage,
    vcenter: &VCenter,
    caches: &Caches,
) -> Need<()> {
    let namespace = vm.namespace().unwrap_or_default();
    let named = &image.spec.provider_ref.name;
    let provider = caches.providers.cache().get(None, named);
    let mut sources: Vec<_> =
        caches.sources_by_provider.refs(named).into_iter().map(|source| source.name).collect();
    sources.sort_unstable();
    let bound = sources.iter().any(|source| caches.namespaces_bound_to(source).contains(&namespace));
    let chain = LibraryAccess { provider: provider.as_deref(), sources: &sources, bound };
    libraries::check_access(&namespace, image, vcenter.settings.library.as_deref(), &chain)
}

/// Returns a message with the problems of the libraries that the VM's namespace can use, and of the library item for its image.
/// Returns `None` if there aren't any.
fn describe_library_problems(vm: &VirtualMachine, vcenter: &VCenter, caches: &Caches) -> Option<String> {
    let namespace = vm.namespace().unwrap_or_default();
    let is_bound = |source: &str| caches.namespaces_bound_to(source).contains(&namespace);
    let may_use = |library: &str| {
        vcenter.settings.library.as_deref() == Some(library)
            || caches.providers.cache().all().iter().any(|provider| {
                libraries::library_of(provider) == library
                    && caches
                        .sources_by_provider
                        .refs(&provider.name_any())
                        .iter()
                        .any(|source| is_bound(&source.name))
            })
    };
    let problems = vcenter.library_problems();
    let shown = problems.iter().filter(|problem| concerns(problem, &vm.spec.image_name, is_bound, may_use));
    let shown: Vec<&str> = shown.map(|problem| problem.message.as_str()).collect();
    (!shown.is_empty()).then(|| shown.join("; "))
}

/// Returns true if a problem may explain why the image doesn't exist. `is_bound` and `may_use` return true if the VM's
/// namespace can use the content source or library with that name or ID.
fn concerns(
    problem: &LibraryProblem,
    image: &str,
    is_bound: impl Fn(&str) -> bool,
    may_use: impl Fn(&str) -> bool,
) -> bool {
    let LibraryProblem { source, library, item, image: of_item, message: _ } = problem;
    source.as_deref().is_none_or(is_bound)
        && library.as_deref().is_none_or(may_use)
        && (item.is_none() || of_item.as_deref() == Some(image))
}

/// Checks that the image exists and is usable. `library` returns the problems with the image's library, if any.
fn check_image<'a>(
    vm: &VirtualMachine,
    image: Option<&'a VirtualMachineImage>,
    library: impl FnOnce() -> Option<String>,
) -> Need<&'a VirtualMachineImage> {
    let name = &vm.spec.image_name;
    let Some(image) = image else {
        let why = library().map_or_else(String::new, |library| format!(". Possible cause: {library}"));
        let message = format!(
            "VirtualMachineImage {name} does not exist{why}. Add the image to the content library, or use another image"
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

/// Returns true if the condition prevents VMs from using the image. Users decide about guest compatibility themselves.
fn keeps_from_use(condition: &Condition) -> bool {
    let grave = [
        reason::VIRTUAL_MACHINE_IMAGE_PROVIDER_SECURITY_COMPLIANCE,
        reason::VIRTUAL_MACHINE_IMAGE_PROVIDER_READY,
        reason::VIRTUAL_MACHINE_IMAGE_SYNCED,
    ];
    condition.status == api::conditions::FALSE && grave.contains(&condition.type_.as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_image_names_only_what_may_be_why() {
        let shown = |problem: LibraryProblem| {
            concerns(&problem, "photon", |source| source == "mine", |library| library == "lib-mine")
        };
        let text = |text: &str| Some(text.to_owned());
        let problem = LibraryProblem::default;
        assert!(shown(problem()), "there is no library at all");
        assert!(shown(LibraryProblem { library: text("lib-mine"), ..problem() }));
        assert!(!shown(LibraryProblem { library: text("lib-other"), ..problem() }));
        assert!(shown(LibraryProblem { source: text("mine"), ..problem() }));
        assert!(!shown(LibraryProblem { source: text("other"), ..problem() }));
        let item =
            |library, image| LibraryProblem { library: text(library), item: text("i"), image, ..problem() };
        assert!(shown(item("lib-mine", text("photon"))));
        assert!(!shown(item("lib-mine", text("ubuntu"))) && !shown(item("lib-mine", None)));
        assert!(!shown(item("lib-other", text("photon"))));
    }

    #[test]
    fn an_image_is_used_unless_its_library_or_its_content_is_wrong() {
        let vm = crate::testing::fixtures::virtual_machine();
        let mut there = VirtualMachineImage::default();
        there.metadata.name = Some("photon".into());
        let mut checked = |type_: &str, version: Option<&str>| {
            let status = there.status.get_or_insert_default();
            status.conditions = vec![Condition::is_false(type_, api::conditions::ERROR, "Why", "it is so")];
            status.content_version = version.map(str::to_owned);
            check_image(&vm, Some(&there), || None).map(drop).map_err(|unmet| (unmet.reason, unmet.underway))
        };
        let not_ready = |underway| Err((reason::VIRTUAL_MACHINE_IMAGE_NOT_READY, underway));
        assert_eq!(checked(reason::VIRTUAL_MACHINE_IMAGE_SYNCED, Some("1")), not_ready(false));
        assert_eq!(checked(reason::VIRTUAL_MACHINE_IMAGE_PROVIDER_READY, Some("1")), not_ready(false));
        let compliant = reason::VIRTUAL_MACHINE_IMAGE_PROVIDER_SECURITY_COMPLIANCE;
        assert_eq!(checked(compliant, Some("1")), not_ready(false));
        assert_eq!(checked(reason::VIRTUAL_MACHINE_IMAGE_V1ALPHA1_COMPATIBLE, Some("1")), Ok(()));
        assert_eq!(checked(reason::VIRTUAL_MACHINE_IMAGE_OS_TYPE_SUPPORTED, Some("1")), Ok(()));
        assert_eq!(checked(reason::VIRTUAL_MACHINE_IMAGE_OS_TYPE_SUPPORTED, None), not_ready(true));
        let missing = check_image(&vm, None, || Some("content library lib-1 is gone".into())).unwrap_err();
        assert_eq!(missing.reason, reason::VIRTUAL_MACHINE_IMAGE_NOT_FOUND);
        let message = missing.message;
        assert!(message.contains("Possible cause: content library lib-1 is gone"), "{message}");
    }
}
