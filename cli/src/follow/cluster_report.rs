//! The progress report for one cluster.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde::Serialize;

use super::progress::{self, Milestone};
use crate::describe::cluster_view::{ClusterView, Count};
use crate::describe::next::next;
use crate::describe::tree::Objects;
use crate::describe::{Blocking, Root, print};

/// The number of consecutive reads in which a changed cluster must be settled. One read isn't enough, because the
/// objects aren't read at the same moment.
const SIGHTINGS: u32 = 2;

const REFUSED: &str = "Refused";
/// The phase of a cluster that runs, whatever its kind calls it.
const RUNNING: &str = "running";

/// The progress of one cluster.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterReport {
    #[serde(skip)]
    pub root: Root,
    pub namespace: String,
    pub name: String,
    /// The phase, such as `running`.
    pub phase: String,
    /// Seconds from the apply until the cluster runs or the wait ends.
    pub seconds: f64,
    pub control_plane: Count,
    pub workers: Count,
    pub milestones: Vec<Milestone>,
    /// The first blocking cause, if the cluster doesn't run.
    pub blocking: Option<Blocking>,
    /// The cluster's kubeconfig file, once it exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubeconfig: Option<PathBuf>,
    /// The milestones before the change. Empty for a new cluster.
    #[serde(skip)]
    reached_before: Vec<String>,
    /// The number of consecutive reads in which the cluster was settled.
    #[serde(skip)]
    sightings: u32,
}

impl ClusterReport {
    /// Returns the report for a new cluster.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.to_owned(), name: name.to_owned(), ..Self::default() }
    }

    /// Returns the report for a cluster that the API server refused.
    pub fn refused(namespace: &str, name: &str, error: &anyhow::Error) -> Self {
        let object = format!("{} {namespace}/{name}", Root::TanzuKubernetesCluster.kind());
        let blocking =
            Blocking { object, reason: REFUSED.to_owned(), message: error.root_cause().to_string() };
        Self { phase: REFUSED.to_lowercase(), blocking: Some(blocking), ..Self::new(namespace, name) }
    }

    /// Excludes the milestones that the cluster had reached before the change.
    pub fn skip_reached(&mut self, objects: &Objects) {
        self.reached_before = progress::reached(objects, &ClusterView::of_objects(objects));
    }

    /// Returns true if the cluster hadn't reached any milestone before the change.
    pub fn is_new(&self) -> bool {
        self.reached_before.is_empty()
    }

    /// Updates the report from the objects, `seconds` after the change.
    pub fn update(&mut self, objects: &Objects, seconds: f64) {
        self.seconds = (seconds * 10.0).round() / 10.0;
        let cluster = ClusterView::of_objects(objects);
        for name in progress::reached(objects, &cluster) {
            let known = self.milestones.iter().any(|milestone| milestone.name == name);
            if !known && !self.reached_before.contains(&name) {
                self.milestones.push(Milestone { name, seconds: self.seconds });
            }
        }
        self.sightings = if progress::is_settled(objects, &cluster) { self.sightings + 1 } else { 0 };
        self.phase = if cluster.runs { RUNNING.to_owned() } else { cluster.phase };
        self.control_plane = cluster.control_plane;
        self.workers = cluster.workers;
    }

    /// Returns true until the cluster runs or is refused.
    pub fn is_awaited(&self) -> bool {
        !self.is_running() && !self.is_refused()
    }

    /// Returns true if the API server refused the cluster.
    pub fn is_refused(&self) -> bool {
        self.phase == REFUSED.to_lowercase()
    }

    /// Returns true if the cluster runs as its spec says. A new cluster counts as running after one such read.
    pub fn is_running(&self) -> bool {
        let needed = if self.is_new() { 1 } else { SIGHTINGS };
        self.sightings >= needed
    }

    /// Formats the report for people, with a line for each milestone if `milestones` is set. `consoles` is true if the
    /// nodes' consoles can be read on this host.
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
