//! Runs Layercake's own programs as config/ deploys them.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::cluster::Caller;
use crate::error::Result;
use crate::health;
use crate::supervise::{ProcessState, Supervised};
use crate::workload::{Ports, RunningProgram, Wiring};
use components::config;
use components::manifest::{Manifests, ProgramDeployment};

/// One of Layercake's programs, to be run by [`crate::Plane::run`].
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
    /// Creates the program `name` with its manifests in config/`name`. `exe` is a multi-call executable that acts as
    /// the program by its `argv[0]`.
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

    /// Replaces the program's manifests in config/ with these documents, such as the output of a kustomization.
    #[must_use]
    pub fn configured_by(mut self, documents: Vec<Value>) -> Self {
        self.documents = Some(documents);
        self
    }

    /// Leaves out the program's webhooks, so that writes succeed while the program is down.
    #[must_use]
    pub fn without_webhooks(mut self) -> Self {
        self.asked = false;
        self
    }

    /// Makes this an additional replica. Its Pod name differs, so it waits until the first replica's lease is free. Its
    /// webhooks aren't called, because the plane doesn't have Services that could route to the live replica.
    #[must_use]
    pub fn replica(mut self, replica: u32) -> Self {
        self.replica = replica;
        self
    }

    /// Adds an argument after the Deployment's arguments.
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

    /// Returns the name by which the process is known in the stack.
    pub(crate) fn process(&self) -> String {
        match self.replica {
            0 => self.name.clone(),
            replica => format!("{}-{replica}", self.name),
        }
    }

    /// Returns the Deployment's arguments, then the listen addresses, then the caller's arguments. If a flag is
    /// repeated, the last one takes effect.
    pub(crate) fn arguments(&self, deployment: &ProgramDeployment, wiring: &Wiring) -> Vec<OsString> {
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

/// A running program. It is restarted when it exits by itself.
#[derive(Debug, Clone)]
pub struct Running {
    process: Arc<Supervised>,
    ports: Ports,
}

impl Running {
    pub(crate) fn new(started: RunningProgram) -> Self {
        Self { process: Arc::new(started.process), ports: started.ports }
    }

    pub(crate) fn process(&self) -> &Arc<Supervised> {
        &self.process
    }

    pub fn name(&self) -> &str {
        self.process.name()
    }

    /// Returns the process ID, or `None` if the program isn't running.
    pub fn pid(&self) -> Option<u32> {
        self.process.pid()
    }

    /// Returns the process state, with the start and failure counts and the last exit.
    pub fn state(&self) -> ProcessState {
        self.process.state()
    }

    /// Returns the log file path.
    pub fn log(&self) -> &Path {
        self.process.log()
    }

    /// Returns the metrics URL. Only authorized users can read the metrics.
    pub fn metrics(&self) -> String {
        format!("https://127.0.0.1:{}/metrics", self.ports.metrics)
    }

    /// Returns the loopback port for the webhook server, even if the program doesn't serve webhooks.
    pub fn webhook_port(&self) -> u16 {
        self.ports.webhooks
    }

    /// Kills the program with SIGKILL. It stays dead until [`Self::revive`].
    pub async fn kill(&self) {
        self.process.kill().await;
    }

    /// Starts the program after [`Self::kill`].
    pub async fn revive(&self) {
        self.process.revive().await;
    }

    /// Waits until the program reports that it is ready, for at most `limit`.
    pub async fn ready(&self, limit: Duration) -> Result<()> {
        let what = format!("{} is not ready", self.name());
        self.process.until(&what, limit, async || health::answers(self.ports.health, "/readyz").await).await
    }

    /// Stops the program for good, with a short grace period.
    pub async fn stop(&self) {
        self.process.stop(GRACE).await;
    }
}

/// The grace period for a program to log out and to release its lease.
pub(crate) const GRACE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_come_from_the_deployment_first_and_the_caller_last() {
        let deployment = ProgramDeployment {
            args: vec!["--leader-elect=true".to_owned()],
            ..ProgramDeployment::default()
        };
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
