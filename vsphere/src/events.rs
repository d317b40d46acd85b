//! Reads the vCenter events that record VM removals, with the time and the user of each removal.

use crate::{Client, MoRef, Object, Result, Value};

/// The removal of a VM from vCenter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    /// The event type, such as `VmRemovedEvent`.
    pub event: String,
    /// The time of the removal by vCenter's clock.
    pub at: Option<jiff::Timestamp>,
    /// The user who removed the VM. Empty if vCenter itself removed the VM.
    pub user: String,
    /// The VM's name.
    pub name: String,
    /// The VM's former reference.
    pub vm: Option<MoRef>,
}

impl Client {
    /// Returns the VM removals below `datacenter` since `since` (`None`: all), oldest first.
    ///
    /// The query names the datacenter, because vCenter no longer accepts the reference of a removed VM.
    pub async fn list_removals(
        &self,
        datacenter: &MoRef,
        since: Option<jiff::Timestamp>,
    ) -> Result<Vec<Removal>> {
        let entity =
            Object::new("EventFilterSpecByEntity").with("entity", datacenter).with("recursion", "all");
        let time =
            since.map(|since| Object::new("EventFilterSpecByTime").with("beginTime", since.to_string()));
        let filter = Object::new("EventFilterSpec")
            .with("entity", entity)
            .with_some("time", time)
            .with("eventTypeId", vec!["VmRemovedEvent"]);
        let args = Object::new("QueryEventsRequestType").with("filter", filter);
        let manager = self.service("eventManager")?;
        let answer = self.call(&manager, "QueryEvents", Some(args)).await?;
        let mut events: Vec<_> = answer.items().iter().collect();
        // Event keys are in order even if vCenter's clock was changed.
        events.sort_by_key(|event| event.get("key").as_i64());
        Ok(events.into_iter().map(removal).collect())
    }
}

fn removal(event: &Value) -> Removal {
    let vm = event.get("vm");
    Removal {
        event: event.type_name().to_owned(),
        at: event.get("createdTime").as_str().and_then(|time| time.parse().ok()),
        user: event.get("userName").as_str().unwrap_or_default().to_owned(),
        name: vm.get("name").as_str().unwrap_or_default().to_owned(),
        vm: vm.get("vm").as_moref().cloned(),
    }
}
