//! Decides how a move proceeds, from the facts about both management clusters. This module doesn't perform I/O.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::facts::{ClusterFacts, Facts, MovedKey, MovedNamespace, MovedObject, Pause};

/// A kind that controllers do not create again in a source from which it was moved.
const CONTROL_PLANE: &str = "KubeadmControlPlane";
/// The kinds with VMs.
const MACHINES: [&str; 3] = ["Machine", "WCPMachine", "VirtualMachine"];

/// The next step for one namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MoveStep {
    /// Create copies in the target and remove the originals.
    Move,
    /// Remove the copies that an interrupted move has created, then [`Self::Move`].
    Restart {
        /// The copies in the target.
        copies: BTreeSet<MovedKey>,
    },
    /// All copies exist. Remove the remaining originals.
    Complete {
        /// The originals in the source.
        originals: BTreeSet<MovedKey>,
    },
    /// Only the copies' pause is left.
    Resume,
}

/// The plan for a move.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The next step for each namespace.
    pub steps: BTreeMap<String, MoveStep>,
    /// The reasons to refuse the move, each with a remedy.
    pub problems: Vec<String>,
    /// Objects that stay in the source, each with the way to move them.
    pub stays: Vec<String>,
}

/// Plans the move for the clusters in `namespaces`.
pub fn plan(from: &Facts, to: &Facts, namespaces: &BTreeSet<String>, leaves_claims: bool) -> Plan {
    let mut plan = Plan::default();
    compare_installations(from, to, &mut plan.problems);
    let empty = MovedNamespace::default();
    for namespace in namespaces {
        let here = from.namespaces.get(namespace).unwrap_or(&empty);
        let there = to.namespaces.get(namespace).unwrap_or(&empty);
        match step(namespace, here, there, &from.uid) {
            Ok(Some(step)) => {
                if matches!(step, MoveStep::Move | MoveStep::Restart { .. }) {
                    check_readiness(namespace, here, to, leaves_claims, &mut plan.problems);
                }
                for (kind, names) in &here.others {
                    plan.stays.push(format!("{kind} in {namespace}: {}", joined(names)));
                }
                plan.steps.insert(namespace.clone(), step);
            }
            Ok(None) => {}
            Err(problem) => plan.problems.push(problem),
        }
    }
    plan
}

/// Returns the next step for a namespace, or `None` if it has no clusters to move.
///
/// clusterctl pauses the Clusters, creates all copies, owners first, and only then removes the originals, owners last.
/// So while an original has no copy, no original was removed.
///
/// A copy without an original counts only if it comes from this source. Otherwise its original may be in a third management
/// cluster.
fn step(
    namespace: &str,
    here: &MovedNamespace,
    there: &MovedNamespace,
    source: &str,
) -> Result<Option<MoveStep>, String> {
    let is_from_source = there.origin.as_deref() == Some(source);
    let is_copy = |name: &String| {
        let copy = &there.clusters[name];
        let original = here.clusters.get(name).filter(|original| original.has_cluster);
        let is_unfinished =
            if copy.has_cluster { copy.pause == Pause::ByMove } else { copy.is_made_elsewhere };
        let has_same_endpoint =
            original.is_none_or(|original| !copy.has_cluster || original.endpoint == copy.endpoint);
        is_unfinished && has_same_endpoint && (is_from_source || here.clusters.contains_key(name))
    };
    let copies: BTreeSet<_> = there.clusters.keys().filter(|name| is_copy(name)).cloned().collect();
    for name in here.clusters.keys().filter(|name| there.clusters.contains_key(*name)) {
        if !copies.contains(name) {
            return Err(format!(
                "{namespace}/{name}: the target has another cluster of this name. Delete or rename one of them"
            ));
        }
    }
    if here.clusters.is_empty() && here.objects.is_empty() {
        return Ok((!copies.is_empty()).then_some(MoveStep::Resume));
    }
    let originals: BTreeSet<_> = here.objects.keys().cloned().collect();
    let is_of_copy = |object: &MovedObject| copies.contains(&object.cluster);
    let existing: BTreeSet<_> =
        there.objects.iter().filter(|(_, object)| is_of_copy(object)).map(|(key, _)| key.clone()).collect();
    let is_marked = here.objects.values().any(|object| object.is_marked);
    if existing.is_empty() && !is_marked {
        return Ok(Some(MoveStep::Move));
    }
    let missing: BTreeSet<_> = originals.difference(&existing).collect();
    let removed: BTreeSet<_> = existing.difference(&originals).collect();
    // The removal has certainly begun, so what has no copy was created after it, in a source that was resumed meanwhile.
    // A MachineDeployment without its MachineSet creates another one. Only machines have VMs.
    let is_removing = is_marked || removed.iter().any(|key| key.kind == CONTROL_PLANE);
    let is_harmless = is_removing && !missing.iter().any(|key| MACHINES.contains(&key.kind.as_str()));
    let names = |keys: &BTreeSet<&MovedKey>| joined(&keys.iter().map(ToString::to_string).collect());
    match (missing.is_empty() || is_harmless, is_marked || !removed.is_empty()) {
        (_, false) => Ok(Some(MoveStep::Restart { copies: existing })),
        (true, true) => Ok(Some(MoveStep::Complete { originals })),
        (false, true) => Err(format!(
            "{namespace}: an interrupted move cannot continue, because objects were changed since. Only in the source: {}; \
             only in the target: {}. Delete what exists by mistake, and run the command again",
            names(&missing),
            names(&removed),
        )),
    }
}

