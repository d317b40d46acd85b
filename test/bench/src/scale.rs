//! `vm-scale`: N virtual machines from object to address, at rest, and away again.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Parser;
use plane::Running;
use serde::Serialize;
use tokio::time::Instant;

use crate::floor::{self, Floor};
use crate::machines::{self, Recipe};
use crate::profile::Profile;
use crate::progress::Progress;
use crate::rest::{self, Rest};
use crate::world::{Webhooks, Wire, World};
use crate::writes::{self, Writes};
use crate::{calls, per, process};

/// The machines that are counted.
const MANY: &str = "node";
/// Machines that go ahead: the first has the golden template made, the second is alone.
const AHEAD: [&str; 2] = ["first", "alone"];

/// Measures what N virtual machines cost, beside the least that they can cost.
#[derive(Clone, Debug, Parser)]
#[command(name = "vm-scale")]
pub struct Flags {
    /// How many machines.
    #[arg(long, default_value_t = 200)]
    pub count: usize,

    /// The VM operator's executable; else this program is the VM operator, too, and more code is in memory.
    #[arg(long)]
    pub vmop: Option<PathBuf>,

    /// How the VM operator and the floor speak with vCenter.
    #[arg(long, value_enum, default_value_t)]
    pub wire: Wire,

    /// How long after power-on a guest reports its address, such as 20s.
    #[arg(long, default_value = "0s", value_parser = duration)]
    pub ip_delay: Duration,

    /// Keep the machines apart by a cluster module, whose members they are before they are powered on.
    #[arg(long)]
    pub module_group: bool,

    /// For how many seconds the idle VM operator is watched.
    #[arg(long, default_value_t = 30)]
    pub rest: u64,

    /// Do without the floor.
    #[arg(long)]
    pub no_floor: bool,

    /// A folder for profiles of the API server: `floor.pprof` and `vmop.pprof`, for `go tool pprof`.
    #[arg(long)]
    pub profile: Option<PathBuf>,

    /// What the VM operator logs; its log is printed at the end if this is given.
    #[arg(long)]
    pub log: Option<String>,
}

/// What was measured.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// How many machines.
    pub count: usize,
    /// The wire.
    pub wire: &'static str,
    /// The least it can cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floor: Option<Floor>,
    /// What it cost.
    pub vmop: Cost,
    /// Seconds to the last address, of the floor's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_to_floor: Option<f64>,
    /// Seconds from object to address of one machine alone.
    pub one_alone_seconds: f64,
    /// When there is nothing to do.
    pub rest: Rest,
    /// Their end.
    pub delete: Deletion,
}

/// What machines cost from object to Ready.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cost {
    /// Until the last object says that its machine is on.
    pub seconds_to_powered_on: f64,
    /// Until the last object has its machine's address.
    pub seconds_to_ip: f64,
    /// Requests to vCenter.
    pub requests: u64,
    /// The same for each machine.
    pub requests_per_vm: f64,
    /// Those that change something.
    pub mutating_per_vm: f64,
    /// Requests by method.
    pub by_method: BTreeMap<String, u64>,
    /// Bytes of requests and answers.
    pub bytes: u64,
    /// Writes to the API server, events and leases aside.
    pub api_writes_per_vm: f64,
    /// The same by verb and resource.
    pub api_writes: BTreeMap<String, u64>,
    /// All else that the API server was asked for, by verb and resource.
    pub api_others: BTreeMap<String, u64>,
    /// Resident memory at its peak.
    pub rss_peak_mi_b: f64,
    /// Processor time for each machine.
    pub cpu_ms_per_vm: f64,
    /// Processor time for each machine of what it works with: who sets the limit.
    pub cpu_ms_per_vm_elsewhere: BTreeMap<String, f64>,
}

/// What the end of machines costs.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Deletion {
    /// Until the last object is gone.
    pub seconds: f64,
    /// Requests to vCenter for each machine.
    pub requests_per_vm: f64,
    /// Requests by method.
    pub by_method: BTreeMap<String, u64>,
    /// Writes to the API server for each machine, the deletion itself aside.
    pub api_writes_per_vm: f64,
}

