//! `layercake delete`: deletes a cluster with all its VMs.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use api::conditions::{READY, capi, tkc};
use api::names::finalizer;
use kit::api_error::is_gone;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, DynamicObject, Preconditions};

use super::{Found, clusters, find, plain_clusters, say_not_yet, until_interrupted};
use crate::args::{Delete, WaitFlags};
use crate::describe::object::{condition, text};
use crate::describe::tree::Objects;
use crate::describe::words::phrase;
use crate::describe::{Root, gather, pause};
use crate::follow::POLL_INTERVAL;
use crate::follow::lost::Silence;
use crate::follow::view::WORTH_MENTIONING;
use crate::kube::apply::refusal_of_user;
use crate::kubeconfig;
use crate::local::bootstrap;
use crate::local::target::Target;
use crate::terminal::exit::ExitStatus;
use crate::terminal::output::{say, write_out};

/// Runs `layercake delete`.
pub async fn delete(args: Delete) -> ExitStatus {
    let begun = format!("Interrupted. If the deletion of {} has begun, it continues.", args.name);
    let work = async {
        let status = args.target.with_change(None, async |target| run(target, &args).await).await?;
        if let Some(name) = &args.target.bootstrap {
            bootstrap::delete_if_empty(name).await?;
        }
        Ok(status)
    };
    until_interrupted(&args.target, &begun, work).await
}

async fn run(target: &Target, args: &Delete) -> Result<ExitStatus> {
    let (root, metadata) = match find(target, &args.name).await? {
        Found::TanzuKubernetesCluster(cluster) => (Root::TanzuKubernetesCluster, cluster.metadata),
        Found::Plain(cluster) => (Root::Cluster, cluster.metadata),
    };
    let uid = metadata.uid.unwrap_or_default();
    let named = format!("{}/{}", target.namespace, args.name);
    if args.dry_run {
        let objects = objects(target, root, &args.name).await?;
        write_out(&plan(root, &named, &objects));
        return Ok(ExitStatus::Done);
    }
    if metadata.deletion_timestamp.is_some() {
        say!("{named} is being deleted already.");
    } else {
        // Don't delete a new cluster with the same name.
        let preconditions = Preconditions { uid: Some(uid.clone()), ..Preconditions::default() };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        match begin(target, root, &args.name, &params).await {
            Err(error) if !is_gone(&error) => {
                return Err(refusal_of_user(error)).context(format!("cannot delete {} {named}", root.kind()));
            }
            _ if target.transient().is_some() => say!("deleting {}...", args.name),
            _ => say!("{named}: the deletion has begun"),
        }
    }
    if !args.wait.wait {
        return Ok(ExitStatus::Done);
    }
    let status = follow(target, root, &args.name, &uid, args.wait).await?;
    if status == ExitStatus::Done && target.transient().is_some() {
        say!("deleted {}", args.name);
        let file = kubeconfig::users_file(None)?;
        kubeconfig::remove_cluster(&target.namespace, &args.name, &file).await?;
        say!("cleaned {} local configuration", args.name);
    }
    Ok(status)
}

async fn begin(target: &Target, root: Root, name: &str, params: &DeleteParams) -> kube::Result<()> {
    if root == Root::Cluster {
        return plain_clusters(target).delete(name, params).await.map(drop);
    }
    clusters(target).delete(name, params).await.map(drop)
}

async fn objects(target: &Target, root: Root, name: &str) -> Result<Objects> {
    Ok(gather::objects(&target.client, root, &target.namespace, name).await?.objects)
}

