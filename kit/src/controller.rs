//! A controller: kube's scheduler (one reconcile per object), fed by our caches, with the habits of the house.
//!
//! Every reconcile has a span, a deadline, a place in the metrics, a delay after failure of its own, and a slot of those that
//! namespaces share. None begins before every cache it reads is complete, or while the cache shows its object older than we wrote it.

use std::convert::Infallible;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, Stream, StreamExt, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::runtime::controller::{Action, Config, Error as SchedulerError, applier};
use kube::runtime::reflector::ObjectRef;
use kube::{Resource, ResourceExt};
use tokio::sync::mpsc;
use tokio::task::JoinError;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument;

use crate::expectations::Expectations;
use crate::index::{reference, reference_to};
use crate::metrics::Metrics;
use crate::optional::Optional;
use crate::retry::{Disposition, Failures, Next, REQUEUE_SOON, RateLimiter, ReconcileError, jitter};
use crate::runtime::Runtime;
use crate::slots::{Slot, Slots};
use crate::watch::{Cache, Change, Watchable};

/// A reconcile takes no longer; a hanging call must not hold its slot for ever.
const DEADLINE: Duration = Duration::from_mins(1);
/// Every object is looked at again this often, change or not.
const RESYNC: Duration = Duration::from_hours(8);
/// Reconciles of one object that may follow each other at once.
const BURST: u32 = 20;
/// After a burst, one object is reconciled this often.
const REFILL: Duration = Duration::from_secs(1);
/// A first list that takes longer is worth a line in the log.
const SLOW_LIST: Duration = Duration::from_secs(10);
/// Objects reconciled at the same time.
const CONCURRENCY: usize = 32;

/// Whether an object is one that the controller acts on.
type Keeps<K> = Box<dyn Fn(&K) -> bool + Send + Sync>;

/// Wires the reconcile of one kind to what makes it run.
pub struct Controller<K: Watchable> {
    name: &'static str,
    cache: Cache<K>,
    wake: mpsc::UnboundedSender<ObjectRef<K>>,
    woken: mpsc::UnboundedReceiver<ObjectRef<K>>,
    complete: Vec<BoxFuture<'static, ()>>,
    concurrency: usize,
    deadline: Duration,
    keeps: Keeps<K>,
    failures: Arc<Failures<ObjectRef<K>>>,
    metrics: Arc<Metrics>,
    expectations: Arc<Expectations>,
    shutdown: CancellationToken,
}

impl<K: Watchable> Controller<K> {
    /// Reconciles the objects of `cache` when they appear, and when anything but their status changes.
    pub fn new(name: &'static str, runtime: &Runtime, cache: &Cache<K>) -> Self {
        let (wake, woken) = mpsc::unbounded_channel();
        let failures = Arc::<Failures<ObjectRef<K>>>::default();
        let (wakes, forgets) = (wake.clone(), Arc::clone(&failures));
        cache.listen(move |change| match &change.new {
            Some(new) if steers(change.old.as_deref(), new) => send(&wakes, reference(&**new)),
            Some(_) => {}
            None => change.old.iter().for_each(|old| forgets.reset(&reference(&**old))),
        });
        Self {
            name,
            cache: cache.clone(),
            wake,
            woken,
            complete: Vec::new(),
            concurrency: CONCURRENCY,
            deadline: DEADLINE,
            keeps: Box::new(|_| true),
            failures,
            metrics: Arc::clone(&runtime.metrics),
            expectations: Arc::clone(&runtime.expectations),
            shutdown: runtime.shutdown.clone(),
        }
        .reads(cache)
    }

