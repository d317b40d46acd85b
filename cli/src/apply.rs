//! Applies objects of any kind with server-side apply.

use anyhow::{Context, Result};
use kit::api_error::is_not_served;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, ValidationDirective};
use kube::discovery::{Scope, oneshot};
use kube::{Api, Client};
use serde_json::Value;

use crate::exit::ExitStatus;

const MANAGER: &str = "layercake";

/// Returns the document's namespace (default: `default`) and name.
pub fn key(document: &Value) -> (String, String) {
    let metadata = &document["metadata"];
    let text = |field: &str| metadata[field].as_str().filter(|text| !text.is_empty());
    (text("namespace").unwrap_or("default").to_owned(), text("name").unwrap_or_default().to_owned())
}

/// Applies an object of any kind and takes over fields from other managers. A field that the kind doesn't have is an
/// error.
pub async fn apply(client: &Client, object: &Value) -> Result<()> {
    let kind = object["kind"].as_str().unwrap_or_default();
    let (namespace, name) = key(object);
    let applied = send(client, object, PatchParams::apply(MANAGER).force()).await;
    applied.with_context(|| format!("cannot apply {kind} {namespace}/{name}"))
}

/// Lets the API server and its admission control check the object without applying it.
pub async fn dry_run(client: &Client, object: &Value) -> Result<()> {
    send(client, object, PatchParams::apply(MANAGER).force().dry_run()).await
}

async fn send(client: &Client, object: &Value, mut params: PatchParams) -> Result<()> {
    let (namespace, name) = key(object);
    let api = api_of(client, object, &namespace).await?;
    params.field_validation = Some(ValidationDirective::Strict);
    api.patch(&name, &params, &Patch::Apply(object)).await.map_err(refusal).map(drop)
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
    let (kind, name) = (object["kind"].as_str().unwrap_or_default(), key(object).1);
    let api = api_of(client, object, object["metadata"]["namespace"].as_str().unwrap_or(namespace)).await?;
    let mut params = PatchParams::apply(MANAGER);
    params.field_validation = Some(ValidationDirective::Strict);
    (params.force, params.dry_run) = (options.force, options.dry_run);
    let applied = api.patch(&name, &params, &Patch::Apply(object)).await;
    applied.map_err(refusal_of_user).with_context(|| format!("cannot apply {kind} {name}"))
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
        _ => refusal(error),
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

/// A note that the API server adds to other validation errors. It doesn't help the author.
const UNCHECKED: &str = ", <nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";

fn refusal(error: kube::Error) -> anyhow::Error {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => {
            anyhow::Error::msg(words_of_refusal(&status.message))
        }
        error => error.into(),
    }
}

/// Returns the API server's message without the webhook's name or the note about unchecked rules, which don't help the
/// author.
pub fn words_of_refusal(message: &str) -> String {
    let message = message.replace(UNCHECKED, "");
    let own = message.split_once(" denied the request: ").map(|(_, own)| own.to_owned());
    own.unwrap_or(message)
}

async fn api_of(client: &Client, object: &Value, namespace: &str) -> Result<Api<DynamicObject>> {
    let version = object["apiVersion"].as_str().unwrap_or_default();
    let kind = object["kind"].as_str().unwrap_or_default();
    let (group, version) = version.rsplit_once('/').unwrap_or(("", version));
    let known = known(group, version, kind);
    let (resource, scope) = if let Some(known) = known {
        known
    } else {
        let found = oneshot::pinned_kind(client, &GroupVersionKind::gvk(group, version, kind)).await;
        let unknown = format!("the API server does not serve kind {kind} of {group}/{version}");
        let (resource, capabilities) = match found {
            Err(error) if is_not_served(&error) => {
                let remedy = match served_versions(client, group).await {
                    Some(versions) => format!("Correct apiVersion: {group} has {versions}"),
                    None => "Correct apiVersion; `kubectl api-resources` lists what is served".to_owned(),
                };
                return Err(ExitStatus::Refused.error(format!("{unknown}. {remedy}")));
            }
            found => found.context(unknown)?,
        };
        (resource, capabilities.scope)
    };
    Ok(match scope {
        Scope::Cluster => Api::all_with(client.clone(), &resource),
        Scope::Namespaced => Api::namespaced_with(client.clone(), namespace, &resource),
    })
}

/// Returns the served versions of an API group, separated by commas, or `None` if the API server doesn't list the
/// group.
async fn served_versions(client: &Client, group: &str) -> Option<String> {
    let groups = client.list_api_groups().await.ok()?.groups;
    let versions = groups.into_iter().find(|served| served.name == group)?.versions;
    let mut names: Vec<_> = versions.into_iter().map(|version| version.version).collect();
    names.sort();
    Some(names.join(", "))
}

/// The TanzuKubernetesCluster versions that Layercake serves. For other versions, discovery reports that they aren't
/// served.
const CLUSTER_VERSIONS: [&str; 3] = ["v1alpha1", "v1alpha2", "v1alpha3"];

/// Returns the API resource and scope of a frequently applied kind, to save discovery requests. Returns `None` for
/// other kinds.
fn known(group: &str, version: &str, kind: &str) -> Option<(ApiResource, Scope)> {
    let (plural, scope) = match kind {
        "Namespace" => ("namespaces", Scope::Cluster),
        "StorageClass" => ("storageclasses", Scope::Cluster),
        "ResourceQuota" => ("resourcequotas", Scope::Namespaced),
        "VirtualMachineClass" => ("virtualmachineclasses", Scope::Cluster),
        "VirtualMachineClassBinding" => ("virtualmachineclassbindings", Scope::Namespaced),
        "TanzuKubernetesCluster" if CLUSTER_VERSIONS.contains(&version) => {
            ("tanzukubernetesclusters", Scope::Namespaced)
        }
        _ => return None,
    };
    let kind = GroupVersionKind::gvk(group, version, kind);
    Some((ApiResource::from_gvk_with_plural(&kind, plural), scope))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::exit::status_of_error;

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
