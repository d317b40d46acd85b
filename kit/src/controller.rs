//! Runs reconciles for one kind. kube's scheduler runs at most one reconcile per object at a time. The objects come from kit's
//! caches.
//!
//! Every reconcile gets a span, a deadline, metrics, its object's retry delay, and a slot from a pool that namespaces share. It
//! waits until every cache that it reads is complete, and until the cached object isn't older than this process's last write.

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
use crate::reconcile::{self, Reconcile, Reported};
use crate::retry::{Disposition, Failures, Next, REQUEUE_SOON, RateLimiter, ReconcileError, jitter};
use crate::runtime::Runtime;
use crate::share::slots::{ReconcileSlot, Slots};
use crate::watch::{Cache, Change, Watchable};

/// The default deadline for a reconcile, so that a hanging call doesn't hold its slot forever.
const DEADLINE: Duration = Duration::from_mins(1);
/// The interval at which every object is reconciled even without a change.
const RESYNC: Duration = Duration::from_hours(8);
/// The number of reconciles per object that may follow each other without a delay.
const BURST: u32 = 20;
/// The interval between reconciles of one object after a burst.
const REFILL: Duration = Duration::from_secs(1);
/// The time after which a warning is logged if a cache's first list isn't complete.
const SLOW_LIST: Duration = Duration::from_secs(10);
/// The default number of concurrent reconciles.
const CONCURRENCY: usize = 32;

/// A predicate that selects the objects to reconcile.
type Keeps<K> = Box<dyn Fn(&K) -> bool + Send + Sync>;