/// Measures.
pub async fn run(flags: Flags) -> Result<Report> {
    let recipe = Recipe { image: image(), module_group: flags.module_group };
    let site = [format!("--guests-report-after={}ms", flags.ip_delay.as_millis())];
    let floor = if flags.no_floor {
        None
    } else {
        Some(floor::measure(flags.count, flags.wire, &site, &recipe, flags.profile.as_deref()).await?)
    };
    let world = World::start(&site).await?.with_vmop(flags.vmop.as_deref())?;
    let measured = Measured::start(&world, &flags, recipe).await?.finished().await;
    if let Some(log) = flags.log.as_ref().and(world.log("vmop")) {
        eprintln!("{log}");
    }
    let (vmop, one_alone_seconds, rest, delete) = measured?;
    world.stop().await?;
    let ratio_to_floor = floor.as_ref().map(|floor| vmop.seconds_to_ip / floor.seconds);
    let (count, wire) = (flags.count, flags.wire.name());
    Ok(Report { count, wire, floor, vmop, ratio_to_floor, one_alone_seconds, rest, delete })
}

/// The node image that all machines are made from.
pub(crate) fn image() -> String {
    sim::releases::NODE_IMAGES.last().map(|image| image.item.to_owned()).unwrap_or_default()
}

/// A run on its way.
struct Measured<'a> {
    world: &'a World,
    flags: &'a Flags,
    recipe: Recipe,
    vmop: Running,
    progress: Progress,
}

impl<'a> Measured<'a> {
    /// The VM operator runs, and the bootstrap data of all machines is there.
    async fn start(world: &'a World, flags: &'a Flags, recipe: Recipe) -> Result<Self> {
        let client = world.client();
        machines::secrets(&client, MANY, flags.count).await?;
        for ahead in AHEAD {
            machines::secrets(&client, ahead, 1).await?;
        }
        if flags.module_group {
            world.apply(&machines::policy()).await?;
        }
        let log = flags.log.iter().map(|level| format!("--log-level={level}")).collect::<Vec<_>>();
        let vmop = world.vmop(flags.wire, Webhooks::Called, &log).await?;
        let progress = Progress::start(client).await?;
        Ok(Self { world, flags, recipe, vmop, progress })
    }

    async fn finished(mut self) -> Result<(Cost, f64, Rest, Deletion)> {
        let mut alone = 0.0;
        for (number, ahead) in AHEAD.iter().enumerate() {
            alone = self.one(ahead, number + 1).await?;
        }
        let cost = self.many().await.context("while machines were made")?;
        let rest = rest::watched(self.world, self.pid()?, self.flags.rest).await?;
        let delete = self.delete().await.context("while machines were deleted")?;
        Ok((cost, alone, rest, delete))
    }

    fn pid(&self) -> Result<u32> {
        self.vmop.pid().context("vmop does not run")
    }

    /// Generous: this measures, it does not judge.
    fn limit(&self) -> Duration {
        Duration::from_mins(2) + self.flags.ip_delay + Duration::from_millis(500) * self.count()
    }

    fn count(&self) -> u32 {
        u32::try_from(self.flags.count).unwrap_or(u32::MAX)
    }

    /// Seconds from object to address of one machine.
    async fn one(&mut self, prefix: &str, ready: usize) -> Result<f64> {
        let began = Instant::now();
        machines::create(&self.world.client(), prefix, 1, &self.recipe).await?;
        let limit = self.limit();
        let reached = self.progress.until("address", limit, |count| count.ip >= ready).await?;
        writes::quiet(&self.world.client()).await?;
        Ok(reached.duration_since(began).as_secs_f64())
    }

