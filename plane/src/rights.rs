//! Requests tokens for ServiceAccounts, and waits for the rules of aggregated ClusterRoles.

use std::time::Duration;

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kit::objects::Objects;
use kube::Client;
use kube::api::{Api, PostParams};
use serde_json::Value;

use crate::error::{OperationContext, Result};
use crate::wait::until;

/// The lifetime of ServiceAccount tokens. They are requested again at every start, so expiry doesn't matter.
const TOKEN_SECONDS: i64 = 365 * 24 * 3600;

/// Waits until the API server has computed the rules of every ClusterRole with an aggregation rule in `objects`, for at
/// most a minute each.
pub async fn aggregated(client: &Client, objects: &[Value]) -> Result<()> {
    for object in objects.iter().filter(|object| object.get("aggregationRule").is_some()) {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let what = format!("the ClusterRole {name} has no rules");
        until(&what, Duration::from_mins(1), async || {
            let role = Objects::new(client).read(object).await.map_err(|error| error.to_string())?;
            match role.as_ref().and_then(|role| role.data["rules"].as_array()) {
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
