//! `vm-scale`: measures N virtual VMs from object to address, at rest, and during deletion.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Parser;
use jiff::SignedDuration;
use plane::Running;
use serde::Serialize;
use tokio::time::Instant;

use crate::api_writes::{self, ApiWrites};
use crate::average::{cpu_ms_since, divisor, per_vm};
use crate::figures::{KeepFlags, Sources};
use crate::floor::{self, Floor};
use crate::idle::{self, IdleCost};
use crate::profile::Profile;
use crate::testbed::{Testbed, WebhookCalls, WireFlag};
use crate::vm_watch::VmWatch;
use crate::vms::{self, VmShape, node_image};
use crate::{calls, process};

/// The name prefix of the measured VMs.
const MANY: &str = "node";
/// Name prefixes for VMs that are created first: the first triggers the golden template, the second is measured
/// alone.
const AHEAD: [&str; 2] = ["first", "alone"];
/// The figures to store from a report.
const FIGURES: &Sources = &[
    ("mutatingPerVm", "/vmop/mutatingPerVm"),
    ("requestsPerVm", "/vmop/requestsPerVm"),
    ("apiWritesPerVm", "/vmop/apiWritesPerVm"),
    ("cpuMsPerVm", "/vmop/cpuMsPerVm"),
    ("rssPeakMiB", "/vmop/rssPeakMiB"),
    ("secondsToIp", "/vmop/secondsToIp"),
    ("ratioToFloor", "/ratioToFloor"),
    ("oneAloneSeconds", "/oneAloneSeconds"),
    ("deleteRequestsPerVm", "/delete/requestsPerVm"),
    ("restSeconds", "/rest/seconds"),
    ("restApiWrites", "/rest/apiWrites"),
    ("restVcenterMutating", "/rest/vcenterMutating"),
    ("restCpuPercent", "/rest/cpuPercent"),
];

/// Measures what N virtual VMs cost, beside the least that they can cost.
#[derive(Clone, Debug, Parser)]
#[command(name = "vm-scale")]
pub struct Flags {
    /// How many VMs.
    #[arg(long, default_value_t = 200)]
    pub count: usize,

    /// The VM operator's executable; else this program is the VM operator, too, and more code is in memory.
    #[arg(long)]
    pub vmop: Option<PathBuf>,

    /// How the VM operator and the floor speak with vCenter.
    #[arg(long, value_enum, default_value_t)]
    pub wire: WireFlag,

    /// How long after power-on a guest reports its address, such as 20s.
    #[arg(long, default_value = "0s", value_parser = parse_duration)]
    pub ip_delay: Duration,

    /// Keep the VMs apart by a cluster module, whose members they are before they are powered on.
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

    /// Where the figures go.
    #[command(flatten)]
    pub keep: KeepFlags,
}

impl Flags {
    /// Returns the name under which the figures of this run are stored.
    fn run_name(&self) -> String {
        let module = if self.module_group { "-module" } else { "" };
        let late = match self.ip_delay.as_secs() {
            0 => String::new(),
            seconds => format!("-late-{seconds}s"),
        };
        format!("scale-{}-{}{module}{late}", self.count, self.wire.name())
    }
}

/// The measured cost.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ScaleReport {
    pub count: usize,
    pub wire: &'static str,
    /// The cost without an operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floor: Option<Floor>,
    /// The cost with the VM operator.
    pub vmop: Cost,
    /// The time to the last address, relative to the floor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_to_floor: Option<f64>,
    /// The time from object to address for a single VM, in seconds.
    pub one_alone_seconds: f64,
    /// The cost while idle.
    pub rest: IdleCost,
    /// The cost of the deletion.
    pub delete: DeletionCost,
}

