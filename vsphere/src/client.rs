//! One vCenter, one session, whoever asks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use reqwest::Method;
use tokio::sync::watch;
use tracing::Instrument;

use crate::config::{Config, Credentials, WireChoice};
use crate::gate::Gate;
use crate::http::{Http, Lane, SESSION_HEADER};
use crate::session::{Line, Live, Session, refused};
use crate::wire::{Codec, Refusal, ViJson};
use crate::{Error, Kind, MoRef, Object, Result, Value, WireKind, automation};

/// The releases of VI/JSON that this client knows, newest first.
const RELEASES: &[&str] = &["9.1.0.0", "9.0.0.0", "8.0.3.0", "8.0.2.0", "8.0.1.0"];
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
        let unsupported = |what: &str| {
            Error::new("connect", Kind::Unsupported { what: what.to_owned() }).on(config.base_url())
        };
        if config.wire == WireChoice::Soap {
            return Err(unsupported("the SOAP wire"));
        }
        let release = release(&http, &config)
            .await
            .map_err(|error| error.on(config.base_url()))?
            .ok_or_else(|| unsupported("a vCenter older than 8.0 U1, which has no VI/JSON"))?;
        let codec = ViJson { release: release.clone() };
        let content = service_content(&http, &codec, config.call_timeout).await?;
        let about = About::read(content.get("about"));
        let session_manager = content.get("sessionManager").as_moref().cloned();
        let session_manager =
            session_manager.unwrap_or_else(|| MoRef::new("SessionManager", "SessionManager"));
        let inner = Inner {
            http,
            gate: Gate::new(config.width, config.metrics.clone()),
            session: Session::new(
                config.credentials.clone(),
                &release,
                session_manager,
                config.metrics.clone(),
            ),
            style: automation::Style::new(config.automation),
            codec: Box::new(codec),
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

    /// Takes other credentials from the next login on; the session in use goes on.
    pub fn set_credentials(&self, credentials: Credentials) {
        self.inner.session.set_credentials(credentials);
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
        let request = Request { target, method, args: args.as_ref(), lane: Lane::Calls };
        self.carry(request).instrument(span).await.map_err(|error| match error.object() {
            Some(_) => error,
            None => error.on(target),
        })
    }

    /// Calls in the session `live` or not at all: what belongs to a session must not reach another one.
    pub(crate) async fn call_in(
        &self,
        live: &Live,
        lane: Lane,
        target: &MoRef,
        method: &'static str,
        args: Option<Object>,
        timeout: Duration,
    ) -> Result<Value> {
        let request = Request { target, method, args: args.as_ref(), lane };
        self.once(live, request, timeout).await.map_err(|error| error.on(target))
    }

    pub(crate) async fn live(&self) -> Result<Live> {
        self.inner.session.live(&self.line()).await
    }

    pub(crate) async fn renew(&self, dead: u64) -> Result<Live> {
        self.inner.session.renew(&self.line(), dead).await
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

    pub(crate) fn line(&self) -> Line<'_> {
        Line { http: &self.inner.http, codec: &*self.inner.codec, timeout: self.inner.config.call_timeout }
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
                    permit.borne();
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

    async fn once(&self, live: &Live, request: Request<'_>, timeout: Duration) -> Result<Value> {
        let started = Instant::now();
        let Request { target, method, args, lane } = request;
        let out = self.inner.codec.encode(target, method, args);
        let post = self
            .inner
            .http
            .request(lane, Method::POST, &out.path)
            .header(SESSION_HEADER, live.token.as_ref());
        let post = if out.body.is_empty() {
            post
        } else {
            post.header("content-type", out.content_type).body(out.body)
        };
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
    lane: Lane,
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

/// The newest release of VI/JSON that both sides know; `None` if the server has none.
async fn release(http: &Http, config: &Config) -> Result<Option<String>> {
    let request = http
        .request(Lane::Calls, Method::POST, "/api/vcenter/system?action=hello")
        .json(&serde_json::json!({ "api_releases": RELEASES }));
    let answer = http.send("hello", request, config.call_timeout).await?;
    match answer.status {
        200 => {
            let body: serde_json::Value = serde_json::from_slice(&answer.body).unwrap_or_default();
            let release = body["api_release"].as_str().unwrap_or_default();
            Ok((!release.is_empty()).then(|| release.to_owned()))
        }
        // `hello` came with 8.0 U2, VI/JSON with U1.
        400 | 404 => {
            let oldest = ViJson { release: "8.0.1.0".into() };
            match service_content(http, &oldest, config.call_timeout).await {
                Ok(_) => Ok(Some(oldest.release)),
                Err(error) if matches!(error.kind(), Kind::Unsupported { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        }
        status => Err(refused("hello", crate::wire::status_refusal(status))),
    }
}

/// Needs no login.
async fn service_content(http: &Http, codec: &ViJson, timeout: Duration) -> Result<Value> {
    let path = format!("/sdk/vim25/{}/ServiceInstance/ServiceInstance/content", codec.release);
    let answer = http.send("ServiceContent", http.request(Lane::Calls, Method::GET, &path), timeout).await?;
    let content = codec
        .decode(answer.status, &answer.body)
        .map_err(|refusal: Refusal| refused("ServiceContent", refusal))?;
    if content.get("about").as_object().is_some() {
        Ok(content)
    } else {
        Err(crate::methods::unexpected("ServiceContent", "no service content"))
    }
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
