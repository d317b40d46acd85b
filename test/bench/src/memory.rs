//! `vm-memory`: measures the time and memory that the VM operator needs to start with N existing virtual VMs.
//!
//! The VM operator creates one VM. Then copies of the VM fill the simulated vCenter, copies of its object, including
//! the status, fill the API server, and the VM operator is restarted.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Parser;
use futures::{StreamExt, TryStreamExt, stream};
use kube::api::{DynamicObject, Patch, PatchParams};
use plane::Running;
use serde::Serialize;
use serde_json::{Value, json};
use sim::control::VmCopy;
use tokio::time::Instant;

use crate::api_writes::{self, ApiWrites};
use crate::average::divisor;
use crate::figures::{KeepFlags, Sources};
use crate::idle::{self, IdleCost};
use crate::testbed::{Testbed, WebhookCalls, WireFlag};
use crate::vm_watch::VmWatch;
use crate::vms::{self, PARALLEL, VmShape, node_image};
use crate::{calls, process};

const ORIGINAL: &str = "original";
const COPY: &str = "copy";
const LIMIT: Duration = Duration::from_mins(10);
/// The polling interval for the VM operator's metrics.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// The time after which the VM operator's memory counts as settled.
const SETTLED: Duration = Duration::from_secs(15);

/// Resources that the installation writes, not the VM operator.
const SETUP: [&str; 9] = [
    "clusterrolebindings",
    "clusterroles",
    "configmaps",
    "namespaces",
    "rolebindings",
    "roles",
    "secrets",
    "serviceaccounts",
    "virtualmachineclasses",
];

/// The figures to store from a report.
const FIGURES: &Sources = &[
    ("secondsToKnowAll", "/secondsToKnowAll"),
    ("cpuSeconds", "/cpuSeconds"),
    ("rssPeakMiB", "/rssPeakMiB"),
    ("rssSettledMiB", "/rssSettledMiB"),
    ("calls", "/calls"),
    ("apiWrites", "/apiWrites"),
];

/// Starts the VM operator on VMs that exist already, and measures its memory.
#[derive(Clone, Debug, Parser)]
#[command(name = "vm-memory")]
pub struct Flags {
    /// How many VMs.
    #[arg(long, default_value_t = 10_000)]
    pub count: usize,

    /// The VM operator's executable; else this program is the VM operator, too, and more code is in memory.
    #[arg(long)]
    pub vmop: Option<PathBuf>,

    /// How the VM operator speaks with vCenter.
    #[arg(long, value_enum, default_value_t)]
    pub wire: WireFlag,

    /// For how many seconds the idle VM operator is watched.
    #[arg(long, default_value_t = 30)]
    pub rest: u64,

    /// Where the figures go.
    #[command(flatten)]
    pub keep: KeepFlags,
}

/// The measured cost.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MemoryReport {
    pub count: usize,
    pub wire: &'static str,
    /// The time from the start until the VM operator has read all VMs and reconciled all objects.
    pub seconds_to_know_all: f64,
    /// The CPU time until then.
    pub cpu_seconds: f64,
    /// Resident memory after it has settled.
    pub rss_settled_mi_b: f64,
    /// Peak resident memory.
    pub rss_peak_mi_b: f64,
    /// The number of vCenter requests from the start until memory has settled.
    pub calls: u64,
    /// The same requests by method.
    pub by_method: BTreeMap<String, u64>,
    /// The size of these requests and their responses in bytes.
    pub bytes: u64,
    /// Writes to the API server from the start on, without events and leases.
    pub api_writes: BTreeMap<String, u64>,
    /// The cost while idle.
    pub rest: IdleCost,
}