/// The cost from object to Ready.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cost {
    /// The time until the last object reports that its VM is powered on.
    pub seconds_to_powered_on: f64,
    /// The time until the last object reports its VM's address.
    pub seconds_to_ip: f64,
    /// The number of vCenter requests.
    pub requests: u64,
    pub requests_per_vm: f64,
    /// Mutating requests per VM.
    pub mutating_per_vm: f64,
    /// Requests by method.
    pub by_method: BTreeMap<String, u64>,
    /// The size of requests and responses in bytes.
    pub bytes: u64,
    /// Writes to the API server per VM, without events and leases.
    pub api_writes_per_vm: f64,
    /// The same writes by verb and resource.
    pub api_writes: BTreeMap<String, u64>,
    /// All other API server requests by verb and resource.
    pub api_others: BTreeMap<String, u64>,
    /// Peak resident memory.
    pub rss_peak_mi_b: f64,
    /// CPU time per VM.
    pub cpu_ms_per_vm: f64,
    /// CPU time per VM in other processes: API server, etcd, vCenter and this program. It shows which process limits
    /// the speed.
    pub cpu_ms_per_vm_elsewhere: BTreeMap<String, f64>,
}

/// The cost of deleting VMs.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeletionCost {
    /// The time until the last object is gone.
    pub seconds: f64,
    pub requests_per_vm: f64,
    /// Requests by method.
    pub by_method: BTreeMap<String, u64>,
    /// Writes to the API server per VM, without the DELETE requests themselves.
    pub api_writes_per_vm: f64,
}

/// Measures the floor and the VM operator.
pub async fn run(flags: Flags) -> Result<ScaleReport> {
    let keeper = flags.keep.keeper()?;
    let shape = VmShape { image: node_image(), module_group: flags.module_group };
    let site = [format!("--guests-report-after={}ms", flags.ip_delay.as_millis())];
    let floor = if flags.no_floor {
        None
    } else {
        Some(floor::measure_floor(flags.count, flags.wire, &site, &shape, flags.profile.as_deref()).await?)
    };
    let testbed = Testbed::start(&site).await?.with_vmop(flags.vmop.as_deref())?;
    let measured = Measurement::start(&testbed, &flags, shape).await?.run().await;
    if let Some(log) = flags.log.as_ref().and(testbed.log("vmop")) {
        eprintln!("{log}");
    }
    let (vmop, one_alone_seconds, rest, delete) = measured?;
    testbed.stop().await?;
    let ratio_to_floor = floor.as_ref().map(|floor| vmop.seconds_to_ip / floor.seconds);
    let (count, wire) = (flags.count, flags.wire.name());
    let report = ScaleReport { count, wire, floor, vmop, ratio_to_floor, one_alone_seconds, rest, delete };
    if let Some(keeper) = keeper {
        keeper.keep(&flags.run_name(), &report, FIGURES)?;
    }
    Ok(report)
}

struct Measurement<'a> {
    testbed: &'a Testbed,
    flags: &'a Flags,
    shape: VmShape,
    vmop: Running,
    watch: VmWatch,
}

impl<'a> Measurement<'a> {
    /// Starts the VM operator, and creates bootstrap data for all VMs.
    async fn start(testbed: &'a Testbed, flags: &'a Flags, shape: VmShape) -> Result<Self> {
        let client = testbed.client();
        vms::create_secrets(&client, MANY, flags.count).await?;
        for ahead in AHEAD {
            vms::create_secrets(&client, ahead, 1).await?;
        }
        if flags.module_group {
            testbed.apply(&vms::policy_object()).await?;
        }
        let log = flags.log.iter().map(|level| format!("--log-level={level}")).collect::<Vec<_>>();
        let vmop = testbed.start_vmop(flags.wire, WebhookCalls::Called, &log).await?;
        let watch = VmWatch::start(client).await?;
        Ok(Self { testbed, flags, shape, vmop, watch })
    }

    async fn run(mut self) -> Result<(Cost, f64, IdleCost, DeletionCost)> {
        let mut alone = 0.0;
        for (number, ahead) in AHEAD.iter().enumerate() {
            alone = self.measure_one(ahead, number + 1).await?;
        }
        let cost = self.measure_many().await.context("while VMs were made")?;
        let rest = idle::watch_idle(self.testbed, self.pid()?, self.flags.rest).await?;
        let delete = self.measure_delete().await.context("while VMs were deleted")?;
        Ok((cost, alone, rest, delete))
    }

    fn pid(&self) -> Result<u32> {
        self.vmop.pid().context("vmop does not run")
    }

    /// Returns a generous timeout: it must not affect the measurement.
    fn limit(&self) -> Duration {
        Duration::from_mins(2) + self.flags.ip_delay + Duration::from_millis(500) * self.count()
    }

    fn count(&self) -> u32 {
        u32::try_from(self.flags.count).unwrap_or(u32::MAX)
    }

