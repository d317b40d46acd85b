//! One login for everybody.
//!
//! Whoever finds the session gone asks for a new one; the first logs in and the others wait for it.
//! A refused password is not tried again for a while, so that it does not lock the account.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::RwLock;
use reqwest::Method;
use tokio::sync::{Mutex, watch};

use crate::config::Credentials;
use crate::http::{Answer, Http, Lane, SESSION_HEADER};
use crate::wire::{Codec, Refusal};
use crate::{Error, Fault, Kind, Metrics, MoRef, Object, Result};

/// From this release on one token opens VIM and the Automation API.
const UNIFIED: [u32; 3] = [8, 0, 3];
const REFUSED_FIRST: Duration = Duration::from_secs(5);
const REFUSED_LONGEST: Duration = Duration::from_mins(5);

pub(crate) struct Session {
    credentials: RwLock<Credentials>,
    live: RwLock<Option<Live>>,
    renewal: Mutex<Renewal>,
    epoch: watch::Sender<u64>,
    closed: AtomicBool,
    unified: bool,
    manager: MoRef,
    metrics: Metrics,
}

/// A session that vCenter knew when it was last used.
#[derive(Clone)]
pub(crate) struct Live {
    pub epoch: u64,
    pub token: Arc<str>,
    /// The token of the Automation API; before 8.0 U3 it is another, fetched when first needed.
    pub automation: Option<Arc<str>>,
}

#[derive(Default)]
struct Renewal {
    failed: Option<Failed>,
}

struct Failed {
    at: Instant,
    error: Error,
    credentials: Credentials,
    /// Until when the same credentials are not tried again.
    until: Instant,
    pause: Duration,
}

/// What a login goes through.
pub(crate) struct Line<'a> {
    pub http: &'a Http,
    pub codec: &'a dyn Codec,
    pub timeout: Duration,
}

impl Session {
    pub fn new(credentials: Credentials, release: &str, manager: MoRef, metrics: Metrics) -> Self {
        Self {
            credentials: RwLock::new(credentials),
            live: RwLock::new(None),
            renewal: Mutex::default(),
            epoch: watch::Sender::new(0),
            closed: AtomicBool::new(false),
            unified: numbers(release) >= UNIFIED.to_vec(),
            manager,
            metrics,
        }
    }

    pub fn set_credentials(&self, credentials: Credentials) {
        *self.credentials.write() = credentials;
    }

    /// The number of the session in use, as it changes.
    pub fn epochs(&self) -> watch::Receiver<u64> {
        self.epoch.subscribe()
    }

    /// Whether nobody logs in any more.
    pub fn closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// The session in use, or a new one.
    pub async fn live(&self, via: &Line<'_>) -> Result<Live> {
        let live = self.live.read().clone();
        match live {
            Some(live) => Ok(live),
            None => self.renew(via, 0).await,
        }
    }

    /// A session other than the one with number `dead`.
    pub async fn renew(&self, via: &Line<'_>, dead: u64) -> Result<Live> {
        let asked = Instant::now();
        let mut renewal = self.renewal.lock().await;
        if let Some(live) = self.live.read().clone().filter(|live| live.epoch != dead) {
            return Ok(live);
        }
        if self.closed() {
            return Err(Error::new("Login", Kind::Canceled));
        }
        let credentials = self.credentials.read().clone();
        if let Some(failed) = &renewal.failed {
            let shared = failed.at >= asked;
            let barred = failed.credentials == credentials && Instant::now() < failed.until;
            if shared || barred {
                return Err(failed.error.clone());
            }
        }
        *self.live.write() = None;
        match self.log_in(via, &credentials).await {
            Ok(token) => {
                renewal.failed = None;
                let epoch = self.epoch.borrow().wrapping_add(1).max(1);
                let automation = self.unified.then(|| token.clone());
                let live = Live { epoch, token, automation };
                *self.live.write() = Some(live.clone());
                self.epoch.send_replace(epoch);
                self.metrics.logged_in();
                Ok(live)
            }
            Err(error) => {
                renewal.note(error.clone(), credentials);
                Err(error)
            }
        }
    }

    async fn log_in(&self, via: &Line<'_>, credentials: &Credentials) -> Result<Arc<str>> {
        let result = if self.unified {
            automation_login(via, credentials).await
        } else {
            self.vim_login(via, credentials).await
        };
        result.map_err(|error| error.on(&credentials.username))
    }

    async fn vim_login(&self, via: &Line<'_>, credentials: &Credentials) -> Result<Arc<str>> {
        let args = Object::new("LoginRequestType")
            .with("userName", &credentials.username)
            .with("password", credentials.password.expose());
        let out = via.codec.encode(&self.manager, "Login", Some(&args));
        let request = via.http.request(Lane::Calls, Method::POST, &out.path);
        let request = request.header("content-type", out.content_type).body(out.body);
        let answer = via.http.send("Login", request, via.timeout).await?;
        via.codec.decode(answer.status, &answer.body).map_err(|refusal| refused("Login", refusal))?;
        answer
            .session
            .map(Arc::from)
            .ok_or_else(|| crate::methods::unexpected("Login", "no session in the answer"))
    }

