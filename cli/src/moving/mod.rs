//! `layercake move`: moves clusters to another management cluster that uses the same vCenter.
//!
//! The command doesn't keep a record. It reads both management clusters, determines the progress from their objects, and
//! continues there. `clusterctl move` copies the objects and removes the originals.

mod belongings;
mod carry_out;
mod facts;
mod gather;
mod plan;
#[cfg(test)]
mod tests;
mod verify;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::Namespace;
use kit::diagnosis::CheckOutcome;
use kit::lease::Elections;
use kube::{Api, ResourceExt as _};

use self::carry_out::{Clusterctl, MoveSide, note_origin, remove, resume};
use self::facts::{Facts, MovedNamespace, Pause};
use self::gather::{MovedKind, gather, moved_kinds};
use self::plan::{MoveStep, Plan, moving_clusters, plan};
use self::verify::VcenterState;
use crate::args::{ClusterFlags, Move, TargetFlags};
use crate::describe::Root;
use crate::doctor;
use crate::follow::cluster_report::ClusterReport;
use crate::follow::follow_clusters;
use crate::init::given::operator_flags;
use crate::kube::connection::{client, read_kubeconfig};
use crate::kubeconfig;
use crate::terminal::exit::{ExitStatus, failed};
use crate::terminal::interrupts::until_interrupted;
use crate::terminal::output::{say, write_out, write_over};

/// The Lease that keeps two moves from running at the same time.
const LEASE: (&str, &str) = ("kube-system", "layercake-move");
/// A Lease is held for 15 seconds after its holder was killed.
const LEASE_WAIT: Duration = Duration::from_secs(20);
/// The time in which moved clusters run in the target.
const RUNNING_WITHIN: Duration = Duration::from_mins(10);

/// Runs `layercake move`.
pub async fn run(args: Move) -> ExitStatus {
    let again = "Interrupted. The clusters run on. Run the same command again: it continues the move";
    let work = async { move_with(&args).await.unwrap_or_else(|error| failed(&error)) };
    until_interrupted(work, || write_over(again)).await
}

/// Opens both sides, starts stopped bootstrap clusters for the move, and runs it.
async fn move_with(args: &Move) -> Result<ExitStatus> {
    let flags = |bootstrap: &Option<String>, cluster: &ClusterFlags| TargetFlags {
        namespace: None,
        bootstrap: bootstrap.clone(),
        cluster: cluster.clone(),
    };
    let source = flags(&args.bootstrap, &args.from);
    let to = ClusterFlags { kubeconfig: args.to_kubeconfig.clone(), context: args.to_context.clone() };
    source
        .with(async |source| {
            let from =
                side(source.bootstrap.as_ref().map(|opened| opened.kubeconfig.as_path()), &args.from).await?;
            if let Some(cluster) = &args.into {
                return Box::pin(move_between(&from, &workload_cluster(&from, cluster).await?, args)).await;
            }
            flags(&args.to_bootstrap, &to)
                .with(async |target| {
                    let path = target.bootstrap.as_ref().map(|opened| opened.kubeconfig.as_path());
                    Box::pin(move_between(&from, &side(path, &to).await?, args)).await
                })
                .await
        })
        .await
}

/// Connects to a bootstrap cluster, or to the cluster that the flags select.
async fn side(bootstrap: Option<&Path>, flags: &ClusterFlags) -> Result<MoveSide> {
    let path = bootstrap.or(flags.kubeconfig.as_deref());
    let context = flags.context.as_deref().filter(|_| bootstrap.is_none());
    Ok(MoveSide { client: client(path, context).await?, kubeconfig: read_kubeconfig(path, context)? })
}

/// Connects to a workload cluster. `cluster` is its namespace and name in the source.
async fn workload_cluster(from: &MoveSide, cluster: &str) -> Result<MoveSide> {
    let (namespace, name) = cluster.split_once('/').unwrap_or((from.client.default_namespace(), cluster));
    let kubeconfig = kubeconfig::of_cluster(&from.client, namespace, name).await?;
    let folder = tempfile::tempdir().context("cannot create a folder")?;
    let path = folder.path().join("kubeconfig");
    crate::files::owner_only(&path, kubeconfig.as_bytes())?;
    side(None, &ClusterFlags { kubeconfig: Some(path), context: None }).await
}