    /// Returns one VM's time from object to address, in seconds.
    async fn measure_one(&mut self, prefix: &str, ready: usize) -> Result<f64> {
        let began = Instant::now();
        vms::create_vms(&self.testbed.client(), prefix, 1, &self.shape).await?;
        let limit = self.limit();
        let reached = self.watch.wait_until("address", limit, |count| count.ip >= ready).await?;
        api_writes::wait_until_quiet(&self.testbed.client()).await?;
        Ok(reached.duration_since(began).as_secs_f64())
    }

    async fn measure_many(&mut self) -> Result<Cost> {
        let (client, control, pid) = (self.testbed.client(), self.testbed.control(), self.pid()?);
        let (count, all, limit) = (self.flags.count, self.flags.count + AHEAD.len(), self.limit());
        let (writes, others) = (ApiWrites::read(&client).await?, ApiWrites::read_others(&client).await?);
        let (cpu, elsewhere) = (process::cpu(pid), self.testbed.cpu());
        control.forget_requests().await?;
        let profile = Profile::begin(&client, self.flags.profile.as_deref(), "vmop");
        let began = Instant::now();
        let making = vms::create_vms(&client, MANY, count, &self.shape);
        let watch = &mut self.watch;
        let reaching = async {
            let on = watch.wait_until("power", limit, |count| count.on >= all).await?;
            let ip = watch.wait_until("address", limit, |count| count.ip >= all).await?;
            Ok((on, ip))
        };
        let ((), (on, ip)) = tokio::try_join!(making, reaching)?;
        self.watch.wait_until("VMs that are Ready", limit, |count| count.ready >= all).await?;
        api_writes::wait_until_quiet(&self.testbed.client()).await?;
        let cpu = process::cpu(pid).saturating_sub(cpu);
        let cpu_ms_per_vm_elsewhere = cpu_ms_since(&self.testbed.cpu(), &elsewhere, count);
        let requests = control.requests().await?;
        profile.finish().await?;
        let made = u64::try_from(count)?;
        let writes = ApiWrites::read(&client).await?.since(&writes).without("POST virtualmachines", made);
        Ok(Cost {
            seconds_to_powered_on: on.duration_since(began).as_secs_f64(),
            seconds_to_ip: ip.duration_since(began).as_secs_f64(),
            requests: requests.total,
            requests_per_vm: per_vm(requests.total, count),
            mutating_per_vm: per_vm(calls::count_mutating(&requests), count),
            by_method: calls::count_by_method(&requests),
            bytes: requests.bytes.received + requests.bytes.sent,
            api_writes_per_vm: per_vm(writes.total(), count),
            api_writes: writes.0,
            api_others: ApiWrites::read_others(&client).await?.since(&others).0,
            rss_peak_mi_b: process::peak(pid),
            cpu_ms_per_vm: cpu.as_secs_f64() * 1000.0 / divisor(count),
            cpu_ms_per_vm_elsewhere,
        })
    }

    async fn measure_delete(&mut self) -> Result<DeletionCost> {
        let (client, control, count, limit) =
            (self.testbed.client(), self.testbed.control(), self.flags.count, self.limit());
        let writes = ApiWrites::read(&client).await?;
        control.forget_requests().await?;
        let began = Instant::now();
        let deleting = vms::delete_vms(&client, MANY, count);
        let leaving = self.watch.wait_until("end", limit, |count| count.there <= AHEAD.len());
        let ((), gone) = tokio::try_join!(deleting, leaving)?;
        let requests = control.requests().await?;
        api_writes::wait_until_quiet(&client).await?;
        let deleted = u64::try_from(count)?;
        let writes =
            ApiWrites::read(&client).await?.since(&writes).without("DELETE virtualmachines", deleted);
        Ok(DeletionCost {
            seconds: gone.duration_since(began).as_secs_f64(),
            requests_per_vm: per_vm(requests.total, count),
            by_method: calls::count_by_method(&requests),
            api_writes_per_vm: per_vm(writes.total(), count),
        })
    }
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    let read = text.parse::<SignedDuration>().ok().and_then(|duration| duration.try_into().ok());
    read.ok_or_else(|| format!("{text:?} is not a duration such as 20s or 500ms"))
}
