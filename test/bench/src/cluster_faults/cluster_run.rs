//! Creates, scales and deletes one cluster, with at most one fault in each step.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context as _, Result};
use api::gcm::TanzuKubernetesCluster;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use sim::control::{FaultKind, FaultRule, InventoryVm};

use super::cases::{Case, RunStep, Write};
use super::environment::{CLASS, ManagementCluster, NAMESPACE, STORAGE, Watched};
use super::killer::COMMAND;
use crate::proxy::injections::{ParkPoint, Side};

/// The timeout per step.
const TIMEOUT: Duration = Duration::from_mins(5);
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// The time that controllers get to finish after the cluster has reached its state.
const SETTLED: Duration = Duration::from_secs(20);
/// The kinds that are checked for leftover objects after a cluster is deleted.
const KINDS: [(&str, &str, &str); 9] = [
    ("cluster.x-k8s.io", "v1beta2", "Cluster"),
    ("cluster.x-k8s.io", "v1beta2", "Machine"),
    ("controlplane.cluster.x-k8s.io", "v1beta2", "KubeadmControlPlane"),
    ("bootstrap.cluster.x-k8s.io", "v1beta2", "KubeadmConfig"),
    ("infrastructure.cluster.vmware.com", "v1beta2", "WCPCluster"),
    ("infrastructure.cluster.vmware.com", "v1beta2", "WCPMachine"),
    ("vmoperator.vmware.com", "v1alpha1", "VirtualMachine"),
    ("ipam.cluster.x-k8s.io", "v1beta2", "IPAddressClaim"),
    ("", "v1", "Secret"),
];

/// The result of one run.
#[derive(Debug, Default)]
pub struct RunResult {
    /// The writes that our programs made.
    pub writes: BTreeSet<Write>,
    /// The cases whose fault was injected.
    pub injected: Vec<Case>,
    /// Descriptions for the findings.
    pub wrong: Vec<String>,
    pub findings: ViolationCounts,
}

/// Counts by kind.
#[derive(Clone, Copy, Debug, Default)]
pub struct ViolationCounts {
    pub lost: usize,
    pub duplicated: usize,
    pub orphaned: usize,
    pub stuck: bool,
}

/// Creates, scales and deletes a cluster. Stops after the step `last`.
pub async fn run_cluster(
    environment: &ManagementCluster,
    name: &str,
    cases: &[Case],
    last: RunStep,
) -> Result<RunResult> {
    let mut outcome = RunResult::default();
    let clusters = Api::<TanzuKubernetesCluster>::namespaced(environment.client(), NAMESPACE);
    for step in RunStep::OF_CLUSTER {
        let case = cases.iter().find(|case| case.write.step == step);
        let (own, others) = match case {
            Some(case) if case.write.program == COMMAND => (Some(case), None),
            case => (None, case),
        };
        environment.programs.iter().for_each(|watched| watched.proxy.reset());
        environment.control.take_journal().await?;
        let work = async {
            let begun = begin(environment, &clusters, name, step, own).await?;
            anyhow::Ok((begun, wait_until_done(&clusters, name, step).await?))
        };
        let fault = async {
            if let Some(case) = others {
                inject(environment, case).await?;
            }
            anyhow::Ok(())
        };
        let mut fault = std::pin::pin!(fault);
        let mut work = std::pin::pin!(work);
        let mut arrived = false;
        // The select is biased, so the fault is in place before the step begins.
        let (begun, halted) = loop {
            tokio::select! {
                biased;
                injected = &mut fault, if !arrived => {
                    injected?;
                    arrived = true;
                }
                ended = &mut work => break ended?,
            }
        };
        environment.control.remove_faults(None).await?;
        environment.programs.iter().for_each(|watched| watched.proxy.with_injections(|all| all.next = None));
        let is_injected = if own.is_some() { begun.killed } else { arrived };
        if let Some(case) = case.filter(|_| is_injected) {
            outcome.injected.push(case.clone());
        }
        outcome.writes.extend(begun.writes);
        note_writes(environment, step, &mut outcome).await?;
        if let Some(halt) = halted {
            outcome.findings.stuck = true;
            outcome.wrong.push(format!("{}: {halt}", step.name()));
        }
        check(environment, name, step, &mut outcome).await?;
        if outcome.findings.stuck || step == last {
            break;
        }
    }
    Ok(outcome)
}

/// The result when a step's command has succeeded.
#[derive(Default)]
struct Begun {
    killed: bool,
    writes: BTreeSet<Write>,
}

