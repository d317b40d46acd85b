//! Reads a bundle from its source.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kit::apply::get;
use kit::bounded::compute;
use kube::{Api, Client};

use super::builtin::BuiltIn;
use super::bundle::{Bundle, BundleError, BundleMode, BundleSecret, LIMITS};
use super::choice::{BundleSource, ChosenAddon};
use super::manifest::Manifest;
use super::render::Values;
use super::{config_map, image, manifest};

/// Reads an add-on's bundle. Fails with the reason, for the add-on's status.
pub async fn read(management: &Client, namespace: &str, addon: &ChosenAddon) -> Result<Bundle, String> {
    match &addon.source {
        BundleSource::BuiltIn(bundle) => Ok(bundle.bundle()),
        BundleSource::Generated(generated) => {
            Ok(Bundle { version: Some(generated.version().to_owned()), ..Bundle::default() })
        }
        BundleSource::Image(node_image) => {
            let property = image::property(node_image, &addon.name)
                .ok_or("the node image no longer contains this add-on")?;
            let property = property.to_owned();
            let read = compute(namespace, LIMITS, move |budget| image::read(&property, budget)).await;
            read.map_err(|error| error.to_string())
        }
        BundleSource::Nowhere { .. } => Err("no source provides this add-on".to_owned()),
        BundleSource::ConfigMap { name, .. } => {
            let mut bundle = read_config_map(management, namespace, name).await?;
            // A ConfigMap without manifests configures the built-in bundle.
            if bundle.files.is_empty() && bundle.mode != BundleMode::Unmanaged {
                let there = BuiltIn::named(&addon.name)
                    .map(BuiltIn::bundle)
                    .ok_or("the ConfigMap has no manifests, and no built-in bundle has this name")?;
                bundle.version = bundle.version.or(there.version);
                bundle.files = there.files;
            }
            Ok(bundle)
        }
    }
}

/// Reads the bundle in a ConfigMap, with the files from its Secret.
async fn read_config_map(management: &Client, namespace: &str, name: &str) -> Result<Bundle, String> {
    let map = get::<ConfigMap>(management, Some(namespace), name).await;
    let map = map.map_err(|error| format!("it can't be read: {error}"))?;
    let mut bundle =
        config_map::read(&map.ok_or("the ConfigMap no longer exists")?.data.unwrap_or_default())?;
    if let Some(secret) = bundle.secret.as_ref().map(|secret| secret.name.clone()) {
        let read = get::<Secret>(management, Some(namespace), &secret).await;
        let read = read.map_err(|error| format!("Secret {secret} can't be read: {error}"))?;
        let read = read.ok_or_else(|| format!("Secret {secret} does not exist"))?;
        config_map::add_secret(&mut bundle, &secret, read)?;
    }
    Ok(bundle)
}

/// Returns true if a bundle's Secret was changed or deleted after it was read. An API server that doesn't answer proves neither.
pub async fn is_secret_changed(management: &Client, namespace: &str, read: &BundleSecret) -> bool {
    let secrets = Api::<Secret>::namespaced(management.clone(), namespace);
    let live = secrets.get_metadata_opt(&read.name).await;
    live.is_ok_and(|live| live.and_then(|live| live.metadata.resource_version) != read.version)
}

/// Parses a bundle's objects.
pub async fn parse(namespace: &str, bundle: &Bundle, values: &Values) -> Result<Vec<Manifest>, BundleError> {
    let (files, values) = (bundle.files.clone(), values.clone());
    compute(namespace, LIMITS, move |budget| manifest::parse(&files, &values, budget)).await
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use support::api_server::{refusal, server};

    use super::*;

    #[tokio::test]
    async fn a_secret_that_was_changed_or_deleted_is_noticed() {
        let secret = |version: &str| {
            json!({
                "apiVersion": "v1", "kind": "Secret", "type": config_map::SECRET_TYPE,
                "metadata": {"name": "files", "namespace": "ns", "resourceVersion": version},
                "data": {"a.yaml": ""},
            })
        };
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web"}, "data": {"secret": "files"},
        });
        let (client, _) = server(move |request| match request.line().rsplit('/').next() {
            Some("web") => (200, map.clone()),
            _ => (200, secret("7")),
        });
        let bundle = read_config_map(&client, "ns", "web").await.unwrap();
        assert_eq!(bundle.files.len(), 1);
        let read = bundle.secret.unwrap();
        assert!(!is_secret_changed(&client, "ns", &read).await);
        let (client, requests) = server(move |_| (200, secret("8")));
        assert!(is_secret_changed(&client, "ns", &read).await);
        assert_eq!(requests.lock()[0].line(), "GET /api/v1/namespaces/ns/secrets/files");
        for (refused, changed) in [((404, "NotFound"), true), ((500, "InternalError"), false)] {
            let (client, _) = server(move |_| refusal(refused.0, refused.1));
            assert_eq!(is_secret_changed(&client, "ns", &read).await, changed);
        }
    }
}
