//! Cluster API's managers as plain processes: upstream's programs, rights, definitions and webhooks.
//!
//! All they serve is on loopback, but for their webhook servers: those listen on every interface, and upstream has no
//! flag for it. They answer only what they are asked, and hold no secrets.

use std::ffi::OsString;
use std::path::Path;

use serde_json::Value;

use crate::cluster::Cluster;
use crate::error::{Error, Result};
use crate::tools::{Tools, read_documents};
use crate::workload::{Ports, Runtime, Wiring, Workload};
use components::manifest::{Deployment, Manifests};

/// A manager and the flags that make it fit a small machine: with upstream's concurrency of up to 100, most of the
/// writes there are conflicts.
struct Manager {
    name: &'static str,
    exe: fn(&Tools) -> &Path,
    /// The flags that say where it serves its health and its metrics.
    serving: [&'static str; 2],
    flags: &'static [&'static str],
    gates: &'static [Gate],
}

/// A feature of Cluster API that upstream leaves off, and that is switched as `clusterctl init` switches it: by a variable
/// of the environment.
struct Gate {
    name: &'static str,
    variable: &'static str,
    default: bool,
}

/// `ClusterTopology` is on: ClusterClasses cost nothing where there are none.
const GATES: &[Gate] = &[
    Gate { name: "ClusterTopology", variable: "CLUSTER_TOPOLOGY", default: true },
    Gate { name: "MachineTaintPropagation", variable: "EXP_MACHINE_TAINT_PROPAGATION", default: false },
];

/// Of the managers in Cluster API's own repository.
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
        // It would serve them to everybody: it has no flag for authentication.
        flags: &["--metrics-bind-address=0"],
        gates: &[],
    },
];

/// A manager that is about to be started.
pub(crate) struct Prepared {
    manager: &'static Manager,
    manifests: Manifests,
    ports: Ports,
}

/// Reads the managers' manifests.
pub(crate) fn prepare(tools: &Tools) -> Result<Vec<Prepared>> {
    MANAGERS
        .iter()
        .map(|manager| {
            let documents = read_documents(&tools.manifests, manager.name)?;
            let mut manifests = Manifests::sorted(manager.name, documents)?;
            manifests.definitions.iter_mut().for_each(label_for_clusterctl);
            Ok(Prepared { manager, manifests, ports: Ports::free()? })
        })
        .collect()
}

/// Puts the label on by which `clusterctl move` and `describe` find kinds: `clusterctl init` would.
fn label_for_clusterctl(definition: &mut Value) {
    definition["metadata"]["labels"]["clusterctl.cluster.x-k8s.io"] = "".into();
}

impl Prepared {
    /// The manager's definitions, which lead to its webhook server for conversion.
    pub(crate) fn definitions(&self) -> &[Value] {
        &self.manifests.definitions
    }

    /// Applies the manager's definitions.
    pub(crate) async fn define(&self, cluster: &Cluster, tools: &Tools) -> Result<()> {
        self.workload(tools, None).have_conversions_called(cluster, self.ports).await
    }

    /// Starts the manager, with the proxy of this executable if there is one and the manager connects to workload clusters.
    pub(crate) async fn start(
        &self,
        cluster: &Cluster,
        tools: &Tools,
        guest_proxy: Option<&Path>,
    ) -> Result<Runtime> {
        self.workload(tools, guest_proxy).start(cluster, self.ports).await
    }

    fn workload<'a>(&'a self, tools: &'a Tools, guest_proxy: Option<&'a Path>) -> Workload<'a> {
        let given = |variable: &str| std::env::var(variable).ok();
        let gates = feature_gates(self.manager, given).into_iter().collect();
        let workload = workload(self.manager, tools, &self.manifests, &self.manifests.definitions, gates);
        workload.through(guest_proxy)
    }
}

/// The manager of these manifests as a Deployment of a cluster runs it, with one more argument.
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
        // Upstream's servers have no flag for it.
        recognizes_api_server: false,
        guest_proxy: None,
        args: Box::new(move |deployment, wiring| args(manager, deployment, wiring, &further)),
    }
}

/// The Deployment's arguments, then those of this machine, then further ones. If a flag is given twice, the last counts.
fn args(manager: &Manager, deployment: &Deployment, wiring: &Wiring, further: &[String]) -> Vec<OsString> {
    let mut args = deployment.args.clone();
    args.extend([
        format!("--kubeconfig={}", wiring.kubeconfig.display()),
        // There is only one of each, and a restarted one need not wait a minute for its own old lease.
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

/// The flag that switches the features of a manager; none if it has no switches.
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
        let deployment = Deployment {
            args: vec!["--leader-elect".to_owned(), "--bootstrap-token-ttl=15m".to_owned()],
            ..Deployment::default()
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
