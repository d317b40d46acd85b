//! Determines the content libraries that images are read from, and which namespaces may use them.
//!
//! An administrator describes a library with a ContentLibraryProvider, creates a ContentSource that refers to it, and
//! grants a namespace access with a ContentSourceBinding. The configured library doesn't need these: all namespaces may
//! use it.

use std::sync::Arc;

use api::conditions::vmop as reason;
use api::names::label;
use api::vmop::{ContentLibraryProvider, ContentSource, VirtualMachineImage};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Resource, ResourceExt};

use crate::unmet::{Need, Unmet};
use crate::vcenter::LibraryProblem;

/// The kind in references to a library, as vm-operator sets it.
pub const PROVIDER_KIND: &str = "ContentLibraryProvider";

/// A content library with images.
#[derive(Clone, Debug, PartialEq)]
pub struct ImageLibrary {
    /// The library's UUID in vCenter.
    pub id: String,
    /// The ContentLibraryProvider for the library, which owns the library's images. Optional for the configured library.
    pub provider: Option<OwnerReference>,
    /// True for libraries with Kubernetes releases: the configured library, and libraries whose source has the release label.
    pub releases: bool,
}

impl ImageLibrary {
    /// Returns the name that the library's images use in their provider reference: the name of the ContentLibraryProvider, or
    /// the library's UUID without one.
    pub fn name(&self) -> &str {
        self.provider.as_ref().map_or(&self.id, |provider| &provider.name)
    }
}

/// Returns the libraries to read, each once: first the `configured` one, then the others ordered by source name. `provider`
/// returns a provider by name.
///
/// Also returns the problems with sources.
pub fn libraries(
    configured: Option<&str>,
    sources: &[Arc<ContentSource>],
    provider: impl Fn(&str) -> Option<Arc<ContentLibraryProvider>>,
) -> (Vec<ImageLibrary>, Vec<LibraryProblem>) {
    let mut sources: Vec<_> = sources.iter().collect();
    sources.sort_by_key(|source| source.name_any());
    let (mut libraries, mut wrong) = (Vec::<ImageLibrary>::new(), Vec::<LibraryProblem>::new());
    libraries.extend(configured.map(|id| ImageLibrary { id: id.to_owned(), provider: None, releases: true }));
    for source in sources {
        let named = provider_of(source).filter(|named| !named.is_empty());
        let Some(provider) = named.and_then(&provider) else {
            wrong.push(missing_provider(source, named));
            continue;
        };
        let owner = provider.owner_ref(&());
        match libraries.iter_mut().find(|known| known.id == library_of(&provider)) {
            Some(known) => {
                known.provider = known.provider.take().or(owner);
                known.releases |= is_for_releases(source);
            }
            None => libraries.push(ImageLibrary {
                id: library_of(&provider).to_owned(),
                provider: owner,
                releases: is_for_releases(source),
            }),
        }
    }
    (libraries, wrong)
}

/// Returns the problem with a source that doesn't refer to an existing provider.
fn missing_provider(source: &ContentSource, named: Option<&str>) -> LibraryProblem {
    let source = source.name_any();
    let message = match named {
        Some(named) => format!(
            "ContentSource {source}: spec.providerRef refers to {PROVIDER_KIND} {named}, which does not exist. Create it or correct spec.providerRef"
        ),
        None => format!(
            "ContentSource {source}: spec.providerRef refers to no {PROVIDER_KIND}. Set kind to {PROVIDER_KIND} and name to an existing one"
        ),
    };
    LibraryProblem { source: Some(source), message, ..LibraryProblem::default() }
}

/// Returns true if an administrator labeled the source as a library for releases.
pub fn is_for_releases(source: &ContentSource) -> bool {
    source.labels().get(label::RELEASE_LIBRARY).is_some_and(|value| value == "true")
}

/// Returns the name of the ContentLibraryProvider that a source refers to, if it refers to one.
pub fn provider_of(source: &ContentSource) -> Option<&str> {
    let provider = source.spec.provider_ref.as_ref();
    provider.filter(|provider| provider.kind == PROVIDER_KIND).map(|provider| provider.name.as_str())
}

/// Returns the provider's library UUID: from the spec, or else the provider's name.
pub fn library_of(provider: &ContentLibraryProvider) -> &str {
    let given = provider.spec.uuid.as_deref().filter(|uuid| !uuid.is_empty());
    given.or(provider.metadata.name.as_deref()).unwrap_or_default()
}

/// The facts that decide whether a namespace may use an image.
pub struct LibraryAccess<'a> {
    /// The provider that the image refers to, if it exists.
    pub provider: Option<&'a ContentLibraryProvider>,
    /// The names of the sources that refer to the provider.
    pub sources: &'a [String],
    /// True if one of the sources is bound in the namespace.
    pub bound: bool,
}

