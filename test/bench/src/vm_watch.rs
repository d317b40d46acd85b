//! Counts VMs by their progress, with a single watch.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Result, bail};
use futures::{StreamExt, TryStreamExt};
use kube::Client;
use kube::api::{Api, ApiResource, GroupVersionKind, NotUsed, Object, ResourceExt};
use kube::runtime::watcher::{self, Event};
use serde::{Deserialize, Serialize};
use support::wait::in_time;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::testbed::NAMESPACE;

/// The status fields that are counted.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    power_state: Option<String>,
    vm_ip: Option<String>,
    conditions: Vec<Condition>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    message: Option<String>,
}

/// A VM's last seen state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Seen {
    on: bool,
    ip: bool,
    ready: bool,
}

/// The number of VMs in each state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VmCounts {
    /// True if the first list is complete.
    pub known: bool,
    pub there: usize,
    pub on: usize,
    pub ip: usize,
    pub ready: usize,
    /// The Ready message from a VM that isn't ready.
    pub complaint: Option<String>,
}

/// A watch of all VirtualMachines in the namespace.
pub struct VmWatch {
    counts: watch::Receiver<VmCounts>,
    task: JoinHandle<()>,
}

impl Drop for VmWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl VmWatch {
    /// Starts the watch and waits for the first list.
    pub async fn start(client: Client) -> Result<Self> {
        let (sender, counts) = watch::channel(VmCounts::default());
        let task = tokio::spawn(async move {
            let kind = GroupVersionKind::gvk("vmoperator.vmware.com", "v1alpha1", "VirtualMachine");
            let api: Api<Object<NotUsed, Status>> =
                Api::namespaced_with(client, NAMESPACE, &ApiResource::from_gvk(&kind));
            let mut events = watcher::watcher(api, watcher::Config::default()).boxed();
            let mut seen = HashMap::new();
            loop {
                match events.try_next().await {
                    Ok(Some(event)) => sender.send_modify(|count| count_event(event, &mut seen, count)),
                    Ok(None) => return,
                    Err(error) => tracing::warn!(%error, "the watch of the VMs is interrupted"),
                }
            }
        });
        let mut watch = Self { counts, task };
        watch.wait_until("a list of the VMs", Duration::from_mins(1), |count| count.known).await?;
        Ok(watch)
    }

    /// Waits until `reached` returns true, and returns the time at which it did.
    pub async fn wait_until(
        &mut self,
        what: &str,
        limit: Duration,
        reached: impl FnMut(&VmCounts) -> bool,
    ) -> Result<Instant> {
        let waited = in_time(what, limit, self.counts.wait_for(reached)).await.map(|seen| seen.map(drop));
        match waited {
            Ok(Ok(())) => Ok(Instant::now()),
            Ok(Err(_)) => bail!("the watch of the VMs has ended"),
            Err(late) => bail!("{late}: {:?}", *self.counts.borrow()),
        }
    }
}

fn count_event(
    event: Event<Object<NotUsed, Status>>,
    seen: &mut HashMap<String, Seen>,
    count: &mut VmCounts,
) {
    let name = match &event {
        Event::Init => return,
        Event::InitDone => {
            count.known = true;
            return;
        }
        Event::Apply(object) | Event::InitApply(object) | Event::Delete(object) => object.name_any(),
    };
    let now = match event {
        Event::Apply(object) | Event::InitApply(object) => Some(see(object.status, count)),
        _ => None,
    };
    let was = match now {
        Some(now) => seen.insert(name, now),
        None => seen.remove(&name),
    };
    let tally = |all: &mut usize, holds: fn(Seen) -> bool| {
        *all += usize::from(now.is_some_and(holds));
        *all -= usize::from(was.is_some_and(holds));
    };
    tally(&mut count.there, |_| true);
    tally(&mut count.on, |seen| seen.on);
    tally(&mut count.ip, |seen| seen.ip);
    tally(&mut count.ready, |seen| seen.ready);
}

fn see(status: Option<Status>, count: &mut VmCounts) -> Seen {
    let status = status.unwrap_or_default();
    let ready = status.conditions.iter().find(|condition| condition.kind == "Ready");
    if let Some(why) = ready.filter(|ready| ready.status != "True").and_then(|ready| ready.message.clone()) {
        count.complaint = Some(why);
    }
    Seen {
        on: status.power_state.as_deref() == Some("poweredOn"),
        ip: status.vm_ip.is_some_and(|ip| !ip.is_empty()),
        ready: ready.is_some_and(|ready| ready.status == "True"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vm_is_counted_once_however_often_it_changes() {
        let object = |status: serde_json::Value| -> Object<NotUsed, Status> {
            serde_json::from_value(serde_json::json!({
                "apiVersion": "vmoperator.vmware.com/v1alpha1", "kind": "VirtualMachine",
                "metadata": {"name": "a"}, "spec": {}, "status": status,
            }))
            .unwrap()
        };
        let (mut seen, mut count) = (HashMap::new(), VmCounts::default());
        let on = serde_json::json!({"powerState": "poweredOn", "vmIp": "10.0.0.1"});
        count_event(Event::InitApply(object(serde_json::json!({}))), &mut seen, &mut count);
        count_event(Event::InitDone, &mut seen, &mut count);
        count_event(Event::Apply(object(on.clone())), &mut seen, &mut count);
        count_event(Event::Apply(object(on.clone())), &mut seen, &mut count);
        assert_eq!((count.known, count.there, count.on, count.ip, count.ready), (true, 1, 1, 1, 0));
        count_event(Event::Delete(object(on)), &mut seen, &mut count);
        assert_eq!((count.there, count.on), (0, 0));
    }
}