/// Runs the step's command until it succeeds: webhooks don't respond while their program is dead, and the library's
/// releases may not exist yet. If the case is about the command itself, the first attempt is killed at the case's
/// write.
async fn begin(
    environment: &ManagementCluster,
    clusters: &Api<TanzuKubernetesCluster>,
    name: &str,
    step: RunStep,
    mut case: Option<&Case>,
) -> Result<Begun> {
    let user = &environment.user;
    let kubeconfig = environment.kubeconfig();
    let manifest = user.path(&format!("{name}.json"));
    let mut args = match step {
        RunStep::Apply => {
            std::fs::write(&manifest, cluster(name).to_string())?;
            vec!["apply", "-f", &manifest]
        }
        RunStep::Scale => vec!["scale", name, "--replicas", "2"],
        _ => vec!["delete", name],
    };
    args.extend(["--wait=false", "-n", NAMESPACE, "--kubeconfig", &kubeconfig]);
    let mut begun = Begun::default();
    let mut errors = String::new();
    let done = plane::wait::poll(TIMEOUT, POLL_INTERVAL, async || {
        let finished = user.run(step, &args, case).await?;
        begun.writes.extend(finished.writes);
        errors = finished.errors;
        if finished.killed {
            begun.killed = true;
            case = None;
            return Ok(None);
        }
        // The killed command may already have deleted the cluster.
        let is_deleted = step == RunStep::Delete && clusters.get_opt(name).await?.is_none();
        anyhow::Ok((finished.ok || is_deleted).then_some(()))
    });
    let done = done.await?;
    done.with_context(|| format!("{args:?} does not succeed within {TIMEOUT:?}: {errors}"))?;
    Ok(begun)
}

fn cluster(name: &str) -> Value {
    let nodes = json!({"replicas": 1, "vmClass": CLASS, "storageClass": STORAGE});
    let mut pool = nodes.clone();
    pool["name"] = "workers".into();
    let mut control_plane = nodes;
    control_plane["tkr"] = json!({"reference": {"name": "v1.36"}});
    json!({
        "apiVersion": "run.tanzu.vmware.com/v1alpha3", "kind": "TanzuKubernetesCluster",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"topology": {"controlPlane": control_plane, "nodePools": [pool]}},
    })
}

/// Waits until the step is done. After a timeout, returns the last observed state.
async fn wait_until_done(
    clusters: &Api<TanzuKubernetesCluster>,
    name: &str,
    step: RunStep,
) -> Result<Option<String>> {
    let mut state = String::new();
    let done = plane::wait::poll(TIMEOUT, POLL_INTERVAL, async || {
        let mut is_done = false;
        match clusters.get_opt(name).await {
            Ok(None) if step == RunStep::Delete => is_done = true,
            Ok(Some(cluster)) => {
                let status = serde_json::to_value(&cluster.status)?;
                let is_current = status["observedGeneration"].as_i64() == cluster.metadata.generation;
                is_done = step != RunStep::Delete
                    && is_current
                    && status["phase"] == "running"
                    && is_ready(&status);
                state = status["conditions"].to_string();
            }
            Ok(None) => "it does not exist".clone_into(&mut state),
            Err(error) => state = error.to_string(),
        }
        anyhow::Ok(is_done.then_some(()))
    });
    Ok(if done.await?.is_some() { None } else { Some(state) })
}

