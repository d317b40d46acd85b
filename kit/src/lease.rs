//! Elects the leader with a coordination Lease, by compare-and-swap.
//!
//! Every attempt reads the Lease, decides, and replaces it with the resourceVersion that was read, so one of two
//! concurrent candidates gets a conflict. As in client-go, a holder counts as dead if the record hasn't changed for
//! the lease duration by the candidate's own clock, so clock skew does no harm. That clock measures the time since
//! boot, which includes suspension. A holder that can't renew in time stops before another replica may take over.

use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, PostParams};
use kube::runtime::watcher::watch_object;
use kube::{Api, Client};
use tokio::time::{sleep, timeout};

use crate::api_error::is_conflict;
use crate::boot_time::{BootTime, Clock};
use crate::tenure::{RENEW_WITHIN, Tenure};

/// The lease duration. Without a renewal for this long, another replica may take over.
const DURATION: Duration = Duration::from_secs(15);
/// The timeout for releasing the lease.
pub(crate) const RELEASE: Duration = Duration::from_secs(3);

/// The intervals and timeouts that a holder uses.
#[derive(Clone, Copy)]
struct Timing {
    /// The time after the last renewal within which the holder must stop acting.
    renew_within: Duration,
    /// The renewal interval, and a candidate's delay after an error.
    renew_every: Duration,
    /// The holder's delay after an error.
    retry_after: Duration,
    /// The timeout for one renewal attempt. It leaves time for another attempt on a new connection.
    attempt: Duration,
}

const TIMING: Timing = Timing {
    renew_within: RENEW_WITHIN,
    renew_every: Duration::from_secs(3),
    retry_after: Duration::from_millis(500),
    attempt: Duration::from_secs(4),
};

/// A candidate for one Lease.
#[derive(Clone)]
pub struct Elections {
    api: Api<Lease>,
    name: String,
    identity: String,
    timing: Timing,
    clock: Clock,
}

/// A candidate's next step.
#[derive(Debug, PartialEq)]
enum Step {
    /// The Lease is free, expired or already held by this replica. Write this spec.
    Take(Box<LeaseSpec>),
    /// Another replica holds the Lease. Check again after this time, or when the Lease changes.
    Wait(Duration),
}

/// The last record that was read, and the time since which it hasn't changed.
struct Observed {
    spec: Option<LeaseSpec>,
    since: BootTime,
}

impl Elections {
    /// Creates a candidate for the Lease `namespace/name`. `identity` must differ from every other running replica's.
    pub fn new(client: Client, namespace: &str, name: &str, identity: &str) -> Self {
        let api = Api::namespaced(client, namespace);
        let clock = Clock::default();
        Self { api, name: name.to_owned(), identity: identity.to_owned(), timing: TIMING, clock }
    }

    /// Waits until this replica holds the lease, and returns the time from which it holds the lease.
    pub(crate) async fn acquire(&self) -> BootTime {
        let mut observed = Observed { spec: None, since: self.clock.now() };
        loop {
            // The response may come late. Other replicas count from the write, which can't happen before this.
            let began = self.clock.now();
            let wait = match timeout(self.timing.renew_within, self.attempt(&mut observed)).await {
                Ok(Ok(None)) => return began,
                Ok(Ok(Some(wait))) => wait,
                Ok(Err(error)) if is_conflict(&error) => continue,
                Ok(Err(error)) => {
                    tracing::warn!(lease = self.name, %error, "cannot read or write the lease; trying again");
                    self.timing.renew_every
                }
                Err(_) => self.timing.renew_every,
            };
            self.changed(&observed, wait).await;
        }
    }

    /// Renews the lease, which was last renewed at `renewed`, and records each renewal in `tenure`. Returns
    /// when renewing fails for too long or this replica isn't the holder. The replica must not act after that.
    pub(crate) async fn keep(&self, mut renewed: BootTime, tenure: &Tenure) {
        let mut wait = self.timing.renew_every;
        let left = |renewed| self.timing.renew_within.saturating_sub(self.clock.since(renewed));
        while !left(renewed).is_zero() {
            sleep(wait.min(left(renewed))).await;
            let began = self.clock.now();
            wait = self.timing.retry_after;
            let attempt = left(renewed).min(self.timing.attempt).max(Duration::from_millis(1));
            match timeout(attempt, self.renew()).await {
                Ok(Ok(true)) => {
                    (renewed, wait) = (began, self.timing.renew_every);
                    tenure.renewed(began);
                }
                Ok(Ok(false)) => return,
                Ok(Err(error)) => {
                    tracing::warn!(lease = self.name, %error, "lease not renewed; trying again");
                }
                Err(_) => tracing::warn!(lease = self.name, "no answer to a renewal; trying again"),
            }
        }
    }

