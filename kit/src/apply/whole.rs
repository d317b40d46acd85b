//! Creation of an object whose intent changes later.

use std::sync::Arc;

use kube::ResourceExt;
use serde::Serialize;
use serde_json::{Value, json};

use super::{Api, Applied, hash, is_conflict, typed};
use crate::expectations::{Intent, version};
use crate::watchable::Watchable;

/// How often the fields of an object are handed over that others write meanwhile.
const ATTEMPTS: u8 = 5;

impl Api {
    /// As [`Self::create_or_apply`], for an intent whose fields come and go later.
    ///
    /// Fields of an object that was created belong to whoever created it, beside whoever applies it, and would stay when the intent
    /// has them no more. So they are handed over at once, as if the object had been applied.
    pub async fn create_or_apply_whole<K>(
        &self,
        intent: &K,
        live: Option<&Arc<K>>,
    ) -> kube::Result<Applied<K>>
    where
        K: Watchable + Serialize,
    {
        let created = match self.create_or_apply(intent, live).await? {
            Applied::Sent(created) if live.is_none() => created,
            applied => return Ok(applied),
        };
        let mut object = Arc::unwrap_or_clone(created);
        // Somebody may write the object in between: it is read again then.
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
        let (hash, version) = (hash(&typed::<K>(intent)?), version(&object).unwrap_or_default());
        self.expectations.record_intent(self.manager, &object, Intent { hash, version, confirm: None });
        Ok(Applied::Sent(Arc::new(object)))
    }
}

/// The patch that makes what `manager` created what it applied; `None` where there is nothing to make so.
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