/// Creates the VMs and measures the start.
pub async fn run(flags: Flags) -> Result<MemoryReport> {
    let keeper = flags.keep.keeper()?;
    let testbed =
        Testbed::start(&["--guests-report-after=0s".to_owned()]).await?.with_vmop(flags.vmop.as_deref())?;
    let original = create_original(&testbed, flags.wire).await?;
    let moid = original.data["status"]["uniqueID"]
        .as_str()
        .context("the VirtualMachine has no uniqueID")?
        .to_owned();
    let copies = testbed.control().copies(&moid, flags.count, COPY).await?;
    eprintln!("{} VMs are there", copies.len());
    create_copies(&testbed, &original, &copies).await?;
    eprintln!("{} objects are there", copies.len());
    api_writes::wait_until_quiet(&testbed.client()).await?;
    let report = measure_start(&testbed, &flags).await?;
    testbed.stop().await?;
    if let Some(keeper) = keeper {
        keeper.keep(&format!("memory-{}-{}", flags.count, flags.wire.name()), &report, FIGURES)?;
    }
    Ok(report)
}

/// Lets the VM operator create one VM, and stops it.
async fn create_original(testbed: &Testbed, wire: WireFlag) -> Result<DynamicObject> {
    let client = testbed.client();
    vms::create_secrets(&client, ORIGINAL, 1).await?;
    let vmop = testbed.start_vmop(wire, WebhookCalls::Uncalled, &[]).await?;
    let mut watch = VmWatch::start(client.clone()).await?;
    let shape = VmShape { image: node_image(), module_group: false };
    vms::create_vms(&client, ORIGINAL, 1, &shape).await?;
    watch.wait_until("VM that is Ready", LIMIT, |count| count.ready == 1 && count.ip == 1).await?;
    api_writes::wait_until_quiet(&client).await?;
    vmop.stop().await;
    Ok(vms::virtual_machines(&client).get(&vms::vm_name(ORIGINAL, 0)).await?)
}

/// Creates an object for each copy, with the original's spec and status adapted to the copy.
async fn create_copies(testbed: &Testbed, original: &DynamicObject, copies: &[VmCopy]) -> Result<()> {
    let api = vms::virtual_machines(&testbed.client());
    let create = |copy| {
        let api = &api;
        async move {
            let (object, status) = copy_object(original, copy)?;
            vms::create_object(api, object).await?;
            let patch = Patch::Merge(json!({ "status": status }));
            api.patch_status(&copy.name, &PatchParams::default(), &patch).await?;
            Ok::<_, anyhow::Error>(())
        }
    };
    stream::iter(copies).map(create).buffer_unordered(PARALLEL).try_collect().await
}

fn copy_object(original: &DynamicObject, copy: &VmCopy) -> Result<(Value, Value)> {
    let mut whole = serde_json::to_value(original)?;
    let status = whole["status"].take();
    let text = |pointer: &str| status.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let own = [
        (text("/uniqueID"), &copy.moid),
        (text("/instanceUUID"), &copy.uuid),
        (text("/biosUUID"), &copy.uuid),
        (text("/vmIp"), &copy.ip),
    ];
    let renamed = |value: &Value| -> Result<Value> {
        let mut json = serde_json::to_string(value)?;
        for (old, new) in own.iter().filter(|(old, _)| !old.is_empty()) {
            // Some fields contain an address with its prefix length.
            for end in ['"', '/'] {
                json = json.replace(&format!("\"{old}{end}"), &format!("\"{new}{end}"));
            }
        }
        Ok(serde_json::from_str(&json)?)
    };
    let meta = &whole["metadata"];
    let object = json!({
        "apiVersion": whole["apiVersion"], "kind": whole["kind"],
        "metadata": {
            "name": copy.name, "labels": meta["labels"], "annotations": meta["annotations"],
            "finalizers": meta["finalizers"], "ownerReferences": meta["ownerReferences"],
        },
        "spec": renamed(&whole["spec"])?,
    });
    Ok((object, renamed(&status)?))
}

