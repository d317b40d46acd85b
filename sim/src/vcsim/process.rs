//! Starts and stops the simulated vCenter's process.

use std::net::Ipv4Addr;
use std::time::Duration;

use plane::process::{Command, Process};
use plane::stack::StackIdentity;
use plane::tools::Tools;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};

use super::endpoint::VcenterEndpoint;
use super::error::Error;
use super::files::Files;
use super::nodes::NodeRuntime;
use crate::tools::VCSIM;

const READY: Duration = Duration::from_secs(30);

/// The running simulated vCenter.
#[derive(Debug)]
pub struct Simulator {
    process: Process,
    vcenter: VcenterEndpoint,
}

impl Simulator {
    /// Starts the process, with all its files in the stack's folder, and waits until it serves.
    ///
    /// The content libraries contain the images for `nodes`. vCenter only forwards guest shutdown requests: the code
    /// that runs the guests must watch for them and act. If `name` is set, transfer URLs contain this address instead
    /// of the loopback address.
    pub async fn start(
        stack: &StackIdentity,
        tools: &Tools,
        nodes: &NodeRuntime,
        name: Option<Ipv4Addr>,
    ) -> Result<Self, Error> {
        Self::launched(stack, tools, nodes, name, &["--real-guests".to_owned()]).await
    }

    /// Starts the process like [`Self::start`], but with these arguments instead of `--real-guests`, and without a `name`.
    pub async fn with(
        stack: &StackIdentity,
        tools: &Tools,
        nodes: &NodeRuntime,
        arguments: &[String],
    ) -> Result<Self, Error> {
        Self::launched(stack, tools, nodes, None, arguments).await
    }

    async fn launched(
        stack: &StackIdentity,
        tools: &Tools,
        nodes: &NodeRuntime,
        name: Option<Ipv4Addr>,
        arguments: &[String],
    ) -> Result<Self, Error> {
        let files = Files::written(&stack.subfolder("vcenter")?, nodes, name)?;
        // The heap is small, so a higher GC target costs little memory.
        let command = Command::new(stack, VCSIM.name, tools.further(VCSIM.name))?.gogc(200).piped();
        let mut process = command
            .args(["--listen", "127.0.0.1:0", "--control", "127.0.0.1:0", "--stdin-exit"])
            .arg("--credentials")
            .arg(&files.credentials)
            .arg("--tlscert")
            .arg(&files.certificate)
            .arg("--tlskey")
            .arg(&files.key)
            .arg("--spec")
            .arg(&files.spec)
            .args(name.map(|name| format!("--name={name}")))
            .args(arguments)
            .spawn()?;
        let log = process.log().to_owned();
        let not_ready = |why: &str| Error::Simulator { why: why.to_owned(), log: log.clone() };
        let stdout = process.take_stdout().ok_or_else(|| not_ready("it has no output"))?;
        let mut lines = BufReader::new(stdout).lines();
        let line = tokio::time::timeout(READY, lines.next_line()).await;
        let line = line.map_err(|_| not_ready("it is not ready in time"))?;
        let line = line.ok().flatten().ok_or_else(|| not_ready("it ended before it was ready"))?;
        // Drain further output, so that the pipe doesn't fill and block the process.
        tokio::spawn(async move { lines.into_inner().read_to_end(&mut Vec::new()).await });
        let vcenter = files.vcenter(&line)?;
        Ok(Self { process, vcenter })
    }

    /// Returns vCenter's address, credentials and inventory ids.
    pub fn vcenter(&self) -> &VcenterEndpoint {
        &self.vcenter
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Waits until the process exits, and returns an error with the exit status and the log path.
    pub async fn ended(&self) -> Error {
        let status = self.process.wait().await;
        Error::Simulator { why: format!("it ended: {status}"), log: self.process.log().to_owned() }
    }

    /// Kills the process and waits until it is gone.
    pub async fn stop(self) {
        self.process.kill().await;
    }
}
