//! Determines the content library to publish to, and checks that it may be written to.
//!
//! The request refers to a ContentLibrary (imageregistry.vmware.com) if that API is served and the object exists, or else to a
//! ContentLibraryProvider or its ContentSource, which must be bound in the namespace and labeled as writable by an
//! administrator. Published VMs become images. So VMs are never published to the configured library: all namespaces use its
//! images, and releases are created from these images.

use api::conditions::vmop::publish as reason;
use api::names::label;
use api::vmop::{ContentLibraryProvider, ContentSource, ContentSourceBinding, PublishTargetLocation};
use bounds::printable;
use kube::{Api, Client, ResourceExt};
use serde_json::Value;

use crate::error::Error;
use crate::publish::unfit::Unfit;
use crate::vcenter::{LONGEST_NAME, VCenter, is_vcenter_name};

/// Returns the id of the content library that `location` refers to in `namespace`. The inner error says why VMs can't be
/// published there.
pub async fn find_library(
    namespace: &str,
    location: &PublishTargetLocation,
    client: &Client,
    vcenter: &VCenter,
) -> Result<Result<String, Unfit>, Error> {
    let name = location.name.as_deref().unwrap_or_default();
    let kind = location.kind.as_deref().unwrap_or_default();
    let mut named = None;
    if matches!(kind, "" | "ContentLibrary") {
        let library = registered(namespace, name, client).await?;
        named = library.map(|library| registration(&library, namespace, name));
    }
    if named.is_none() {
        named = provided(namespace, name, kind, client).await?;
    }
    let named = named.unwrap_or_else(|| Err(unknown(namespace, name)));
    match named.and_then(|id| check_id(id, name, vcenter.settings.library.as_deref())) {
        Ok(id) => writable(id, name, vcenter).await,
        Err(unfit) => Ok(Err(unfit)),
    }
}

/// Checks that the name is valid for a library item. vCenter rejects invalid names without a reason.
pub fn check_item_name(name: &str) -> Result<(), Unfit> {
    if is_vcenter_name(name) && !name.contains(['/', '\\']) {
        return Ok(());
    }
    let message = format!(
        "{:?} is not a valid name for a library item: a name has 1 to {LONGEST_NAME} characters, not only blanks, and no slash. Create a new request with another spec.target.item.name",
        printable(name, LONGEST_NAME)
    );
    Err(Unfit { reason: reason::TARGET_CONTENT_LIBRARY_NOT_READY, message })
}

/// Checks that the id is valid and isn't the id of the configured library, which all namespaces use.
fn check_id(id: String, name: &str, configured: Option<&str>) -> Result<String, Unfit> {
    // The id becomes part of a URL path.
    if id.is_empty() || !id.chars().all(|char| char.is_ascii_alphanumeric() || char == '-') {
        let message =
            format!("{name} has the UUID {id:?}, which cannot be the UUID of a content library. Correct it");
        return Err(Unfit { reason: reason::TARGET_CONTENT_LIBRARY_NOT_READY, message });
    }
    if configured.is_some_and(|configured| configured.eq_ignore_ascii_case(&id)) {
        let message = format!(
            "Content library {name} is the ContentSource of the provider configuration and provides images to all namespaces, so VMs cannot be published to it. Use another library"
        );
        return Err(Unfit { reason: reason::TARGET_CONTENT_LIBRARY_NOT_WRITABLE, message });
    }
    Ok(id)
}

