//! Applies, reads and deletes objects of any kind, and waits for them.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::stream::{self, StreamExt, TryStreamExt};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams,
};
use kube::{Client, ResourceExt};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::error::{Doing, Error, Result};
use crate::wait::until;

/// The field manager for applied objects.
const FIELD_MANAGER: &str = "layercake";
/// The maximum number of concurrent requests. More requests would only queue up in the API server.
const CONCURRENCY: usize = 8;
/// The time limit for retries after transient refusals.
const LIMIT: Duration = Duration::from_secs(15);
/// The delay between two attempts to send a request.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// The lifetime of ServiceAccount tokens. They are requested again at every start, so expiry doesn't matter.
const TOKEN_SECONDS: i64 = 365 * 24 * 3600;

/// Applies objects concurrently. Stops at the first error.
pub async fn apply_all<'a>(client: &Client, objects: impl IntoIterator<Item = &'a Value>) -> Result<()> {
    stream::iter(objects)
        .map(|object| apply(client, object))
        .buffer_unordered(CONCURRENCY)
        .try_for_each(|()| std::future::ready(Ok(())))
        .await
}

/// Creates or updates an object with server-side apply. Retries after transient refusals.
pub async fn apply(client: &Client, object: &Value) -> Result<()> {
    apply_within(client, object, LIMIT).await
}

/// Applies an object like [`apply`], but retries after transient refusals for at most `limit`.
pub async fn apply_within(client: &Client, object: &Value, limit: Duration) -> Result<()> {
    let (api, object) = typed(client, object)?;
    let params = PatchParams::apply(FIELD_MANAGER).force();
    let name = object.name_any();
    let patched =
        until_settled(limit, async || api.patch(&name, &params, &Patch::Apply(&object)).await.map(drop));
    patched.await.doing(|| describe("apply", &object))
}

/// Sends a request until the API server accepts it or refuses it permanently, or until `limit` has passed.
async fn until_settled(limit: Duration, request: impl AsyncFn() -> kube::Result<()>) -> kube::Result<()> {
    let deadline = Instant::now() + limit;
    loop {
        match request().await {
            Err(error) if is_transient(&error) && Instant::now() < deadline => sleep(RETRY_INTERVAL).await,
            settled => return settled,
        }
    }
}

/// Describes an operation on an object, for errors.
fn describe(verb: &str, object: &DynamicObject) -> String {
    let kind = object.types.as_ref().map_or("", |types| &types.kind);
    format!("{verb} {kind} {}", object.name_any())
}

/// Creates an object if it doesn't exist. Doesn't change an existing object.
pub async fn create_if_missing(client: &Client, object: &Value) -> Result<()> {
    let (api, object) = typed(client, object)?;
    match api.create(&PostParams::default(), &object).await {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        created => created.map(drop).doing(|| describe("create", &object)),
    }
}

/// Deletes objects concurrently. Ignores objects that don't exist and kinds that aren't served.
pub async fn delete_all<'a>(client: &Client, objects: impl IntoIterator<Item = &'a Value>) -> Result<()> {
    stream::iter(objects)
        .map(|object| delete(client, object))
        .buffer_unordered(CONCURRENCY)
        .try_for_each(|()| std::future::ready(Ok(())))
        .await
}

async fn delete(client: &Client, object: &Value) -> Result<()> {
    let (api, object) = typed(client, object)?;
    let name = object.name_any();
    let deleted = until_settled(LIMIT, async || match api.delete(&name, &DeleteParams::background()).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        deleted => deleted.map(drop),
    });
    deleted.await.doing(|| describe("delete", &object))
}

/// Reads the live object with the kind, namespace and name in `object`. Returns `None` if the live object doesn't exist
/// or its kind isn't served.
pub async fn read(client: &Client, object: &Value) -> Result<Option<DynamicObject>> {
    let (api, object) = typed(client, object)?;
    api.get_opt(&object.name_any()).await.doing(|| describe("read", &object))
}

