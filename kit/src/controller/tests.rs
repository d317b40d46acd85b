use std::collections::VecDeque;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::reflector::store::Writer;
use kube::runtime::watcher::Event;
use parking_lot::Mutex;
use support::api_server::server;

use super::*;
use crate::watch::Cache;

/// The timeout for events that must happen. Tests don't wait for events that must not happen.
const SOON_ENOUGH: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
#[error("{0:?}")]
struct Refused(Disposition);

impl ReconcileError for Refused {
    fn disposition(&self) -> Disposition {
        self.0
    }

    fn label(&self) -> &'static str {
        "Refused"
    }
}

/// The results that reconciles return, and the objects that were reconciled.
struct Ctx {
    answers: Mutex<VecDeque<Result<Next, Refused>>>,
    reconciled: mpsc::UnboundedSender<String>,
}

struct Running {
    runtime: Runtime,
    sets: (Cache<ReplicaSet>, Writer<ReplicaSet>),
    pods: (Cache<Pod>, Writer<Pod>),
    reconciled: mpsc::UnboundedReceiver<String>,
    controller: tokio::task::JoinHandle<()>,
}

impl Running {
    /// Starts a controller for ReplicaSets that own Pods. Both caches are complete and empty.
    fn new(answers: Vec<Result<Next, Refused>>) -> Self {
        let runtime = Runtime::detached(server(|_| (404, serde_json::Value::Null)).0);
        let mut sets = Cache::new(Arc::clone(&runtime.expectations));
        let mut pods = Cache::new(Arc::clone(&runtime.expectations));
        let (sender, reconciled) = mpsc::unbounded_channel();
        let ctx = Arc::new(Ctx { answers: Mutex::new(answers.into()), reconciled: sender });
        let controller = Controller::new("test", &runtime, &sets.0)
            .only(|set: &ReplicaSet| !set.name_any().starts_with("others-"))
            .owns(&pods.0)
            .run(ctx, reconcile);
        let controller = tokio::spawn(controller);
        sets.0.take(&mut sets.1, &Event::InitDone);
        pods.0.take(&mut pods.1, &Event::InitDone);
        Self { runtime, sets, pods, reconciled, controller }
    }

    fn sees_set(&mut self, set: ReplicaSet) {
        self.sets.0.take(&mut self.sets.1, &Event::Apply(set));
    }

    async fn next(&mut self) -> String {
        tokio::time::timeout(SOON_ENOUGH, self.reconciled.recv()).await.expect("a reconcile").unwrap()
    }
}

async fn reconcile(set: Arc<ReplicaSet>, ctx: Arc<Ctx>) -> Result<Next, Refused> {
    let version = set.resource_version().unwrap_or_default();
    ctx.reconciled.send(format!("{} {version}", set.name_any())).unwrap();
    ctx.answers.lock().pop_front().unwrap_or(Ok(Next::OnChange))
}

fn set(name: &str, version: u64, generation: i64) -> ReplicaSet {
    let mut set = ReplicaSet::default();
    set.metadata.name = Some(name.into());
    set.metadata.namespace = Some("n".into());
    set.metadata.resource_version = Some(version.to_string());
    set.metadata.generation = Some(generation);
    set
}

fn pod_of(owner: &ReplicaSet) -> Pod {
    let mut pod = Pod::default();
    pod.metadata.name = Some("pod".into());
    pod.metadata.namespace = Some("n".into());
    pod.metadata.owner_references = Some(vec![crate::apply::build_controller_reference(owner)]);
    pod
}

#[tokio::test]
async fn an_object_is_reconciled_when_it_appears_and_when_its_spec_or_a_child_changes() {
    let mut running = Running::new(Vec::new());
    running.sees_set(set("a", 1, 1));
    assert_eq!(running.next().await, "a 1");
    running.sees_set(set("a", 2, 1));
    running.sees_set(set("a", 3, 2));
    assert_eq!(running.next().await, "a 3", "a change of status alone wakes nobody");
    let pod = pod_of(&set("a", 3, 2));
    running.pods.0.take(&mut running.pods.1, &Event::Apply(pod.clone()));
    assert_eq!(running.next().await, "a 3");
    running.pods.0.take(&mut running.pods.1, &Event::Delete(pod));
    assert_eq!(running.next().await, "a 3");
}

