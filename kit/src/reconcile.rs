//! Drives a kind's reconcile through the same steps for every kind: gather → plan → carry out → status.
//!
//! The steps differ in their signatures. `gather`, `carry_out` and `delete` take the reconciler, which has a client. `plan` and
//! `status` don't take it, so they have no client. If they need the current time, `gather` adds it to the facts. The driver does
//! the rest: it leaves moving and paused objects alone, settles and writes the status, and returns the result to the
//! [`Controller`](crate::Controller).

use std::sync::Arc;

use api::condition_lists::ConditionLists;
use jiff::Timestamp;
use kube::Resource;
use kube::core::object::HasStatus;
use serde::Serialize;

use crate::apply::Api;
use crate::moving::is_moving;
use crate::retry::{Next, ReconcileError};
use crate::status::{Conditional, settle_all};
use crate::watchable::Watchable;

/// The status of the kind that `R` reconciles.
pub type StatusOf<R> = <<R as Reconcile>::Kind as HasStatus>::Status;

/// A kind with a status that the driver can settle and write.
pub trait Reported:
    Watchable + HasStatus<Status: ConditionLists<Condition: Conditional> + Serialize + Send + Sync>
{
}

impl<K> Reported for K where
    K: Watchable + HasStatus<Status: ConditionLists<Condition: Conditional> + Serialize + Send + Sync>
{
}

