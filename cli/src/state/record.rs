//! The record that commands read to find a running bootstrap cluster.

use std::collections::BTreeMap;
use std::path::PathBuf;

use plane::supervise::Ending;
use serde::{Deserialize, Serialize};

/// The record of a running bootstrap cluster.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    /// The process ID.
    pub pid: u32,
    /// The path to the administrator's kubeconfig.
    pub kubeconfig: PathBuf,
    /// True if the programs are ready, in addition to the API server.
    pub ready: bool,
    /// The components that are ready, in the order in which they became ready.
    #[serde(default)]
    pub started: Vec<String>,
    /// True if a command started the bootstrap cluster and will stop it.
    pub transient: bool,
    /// The processes that keep exiting.
    #[serde(default)]
    pub endings: Vec<Ending>,
    /// The arguments from the site file with which the programs run, by component name.
    #[serde(default)]
    pub args: BTreeMap<String, Vec<String>>,
}
