//! Where a VM is published to: which content library a request may write to.
//!
//! The library is named by an object. ContentLibrary (imageregistry.vmware.com) is taken where that
//! API is served; else a ContentLibraryProvider, or the ContentSource before it, that a
//! ContentSourceBinding lets the namespace use. Without either, the library of the provider
//! configuration may be named by its own name or id.

use api::conditions::vmop::publish as reason;
use api::vmop::{ContentLibraryProvider, ContentSource, ContentSourceBinding, PublishTargetLocation};
use kube::{Api, Client, ResourceExt};
use serde_json::Value;

use crate::error::Error;
use crate::publish::unfit::Unfit;
use crate::vcenter::VCenter;

/// The content library that `location` names for `namespace`, by its id.
pub async fn find_library(
    namespace: &str,
    location: &PublishTargetLocation,
    client: &Client,
    vcenter: &VCenter,
) -> Result<Result<String, Unfit>, Error> {
    let name = location.name.as_deref().unwrap_or_default();
    let kind = location.kind.as_deref().unwrap_or_default();
    if matches!(kind, "" | "ContentLibrary")
        && let Some(library) = registered(namespace, name, client).await?
    {
        return match registration(&library, namespace, name) {
            Ok(id) => writable(id, name, vcenter).await,
            Err(unfit) => Ok(Err(unfit)),
        };
    }
    if let Some(id) = provided(namespace, name, kind, client).await? {
        return writable(id, name, vcenter).await;
    }
    let Some(configured) = vcenter.settings.library.clone() else { return Ok(Err(unknown(namespace, name))) };
    if configured == name {
        return writable(configured, name, vcenter).await;
    }
    match vcenter.client.library(&configured).await {
        Ok(library) if library.name == name => Ok(fit(&library, name)),
        Ok(_) => Ok(Err(unknown(namespace, name))),
        Err(error) => missing(error, name),
    }
}

/// The ContentLibrary object, where that API is served.
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

/// Neither an object nor its API need be there; an API that is not there answers in plain text, without a reason.
fn absent(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// What a ContentLibrary object says of itself.
fn registration(library: &Value, namespace: &str, name: &str) -> Result<String, Unfit> {
    let named = format!("ContentLibrary {namespace}/{name}");
    if library["spec"]["writable"].as_bool() != Some(true) {
        let message = format!("{named} is not writable. Make it so, or name another");
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

/// The library of a ContentLibraryProvider or a ContentSource that the namespace may use.
async fn provided(namespace: &str, name: &str, kind: &str, client: &Client) -> Result<Option<String>, Error> {
    if !matches!(kind, "" | "ContentLibraryProvider" | "ContentSource" | "ContentLibrary") {
        return Ok(None);
    }
    let bindings = Api::<ContentSourceBinding>::namespaced(client.clone(), namespace);
    let bound = match bindings.list(&kube::api::ListParams::default()).await {
        Ok(bound) => bound,
        Err(error) if absent(&error) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    for binding in bound {
        let source = &binding.spec.content_source_ref.name;
        let Some(found) = kit::apply::get::<ContentSource>(client, None, source).await? else { continue };
        let Some(provider) = found.spec.provider_ref.map(|provider| provider.name) else { continue };
        let named = if kind == "ContentSource" { source == name } else { provider == name };
        if !named {
            continue;
        }
        let provider = kit::apply::get::<ContentLibraryProvider>(client, None, &provider).await?;
        return Ok(
            provider.and_then(|provider| provider.spec.uuid.clone().or_else(|| Some(provider.name_any())))
        );
    }
    Ok(None)
}

/// The library is there, and is one that can be written to.
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
        "Content library {name} is a {} one in vCenter, and only local ones can be written to. Name another",
        library.kind.to_lowercase()
    );
    Err(Unfit { reason: reason::TARGET_CONTENT_LIBRARY_NOT_WRITABLE, message })
}

fn missing(error: vsphere::Error, name: &str) -> Result<Result<String, Unfit>, Error> {
    if !error.is_not_found() {
        return Err(error.into());
    }
    let message = format!("Content library {name} does not exist in vCenter. Name another, or create it");
    Ok(Err(Unfit { reason: reason::TARGET_CONTENT_LIBRARY_NOT_EXIST, message }))
}

fn unknown(namespace: &str, name: &str) -> Unfit {
    let message = format!(
        "Namespace {namespace} has no content library {name}. Name a ContentLibrary, or a ContentLibraryProvider whose ContentSource is bound there"
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