    /// Runs at most so many reconciles at the same time. Those of one namespace alone get half of the slots.
    #[must_use]
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.concurrency = concurrency;
        self
    }

    /// Leaves alone the objects of which `keeps` says no.
    #[must_use]
    pub fn only(mut self, keeps: impl Fn(&K) -> bool + Send + Sync + 'static) -> Self {
        self.keeps = Box::new(keeps);
        self
    }

    /// Gives each reconcile so much time.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Waits for `other` to be complete before the first reconcile, which reads it.
    #[must_use]
    pub fn reads<O: Watchable>(mut self, other: &Cache<O>) -> Self {
        let other = other.clone();
        let complete = async move {
            if tokio::time::timeout(SLOW_LIST, other.complete()).await.is_err() {
                tracing::warn!(kind = %O::kind(&()), "still waiting for the first list; is the kind installed?");
                other.complete().await;
            }
        };
        self.complete.push(complete.boxed());
        self
    }

    /// Reconciles an object when one of its children changes: one whose controller owner reference names it.
    #[must_use]
    pub fn owns<C: Watchable>(self, children: &Cache<C>) -> Self {
        self.watches(children, |child| controller_of(child).into_iter().collect())
    }

    /// Reconciles the objects that `to` names when one of `others` changes.
    ///
    /// `to` is asked about the object as it was and as it is; it should look into an [`crate::index::Index`],
    /// never scan.
    #[must_use]
    pub fn watches<O, F>(self, others: &Cache<O>, to: F) -> Self
    where
        O: Watchable,
        F: Fn(&O) -> Vec<ObjectRef<K>> + Send + 'static,
    {
        self.watches_changes(others, move |change| {
            let mut concerned: Vec<_> = change.sides().flat_map(|side| to(side)).collect();
            concerned.dedup();
            concerned
        })
    }

    /// Reconciles the objects that `to` names when one of `others` changes, judging by the change itself.
    #[must_use]
    pub fn watches_changes<O, F>(self, others: &Cache<O>, to: F) -> Self
    where
        O: Watchable,
        F: Fn(&Change<O>) -> Vec<ObjectRef<K>> + Send + 'static,
    {
        let wake = self.wake.clone();
        others.listen(move |change| to(change).into_iter().for_each(|reference| send(&wake, reference)));
        self.reads(others)
    }

    /// As [`Self::watches`], of a kind that may not be served: then it is not waited for.
    #[must_use]
    pub fn watches_optional<O, F>(mut self, others: &Optional<O>, to: F) -> Self
    where
        O: Watchable,
        F: Fn(&O) -> Vec<ObjectRef<K>> + Send + 'static,
    {
        let (wake, settled) = (self.wake.clone(), others.clone());
        others.cache().listen(move |change| {
            change.sides().flat_map(|side| to(side)).for_each(|reference| send(&wake, reference));
        });
        self.complete.push(async move { settled.settled().await }.boxed());
        self
    }

    /// Reconciles the objects that `stream` names; for causes outside the API server, vCenter say.
    #[must_use]
    pub fn wakes_on(self, stream: impl Stream<Item = ObjectRef<K>> + Send + 'static) -> Self {
        let wake = self.wake.clone();
        tokio::spawn(async move {
            let mut stream = std::pin::pin!(stream);
            while let Some(reference) = stream.next().await {
                send(&wake, reference);
            }
        });
        self
    }

    /// Reconciles until the program shuts down; reconciles that have begun then are let through.
    pub async fn run<Ctx, F, Fut, E>(self, ctx: Arc<Ctx>, reconcile: F)
    where
        Ctx: Send + Sync + 'static,
        F: Fn(Arc<K>, Arc<Ctx>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Next, E>> + Send + 'static,
        E: ReconcileError,
    {
        let all = futures::future::join_all(self.complete);
        tokio::select! {
            _ = all => tracing::debug!(controller = self.name, "caches are complete"),
            () = self.shutdown.cancelled() => return,
        }
        let steps = Arc::new(Steps {
            name: self.name,
            deadline: self.deadline,
            keeps: self.keeps,
            failures: self.failures,
            limiter: RateLimiter::new(BURST, REFILL),
            metrics: self.metrics,
            expectations: self.expectations,
            reconcile,
        });
        let woken = stream::unfold(self.woken, |mut woken| async move {
            woken.recv().await.map(|reference| (reference, woken))
        });
        let slots = Slots::new(self.concurrency, self.wake);
        let entered = slots.clone();
        let reconcile = move |object: Arc<K>, ctx| {
            let Some(slot) = entered.enter(&reference(&*object)) else {
                return std::future::ready(Ok(Action::await_change())).left_future();
            };
            // All that are under way are polled whenever one of them may go on: each is a task of its own, which
            // is cheap to poll.
            let step = tokio::spawn(Arc::clone(&steps).step(object, ctx, slot));
            let ended =
                AbortOnDropHandle::new(step).map(|ended| match ended.map_err(JoinError::try_into_panic) {
                    Ok(action) => Ok(action),
                    Err(Ok(panic)) => std::panic::resume_unwind(panic),
                    // The runtime goes, and all its tasks with it.
                    Err(Err(_cancelled)) => Ok(Action::await_change()),
                });
            ended.right_future()
        };
        let never = |_: Arc<K>, never: &Infallible, _: Arc<Ctx>| match *never {};
        let queue = woken.map(Ok::<_, Infallible>).take_until(self.shutdown.clone().cancelled_owned());
        // The slots count: what has none ends at once.
        applier(reconcile, never, ctx, self.cache.store(), queue, Config::default().concurrency(0))
            .for_each(|result| {
                match result {
                    Ok(_) => {}
                    Err(SchedulerError::ObjectNotFound(gone)) => {
                        slots.give_up(&reference_to(gone.namespace.as_deref(), &gone.name));
                    }
                    Err(error) => tracing::warn!(%error, "controller"),
                }
                std::future::ready(())
            })
            .await;
    }
}

/// What surrounds each reconcile.
struct Steps<K: Watchable, F> {
    name: &'static str,
    deadline: Duration,
    keeps: Keeps<K>,
    failures: Arc<Failures<ObjectRef<K>>>,
    /// By a hash, as every object has an entry after a start: two that share one share their pace.
    limiter: RateLimiter<u64>,
    metrics: Arc<Metrics>,
    expectations: Arc<Expectations>,
    reconcile: F,
}

