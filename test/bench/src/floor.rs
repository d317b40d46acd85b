//! Measures the floor: the time that N VMs take without an operator.
//!
//! A bare vCenter client makes the clones. At the same time, an object per VM is created in the API server and its
//! status is written once. An operator can't do less.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::Instant;

use crate::api_writes;
use crate::average::{cpu_ms_since, divisor};
use crate::profile::Profile;
use crate::testbed::{Testbed, WireFlag};
use crate::vms::{self, PARALLEL, VmShape};

const PREFIX: &str = "floor";
const LIMIT: Duration = Duration::from_mins(30);

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Floor {
    /// The time until each VM has an address and each object its status.
    pub seconds: f64,
    pub seconds_of_v_center: f64,
    pub seconds_of_api_server: f64,
    pub requests: u64,
    /// The vCenter client's CPU time per VM.
    pub cpu_ms_per_vm: f64,
    /// CPU time per VM in other processes: API server, etcd, vCenter and this program.
    pub cpu_ms_per_vm_elsewhere: BTreeMap<String, f64>,
}

/// The vCenter client's own measurements.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClientReport {
    seconds: f64,
    cpu_ms: f64,
}

/// Measures the floor in a separate testbed.
pub async fn measure_floor(
    count: usize,
    wire: WireFlag,
    site: &[String],
    shape: &VmShape,
    profile: Option<&Path>,
) -> Result<Floor> {
    let testbed = Testbed::start(site).await?;
    let mut client = BareClient::start(&testbed, count, wire, shape).await?;
    // Warm up the API server as much as in the measurement with the VM operator.
    vms::create_vms(&testbed.client(), "ahead", 2, shape).await?;
    vms::write_status(&testbed.client(), "ahead", 2, &finished_status()).await?;
    api_writes::wait_until_quiet(&testbed.client()).await?;
    testbed.control().forget_requests().await?;
    let elsewhere = testbed.cpu();
    let profile = Profile::begin(&testbed.client(), profile, "floor");
    let began = Instant::now();
    let (report, seconds_of_api_server) = tokio::try_join!(client.run(), async {
        vms::create_vms(&testbed.client(), PREFIX, count, shape).await?;
        vms::write_status(&testbed.client(), PREFIX, count, &finished_status()).await?;
        Ok(began.elapsed().as_secs_f64())
    })?;
    let seconds = began.elapsed().as_secs_f64();
    let requests = testbed.control().requests().await?.total;
    let cpu_ms_per_vm_elsewhere = cpu_ms_since(&testbed.cpu(), &elsewhere, count);
    profile.finish().await?;
    testbed.stop().await?;
    Ok(Floor {
        seconds,
        seconds_of_v_center: report.seconds,
        seconds_of_api_server,
        requests,
        cpu_ms_per_vm: report.cpu_ms / divisor(count),
        cpu_ms_per_vm_elsewhere,
    })
}

/// Returns a finished VM's status, about as long as a real one.
fn finished_status() -> serde_json::Value {
    let condition =
        |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    json!({
        "powerState": "poweredOn", "phase": "Created", "vmIp": "10.0.0.1", "uniqueID": "vm-1",
        "host": "cluster0_host0", "hostName": "floor",
        "conditions": [condition("Ready"), condition("VirtualMachineCreated"), condition("VirtualMachineTools")],
    })
}

/// The bare client, a separate process.
struct BareClient {
    child: Child,
    lines: tokio::io::Lines<BufReader<ChildStdout>>,
}

impl BareClient {
    /// Starts the client and waits until it has created its template.
    async fn start(testbed: &Testbed, count: usize, wire: WireFlag, shape: &VmShape) -> Result<Self> {
        let vcenter = testbed.vcenter();
        let mut child = Command::new(testbed.plane().tools().further(sim::tools::VCSIM.name))
            .arg("floor")
            .args(["--url", &vcenter.url(), "--wire", wire.name(), "--prefix", PREFIX])
            .args(["--folder", &vcenter.folder, "--pool", &vcenter.resource_pool])
            .args(["--library", &vcenter.library, "--item", &shape.image, "--network", &vcenter.network])
            .args(["--count", &count.to_string(), "--parallel", &PARALLEL.to_string()])
            .arg("--credentials")
            .arg(vcenter.password_file.with_file_name("credentials.json"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("cannot start the bare client")?;
        let stdout = child.stdout.take().context("the bare client has no output")?;
        let mut bare = Self { child, lines: BufReader::new(stdout).lines() };
        match bare.next_line().await?.as_str() {
            "ready" => Ok(bare),
            other => bail!("the bare client says {other:?}"),
        }
    }

    /// Runs the measurement and returns its report.
    async fn run(&mut self) -> Result<ClientReport> {
        let stdin = self.child.stdin.as_mut().context("the bare client has no input")?;
        stdin.write_all(b"go\n").await?;
        Ok(serde_json::from_str(&self.next_line().await?)?)
    }

    async fn next_line(&mut self) -> Result<String> {
        let line = tokio::time::timeout(LIMIT, self.lines.next_line()).await;
        line.context("the bare client takes too long")??.context("the bare client has failed")
    }
}
