//! The Cluster API manager flags that a site file can set, with Cluster API's defaults.
//!
//! `hack/generate` compares each flag and default with the sources that the installed version was built from.

use clap::{Arg, Command};

/// Which values a flag can have.
#[derive(Clone, Copy)]
enum Value {
    /// A number from 1.
    Count,
    /// Requests per second.
    Rate,
    /// A duration in Go's format.
    Duration,
}

/// A flag's name, values, default and meaning.
type Flag = (&'static str, Value, &'static str, &'static str);

/// The flags that all three managers have.
const OF_ALL: [Flag; 6] = [
    (
        "clustercache-concurrency",
        Value::Count,
        "100",
        "Connections to workload clusters that are checked at the same time.",
    ),
    (
        "clustercache-client-qps",
        Value::Rate,
        "20",
        "Requests per second to the API server of each workload cluster.",
    ),
    (
        "clustercache-client-burst",
        Value::Count,
        "30",
        "Requests that the API server of a workload cluster gets at once.",
    ),
    ("kube-api-qps", Value::Rate, "100", "Requests per second to the API server of the management cluster."),
    (
        "kube-api-burst",
        Value::Count,
        "200",
        "Requests that the API server of the management cluster gets at once.",
    ),
    ("sync-period", Value::Duration, "10m", "The time after which all objects are reconciled again."),
];
const OF_CORE: [Flag; 10] = [
    ("cluster-concurrency", Value::Count, "50", "Clusters that are reconciled at the same time."),
    ("clusterclass-concurrency", Value::Count, "10", "ClusterClasses that are reconciled at the same time."),
    (
        "clusterresourceset-concurrency",
        Value::Count,
        "10",
        "ClusterResourceSets that are reconciled at the same time.",
    ),
    (
        "clustertopology-concurrency",
        Value::Count,
        "50",
        "Clusters with a ClusterClass that are reconciled at the same time.",
    ),
    (
        "extensionconfig-concurrency",
        Value::Count,
        "10",
        "ExtensionConfigs that are reconciled at the same time.",
    ),
    ("machine-concurrency", Value::Count, "100", "Machines that are reconciled at the same time."),
    (
        "machinedeployment-concurrency",
        Value::Count,
        "50",
        "MachineDeployments that are reconciled at the same time.",
    ),
    (
        "machinehealthcheck-concurrency",
        Value::Count,
        "50",
        "MachineHealthChecks that are reconciled at the same time.",
    ),
    ("machinepool-concurrency", Value::Count, "50", "MachinePools that are reconciled at the same time."),
    ("machineset-concurrency", Value::Count, "50", "MachineSets that are reconciled at the same time."),
];
const OF_BOOTSTRAP: [Flag; 1] = [(
    "kubeadmconfig-concurrency",
    Value::Count,
    "100",
    "KubeadmConfigs that are reconciled at the same time.",
)];
const OF_CONTROL_PLANE: [Flag; 1] = [(
    "kubeadmcontrolplane-concurrency",
    Value::Count,
    "100",
    "KubeadmControlPlanes that are reconciled at the same time.",
)];

/// Returns a manager's flag definitions. It has no flags if the program isn't one of Cluster API's own managers.
pub(super) fn command(program: &str) -> Command {
    let (own, shared): (&[Flag], &[Flag]) = match program {
        "cluster-api" => (&OF_CORE, &OF_ALL),
        "kubeadm-bootstrap" => (&OF_BOOTSTRAP, &OF_ALL),
        "kubeadm-control-plane" => (&OF_CONTROL_PLANE, &OF_ALL),
        _ => (&[], &[]),
    };
    let command = Command::new("manager").disable_help_flag(true);
    command.args(own.iter().chain(shared).map(definition))
}

fn definition(&(name, value, default, help): &Flag) -> Arg {
    let arg = Arg::new(name).long(name).default_value(default).help(help);
    match value {
        Value::Count => arg.value_name("NUMBER").value_parser(clap::value_parser!(u32).range(1..)),
        Value::Rate => arg.value_name("NUMBER").value_parser(rate),
        Value::Duration => arg.value_name("DURATION").value_parser(duration),
    }
}

fn rate(text: &str) -> Result<f32, &'static str> {
    let rate = text.parse().ok().filter(|rate: &f32| rate.is_finite() && *rate > 0.0);
    rate.ok_or("write a number greater than 0")
}

fn duration(text: &str) -> Result<i32, &'static str> {
    let seconds = gcm::duration::parse_seconds(text).filter(|seconds| *seconds > 0);
    seconds.ok_or("write a duration such as 5m or 1h30m")
}
