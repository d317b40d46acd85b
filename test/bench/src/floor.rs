//! The floor: what N machines take when nobody operates them.
//!
//! A bare client of vCenter makes the clones while as many objects are created in the API server and get one status
//! each: whoever turns the one into the other does at least that.

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

use crate::machines::{self, PARALLEL, Recipe};
use crate::profile::Profile;
use crate::scale::each_since;
use crate::world::{Wire, World};
use crate::writes;

const PREFIX: &str = "floor";
const LIMIT: Duration = Duration::from_mins(30);

/// What the floor takes.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Floor {
    /// Until every machine has an address and every object its status.
    pub seconds: f64,
    /// The vCenter's half alone.
    pub seconds_of_v_center: f64,
    /// The API server's half alone.
    pub seconds_of_api_server: f64,
    /// Requests to vCenter.
    pub requests: u64,
    /// Processor time of the vCenter client for each machine.
    pub cpu_ms_per_vm: f64,
    /// Processor time for each machine of what it works with.
    pub cpu_ms_per_vm_elsewhere: BTreeMap<String, f64>,
}

/// What the vCenter client tells of itself.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Told {
    seconds: f64,
    cpu_ms: f64,
}

/// Measures the floor in a world of its own.
pub async fn measure(
    count: usize,
    wire: Wire,
    site: &[String],
    recipe: &Recipe,
    profile: Option<&Path>,
) -> Result<Floor> {
    let world = World::start(site).await?;
    let mut client = Bare::start(&world, count, wire, recipe).await?;
    // As warm as the other world's API server is when its machines are made.
    machines::create(&world.client(), "ahead", 2, recipe).await?;
    machines::status(&world.client(), "ahead", 2, &status()).await?;
    writes::quiet(&world.client()).await?;
    world.control().forget_requests().await?;
    let elsewhere = world.cpu();
    let profile = Profile::begin(&world.client(), profile, "floor");
    let began = Instant::now();
    let (told, seconds_of_api_server) = tokio::try_join!(client.run(), async {
        machines::create(&world.client(), PREFIX, count, recipe).await?;
        machines::status(&world.client(), PREFIX, count, &status()).await?;
        Ok(began.elapsed().as_secs_f64())
    })?;
    let seconds = began.elapsed().as_secs_f64();
    let requests = world.control().requests().await?.total;
    let cpu_ms_per_vm_elsewhere = each_since(&world.cpu(), &elsewhere, count);
    profile.finished().await?;
    world.stop().await?;
    Ok(Floor {
        seconds,
        seconds_of_v_center: told.seconds,
        seconds_of_api_server,
        requests,
        cpu_ms_per_vm: told.cpu_ms / crate::per(count),
        cpu_ms_per_vm_elsewhere,
    })
}

/// The status of a machine that is done, as long as a real one.
fn status() -> serde_json::Value {
    let condition =
        |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    json!({
        "powerState": "poweredOn", "phase": "Created", "vmIp": "10.0.0.1", "uniqueID": "vm-1",
        "host": "cluster0_host0", "hostName": "floor",
        "conditions": [condition("Ready"), condition("VirtualMachineCreated"), condition("VirtualMachineTools")],
    })
}

/// The bare client, a process of its own.
struct Bare {
    child: Child,
    lines: tokio::io::Lines<BufReader<ChildStdout>>,
}

impl Bare {
    /// Starts it and waits until its template is there.
    async fn start(world: &World, count: usize, wire: Wire, recipe: &Recipe) -> Result<Self> {
        let vcenter = world.vcenter();
        let mut child = Command::new(world.plane().tools().further(sim::tools::VCSIM.name))
            .arg("floor")
            .args(["--url", &vcenter.url(), "--wire", wire.name(), "--prefix", PREFIX])
            .args(["--folder", &vcenter.folder, "--pool", &vcenter.resource_pool])
            .args(["--library", &vcenter.library, "--item", &recipe.image, "--network", &vcenter.network])
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
        match bare.line().await?.as_str() {
            "ready" => Ok(bare),
            other => bail!("the bare client says {other:?}"),
        }
    }

    /// Lets it run to its end.
    async fn run(&mut self) -> Result<Told> {
        let stdin = self.child.stdin.as_mut().context("the bare client has no input")?;
        stdin.write_all(b"go\n").await?;
        Ok(serde_json::from_str(&self.line().await?)?)
    }

    async fn line(&mut self) -> Result<String> {
        let line = tokio::time::timeout(LIMIT, self.lines.next_line()).await;
        line.context("the bare client takes too long")??.context("the bare client has failed")
    }
}