/// Checks that the namespace may use the image: a source of its library is bound there, the library is the `configured` one, or
/// the image doesn't refer to a library.
pub fn check_access(
    namespace: &str,
    image: &VirtualMachineImage,
    configured: Option<&str>,
    chain: &LibraryAccess<'_>,
) -> Need<()> {
    let named = &image.spec.provider_ref;
    let of_configured = |id: &str| configured == Some(id);
    // An image without a library reference was created manually, for all namespaces.
    if named.kind != PROVIDER_KIND || of_configured(&named.name) {
        return Ok(());
    }
    let image = image.name_any();
    let Some(provider) = chain.provider else {
        let message = format!(
            "VirtualMachineImage {image} belongs to {PROVIDER_KIND} {}, which does not exist. Create it with the library's UUID, or use another image",
            named.name
        );
        return Err(Unmet::wrong(reason::CONTENT_LIBRARY_PROVIDER_NOT_FOUND, message));
    };
    if chain.bound || of_configured(library_of(provider)) {
        return Ok(());
    }
    let message = match chain.sources {
        [] => format!(
            "VirtualMachineImage {image} belongs to {PROVIDER_KIND} {}, which no ContentSource names. Create one, and a ContentSourceBinding in namespace {namespace}",
            named.name
        ),
        sources => format!(
            "Namespace {namespace} has no access to ContentSource {}, which provides VirtualMachineImage {image}. Create a ContentSourceBinding there, or use another image",
            sources.join(" or ")
        ),
    };
    Err(Unmet::wrong(reason::CONTENT_SOURCE_BINDING_NOT_FOUND, message))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn provider(name: &str, uuid: &str) -> Arc<ContentLibraryProvider> {
        let provider = json!({ "metadata": { "name": name, "uid": "u" }, "spec": { "uuid": uuid } });
        Arc::new(serde_json::from_value(provider).unwrap())
    }

    fn source(name: &str, provider: &str) -> Arc<ContentSource> {
        let provider = json!({ "kind": PROVIDER_KIND, "name": provider });
        let source = json!({ "metadata": { "name": name }, "spec": { "providerRef": provider } });
        Arc::new(serde_json::from_value(source).unwrap())
    }

    fn image(provider: &str) -> VirtualMachineImage {
        let mut image = VirtualMachineImage::default();
        image.metadata.name = Some("photon".into());
        image.spec.provider_ref.kind = PROVIDER_KIND.into();
        image.spec.provider_ref.name = provider.into();
        image
    }

    #[test]
    fn libraries_are_the_configured_one_and_those_of_the_sources_each_once() {
        let sources = [source("z", "b"), source("a", "a"), source("again", "a"), source("lost", "nowhere")];
        let there = [provider("a", "lib-a"), provider("b", "lib-b")];
        let named = |name: &str| there.iter().find(|provider| provider.name_any() == name).cloned();
        let (libraries, wrong) = super::libraries(Some("lib-b"), &sources, named);
        let listed: Vec<_> = libraries.iter().map(|library| (library.id.as_str(), library.name())).collect();
        assert_eq!(listed, [("lib-b", "b"), ("lib-a", "a")]);
        assert_eq!(wrong.len(), 1);
        let message = &wrong[0].message;
        assert!(message.contains("ContentSource lost") && message.contains("nowhere"), "{wrong:?}");
        assert_eq!(wrong[0].source.as_deref(), Some("lost"));
        let (_, wrong) = super::libraries(None, &[source("blank", "")], named);
        let message = &wrong[0].message;
        assert!(message.contains("ContentSource blank: spec.providerRef refers to no "), "{wrong:?}");
        let for_releases: Vec<_> = libraries.iter().map(|library| library.releases).collect();
        assert_eq!(for_releases, [true, false], "the configured one alone");
        let mut labelled = (*source("a", "a")).clone();
        labelled.metadata.labels = Some([(label::RELEASE_LIBRARY.to_owned(), "true".to_owned())].into());
        let (libraries, _) = super::libraries(None, &[source("0", "a"), Arc::new(labelled)], named);
        assert_eq!(libraries.iter().map(|library| library.releases).collect::<Vec<_>>(), [true]);
        let (alone, _) = super::libraries(Some("lib-c"), &[], named);
        assert_eq!((alone[0].name(), &alone[0].provider), ("lib-c", &None));
    }

    #[test]
    fn a_namespace_uses_the_images_of_the_sources_that_are_bound_there() {
        let provider = provider("team", "lib-a");
        let sources = ["team-source".to_owned()];
        let chain = |sources, bound| LibraryAccess { provider: Some(&provider), sources, bound };
        let refused =
            |chain: &LibraryAccess<'_>| check_access("ns", &image("team"), Some("lib-b"), chain).unwrap_err();
        let nobody = LibraryAccess { provider: None, sources: &[], bound: false };
        for (chain, reason, words) in [
            (&nobody, reason::CONTENT_LIBRARY_PROVIDER_NOT_FOUND, "ContentLibraryProvider team"),
            (&chain(&[], false), reason::CONTENT_SOURCE_BINDING_NOT_FOUND, "which no ContentSource names"),
            (
                &chain(&sources, false),
                reason::CONTENT_SOURCE_BINDING_NOT_FOUND,
                "Namespace ns has no access to ContentSource team-source",
            ),
        ] {
            let unmet = refused(chain);
            assert_eq!(unmet.reason, reason);
            assert!(unmet.message.contains(words), "{}", unmet.message);
        }
        check_access("ns", &image("team"), Some("lib-b"), &chain(&sources, true)).unwrap();
        // All namespaces may use the configured library, whatever its name.
        check_access("ns", &image("lib-b"), Some("lib-b"), &nobody).unwrap();
        check_access("ns", &image("team"), Some("lib-a"), &chain(&sources, false)).unwrap();
        let mut by_hand = image("x");
        by_hand.spec.provider_ref.kind = "Somebody".into();
        check_access("ns", &by_hand, None, &nobody).unwrap();
    }
}