    /// Runs `work` while this replica holds the lease, and releases it afterwards. Returns `None` if another replica still
    /// holds the lease after `limit`, or if the lease is lost before `work` ends.
    pub async fn during<T>(&self, limit: Duration, work: impl Future<Output = T>) -> Option<T> {
        let since = timeout(limit, self.acquire()).await.ok()?;
        let tenure = Tenure::new(self.clock.clone());
        tenure.renewed(since);
        let done = tokio::select! {
            done = work => Some(done),
            () = self.keep(since, &tenure) => None,
        };
        self.release().await;
        done
    }

    /// Releases the lease, so that a successor doesn't have to wait until it expires.
    pub async fn release(&self) {
        let released = timeout(RELEASE, async {
            loop {
                match self.give_up().await {
                    // This replica renewed the lease in between.
                    Err(error) if is_conflict(&error) => {}
                    ended => return ended,
                }
            }
        });
        if !matches!(released.await, Ok(Ok(()))) {
            tracing::warn!(
                lease = self.name,
                "cannot release the lease; the next leader waits until it expires"
            );
        }
    }

    /// Returns the candidate with intervals of 1 ms, for tests.
    #[cfg(test)]
    pub(crate) fn quick(self, renew_within: Duration) -> Self {
        let short = Duration::from_millis(1);
        Self { timing: Timing { renew_within, renew_every: short, retry_after: short, ..TIMING }, ..self }
    }

    async fn give_up(&self) -> kube::Result<()> {
        let mut lease = self.api.get(&self.name).await?;
        if holder(lease.spec.as_ref()) == Some(self.identity.as_str()) {
            let spec = lease.spec.get_or_insert_default();
            spec.holder_identity = Some(String::new());
            spec.lease_duration_seconds = Some(1);
            spec.renew_time = Some(MicroTime(Timestamp::now()));
            self.api.replace(&self.name, &PostParams::default(), &lease).await?;
        }
        Ok(())
    }

    /// Tries once to take the lease. Returns `None` if this replica now holds the lease, otherwise the time to wait.
    async fn attempt(&self, observed: &mut Observed) -> kube::Result<Option<Duration>> {
        let lease = self.api.get_opt(&self.name).await?;
        let spec = lease.as_ref().and_then(|lease| lease.spec.clone());
        if spec != observed.spec {
            *observed = Observed { spec: spec.clone(), since: self.clock.now() };
        }
        let unchanged = self.clock.since(observed.since);
        let taken = match decide(spec.as_ref(), &self.identity, unchanged, Timestamp::now()) {
            Step::Wait(wait) => return Ok(Some(wait)),
            Step::Take(taken) => taken,
        };
        if let Some(mut lease) = lease {
            lease.spec = Some(*taken);
            self.api.replace(&self.name, &PostParams::default(), &lease).await?;
        } else {
            let metadata = ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() };
            self.api.create(&PostParams::default(), &Lease { metadata, spec: Some(*taken) }).await?;
        }
        Ok(None)
    }

    /// Returns true if the lease was renewed, or false if this replica doesn't hold it.
    async fn renew(&self) -> kube::Result<bool> {
        let mut lease = self.api.get(&self.name).await?;
        let Some(spec) =
            lease.spec.as_mut().filter(|spec| holder(Some(spec)) == Some(self.identity.as_str()))
        else {
            return Ok(false);
        };
        spec.renew_time = Some(MicroTime(Timestamp::now()));
        self.api.replace(&self.name, &PostParams::default(), &lease).await?;
        Ok(true)
    }

    /// Waits until the Lease differs from `observed`, but no longer than `wait`.
    async fn changed(&self, observed: &Observed, wait: Duration) {
        let mut versions = std::pin::pin!(watch_object(self.api.clone(), &self.name));
        let changed = async {
            while let Some(Ok(lease)) = versions.next().await {
                if lease.and_then(|lease| lease.spec) != observed.spec {
                    return;
                }
            }
            // The watch failed, so wait for the timeout.
            std::future::pending::<()>().await;
        };
        let _ = timeout(wait, changed).await;
    }
}