    /// The session with a token for the Automation API, which may need a login of its own.
    pub async fn with_automation(&self, via: &Line<'_>, live: Live) -> Result<Live> {
        if live.automation.is_some() {
            return Ok(live);
        }
        let _single = self.renewal.lock().await;
        let mut current = self.live.read().clone().unwrap_or(live);
        if current.automation.is_none() {
            let credentials = self.credentials.read().clone();
            current.automation = Some(automation_login(via, &credentials).await?);
            *self.live.write() = Some(current.clone());
        }
        Ok(current)
    }

    /// The Automation API's own session is gone while VIM's is not.
    pub fn forget_automation(&self, token: &Arc<str>) -> bool {
        let mut live = self.live.write();
        match live.as_mut() {
            Some(live) if !self.unified => {
                if live.automation.as_ref() == Some(token) {
                    live.automation = None;
                }
                true
            }
            _ => false,
        }
    }

    /// Ends the session; nobody logs in again.
    pub async fn log_out(&self, via: &Line<'_>) {
        let _single = self.renewal.lock().await;
        self.closed.store(true, Ordering::SeqCst);
        let Some(live) = self.live.write().take() else { return };
        if let Some(token) = &live.automation {
            let request = via.http.request(Lane::Calls, Method::DELETE, "/api/session");
            let request = request.header(SESSION_HEADER, token.as_ref());
            drop(via.http.send("Logout", request, via.timeout).await);
        }
        if !self.unified {
            let out = via.codec.encode(&self.manager, "Logout", None);
            let request = via.http.request(Lane::Calls, Method::POST, &out.path);
            let request = request.header(SESSION_HEADER, live.token.as_ref()).body(out.body);
            drop(via.http.send("Logout", request, via.timeout).await);
        }
        self.epoch.send_modify(|epoch| *epoch = epoch.wrapping_add(1));
    }
}

impl Renewal {
    fn note(&mut self, error: Error, credentials: Credentials) {
        let at = Instant::now();
        let pause = match (&self.failed, error.kind()) {
            (Some(last), Kind::InvalidLogin) if last.credentials == credentials && !last.pause.is_zero() => {
                (last.pause * 2).min(REFUSED_LONGEST)
            }
            (_, Kind::InvalidLogin) => REFUSED_FIRST,
            _ => Duration::ZERO,
        };
        self.failed = Some(Failed { at, error, credentials, until: at + pause, pause });
    }
}

/// `POST /api/session`; on servers before 7.0 the same under `/rest`.
async fn automation_login(via: &Line<'_>, credentials: &Credentials) -> Result<Arc<str>> {
    let attempt = async |path: &'static str| {
        let request = via.http.request(Lane::Calls, Method::POST, path);
        let request = request.basic_auth(&credentials.username, Some(credentials.password.expose()));
        via.http.send("Login", request, via.timeout).await
    };
    let answer = attempt("/api/session").await?;
    let (answer, path) = if answer.status == 404 {
        (attempt("/rest/com/vmware/cis/session").await?, "value")
    } else {
        (answer, "")
    };
    read_token(&answer, path)
}

fn read_token(answer: &Answer, field: &str) -> Result<Arc<str>> {
    match answer.status {
        200 | 201 => {
            let body: serde_json::Value = serde_json::from_slice(&answer.body).unwrap_or_default();
            let token = if field.is_empty() { &body } else { &body[field] };
            token
                .as_str()
                .map(Arc::from)
                .ok_or_else(|| crate::methods::unexpected("Login", "no token in the answer"))
        }
        401 => Err(Error::new("Login", Kind::InvalidLogin)),
        status => Err(refused("Login", crate::wire::status_refusal(status))),
    }
}

pub(crate) fn refused(method: &'static str, refusal: Refusal) -> Error {
    match refusal {
        Refusal::Fault(fault) => Error::from_fault(method, fault),
        Refusal::NotAuthenticated => {
            let fault = Fault {
                type_name: "NotAuthenticated".into(),
                message: String::new(),
                detail: crate::Value::Null,
            };
            Error::from_fault(method, fault)
        }
        Refusal::Overloaded => Error::new(method, Kind::Overloaded),
        Refusal::NoSuchPath => {
            Error::new(method, Kind::Unsupported { what: "the server has no such call".into() })
        }
        Refusal::Unexpected(cause) => Error::new(method, Kind::Unexpected { cause }),
    }
}

fn numbers(release: &str) -> Vec<u32> {
    release.split('.').map(|part| part.parse().unwrap_or(0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_compared_by_number() {
        let unified = |release: &str| numbers(release) >= UNIFIED.to_vec();
        for (release, expected) in
            [("8.0.1.0", false), ("8.0.2.0", false), ("8.0.3.0", true), ("9.0.0.0", true), ("10.0.0.0", true)]
        {
            assert_eq!(unified(release), expected, "{release}");
        }
    }

    #[test]
    fn a_refused_password_is_left_alone_for_longer_each_time() {
        let mut renewal = Renewal::default();
        let credentials = Credentials { username: "u".into(), password: "p".into() };
        let pauses: Vec<u64> = (0..8)
            .map(|_| {
                renewal.note(Error::new("Login", Kind::InvalidLogin), credentials.clone());
                renewal.failed.as_ref().unwrap().pause.as_secs()
            })
            .collect();
        assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 300, 300]);
        renewal.note(Error::new("Login", Kind::Overloaded), credentials);
        assert!(renewal.failed.unwrap().pause.is_zero());
    }
}