/// Moves the clusters while no other move runs on either side.
async fn move_between(from: &MoveSide, to: &MoveSide, args: &Move) -> Result<ExitStatus> {
    let (here, there) = (identity(from).await?, identity(to).await?);
    if here == there {
        return Err(ExitStatus::Refused.error("source and target are the same cluster".to_owned()));
    }
    if args.dry_run {
        return move_clusters(from, to, args).await;
    }
    let holder = format!("{}-{}", std::process::id(), uuid::Uuid::new_v4());
    let lock = |side: &MoveSide| Elections::new(side.client.clone(), LEASE.0, LEASE.1, &holder);
    // Both directions take the locks in the same order.
    let (first, second) = if here < there { (lock(from), lock(to)) } else { (lock(to), lock(from)) };
    let work = Box::pin(move_clusters(from, to, args));
    let done = first.during(LEASE_WAIT, second.during(LEASE_WAIT, work)).await.flatten();
    done.unwrap_or_else(|| {
        Err(ExitStatus::Refused.error(format!(
            "another move is running: it holds Lease {}/{}. Wait until it has ended, and run the command again",
            LEASE.0, LEASE.1
        )))
    })
}

/// Returns the UID that identifies a cluster: that of namespace `kube-system`.
async fn identity(side: &MoveSide) -> Result<String> {
    let namespaces: Api<Namespace> = Api::all(side.client.clone());
    Ok(namespaces
        .get("kube-system")
        .await
        .context("cannot read namespace kube-system")?
        .uid()
        .unwrap_or_default())
}

/// Both sides, as they were read.
struct BothSides<'a> {
    from: &'a MoveSide,
    to: &'a MoveSide,
    kinds: [BTreeMap<String, MovedKind>; 2],
    here: Facts,
    there: Facts,
}

impl<'a> BothSides<'a> {
    async fn read(from: &'a MoveSide, to: &'a MoveSide) -> Result<Self> {
        let kinds = tokio::try_join!(moved_kinds(&from.client), moved_kinds(&to.client))?;
        let (here, there) = tokio::join!(gather(&from.client, &kinds.0), gather(&to.client, &kinds.1));
        let (here, there) = (here.context("the source")?, there.context("the target")?);
        Ok(Self { from, to, kinds: kinds.into(), here, there })
    }

    /// Returns the namespaces to move: all with clusters, or the one that the flag names.
    fn namespaces(&self, args: &Move) -> BTreeSet<String> {
        let both = self.here.namespaces.iter().chain(&self.there.namespaces);
        let all = both.filter(|(_, facts)| !facts.clusters.is_empty() || !facts.objects.is_empty());
        all.map(|(name, _)| name.clone())
            .filter(|name| args.namespace.as_ref().is_none_or(|wanted| wanted == name))
            .collect()
    }
}

async fn move_clusters(from: &MoveSide, to: &MoveSide, args: &Move) -> Result<ExitStatus> {
    let sides = BothSides::read(from, to).await?;
    let mut plan = plan(&sides.here, &sides.there, &sides.namespaces(args), args.leave_claims);
    plan.problems.extend(problems_of_target(to).await?);
    if plan.steps.is_empty() && plan.problems.is_empty() {
        say!("nothing to move: the source has no clusters{}", in_namespace(args));
        return Ok(ExitStatus::Done);
    }
    write_out(&describe(&plan, &sides.here));
    if !plan.problems.is_empty() {
        let lines = plan.problems.join("\nerror: ");
        return Err(ExitStatus::Refused.error(format!("{lines}\nerror: nothing was moved")));
    }
    let namespaces: Vec<_> = plan.steps.keys().map(String::as_str).collect();
    let copied = belongings::copy(&from.client, &to.client, &namespaces, args.dry_run).await?;
    if args.dry_run {
        for object in &copied {
            say!("would be copied: {object}");
        }
        say!(
            "The credentials of vCenter stay in the source. The target uses its own. (dry run: nothing was changed)"
        );
        return Ok(ExitStatus::Done);
    }
    for object in &copied {
        say!("copied: {object}");
    }
    carry_out(&sides, &plan).await
}

fn in_namespace(args: &Move) -> String {
    args.namespace.as_ref().map(|namespace| format!(" in namespace {namespace}")).unwrap_or_default()
}

/// Returns the errors that the doctor finds in the target.
async fn problems_of_target(to: &MoveSide) -> Result<Vec<String>> {
    let found = doctor::findings(&to.client, &operator_flags(None).doctor_options()?).await;
    let errors = found.iter().filter(|one| one.outcome == CheckOutcome::Error);
    Ok(errors
        .map(|one| {
            let remedy = one.remedy.trim_end_matches('.');
            format!("the target: {} {}. {remedy}", one.check.code, one.found.trim_end_matches('.'))
        })
        .collect())
}