/// Shows the remaining objects until the cluster is gone.
async fn follow(target: &Target, root: Root, name: &str, uid: &str, wait: WaitFlags) -> Result<ExitStatus> {
    let named = format!("{}/{name}", target.namespace);
    let started = Instant::now();
    let mut ticks = tokio::time::interval(POLL_INTERVAL);
    let mut shown = Shown::default();
    let mut silence = Silence::default();
    loop {
        ticks.tick().await;
        let read = silence.note(objects(target, root, name).await, Instant::now())?;
        let elapsed = started.elapsed();
        match &read {
            Some(objects) if is_gone_from(objects, uid) => {
                say!("{:>6.1}s  {named}: deleted", elapsed.as_secs_f64());
                return Ok(ExitStatus::Done);
            }
            Some(objects) => {
                for line in shown.lines(objects, elapsed) {
                    say!("{:>6.1}s  {named}: {line}", elapsed.as_secs_f64());
                }
            }
            None => {}
        }
        if elapsed > wait.timeout {
            let paused = read.as_ref().is_some_and(|objects| pause::of_objects(objects).is_some());
            if let Some(objects) = read {
                say!("{named} waits for {}", cause(&objects));
            }
            say_not_yet(wait.timeout, paused);
            return Ok(ExitStatus::NotYet);
        }
    }
}

/// Returns true if the cluster with this UID is gone. A new cluster can have the same name.
fn is_gone_from(objects: &Objects, uid: &str) -> bool {
    cluster(objects).is_none_or(|cluster| cluster.uid().as_deref() != Some(uid))
}

/// Returns the TanzuKubernetesCluster if it exists, or the Cluster.
fn cluster(objects: &Objects) -> Option<&DynamicObject> {
    let first = |root: Root| objects.get(root.kind()).and_then(|all| all.first());
    first(Root::TanzuKubernetesCluster).or_else(|| first(Root::Cluster))
}

/// The progress that was last shown for a deletion.
#[derive(Default)]
struct Shown {
    /// The line about the remaining objects, and the time from the start of the deletion until the line was printed.
    left: Option<(String, Duration)>,
    cause: Option<String>,
}

impl Shown {
    /// Returns the lines to print. `elapsed` is the time since the start.
    fn lines(&mut self, objects: &Objects, elapsed: Duration) -> Vec<String> {
        let left = left(objects);
        match &self.left {
            Some((before, since)) if *before == left => {
                let cause = cause(objects);
                let is_paused = pause::of_objects(objects).is_some();
                let held = is_paused || elapsed.saturating_sub(*since) > WORTH_MENTIONING;
                let is_new = held && self.cause.as_ref() != Some(&cause);
                if is_new {
                    self.cause = Some(cause.clone());
                }
                is_new.then(|| format!("waits for {cause}")).into_iter().collect()
            }
            _ => {
                self.left = Some((left.clone(), elapsed));
                vec![left]
            }
        }
    }
}

/// Describes how many Machines and VMs are left.
fn left(objects: &Objects) -> String {
    let count = |kind: &str| objects.get(kind).map_or(0, Vec::len);
    match (count("Machine"), count("VirtualMachine")) {
        (0, 0) => "no Machines and no VMs are left".to_owned(),
        (machines, vms) => format!("Machines left: {machines}, VMs left: {vms}"),
    }
}

/// Returns a noun phrase for the object or program that the deletion waits for.
fn cause(objects: &Objects) -> String {
    let Some(cluster) = cluster(objects) else { return "the API server".to_owned() };
    let kind = cluster.types.as_ref().map_or("cluster", |types| types.kind.as_str());
    if let Some(finalizers) = finalizer::strangers(&cluster.metadata) {
        return format!("finalizer {finalizers} of the {kind}, which its owner must remove");
    }
    if let Some(paused) = pause::of_objects(objects) {
        return format!("the end of a pause: {paused}");
    }
    if kind == Root::Cluster.kind() {
        let deleting = condition(cluster, capi::DELETING).map(|deleting| text(deleting, "message"));
        return match deleting.filter(|message| !message.is_empty()) {
            Some(message) => phrase("", &message),
            None => "Cluster API, which has not begun the deletion. Check the installation with `layercake doctor`".to_owned(),
        };
    }
    match condition(cluster, READY).filter(|ready| text(ready, "reason") == tkc::DELETING) {
        Some(ready) => {
            let message = text(ready, "message");
            phrase("", message.strip_prefix("Waiting for ").unwrap_or(&message))
        }
        None => {
            "gcm, which has not begun the deletion. Check the installation with `layercake doctor`".to_owned()
        }
    }
}

