//! A `layercake` user's home folder, with its own simulated vSphere, bootstrap clusters and kubeconfig.

use std::ffi::OsStr;
use std::fmt::Debug;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use sim::VcenterEndpoint;
use sim::control::{ControlApi, PowerAction, SimulatedVm};

use crate::harness::command::exe;
use crate::harness::shared_stack::build_tool;

/// The user name for the simulated vSphere.
pub const USER: &str = "administrator@vsphere.local";

/// Returns a TanzuKubernetesCluster in namespace `dev`, with one control plane node and this many workers.
pub fn small_cluster(name: &str, workers: u32) -> String {
    let nodes = "vmClass: best-effort-small, storageClass: vsan-default-storage-policy";
    let pools = match workers {
        0 => String::new(),
        count => format!("{{name: workers, replicas: {count}, {nodes}}}"),
    };
    format!(
        "
apiVersion: run.tanzu.vmware.com/v1alpha3
kind: TanzuKubernetesCluster
metadata: {{name: {name}, namespace: dev}}
spec:
  topology:
    controlPlane: {{replicas: 1, {nodes}, tkr: {{reference: {{name: v1.36}}}}}}
    nodePools: [{pools}]
"
    )
}

/// A user's home folder. Background processes are killed on drop.
pub struct Home {
    folder: PathBuf,
    cache: PathBuf,
}

impl Home {
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), cache: plane::tools::cache_folder().unwrap() }
    }

    /// Starts a simulated vSphere with a namespace. Returns the flags that connect a management cluster to it. `flag` is the name of the
    /// flag for the site file.
    pub fn simulate_site(&self, flag: &str, namespace: &str) -> Vec<String> {
        let site = self.layercake(&["site", "simulate", "--namespace", namespace], 0).0;
        self.write("site.yaml", &site);
        let password = self.path(".local/state/layercake/site/password");
        [flag, &self.path("site.yaml"), "--user", USER, "--password-file", &password]
            .map(str::to_owned)
            .into()
    }

    pub fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.folder.join(name), text).unwrap();
    }

    fn command(&self, args: &[impl AsRef<OsStr> + Debug]) -> Command {
        let mut command = Command::new(exe());
        command.args(args).env("HOME", &self.folder).env("KUBECONFIG", self.folder.join("kubeconfig"));
        command.env("LAYERCAKE_CACHE", &self.cache).env_remove("XDG_STATE_HOME");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs a command, checks its exit status, and returns stdout and stderr.
    pub fn layercake(&self, args: &[impl AsRef<OsStr> + Debug], status: i32) -> (String, String) {
        let output = self.command(args).output().unwrap();
        let [printed, errors] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        eprintln!("$ layercake {args:?}\n{errors}");
        assert_eq!(output.status.code(), Some(status), "{args:?}: {errors}");
        (printed, errors)
    }

    /// Starts a command and waits until it prints these words to stderr. Returns the process and the following lines.
    pub fn start_until(
        &self,
        args: &[impl AsRef<OsStr> + Debug],
        words: &str,
    ) -> (Child, impl Iterator<Item = String>) {
        let mut child = self.command(args).spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut printed = lines.map(|line| line.unwrap()).inspect(|line| eprintln!("{line}"));
        let is_there = printed.any(|line| line.contains(words));
        let status = child.try_wait().unwrap();
        assert!(is_there && status.is_none(), "{args:?} never printed {words:?}");
        (child, printed)
    }

    /// Runs a command, and kills it and bootstrap cluster `name` once it prints these words.
    pub fn kill_when(&self, name: &str, args: &[impl AsRef<OsStr> + Debug], words: &str) {
        let (command, _printed) = self.start_until(args, words);
        self.kill(name, command);
    }

    /// Kills a running command, and bootstrap cluster `name`.
    pub fn kill(&self, name: &str, mut command: Child) {
        assert!(command.try_wait().unwrap().is_none(), "the command has ended");
        let lock = self.folder.join(format!(".local/state/layercake/bootstrap/{name}/process.lock"));
        let process = std::fs::read_to_string(&lock);
        for pid in [command.id().to_string(), process.unwrap()] {
            assert!(Command::new("kill").args(["-9", &pid]).status().unwrap().success());
        }
        command.wait().unwrap();
        // A process holds its lock until it has ended. Before that, another command would use its API server.
        std::fs::File::options().write(true).open(lock).unwrap().lock().unwrap();
    }

    /// Returns the number of a cluster's VMs in the simulated vSphere.
    pub async fn vms(&self, cluster: &str) -> usize {
        self.inventory(cluster).await.1.len()
    }

    /// Returns the number of a cluster's powered-on VMs in the simulated vSphere.
    pub async fn powered_on(&self, cluster: &str) -> usize {
        self.inventory(cluster).await.1.iter().filter(|vm| vm.powered_on()).count()
    }

    /// Powers a cluster's VMs on or off in the simulated vSphere.
    pub async fn power(&self, cluster: &str, action: PowerAction) {
        let (control, vms) = self.inventory(cluster).await;
        for vm in vms {
            control.power(&vm.moid, action).await.unwrap();
        }
    }

    async fn inventory(&self, cluster: &str) -> (ControlApi, Vec<SimulatedVm>) {
        let record = std::fs::read(self.folder.join(".local/state/layercake/site/process.json")).unwrap();
        let record: Value = serde_json::from_slice(&record).unwrap();
        let vcenter: VcenterEndpoint = serde_json::from_value(record["vcenter"].clone()).unwrap();
        let control = ControlApi::new(&vcenter.control, &vcenter.control_token().unwrap());
        let mut vms = control.vms(None, Duration::ZERO).await.unwrap().vms;
        vms.retain(|vm| vm.name.starts_with(&format!("{cluster}-")));
        (control, vms)
    }

    /// Runs kubectl, and returns its standard output.
    pub fn kubectl(&self, args: &[impl AsRef<OsStr> + Debug]) -> String {
        let mut command = Command::new(build_tool(&plane::tools::KUBECTL));
        command.args(args);
        let output = command.env("KUBECONFIG", self.folder.join("kubeconfig")).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn lock_files(&self) -> Vec<PathBuf> {
        let state = self.folder.join(".local/state/layercake");
        let bootstrap = std::fs::read_dir(state.join("bootstrap")).into_iter().flatten();
        let bootstrap = bootstrap.filter_map(|entry| Some(entry.ok()?.path()));
        let folders = bootstrap.chain(["site", "up"].map(|name| state.join(name)));
        folders.map(|folder| folder.join("process.lock")).filter(|path| path.exists()).collect()
    }

    /// Returns the PIDs of running background processes.
    pub fn processes(&self) -> Vec<String> {
        let held = self.lock_files().into_iter().filter(|path| {
            std::fs::File::options().write(true).open(path).is_ok_and(|file| file.try_lock().is_err())
        });
        held.filter_map(|path| std::fs::read_to_string(path).ok()).collect()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        for process in self.processes() {
            // Their guards stop the child processes.
            let _ = Command::new("kill").args(["-9", &process]).status();
        }
    }
}
