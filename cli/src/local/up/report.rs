//! The final report of `up`, as text or as one JSON document.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use crate::follow::cluster_report::ClusterReport;
use crate::local::session::{StackMemory, StackSession};

/// The timeout for reading the simulator's request counts.
const COUNTING: Duration = Duration::from_secs(5);

/// The final report.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UpReport {
    stack: StackReport,
    clusters: Vec<ClusterReport>,
    vcenter: VCenterReport,
    #[serde(rename = "memoryMiB")]
    memory_mib: StackMemory,
    /// True if nodes have a console that `layercake console` shows.
    #[serde(skip)]
    consoles: bool,
}

#[derive(Debug, Serialize)]
struct StackReport {
    /// The time from the start of the command until the stack is ready.
    seconds: f64,
    /// The folder with all stack files.
    folder: PathBuf,
    /// The administrator's kubeconfig.
    kubeconfig: PathBuf,
}

/// The simulated vCenter's connection data and request counts.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct VCenterReport {
    url: String,
    username: String,
    password_file: PathBuf,
    ca_file: PathBuf,
    wire: String,
    requests: u64,
    by_method: BTreeMap<String, u64>,
}

impl UpReport {
    /// Creates the report with the session's request counts, which are empty after the stack has ended.
    pub async fn made(
        session: &StackSession,
        memory_mib: StackMemory,
        stack_seconds: f64,
        clusters: Vec<ClusterReport>,
    ) -> Self {
        let counted = async { Ok::<_, anyhow::Error>(session.control()?.requests().await?) };
        let counted = tokio::time::timeout(COUNTING, counted).await;
        let counted = counted.ok().and_then(Result::ok).unwrap_or_default();
        let mut by_method = BTreeMap::new();
        let mut wires = Vec::new();
        for (wire, methods) in &counted.by_wire {
            if !methods.is_empty() && wire != "rest" {
                wires.push(wire.clone());
            }
            for (method, count) in methods {
                *by_method.entry(method.clone()).or_default() += count;
            }
        }
        let endpoint = &session.vcenter;
        let vcenter = VCenterReport {
            url: endpoint.url(),
            username: endpoint.username.clone(),
            password_file: endpoint.password_file.clone(),
            ca_file: endpoint.ca_file.clone(),
            wire: wires.join("+"),
            requests: counted.total,
            by_method,
        };
        let stack = StackReport {
            seconds: (stack_seconds * 10.0).round() / 10.0,
            folder: session.folder.clone(),
            kubeconfig: session.kubeconfig.clone(),
        };
        let consoles = session.machines.is_some();
        Self { stack, clusters, vcenter, memory_mib, consoles }
    }

    /// Formats the report for people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for cluster in &self.clusters {
            text += &cluster.text(true, self.consoles);
        }
        let StackMemory { stack, gcm, capw, vmop } = self.memory_mib;
        // A stack that has ended doesn't have figures.
        if stack > 0 {
            let _ = writeln!(text, "vCenter requests: {}", self.vcenter.requests);
            let _ =
                writeln!(text, "memory: stack {stack} MiB, gcm {gcm} MiB, capw {capw} MiB, vmop {vmop} MiB");
        }
        text
    }
}
