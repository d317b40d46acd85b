//! Starts bootstrap clusters: a new one, and a stopped one that manages a cluster.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use sim::VcenterEndpoint;
use sim::control::{ControlApi, OrphanedFiles};
use tempfile::TempDir;

use super::cases::{Case, RunStep};
use super::cluster_run::RunResult;
use super::command::User;
use super::environment::NAMESPACE;

/// The user name for the simulated vCenter, and the password file below the home folder.
const VCENTER_USER: &str = "administrator@vsphere.local";
const PASSWORD: &str = ".local/state/layercake/site/password";
/// The bootstrap cluster that manages a cluster, and that cluster's name.
const KEPT: &str = "kept";
const CLUSTER: &str = "edge";
/// The time within which processes end or are restarted.
const SETTLED: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A user with bootstrap clusters and a simulated site.
pub struct BootstrapTestbed {
    folder: TempDir,
    user: User,
    control: ControlApi,
    /// The cluster's VMs: instance UUIDs by name.
    vms: BTreeMap<String, String>,
}

impl BootstrapTestbed {
    /// Starts the site and the bootstrap cluster [`KEPT`], and creates a cluster with two VMs.
    pub async fn start() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let user = User::new(folder.path())?;
        let site = user.run(RunStep::Start, &["site", "simulate", "--namespace", NAMESPACE], None).await?;
        ensure!(site.ok, "cannot simulate a site: {}", site.errors);
        fs::write(user.path("site.yaml"), &site.output)?;
        let record = fs::read(user.path(".local/state/layercake/site/process.json"))?;
        let record: Value = serde_json::from_slice(&record)?;
        let vcenter: VcenterEndpoint = serde_json::from_value(record["vcenter"].clone())?;
        let control = ControlApi::new(&vcenter.control, &vcenter.control_token()?);
        let mut bootstrap = Self { folder, user, control, vms: BTreeMap::new() };
        bootstrap.must(&bootstrap.start_command(KEPT)).await?;
        let manifest = ["new", "cluster", CLUSTER, "--workers", "1", "-n", NAMESPACE, "--bootstrap", KEPT];
        let manifest = bootstrap.must(&manifest.map(str::to_owned)).await?;
        let file = bootstrap.user.path("edge.yaml");
        fs::write(&file, manifest)?;
        bootstrap.must(&["apply", "-f", &file, "--bootstrap", KEPT].map(str::to_owned)).await?;
        bootstrap.vms = bootstrap.vms().await?;
        ensure!(bootstrap.vms.len() == 2, "{:?} instead of two VMs", bootstrap.vms);
        Ok(bootstrap)
    }

    /// Starts a bootstrap cluster while a process is killed at the case's write, then runs the same command again.
    pub async fn run_start(&self, step: RunStep, number: usize, case: Option<&Case>) -> Result<RunResult> {
        let mut outcome = RunResult::default();
        let name = if step == RunStep::Restart { KEPT.to_owned() } else { format!("b{number}") };
        if step == RunStep::Restart {
            self.must(&["bootstrap", "stop", &name].map(str::to_owned)).await?;
        }
        let command = if step == RunStep::Restart {
            ["bootstrap", "start", &name].map(str::to_owned).to_vec()
        } else {
            self.start_command(&name)
        };
        let finished = self.run(step, &command, case).await?;
        outcome.writes = finished.writes;
        if let Some(case) = case {
            outcome.injected.extend(finished.killed.then(|| case.clone()));
        } else if !finished.ok {
            outcome.wrong.push(format!("{}: {}", step.name(), finished.errors));
        }
        if case.is_some() {
            let again = self.run(step, &command, None).await?;
            if !again.ok {
                outcome.findings.stuck = true;
                outcome.wrong.push(format!("{}: the same command again: {}", step.name(), again.errors));
            }
        }
        self.check(step, &name, &mut outcome).await?;
        Ok(outcome)
    }

    async fn check(&self, step: RunStep, name: &str, outcome: &mut RunResult) -> Result<()> {
        let listed = self.must(&["bootstrap", "list", "-o", "json"].map(str::to_owned)).await?;
        let listed: Value = serde_json::from_str(&listed)?;
        let all = listed["bootstrapClusters"].as_array().cloned().unwrap_or_default();
        if !all.iter().any(|one| one["name"] == name && one["status"] == "running") {
            outcome.findings.lost += 1;
            outcome.wrong.push(format!("{}: {name} is not running: {listed}", step.name()));
        }
        let clusters = self.run(step, &["list", "-A", "--bootstrap", name].map(str::to_owned), None).await?;
        if !clusters.ok {
            outcome.findings.lost += 1;
            outcome.wrong.push(format!("{}: no clusters can be listed: {}", step.name(), clusters.errors));
        }
        for program in ["etcd", "kube-apiserver", "gcm", "capw", "vmop"] {
            let mut count = 0;
            // A killed program is restarted.
            let one = plane::wait::poll(SETTLED, POLL_INTERVAL, async || {
                let all = processes(&self.state(name));
                count = all.iter().filter(|process| *process == program).count();
                anyhow::Ok((count == 1).then_some(()))
            });
            if one.await?.is_none() {
                outcome.findings.orphaned += count.saturating_sub(1);
                outcome.wrong.push(format!("{}: {count} processes {program}", step.name()));
            }
        }
        if step == RunStep::Restart {
            let vms = self.vms().await?;
            if vms != self.vms {
                outcome.findings.lost += self.vms.keys().filter(|name| !vms.contains_key(*name)).count();
                outcome.findings.duplicated += vms.len().saturating_sub(self.vms.len());
                outcome.wrong.push(format!("{}: VMs {vms:?} instead of {:?}", step.name(), self.vms));
            }
            return Ok(());
        }
        self.must(&["bootstrap", "remove", name].map(str::to_owned)).await?;
        let mut left = Vec::new();
        let gone = plane::wait::poll(SETTLED, POLL_INTERVAL, async || {
            left = processes(&self.state(name));
            anyhow::Ok((left.is_empty() && !self.state(name).exists()).then_some(()))
        });
        if gone.await?.is_none() {
            outcome.findings.orphaned += left.len().max(1);
            let files = self.state(name).exists();
            outcome.wrong.push(format!(
                "{}: after the removal, these processes are left: {left:?}; its folder exists: {files}",
                step.name()
            ));
        }
        Ok(())
    }

    /// Deletes the cluster and stops everything. Describes each leftover VM, file and process.
    pub async fn stop(self) -> Result<Vec<String>> {
        let mut left = Vec::new();
        self.must(&["delete", CLUSTER, "-n", NAMESPACE, "--bootstrap", KEPT].map(str::to_owned)).await?;
        left.extend(self.vms().await?.into_keys().map(|vm| format!("VM {vm} is left")));
        let files = self.control.orphaned_files().await?;
        if files != OrphanedFiles::default() {
            left.push(format!("{files:?}"));
        }
        self.must(&["bootstrap", "remove", KEPT].map(str::to_owned)).await?;
        self.must(&["site", "stop"].map(str::to_owned)).await?;
        let processes = processes(self.folder.path());
        left.extend(processes.into_iter().map(|process| format!("process {process} is left")));
        Ok(left)
    }

    fn state(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(".local/state/layercake/bootstrap").join(name)
    }

    fn start_command(&self, name: &str) -> Vec<String> {
        let (site, password) = (self.user.path("site.yaml"), self.user.path(PASSWORD));
        ["bootstrap", "start", name, "-f", &site, "--user", VCENTER_USER, "--password-file", &password]
            .map(str::to_owned)
            .into()
    }

    async fn run(
        &self,
        step: RunStep,
        args: &[String],
        case: Option<&Case>,
    ) -> Result<super::command::Finished> {
        let args: Vec<_> = args.iter().map(String::as_str).collect();
        self.user.run(step, &args, case).await
    }

    /// Runs a command that must succeed, and returns its output.
    async fn must(&self, args: &[String]) -> Result<String> {
        let finished = self.run(RunStep::Start, args, None).await?;
        ensure!(finished.ok, "{}: {}", args.join(" "), finished.errors);
        Ok(finished.output)
    }

    async fn vms(&self) -> Result<BTreeMap<String, String>> {
        let inventory = self.control.inventory().await?;
        let vms = inventory.vms.into_iter().filter(|vm| vm.name.starts_with(&format!("{CLUSTER}-")));
        Ok(vms.map(|vm| (vm.name, vm.instance_uuid)).collect())
    }
}