async fn measure_start(testbed: &Testbed, flags: &Flags) -> Result<MemoryReport> {
    let (client, control) = (testbed.client(), testbed.control());
    let before = ApiWrites::read(&client).await?;
    control.forget_requests().await?;
    let began = Instant::now();
    let vmop = testbed.start_vmop(flags.wire, WebhookCalls::Uncalled, &[]).await?;
    let pid = vmop.pid().context("vmop does not run")?;
    wait_until_known(&vmop, flags.count + 1).await?;
    let seconds_to_know_all = began.elapsed().as_secs_f64();
    let cpu = process::cpu(pid);
    tokio::time::sleep(SETTLED).await;
    api_writes::wait_until_quiet(&client).await?;
    let requests = control.requests().await?;
    let rest = idle::watch_idle(testbed, pid, flags.rest).await?;
    Ok(MemoryReport {
        count: flags.count,
        wire: flags.wire.name(),
        seconds_to_know_all,
        cpu_seconds: cpu.as_secs_f64(),
        rss_settled_mi_b: process::resident(pid),
        rss_peak_mi_b: process::peak(pid),
        calls: requests.total,
        by_method: calls::count_by_method(&requests),
        bytes: requests.bytes.received + requests.bytes.sent,
        api_writes: ApiWrites::read(&client).await?.since(&before).only(|what| !SETUP.contains(&what)).0,
        rest,
    })
}

/// Waits until the VM operator has all VMs in its cache and has reconciled all objects.
async fn wait_until_known(vmop: &Running, count: usize) -> Result<()> {
    let wanted = divisor(count);
    let deadline = Instant::now() + LIMIT;
    loop {
        let metrics = read_metrics(vmop).await.unwrap_or_default();
        let vms = sum_samples(&metrics, "vcenter_inventory_machines", "");
        let done =
            sum_samples(&metrics, "reconciles_total", "controller=\"virtualmachine\",outcome=\"Done\"");
        if vms >= wanted && done >= wanted {
            return Ok(());
        }
        if Instant::now() > deadline {
            bail!("vmop knows {vms} VMs and has looked at {done} objects of {wanted}");
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

async fn read_metrics(vmop: &Running) -> Result<String> {
    // The testbed starts vmop with `--insecure-diagnostics`, so it serves metrics over plain HTTP.
    let url = vmop.metrics().replacen("https://", "http://", 1);
    Ok(reqwest::get(url).await?.text().await?)
}

/// Sums the samples in this metric family whose labels contain `labels`.
fn sum_samples(metrics: &str, family: &str, labels: &str) -> f64 {
    let of_family = |line: &&str| {
        let rest = line.split_once(family).map(|(_, rest)| rest);
        rest.is_some_and(|rest| rest.starts_with(['{', ' ']) && rest.contains(labels))
    };
    let lines = metrics.lines().filter(|line| !line.starts_with('#')).filter(of_family);
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_says_of_itself_what_the_original_says() {
        let original: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "v", "kind": "K",
            "metadata": {"name": "a", "uid": "u", "finalizers": ["f"]},
            "spec": {"biosUUID": "1-1", "imageName": "vm-1"},
            "status": {"biosUUID": "1-1", "instanceUUID": "1-1", "uniqueID": "vm-1", "vmIp": "10.0.0.1", "n": ["10.0.0.1/16"]},
        }))
        .unwrap();
        let copy =
            VmCopy { name: "b".into(), moid: "vm-7".into(), uuid: "2-2".into(), ip: "10.0.0.2".into() };
        let (object, status) = copy_object(&original, &copy).unwrap();
        assert_eq!(object["metadata"]["name"], "b");
        assert_eq!(object["spec"]["biosUUID"], "2-2");
        assert_eq!(
            status,
            json!({"biosUUID": "2-2", "instanceUUID": "2-2", "uniqueID": "vm-7", "vmIp": "10.0.0.2", "n": ["10.0.0.2/16"]})
        );
    }

    #[test]
    fn samples_are_summed() {
        let metrics = "# TYPE vcenter_inventory_machines gauge\nvcenter_inventory_machines 7\n\
            reconciles_total{controller=\"virtualmachine\",outcome=\"Done\"} 3\n\
            reconciles_total{controller=\"virtualmachine\",outcome=\"Unmet\"} 4\n";
        assert!((sum_samples(metrics, "vcenter_inventory_machines", "") - 7.0).abs() < f64::EPSILON);
        let done = "controller=\"virtualmachine\",outcome=\"Done\"";
        assert!((sum_samples(metrics, "reconciles_total", done) - 3.0).abs() < f64::EPSILON);
    }
}