fn is_ready(status: &Value) -> bool {
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

/// Waits until the program is parked at its write, then kills and restarts it.
async fn inject(environment: &ManagementCluster, case: &Case) -> Result<()> {
    let Write { program, side, what, .. } = &case.write;
    let watched = environment.programs.iter().find(|watched| watched.name == *program);
    let Watched { program, proxy, .. } = watched.context("no such program")?;
    match side {
        Side::Vcenter => {
            let kind = match case.point {
                ParkPoint::Before => FaultKind::ParkCall,
                ParkPoint::After => FaultKind::ParkAnswer,
            };
            environment.control.plant(&FaultRule::once(what, kind)).await?;
            // If the call isn't made, the step ends first and drops this future.
            let held = plane::wait::poll(2 * TIMEOUT, POLL_INTERVAL / 4, async || {
                let faults = environment.control.faults().await?;
                let mut faults = faults["faults"].as_array().into_iter().flatten();
                anyhow::Ok(faults.any(|fault| fault["held"] == 1).then_some(()))
            });
            held.await?.with_context(|| format!("{what} is not called"))?;
        }
        Side::Api | Side::Event => {
            let mut reached = proxy.park_next(what, case.point);
            let _ = reached.wait_for(|reached| *reached).await;
        }
    }
    program.kill().await;
    proxy.with_injections(|injections| injections.next = None);
    environment.control.remove_faults(None).await?;
    program.revive().await;
    Ok(())
}

async fn note_writes(environment: &ManagementCluster, step: RunStep, outcome: &mut RunResult) -> Result<()> {
    for Watched { name, proxy, .. } in &environment.programs {
        let writes = proxy.with_injections(|injections| injections.writes.all());
        let writes =
            writes.into_iter().map(|key| Write { program: name, step, side: Side::Api, what: key.what });
        outcome.writes.extend(writes);
    }
    for call in environment.control.take_journal().await? {
        outcome.writes.insert(Write { program: "vmop", step, side: Side::Vcenter, what: call.method });
    }
    Ok(())
}

/// Checks the cluster's VMs and objects after a step. Controllers have [`SETTLED`] to finish.
async fn check(
    environment: &ManagementCluster,
    name: &str,
    step: RunStep,
    outcome: &mut RunResult,
) -> Result<()> {
    let wanted = match step {
        RunStep::Apply => 2,
        RunStep::Scale => 3,
        _ => 0,
    };
    let mut found = Vec::new();
    plane::wait::poll(SETTLED, POLL_INTERVAL, async || {
        found = find_faults(environment, name, wanted).await?;
        anyhow::Ok(found.is_empty().then_some(()))
    })
    .await?;
    for (count, wrong) in found {
        match count {
            Count::Lost => outcome.findings.lost += 1,
            Count::Duplicated => outcome.findings.duplicated += 1,
            Count::Orphaned => outcome.findings.orphaned += 1,
        }
        outcome.wrong.push(format!("{}: {wrong}", step.name()));
    }
    Ok(())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Count {
    Lost,
    Duplicated,
    Orphaned,
}

async fn find_faults(
    environment: &ManagementCluster,
    name: &str,
    wanted: usize,
) -> Result<Vec<(Count, String)>> {
    let is_of = |object: &str| object.starts_with(&format!("{name}-"));
    let mut vms = environment.control.inventory().await?.vms;
    vms.retain(|vm| is_of(&vm.name));
    let machines = list(&environment.client(), KINDS[1]).await?;
    let machines = machines.into_iter().filter(|machine| is_of(machine)).collect();
    let mut found = compare(&vms, &machines, wanted);
    if wanted == 0 {
        for kind in KINDS {
            let left = list(&environment.client(), kind).await?;
            let left = left.into_iter().filter(|left| left == name || is_of(left));
            found.extend(left.map(|left| (Count::Orphaned, format!("{} {left} is left", kind.2))));
        }
        let files = environment.control.orphaned_files().await?;
        if files != sim::control::OrphanedFiles::default() {
            found.push((Count::Orphaned, format!("{files:?}")));
        }
    }
    Ok(found)
}

/// Compares the VMs in vCenter with the Machines, for a cluster with `wanted` nodes.
fn compare(vms: &[InventoryVm], machines: &BTreeSet<String>, wanted: usize) -> Vec<(Count, String)> {
    let mut found = Vec::new();
    let names: BTreeSet<_> = vms.iter().map(|vm| vm.name.clone()).collect();
    found.extend(
        machines.difference(&names).map(|machine| (Count::Lost, format!("Machine {machine} has no VM"))),
    );
    found.extend(names.difference(machines).map(|vm| (Count::Orphaned, format!("VM {vm} has no Machine"))));
    let mut identities = BTreeMap::new();
    for vm in vms {
        if let Some(other) = identities.insert(&vm.instance_uuid, &vm.name) {
            let both = format!("VMs {other} and {} have the same instance UUID", vm.name);
            found.push((Count::Duplicated, both));
        }
    }
    if vms.len() > names.len() {
        found.push((Count::Duplicated, format!("{} VMs have {} names", vms.len(), names.len())));
    }
    if vms.len() < wanted {
        found.push((Count::Lost, format!("{} of {wanted} VMs", vms.len())));
    }
    if vms.len() > wanted {
        found.push((Count::Orphaned, format!("{} VMs instead of {wanted}", vms.len())));
    }
    found
}

async fn list(client: &Client, (group, version, kind): (&str, &str, &str)) -> Result<Vec<String>> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), NAMESPACE, &resource);
    let found =
        api.list_metadata(&ListParams::default()).await.with_context(|| format!("cannot list {kind}"))?;
    Ok(found.iter().map(ResourceExt::name_any).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_vms_that_are_lost_duplicated_or_orphaned() {
        let vm = |name: &str, uuid: &str| InventoryVm {
            name: name.to_owned(),
            instance_uuid: uuid.to_owned(),
            ..InventoryVm::default()
        };
        let machines = BTreeSet::from(["c-a".to_owned(), "c-b".to_owned()]);
        let (a, b) = (vm("c-a", "1"), vm("c-b", "2"));
        let counts = |vms: &[InventoryVm]| -> Vec<_> {
            compare(vms, &machines, 2).into_iter().map(|(count, _)| count).collect()
        };
        assert_eq!(counts(&[a.clone(), b.clone()]), []);
        assert_eq!(counts(std::slice::from_ref(&a)), [Count::Lost, Count::Lost]);
        assert_eq!(counts(&[a.clone(), b.clone(), vm("c-c", "3")]), [Count::Orphaned, Count::Orphaned]);
        assert_eq!(counts(&[a.clone(), vm("c-b", "1")]), [Count::Duplicated]);
        assert_eq!(counts(&[a.clone(), a, b]), [Count::Duplicated, Count::Duplicated, Count::Orphaned]);
    }
}