/// Returns the clusters to move: those in the source, and unfinished copies from this source whose originals are gone already.
pub fn moving_clusters<'a>(
    here: &'a MovedNamespace,
    there: &'a MovedNamespace,
    source: &str,
) -> BTreeMap<&'a String, &'a ClusterFacts> {
    let is_from_source = there.origin.as_deref() == Some(source);
    let copies =
        there.clusters.iter().filter(|(_, cluster)| is_from_source && cluster.pause == Pause::ByMove);
    copies.chain(&here.clusters).collect()
}

/// Checks that a namespace's clusters can be moved now.
fn check_readiness(
    namespace: &str,
    here: &MovedNamespace,
    to: &Facts,
    leaves_claims: bool,
    problems: &mut Vec<String>,
) {
    for (name, cluster) in &here.clusters {
        if cluster.pause == Pause::ByOthers {
            problems.push(format!(
                "{namespace}/{name} is paused. Resume it first: kubectl patch cluster {name} -n {namespace} --type=merge -p \
                 '{{\"spec\":{{\"paused\":false}}}}'"
            ));
        }
        problems.extend(check_release(namespace, name, cluster, to));
    }
    let obstacles = here.objects.iter().filter_map(|(key, object)| Some((key, object.obstacle.as_ref()?)));
    problems.extend(obstacles.map(|(key, obstacle)| format!("{namespace}: {key} {obstacle}")));
    if !here.claims.is_empty() && !leaves_claims {
        problems.push(format!(
            "{namespace}: PersistentVolumeClaims of programs in the clusters ({}) would stay in the source: {}. Copy them \
             manually, then pass --leave-claims",
            here.claims.len(),
            joined(&here.claims),
        ));
    }
}

fn check_release(namespace: &str, name: &str, cluster: &ClusterFacts, to: &Facts) -> Option<String> {
    let release = cluster.release.as_ref().filter(|release| !to.releases.contains(*release))?;
    Some(format!(
        "{namespace}/{name} has release {release}, and the target does not. Let both use the same content library, and wait \
         until `kubectl get tkr` lists the release there"
    ))
}

/// Checks that the target can manage the source's VMs.
fn compare_installations(from: &Facts, to: &Facts, problems: &mut Vec<String>) {
    let absent: BTreeSet<_> =
        from.kinds.keys().filter(|kind| !to.kinds.contains_key(*kind)).cloned().collect();
    if !absent.is_empty() {
        problems.push(format!(
            "the target does not have the kinds {}. Install the same version there with layercake init",
            joined(&absent)
        ));
    }
    for (kind, schema) in &from.kinds {
        if let Some(field) = to.kinds.get(kind).and_then(|there| missing_field(schema, there, "")) {
            problems.push(format!(
                "the target has an older version: its {kind} has no field {field}. Upgrade it with layercake init"
            ));
        }
    }
    let (Some(here), Some(there)) = (&from.configuration, &to.configuration) else {
        let side = if from.configuration.is_none() { "source" } else { "target" };
        problems.push(format!(
            "the VM operator of the {side} has no vCenter. Pass a site file: layercake init -f SITE"
        ));
        return;
    };
    for (what, here, there) in
        [("vCenter", &here.vc_pnid, &there.vc_pnid), ("datacenter", &here.datacenter, &there.datacenter)]
    {
        if !here.eq_ignore_ascii_case(there) {
            problems.push(format!(
                "the source uses {what} {here}, and the target {there}. Both must manage the same VMs: correct the site file of \
                 the target"
            ));
        }
    }
    if let Some(id) = from.stack_id.as_ref().filter(|id| to.stack_id.as_ref() != Some(id)) {
        let there = to.stack_id.as_deref().unwrap_or("none yet");
        problems.push(format!(
            "the VMs are marked with StackID {id}, and the StackID of the target is {there}. If the target has no VMs yet, set \
             StackID: {id} in the provider configuration of its site file"
        ));
    }
}

/// Returns the path to a field that `here` defines and `there` doesn't.
fn missing_field(here: &Value, there: &Value, path: &str) -> Option<String> {
    if let Some(fields) = here["properties"].as_object() {
        return fields.iter().find_map(|(name, schema)| {
            let path = format!("{path}.{name}");
            match there["properties"].get(name) {
                Some(there) => missing_field(schema, there, &path),
                None if there["x-kubernetes-preserve-unknown-fields"] == true => None,
                None => Some(path.trim_start_matches('.').to_owned()),
            }
        });
    }
    ["items", "additionalProperties"].into_iter().find_map(|part| {
        let (here, there) = (here.get(part)?, there.get(part)?);
        missing_field(here, there, &format!("{path}[]"))
    })
}

/// The maximum number of names in a message.
const LISTED: usize = 8;

/// Joins the first names with commas.
fn joined(names: &BTreeSet<String>) -> String {
    let listed: Vec<_> = names.iter().take(LISTED).map(String::as_str).collect();
    let more = names.len().saturating_sub(LISTED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    listed.join(", ") + &more
}
