//! Creates a session's views and filter, and adds folders to them.

use std::sync::Arc;

use super::shared::{Built, Shared};
use super::update::{ObjectUpdate, UpdateKind};
use super::vm::paths;
use crate::error::unexpected;
use crate::http::Pool;
use crate::session::SessionHandle;
use crate::spec::{filter_spec, object_spec, property_spec, traversal};
use crate::{Error, Kind, MoRef, Object, ObjectContent, Result, Value};

const TASK_PATHS: &[&str] = &["info.descriptionId", "info.state", "info.error", "info.result"];
/// The maximum number of attempts to add a folder. An attempt fails if the session is lost meanwhile.
const TRIES: u32 = 4;

/// Creates the views and the filter in the current session.
pub(super) async fn build(shared: &Shared) -> Result<Built> {
    let client = &shared.client;
    let live = client.session().await?;
    let collector = client.service("propertyCollector")?;
    let roots = shared.state.read().roots.clone();
    let mut views = Vec::with_capacity(roots.len());
    let mut seen = Vec::with_capacity(roots.len());
    for root in roots {
        match container_view(shared, &live, &root).await {
            Ok(view) => {
                views.push(view);
                seen.push(root);
            }
            // The folder's VMs are gone, too, or were moved. `locate` asks vCenter about them.
            Err(error) if error.is_not_found() => {
                tracing::warn!(folder = %root, "the folder does not exist, so nothing in it is watched");
            }
            Err(error) => return Err(error),
        }
    }
    let containers = list_view(shared, &live, views).await?;
    let task_list = list_view(shared, &live, Vec::new()).await?;
    let args = Object::new("CreateFilterRequestType")
        .with("spec", stream_spec(&containers, &task_list, paths(&shared.client.about().api_version)))
        .with("partialUpdates", false);
    call(shared, &live, &collector, "CreateFilter", args).await?;
    Ok(Built { live, collector, containers, task_list, roots: parking_lot::Mutex::new(seen) })
}

/// Returns a filter that selects the VMs in all containers and the tasks in the list. `paths` lists the properties to watch for
/// each VM.
fn stream_spec(containers: &MoRef, task_list: &MoRef, paths: &[&str]) -> Value {
    let vms = traversal("ContainerView", "view", Vec::new());
    let containers = object_spec(containers, true, vec![traversal("ListView", "view", vec![vms])]);
    let tasks = object_spec(task_list, true, vec![traversal("ListView", "view", Vec::new())]);
    let properties = vec![property_spec("VirtualMachine", paths), property_spec("Task", TASK_PATHS)];
    filter_spec(properties, vec![containers, tasks], false)
}

async fn container_view(shared: &Shared, live: &SessionHandle, folder: &MoRef) -> Result<MoRef> {
    let args = Object::new("CreateContainerViewRequestType")
        .with("container", folder)
        .with("type", vec!["VirtualMachine"])
        .with("recursive", true);
    let manager = shared.client.service("viewManager")?;
    let view =
        call(shared, live, &manager, "CreateContainerView", args).await.map_err(|error| error.on(folder))?;
    reference(&view, "CreateContainerView")
}

async fn list_view(shared: &Shared, live: &SessionHandle, members: Vec<MoRef>) -> Result<MoRef> {
    let args = Object::new("CreateListViewRequestType").with_list("obj", members);
    let manager = shared.client.service("viewManager")?;
    reference(&call(shared, live, &manager, "CreateListView", args).await?, "CreateListView")
}

fn reference(value: &Value, method: &'static str) -> Result<MoRef> {
    value.as_moref().cloned().ok_or_else(|| unexpected(method, "no reference in the answer"))
}

pub(super) async fn call(
    shared: &Shared,
    live: &SessionHandle,
    target: &MoRef,
    method: &'static str,
    args: Object,
) -> Result<Value> {
    let timeout = shared.client.config().call_timeout;
    shared.client.call_in(live, Pool::Calls, target, method, Some(args), timeout).await
}

/// Adds a folder to the current views and reads its VMs once.
///
/// The folder is read outside the stream, because the stream doesn't signal when it has sent the whole folder.
pub(super) async fn add_root(shared: &Shared, folder: &MoRef) -> Result<()> {
    let _one = shared.adding.lock().await;
    if !shared.state.read().roots.contains(folder) {
        shared.state.write().roots.push(folder.clone());
    }
    let mut last = None;
    for _ in 0..TRIES {
        let built = wait_until_built(shared).await?;
        if built.roots.lock().contains(folder) {
            return Ok(());
        }
        match extend(shared, &built, folder).await {
            Ok(()) => {
                built.roots.lock().push(folder.clone());
                return Ok(());
            }
            Err(error) if matches!(error.kind(), Kind::NotFound { missing: Some(missing) } if missing == folder) =>
            {
                shared.state.write().roots.retain(|root| root != folder);
                return Err(error);
            }
            Err(error) => {
                // Most likely the session was lost. The stream notices and rebuilds the views, including this folder.
                shared.broken.notify_one();
                let mut changes = shared.built.subscribe();
                let timeout = shared.client.config().call_timeout;
                let other = changes.wait_for(|now| !now.as_ref().is_some_and(|now| Arc::ptr_eq(now, &built)));
                drop(tokio::time::timeout(timeout, other).await);
                last = Some(error);
            }
        }
    }
    Err(last.unwrap_or_else(|| Error::new("AddRoot", Kind::TimedOut)).on(folder))
}

/// Waits until the cache is complete and returns the current views. Fails after the call timeout.
async fn wait_until_built(shared: &Shared) -> Result<Arc<Built>> {
    let timeout = shared.client.config().call_timeout;
    let wait = async {
        let mut status = shared.status.subscribe();
        loop {
            // `shared` keeps the sender alive, so this can't fail.
            drop(status.wait_for(|status| status.complete).await);
            if let Some(built) = shared.built.borrow().clone() {
                return built;
            }
            drop(status.changed().await);
        }
    };
    tokio::time::timeout(timeout, wait).await.map_err(|_| {
        let trouble = shared.state.read().trouble.clone();
        trouble.unwrap_or_else(|| Error::new("CreateContainerView", Kind::TimedOut))
    })
}

async fn extend(shared: &Shared, built: &Built, folder: &MoRef) -> Result<()> {
    let view = container_view(shared, &built.live, folder).await?;
    shared.state.write().cache.reading();
    let args = Object::new("ModifyListViewRequestType").with("add", vec![view.clone()]);
    call(shared, &built.live, &built.containers, "ModifyListView", args).await?;
    let vms = object_spec(&view, true, vec![traversal("ContainerView", "view", Vec::new())]);
    let spec = filter_spec(
        vec![property_spec("VirtualMachine", paths(&shared.client.about().api_version))],
        vec![vms],
        false,
    );
    let outcome = shared
        .client
        .retrieve_pages(spec, |_first, page| {
            let deltas = shared.state.write().cache.read(page.into_iter().map(as_enter));
            shared.publish(&deltas);
        })
        .await;
    shared.state.write().cache.has_read();
    outcome
}

fn as_enter(content: ObjectContent) -> ObjectUpdate {
    ObjectUpdate { obj: content.obj.clone(), kind: UpdateKind::Enter, changes: content.into_properties() }
}