    async fn many(&mut self) -> Result<Cost> {
        let (client, control, pid) = (self.world.client(), self.world.control(), self.pid()?);
        let (count, all, limit) = (self.flags.count, self.flags.count + AHEAD.len(), self.limit());
        let (writes, others) = (Writes::read(&client).await?, Writes::others(&client).await?);
        let (cpu, elsewhere) = (process::cpu(pid), self.world.cpu());
        control.forget_requests().await?;
        let profile = Profile::begin(&client, self.flags.profile.as_deref(), "vmop");
        let began = Instant::now();
        let making = machines::create(&client, MANY, count, &self.recipe);
        let progress = &mut self.progress;
        let reaching = async {
            let on = progress.until("power", limit, |count| count.on >= all).await?;
            let ip = progress.until("address", limit, |count| count.ip >= all).await?;
            Ok((on, ip))
        };
        let ((), (on, ip)) = tokio::try_join!(making, reaching)?;
        self.progress.until("machines that are Ready", limit, |count| count.ready >= all).await?;
        writes::quiet(&self.world.client()).await?;
        let cpu = process::cpu(pid).saturating_sub(cpu);
        let cpu_ms_per_vm_elsewhere = each_since(&self.world.cpu(), &elsewhere, count);
        let requests = control.requests().await?;
        profile.finished().await?;
        let made = u64::try_from(count)?;
        let writes = Writes::read(&client).await?.since(&writes).without("POST virtualmachines", made);
        Ok(Cost {
            seconds_to_powered_on: on.duration_since(began).as_secs_f64(),
            seconds_to_ip: ip.duration_since(began).as_secs_f64(),
            requests: requests.total,
            requests_per_vm: each(requests.total, count),
            mutating_per_vm: each(calls::mutating(&requests), count),
            by_method: calls::by_method(&requests),
            bytes: requests.bytes.received + requests.bytes.sent,
            api_writes_per_vm: each(writes.total(), count),
            api_writes: writes.0,
            api_others: Writes::others(&client).await?.since(&others).0,
            rss_peak_mi_b: process::peak(pid),
            cpu_ms_per_vm: cpu.as_secs_f64() * 1000.0 / per(count),
            cpu_ms_per_vm_elsewhere,
        })
    }

    async fn delete(&mut self) -> Result<Deletion> {
        let (client, control, count, limit) =
            (self.world.client(), self.world.control(), self.flags.count, self.limit());
        let writes = Writes::read(&client).await?;
        control.forget_requests().await?;
        let began = Instant::now();
        let deleting = machines::delete(&client, MANY, count);
        let leaving = self.progress.until("end", limit, |count| count.there <= AHEAD.len());
        let ((), gone) = tokio::try_join!(deleting, leaving)?;
        let requests = control.requests().await?;
        writes::quiet(&client).await?;
        let deleted = u64::try_from(count)?;
        let writes = Writes::read(&client).await?.since(&writes).without("DELETE virtualmachines", deleted);
        Ok(Deletion {
            seconds: gone.duration_since(began).as_secs_f64(),
            requests_per_vm: each(requests.total, count),
            by_method: calls::by_method(&requests),
            api_writes_per_vm: each(writes.total(), count),
        })
    }
}

/// Milliseconds for each machine since `earlier`.
pub(crate) fn each_since(
    now: &BTreeMap<String, Duration>,
    earlier: &BTreeMap<String, Duration>,
    count: usize,
) -> BTreeMap<String, f64> {
    let since = |name: &String, now: &Duration| {
        let used = now.saturating_sub(earlier.get(name).copied().unwrap_or_default());
        (name.clone(), used.as_secs_f64() * 1000.0 / per(count))
    };
    now.iter().map(|(name, now)| since(name, now)).collect()
}

fn each(sum: u64, count: usize) -> f64 {
    f64::from(u32::try_from(sum).unwrap_or(u32::MAX)) / per(count)
}

fn duration(text: &str) -> Result<Duration, String> {
    let number = |unit: &str| text.strip_suffix(unit)?.parse::<u64>().ok();
    let found = number("ms").map(Duration::from_millis).or_else(|| number("s").map(Duration::from_secs));
    found.ok_or_else(|| format!("{text:?} is not a duration such as 20s or 500ms"))
}