/// Kills the background processes that an interrupted run leaves. Their guards stop the processes that they started.
impl Drop for BootstrapTestbed {
    fn drop(&mut self) {
        let state = self.folder.path().join(".local/state/layercake");
        let folders = fs::read_dir(state.join("bootstrap")).into_iter().flatten().flatten();
        for folder in folders.map(|entry| entry.path()).chain([state.join("site")]) {
            let lock = folder.join("process.lock");
            let is_held = File::options().write(true).open(&lock).is_ok_and(|file| file.try_lock().is_err());
            let process = fs::read_to_string(&lock).ok().filter(|_| is_held);
            let process = process.and_then(|process| Pid::from_raw(process.trim().parse().ok()?));
            if let Some(process) = process {
                let _ = kill_process(process, Signal::KILL);
            }
        }
    }
}

/// Returns the names of all processes that have an argument with a path in the folder.
fn processes(folder: &Path) -> Vec<String> {
    let folder = format!("{}/", folder.display());
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let lines = all.filter_map(|entry| fs::read_to_string(entry.path().join("cmdline")).ok());
    let of_folder = lines.filter(|line| line.split('\0').skip(1).any(|argument| argument.contains(&folder)));
    of_folder
        .filter_map(|line| {
            let name = line.split('\0').next()?;
            Some(Path::new(name).file_name()?.to_string_lossy().into_owned())
        })
        .collect()
}