/// Connects a kind's reconcile function to its caches and triggers.
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
    /// Creates a controller that reconciles the objects in `cache` when they appear and when anything but their status changes.
    /// `name` identifies the controller in logs and metrics.
    pub fn new(name: &'static str, runtime: &Runtime, cache: &Cache<K>) -> Self {
        let (wake, woken) = mpsc::unbounded_channel();
        let failures = Arc::<Failures<ObjectRef<K>>>::default();
        let (wakes, forgets) = (wake.clone(), Arc::clone(&failures));
        cache.listen(move |change| match &change.new {
            Some(new) if triggers_reconcile(change.old.as_deref(), new) => send(&wakes, reference(&**new)),
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

    /// Sets the maximum number of concurrent reconciles (default: 32). A single namespace gets at most half.
    #[must_use]
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.concurrency = concurrency;
        self
    }

    /// Skips objects for which `keeps` returns false.
    #[must_use]
    pub fn only(mut self, keeps: impl Fn(&K) -> bool + Send + Sync + 'static) -> Self {
        self.keeps = Box::new(keeps);
        self
    }

    /// Sets the deadline for each reconcile. The default is one minute.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Delays the first reconcile until `other`, a cache that reconciles read, is complete.
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

    /// Reconciles an object when one of its children changes. An object's children are the objects whose controller owner
    /// reference names it.
    #[must_use]
    pub fn owns<C: Watchable>(self, children: &Cache<C>) -> Self {
        self.watches(children, |child| controller_of(child).into_iter().collect())
    }

    /// Reconciles some objects when an object in `others` changes. `to` returns references to the objects to reconcile.
    ///
    /// `to` is called with the old version and with the new version of the changed object. It should look up
    /// the references in an [`crate::index::Index`] instead of scanning a cache.
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

    /// Same as [`Self::watches`], but calls `to` once, with the change itself.
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

    /// Same as [`Self::watches`], for a kind that may not be served. The first reconcile doesn't wait for an unserved kind.
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

    /// Reconciles the objects that `stream` yields, for triggers outside the API server, such as vCenter.
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

    /// Runs a reconciler's steps for each object until the program shuts down. See [`Reconcile`].
    pub async fn drive<R>(self, reconciler: R)
    where
        K: Reported,
        R: Reconcile<Kind = K>,
    {
        self.run(Arc::new(reconciler), reconcile::reconcile).await;
    }

    /// Runs reconciles until the program shuts down, then waits for the running reconciles to finish.
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
            // The scheduler polls all running reconciles when any of them wakes. A spawned task makes each such poll cheap.
            let step = tokio::spawn(Arc::clone(&steps).step(object, ctx, slot));
            let ended =
                AbortOnDropHandle::new(step).map(|ended| match ended.map_err(JoinError::try_into_panic) {
                    Ok(action) => Ok(action),
                    Err(Ok(panic)) => std::panic::resume_unwind(panic),
                    // Only a runtime that shuts down cancels the task.
                    Err(Err(_cancelled)) => Ok(Action::await_change()),
                });
            ended.right_future()
        };
        let never = |_: Arc<K>, never: &Infallible, _: Arc<Ctx>| match *never {};
        let queue = woken.map(Ok::<_, Infallible>).take_until(self.shutdown.clone().cancelled_owned());
        // The slots limit the concurrency: a reconcile without a slot returns at once.
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

/// The state and settings that a controller's reconciles share.
struct Steps<K: Watchable, F> {
    name: &'static str,
    deadline: Duration,
    keeps: Keeps<K>,
    failures: Arc<Failures<ObjectRef<K>>>,
    /// Limits the reconcile rate per object. The key is a hash of the object's reference, to save memory. Objects with the same
    /// hash share a limit.
    limiter: RateLimiter<u64>,
    metrics: Arc<Metrics>,
    expectations: Arc<Expectations>,
    reconcile: F,
}

impl<K: Watchable, F> Steps<K, F> {
    async fn step<Ctx, Fut, E>(
        self: Arc<Self>,
        object: Arc<K>,
        ctx: Arc<Ctx>,
        _slot: ReconcileSlot<K>,
    ) -> Action
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
        if let Err(wait) = self.limiter.admit(hash_reference(&reference), std::time::Instant::now()) {
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

    /// Returns the metric label and the next action. `result` is `None` if the deadline passed.
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
            Disposition::Overtaken => {
                tracing::debug!(why = %error, "overtaken");
                Action::requeue(jitter(REQUEUE_SOON))
            }
            // Waiting between two failures isn't a success, so the failure count stays.
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

fn hash_reference<K: Watchable>(reference: &ObjectRef<K>) -> u64 {
    let mut hasher = DefaultHasher::new();
    reference.hash(&mut hasher);
    hasher.finish()
}

/// Returns true if a change should trigger a reconcile: the object is new, or anything but its status changed. For kinds without
/// a generation, every change counts.
pub fn triggers_reconcile<K: Resource>(old: Option<&K>, new: &K) -> bool {
    let Some(old) = old else { return true };
    let (old, new) = (old.meta(), new.meta());
    // Without a generation, status changes can't be distinguished from other changes, so every new version counts.
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

/// Returns a reference to the `K` that controls `child`, if there is one.
pub fn controller_of<K, C>(child: &C) -> Option<ObjectRef<K>>
where
    K: Resource<DynamicType = ()>,
    C: Resource,
{
    let owner = controller_in_group(child, &K::group(&()))?;
    (owner.kind == K::kind(&())).then(|| reference_to(child.meta().namespace.as_deref(), &owner.name))
}

/// Returns the owner that controls `child`, if the owner's kind belongs to the API group `group`.
pub fn controller_in_group<'c, C: Resource>(child: &'c C, group: &str) -> Option<&'c OwnerReference> {
    let owners = child.meta().owner_references.as_deref().unwrap_or_default();
    let owner = owners.iter().find(|owner| owner.controller == Some(true))?;
    (owner.api_version.split_once('/').map_or("", |(group, _)| group) == group).then_some(owner)
}

/// Enqueues a reconcile. Sending fails only after the controller ended because the program shuts down. That error is ignored.
fn send<K: Watchable>(wake: &mpsc::UnboundedSender<ObjectRef<K>>, reference: ObjectRef<K>) {
    let _ = wake.send(reference);
}

#[cfg(test)]
mod tests;
