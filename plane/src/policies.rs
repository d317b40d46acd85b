//! Deletes admission policies from a plane's kept data, because they would refuse requests when the API server starts.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use components::catalogue::{COMPONENTS, ManifestSource};
use components::config;
use kube::Client;
use serde_json::{Value, json};
use tracing::instrument::WithSubscriber;
use tracing::subscriber::NoSubscriber;

use crate::error::Result;
use crate::supervise::Supervised;

/// The etcd key prefix of admission policies.
const PREFIX: &str = "/registry/validatingadmissionpolicies/";
/// The suffix of API groups that Kubernetes itself serves.
const BUILT_IN: &str = ".k8s.io";

/// Deletes from etcd those of Layercake's admission policies whose parameters have a custom kind. The policies are
/// applied again when Layercake's programs start. Other policies stay.
///
/// When an API server starts, it looks up the policies' parameter kinds before it serves custom kinds, and again only
/// 30 s later. Until then, policies with parameters of a custom kind would refuse every request.
pub(crate) async fn forget(store: &Supervised, etcd: &Client, within: Duration) -> Result<()> {
    let names = with_custom_parameters()?;
    let deleted = async || {
        for name in &names {
            let body = json!({"key": STANDARD.encode(format!("{PREFIX}{name}"))}).to_string().into_bytes();
            let request = http::Request::post("/v3/kv/deleterange").body(body);
            let request = request.map_err(|error| error.to_string())?;
            // etcd refuses requests until it has elected itself leader, and the client logs refusals as errors.
            let answer = etcd.request_text(request).with_subscriber(NoSubscriber::new()).await;
            answer.map_err(|error| error.to_string())?;
        }
        Ok(())
    };
    store.until("etcd does not delete the admission policies of the programs", within, deleted).await
}

/// Returns the names of Layercake's admission policies whose parameters have a custom kind.
fn with_custom_parameters() -> Result<Vec<String>> {
    let mut names = Vec::new();
    for component in &COMPONENTS {
        let ManifestSource::Config(folder) = component.source else { continue };
        let documents = config::documents(folder)?;
        let policies = documents.iter().filter(|document| {
            document["kind"] == "ValidatingAdmissionPolicy" && has_custom_parameters(&document["spec"])
        });
        names.extend(policies.filter_map(|policy| Some(policy["metadata"]["name"].as_str()?.to_owned())));
    }
    Ok(names)
}

fn has_custom_parameters(spec: &Value) -> bool {
    let version = spec["paramKind"]["apiVersion"].as_str();
    let group = version.and_then(|version| Some(version.split_once('/')?.0));
    group.is_some_and(|group| group.contains('.') && !group.ends_with(BUILT_IN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn custom_kinds_are_those_of_other_groups() {
        for (version, is_custom) in [
            (Some("infrastructure.cluster.vmware.com/v1beta2"), true),
            (Some("v1"), false),
            (Some("apps/v1"), false),
            (Some("rbac.authorization.k8s.io/v1"), false),
            (None, false),
        ] {
            let spec =
                json!({"paramKind": version.map(|version| json!({"apiVersion": version, "kind": "X"}))});
            assert_eq!(has_custom_parameters(&spec), is_custom, "{version:?}");
        }
    }

    #[test]
    fn our_policies_with_parameters_of_custom_kinds_are_known() {
        insta::assert_debug_snapshot!(with_custom_parameters().unwrap());
    }
}
