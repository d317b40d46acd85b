//! Lists bootstrap clusters, and warns about certificates that expire. Certificates aren't renewed while a bootstrap
//! cluster is stopped, so a summary with their expiry is saved when it stops.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use api::capi::Machine;
use api::names::label;
use api::vmop::VirtualMachine;
use jiff::{Timestamp, Unit};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use serde::{Deserialize, Serialize};

use crate::args::Output;
use crate::describe::cluster_view::{ClusterView, TKC};
use crate::describe::words::age;
use crate::state::folder::BootstrapFolder;
use crate::state::record::Record;
use crate::state::trouble;
use crate::terminal::output::{align, say, write_json, write_out};

const FILE: &str = "summary.json";
/// Cluster API replaces a control plane node this number of days before its certificates expire.
const RENEWED_BEFORE: i64 = 90;

/// The last known state of a bootstrap cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Summary {
    stopped: String,
    vms: usize,
    clusters: Vec<Known>,
}

/// The state of a workload cluster when the bootstrap cluster stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Known {
    namespace: String,
    name: String,
    phase: String,
    /// The earliest expiry of the control plane certificates, in RFC 3339.
    certificates_until: Option<String>,
}

impl Known {
    /// Returns the number of whole days until the first certificate expires. It is negative after the expiry. Returns `None`
    /// if the expiry isn't known.
    fn days(&self, now: Timestamp) -> Option<i64> {
        let until = self.certificates_until.as_ref()?.parse::<Timestamp>().ok()?;
        Some(until.duration_since(now).as_secs().div_euclid(24 * 60 * 60))
    }
}

/// Saves the bootstrap cluster's state.
pub async fn keep(folder: &BootstrapFolder, client: &Client) -> Result<()> {
    let summary = Summary {
        stopped: Timestamp::now().round(Unit::Second)?.to_string(),
        vms: vms(client).await?.len(),
        clusters: known(client).await?,
    };
    folder.write(FILE, &summary)
}

/// Returns the namespace and name of each VM in the management cluster.
pub async fn vms(client: &Client) -> Result<Vec<(String, String)>> {
    let found = Api::<VirtualMachine>::all(client.clone()).list_metadata(&ListParams::default()).await;
    let found = found.context("cannot list VirtualMachines")?.items;
    Ok(found.iter().map(|vm| (vm.namespace().unwrap_or_default(), vm.name_any())).collect())
}

async fn known(client: &Client) -> Result<Vec<Known>> {
    let clusters = ClusterView::read_all(client, None).await?;
    let machines = Api::<Machine>::all(client.clone()).list(&ListParams::default()).await;
    let machines = machines.context("cannot list Machines")?;
    let mut ends: BTreeMap<(String, String), String> = BTreeMap::new();
    for machine in &machines.items {
        let end = machine.status.as_ref().and_then(|status| status.certificates_expiry_date.clone());
        let (Some(end), Some(cluster)) = (end, machine.labels().get(label::CLUSTER_NAME)) else { continue };
        let key = (machine.namespace().unwrap_or_default(), cluster.clone());
        // RFC 3339 times in UTC sort as strings.
        let first = ends.get(&key).is_none_or(|before| end < *before);
        if first {
            ends.insert(key, end);
        }
    }
    let known = clusters.into_iter().filter(|cluster| cluster.kind == TKC).map(|cluster| {
        let ClusterView { namespace, name, phase, .. } = cluster;
        let certificates_until = ends.remove(&(namespace.clone(), name.clone()));
        Known { namespace, name, phase, certificates_until }
    });
    Ok(known.collect())
}

/// Warns about clusters with expired certificates, and about clusters whose control plane nodes are replaced because
/// certificates expire soon.
pub async fn warn_of_certificates(client: &Client) -> Result<()> {
    for cluster in known(client).await? {
        if let Some(warning) = warning(&cluster, Timestamp::now()) {
            say!("warning: {warning}");
        }
    }
    Ok(())
}

fn warning(cluster: &Known, now: Timestamp) -> Option<String> {
    let named = format!("{}/{}", cluster.namespace, cluster.name);
    match cluster.days(now)? {
        days if days < 0 => Some(format!(
            "the certificates of {named} have ended, so its API server refuses all clients. Its control plane cannot be repaired from here: renew them on its nodes with kubeadm certs renew all"
        )),
        days if days < RENEWED_BEFORE => {
            let time = if days == 0 { "less than a day".to_owned() } else { format!("{days} days") };
            Some(format!(
                "the certificates of {named} end in {time}, so its control plane nodes are replaced now, one after the other"
            ))
        }
        _ => None,
    }
}

/// Prints when the clusters' certificates expire, because certificates aren't renewed while the bootstrap cluster is
/// stopped.
pub fn say_certificates(folder: &BootstrapFolder) -> Result<()> {
    let summary: Summary = folder.read(FILE)?.unwrap_or_default();
    for Known { namespace, name, certificates_until, .. } in &summary.clusters {
        if let Some(until) = certificates_until {
            let date = until.split('T').next().unwrap_or(until);
            say!("{namespace}/{name}: nodes are not repaired now, and certificates end on {date}");
        }
    }
    Ok(())
}

/// Returns true if the bootstrap cluster had neither clusters nor VMs when it was stopped. Returns false without a
/// summary.
pub fn is_empty(folder: &BootstrapFolder) -> Result<bool> {
    let summary: Option<Summary> = folder.read(FILE)?;
    Ok(summary.is_some_and(|summary| summary.vms == 0 && summary.clusters.is_empty()))
}

