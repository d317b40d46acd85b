//! One vCenter, one session, whoever asks.

use std::sync::Arc;

use crate::config::{Config, Credentials};
use crate::{Error, Kind, MoRef, Object, Result, Value, WireKind};

/// A connection to one vCenter. Clones share the session.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    about: About,
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

impl Client {
    /// Finds the wire, reads what the server is, and logs in.
    pub async fn connect(config: Config) -> Result<Self> {
        Err(Error::new("connect", Kind::Unsupported { what: "not written yet".into() }).on(config.base_url()))
    }

    /// What the server said about itself when the client connected.
    pub fn about(&self) -> &About {
        &self.inner.about
    }

    /// Which protocol carries the VIM API.
    pub fn wire(&self) -> WireKind {
        WireKind::ViJson
    }

    /// Takes other credentials from the next login on; the session in use goes on.
    pub fn set_credentials(&self, _credentials: Credentials) {}

    /// Ends the session. Further calls fail.
    pub async fn logout(&self) {}

    /// Calls any method. The arguments' type is the request type of the VIM API, such as `CloneVMRequestType`.
    pub async fn call(&self, target: &MoRef, method: &'static str, _args: Option<Object>) -> Result<Value> {
        Err(Error::new(method, Kind::Unsupported { what: "not written yet".into() }).on(target))
    }

    pub(crate) fn service(&self, name: &'static str) -> Result<MoRef> {
        Err(Error::new(name, Kind::Unsupported { what: "not written yet".into() }))
    }
}