/// The steps for one kind. The reconciler itself has the caches and clients that the steps need.
pub trait Reconcile: Send + Sync + 'static {
    /// The reconciled kind.
    type Kind: Reported;
    /// Everything that was read for one reconcile.
    type Facts: Send + Sync;
    /// The writes that a reconcile intends.
    type Plan: Send;
    /// The results of the writes.
    type Done: Send + Sync;
    /// The reasons why a reconcile fails.
    type Error: ReconcileError;

    /// Returns the client that writes the status.
    fn api(&self) -> &Api;

    /// Returns the error for a status that the API server did not accept.
    fn refused(object: &Self::Kind, error: kube::Error) -> Self::Error;

    /// Stops this process's other work on the object, such as a connection that outlives a reconcile. It is called for an object
    /// that moves, is paused or is being deleted.
    fn suspend(&self, _object: &Self::Kind) {}

    /// Reads what the other steps need to know.
    fn gather(
        &self,
        object: &Arc<Self::Kind>,
    ) -> impl Future<Output = Result<Self::Facts, Self::Error>> + Send;

    /// Returns true if the object and everything that belongs to it must stay as it is.
    fn is_paused(_object: &Self::Kind, _facts: &Self::Facts) -> bool {
        false
    }

    /// Propagates the pause, or its end, to the object's children. It is called before the object is planned or deleted.
    fn propagate_pause(
        &self,
        _object: &Self::Kind,
        _facts: &Self::Facts,
        _paused: bool,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send {
        std::future::ready(Ok(()))
    }

    /// Decides what to write. An error means that nothing is written except the status.
    fn plan(object: &Self::Kind, facts: &Self::Facts) -> Result<Self::Plan, Self::Error>;

    /// Carries the plan out. If it changes the object itself, it replaces `object` by the API server's response.
    fn carry_out(
        &self,
        object: &mut Arc<Self::Kind>,
        plan: Self::Plan,
        facts: &Self::Facts,
    ) -> impl Future<Output = Result<Self::Done, Self::Error>> + Send;

    /// Carries out the next step of the object's deletion. The default leaves an object that is being deleted alone.
    fn delete(
        &self,
        _object: &Arc<Self::Kind>,
        _facts: &Self::Facts,
    ) -> impl Future<Output = Result<DeletionProgress<Self::Done>, Self::Error>> + Send {
        std::future::ready(Ok(DeletionProgress::Gone))
    }

    /// Computes the status, or returns `None` if the status stays as it is. The driver sets the transition times of the conditions.
    fn status(seen: &Seen<'_, Self>) -> Option<StatusOf<Self>>;

    /// Publishes events after a reconcile. `new` is the status if it was written.
    fn publish(&self, _seen: &Seen<'_, Self>, _new: Option<&StatusOf<Self>>) {}

    /// Carries out writes that depend on the new status.
    fn follow_up(
        &self,
        _seen: &Seen<'_, Self>,
        _new: Option<&StatusOf<Self>>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send {
        std::future::ready(Ok(()))
    }

    /// Returns the time of the next reconcile, or the error of a write that failed while other writes succeeded.
    fn conclude(_done: Self::Done) -> Result<Next, Self::Error> {
        Ok(Next::OnChange)
    }
}

/// The result of a step of a deletion.
pub enum DeletionProgress<Done> {
    /// Nothing remains to be done. The object is gone, or another program deletes it.
    Gone,
    /// The object remains until another reconcile.
    Remains(Done),
}

/// The result of a reconcile before the status is written.
pub enum ReconcileOutcome<Done, Error> {
    /// Nothing was done, because the object is paused.
    Paused,
    /// The plan was carried out, or a step of the deletion.
    Done(Done),
    /// A step failed.
    Failed(Error),
}

impl<Done, Error> ReconcileOutcome<Done, Error> {
    /// Returns the results of the writes, unless the object is paused or a step failed.
    pub fn done(&self) -> Option<&Done> {
        if let Self::Done(done) = self { Some(done) } else { None }
    }

    /// Returns the error of the step that failed, if one did.
    pub fn error(&self) -> Option<&Error> {
        if let Self::Failed(error) = self { Some(error) } else { None }
    }
}

impl<Done, Error> From<Result<Done, Error>> for ReconcileOutcome<Done, Error> {
    fn from(result: Result<Done, Error>) -> Self {
        result.map_or_else(Self::Failed, Self::Done)
    }
}

/// Everything from which a status is computed.
pub struct Seen<'a, R: Reconcile + ?Sized> {
    /// The object, as the API server returned it last.
    pub object: &'a R::Kind,
    /// The facts, unless they could not be gathered.
    pub facts: Option<&'a R::Facts>,
    /// The result of the reconcile.
    pub outcome: &'a ReconcileOutcome<R::Done, R::Error>,
}

impl<'a, R: Reconcile + ?Sized> Seen<'a, R> {
    /// Returns the conditions that the object had before this reconcile.
    pub fn old_conditions(&self) -> &'a [<StatusOf<R> as ConditionLists>::Condition] {
        self.object.status().map(|status| status.condition_list("")).unwrap_or_default()
    }
}

/// Reconciles one object.
pub async fn reconcile<R: Reconcile>(object: Arc<R::Kind>, reconciler: Arc<R>) -> Result<Next, R::Error> {
    let mut object = object;
    if is_moving(&*object) {
        reconciler.suspend(&object);
        return Ok(Next::OnChange);
    }
    let facts = match reconciler.gather(&object).await {
        Ok(facts) => facts,
        Err(error) => return report(&*reconciler, &object, None, ReconcileOutcome::Failed(error)).await,
    };
    let paused = R::is_paused(&object, &facts);
    let deleting = object.meta().deletion_timestamp.is_some();
    if paused || deleting {
        reconciler.suspend(&object);
    }
    reconciler.propagate_pause(&object, &facts, paused).await?;
    let outcome = if paused {
        ReconcileOutcome::Paused
    } else if deleting {
        match reconciler.delete(&object, &facts).await {
            Ok(DeletionProgress::Gone) => return Ok(Next::OnChange),
            Ok(DeletionProgress::Remains(done)) => ReconcileOutcome::Done(done),
            Err(error) => ReconcileOutcome::Failed(error),
        }
    } else {
        match R::plan(&object, &facts) {
            Ok(plan) => ReconcileOutcome::from(reconciler.carry_out(&mut object, plan, &facts).await),
            Err(error) => ReconcileOutcome::Failed(error),
        }
    };
    report(&*reconciler, &object, Some(&facts), outcome).await
}

/// Writes the status and publishes events. Nothing is reported if the object changed during the reconcile, because another
/// reconcile follows at once.
async fn report<R: Reconcile>(
    reconciler: &R,
    object: &R::Kind,
    facts: Option<&R::Facts>,
    outcome: ReconcileOutcome<R::Done, R::Error>,
) -> Result<Next, R::Error> {
    let outcome = match outcome {
        ReconcileOutcome::Failed(error) if error.is_overtaken() => return Err(error),
        outcome => outcome,
    };
    let seen = Seen { object, facts, outcome: &outcome };
    let mut new = R::status(&seen);
    let mut written = false;
    if let Some(new) = &mut new {
        settle_all(new, object.status(), Timestamp::now());
        let sent = reconciler.api().patch_status(object, new).await;
        written = sent.map_err(|error| R::refused(object, error))?;
    }
    reconciler.publish(&seen, new.as_ref().filter(|_| written));
    reconciler.follow_up(&seen, new.as_ref()).await?;
    match outcome {
        ReconcileOutcome::Paused => Ok(Next::OnChange),
        ReconcileOutcome::Done(done) => R::conclude(done),
        ReconcileOutcome::Failed(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
