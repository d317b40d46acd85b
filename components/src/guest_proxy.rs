//! The proxy beside each Cluster API manager that connects to workload clusters. It limits the data that the manager
//! reads from the clusters.

use serde_json::{Value, json};

use crate::catalogue::{Component, Registries};
use crate::memory::Memory;
use crate::settings::ProgramSettings;

/// The proxy's container name.
pub const CONTAINER: &str = "guest-proxy";
/// The capw command that runs the proxy.
pub const COMMAND: &str = "guest-proxy";
/// The program whose image contains the proxy.
const PROGRAM: &str = "capw";
/// The port on which the proxy listens for the manager. The upstream managers themselves use 8443, 9440 and 9443.
const PORT: u16 = 3128;
/// The proxy's port for health checks.
const HEALTH_PORT: u16 = 9441;
/// The proxy's port for metrics.
const METRICS_PORT: u16 = 8444;
/// The proxy's memory. Connections to 500 clusters take 150 MiB, and responses take at most 32 MiB.
const MEMORY: Memory = Memory { request_mib: 32, limit_mib: 512 };
/// Targets in a cluster that the manager reaches without the proxy: the API server and runtime extensions.
const DIRECT: &str = "$(KUBERNETES_SERVICE_HOST),.svc,.svc.cluster.local,localhost,127.0.0.1";

/// Returns the environment variables that make a manager use the proxy on loopback port `port` for all HTTPS connections,
/// except to the comma-separated hosts in `direct`.
///
/// Go prefers the upper-case names, so inherited lower-case variables don't count. Go never uses a proxy for loopback
/// addresses.
pub fn variables(port: u16, direct: &str) -> [(&'static str, String); 2] {
    [("HTTPS_PROXY", format!("http://127.0.0.1:{port}")), ("NO_PROXY", direct.to_owned())]
}

/// Returns the proxy's arguments, except its kubeconfig. `health` and `metrics` are addresses (`HOST:PORT`).
pub fn arguments(port: u16, health: &str, metrics: &str) -> [String; 4] {
    [
        COMMAND.to_owned(),
        format!("--listen=127.0.0.1:{port}"),
        format!("--health-address={health}"),
        format!("--diagnostics-address={metrics}"),
    ]
}

/// Adds the proxy to a manager's Pod, and makes the manager use it.
pub(crate) fn add(pod: &mut Value, registries: &Registries, settings: Option<&ProgramSettings>) {
    let Some(program) = Component::find(PROGRAM) else { return };
    let image = program.image_reference(registries);
    let Some(containers) = pod["containers"].as_array_mut() else { return };
    if let Some(manager) = containers.first_mut().and_then(Value::as_object_mut)
        && let Some(env) = manager.entry("env").or_insert_with(|| json!([])).as_array_mut()
    {
        env.extend(variables(PORT, DIRECT).map(|(name, value)| json!({ "name": name, "value": value })));
    }
    let (health, metrics) = (format!("0.0.0.0:{HEALTH_PORT}"), format!("127.0.0.1:{METRICS_PORT}"));
    let mut proxy = json!({
        "name": CONTAINER,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": [format!("/{PROGRAM}")],
        "args": arguments(PORT, &health, &metrics),
        "env": [{ "name": "MALLOC_ARENA_MAX", "value": "1" }],
        "ports": [{ "name": "proxy-health", "containerPort": HEALTH_PORT }],
        "livenessProbe": { "httpGet": { "path": "/healthz", "port": "proxy-health" } },
        "resources": {
            "requests": { "cpu": "10m", "memory": format!("{}Mi", MEMORY.request_mib) },
            "limits": { "memory": format!("{}Mi", MEMORY.limit_mib) },
        },
        "securityContext": {
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "capabilities": { "drop": ["ALL"] },
        },
    });
    if let Some(settings) = settings {
        settings.apply(&mut proxy);
    }
    containers.push(proxy);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manager_reaches_clusters_only_through_its_proxy() {
        let mut pod = json!({ "containers": [{ "name": "manager" }] });
        add(&mut pod, &Registries::default(), None);
        assert_eq!(
            pod["containers"][0]["env"][0],
            json!({ "name": "HTTPS_PROXY", "value": "http://127.0.0.1:3128" })
        );
        assert_eq!(pod["containers"][1]["args"][1], "--listen=127.0.0.1:3128");
    }
}
