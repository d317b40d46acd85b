//! Runs the scripts of Pods that mount the node's operating system folders and use a shell from these folders. The
//! shell is a real process with this host's programs. Volume paths in the shell's arguments point to the node's disk.
//! Only the scripts in [`Programs::scripts`](super::guest_vm::Programs) run, because this host doesn't isolate a user's
//! Pods.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::Api;
use kube::{Client, ResourceExt};
use parking_lot::Mutex;
use plane::supervise::Supervised;

use super::failure::{Failure, Reason};
use super::guest_vm::GuestVm;
use super::host_path::{HostMounts, OS_FOLDERS, config_map_folder};

/// Folders that every operating system program needs: they contain the program, the loader and the libraries.
const NEEDED: [&str; 3] = ["/usr", "/lib", "/lib64"];

/// The processes of a node's Pods, by Pod UID. Clones share the processes.
#[derive(Clone)]
pub(super) struct ProgramPods {
    guest_vm: GuestVm,
    running: Arc<Mutex<BTreeMap<String, (Pod, Supervised)>>>,
}

impl ProgramPods {
    pub(super) fn new(guest_vm: GuestVm) -> Self {
        Self { guest_vm, running: Arc::default() }
    }

    /// Returns the path to the shell if the Pod runs a known script with a shell from the node. Otherwise, returns
    /// `None`.
    fn program<'p>(&self, pod: &'p Pod) -> Option<&'p str> {
        runs_one_of(pod, &self.guest_vm.programs.scripts).then(|| program(pod)).flatten()
    }

    /// Returns the reason why the Pod's program can't start, as the kubelet and containerd report it, or `None` if the
    /// program can start.
    pub(super) fn explain_failure(&self, pod: &Pod) -> Option<String> {
        let program = self.program(pod)?;
        if let Some(folder) = NEEDED.iter().find(|folder| !mounts_from_node(pod, folder)) {
            return Some(format!(
                "exec {program:?}: no such file or directory ({folder} of the node is not mounted)"
            ));
        }
        // A real kubelet writes the ConfigMaps before it mounts them, so create their folders now.
        make_folders(pod, &self.guest_vm);
        HostMounts::mount(pod, &self.guest_vm.disk).err().map(|failure| failure.to_string())
    }

    /// Starts a Pod's program unless it is already running. Ignores Pods that don't run a known script.
    pub(super) async fn start(&self, pod: &Pod, client: &Client) -> Result<(), Failure> {
        let uid = pod.uid().unwrap_or_default();
        let Some(program) = self.program(pod) else { return Ok(()) };
        if self.running.lock().contains_key(&uid) {
            return Ok(());
        }
        self.write_config_maps(pod, client).await?;
        let mounts = HostMounts::mount(pod, &self.guest_vm.disk)?;
        let container = pod.spec.as_ref().and_then(|spec| spec.containers.first());
        let command = container.and_then(|container| container.command.as_deref()).unwrap_or_default();
        let arguments = container.and_then(|container| container.args.as_deref()).unwrap_or_default();
        let arguments: Vec<_> = command.iter().skip(1).chain(arguments).collect();
        let arguments: Result<Vec<_>, _> =
            arguments.into_iter().map(|argument| mounts.on_host(argument)).collect();
        let name = format!("pod-{}", pod.name_any());
        let command = self.guest_vm.command(&name, Path::new(program))?.args(arguments?);
        let process = Supervised::start(command).map_err(|error| Failure::host("start a program", &error))?;
        self.running.lock().insert(uid, (pod.clone(), process));
        Ok(())
    }

    /// Updates the ConfigMap files of running Pods.
    pub(super) async fn refresh(&self, client: &Client) {
        let pods: Vec<_> = self.running.lock().values().map(|(pod, _)| pod.clone()).collect();
        for pod in pods {
            if let Err(failure) = self.write_config_maps(&pod, client).await {
                tracing::debug!(vm = self.guest_vm.name, %failure, "a ConfigMap of a Pod cannot be updated");
            }
        }
    }

    /// Asks a Pod's program to end, and kills it after the Pod's grace period.
    pub(super) async fn stop(&self, pod: &Pod) {
        let seconds = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds).unwrap_or(30);
        let process = self.running.lock().remove(&pod.uid().unwrap_or_default());
        if let Some((_, process)) = process {
            process.stop(Duration::from_secs(u64::try_from(seconds).unwrap_or_default())).await;
        }
    }

    /// Ends all programs when the node goes down.
    pub(super) async fn stop_all(&self, grace: Duration) {
        let all = std::mem::take(&mut *self.running.lock());
        futures::future::join_all(all.values().map(|(_, process)| process.stop(grace))).await;
    }

    /// Writes the ConfigMaps in a Pod's volumes to the node's disk. Files are replaced atomically.
    async fn write_config_maps(&self, pod: &Pod, client: &Client) -> Result<(), Failure> {
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
        let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
        for volume in volumes {
            let Some(source) = &volume.config_map else { continue };
            let read = maps.get(&source.name).await;
            let read = read.map_err(|error| Failure::new(Reason::Host, error.to_string()))?;
            let folder = config_map_folder(pod, &volume.name);
            for (key, text) in read.data.unwrap_or_default() {
                let file = format!("{folder}/{key}");
                if self.guest_vm.disk.read(&file).as_ref() == Some(&text) {
                    continue;
                }
                let new = format!("{folder}/..new");
                self.guest_vm.disk.write(&new, &text)?;
                let moved = fs::rename(self.guest_vm.disk.path(&new), self.guest_vm.disk.path(&file));
                moved.map_err(|error| Failure::host("write a ConfigMap", &error))?;
            }
        }
        Ok(())
    }
}

