//! Applies objects of any kind with server-side apply.

use anyhow::Result;
use kit::api_error::message;
pub use kit::api_error::words_of_refusal;
use kit::objects::{Error, Objects};
use kube::Client;
use kube::api::DynamicObject;
use serde_json::Value;

use crate::terminal::exit::ExitStatus;

/// The default namespace of objects.
const DEFAULT: &str = "default";

/// Returns the document's namespace (default: `default`) and name.
pub fn key(document: &Value) -> (String, String) {
    let metadata = &document["metadata"];
    let text = |field: &str| metadata[field].as_str().filter(|text| !text.is_empty());
    (text("namespace").unwrap_or(DEFAULT).to_owned(), text("name").unwrap_or_default().to_owned())
}

/// Applies an object of any kind and takes over fields from other managers. A field that the kind doesn't have is an
/// error.
pub async fn apply(client: &Client, object: &Value) -> Result<()> {
    match Objects::new(client).of_user(DEFAULT).apply(object).await {
        Err(error @ Error::NotServed { .. }) => Err(ExitStatus::Refused.error(error.to_string())),
        applied => Ok(applied.map(drop)?),
    }
}

/// Lets the API server and its admission control check the object without applying it.
pub async fn dry_run(client: &Client, object: &Value) -> Result<()> {
    match Objects::new(client).of_user(DEFAULT).dry_run(true).apply(object).await {
        Err(Error::Api { error, .. }) => Err(anyhow::Error::msg(words_of_refusal(&message(&error)))),
        checked => Ok(checked.map(drop)?),
    }
}

/// Options for [`apply_as_user`].
#[derive(Clone, Copy, Debug, Default)]
pub struct ApplyOptions {
    /// Take over fields that other managers own.
    pub force: bool,
    /// Only check the object.
    pub dry_run: bool,
}

/// Applies a user's object and returns the resulting object. `namespace` applies to objects of namespaced kinds that
/// don't set one.
///
/// # Errors
/// Returns an error with [`ExitStatus::Refused`] if the API server refuses the object or doesn't serve its kind. A
/// conflict names the fields that other managers own. Other errors mean that the API server has failed or doesn't
/// respond.
pub async fn apply_as_user(
    client: &Client,
    object: &Value,
    namespace: &str,
    options: ApplyOptions,
) -> Result<DynamicObject> {
    let objects = Objects::new(client).of_user(namespace).take_over(options.force).dry_run(options.dry_run);
    objects.apply(object).await.map_err(|error| match error {
        Error::Api { what, error } => refusal_of_user(*error).context(format!("cannot {what}")),
        error @ Error::NotServed { .. } => ExitStatus::Refused.error(error.to_string()),
        error => error.into(),
    })
}

/// The remedy for a conflict with another field manager.
pub const TAKE_OVER: &str =
    "Correct the manifest, or change the field with that tool. --force-conflicts takes it over";

/// Converts the error of a change that a user requested. A refusal gets [`ExitStatus::Refused`], because the API server
/// didn't change anything.
pub fn refusal_of_user(error: kube::Error) -> anyhow::Error {
    let kube::Error::Api(status) = &error else { return error.into() };
    let conflicts = conflicts(status);
    if !conflicts.is_empty() {
        return ExitStatus::Refused.error(format!("{}. {TAKE_OVER}", conflicts.join("; ")));
    }
    // The API server reports an undeclared field as an internal error.
    if let Some((_, fault)) = status.message.split_once(UNTYPED).and_then(|(_, rest)| rest.split_once("): "))
    {
        return ExitStatus::Refused.error(fault.trim_start_matches('.').to_owned());
    }
    match status.code {
        400 | 403 | 404 | 409 | 422 => ExitStatus::Refused.error(words_of_refusal(&status.message)),
        _ => anyhow::Error::msg(words_of_refusal(&message(&error))),
    }
}

/// The beginning of the API server's message about an undeclared field or a value with the wrong type.
const UNTYPED: &str = "failed to create typed patch object (";

/// Returns a phrase for each field that another manager owns, such as `spec.x was set by argocd`.
fn conflicts(status: &kube::core::Status) -> Vec<String> {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let conflicts = causes.filter(|cause| cause.reason == "FieldManagerConflict");
    let mut named: Vec<_> = conflicts
        .map(|cause| {
            // The message is `conflict with "MANAGER" …`.
            let manager = cause.message.split('"').nth(1).unwrap_or("another manager");
            format!("{} was set by {manager}", cause.field.trim_start_matches('.'))
        })
        .collect();
    named.sort();
    named
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::terminal::exit::status_of_error;

    fn refused(code: u16, message: &str, causes: Value) -> anyhow::Error {
        let status = json!({"code": code, "message": message, "details": {"causes": causes}});
        refusal_of_user(kube::Error::Api(Box::new(serde_json::from_value(status).unwrap())))
    }

    #[test]
    fn a_conflict_names_the_field_and_its_manager() {
        let cause = json!([{
            "reason": "FieldManagerConflict",
            "message": "conflict with \"argocd-controller\" using run.tanzu.vmware.com/v1alpha3",
            "field": ".spec.topology.controlPlane.replicas",
        }]);
        let error = refused(409, "Apply failed with 1 conflict", cause);
        assert_eq!(
            error.to_string(),
            format!("spec.topology.controlPlane.replicas was set by argocd-controller. {TAKE_OVER}")
        );
        assert_eq!(status_of_error(&error), ExitStatus::Refused);
    }

    #[tokio::test]
    async fn a_version_that_is_not_served_is_named() {
        let version = |version: &str| json!({"groupVersion": format!("run.tanzu.vmware.com/{version}"), "version": version});
        let group =
            json!({"name": "run.tanzu.vmware.com", "versions": [version("v1alpha3"), version("v1alpha1")]});
        let groups = json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": [group]});
        let (client, _) = support::api_server::server(move |request| match request.path.as_str() {
            "/apis" => (200, groups.clone()),
            _ => support::api_server::refusal(404, "NotFound"),
        });
        let object = json!({
            "apiVersion": "run.tanzu.vmware.com/v1beta1", "kind": "TanzuKubernetesCluster",
            "metadata": {"name": "c", "namespace": "dev"},
        });
        let options = ApplyOptions { force: false, dry_run: false };
        let error = apply_as_user(&client, &object, "dev", options).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "the API server does not serve kind TanzuKubernetesCluster of run.tanzu.vmware.com/v1beta1. Correct \
             apiVersion: run.tanzu.vmware.com has v1alpha1, v1alpha3"
        );
        assert_eq!(status_of_error(&error), ExitStatus::Refused);
    }

    #[test]
    fn refusals_and_failures_have_different_statuses() {
        let denied = "admission webhook \"x\" denied the request: spec: no";
        let error = refused(403, denied, json!([]));
        assert_eq!((error.to_string().as_str(), status_of_error(&error)), ("spec: no", ExitStatus::Refused));
        assert_eq!(status_of_error(&refused(500, "no etcd", json!([]))), ExitStatus::Failed);
        let untyped = "failed to create typed patch object (dev/c; a/v1, Kind=K): .spec.x: field not declared in schema";
        let error = refused(500, untyped, json!([]));
        assert_eq!(error.to_string(), "spec.x: field not declared in schema");
        assert_eq!(status_of_error(&error), ExitStatus::Refused);
    }
}