/// A bootstrap cluster in the list.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    name: String,
    status: &'static str,
    process: Option<u32>,
    folder: String,
    /// The reason why a running bootstrap cluster can't work.
    #[serde(skip_serializing_if = "Option::is_none")]
    trouble: Option<String>,
    #[serde(flatten)]
    last: Summary,
}

/// Lists the bootstrap clusters on this machine.
pub fn list(output: Option<Output>) -> Result<()> {
    let rows = BootstrapFolder::all()?
        .iter()
        .filter(|folder| folder.exists())
        .map(row)
        .collect::<Result<Vec<_>>>()?;
    match output {
        Some(Output::Json) => {
            write_json(&serde_json::json!({"schema": 1, "bootstrapClusters": rows}))?;
        }
        None if rows.is_empty() => {
            say!("There are no bootstrap clusters. layercake bootstrap start creates one.");
        }
        None => {
            write_out(&table(&rows, Timestamp::now()));
            for row in &rows {
                if let Some(trouble) = &row.trouble {
                    say!("{}: {trouble}", row.name);
                }
            }
        }
    }
    Ok(())
}

fn row(folder: &BootstrapFolder) -> Result<Row> {
    let process = folder.daemon().holder()?;
    let is_ready = folder.daemon().read::<Record>()?.is_some_and(|record| record.ready);
    let status = match (process, is_ready) {
        (Some(_), true) => "running",
        (Some(_), false) => "starting",
        (None, _) => "stopped",
    };
    Ok(Row {
        name: folder.name().to_owned(),
        status,
        process,
        folder: folder.path().display().to_string(),
        trouble: process.and_then(|_| trouble::of_running(folder)),
        // The stored summary of a running cluster is outdated.
        last: if process.is_none() { folder.read(FILE)?.unwrap_or_default() } else { Summary::default() },
    })
}

fn table(rows: &[Row], now: Timestamp) -> String {
    let lines = rows.iter().map(|row| {
        let clusters: Vec<_> = row.last.clusters.iter().map(|one| shown(one, now)).collect();
        let is_stopped = row.process.is_none() && !row.last.stopped.is_empty();
        let status = match row.process {
            Some(process) => format!("{} (process {process})", row.status),
            None if is_stopped => format!("{} {} ago", row.status, age(&row.last.stopped, now)),
            None => row.status.to_owned(),
        };
        let vms = if is_stopped { row.last.vms.to_string() } else { "-".to_owned() };
        let clusters = match (row.process, clusters.is_empty()) {
            (Some(_), _) => format!("layercake list -A --bootstrap {}", row.name),
            (None, true) => "-".to_owned(),
            (None, false) => clusters.join(", "),
        };
        [row.name.clone(), status, vms, clusters]
    });
    let head = ["NAME", "STATUS", "VMS", "CLUSTERS"].map(str::to_owned);
    let lines: Vec<_> = std::iter::once(head).chain(lines).collect();
    align(&lines).join("\n") + "\n"
}

fn shown(cluster: &Known, now: Timestamp) -> String {
    let Known { namespace, name, phase, .. } = cluster;
    let end = cluster.days(now).map(|days| format!(", certificates {days} d")).unwrap_or_default();
    format!("{namespace}/{name} ({phase}{end})")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(until: &str) -> Known {
        Known {
            namespace: "edge".to_owned(),
            name: "edge".to_owned(),
            phase: "running".to_owned(),
            certificates_until: Some(until.to_owned()),
        }
    }

    fn now() -> Timestamp {
        "2026-11-27T00:00:00Z".parse().unwrap()
    }

    #[test]
    fn certificates_that_end_are_named_in_time() {
        assert_eq!(warning(&cluster("2027-11-24T00:00:00Z"), now()), None);
        let soon = warning(&cluster("2027-01-27T12:00:00Z"), now()).unwrap();
        assert!(soon.contains("edge/edge end in 61 days, so its control plane nodes are replaced"), "{soon}");
        let late = warning(&cluster("2026-11-01T00:00:00Z"), now()).unwrap();
        assert!(late.contains("have ended"), "{late}");
        let just = warning(&cluster("2026-11-26T23:00:00Z"), now()).unwrap();
        assert!(just.contains("have ended"), "an hour ago: {just}");
        let today = warning(&cluster("2026-11-27T23:00:00Z"), now()).unwrap();
        assert!(today.contains("end in less than a day,"), "{today}");
    }

    #[test]
    fn the_list_shows_the_last_known_state() {
        let last = Summary {
            stopped: "2026-11-24T00:00:00Z".to_owned(),
            vms: 2,
            clusters: vec![cluster("2027-11-24T00:00:00Z")],
        };
        let row = |name: &str, status, process, last| Row {
            name: name.to_owned(),
            status,
            process,
            folder: String::new(),
            trouble: None,
            last,
        };
        let rows = [row("edge", "stopped", None, last), row("lab", "running", Some(7), Summary::default())];
        insta::assert_snapshot!(table(&rows, now()), @r"
        NAME   STATUS                VMS   CLUSTERS
        edge   stopped 3d ago        2     edge/edge (running, certificates 362 d)
        lab    running (process 7)   -     layercake list -A --bootstrap lab
        ");
    }
}
