//! Applies objects of whatever kind, as `kubectl apply` does.

use anyhow::{Context, Result};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, ValidationDirective};
use kube::discovery::{Scope, oneshot};
use kube::{Api, Client};
use serde_json::Value;

const MANAGER: &str = "layercake";

/// Namespace and name of a document; no namespace means `default`.
pub fn key(document: &Value) -> (String, String) {
    let metadata = &document["metadata"];
    let text = |field: &str| metadata[field].as_str().filter(|text| !text.is_empty());
    (text("namespace").unwrap_or("default").to_owned(), text("name").unwrap_or_default().to_owned())
}

/// Applies one object of whatever kind; a field that its kind does not have is an error.
pub async fn apply(client: &Client, object: &Value) -> Result<()> {
    let kind = object["kind"].as_str().unwrap_or_default();
    let (namespace, name) = key(object);
    let applied = send(client, object, PatchParams::apply(MANAGER).force()).await;
    applied.with_context(|| format!("cannot apply {kind} {namespace}/{name}"))
}

/// Asks the API server and all its admission whether it would take the object, and changes nothing.
pub async fn dry_run(client: &Client, object: &Value) -> Result<()> {
    send(client, object, PatchParams::apply(MANAGER).force().dry_run()).await
}

async fn send(client: &Client, object: &Value, mut params: PatchParams) -> Result<()> {
    let (namespace, name) = key(object);
    let api = api_of(client, object, &namespace).await?;
    params.field_validation = Some(ValidationDirective::Strict);
    api.patch(&name, &params, &Patch::Apply(object)).await.map_err(refusal).map(drop)
}

/// The API server adds this to other errors; it tells an author nothing.
const UNCHECKED: &str = ", <nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";

fn refusal(error: kube::Error) -> anyhow::Error {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => {
            anyhow::Error::msg(words_of_refusal(&status.message))
        }
        error => error.into(),
    }
}

/// The API server's own words, and nothing around them.
pub fn words_of_refusal(message: &str) -> String {
    let message = message.replace(UNCHECKED, "");
    // Which webhook it was is of no use to who wrote the object.
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
        let unknown = || format!("the API server does not serve kind {kind} of {group}/{version}");
        let (resource, capabilities) = found.with_context(unknown)?;
        (resource, capabilities.scope)
    };
    Ok(match scope {
        Scope::Cluster => Api::all_with(client.clone(), &resource),
        Scope::Namespaced => Api::namespaced_with(client.clone(), namespace, &resource),
    })
}

/// The kinds applied in numbers need no discovery each time.
fn known(group: &str, version: &str, kind: &str) -> Option<(ApiResource, Scope)> {
    let (plural, scope) = match kind {
        "Namespace" => ("namespaces", Scope::Cluster),
        "StorageClass" => ("storageclasses", Scope::Cluster),
        "ResourceQuota" => ("resourcequotas", Scope::Namespaced),
        "VirtualMachineClass" => ("virtualmachineclasses", Scope::Cluster),
        "VirtualMachineClassBinding" => ("virtualmachineclassbindings", Scope::Namespaced),
        "TanzuKubernetesCluster" => ("tanzukubernetesclusters", Scope::Namespaced),
        _ => return None,
    };
    let kind = GroupVersionKind::gvk(group, version, kind);
    Some((ApiResource::from_gvk_with_plural(&kind, plural), scope))
}