/// Returns the ContentLibrary object, if the API is served and the object exists.
async fn registered(namespace: &str, name: &str, client: &Client) -> Result<Option<Value>, Error> {
    if name.is_empty() {
        return Ok(None);
    }
    let request = kube::core::Request::new(format!(
        "/apis/imageregistry.vmware.com/v1alpha1/namespaces/{namespace}/contentlibraries"
    ));
    let request = request.get(name, &kube::api::GetParams::default()).map_err(kube::Error::BuildRequest)?;
    match client.request(request).await {
        Ok(library) => Ok(Some(library)),
        Err(error) if absent(&error) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns true if the object or its API doesn't exist. For a missing API, the API server responds in plain text, without a
/// reason.
fn absent(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// Returns the library's id from a ContentLibrary object, if the library is writable and ready.
fn registration(library: &Value, namespace: &str, name: &str) -> Result<String, Unfit> {
    let named = format!("ContentLibrary {namespace}/{name}");
    if library["spec"]["writable"].as_bool() != Some(true) {
        let message = format!("{named} is not writable. Make it writable, or use another library");
        return Err(Unfit { reason: reason::TARGET_CONTENT_LIBRARY_NOT_WRITABLE, message });
    }
    let conditions = library["status"]["conditions"].as_array();
    let ready = conditions.into_iter().flatten().find(|condition| condition["type"] == "Ready");
    if let Some(ready) = ready.filter(|ready| ready["status"] != "True") {
        let why = ready["message"].as_str().unwrap_or_default();
        return Err(Unfit {
            reason: reason::TARGET_CONTENT_LIBRARY_NOT_READY,
            message: format!("{named} is not ready. {why}"),
        });
    }
    let id = library["spec"]["uuid"].as_str().filter(|id| !id.is_empty());
    id.map(str::to_owned).ok_or_else(|| Unfit {
        reason: reason::TARGET_CONTENT_LIBRARY_NOT_READY,
        message: format!("{named} has no spec.uuid"),
    })
}

/// Returns the library id of a ContentLibraryProvider or ContentSource that is bound in the namespace, or `None` if there isn't
/// one with this name. The inner error says why VMs can't be published there.
async fn provided(
    namespace: &str,
    name: &str,
    kind: &str,
    client: &Client,
) -> Result<Option<Result<String, Unfit>>, Error> {
    if !matches!(kind, "" | "ContentLibraryProvider" | "ContentSource" | "ContentLibrary") {
        return Ok(None);
    }
    let bindings = Api::<ContentSourceBinding>::namespaced(client.clone(), namespace);
    let bound = match bindings.list(&kube::api::ListParams::default()).await {
        Ok(bound) => bound,
        Err(error) if absent(&error) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let mut closed = None;
    for binding in bound {
        let source = &binding.spec.content_source_ref.name;
        let Some(found) = kit::apply::get::<ContentSource>(client, None, source).await? else { continue };
        let Some(provider) = found.spec.provider_ref.as_ref().map(|provider| &provider.name) else {
            continue;
        };
        let named = if kind == "ContentSource" { source == name } else { provider == name };
        if !named {
            continue;
        }
        if let Err(unfit) = source_is_writable(&found) {
            closed = Some(Err(unfit));
            continue;
        }
        let provider = kit::apply::get::<ContentLibraryProvider>(client, None, provider).await?;
        return Ok(
            provider.map(|provider| Ok(provider.spec.uuid.clone().unwrap_or_else(|| provider.name_any())))
        );
    }
    Ok(closed)
}

/// Checks the source's label. Namespace users can bind sources to use their images, but only administrators can label
/// them.
fn source_is_writable(source: &ContentSource) -> Result<(), Unfit> {
    if source.labels().get(label::WRITABLE).is_some_and(|writable| writable == "true") {
        return Ok(());
    }
    let message = format!(
        "VMs cannot be published to ContentSource {}. To allow this, an administrator must set the label {}=true on it",
        source.name_any(),
        label::WRITABLE
    );
    Err(Unfit { reason: reason::TARGET_CONTENT_LIBRARY_NOT_WRITABLE, message })
}

/// Checks that the library exists in vCenter and is local, so that it can be written to, and returns its id. The inner error
/// says why VMs can't be published there.
async fn writable(id: String, name: &str, vcenter: &VCenter) -> Result<Result<String, Unfit>, Error> {
    match vcenter.client.library(&id).await {
        Ok(library) => Ok(fit(&library, name)),
        Err(error) => missing(error, name),
    }
}

fn fit(library: &vsphere::automation::Library, name: &str) -> Result<String, Unfit> {
    if library.kind == "LOCAL" {
        return Ok(library.id.clone());
    }
    let message = format!(
        "Content library {name} is a {} library in vCenter, and only local libraries are writable. Use another library",
        library.kind.to_lowercase()
    );
    Err(Unfit { reason: reason::TARGET_CONTENT_LIBRARY_NOT_WRITABLE, message })
}

fn missing(error: vsphere::Error, name: &str) -> Result<Result<String, Unfit>, Error> {
    if !error.is_not_found() {
        return Err(error.into());
    }
    let message =
        format!("Content library {name} does not exist in vCenter. Create it, or use another library");
    Ok(Err(Unfit { reason: reason::TARGET_CONTENT_LIBRARY_NOT_EXIST, message }))
}

fn unknown(namespace: &str, name: &str) -> Unfit {
    let message = format!(
        "Namespace {namespace} has no content library {name} to publish to. Use a ContentLibrary, or a ContentLibraryProvider whose ContentSource is bound in the namespace and has label {}=true",
        label::WRITABLE
    );
    Unfit { reason: reason::TARGET_CONTENT_LIBRARY_NOT_EXIST, message }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_api_that_is_not_served_has_no_object() {
        for (text, reason) in
            [("404 page not found", "Failed to parse error data"), ("not found", "NotFound")]
        {
            let status = kube::core::Status::failure(text, reason).with_code(404);
            assert!(absent(&kube::Error::Api(status.boxed())));
        }
        let refused = kube::core::Status::failure("no", "Forbidden").with_code(403);
        assert!(!absent(&kube::Error::Api(refused.boxed())));
    }

    #[test]
    fn nothing_is_published_to_the_library_that_everybody_s_images_come_from() {
        let reason_of =
            |id: &str| check_id(id.to_owned(), "lib", Some("lib-1")).map_err(|unfit| unfit.reason);
        assert_eq!(reason_of("lib-2"), Ok("lib-2".to_owned()));
        assert_eq!(reason_of("lib-1"), Err(reason::TARGET_CONTENT_LIBRARY_NOT_WRITABLE));
        assert_eq!(reason_of("LIB-1"), Err(reason::TARGET_CONTENT_LIBRARY_NOT_WRITABLE));
        for id in ["", "../lib-1", "lib-2?x", "lib-2/..", "lib%2d1"] {
            assert_eq!(reason_of(id), Err(reason::TARGET_CONTENT_LIBRARY_NOT_READY), "{id}");
        }
    }

    #[test]
    fn an_item_has_a_name_that_vcenter_takes() {
        for name in ["a", "web 1.2", &"n".repeat(80)] {
            assert!(check_item_name(name).is_ok(), "{name}");
        }
        for name in ["", " ", "a / b", "a\\b", &"n".repeat(81)] {
            let unfit = check_item_name(name).unwrap_err();
            assert!(
                unfit.message.contains("1 to 80 characters")
                    && unfit.message.contains("spec.target.item.name")
            );
        }
    }

    #[test]
    fn a_source_is_written_to_where_an_administrator_says_so() {
        let mut source = ContentSource::default();
        source.metadata.name = Some("team".into());
        for (value, fits) in [(None, false), (Some("false"), false), (Some("true"), true)] {
            source.metadata.labels =
                value.map(|value: &str| [(label::WRITABLE.to_owned(), value.to_owned())].into());
            assert_eq!(source_is_writable(&source).is_ok(), fits, "{value:?}");
        }
    }

    #[test]
    fn a_content_library_says_whether_it_can_be_written_to() {
        let cases = [
            (json!({"spec": {"uuid": "l", "writable": true}}), "l"),
            (json!({"spec": {"uuid": "l"}}), reason::TARGET_CONTENT_LIBRARY_NOT_WRITABLE),
            (json!({"spec": {"writable": true}}), reason::TARGET_CONTENT_LIBRARY_NOT_READY),
            (
                json!({"spec": {"uuid": "l", "writable": true}, "status": {"conditions": [{"type": "Ready", "status": "False"}]}}),
                reason::TARGET_CONTENT_LIBRARY_NOT_READY,
            ),
        ];
        for (library, expected) in cases {
            let read = registration(&library, "ns", "n").unwrap_or_else(|unfit| unfit.reason.to_owned());
            assert_eq!(read, expected, "{library}");
        }
    }
}
