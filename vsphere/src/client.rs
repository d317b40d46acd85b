//! The client: one vCenter and one session for all callers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bounds::Lane;
use bytes::Bytes;
use tokio::sync::watch;
use tracing::Instrument;

use crate::config::{Config, Credentials};
use crate::gate::CallGate;
use crate::http::{Http, Pool};
use crate::retry::{RetryableCall, call_until_done};
use crate::session::{LoginConnection, Session, SessionHandle, check_change};
use crate::style::Style;
use crate::wire::{Codec, Service, choose, convert_response_error, policy_codec};
use crate::{CallMetrics, Error, Kind, MoRef, Object, Result, Value, WireKind};

/// The maximum number of concurrent captures of VMs as library items: in total, and for each share of the lane, such as a
/// namespace.
const CAPTURES: (usize, usize) = (6, 2);
/// The maximum number of concurrent deployments of library items: in total, and for each share of the lane, such as a namespace.
const DEPLOYMENTS: (usize, usize) = (12, 4);

/// A connection to one vCenter. Clones share the session.
#[derive(Clone)]
pub struct Client {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub config: Config,
    pub http: Http,
    pub gate: Arc<CallGate>,
    /// The gate for calls that hold a lane slot. Initially, the gate is as wide as both lanes together, so these calls
    /// wait only for their lane.
    pub long_calls: Arc<CallGate>,
    captures: Lane,
    deployments: Lane,
    pub session: Session,
    pub style: Style,
    codec: Box<dyn Codec>,
    /// The codec for storage policies, if it differs from `codec`.
    policy_codec: Option<Box<dyn Codec>>,
    about: About,
    content: Value,
}

/// The server's self-description.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// The product name and build, such as `VMware vCenter Server 8.0.3 build-24022515`.
    pub full_name: String,
    /// The product version, such as `8.0.3`.
    pub version: String,
    /// The build number.
    pub build: String,
    /// The newest supported VIM API release, such as `8.0.3.0`.
    pub api_version: String,
    /// The UUID of the vCenter instance. Managed object references are valid only within one vCenter.
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
    /// Detects the protocol, reads the server's `About`, and logs in.
    pub async fn connect(config: Config) -> Result<Self> {
        let http = Http::new(&config)?;
        Self::over(http, config).await
    }

    pub(crate) async fn over(http: Http, config: Config) -> Result<Self> {
        let found = choose(&http, &config).await;
        let (codec, content) = found.map_err(|error| error.on(config.base_url()))?;
        let about = About::read(content.get("about"));
        let session_manager = content.get("sessionManager").as_moref().cloned();
        let session_manager =
            session_manager.unwrap_or_else(|| MoRef::new("SessionManager", "SessionManager"));
        let inner = Inner {
            http,
            gate: CallGate::new(config.width, config.metrics.clone()),
            long_calls: CallGate::new(CAPTURES.0 + DEPLOYMENTS.0, CallMetrics::default()),
            captures: Lane::new(CAPTURES.0, CAPTURES.1),
            deployments: Lane::new(DEPLOYMENTS.0, DEPLOYMENTS.1),
            session: Session::new(config.credentials.clone(), &*codec, session_manager),
            style: Style::new(config.automation),
            policy_codec: policy_codec(&*codec),
            codec,
            about,
            content,
            config,
        };
        let client = Self { inner: Arc::new(inner) };
        client.session().await?;
        Ok(client)
    }

    /// Returns the server's self-description, read when the client connected.
    pub fn about(&self) -> &About {
        &self.inner.about
    }

    /// Returns the protocol that carries the VIM API.
    pub fn wire(&self) -> WireKind {
        self.inner.codec.kind()
    }

    /// Logs in with other credentials and switches to them. The old session ends after its last call, or after twice
    /// the call timeout.
    ///
    /// If vCenter refuses the new credentials or can't be reached, the client keeps the old session and returns the
    /// error.
    pub async fn set_credentials(&self, credentials: Credentials) -> Result<()> {
        let Some(mut replaced) = self.inner.session.rotate(&self.transport(), credentials).await? else {
            return Ok(());
        };
        let client = self.clone();
        tokio::spawn(async move {
            let longest = client.config().call_timeout * 2;
            // Calls that are still running by then are stuck.
            drop(tokio::time::timeout(longest, &mut replaced.unused).await);
            client.inner.session.retire(&client.transport(), replaced).await;
        });
        Ok(())
    }

    /// Returns the lane that limits concurrent [`Client::capture_ovf`] calls.
    pub fn captures(&self) -> &Lane {
        &self.inner.captures
    }

    /// Returns the lane that limits concurrent [`Client::deploy_ovf`] calls.
    pub fn deployments(&self) -> &Lane {
        &self.inner.deployments
    }

    /// Ends the session. Later calls fail, and an inventory that uses this client stops.
    pub async fn logout(&self) {
        self.inner.session.log_out(&self.transport()).await;
    }

    /// Calls any method. `args` must have the method's request type in the VIM API, such as `CloneVMRequestType`.
    ///
    /// Waits for the concurrency limit, logs in again if the session has expired, and repeats a failed call if it is
    /// idempotent or didn't reach vCenter.
    pub async fn call(&self, target: &MoRef, method: &'static str, args: Option<Object>) -> Result<Value> {
        let span = tracing::debug_span!("vcenter", method, object = %target);
        let request = Request { target, method, args: args.as_ref(), pool: Pool::Calls };
        let call = VimCall { client: self, request };
        call_until_done(&self.inner.gate, &call).instrument(span).await.map_err(|error| {
            match error.object() {
                Some(_) => error,
                None => error.on(target),
            }
        })
    }

    /// Sends a call once, in the given session only. Use this for objects that exist only in that session, such as
    /// views.
    pub(crate) async fn call_in(
        &self,
        session: &SessionHandle,
        pool: Pool,
        target: &MoRef,
        method: &'static str,
        args: Option<Object>,
        timeout: Duration,
    ) -> Result<Value> {
        let span = tracing::debug_span!("vcenter", method, object = %target);
        let request = Request { target, method, args: args.as_ref(), pool };
        self.send_once(session, request, timeout).instrument(span).await.map_err(|error| error.on(target))
    }

    /// Sends a long poll once, in the given session only. If the response is too large, the inner error contains the
    /// beginning of the response.
    pub(crate) async fn poll_in(
        &self,
        session: &SessionHandle,
        target: &MoRef,
        method: &'static str,
        args: &Object,
        timeout: Duration,
    ) -> Result<Result<Value, Bytes>> {
        let span = tracing::debug_span!("vcenter", method, object = %target);
        let request = Request { target, method, args: Some(args), pool: Pool::Poll };
        self.try_once(session, request, timeout).instrument(span).await.map_err(|error| error.on(target))
    }

    pub(crate) async fn session(&self) -> Result<SessionHandle> {
        self.inner.session.current(&self.transport()).await
    }

    pub(crate) async fn renew_session(&self, dead: u64) -> Result<SessionHandle> {
        Box::pin(self.inner.session.renew(&self.transport(), dead)).await
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

    pub(crate) fn transport(&self) -> LoginConnection<'_> {
        let Inner { http, codec, config, .. } = &*self.inner;
        LoginConnection { http, codec: &**codec, timeout: config.call_timeout, metrics: &config.metrics }
    }

    /// Returns the root folder. Its privileges apply to vCenter as a whole.
    pub fn root_folder(&self) -> Result<MoRef> {
        self.service("rootFolder")
    }

    pub(crate) fn service(&self, name: &'static str) -> Result<MoRef> {
        self.inner.content.get(name).as_moref().cloned().ok_or_else(|| {
            Error::new("ServiceContent", Kind::Unsupported { what: format!("the server has no {name}") })
        })
    }

    async fn send_once(
        &self,
        session: &SessionHandle,
        request: Request<'_>,
        timeout: Duration,
    ) -> Result<Value> {
        let answer = self.try_once(session, request, timeout).await?;
        let limit = self.inner.http.longest;
        answer.map_err(|_beginning| Error::new(request.method, Kind::TooLarge { limit }))
    }

    async fn try_once(
        &self,
        session: &SessionHandle,
        request: Request<'_>,
        timeout: Duration,
    ) -> Result<Result<Value, Bytes>> {
        let started = Instant::now();
        let Request { target, method, args, pool } = request;
        let codec = self.inner.codec_for(target);
        let http = &self.inner.http;
        let out = codec.encode(target, method, args, Some(&session.ticket.session));
        let answer = http.try_send(method, http.outgoing(pool, out), timeout, http.longest).await;
        let result = answer.and_then(|answer| {
            match answer {
                Ok(answer) => codec.decode(answer.status, &answer.body).map(Ok),
                Err(beginning) => Ok(Err(beginning)),
            }
            .map_err(|refusal| convert_response_error(method, refusal))
        });
        let outcome = match &result {
            Ok(Ok(_)) => "ok",
            Ok(Err(_)) => "AnswerTooLarge",
            Err(error) => error.category(),
        };
        self.inner.config.metrics.count(method, outcome, started.elapsed());
        tracing::trace!(outcome, "answered");
        result
    }
}

