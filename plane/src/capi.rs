//! Runs Cluster API's managers as plain processes, with the upstream programs, rights, CRDs and webhooks.
//!
//! The managers listen on loopback. Only their webhook servers listen on every interface, because the managers don't
//! have a flag for that address. The webhook servers only answer requests and don't hold secrets.

use std::ffi::OsString;
use std::path::Path;

use serde_json::Value;

use crate::cluster::RunningApiServer;
use crate::error::{Error, Result};
use crate::tools::Tools;
use crate::workload::{Ports, RunningProgram, Wiring, Workload};
use components::catalogue::Component;
use components::config;
use components::manifest::{Manifests, ProgramDeployment};

/// A manager and its flags for a small machine. With upstream's concurrency of up to 100, most writes on a small
/// machine would conflict.
struct Manager {
    name: &'static str,
    exe: fn(&Tools) -> &Path,
    /// The flags for the health and metrics addresses, in this order.
    serving: [&'static str; 2],
    flags: &'static [&'static str],
    gates: &'static [Gate],
}

/// A feature gate that upstream disables by default. An environment variable sets it, as for `clusterctl init`.
struct Gate {
    name: &'static str,
    variable: &'static str,
    default: bool,
}

/// The feature gates that can be set. `ClusterTopology` is on by default, because unused ClusterClasses don't cost anything.
const GATES: &[Gate] = &[
    Gate { name: "ClusterTopology", variable: "CLUSTER_TOPOLOGY", default: true },
    Gate { name: "MachineTaintPropagation", variable: "EXP_MACHINE_TAINT_PROPAGATION", default: false },
];

/// The address flags of the managers in Cluster API's own repository.
const SERVING: [&str; 2] = ["--health-addr", "--diagnostics-address"];

static MANAGERS: [Manager; 4] = [
    Manager {
        name: "capi-core",
        exe: |tools| &tools.capi_core,
        serving: SERVING,
        flags: &[
            "--cluster-concurrency=4",
            "--machine-concurrency=4",
            "--machineset-concurrency=4",
            "--machinedeployment-concurrency=4",
        ],
        gates: GATES,
    },
    Manager {
        name: "capi-kubeadm-bootstrap",
        exe: |tools| &tools.capi_kubeadm_bootstrap,
        serving: SERVING,
        flags: &["--kubeadmconfig-concurrency=4"],
        gates: &[],
    },
    Manager {
        name: "capi-kubeadm-control-plane",
        exe: |tools| &tools.capi_kubeadm_control_plane,
        serving: SERVING,
        flags: &["--kubeadmcontrolplane-concurrency=4"],
        gates: GATES,
    },
    Manager {
        name: "capi-ipam-in-cluster",
        exe: |tools| &tools.capi_ipam_in_cluster,
        serving: ["--health-probe-bind-address", "--metrics-bind-address"],
        // Disables metrics: the manager doesn't have a flag for authentication, and would serve metrics to every client.
        flags: &["--metrics-bind-address=0"],
        gates: &[],
    },
];

/// A manager that is ready to be started.
pub(crate) struct Prepared {
    manager: &'static Manager,
    manifests: Manifests,
    ports: Ports,
}

/// Reads the managers' manifests and reserves their ports.
pub(crate) fn prepare() -> Result<Vec<Prepared>> {
    MANAGERS
        .iter()
        .map(|manager| {
            let mut manifests = Manifests::sorted(manager.name, config::upstream(manager.name)?)?;
            manifests.definitions.iter_mut().for_each(label_for_clusterctl);
            Ok(Prepared { manager, manifests, ports: Ports::free()? })
        })
        .collect()
}

/// Adds the label by which `clusterctl move` and `describe` find kinds, as `clusterctl init` does.
fn label_for_clusterctl(definition: &mut Value) {
    definition["metadata"]["labels"]["clusterctl.cluster.x-k8s.io"] = "".into();
}

impl Prepared {
    /// Returns the manager's CRDs.
    pub(crate) fn definitions(&self) -> &[Value] {
        &self.manifests.definitions
    }

    /// Returns the name of the manager's component.
    pub(crate) fn component(&self) -> &'static str {
        Component::of_manifests(self.manager.name).map_or(self.manager.name, |component| component.name)
    }

    /// Applies the manager's CRDs, with conversion through its webhook server.
    pub(crate) async fn define(&self, cluster: &RunningApiServer, tools: &Tools) -> Result<()> {
        self.workload(tools, None, Vec::new()).have_conversions_called(cluster, self.ports).await
    }

    /// Starts the manager, with a guest proxy if `guest_proxy` is given and the manager connects to workload clusters. The
    /// arguments in `further` follow all others.
    pub(crate) async fn start(
        &self,
        cluster: &RunningApiServer,
        tools: &Tools,
        guest_proxy: Option<&Path>,
        further: Vec<String>,
    ) -> Result<RunningProgram> {
        self.workload(tools, guest_proxy, further).start(cluster, self.ports).await
    }

    fn workload<'a>(
        &'a self,
        tools: &'a Tools,
        guest_proxy: Option<&'a Path>,
        further: Vec<String>,
    ) -> Workload<'a> {
        let given = |variable: &str| std::env::var(variable).ok();
        let further = feature_gates(self.manager, given).into_iter().chain(further).collect();
        let workload = workload(self.manager, tools, &self.manifests, &self.manifests.definitions, further);
        workload.through(guest_proxy)
    }
}

