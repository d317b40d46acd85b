//! One vCenter, one session, whoever asks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tracing::Instrument;

use crate::config::{Config, Credentials};
use crate::gate::Gate;
use crate::http::{Http, Pool};
use crate::session::{Session, SessionHandle, Transport, refused};
use crate::wire::Codec;
use crate::{Error, Kind, MoRef, Object, Result, Value, WireKind, automation};

/// Attempts of a call that may be repeated.
const ATTEMPTS: u32 = 5;

/// A connection to one vCenter. Clones share the session.
#[derive(Clone)]
pub struct Client {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub config: Config,
    pub http: Http,
    pub gate: Arc<Gate>,
    pub session: Session,
    pub style: automation::Style,
    codec: Box<dyn Codec>,
    about: About,
    content: Value,
}

/// What the server says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// Such as `VMware vCenter Server 8.0.3 build-24022515`.
    pub full_name: String,
    /// Such as `8.0.3`.
    pub version: String,
    /// The build's number.
    pub build: String,
    /// The newest VIM release it speaks, such as `8.0.3.0`.
    pub api_version: String,
    /// Tells vCenters apart; managed object references hold for one of them only.
    pub instance_uuid: String,
}

impl About {
    fn read(value: &Value) -> Self {
        let text = |name: &str| value.get(name).as_str().unwrap_or_default().to_owned();
        Self {
            full_name: text("fullName"),
            version: text("version"),
            build: text("build"),
            api_version: text("apiVersion"),
            instance_uuid: text("instanceUuid"),
        }
    }
}

impl Client {
    /// Finds the wire, reads what the server is, and logs in.
    pub async fn connect(config: Config) -> Result<Self> {
        let http = Http::new(&config)?;
        Self::over(http, config).await
    }

    pub(crate) async fn over(http: Http, config: Config) -> Result<Self> {
        let found = crate::wire::choose(&http, &config).await;
        let (codec, content) = found.map_err(|error| error.on(config.base_url()))?;
        let about = About::read(content.get("about"));
        let session_manager = content.get("sessionManager").as_moref().cloned();
        let session_manager =
            session_manager.unwrap_or_else(|| MoRef::new("SessionManager", "SessionManager"));
        let inner = Inner {
            http,
            gate: Gate::new(config.width, config.metrics.clone()),
            session: Session::new(config.credentials.clone(), &*codec, session_manager),
            style: automation::Style::new(config.automation),
            codec,
            about,
            content,
            config,
        };
        let client = Self { inner: Arc::new(inner) };
        client.live().await?;
        Ok(client)
    }

    /// What the server said about itself when the client connected.
    pub fn about(&self) -> &About {
        &self.inner.about
    }

    /// Which protocol carries the VIM API.
    pub fn wire(&self) -> WireKind {
        self.inner.codec.kind()
    }

    /// Logs in with other credentials and goes on with them; the old session ends when its last call has.
    ///
    /// If they are refused or vCenter can't be reached, everything goes on as before, and the error says why.
    pub async fn set_credentials(&self, credentials: Credentials) -> Result<()> {
        let Some(mut replaced) = self.inner.session.rotate(&self.line(), credentials).await? else {
            return Ok(());
        };
        let client = self.clone();
        tokio::spawn(async move {
            let longest = client.config().call_timeout * 2;
            // What still runs by then hangs.
            drop(tokio::time::timeout(longest, &mut replaced.unused).await);
            client.inner.session.retire(&client.line(), replaced).await;
        });
        Ok(())
    }

    /// Ends the session. Further calls fail, and an inventory on this client stops.
    pub async fn logout(&self) {
        self.inner.session.log_out(&self.line()).await;
    }

    /// Calls any method. The arguments' type is the request type of the VIM API, such as `CloneVMRequestType`.
    ///
    /// Waits for its turn, logs in again if the session is gone, and repeats what may be repeated.
    pub async fn call(&self, target: &MoRef, method: &'static str, args: Option<Object>) -> Result<Value> {
        let span = tracing::debug_span!("vcenter", method, object = %target);
        let request = Request { target, method, args: args.as_ref(), lane: Pool::Calls };
        self.carry(request).instrument(span).await.map_err(|error| match error.object() {
            Some(_) => error,
            None => error.on(target),
        })
    }

    /// Calls in the session `live` or not at all: what belongs to a session must not reach another one.
    pub(crate) async fn call_in(
        &self,
        live: &SessionHandle,
        lane: Pool,
        target: &MoRef,
        method: &'static str,
        args: Option<Object>,
        timeout: Duration,
    ) -> Result<Value> {
        let span = tracing::debug_span!("vcenter", method, object = %target);
        let request = Request { target, method, args: args.as_ref(), lane };
        self.once(live, request, timeout).instrument(span).await.map_err(|error| error.on(target))
    }

    pub(crate) async fn live(&self) -> Result<SessionHandle> {
        self.inner.session.live(&self.line()).await
    }