#[tokio::test]
async fn what_is_for_another_instance_is_left_alone() {
    let mut running = Running::new(Vec::new());
    running.sees_set(set("others-a", 1, 1));
    running.sees_set(set("b", 2, 1));
    assert_eq!(running.next().await, "b 2");
    running.pods.0.take(&mut running.pods.1, &Event::Apply(pod_of(&set("others-a", 1, 1))));
    running.sees_set(set("b", 3, 2));
    assert_eq!(running.next().await, "b 3");
}

#[tokio::test]
async fn what_failed_or_asked_for_it_is_tried_again() {
    let answers = vec![
        Err(Refused(Disposition::Failed)),
        Err(Refused(Disposition::Waiting(Some(Duration::from_millis(1))))),
        Ok(Next::After(Duration::from_millis(1))),
    ];
    let mut running = Running::new(answers);
    running.sees_set(set("a", 1, 1));
    for _ in 0..4 {
        assert_eq!(running.next().await, "a 1");
    }
    let text = running.runtime.metrics.text();
    assert!(text.contains(r#"reconciles_total{controller="test",outcome="Refused"} 2"#), "{text}");
}

#[tokio::test]
async fn an_object_older_than_our_write_of_it_is_not_reconciled() {
    let mut running = Running::new(Vec::new());
    running.runtime.expectations.record_write(&set("a", 5, 1));
    running.sees_set(set("a", 4, 1));
    running.sees_set(set("b", 4, 1));
    assert_eq!(running.next().await, "b 4");
    running.sees_set(set("a", 5, 1));
    assert_eq!(running.next().await, "a 5");
}

#[tokio::test]
async fn a_shutdown_ends_it() {
    let mut running = Running::new(Vec::new());
    running.sees_set(set("a", 1, 1));
    running.next().await;
    running.runtime.shutdown.cancel();
    tokio::time::timeout(SOON_ENOUGH, running.controller).await.expect("the end").unwrap();
}

#[test]
fn only_a_controller_of_the_right_kind_is_an_owner() {
    let owner = set("a", 1, 1);
    let mut pod = pod_of(&owner);
    assert_eq!(controller_of::<ReplicaSet, _>(&pod), Some(ObjectRef::new("a").within("n")));
    assert_eq!(controller_of::<Pod, _>(&pod), None);
    pod.metadata.owner_references.as_mut().unwrap()[0].controller = None;
    assert_eq!(controller_of::<ReplicaSet, _>(&pod), None);
}

/// Reconciles end at once, except in namespace `slow`, where they hang until `release`.
#[tokio::test]
async fn a_namespace_whose_reconciles_hang_delays_no_other() {
    let runtime = Runtime::detached(server(|_| (404, serde_json::Value::Null)).0);
    let (cache, mut writer) = Cache::<ReplicaSet>::new(Arc::clone(&runtime.expectations));
    let (starts, mut started) = mpsc::unbounded_channel();
    let release = tokio_util::sync::CancellationToken::new();
    let ctx = Arc::new((starts, release.clone()));
    let hang = |set: Arc<ReplicaSet>, ctx: Arc<(mpsc::UnboundedSender<String>, CancellationToken)>| async move {
        ctx.0.send(set.name_any()).unwrap();
        if set.namespace().as_deref() == Some("slow") {
            ctx.1.cancelled().await;
        }
        Ok::<_, Refused>(Next::OnChange)
    };
    let running = tokio::spawn(Controller::new("test", &runtime, &cache).concurrency(4).run(ctx, hang));
    cache.take(&mut writer, &Event::InitDone);
    let object = |namespace: &str, name: &str, version| {
        let mut object = set(name, version, 1);
        object.metadata.namespace = Some(namespace.to_owned());
        object
    };
    let mut next =
        async || tokio::time::timeout(SOON_ENOUGH, started.recv()).await.expect("a reconcile").unwrap();
    for index in 0..6 {
        cache.take(&mut writer, &Event::Apply(object("slow", &format!("slow-{index}"), index + 1)));
    }
    assert!(next().await.starts_with("slow-") && next().await.starts_with("slow-"));
    for index in 0..3 {
        cache.take(&mut writer, &Event::Apply(object("quick", &format!("quick-{index}"), index + 10)));
        assert_eq!(next().await, format!("quick-{index}"));
    }
    cache.take(&mut writer, &Event::Delete(object("slow", "slow-5", 20)));
    release.cancel();
    let mut rest = vec![next().await, next().await, next().await];
    rest.sort();
    rest.dedup();
    assert_eq!(rest.len(), 3, "those that waited are reconciled, without the one that is gone: {rest:?}");
    runtime.shutdown.cancel();
    running.await.unwrap();
}
