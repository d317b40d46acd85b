//! An OpenID Connect provider for one story.

use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use plane::tools::{Module, Tool};
use support::process::KilledChild;
use tempfile::TempDir;

use crate::harness::shared_stack::build_tool;

static MODULE: Module = Module::new("issuer", &support::issuer::SOURCES);
static TOOL: Tool = Tool::new("issuer", &MODULE, ".").taking(15);

/// A running provider with one user. It stops on drop.
pub struct IdentityProvider {
    program: PathBuf,
    _process: KilledChild,
    folder: TempDir,
    pub url: String,
}

impl IdentityProvider {
    /// Starts a provider with these clients, for API servers on this host.
    pub fn start(clients: &str) -> Self {
        Self::start_at(Ipv4Addr::LOCALHOST.into(), clients)
    }

    /// Starts a provider with these clients at one of this host's addresses.
    pub fn start_at(address: IpAddr, clients: &str) -> Self {
        let program = build_tool(&TOOL);
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = Command::new(&program);
        command.args(["serve", "--address", &address.to_string(), "--clients", clients, "--folder"]);
        command.arg(folder.path()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("the provider starts");
        let mut url = String::new();
        let stdout = process.stdout.take().expect("its output");
        BufReader::new(stdout).read_line(&mut url).expect("its URL");
        Self { program, _process: KilledChild(process), folder, url: url.trim().to_owned() }
    }

    /// Returns the provider's CA certificate (PEM).
    pub fn authority(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("ca.pem")).expect("its authority")
    }

    /// Logs the user in through this client, and returns the ID token.
    pub fn log_in(&self, client: &str) -> String {
        let mut command = Command::new(&self.program);
        command.args(["token", "--client", client, "--folder"]).arg(self.folder.path());
        let output = command.output().expect("the client starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("a token").trim().to_owned()
    }
}
