//! The generated installation id, for configurations without `StackID`.
//!
//! Two installations without an id would adopt each other's VMs. So an id is generated when the program first sees a
//! configuration without `StackID`, and stored in an immutable ConfigMap in the same namespace. The first replica to create the
//! ConfigMap wins.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kit::retry::Failures;
use kube::api::PostParams;
use kube::{Api, Client};
use uuid::Uuid;

/// The ConfigMap in the program's own namespace that stores a generated id.
pub const STACK_CONFIG_MAP: &str = "vmware-system-vmop-stack";
/// The ConfigMap key for the id. The provider configuration uses the same key, so that the entry can be copied to another
/// cluster.
const KEY: &str = "StackID";
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));

/// The generated installation id, which is read or generated on first use.
pub struct DrawnStackId {
    client: Client,
    namespace: String,
    known: Option<String>,
}

impl DrawnStackId {
    /// Creates a reader for the id in `namespace`.
    pub fn new(client: Client, namespace: String) -> Self {
        Self { client, namespace, known: None }
    }

    /// Returns the id. Retries until the API server responds.
    pub async fn get(&mut self) -> String {
        let failures = Failures::new(RETRY.0, RETRY.1);
        loop {
            if let Some(known) = &self.known {
                return known.clone();
            }
            match find_or_draw(&self.client, &self.namespace).await {
                Ok(id) => self.known = Some(id),
                Err(error) => {
                    tracing::warn!(%error, "no StackID is configured, and the generated one can't be read; trying again");
                    tokio::time::sleep(failures.next(())).await;
                }
            }
        }
    }
}

/// Returns the stored id, if one is stored. Doesn't generate an id.
pub async fn drawn_stack_id(client: &Client, namespace: &str) -> kube::Result<Option<String>> {
    read(&Api::namespaced(client.clone(), namespace)).await
}

async fn find_or_draw(client: &Client, namespace: &str) -> kube::Result<String> {
    let maps = Api::<ConfigMap>::namespaced(client.clone(), namespace);
    if let Some(id) = read(&maps).await? {
        return Ok(id);
    }
    let id = Uuid::new_v4().to_string();
    let metadata = ObjectMeta { name: Some(STACK_CONFIG_MAP.to_owned()), ..ObjectMeta::default() };
    let data = Some([(KEY.to_owned(), id.clone())].into());
    let map = ConfigMap { metadata, data, immutable: Some(true), ..ConfigMap::default() };
    match maps.create(&PostParams::default(), &map).await {
        Ok(_) => {
            tracing::info!(
                id,
                config_map = STACK_CONFIG_MAP,
                "no StackID is configured; keeping the generated one"
            );
            Ok(id)
        }
        // Another replica was faster, so use its id.
        Err(kube::Error::Api(status)) if status.is_already_exists() => {
            Ok(read(&maps).await?.unwrap_or_default())
        }
        Err(error) => Err(error),
    }
}

async fn read(maps: &Api<ConfigMap>) -> kube::Result<Option<String>> {
    let map = maps.get_opt(STACK_CONFIG_MAP).await?;
    Ok(map.map(|map| map.data.and_then(|mut data| data.remove(KEY)).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use serde_json::{Value, json};
    use support::api_server::{refusal, server};

    use super::*;

    const MAP: &str = "/api/v1/namespaces/ns/configmaps/vmware-system-vmop-stack";

    /// Returns an API server on which another replica stores the id `faster` first.
    fn cluster(faster: Option<&'static str>) -> Client {
        let kept = Mutex::new(None::<Value>);
        let (client, _) = server(move |request| match request.line().as_str() {
            line if line == format!("GET {MAP}") => match kept.lock().as_ref() {
                Some(map) => (200, map.clone()),
                None => refusal(404, "NotFound"),
            },
            _ => {
                if let Some(id) = faster {
                    *kept.lock() = Some(json!({ "metadata": {}, "data": { KEY: id } }));
                    return refusal(409, "AlreadyExists");
                }
                *kept.lock() = Some(request.body.clone());
                (201, request.body.clone())
            }
        });
        client
    }

    #[tokio::test]
    async fn an_id_is_drawn_once_and_kept() {
        let client = cluster(None);
        let drawn = find_or_draw(&client, "ns").await.unwrap();
        assert!(drawn.parse::<Uuid>().is_ok(), "{drawn}");
        assert_eq!(DrawnStackId::new(client, "ns".into()).get().await, drawn);
        let other = find_or_draw(&cluster(None), "ns").await.unwrap();
        assert_ne!(other, drawn, "two installations share no id");
    }

    #[tokio::test]
    async fn the_first_replica_s_id_counts() {
        assert_eq!(find_or_draw(&cluster(Some("theirs")), "ns").await.unwrap(), "theirs");
    }
}