fn holder(spec: Option<&LeaseSpec>) -> Option<&str> {
    spec?.holder_identity.as_deref().filter(|holder| !holder.is_empty())
}

/// Decides if `identity` may take a Lease whose `spec` hasn't changed for `unchanged`.
fn decide(spec: Option<&LeaseSpec>, identity: &str, unchanged: Duration, now: Timestamp) -> Step {
    let before = holder(spec);
    if before.is_some_and(|holder| holder != identity) {
        let seconds = spec.and_then(|spec| spec.lease_duration_seconds).unwrap_or(0);
        let lasts = Duration::from_secs(u64::try_from(seconds).unwrap_or(0)).max(Duration::from_secs(1));
        let left = lasts.saturating_sub(unchanged);
        if !left.is_zero() {
            return Step::Wait(left);
        }
    }
    let transitions = spec.and_then(|spec| spec.lease_transitions).unwrap_or(0);
    let same = before == Some(identity);
    Step::Take(Box::new(LeaseSpec {
        holder_identity: Some(identity.to_owned()),
        lease_duration_seconds: i32::try_from(DURATION.as_secs()).ok(),
        acquire_time: spec
            .and_then(|spec| spec.acquire_time.clone())
            .filter(|_| same)
            .or(Some(MicroTime(now))),
        renew_time: Some(MicroTime(now)),
        lease_transitions: Some(if same || spec.is_none() {
            transitions
        } else {
            transitions.saturating_add(1)
        }),
        ..LeaseSpec::default()
    }))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;
    use support::api_server::{Request, refusal};

    use super::*;

    fn held_by(identity: &str) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(identity.into()),
            lease_duration_seconds: Some(15),
            lease_transitions: Some(3),
            ..LeaseSpec::default()
        }
    }

    fn taken(spec: Option<&LeaseSpec>, unchanged: u64) -> Option<LeaseSpec> {
        match decide(spec, "me", Duration::from_secs(unchanged), Timestamp::UNIX_EPOCH) {
            Step::Take(spec) => Some(*spec),
            Step::Wait(_) => None,
        }
    }

    #[test]
    fn a_free_lease_is_taken_and_a_held_one_is_not() {
        assert_eq!(taken(None, 0).unwrap().lease_transitions, Some(0));
        assert_eq!(taken(Some(&held_by("")), 0).unwrap().lease_transitions, Some(4));
        assert!(taken(Some(&held_by("other")), 0).is_none());
        assert!(taken(Some(&held_by("other")), 14).is_none());
    }

    #[test]
    fn a_holder_that_stopped_renewing_loses_it() {
        let spec = taken(Some(&held_by("other")), 15).unwrap();
        assert_eq!(spec.holder_identity.as_deref(), Some("me"));
        assert_eq!(spec.lease_transitions, Some(4));
    }

    #[test]
    fn our_own_lease_is_ours_at_once_after_a_restart() {
        let spec = taken(Some(&held_by("me")), 0).unwrap();
        assert_eq!(spec.lease_transitions, Some(3));
    }

    #[test]
    fn the_holder_stops_before_anyone_else_may_begin() {
        let Timing { renew_within, renew_every, retry_after, attempt } = TIMING;
        assert!(renew_within < DURATION);
        assert!(renew_every + attempt + retry_after < renew_within, "there is time for a second attempt");
    }

    /// Starts an API server with one Lease. It rejects a replace that doesn't have the latest resourceVersion.
    fn server() -> Client {
        let lease = Mutex::new((0_u64, None::<serde_json::Value>));
        support::api_server::server(move |request| {
            let (version, stored) = &mut *lease.lock();
            let known =
                request.body["metadata"]["resourceVersion"].as_str().unwrap_or("0") == version.to_string();
            match request.method.as_str() {
                "GET" => stored.clone().map_or_else(|| refusal(404, "NotFound"), |stored| (200, stored)),
                "POST" if stored.is_some() => refusal(409, "AlreadyExists"),
                "PUT" if !known => refusal(409, "Conflict"),
                _ => {
                    *version += 1;
                    let mut written = request.body.clone();
                    written["metadata"]["resourceVersion"] = version.to_string().into();
                    *stored = Some(written.clone());
                    (200, written)
                }
            }
        })
        .0
    }

    fn observed() -> Observed {
        Observed { spec: None, since: Clock::default().now() }
    }

    async fn keep(elections: &Elections) {
        let now = elections.clock.now();
        elections.keep(now, &Tenure::new(Clock::default())).await;
    }

    #[tokio::test]
    async fn of_many_candidates_one_wins_and_hands_over() {
        let client = server();
        let candidates: Vec<_> =
            (0..8).map(|at| Elections::new(client.clone(), "n", "l", &format!("candidate-{at}"))).collect();
        let attempts = candidates.iter().map(|candidate| async {
            let attempt = candidate.attempt(&mut observed()).await;
            matches!(attempt, Ok(None))
        });
        let won: Vec<_> = futures::future::join_all(attempts).await;
        assert_eq!(won.iter().filter(|won| **won).count(), 1, "{won:?}");
        let (winner, loser) =
            (won.iter().position(|won| *won).unwrap(), won.iter().position(|won| !*won).unwrap());
        assert!(candidates[winner].renew().await.unwrap());
        assert!(!candidates[loser].renew().await.unwrap());
        assert!(candidates[loser].attempt(&mut observed()).await.unwrap().is_some());
        candidates[loser].release().await;
        assert!(candidates[winner].renew().await.unwrap(), "nobody gives up what is another's");
        candidates[winner].release().await;
        assert_eq!(candidates[loser].attempt(&mut observed()).await.unwrap(), None);
        assert!(!candidates[winner].renew().await.unwrap());
    }

    /// Starts an API server with a Lease that `me` holds. It rejects each request for which `refused` returns true, with the
    /// status `code`. `refused` gets the request's method and number.
    fn failing(
        code: u16,
        timing: Timing,
        refused: impl Fn(&str, usize) -> bool + Send + Sync + 'static,
    ) -> (Elections, Arc<Mutex<Vec<Request>>>) {
        let state = Mutex::new((0, serde_json::json!({ "spec": held_by("me") })));
        let (client, requests) = support::api_server::server(move |request| {
            let (number, lease) = &mut *state.lock();
            *number += 1;
            if refused(&request.method, *number) {
                return refusal(code, if code == 409 { "Conflict" } else { "InternalError" });
            }
            if request.method == "PUT" {
                *lease = request.body.clone();
            }
            (200, lease.clone())
        });
        (Elections { timing, ..Elections::new(client, "n", "l", "me") }, requests)
    }

    /// Timing for tests: intervals in milliseconds instead of seconds.
    const QUICK: Timing = Timing {
        renew_within: Duration::from_secs(20),
        renew_every: Duration::from_millis(1),
        retry_after: Duration::from_millis(1),
        attempt: Duration::from_secs(10),
    };

    #[tokio::test]
    async fn errors_for_a_while_are_tolerated() {
        let (elections, requests) = failing(500, QUICK, |_, number| number <= 10);
        let renewed = async {
            while !requests.lock().iter().any(|request| request.method == "PUT") {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            () = keep(&elections) => panic!("lost"),
            () = renewed => {}
        }
    }

    #[tokio::test]
    async fn errors_for_long_end_it() {
        let timing = Timing { renew_within: Duration::from_millis(30), ..QUICK };
        let (elections, requests) = failing(500, timing, |_, _| true);
        timeout(Duration::from_secs(20), keep(&elections)).await.expect("lost");
        assert!(!requests.lock().is_empty());
    }

    #[tokio::test]
    async fn a_late_answer_does_not_lengthen_the_lease() {
        let timing = Timing { renew_within: Duration::ZERO, ..QUICK };
        let (elections, requests) = failing(500, timing, |_, _| false);
        keep(&elections).await;
        assert!(requests.lock().is_empty(), "it is too late to act, and to renew");
    }

    #[tokio::test]
    async fn a_renewal_in_between_does_not_keep_the_lease_from_being_given_up() {
        let (elections, _) = failing(409, TIMING, |method, number| method == "PUT" && number <= 2);
        elections.release().await;
        assert!(!elections.renew().await.unwrap());
    }
}