/// Returns the workload for the manager `name`, as its Deployment in a cluster runs it, with the additional argument
/// `further`.
pub(crate) fn deployed<'a>(
    name: &str,
    tools: &'a Tools,
    manifests: &'a Manifests,
    further: String,
) -> Result<Workload<'a>> {
    let manager = MANAGERS.iter().find(|manager| manager.name == name).ok_or_else(|| Error::Manifest {
        what: name.to_owned(),
        reason: "there is no such manager".to_owned(),
    })?;
    Ok(workload(manager, tools, manifests, &[], vec![further]))
}

fn workload<'a>(
    manager: &'static Manager,
    tools: &'a Tools,
    manifests: &'a Manifests,
    converted: &'a [Value],
    further: Vec<String>,
) -> Workload<'a> {
    Workload {
        name: manager.name,
        exe: (manager.exe)(tools),
        arg0: manager.name,
        manifests,
        converted,
        pod: format!("{}-0", manager.name),
        // Upstream's webhook servers have no flag to recognize the API server.
        recognizes_api_server: false,
        guest_proxy: None,
        args: Box::new(move |deployment, wiring| args(manager, deployment, wiring, &further)),
    }
}

/// Returns the Deployment's arguments, then the arguments for this machine, then `further`. If a flag is repeated, the
/// last one takes effect.
fn args(
    manager: &Manager,
    deployment: &ProgramDeployment,
    wiring: &Wiring,
    further: &[String],
) -> Vec<OsString> {
    let mut args = deployment.args.clone();
    args.extend([
        format!("--kubeconfig={}", wiring.kubeconfig.display()),
        // Each manager has one replica. Without leader election, a restarted manager doesn't wait a minute for its old lease.
        "--leader-elect=false".to_owned(),
        format!("{}=127.0.0.1:{}", manager.serving[0], wiring.health),
        format!("{}=127.0.0.1:{}", manager.serving[1], wiring.metrics),
    ]);
    if let Some((port, folder)) = wiring.webhooks {
        args.push(format!("--webhook-port={port}"));
        args.push(format!("--webhook-cert-dir={}", folder.display()));
    }
    args.extend(manager.flags.iter().map(|flag| (*flag).to_owned()));
    args.extend_from_slice(further);
    args.into_iter().map(OsString::from).collect()
}

/// Returns a manager's `--feature-gates` flag, or `None` if the manager has no gates. `variable` reads an environment
/// variable.
fn feature_gates(manager: &Manager, variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let gates = manager.gates.iter().map(|gate| {
        let value = variable(gate.variable).unwrap_or_else(|| gate.default.to_string());
        format!("{}={value}", gate.name)
    });
    let gates: Vec<_> = gates.collect();
    (!gates.is_empty()).then(|| format!("--feature-gates={}", gates.join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_arguments_come_after_the_deployments() {
        let deployment = ProgramDeployment {
            args: vec!["--leader-elect".to_owned(), "--bootstrap-token-ttl=15m".to_owned()],
            ..ProgramDeployment::default()
        };
        let wiring = Wiring {
            kubeconfig: Path::new("/d/kubeconfigs/x"),
            metrics: 1,
            health: 2,
            webhooks: Some((3, Path::new("/d/webhooks/x"))),
            caller: None,
        };
        insta::assert_debug_snapshot!(args(&MANAGERS[1], &deployment, &wiring, &[]));
    }

    #[test]
    fn clusterctl_finds_the_kinds_of_the_managers() {
        let mut definition = serde_json::json!({ "metadata": { "name": "a", "labels": { "b": "c" } } });
        label_for_clusterctl(&mut definition);
        let labels = serde_json::json!({ "b": "c", "clusterctl.cluster.x-k8s.io": "" });
        assert_eq!(definition["metadata"]["labels"], labels);
        let mut unlabelled = serde_json::json!({ "metadata": { "name": "a" } });
        label_for_clusterctl(&mut unlabelled);
        assert!(unlabelled["metadata"]["labels"].is_object());
    }

    #[test]
    fn features_are_switched_as_clusterctl_switches_them() {
        let gates = |given: Option<&str>| {
            let taints = |variable: &str| given.filter(|_| variable.starts_with("EXP_")).map(str::to_owned);
            feature_gates(&MANAGERS[0], taints).unwrap()
        };
        assert_eq!(gates(None), "--feature-gates=ClusterTopology=true,MachineTaintPropagation=false");
        assert_eq!(gates(Some("true")), "--feature-gates=ClusterTopology=true,MachineTaintPropagation=true");
        assert_eq!(feature_gates(&MANAGERS[1], |_| None), None);
    }
}