/// Returns true for errors that can resolve by themselves: connection errors, conflicts, a namespace or kind that doesn't
/// exist yet, and an overloaded or failing server.
fn is_transient(error: &kube::Error) -> bool {
    match error {
        // A manifest with an unknown field also causes a 500, but this error doesn't resolve by itself.
        kube::Error::Api(status) if status.message.contains("failed to create typed patch") => false,
        kube::Error::Api(status) => matches!(status.code, 404 | 409 | 429 | 500..),
        kube::Error::HyperError(_) | kube::Error::Service(_) => true,
        _ => false,
    }
}

fn typed(client: &Client, object: &Value) -> Result<(Api<DynamicObject>, DynamicObject)> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let wrong = |reason: String| Error::Manifest { what: name.to_owned(), reason };
    let object: DynamicObject =
        serde_json::from_value(object.clone()).map_err(|error| wrong(error.to_string()))?;
    let types = object.types.clone().ok_or_else(|| wrong("no apiVersion and kind".to_owned()))?;
    let kind = GroupVersionKind::try_from(&types).map_err(|error| wrong(error.to_string()))?;
    let resource = ApiResource::from_gvk(&kind);
    let api = match object.namespace() {
        Some(namespace) => Api::namespaced_with(client.clone(), &namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    Ok((api, object))
}

/// Waits until the API server serves every served version of the CRDs. Then the CRDs are established, and clients can
/// watch their kinds.
///
/// # Errors
/// Returns an error if a version isn't served within `limit`.
pub async fn served(client: &Client, definitions: &[Value], limit: Duration) -> Result<()> {
    let mut wanted: BTreeSet<(String, String)> = BTreeSet::new();
    for definition in definitions {
        let text = |pointer: &str| definition.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (group, plural) = (text("/spec/group"), text("/spec/names/plural"));
        for version in definition["spec"]["versions"].as_array().into_iter().flatten() {
            if version["served"] == true {
                let version = version["name"].as_str().unwrap_or_default();
                wanted.insert((format!("{group}/{version}"), plural.to_owned()));
            }
        }
    }
    until("the API server does not serve the custom resource definitions yet", limit, async || {
        let groups: BTreeSet<_> = wanted.iter().map(|(group, _)| group.clone()).collect();
        for group in groups {
            let found = client
                .list_api_group_resources(&group)
                .await
                .unwrap_or_else(|_| APIResourceList { group_version: group.clone(), resources: Vec::new() });
            wanted.retain(|(of, plural)| {
                *of != group || !found.resources.iter().any(|resource| resource.name == *plural)
            });
        }
        match wanted.first() {
            None => Ok(()),
            Some((group, plural)) => Err(format!("{plural} in {group} missing")),
        }
    })
    .await
}

/// Waits until the API server has computed the rules of every ClusterRole with an aggregation rule in `objects`, for at
/// most a minute each.
pub async fn aggregated(client: &Client, objects: &[Value]) -> Result<()> {
    for object in objects.iter().filter(|object| object.get("aggregationRule").is_some()) {
        let (api, role) = typed(client, object)?;
        let name = role.name_any();
        let what = format!("the ClusterRole {name} has no rules");
        until(&what, Duration::from_mins(1), async || {
            let role = api.get(&name).await.map_err(|error| error.to_string())?;
            match role.data["rules"].as_array() {
                Some(rules) if !rules.is_empty() => Ok(()),
                _ => Err("kube-controller-manager has not aggregated it yet".to_owned()),
            }
        })
        .await?;
    }
    Ok(())
}

/// Requests a token for a ServiceAccount.
pub async fn token(client: &Client, namespace: &str, account: &str) -> Result<String> {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let request = TokenRequest {
        spec: Some(TokenRequestSpec {
            expiration_seconds: Some(TOKEN_SECONDS),
            ..TokenRequestSpec::default()
        }),
        ..TokenRequest::default()
    };
    let answer = accounts
        .create_token_request(account, &PostParams::default(), &request)
        .await
        .doing(|| format!("get a token for the ServiceAccount {namespace}/{account}"))?;
    Ok(answer.status.and_then(|status| status.token).unwrap_or_default())
}
