//! The session that all of a client's callers share.
//!
//! Callers that find the session gone request a new session: the first caller logs in, and the others wait for its
//! session. A rejected password isn't retried for a while, so that vCenter doesn't lock the account. New credentials
//! open a new session before the old session ends. If the new credentials are rejected, the old session stays.

mod login;
mod pin;
mod ticket;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use backon::{BackoffBuilder, ExponentialBuilder};
use parking_lot::{Mutex as PlainMutex, RwLock};
use tokio::sync::{Mutex, oneshot, watch};

pub(crate) use login::LoginConnection;
pub use pin::{AwaitedTask, awaited_task, with_bound_changes};
pub(crate) use pin::{await_task, bind_changes, check_change};
pub(crate) use ticket::SessionTokens;

use crate::config::Credentials;
use crate::wire::{Codec, numbers};
use crate::{Error, Kind, MoRef, Result};

/// The first release in which the VIM API and the Automation API share a token.
const UNIFIED: [u32; 3] = [8, 0, 3];
/// The pauses before rejected credentials are tried again. They double from 5 s to 5 min, because vCenter locks an account after
/// a few attempts.
const REFUSED: ExponentialBuilder = ExponentialBuilder::new()
    .with_min_delay(Duration::from_secs(5))
    .with_max_delay(Duration::from_mins(5))
    .without_max_times();
/// The number of times that the pause after a rejected password can double. It reaches its maximum of 5 min before that.
const MOST_DOUBLINGS: usize = 8;

pub(crate) struct Session {
    credentials: RwLock<Credentials>,
    live: RwLock<Option<SessionHandle>>,
    renewal: Mutex<Renewal>,
    epoch: watch::Sender<u64>,
    closed: AtomicBool,
    /// Tells whether the Automation API accepts the VIM API token.
    sharing: RwLock<Sharing>,
    /// Replaced sessions that haven't ended yet.
    replaced: PlainMutex<Vec<(u64, SessionTokens)>>,
    manager: MoRef,
}

/// A session that was valid when it was last used.
#[derive(Clone)]
pub(crate) struct SessionHandle {
    pub epoch: u64,
    pub ticket: SessionTokens,
    /// Dropped with the session's last handle. The drop resolves `unused`.
    _in_use: Arc<oneshot::Sender<Infallible>>,
}

/// A session that was replaced because the credentials changed. [`Session::retire`] ends it after its last handle is dropped.
pub(crate) struct Replaced {
    epoch: u64,
    pub unused: oneshot::Receiver<Infallible>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sharing {
    Untried,
    Works,
    Not,
}

#[derive(Default)]
struct Renewal {
    failed: Option<Failed>,
    /// Resolves when the current session's last handle is dropped.
    unused: Option<oneshot::Receiver<Infallible>>,
}

struct Failed {
    at: Instant,
    error: Error,
    credentials: Credentials,
    /// The time before which these credentials aren't tried again.
    until: Instant,
    /// The number of consecutive rejections of these credentials.
    refusals: usize,
}

impl Session {
    pub fn new(credentials: Credentials, codec: &dyn Codec, manager: MoRef) -> Self {
        let unified = numbers(codec.release()).as_slice() >= UNIFIED.as_slice();
        Self {
            credentials: RwLock::new(credentials),
            live: RwLock::new(None),
            renewal: Mutex::default(),
            epoch: watch::Sender::new(0),
            closed: AtomicBool::new(false),
            sharing: RwLock::new(if unified { Sharing::Untried } else { Sharing::Not }),
            replaced: PlainMutex::default(),
            manager,
        }
    }

    /// Returns a receiver for the current session's number, which changes with each new session.
    pub fn epochs(&self) -> watch::Receiver<u64> {
        self.epoch.subscribe()
    }