impl<K: Watchable, F> Steps<K, F> {
    async fn step<Ctx, Fut, E>(self: Arc<Self>, object: Arc<K>, ctx: Arc<Ctx>, _slot: Slot<K>) -> Action
    where
        F: Fn(Arc<K>, Arc<Ctx>) -> Fut,
        Fut: Future<Output = Result<Next, E>>,
        E: ReconcileError,
    {
        if !(self.keeps)(&object) {
            return Action::await_change();
        }
        if self.expectations.check_fresh(&*object).is_err() {
            return Action::requeue(jitter(REQUEUE_SOON));
        }
        let reference = reference(&*object);
        if let Err(wait) = self.limiter.admit(hashed(&reference), std::time::Instant::now()) {
            return Action::requeue(jitter(wait));
        }
        let span = tracing::info_span!(
            "reconcile",
            controller = self.name,
            object = %crate::index::key(object.meta().namespace.as_deref(), &object.name_any()),
            generation = object.meta().generation,
        );
        let began = Instant::now();
        let reconcile = (self.reconcile)(object, ctx).instrument(span.clone());
        let result = tokio::time::timeout(self.deadline, reconcile).await;
        let (label, action) = span.in_scope(|| self.schedule_next(reference, result.ok()));
        self.metrics.reconciled(self.name, label, began.elapsed());
        action
    }

    /// The metric's label, and when to look again. No result means that the deadline passed.
    fn schedule_next<E: ReconcileError>(
        &self,
        reference: ObjectRef<K>,
        result: Option<Result<Next, E>>,
    ) -> (&'static str, Action) {
        let Some(result) = result else {
            let delay = self.failures.next(reference);
            tracing::warn!(?delay, deadline = ?self.deadline, "reconcile took too long; trying again");
            return ("TimedOut", Action::requeue(delay));
        };
        let error = match result {
            Ok(next) => {
                self.failures.reset(&reference);
                let delay = if let Next::After(delay) = next { delay } else { RESYNC };
                return ("Done", Action::requeue(jitter(delay)));
            }
            Err(error) => error,
        };
        let action = match error.disposition() {
            Disposition::Failed => {
                let delay = self.failures.next(reference);
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    ?delay,
                    "reconcile failed; trying again"
                );
                Action::requeue(delay)
            }
            // A wait between two failures is no success: the row goes on.
            Disposition::Waiting(delay) => {
                tracing::debug!(why = %error, "waiting");
                Action::requeue(jitter(delay.unwrap_or(RESYNC)))
            }
            Disposition::Invalid => {
                self.failures.reset(&reference);
                tracing::info!(why = %error, "invalid; waiting for a change");
                Action::requeue(jitter(RESYNC))
            }
        };
        (error.label(), action)
    }
}

fn hashed<K: Watchable>(reference: &ObjectRef<K>) -> u64 {
    let mut hasher = DefaultHasher::new();
    reference.hash(&mut hasher);
    hasher.finish()
}

/// Whether a change is one to act on: a new object, or one that differs in anything but its status.
pub fn steers<K: Resource>(old: Option<&K>, new: &K) -> bool {
    let Some(old) = old else { return true };
    let (old, new) = (old.meta(), new.meta());
    // A kind without generations has no status of its own: every version is a change.
    let spec_changed = match (old.generation, new.generation) {
        (Some(old), Some(new)) => old != new,
        _ => old.resource_version != new.resource_version,
    };
    spec_changed
        || old.uid != new.uid
        || old.deletion_timestamp != new.deletion_timestamp
        || old.labels != new.labels
        || old.annotations != new.annotations
        || old.finalizers != new.finalizers
        || old.owner_references != new.owner_references
}

/// The object of kind `K` that controls `child`, if one does.
pub fn controller_of<K, C>(child: &C) -> Option<ObjectRef<K>>
where
    K: Resource<DynamicType = ()>,
    C: Resource,
{
    let owner = controller_in_group(child, &K::group(&()))?;
    (owner.kind == K::kind(&())).then(|| reference_to(child.meta().namespace.as_deref(), &owner.name))
}

/// Returns the owner that controls an object, if its kind belongs to that API group.
pub fn controller_in_group<'c, C: Resource>(child: &'c C, group: &str) -> Option<&'c OwnerReference> {
    let owners = child.meta().owner_references.as_deref().unwrap_or_default();
    let owner = owners.iter().find(|owner| owner.controller == Some(true))?;
    (owner.api_version.split_once('/').map_or("", |(group, _)| group) == group).then_some(owner)
}

/// The receiver is gone only when the controller ended with the program.
fn send<K: Watchable>(wake: &mpsc::UnboundedSender<ObjectRef<K>>, reference: ObjectRef<K>) {
    let _ = wake.send(reference);
}

#[cfg(test)]
mod tests;
