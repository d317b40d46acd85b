//! Binds changes to the session in which they were decided.
//!
//! A managed object reference is valid for one vCenter database. After a restore from a backup, vCenter assigns
//! references again, so that a reference from before may now refer to another VM. The restored vCenter doesn't know the
//! earlier sessions. Therefore, a change that was decided with one session's data must not be sent in another session.

use std::cell::{Cell, RefCell};

use jiff::Timestamp;

use crate::{Error, Kind, MoRef, Result};

tokio::task_local! {
    /// The session to which changes by the current Tokio task are bound.
    static PIN: Cell<Pin>;
    /// The vCenter task that the current work waits for.
    static AWAITED: RefCell<Option<AwaitedTask>>;
}

/// A vCenter task that the current work waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AwaitedTask {
    pub task: MoRef,
    /// The time at which the wait began.
    pub since: Timestamp,
}

/// Returns the vCenter task that the current work waits for. Always `None` outside [`with_bound_changes`].
pub fn awaited_task() -> Option<AwaitedTask> {
    AWAITED.try_with(|awaited| awaited.borrow().clone()).ok().flatten()
}

/// Records the awaited task until the guard is dropped.
pub(crate) fn await_task(task: &MoRef) -> Awaiting {
    let awaited = AwaitedTask { task: task.clone(), since: Timestamp::now() };
    // Fails outside `with_bound_changes`. Ignore that.
    let _ = AWAITED.try_with(|current| current.replace(Some(awaited)));
    Awaiting
}

/// A guard that clears the awaited task when it is dropped.
pub(crate) struct Awaiting;

impl Drop for Awaiting {
    fn drop(&mut self) {
        let _ = AWAITED.try_with(|current| current.replace(None));
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Pin {
    /// Changes are allowed in any session.
    Free,
    /// Changes are allowed in the session with this number.
    Session(u64),
    /// Changes are not allowed, because the cache was incomplete when they were bound.
    Nowhere,
}

/// Runs `work`, which may bind its changes to a session with [`crate::Inventory::bind_changes`].
pub async fn with_bound_changes<T>(work: impl Future<Output = T>) -> T {
    AWAITED.scope(RefCell::default(), PIN.scope(Cell::new(Pin::Free), work)).await
}

/// Allows further changes by the current Tokio task only in the session with this number. `None` prohibits further changes in any
/// session.
pub(crate) fn bind_changes(session: Option<u64>) {
    let pin = session.map_or(Pin::Nowhere, Pin::Session);
    // Fails outside `with_bound_changes`. Ignore that.
    let _ = PIN.try_with(|bound| bound.set(pin));
}

/// Returns an error if the current Tokio task isn't allowed to make changes in the session with this number.
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