    /// Returns true after [`Session::log_out`].
    pub fn closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Returns the current session. Logs in if there is none.
    pub async fn current(&self, via: &LoginConnection<'_>) -> Result<SessionHandle> {
        let live = self.live.read().clone();
        match live {
            Some(live) => Ok(live),
            // Boxed like every login: otherwise all call futures would include the size of the login future, although
            // logins are rare.
            None => Box::pin(self.renew(via, 0)).await,
        }
    }

    /// Returns a session other than number `dead`. Logs in unless another caller already has.
    pub async fn renew(&self, via: &LoginConnection<'_>, dead: u64) -> Result<SessionHandle> {
        let asked = Instant::now();
        let mut renewal = self.renewal.lock().await;
        if let Some(live) = self.live.read().clone().filter(|live| live.epoch != dead) {
            return Ok(live);
        }
        let credentials = self.credentials.read().clone();
        self.may_log_in(&renewal, &credentials, asked)?;
        *self.live.write() = None;
        let session = self.log_in(via, &mut renewal, &credentials).await?;
        Ok(self.install(via, &mut renewal, session))
    }

    /// Switches to other credentials and returns the old session, or `None` if the credentials are unchanged or there
    /// was no session. The old session stays in use until the new credentials have opened a new session.
    pub async fn rotate(
        &self,
        via: &LoginConnection<'_>,
        credentials: Credentials,
    ) -> Result<Option<Replaced>> {
        let asked = Instant::now();
        let mut renewal = self.renewal.lock().await;
        if *self.credentials.read() == credentials {
            return Ok(None);
        }
        self.may_log_in(&renewal, &credentials, asked)?;
        let session = self.log_in(via, &mut renewal, &credentials).await?;
        *self.credentials.write() = credentials;
        let old = self.live.read().as_ref().map(|old| (old.epoch, old.ticket.clone()));
        let unused = renewal.unused.take();
        self.install(via, &mut renewal, session);
        let (Some((epoch, ticket)), Some(unused)) = (old, unused) else { return Ok(None) };
        self.replaced.lock().push((epoch, ticket));
        Ok(Some(Replaced { epoch, unused }))
    }

    /// Ends a replaced session.
    pub async fn retire(&self, via: &LoginConnection<'_>, replaced: Replaced) {
        let ticket = {
            let mut all = self.replaced.lock();
            let at = all.iter().position(|(epoch, _)| *epoch == replaced.epoch);
            at.map(|at| all.swap_remove(at).1)
        };
        if let Some(ticket) = ticket {
            via.log_out(&self.manager, ticket).await;
        }
    }

    fn may_log_in(&self, renewal: &Renewal, credentials: &Credentials, asked: Instant) -> Result<()> {
        if self.closed() {
            return Err(Error::new("Login", Kind::Canceled));
        }
        match &renewal.failed {
            // Callers that waited for a login that failed share the error instead of logging in again.
            Some(failed)
                if failed.credentials == *credentials
                    && (failed.at >= asked || Instant::now() < failed.until) =>
            {
                Err(failed.error.clone())
            }
            _ => Ok(()),
        }
    }

    async fn log_in(
        &self,
        via: &LoginConnection<'_>,
        renewal: &mut Renewal,
        credentials: &Credentials,
    ) -> Result<Arc<str>> {
        let opened = via.log_in(&self.manager, credentials).await;
        match &opened {
            Ok(_) => renewal.failed = None,
            Err(error) => renewal.note(error.clone(), credentials.clone()),
        }
        opened
    }

    /// Makes `session` the current session, with a new number.
    fn install(&self, via: &LoginConnection<'_>, renewal: &mut Renewal, session: Arc<str>) -> SessionHandle {
        let epoch = self.epoch.borrow().wrapping_add(1).max(1);
        let shares = *self.sharing.read() != Sharing::Not;
        let automation = shares.then(|| via.codec.token(&session));
        let (in_use, unused) = oneshot::channel();
        renewal.unused = Some(unused);
        let ticket = SessionTokens { session, automation, apart: !shares };
        let live = SessionHandle { epoch, ticket, _in_use: Arc::new(in_use) };
        *self.live.write() = Some(live.clone());
        self.epoch.send_replace(epoch);
        via.metrics.logged_in();
        live
    }