/// Lists the objects and VMs that a deletion would delete.
fn plan(root: Root, named: &str, objects: &Objects) -> String {
    let mut text = format!("{} {named}\n", root.kind());
    let kinds = ["Cluster", "KubeadmControlPlane", "MachineDeployment", "Machine", "VirtualMachine"];
    for kind in kinds.into_iter().filter(|kind| *kind != root.kind()) {
        for object in objects.get(kind).into_iter().flatten() {
            let vm = object.data["status"]["uniqueID"].as_str();
            let vm = vm.map(|id| format!(" ({id} in vCenter, with its disks)")).unwrap_or_default();
            let _ = writeln!(text, "{kind} {}{vm}", object.name_any());
        }
    }
    text + "Nothing was changed.\n"
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn object(kind: &str, metadata: Value, status: Value) -> DynamicObject {
        let object = json!({"apiVersion": "x/v1", "kind": kind, "metadata": metadata, "status": status});
        serde_json::from_value(object).unwrap()
    }

    fn deleting(finalizers: &[&str], message: &str, machines: usize) -> Objects {
        let metadata = json!({
            "name": "c", "uid": "1", "finalizers": finalizers, "deletionTimestamp": "2026-01-01T00:00:00Z",
        });
        let ready = json!({"type": "Ready", "status": "False", "reason": "Deleting", "message": message});
        let cluster = object("TanzuKubernetesCluster", metadata, json!({"conditions": [ready]}));
        let machine = object("Machine", json!({"name": "m"}), json!({}));
        Objects::from([("TanzuKubernetesCluster", vec![cluster]), ("Machine", vec![machine; machines])])
    }

    #[test]
    fn what_is_left_is_shown_when_it_changes_and_its_cause_when_it_does_not() {
        let own = ["tanzukubernetescluster.run.tanzu.vmware.com"];
        let waiting = "Waiting for Machine m to be deleted: WCPMachine m: VSphereUnreachable";
        let mut shown = Shown::default();
        let mut lines = |objects: &Objects, seconds| shown.lines(objects, Duration::from_secs(seconds));
        let two = deleting(&own, waiting, 2);
        assert_eq!(lines(&two, 0), ["Machines left: 2, VMs left: 0"]);
        assert!(lines(&two, 10).is_empty());
        assert_eq!(lines(&two, 21), ["waits for Machine m to be deleted: WCPMachine m: VSphereUnreachable"]);
        assert!(lines(&two, 30).is_empty());
        assert_eq!(lines(&deleting(&own, waiting, 0), 31), ["no Machines and no VMs are left"]);
    }

    #[test]
    fn a_pause_is_named_at_once() {
        let own = ["tanzukubernetescluster.run.tanzu.vmware.com"];
        let mut objects = deleting(&own, "", 1);
        let cluster = &mut objects.get_mut("TanzuKubernetesCluster").unwrap()[0];
        let paused =
            json!({"type": "Paused", "status": "True", "message": "c has an annotation. To resume: x"});
        cluster.data["status"]["conditions"].as_array_mut().unwrap().push(paused);
        let mut shown = Shown::default();
        assert_eq!(shown.lines(&objects, Duration::ZERO), ["Machines left: 1, VMs left: 0"]);
        let lines = shown.lines(&objects, Duration::from_secs(1));
        assert_eq!(lines, ["waits for the end of a pause: c has an annotation. To resume: x"]);
    }

    #[test]
    fn a_finalizer_of_somebody_else_is_named() {
        let held = deleting(&["backup.example.com/hold"], "", 0);
        assert!(cause(&held).starts_with("finalizer backup.example.com/hold "), "{}", cause(&held));
        assert!(!is_gone_from(&held, "1"));
        assert!(is_gone_from(&held, "2"), "another cluster has its name");
        assert!(is_gone_from(&Objects::new(), "1"));
    }
}