    pub(crate) async fn renew(&self, dead: u64) -> Result<SessionHandle> {
        Box::pin(self.inner.session.renew(&self.line(), dead)).await
    }

    pub(crate) fn epochs(&self) -> watch::Receiver<u64> {
        self.inner.session.epochs()
    }

    pub(crate) fn closed(&self) -> bool {
        self.inner.session.closed()
    }

    pub(crate) fn config(&self) -> &Config {
        &self.inner.config
    }

    pub(crate) fn line(&self) -> Transport<'_> {
        let Inner { http, codec, config, .. } = &*self.inner;
        Transport { http, codec: &**codec, timeout: config.call_timeout, metrics: &config.metrics }
    }

    pub(crate) fn service(&self, name: &'static str) -> Result<MoRef> {
        self.inner.content.get(name).as_moref().cloned().ok_or_else(|| {
            Error::new("ServiceContent", Kind::Unsupported { what: format!("the server has no {name}") })
        })
    }

    async fn carry(&self, request: Request<'_>) -> Result<Value> {
        let repeatable = repeatable(request.method);
        let mut renewed = false;
        let mut attempt = 0;
        loop {
            let live = self.live().await?;
            let permit = self.inner.gate.enter().await;
            let result = self.once(&live, request, self.inner.config.call_timeout).await;
            let error = match result {
                Ok(value) => {
                    permit.succeeded();
                    return Ok(value);
                }
                Err(error) if matches!(error.kind(), Kind::Overloaded) => {
                    permit.overloaded(Instant::now());
                    error
                }
                Err(error) => {
                    drop(permit);
                    error
                }
            };
            if *error.kind() == Kind::NotAuthenticated && !renewed {
                renewed = true;
                self.renew(live.epoch).await?;
                continue;
            }
            attempt += 1;
            if attempt >= ATTEMPTS || !again(&error, repeatable) {
                return Err(error);
            }
            let pause = pause(attempt);
            tracing::debug!(%error, ?pause, "call is repeated");
            tokio::time::sleep(pause).await;
        }
    }

    async fn once(&self, live: &SessionHandle, request: Request<'_>, timeout: Duration) -> Result<Value> {
        let started = Instant::now();
        let Request { target, method, args, lane } = request;
        let out = self.inner.codec.encode(target, method, args, Some(&live.ticket.session));
        let post = self.inner.http.outgoing(lane, out);
        let result = self.inner.http.send(method, post, timeout).await.and_then(|answer| {
            self.inner.codec.decode(answer.status, &answer.body).map_err(|refusal| refused(method, refusal))
        });
        let outcome = result.as_ref().map_or_else(Error::category, |_| "ok");
        self.inner.config.metrics.count(method, outcome, started.elapsed());
        tracing::trace!(outcome, "answered");
        result
    }
}

#[derive(Clone, Copy)]
struct Request<'a> {
    target: &'a MoRef,
    method: &'static str,
    args: Option<&'a Object>,
    lane: Pool,
}

/// Whether doing it twice is as good as doing it once. Anything that makes or changes a machine is not here.
fn repeatable(method: &str) -> bool {
    matches!(
        method,
        "RetrievePropertiesEx"
            | "FindByUuid"
            | "FindChild"
            | "PbmRetrieveServiceContent"
            | "PbmQueryProfile"
            | "PbmRetrieveContent"
            | "PbmCheckRequirements"
            | "CurrentTime"
            | "CreateContainerView"
            | "CreateListView"
            | "ModifyListView"
            | "DestroyView"
    )
}

pub(crate) fn again(error: &Error, repeatable: bool) -> bool {
    match error.kind() {
        Kind::Unreachable { .. } => true,
        Kind::Overloaded | Kind::AnswerLost { .. } => repeatable,
        _ => false,
    }
}

/// Doubles from 0.2 s to 1.6 s, somewhere between half of it and all of it.
pub(crate) fn pause(attempt: u32) -> Duration {
    let full = Duration::from_millis(200).saturating_mul(1 << attempt.min(4).saturating_sub(1));
    full.mul_f64(rand::random_range(0.5..=1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_makes_or_changes_a_machine_is_repeated() {
        let lost = Error::new("x", Kind::AnswerLost { cause: "reset".into() });
        let unsent = Error::new("x", Kind::Unreachable { cause: "refused".into() });
        for method in ["CloneVM_Task", "ReconfigVM_Task", "PowerOnVM_Task", "Destroy_Task", "CreateFolder"] {
            assert!(!again(&lost, repeatable(method)), "{method}");
            assert!(!again(&Error::new("x", Kind::Overloaded), repeatable(method)), "{method}");
            assert!(again(&unsent, repeatable(method)), "{method}");
        }
        assert!(again(&lost, repeatable("FindByUuid")));
    }

    #[test]
    fn pauses_grow_and_end() {
        for attempt in 1..10 {
            let pause = pause(attempt);
            assert!((Duration::from_millis(100)..=Duration::from_millis(1600)).contains(&pause), "{attempt}");
        }
    }
}