/// Describes a plan: for each namespace the next step and the object counts, and the objects that stay.
fn describe(plan: &Plan, here: &Facts) -> String {
    let mut text = String::new();
    let empty = MovedNamespace::default();
    for (namespace, step) in &plan.steps {
        let facts = here.namespaces.get(namespace).unwrap_or(&empty);
        let begun = match step {
            MoveStep::Move => "move",
            MoveStep::Restart { .. } => {
                "move again; an interrupted move has left copies, which are removed first"
            }
            MoveStep::Complete { .. } => "complete an interrupted move: all copies exist",
            MoveStep::Resume => "complete an interrupted move: resume the clusters in the target",
        };
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for key in facts.objects.keys() {
            *counts.entry(&key.kind).or_default() += 1;
        }
        let counts: Vec<_> = counts.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
        let _ = writeln!(text, "namespace {namespace}: {begun}");
        if !counts.is_empty() {
            let _ = writeln!(text, "  {} objects: {}", facts.objects.len(), counts.join(", "));
        }
    }
    for stays in &plan.stays {
        let _ = writeln!(text, "stays in the source: {stays}");
    }
    if !plan.stays.is_empty() {
        text += "To move a Secret or ConfigMap with its cluster: kubectl label … clusterctl.cluster.x-k8s.io/move=\n";
    }
    text
}

/// Moves the namespaces, waits until their clusters run in the target, and compares the VMs.
async fn carry_out(sides: &BothSides<'_>, plan: &Plan) -> Result<ExitStatus> {
    let facts = sides.here.namespaces.iter().chain(&sides.there.namespaces);
    let moved = facts.filter(|(namespace, _)| plan.steps.contains_key(*namespace));
    let vms: BTreeSet<_> = moved.flat_map(|(_, facts)| facts.vms.iter().cloned()).collect();
    let before = VcenterState::read(&sides.to.client, &vms).await?;
    let clusterctl = Clusterctl::prepare(sides.from, sides.to).await?;
    let mut reports = Vec::new();
    for (namespace, step) in &plan.steps {
        let empty = MovedNamespace::default();
        let here = sides.here.namespaces.get(namespace).unwrap_or(&empty);
        let there = sides.there.namespaces.get(namespace).unwrap_or(&empty);
        let clusters = moving_clusters(here, there, &sides.here.uid);
        move_namespace(sides, &clusterctl, namespace, step, clusters.keys().copied()).await?;
        say!("namespace {namespace}: {} clusters moved", clusters.len());
        reports.extend(clusters.iter().map(|(name, cluster)| {
            let mut report = ClusterReport::new(namespace, name);
            if !cluster.is_tanzu_kubernetes_cluster {
                report.root = Root::Cluster;
            }
            report
        }));
    }
    clusterctl.close().await?;
    follow_clusters(&sides.to.client, &mut reports, RUNNING_WITHIN).await?;
    let differences = before.differences().await?;
    let (count, runs) = (before.count(), reports.iter().all(ClusterReport::is_running));
    before.close().await;
    if differences.is_empty() {
        say!("verified: the same {count} VMs, and vCenter has run no task on them");
    } else {
        for difference in differences {
            say!("error: {difference}");
        }
        return Ok(ExitStatus::Failed);
    }
    if !runs {
        say!(
            "error: not all clusters run in the target after {RUNNING_WITHIN:?}. To see why: layercake describe"
        );
        return Ok(ExitStatus::NotYet);
    }
    Ok(ExitStatus::Done)
}

async fn move_namespace<'a>(
    sides: &BothSides<'_>,
    clusterctl: &Clusterctl,
    namespace: &str,
    step: &MoveStep,
    clusters: impl Iterator<Item = &'a String> + Clone,
) -> Result<()> {
    let (from, to) = (&sides.from.client, &sides.to.client);
    match step {
        MoveStep::Complete { originals } => {
            remove(from, &sides.kinds[0], namespace, originals).await?;
            return resume(to, namespace, clusters).await;
        }
        MoveStep::Resume => return resume(to, namespace, clusters).await,
        MoveStep::Restart { copies } => remove(to, &sides.kinds[1], namespace, copies).await?,
        MoveStep::Move => {}
    }
    // clusterctl refuses paused Clusters, and an interrupted run has paused them.
    note_origin(to, namespace, &sides.here.uid).await?;
    let here = sides.here.namespaces.get(namespace).into_iter().flat_map(|here| &here.clusters);
    let paused = here.filter(|(_, cluster)| cluster.pause == Pause::ByMove);
    resume(from, namespace, paused.map(|(name, _)| name)).await?;
    let Err(error) = clusterctl.run(namespace).await else { return Ok(()) };
    // clusterctl leaves the source paused, even if it has created no copy.
    let sides = BothSides::read(sides.from, sides.to).await.context(error.to_string())?;
    let only = BTreeSet::from([namespace.to_owned()]);
    match plan(&sides.here, &sides.there, &only, true).steps.get(namespace) {
        Some(MoveStep::Move) => resume(from, namespace, clusters).await?,
        Some(MoveStep::Restart { copies }) => {
            remove(to, &sides.kinds[1], namespace, copies).await?;
            resume(from, namespace, clusters).await?;
        }
        _ => {
            return Err(
                error.context("the move was interrupted. Run the same command again: it continues the move")
            );
        }
    }
    Err(error.context("the move was undone, and the clusters are managed by the source as before"))
}
