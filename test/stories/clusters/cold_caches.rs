//! Programs that have just restarted don't make decisions before their caches are filled.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{join, join_all};
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};

use crate::harness::objects::{cluster, nodes};
use crate::harness::plain_vm::PlainVm;
use crate::harness::story::{SOON, Story, disruptive_story};

const CONFIGURATION: &str = "tkg-service-configuration";
const PROXY: &str = "http://p.shop.example:3128";
const CLIENTS: usize = 6;
const KILLS: usize = 4;

/// A cluster that was accepted without the proxy setting would never get it. The requests are dry runs, which pass
/// the same webhooks.
#[test]
fn restarted_programs_decide_nothing_without_their_caches() {
    disruptive_story("cold-cache", |story| async move {
        story.prepare_namespace("best-effort-small").await;
        let configuration = json!({
            "apiVersion": "run.tanzu.vmware.com/v1alpha3", "kind": "TkgServiceConfiguration",
            "metadata": {"name": CONFIGURATION},
            "spec": {
                "defaultNodeDrainTimeout": "7m",
                "proxy": {"httpProxy": PROXY, "httpsProxy": PROXY, "noProxy": []},
            },
        });
        story.apply_object(&configuration).await;
        let steps = AssertUnwindSafe(kill_both(&story)).catch_unwind().await;
        let api = story.cluster_api("TkgServiceConfiguration");
        api.delete(CONFIGURATION, &DeleteParams::default()).await.unwrap();
        steps.unwrap();
    });
}

async fn kill_both(story: &Story) {
    let control_plane = nodes(1, "best-effort-small", "gold");
    let cluster = cluster(&story.namespace, "cold", "v1.34", &control_plane, &[]);
    let inherits = |cluster: &Value| {
        cluster.to_string().contains(PROXY)
            && cluster["spec"]["topology"]["controlPlane"]["nodeDrainTimeout"] == "7m"
    };
    let create = async |object: &Value, kind: &str| {
        let params = PostParams { dry_run: true, ..PostParams::default() };
        let object = serde_json::from_value(object.clone()).unwrap();
        let created = story.api(kind).create(&params, &object).await;
        created.map(|created| serde_json::to_value(created).unwrap())
    };
    story
        .wait_until("clusters inherit the proxy", SOON, async || {
            create(&cluster, "TanzuKubernetesCluster").await.is_ok_and(|cluster| inherits(&cluster))
        })
        .await;
    kill_under_load(story, "gcm", async || match create(&cluster, "TanzuKubernetesCluster").await {
        Ok(cluster) => {
            assert!(inherits(&cluster), "accepted without what it inherits: {cluster}");
            true
        }
        Err(error) => assert_retryable(&error),
    })
    .await;
    // This storage class isn't assigned to the namespace.
    let unassigned = PlainVm { storage_class: Some("unassigned".to_owned()), ..PlainVm::named("cold") };
    let unassigned = unassigned.object(&story.namespace);
    kill_under_load(story, "vmop", async || {
        let error = create(&unassigned, "VirtualMachine").await.expect_err("accepted with a wrong class");
        error.to_string().contains("Storage policy is not associated") || assert_retryable(&error)
    })
    .await;
}

/// Kills a program repeatedly while clients send requests. `request` returns true if the program responded with its
/// caches filled.
async fn kill_under_load(story: &Story, program: &str, request: impl AsyncFn() -> bool) {
    let stack = story.shared.stack().await;
    let program = stack.program(program).unwrap();
    for _ in 0..KILLS {
        let (revived, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
        let client = async || {
            loop {
                let was_revived = revived.load(Ordering::Relaxed);
                if request().await && was_revived {
                    answered.fetch_add(1, Ordering::Relaxed);
                    return;
                }
            }
        };
        let kill = async {
            program.kill().await;
            program.revive().await;
            revived.store(true, Ordering::Relaxed);
        };
        let clients = join_all((0..CLIENTS).map(|_| client()));
        let all = tokio::time::timeout(DEADLINE, join(kill, clients)).await;
        assert!(all.is_ok(), "{} of {CLIENTS} clients got an answer", answered.load(Ordering::Relaxed));
    }
}

const DEADLINE: Duration = Duration::from_mins(2);

/// Checks that the request wasn't decided: the program is down, or asks the client to retry. Returns false.
fn assert_retryable(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { panic!("{error}") };
    let is_put_off =
        status.code == 503 && status.details.as_ref().is_some_and(|details| details.retry_after_seconds > 0);
    let is_away = status.code == 500 && status.message.contains("failed calling webhook");
    assert!(is_put_off || is_away, "decided without what it decides with: {status:?}");
    false
}
