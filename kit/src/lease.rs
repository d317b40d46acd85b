//! Leader election on a coordination Lease, by compare-and-swap.
//!
//! Every step is get, decide, `replace` with the resourceVersion that was read: of two candidates one loses with a
//! conflict. Whether a holder is dead is settled by our own clock since the record last changed, as client-go does, so
//! clocks that disagree do no harm. It is the time since boot, which goes on while the machine is suspended. Whoever can't
//! renew in time stops before anyone else may begin.

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

/// After so long without a renewal others may take over.
const DURATION: Duration = Duration::from_secs(15);
/// How long giving the lease up may take.
pub(crate) const RELEASE: Duration = Duration::from_secs(3);

/// When the holder does what.
#[derive(Clone, Copy)]
struct Timing {
    /// After so long without a renewal the holder must have stopped.
    renew_within: Duration,
    /// How often the holder renews, and a candidate retries after an error.
    renew_every: Duration,
    /// How soon the holder tries again after an error.
    retry_after: Duration,
    /// A renewal that takes longer is given up: on another connection there is time for one more.
    attempt: Duration,
}

const TIMING: Timing = Timing {
    renew_within: RENEW_WITHIN,
    renew_every: Duration::from_secs(3),
    retry_after: Duration::from_millis(500),
    attempt: Duration::from_secs(4),
};

/// Our side of one Lease.
#[derive(Clone)]
pub struct Elections {
    api: Api<Lease>,
    name: String,
    identity: String,
    timing: Timing,
    clock: Clock,
}

/// What a candidate may do about a Lease.
#[derive(Debug, PartialEq)]
enum Step {
    /// Nobody holds it, or its holder has not renewed it for too long: write this.
    Take(Box<LeaseSpec>),
    /// Somebody holds it; look again after this long unless it changes.
    Wait(Duration),
}

/// The record as last seen, and since when it is the same.
struct Observed {
    spec: Option<LeaseSpec>,
    since: BootTime,
}

impl Elections {
    /// Contends for the Lease `namespace/name` as `identity`, which no other living replica has.
    pub fn new(client: Client, namespace: &str, name: &str, identity: &str) -> Self {
        let api = Api::namespaced(client, namespace);
        let clock = Clock::default();
        Self { api, name: name.to_owned(), identity: identity.to_owned(), timing: TIMING, clock }
    }

    /// Resolves when we hold the lease; with the time from which on we do.
    pub(crate) async fn acquire(&self) -> BootTime {
        let mut observed = Observed { spec: None, since: self.clock.now() };
        loop {
            // The answer may come late: others count from the write, which is no earlier than this.
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

    /// Renews what was last renewed at `renewed`, until that fails for too long; then we must not act any more.
    /// `tenure` knows of each renewal.
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

    /// Gives the lease up, so that a successor need not wait for its end.
    pub async fn release(&self) {
        let released = timeout(RELEASE, async {
            loop {
                match self.give_up().await {
                    // Our own renewal came in between.
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

    /// For tests: as it is, in milliseconds.
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

    /// One look at the Lease. None when it is ours now, else how long to wait.
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

    /// True when renewed, false when somebody else holds the lease.
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

    /// Resolves when the Lease is no longer as observed, or after `wait`.
    async fn changed(&self, observed: &Observed, wait: Duration) {
        let mut versions = std::pin::pin!(watch_object(self.api.clone(), &self.name));
        let changed = async {
            while let Some(Ok(lease)) = versions.next().await {
                if lease.and_then(|lease| lease.spec) != observed.spec {
                    return;
                }
            }
            // The watch failed: the time decides.
            std::future::pending::<()>().await;
        };
        let _ = timeout(wait, changed).await;
    }
}

fn holder(spec: Option<&LeaseSpec>) -> Option<&str> {
    spec?.holder_identity.as_deref().filter(|holder| !holder.is_empty())
}

/// Judges a Lease whose record has been the same for `unchanged`.
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

    /// An API server that holds one Lease, and replaces it only by a version that knows the last one.
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

    /// An API server with a lease of `me` that refuses, with this code, every request that `refused` names by its
    /// method and its number.
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

    /// What a holder does every second or so, in milliseconds.
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
