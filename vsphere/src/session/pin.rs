//! Changes that reach only the session in which they were decided.
//!
//! A managed object reference holds for as long as vCenter's database does. A vCenter that was restored from a backup draws
//! references anew, so that one which was read before may now be another VM's. A restored vCenter knows no session of before:
//! whatever was decided from what one session showed must not be sent in the next.

use std::cell::{Cell, RefCell};

use jiff::Timestamp;

use crate::{Error, Kind, MoRef, Result};

tokio::task_local! {
    /// What the calls of a task are bound to.
    static PIN: Cell<Pin>;
    /// The task of vCenter that the work waits for.
    static AWAITED: RefCell<Option<AwaitedTask>>;
}

/// A task of vCenter that the present work waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AwaitedTask {
    /// Its reference.
    pub task: MoRef,
    /// When the wait began.
    pub since: Timestamp,
}

/// Returns the task of vCenter for whose end the present work waits. For tasks that run in [`with_bound_changes`].
pub fn awaited_task() -> Option<AwaitedTask> {
    AWAITED.try_with(|awaited| awaited.borrow().clone()).ok().flatten()
}

/// Records the task that is waited for, until the guard is dropped.
pub(crate) fn await_task(task: &MoRef) -> Awaiting {
    let awaited = AwaitedTask { task: task.clone(), since: Timestamp::now() };
    // Outside a scope, nothing is recorded.
    let _ = AWAITED.try_with(|current| current.replace(Some(awaited)));
    Awaiting
}

/// While it lives, a task is waited for.
pub(crate) struct Awaiting;

impl Drop for Awaiting {
    fn drop(&mut self) {
        let _ = AWAITED.try_with(|current| current.replace(None));
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Pin {
    /// Nothing.
    Free,
    /// The session with this number.
    Session(u64),
    /// No session: the cache was not complete when it was read.
    Nowhere,
}

/// Runs `work`, which may bind its changes to a session: see [`crate::Inventory::bind_changes`].
pub async fn with_bound_changes<T>(work: impl Future<Output = T>) -> T {
    AWAITED.scope(RefCell::default(), PIN.scope(Cell::new(Pin::Free), work)).await
}

/// From here on, changes that this task makes reach the session with that number or none.
pub(crate) fn bind_changes(session: Option<u64>) {
    let pin = session.map_or(Pin::Nowhere, Pin::Session);
    // Who runs outside a scope binds nothing.
    let _ = PIN.try_with(|bound| bound.set(pin));
}

/// Whether a change may be made in the session with that number.
pub(crate) fn check_change(session: u64, method: &'static str) -> Result<()> {
    let bound = PIN.try_with(Cell::get).unwrap_or(Pin::Free);
    let may = bound == Pin::Free || bound == Pin::Session(session);
    if may { Ok(()) } else { Err(Error::new(method, Kind::NotAuthenticated)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_knows_the_task_that_it_waits_for() {
        drop(await_task(&MoRef::task("task-1")));
        assert_eq!(awaited_task(), None, "there is no work");
        let work = with_bound_changes(async {
            assert_eq!(awaited_task(), None);
            let waiting = await_task(&MoRef::task("task-1"));
            let during = awaited_task();
            drop(waiting);
            (during.map(|awaited| awaited.task), awaited_task())
        });
        assert_eq!(work.await, (Some(MoRef::task("task-1")), None));
    }

    #[tokio::test]
    async fn a_change_is_made_in_the_session_that_it_was_decided_in() {
        assert!(check_change(1, "Destroy_Task").is_ok(), "nobody bound it");
        let bound = with_bound_changes(async {
            assert!(check_change(1, "Destroy_Task").is_ok(), "nothing was read yet");
            bind_changes(Some(1));
            assert!(check_change(1, "Destroy_Task").is_ok());
            assert_eq!(*check_change(2, "Destroy_Task").unwrap_err().kind(), Kind::NotAuthenticated);
            bind_changes(None);
            check_change(1, "Destroy_Task")
        });
        assert!(bound.await.is_err());
        bind_changes(Some(1));
        assert!(check_change(2, "Destroy_Task").is_ok(), "there is no task to bind");
    }
}