impl Inner {
    /// Returns the codec for the service that `target` belongs to.
    fn codec_for(&self, target: &MoRef) -> &dyn Codec {
        match (&self.policy_codec, Service::of(target)) {
            (Some(codec), Service::Pbm) => &**codec,
            _ => &*self.codec,
        }
    }
}

#[derive(Clone, Copy)]
struct Request<'a> {
    target: &'a MoRef,
    method: &'static str,
    args: Option<&'a Object>,
    pool: Pool,
}

/// A VIM API call that can be retried.
struct VimCall<'a> {
    client: &'a Client,
    request: Request<'a>,
}

impl RetryableCall for VimCall<'_> {
    type Answer = Value;

    fn repeatable(&self) -> bool {
        is_repeatable(self.request.method)
    }

    async fn open_session(&self) -> Result<SessionHandle> {
        let session = self.client.session().await?;
        if !self.repeatable() {
            check_change(session.epoch, self.request.method)?;
        }
        Ok(session)
    }

    async fn send(&self, session: &SessionHandle) -> Result<Value> {
        if !self.repeatable() {
            self.client.config().guard.check(self.request.method)?;
        }
        self.client.send_once(session, self.request, self.client.config().call_timeout).await
    }

    async fn renew_session(&self, session: SessionHandle) -> Result<()> {
        self.client.renew_session(session.epoch).await.map(drop)
    }
}

/// Returns true if sending the method twice is harmless. Methods that create or change a VM must not be listed here.
fn is_repeatable(method: &str) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::retry::may_repeat;

    #[test]
    fn nothing_that_makes_or_changes_a_vm_is_repeated() {
        let lost = Error::new("x", Kind::AnswerLost { cause: "reset".into() });
        let unsent = Error::new("x", Kind::Unreachable { cause: "refused".into() });
        for method in ["CloneVM_Task", "ReconfigVM_Task", "PowerOnVM_Task", "Destroy_Task", "CreateFolder"] {
            assert!(!may_repeat(&lost, is_repeatable(method)), "{method}");
            assert!(!may_repeat(&Error::new("x", Kind::Overloaded), is_repeatable(method)), "{method}");
            assert!(may_repeat(&unsent, is_repeatable(method)), "{method}");
        }
        assert!(may_repeat(&lost, is_repeatable("FindByUuid")));
    }
}
