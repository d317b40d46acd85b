//! The id of this installation where the administrator gives none: drawn once, and kept.
//!
//! Two installations without an id would take each other's VMs for their own. So one is drawn when the program
//! first meets a configuration without `StackID`, and kept in a ConfigMap beside it, which is created and never
//! changed: whoever comes second reads what the first has drawn. An installation that has created VMs before ids
//! were drawn keeps the empty one, which its VMs bear.

use std::time::Duration;

use api::names::annotation;
use api::vmop::VirtualMachine;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kit::retry::Failures;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client, ResourceExt};
use uuid::Uuid;

/// The ConfigMap in the program's own namespace that keeps a drawn id.
pub const STACK_CONFIG_MAP: &str = "vmware-system-vmop-stack";
/// Its key: the same as the provider configuration's, where it is to be entered in another cluster.
const KEY: &str = "StackID";
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));
/// Objects in one page of a list.
const PAGE: u32 = 500;

/// The drawn id of this installation; read or drawn when it is first asked for.
pub struct DrawnStackId {
    client: Client,
    namespace: String,
    known: Option<String>,
}

impl DrawnStackId {
    /// The id that is kept in `namespace`.
    pub fn new(client: Client, namespace: String) -> Self {
        Self { client, namespace, known: None }
    }

    /// The id; asks the API server until it answers.
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

/// Returns the id that was drawn, if one was; draws none.
pub async fn drawn_stack_id(client: &Client, namespace: &str) -> kube::Result<Option<String>> {
    read(&Api::namespaced(client.clone(), namespace)).await
}

async fn find_or_draw(client: &Client, namespace: &str) -> kube::Result<String> {
    let maps = Api::<ConfigMap>::namespaced(client.clone(), namespace);
    if let Some(id) = read(&maps).await? {
        return Ok(id);
    }
    let id = if has_created_vms(client).await? { String::new() } else { Uuid::new_v4().to_string() };
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
        // Another replica was faster: its id counts.
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

/// Whether any VM was created before, by what is written in its object then.
async fn has_created_vms(client: &Client) -> kube::Result<bool> {
    let vms = Api::<VirtualMachine>::all(client.clone());
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let page = vms.list_metadata(&params).await?;
        if page.items.iter().any(|vm| vm.annotations().contains_key(annotation::FIRST_BOOT_DONE)) {
            return Ok(true);
        }
        match page.metadata.continue_.filter(|next| !next.is_empty()) {
            Some(next) => params = params.continue_token(&next),
            None => return Ok(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use serde_json::{Value, json};
    use support::api_server::{refusal, server};

    use super::*;

    const MAP: &str = "/api/v1/namespaces/ns/configmaps/vmware-system-vmop-stack";

    /// An API server with VMs that bear `annotations`; `faster` is the id that another replica writes first.
    fn cluster(annotations: Value, faster: Option<&'static str>) -> Client {
        let kept = Mutex::new(None::<Value>);
        let (client, _) = server(move |request| match request.line().as_str() {
            line if line == format!("GET {MAP}") => match kept.lock().as_ref() {
                Some(map) => (200, map.clone()),
                None => refusal(404, "NotFound"),
            },
            "POST /api/v1/namespaces/ns/configmaps" => {
                if let Some(id) = faster {
                    *kept.lock() = Some(json!({ "metadata": {}, "data": { KEY: id } }));
                    return refusal(409, "AlreadyExists");
                }
                *kept.lock() = Some(request.body.clone());
                (201, request.body.clone())
            }
            _ => {
                let vm = json!({ "metadata": { "name": "vm", "annotations": annotations } });
                (200, json!({ "metadata": {}, "items": [vm] }))
            }
        });
        client
    }

    #[tokio::test]
    async fn an_id_is_drawn_once_and_kept() {
        let client = cluster(json!({}), None);
        let drawn = find_or_draw(&client, "ns").await.unwrap();
        assert!(drawn.parse::<Uuid>().is_ok(), "{drawn}");
        assert_eq!(DrawnStackId::new(client, "ns".into()).get().await, drawn);
        let other = find_or_draw(&cluster(json!({}), None), "ns").await.unwrap();
        assert_ne!(other, drawn, "two installations share no id");
    }

    #[tokio::test]
    async fn the_first_replica_s_id_counts() {
        assert_eq!(find_or_draw(&cluster(json!({}), Some("theirs")), "ns").await.unwrap(), "theirs");
    }

    #[tokio::test]
    async fn an_installation_with_vms_keeps_the_mark_that_they_bear() {
        let created = json!({ annotation::FIRST_BOOT_DONE: "true" });
        let client = cluster(created, None);
        assert_eq!(find_or_draw(&client, "ns").await.unwrap(), "");
        assert_eq!(find_or_draw(&client, "ns").await.unwrap(), "");
    }
}