fn make_folders(pod: &Pod, guest_vm: &GuestVm) {
    let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
    for volume in volumes.iter().filter(|volume| volume.config_map.is_some()) {
        // A folder that can't be created makes the later write fail.
        let _ = guest_vm.disk.make_folder(&config_map_folder(pod, &volume.name));
    }
}

/// Returns true if the arguments of a Pod's first container start with `-c` and one of these scripts.
fn runs_one_of(pod: &Pod, scripts: &[&str]) -> bool {
    let container = pod.spec.as_ref().and_then(|spec| spec.containers.first());
    match container.and_then(|container| container.args.as_deref()) {
        Some([option, script, ..]) => option == "-c" && scripts.contains(&script.as_str()),
        _ => false,
    }
}

/// Returns the first container's program, if it is in an operating system folder that the Pod mounts from the node.
fn program(pod: &Pod) -> Option<&str> {
    let program = pod.spec.as_ref()?.containers.first()?.command.as_ref()?.first()?;
    let is_within = |folder: &str| Path::new(program).starts_with(folder);
    OS_FOLDERS.iter().any(|folder| is_within(folder) && mounts_from_node(pod, folder)).then_some(program)
}

/// Returns true if the Pod's first container mounts this node folder at the same path.
fn mounts_from_node(pod: &Pod, folder: &str) -> bool {
    let Some(spec) = &pod.spec else { return false };
    let mounts = spec.containers.first().and_then(|container| container.volume_mounts.as_deref());
    mounts.unwrap_or_default().iter().filter(|mount| mount.mount_path == folder).any(|mount| {
        let volumes = spec.volumes.as_deref().unwrap_or_default();
        let host = volumes.iter().find(|volume| volume.name == mount.name);
        host.and_then(|volume| volume.host_path.as_ref()).is_some_and(|host| host.path == folder)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(command: &str, folders: &[&str]) -> Pod {
        let name = |folder: &str| folder.trim_start_matches('/').to_owned();
        let mounts: Vec<Value> = folders
            .iter()
            .map(|folder| json!({"name": name(folder), "mountPath": folder, "readOnly": true}))
            .collect();
        let volumes: Vec<Value> = folders
            .iter()
            .map(|folder| json!({"name": name(folder), "hostPath": {"path": folder, "type": "Directory"}}))
            .collect();
        serde_json::from_value(json!({
            "metadata": {"name": "p", "uid": "u"},
            "spec": {"containers": [{"name": "c", "command": [command], "volumeMounts": mounts}], "volumes": volumes},
        }))
        .unwrap()
    }

    #[test]
    fn only_a_program_of_the_node_is_a_process() {
        assert_eq!(program(&pod("/bin/sh", &OS_FOLDERS)), Some("/bin/sh"));
        assert_eq!(program(&pod("/bin/sh", &["/usr"])), None, "it is one of the image");
        assert_eq!(program(&pod("kube-proxy", &OS_FOLDERS)), None);
        assert_eq!(program(&pod("/opt/x", &OS_FOLDERS)), None);
        assert!(!mounts_from_node(&pod("/bin/sh", &["/bin", "/usr"]), "/lib64"));
    }

    /// Unknown scripts must not run. Otherwise, every user who applies a Pod to a simulated cluster could run commands
    /// on this host.
    #[test]
    fn only_a_known_script_is_run_on_this_host() {
        let with = |args: &[&str]| {
            let mut pod = pod("/bin/sh", &OS_FOLDERS);
            let args = args.iter().map(|arg| (*arg).to_owned()).collect();
            pod.spec.as_mut().unwrap().containers[0].args = Some(args);
            pod
        };
        assert!(runs_one_of(&with(&["-c", "known", "from=/a"]), &["known"]));
        for args in
            [&["-c", "known; rm -rf /"][..], &["-c", "other", "known"], &["known"], &["-x", "known"], &[]]
        {
            assert!(!runs_one_of(&with(args), &["known"]), "{args:?}");
        }
        assert!(!runs_one_of(&pod("/bin/sh", &OS_FOLDERS), &["known"]));
    }
}
