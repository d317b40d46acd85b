//! Creates objects whose intents lose fields later.

use std::sync::Arc;

use kube::ResourceExt;
use serde::Serialize;
use serde_json::{Value, json};

use super::{Api, ApplyResult, add_type, hash, is_conflict};
use crate::watchable::Watchable;

/// The maximum number of attempts to transfer field ownership while other writers change the object.
const ATTEMPTS: u8 = 5;

impl Api {
    /// Same as [`Self::create_or_apply`], for an intent that can lose fields later.
    ///
    /// The fields of a created object belong to an `Update` entry in its managed fields, so a later apply without a field would
    /// not remove the field. This function turns the entry into an `Apply` entry right after the creation, as if the object had
    /// been applied.
    pub async fn create_or_apply_whole<K>(
        &self,
        intent: &K,
        live: Option<&Arc<K>>,
    ) -> kube::Result<ApplyResult<K>>
    where
        K: Watchable + Serialize,
    {
        let created = match self.create_or_apply(intent, live).await? {
            ApplyResult::Sent(created) if live.is_none() => created,
            applied => return Ok(applied),
        };
        let mut object = Arc::unwrap_or_clone(created);
        // If another writer changes the object in between, read it again.
        for _ in 0..ATTEMPTS {
            let Some(patch) = applied_fields(&object, self.manager) else { break };
            match self.patch(&object, patch).await {
                Ok(patched) => {
                    object = patched;
                    break;
                }
                Err(error) if is_conflict(&error) => match self.live(&object).await? {
                    Some(live) => object = live,
                    None => break,
                },
                Err(error) => return Err(error),
            }
        }
        Ok(self.record_sent(object, hash(&add_type::<K>(intent)?)))
    }
}

/// Returns the patch that turns the manager's `Update` entry into an `Apply` entry, or `None` if there isn't such an entry.
fn applied_fields<K: Watchable>(object: &K, manager: &str) -> Option<Value> {
    let mut fields = object.managed_fields().to_vec();
    let created = fields.iter_mut().find(|entry| {
        entry.manager.as_deref() == Some(manager)
            && entry.operation.as_deref() == Some("Update")
            && entry.subresource.is_none()
    })?;
    created.operation = Some("Apply".to_owned());
    Some(json!({ "metadata": { "managedFields": fields } }))
}
