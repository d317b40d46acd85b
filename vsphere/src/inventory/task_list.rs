//! Adds tasks that callers wait for to the ListView of tasks in vCenter, in batches.

use std::sync::Arc;

use super::build::call;
use super::pace::StreamRateLimiter;
use super::shared::{Built, Shared};
use super::stream::is_passing;
use super::tasks::Batch;
use crate::retry::pause_after;
use crate::{Error, Kind, Object, Result, Value};

pub(super) async fn run(shared: Arc<Shared>) {
    let mut pace = StreamRateLimiter::new(shared.options.burst, shared.options.pace);
    let mut failures = 0;
    loop {
        while !shared.tasks.lock().due() {
            shared.tasks_due.notified().await;
        }
        pace.turn().await;
        let Some(built) = wait_until_built(&shared).await else { return };
        let batch = shared.tasks.lock().batch();
        if batch.add.is_empty() {
            shared.tasks.lock().put_back(batch);
            continue;
        }
        match add_to_list(&shared, &built, &batch).await {
            Ok(unknown) => {
                failures = 0;
                let mut tasks = shared.tasks.lock();
                for task in unknown.items().iter().filter_map(Value::as_moref) {
                    tasks.forgotten(task);
                }
            }
            Err(error) => {
                failures += 1;
                shared.tasks.lock().put_back(batch);
                repair_views(&shared, &built, &error).await;
                tokio::time::sleep(pause_after(failures)).await;
            }
        }
    }
}

async fn wait_until_built(shared: &Shared) -> Option<Arc<Built>> {
    let mut built = shared.built.subscribe();
    built.wait_for(Option::is_some).await.ok().and_then(|built| built.clone())
}

/// Updates the ListView of tasks. Returns the tasks that vCenter doesn't know.
async fn add_to_list(shared: &Shared, built: &Built, batch: &Batch) -> Result<Value> {
    let args = Object::new("ModifyListViewRequestType")
        .with_list("add", batch.add.clone())
        .with_list("remove", batch.remove.clone());
    call(shared, &built.live, &built.task_list, "ModifyListView", args).await
}

/// Requests new views unless the error is transient, because any other error means that the ListView of tasks is gone.
async fn repair_views(shared: &Shared, built: &Arc<Built>, error: &Error) {
    tracing::debug!(%error, "cannot update the list of tasks");
    if !is_passing(error) {
        let same = shared.built.borrow().as_ref().is_some_and(|now| Arc::ptr_eq(now, built));
        if same {
            if *error.kind() == Kind::NotAuthenticated {
                drop(shared.client.renew_session(built.live.epoch).await);
            }
            shared.broken.notify_one();
        }
    }
}