    /// Returns the current session with an Automation API token. Fetching the token may require a separate login.
    pub async fn with_automation(
        &self,
        via: &LoginConnection<'_>,
        live: SessionHandle,
    ) -> Result<SessionHandle> {
        if live.ticket.automation.is_some() {
            return Ok(live);
        }
        let _single = self.renewal.lock().await;
        let mut current = self.live.read().clone().unwrap_or(live);
        if current.ticket.automation.is_none() {
            let credentials = self.credentials.read().clone();
            current.ticket.automation = Some(Box::pin(via.log_in_to_automation(&credentials)).await?);
            current.ticket.apart = true;
            *self.live.write() = Some(current.clone());
        }
        Ok(current)
    }

    /// Records that the Automation API has accepted the token.
    pub fn automation_works(&self) {
        if *self.sharing.read() == Sharing::Untried {
            *self.sharing.write() = Sharing::Works;
        }
    }

    /// Drops a token that the Automation API has rejected. Returns false if the shared session itself is gone, in which
    /// case another login to the Automation API doesn't help.
    pub fn forget_automation(&self, token: &Arc<str>) -> bool {
        let mut live = self.live.write();
        let Some(live) = live.as_mut() else { return true };
        if live.ticket.automation.as_ref() != Some(token) {
            return true;
        }
        if !live.ticket.apart {
            let mut sharing = self.sharing.write();
            if *sharing == Sharing::Works {
                return false;
            }
            *sharing = Sharing::Not;
        }
        live.ticket.automation = None;
        true
    }

    /// Ends all sessions. Later calls fail instead of logging in again.
    pub async fn log_out(&self, via: &LoginConnection<'_>) {
        let _single = self.renewal.lock().await;
        self.closed.store(true, Ordering::SeqCst);
        let live = self.live.write().take();
        let replaced = std::mem::take(&mut *self.replaced.lock());
        let tickets = replaced.into_iter().map(|(_, ticket)| ticket);
        for ticket in tickets.chain(live.map(|live| live.ticket)) {
            via.log_out(&self.manager, ticket).await;
        }
        self.epoch.send_modify(|epoch| *epoch = epoch.wrapping_add(1));
    }
}

impl Renewal {
    fn note(&mut self, error: Error, credentials: Credentials) {
        let at = Instant::now();
        let refusals = match (&self.failed, error.kind()) {
            (Some(last), Kind::InvalidLogin) if last.credentials == credentials => last.refusals + 1,
            (_, Kind::InvalidLogin) => 1,
            _ => 0,
        };
        let pause = match refusals {
            0 => Duration::ZERO,
            refusals => REFUSED.build().nth((refusals - 1).min(MOST_DOUBLINGS)).unwrap_or_default(),
        };
        self.failed = Some(Failed { at, error, credentials, until: at + pause, refusals });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_compared_by_number() {
        let unified = |release: &str| numbers(release).as_slice() >= UNIFIED.as_slice();
        for (release, expected) in
            [("8.0.1.0", false), ("8.0.2.0", false), ("8.0.3.0", true), ("9.0.0.0", true), ("10.0.0.0", true)]
        {
            assert_eq!(unified(release), expected, "{release}");
        }
    }

    #[test]
    fn a_refused_password_is_left_alone_for_longer_each_time() {
        let pause =
            |renewal: &Renewal| renewal.failed.as_ref().map(|failed| failed.until - failed.at).unwrap();
        let mut renewal = Renewal::default();
        let credentials = Credentials { username: "u".into(), password: "p".into() };
        let pauses: Vec<u64> = (0..8)
            .map(|_| {
                renewal.note(Error::new("Login", Kind::InvalidLogin), credentials.clone());
                pause(&renewal).as_secs()
            })
            .collect();
        assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 300, 300]);
        renewal.note(Error::new("Login", Kind::Overloaded), credentials);
        assert!(pause(&renewal).is_zero());
    }
}
