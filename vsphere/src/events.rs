//! What vCenter has noted: who removed a VM, and when.

use crate::{Client, MoRef, Object, Result, Value};

/// A VM was removed from vCenter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    /// The event's type, such as `VmRemovedEvent`.
    pub event: String,
    /// When, as vCenter's clock has it.
    pub at: Option<jiff::Timestamp>,
    /// Who did it; vCenter itself leaves it empty.
    pub user: String,
    /// The VM's name.
    pub name: String,
    /// The VM, by its former reference.
    pub vm: Option<MoRef>,
}

impl Client {
    /// The removals of VMs that vCenter has noted below `datacenter` since then, the newest last.
    ///
    /// A removed VM can't be asked about by its reference any more; its datacenter can.
    pub async fn removals(&self, datacenter: &MoRef, since: Option<jiff::Timestamp>) -> Result<Vec<Removal>> {
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
        // Their keys have an order, whatever vCenter's clock was set to.
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
