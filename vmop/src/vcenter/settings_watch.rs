//! Watches the objects of the provider configuration, each by name.

use std::collections::BTreeMap;

use api::vmop::PROVIDER_CONFIGURATION;
use futures::StreamExt;
use futures::stream::BoxStream;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, Client, ResourceExt};
use tokio::sync::watch;

use crate::vcenter::provider::Provider;
use crate::vcenter::settings::{ConfigData, ConfigProblem, LIBRARIES_CHANGED, ProviderSettings};
use crate::vcenter::stack_id::DrawnStackId;

/// The settings or their problem. `None` until the objects were read.
pub type KnownSettings = Option<Result<ProviderSettings, ConfigProblem>>;

/// Watches the ConfigMap and its Secret, and publishes the settings. Also notifies the provider of changes in the
/// content libraries.
pub async fn follow_settings(
    client: Client,
    namespace: String,
    provider: &Provider,
    known: watch::Sender<KnownSettings>,
) {
    let mut maps = follow_object::<ConfigMap>(&client, &namespace, PROVIDER_CONFIGURATION);
    let mut secrets: Option<(String, BoxStream<'static, Option<Secret>>)> = None;
    let mut drawn = DrawnStackId::new(client.clone(), namespace.clone());
    let (mut map, mut secret): (Option<Option<ConfigMap>>, Option<Option<Secret>>) = (None, None);
    loop {
        tokio::select! {
            Some(seen) = maps.next() => {
                provider.set_libraries_changed(seen.as_ref().and_then(|map| map.annotations().get(LIBRARIES_CHANGED)));
                map = Some(seen);
            }
            Some(seen) = next_of(secrets.as_mut()) => secret = Some(seen),
            else => return,
        }
        let Some(map) = &map else { continue };
        let parsed = ConfigData::new(&namespace, map.as_ref().and_then(|map| map.data.as_ref()));
        let name = parsed.as_ref().ok().and_then(|map| map.credentials_secret().ok());
        if secrets.as_ref().map(|(name, _)| name.as_str()) != name {
            secret = None;
            secrets = name.map(|name| (name.to_owned(), follow_object(&client, &namespace, name)));
        }
        let mut settings = match (&parsed, name, &secret) {
            (Ok(_), Some(_), None) => continue,
            (Ok(map), _, secret) => read_settings(map, secret.as_ref().and_then(Option::as_ref)),
            (Err(problem), ..) => Err(problem.clone()),
        };
        if let Ok(settings) = &mut settings
            && settings.stack.is_empty()
        {
            settings.stack = drawn.get().await;
        }
        known.send_if_modified(|old| {
            let new = Some(settings);
            let changed = *old != new;
            *old = new;
            changed
        });
    }
}

fn read_settings(map: &ConfigData<'_>, secret: Option<&Secret>) -> Result<ProviderSettings, ConfigProblem> {
    let mut settings = map.settings(secret_data(secret).as_ref())?;
    settings.secret.uid = secret.and_then(|secret| secret.metadata.uid.clone()).unwrap_or_default();
    Ok(settings)
}

fn secret_data(secret: Option<&Secret>) -> Option<BTreeMap<String, Vec<u8>>> {
    let data = secret?.data.clone().unwrap_or_default();
    Some(data.into_iter().map(|(key, value)| (key, value.0)).collect())
}

async fn next_of<T>(stream: Option<&mut (String, BoxStream<'static, T>)>) -> Option<T> {
    match stream {
        Some((_, stream)) => stream.next().await,
        None => std::future::pending().await,
    }
}

/// Watches one object, and yields `None` while it doesn't exist. Other objects aren't read or cached, because the kind can be
/// Secret.
pub fn follow_object<K>(client: &Client, namespace: &str, name: &str) -> BoxStream<'static, Option<K>>
where
    K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + serde::de::DeserializeOwned
        + std::fmt::Debug
        + Send
        + 'static,
{
    let api = Api::<K>::namespaced(client.clone(), namespace);
    kit::watch::one(api, name)
}
