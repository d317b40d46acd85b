//! Our own programs, run as config/ deploys them.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::cluster::Caller;
use crate::error::Result;
use crate::health;
use crate::supervise::{State, Supervised};
use crate::workload::{Ports, Runtime, Wiring};
use components::config;
use components::manifest::{Deployment, Manifests};

/// One of our programs, to be run by [`crate::Plane::run`].
#[derive(Debug, Clone)]
pub struct Program {
    pub(crate) name: String,
    pub(crate) exe: PathBuf,
    pub(crate) replica: u32,
    pub(crate) asked: bool,
    pub(crate) args: Vec<OsString>,
    pub(crate) documents: Option<Vec<Value>>,
}

impl Program {
    /// The program of config/`name`, in an executable that is this program when it is called so.
    pub fn new(name: &str, exe: &Path) -> Self {
        Self {
            name: name.to_owned(),
            exe: exe.to_owned(),
            replica: 0,
            asked: true,
            args: Vec::new(),
            documents: None,
        }
    }

    /// Takes these documents for what config/ has for the program: what a kustomization of it amounts to.
    #[must_use]
    pub fn configured_by(mut self, documents: Vec<Value>) -> Self {
        self.documents = Some(documents);
        self
    }

    /// Leaves its webhooks out, so that writes pass while it is dead.
    #[must_use]
    pub fn without_webhooks(mut self) -> Self {
        self.asked = false;
        self
    }

    /// A further replica of the program: it has another Pod's name, and so waits for the first one's lease. Its
    /// webhooks are not called: there is no Service that would lead to whichever replica lives.
    #[must_use]
    pub fn replica(mut self, replica: u32) -> Self {
        self.replica = replica;
        self
    }

    /// Adds an argument after those of the Deployment.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    pub(crate) fn manifests(&self) -> Result<Manifests> {
        match &self.documents {
            Some(documents) => Ok(Manifests::sorted(&self.name, documents.iter().cloned())?),
            None => Ok(config::manifests(&self.name)?),
        }
    }

    /// The name of the process in the stack.
    pub(crate) fn process(&self) -> String {
        match self.replica {
            0 => self.name.clone(),
            replica => format!("{}-{replica}", self.name),
        }
    }

    /// The Deployment's arguments, then where to listen, then the caller's: the last of two counts.
    pub(crate) fn arguments(&self, deployment: &Deployment, wiring: &Wiring) -> Vec<OsString> {
        let mut args = deployment.args.clone();
        args.extend([
            format!("--kubeconfig={}", wiring.kubeconfig.display()),
            format!("--diagnostics-address=127.0.0.1:{}", wiring.metrics),
            format!("--health-address=127.0.0.1:{}", wiring.health),
        ]);
        if let Some((port, folder)) = wiring.webhooks {
            args.push(format!("--webhook-address=127.0.0.1:{port}"));
            args.push(format!("--webhook-cert-dir={}", folder.display()));
            if let Some(Caller { authority, conversion_key }) = wiring.caller {
                args.push(format!("--webhook-client-ca={}", authority.display()));
                args.push(format!("--webhook-conversion-key={}", conversion_key.display()));
            }
        }
        args.into_iter().map(OsString::from).chain(self.args.iter().cloned()).collect()
    }
}

/// One of our programs while it runs. It is started again when it ends by itself.
#[derive(Debug, Clone)]
pub struct Running {
    process: Arc<Supervised>,
    ports: Ports,
}

impl Running {
    pub(crate) fn new(started: Runtime) -> Self {
        Self { process: Arc::new(started.process), ports: started.ports }
    }

    pub(crate) fn process(&self) -> &Arc<Supervised> {
        &self.process
    }

    /// The name of the process in the stack.
    pub fn name(&self) -> &str {
        self.process.name()
    }

    /// The process id, if it runs at the moment.
    pub fn pid(&self) -> Option<u32> {
        self.process.pid()
    }

    /// How often it was started, how often it ended by itself, and how.
    pub fn state(&self) -> State {
        self.process.state()
    }

    /// Where it logs.
    pub fn log(&self) -> &Path {
        self.process.log()
    }

    /// Where it serves its metrics, to users who may get them: a URL.
    pub fn metrics(&self) -> String {
        format!("https://127.0.0.1:{}/metrics", self.ports.metrics)
    }

    /// Where it serves webhooks, if it does: a port of this machine.
    pub fn webhook_port(&self) -> u16 {
        self.ports.webhooks
    }

    /// Kills it as `kill -9` does, and leaves it dead until [`Self::revive`].
    pub async fn kill(&self) {
        self.process.kill().await;
    }

    /// Starts it again after [`Self::kill`].
    pub async fn revive(&self) {
        self.process.revive().await;
    }

    /// Waits until it says that it is ready.
    pub async fn ready(&self, limit: Duration) -> Result<()> {
        let what = format!("{} is not ready", self.name());
        self.process.until(&what, limit, async || health::answers(self.ports.health, "/readyz").await).await
    }

    /// Ends it for good, with a moment to take leave.
    pub async fn stop(&self) {
        self.process.stop(GRACE).await;
    }
}

/// For a log-out and the release of a lease.
pub(crate) const GRACE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_come_from_the_deployment_first_and_the_caller_last() {
        let deployment = Deployment { args: vec!["--leader-elect=true".to_owned()], ..Deployment::default() };
        let caller = Caller { authority: "/d/pki/ca.crt".into(), conversion_key: "/d/pki/key".into() };
        let wiring = Wiring {
            kubeconfig: Path::new("/d/kubeconfigs/gcm"),
            metrics: 1,
            health: 2,
            webhooks: Some((3, Path::new("/d/webhooks/gcm"))),
            caller: Some(&caller),
        };
        let program = Program::new("gcm", Path::new("/bin/x")).replica(1).arg("--log-level=debug");
        assert_eq!(program.process(), "gcm-1");
        insta::assert_debug_snapshot!(program.arguments(&deployment, &wiring));
        let without = Wiring { webhooks: None, ..wiring };
        assert_eq!(program.arguments(&deployment, &without).len(), 5);
    }
}
