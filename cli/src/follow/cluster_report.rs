//! The progress of one cluster that a command follows.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde::Serialize;

use super::progress::{self, Count, Milestone};
use crate::describe::next::next;
use crate::describe::tree::Objects;
use crate::describe::{Blocking, Root, print};

/// The number of reads in a row in which a changed cluster must be settled: the objects are not read at the same moment.
const SIGHTINGS: u32 = 2;

const REFUSED: &str = "Refused";

/// The progress of one cluster.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterReport {
    /// The kind of the cluster.
    #[serde(skip)]
    pub root: Root,
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
    /// The milestones that it had reached before it was changed; none of a new cluster.
    #[serde(skip)]
    reached_before: Vec<String>,
    /// The number of reads in a row in which it was settled.
    #[serde(skip)]
    sightings: u32,
}

impl ClusterReport {
    /// The report of a new cluster.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.to_owned(), name: name.to_owned(), ..Self::default() }
    }

    /// The report of a cluster that the API server refused.
    pub fn refused(namespace: &str, name: &str, error: &anyhow::Error) -> Self {
        let object = format!("{} {namespace}/{name}", Root::TanzuKubernetesCluster.kind());
        let blocking =
            Blocking { object, reason: REFUSED.to_owned(), message: error.root_cause().to_string() };
        Self { phase: REFUSED.to_lowercase(), blocking: Some(blocking), ..Self::new(namespace, name) }
    }

    /// Leaves out the milestones that the cluster has reached before the change.
    pub fn skip_reached(&mut self, objects: &Objects) {
        self.reached_before = progress::reached(objects);
    }

    /// True if the cluster had reached no milestone before the change.
    pub fn is_new(&self) -> bool {
        self.reached_before.is_empty()
    }

    /// Updates the report from the objects, `seconds` after the change.
    pub fn update(&mut self, objects: &Objects, seconds: f64) {
        self.seconds = (seconds * 10.0).round() / 10.0;
        for name in progress::reached(objects) {
            let known = self.milestones.iter().any(|milestone| milestone.name == name);
            if !known && !self.reached_before.contains(&name) {
                self.milestones.push(Milestone { name, seconds: self.seconds });
            }
        }
        self.phase = progress::phase(objects);
        self.control_plane = progress::control_plane(objects);
        self.workers = progress::workers(objects);
        self.sightings = if progress::is_settled(objects) { self.sightings + 1 } else { 0 };
    }

    /// True until the cluster runs or is refused.
    pub fn is_awaited(&self) -> bool {
        !self.is_running() && !self.is_refused()
    }

    /// True if the API server refused the cluster.
    pub fn is_refused(&self) -> bool {
        self.phase == REFUSED.to_lowercase()
    }

    /// True if the cluster runs as its spec says. For a new cluster, one read is enough.
    pub fn is_running(&self) -> bool {
        let needed = if self.is_new() { 1 } else { SIGHTINGS };
        self.sightings >= needed
    }

    /// The report as a person reads it, with a line for each milestone if `milestones` is set. `consoles` says whether nodes have
    /// a console that can be read here.
    pub fn text(&self, milestones: bool, consoles: bool) -> String {
        let mut text = String::new();
        let Self { namespace, name, seconds, control_plane, workers, .. } = self;
        let state = if self.is_running() { "Running" } else { "not Running" };
        if self.is_refused() {
            let message = self.blocking.as_ref().map_or("", |blocking| &blocking.message);
            let _ = writeln!(text, "{namespace}/{name}: refused: {message}");
            return text;
        }
        let _ = writeln!(
            text,
            "{namespace}/{name}: {state} after {seconds:.1} s (control plane {control_plane}, workers {workers})"
        );
        for milestone in self.milestones.iter().filter(|_| milestones) {
            let _ = writeln!(text, "  {:>6.1} s  {}", milestone.seconds, milestone.name);
        }
        if let Some(blocking) = &self.blocking {
            let _ = writeln!(text, "  Blocked by {}", print::cause(blocking));
            if let Some(command) = next(blocking, consoles) {
                let _ = writeln!(text, "  Next: {command}");
            }
        }
        text
    }
}
