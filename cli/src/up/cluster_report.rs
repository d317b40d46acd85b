//! What becomes of one cluster while `up` follows it.

use std::path::PathBuf;

use serde::Serialize;

use super::progress::{Count, Milestone};
use crate::describe::Blocking;

const REFUSED: &str = "Refused";

/// What became of one cluster.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterReport {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Phase, e.g. `running`.
    pub phase: String,
    /// Seconds from the manifest's being applied to Running, or to the time when we stopped waiting.
    pub seconds: f64,
    /// Control plane nodes.
    pub control_plane: Count,
    /// Worker nodes.
    pub workers: Count,
    /// Milestones reached.
    pub milestones: Vec<Milestone>,
    /// The first blocking cause, if it does not run.
    pub blocking: Option<Blocking>,
    /// The file with its kubeconfig, if there is one yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubeconfig: Option<PathBuf>,
}

impl ClusterReport {
    /// A cluster that was only just applied.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.to_owned(), name: name.to_owned(), ..Self::default() }
    }

    /// A cluster that the API server did not take.
    pub fn refused(namespace: &str, name: &str, error: &anyhow::Error) -> Self {
        let object = format!("TanzuKubernetesCluster {namespace}/{name}");
        let blocking =
            Blocking { object, reason: REFUSED.to_owned(), message: error.root_cause().to_string() };
        Self { phase: REFUSED.to_lowercase(), blocking: Some(blocking), ..Self::new(namespace, name) }
    }

    /// Whether there is anything to wait for.
    pub fn is_awaited(&self) -> bool {
        !self.is_running() && !self.is_refused()
    }

    /// Whether the API server did not take it.
    pub fn is_refused(&self) -> bool {
        self.phase == REFUSED.to_lowercase()
    }

    /// Whether the cluster runs.
    pub fn is_running(&self) -> bool {
        self.phase == "running"
    }
}
