//! How commands find a running bootstrap cluster.

use std::path::PathBuf;

use plane::supervise::Ending;
use serde::{Deserialize, Serialize};

/// The record of a running bootstrap cluster.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    /// The process.
    pub pid: u32,
    /// The administrator's kubeconfig.
    pub kubeconfig: PathBuf,
    /// Our programs are ready, too.
    pub ready: bool,
    /// It was started for a command, which stops it.
    pub transient: bool,
    /// Its processes that end again and again.
    #[serde(default)]
    pub endings: Vec<Ending>,
}
