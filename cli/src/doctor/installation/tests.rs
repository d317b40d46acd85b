//! Tests with one injected cause per check.

use kit::diagnosis::CheckOutcome;
use serde_json::json;

use super::*;

fn crd(name: &str, version: &str) -> CustomResourceDefinition {
    let (plural, group) = name.split_once('.').unwrap();
    serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"kind": "Kind", "plural": plural},
            "versions": [{"name": version, "served": true, "storage": true}],
        },
    }))
    .unwrap()
}

#[test]
fn old_api_servers_are_refused() {
    assert_eq!(judge_version("1", "36+").outcome, CheckOutcome::Ok);
    assert_eq!(judge_version("1", "30").outcome, CheckOutcome::Error);
}

fn all() -> Vec<&'static Program> {
    PROGRAMS.iter().collect()
}

#[test]
fn missing_kinds_and_versions_are_named() {
    let ours = [
        crd("tanzukubernetesreleases.run.tanzu.vmware.com", "v1"),
        crd("virtualmachines.vmoperator.vmware.com", "v2"),
    ];
    let there = [crd("virtualmachines.vmoperator.vmware.com", "v1")];
    assert_eq!(judge_crds(&all(), &ours, &ours).outcome, CheckOutcome::Ok);
    let found = judge_crds(&all(), &ours, &there);
    assert_eq!(found.outcome, CheckOutcome::Error);
    let expected =
        "missing: tanzukubernetesreleases.run.tanzu.vmware.com, virtualmachines.vmoperator.vmware.com (v2)";
    assert_eq!(found.found, expected);
    let below_gcm = judge_crds(&all()[1..], &ours, &there);
    assert_eq!(below_gcm.found, "missing: virtualmachines.vmoperator.vmware.com (v2)");
}

#[test]
fn every_kind_belongs_to_a_program() {
    for crd in api::crds::all() {
        let group = crd.spec.group.as_str();
        assert!(PROGRAMS.iter().any(|program| program.groups.contains(&group)), "{group}");
    }
}

#[test]
fn cluster_api_must_have_the_contract() {
    let current = OF_CLUSTER_API.map(|name| crd(name, CONTRACT));
    assert_eq!(judge_cluster_api(&all(), &current).outcome, CheckOutcome::Ok);
    let old = OF_CLUSTER_API.map(|name| crd(name, "v1beta1"));
    assert_eq!(judge_cluster_api(&all(), &old).outcome, CheckOutcome::Error);
    assert_eq!(judge_cluster_api(&all()[1..], &old).outcome, CheckOutcome::Error);
    assert_eq!(judge_cluster_api(&all()[2..], &old).outcome, CheckOutcome::Skipped, "the VM operator alone");
}

/// Returns the time that the doctor reads from an API server with these response headers.
async fn time_of(headers: &'static [(&'static str, &'static str)]) -> Timestamp {
    let service = tower::service_fn(move |_: http::Request<kube::client::Body>| async move {
        let answer = headers
            .iter()
            .fold(http::Response::builder(), |answer, (name, value)| answer.header(*name, *value));
        Ok::<_, std::convert::Infallible>(answer.body(kube::client::Body::empty()).unwrap())
    });
    server_time(&Client::new(service, "default")).await
}

#[tokio::test]
async fn leases_are_compared_with_the_clock_of_the_api_server() {
    let behind = time_of(&[("date", "Thu, 26 Nov 2020 20:54:20 GMT")]).await;
    assert_eq!(behind, "2020-11-26T20:54:20Z".parse().unwrap());
    for unreadable in [&[][..], &[("date", "today")]] {
        let own = time_of(unreadable).await;
        assert!(Timestamp::now().duration_since(own).as_secs() < 60, "{own}");
    }
}

#[test]
fn a_lease_must_be_fresh() {
    let lease = |time: &str| -> Vec<Lease> {
        vec![serde_json::from_value(json!({"spec": {"renewTime": time}})).unwrap()]
    };
    let now: Timestamp = "2026-11-01T00:01:00Z".parse().unwrap();
    let judge = |leases: &[Lease]| judge_lease("vmop", "vmware-system-vmop", leases, now);
    assert_eq!(judge(&lease("2026-11-01T00:00:58.000000Z")).outcome, CheckOutcome::Ok);
    assert!(judge(&lease("2026-11-01T00:00:20.000000Z")).found.contains("no leader"));
    assert!(judge(&[]).found.contains("never run"));
}

#[tokio::test]
async fn a_program_that_never_ran_is_reported_with_what_its_pod_waits_for() {
    let pod = json!({
        "metadata": {"name": "gcm-1"},
        "status": {"containerStatuses": [{
            "name": "manager", "ready": false, "restartCount": 0, "image": "r/gcm:v1", "imageID": "",
            "state": {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}},
        }]},
    });
    let (client, _) = support::api_server::server(move |request| {
        let is_pods = request.path.contains("/pods");
        let items = if is_pods { vec![pod.clone()] } else { Vec::new() };
        (200, json!({"kind": "List", "apiVersion": "v1", "metadata": {}, "items": items}))
    });
    let found = leaders(&client, &all()[..1]).await.remove(0);
    assert!(found.found.contains("gcm has never run"), "{}", found.found);
    assert!(
        found.found.ends_with("Pod gcm-1, image r/gcm:v1: ImagePullBackOff: not found"),
        "{}",
        found.found
    );
    assert!(found.remedy.contains("--image-registry"), "{}", found.remedy);
}

#[test]
fn webhooks_need_a_bundle() {
    let hook = |bundle: serde_json::Value| {
        ("vmware-system-x".to_owned(), serde_json::from_value(json!({"caBundle": bundle})).unwrap())
    };
    assert_eq!(judge_webhooks(&[hook(json!("QQ=="))]).outcome, CheckOutcome::Ok);
    let found = judge_webhooks(&[hook(json!("QQ==")), hook(json!(null))]);
    assert_eq!(
        (found.outcome, found.found.as_str()),
        (CheckOutcome::Error, "no CA bundle in vmware-system-x")
    );
    assert_eq!(judge_webhooks(&[]).outcome, CheckOutcome::Error);
}
