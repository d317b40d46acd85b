//! A user runs `layercake new cluster`. It writes a manifest that the namespace can create.

use std::process::Output;

use kube::api::DeleteParams;
use layercake::kube::manifest;
use layercake::site::manifests::storage_quota;
use serde_json::json;

use crate::harness::command::{layercake, texts};
use crate::harness::objects::{POLICY, role_binding, storage_class};
use crate::harness::story::{SOON, Story, assert_contains, story};
use crate::harness::tenants::kubeconfig_as;

const CLASS: &str = "planned";

#[test]
fn a_manifest_fits_its_namespace_or_the_cause_is_named() {
    story("new-cluster", |story| async move {
        story.prepare_namespace("best-effort-small").await;
        let refused = new_cluster(&story, &[]);
        assert_eq!(refused.status.code(), Some(3));
        assert_contains(&texts(&refused).1, &["cannot use any StorageClass", "ResourceQuota"]);
        story.apply_object(&storage_class(CLASS, &json!({ "storagePolicyID": POLICY }))).await;
        let quota = storage_quota("storage", &story.namespace, [CLASS]);
        story.apply_object(&quota).await;
        let written = new_cluster(&story, &[]);
        let (text, errors) = texts(&written);
        assert_eq!(written.status.code(), Some(0), "{errors}");
        assert_contains(
            &errors,
            &["best-effort-small: the only one", "planned: the only one", "Nothing was created"],
        );
        let manifest = &manifest::documents(&text).unwrap()[0];
        layercake::kube::apply::dry_run(&story.client(), manifest).await.unwrap();
        assert!(story.get("TanzuKubernetesCluster", "planned").await.is_none());

        let pool = &manifest["spec"]["topology"]["nodePools"][0]["replicas"];
        assert_eq!(*pool, 2);
        let cases: [(&[&str], i32, &[&str]); 4] = [
            (&["--release", "v1.99"], 3, &["the API server refuses", "v1.99"]),
            (
                &["--vm-class", "huge"],
                3,
                &["--vm-class huge: namespace new-cluster can use only best-effort-small"],
            ),
            (&["--storage-class", "lead"], 3, &["can use only planned"]),
            (&["--release", "a: b"], 2, &["\"a: b\" is not a name"]),
        ];
        for (args, status, words) in cases {
            let refused = new_cluster(&story, args);
            let (text, errors) = texts(&refused);
            assert_eq!((refused.status.code(), text.as_str()), (Some(status), ""), "{errors}");
            assert_contains(&errors, words);
        }
        assert_asks_a_viewer_for_the_release(&story).await;
        story.cluster_api("StorageClass").delete(CLASS, &DeleteParams::default()).await.unwrap();
    });
}

/// Releases are cluster-scoped, so a user with only view permissions in a namespace can't list them.
async fn assert_asks_a_viewer_for_the_release(story: &Story) {
    let subjects = json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "planner"}]);
    story.apply_object(&role_binding(&story.namespace, "planner", "view", &subjects)).await;
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = kubeconfig_as(&story.shared.session.kubeconfig, "planner", folder.path());
    let kubeconfig = ["--kubeconfig", kubeconfig.to_str().unwrap()];
    let applies = async || texts(&run(story, &kubeconfig, &[])).1.contains("tanzukubernetesrelease-view");
    story.wait_until("the role applies", SOON, applies).await;
    let written = run(story, &kubeconfig, &["--release", "v1.35"]);
    let (text, errors) = texts(&written);
    assert_eq!(written.status.code(), Some(0), "{errors}");
    assert_contains(&errors, &["not checked: User \"planner\" cannot "]);
    assert_contains(&text, &["name: v1.35"]);
}

fn new_cluster(story: &Story, args: &[&str]) -> Output {
    run(story, &["--kubeconfig", story.shared.session.kubeconfig.to_str().unwrap()], args)
}

fn run(story: &Story, kubeconfig: &[&str], args: &[&str]) -> Output {
    let new = ["new", "cluster", "planned", "-n", &story.namespace];
    layercake(&new).args(kubeconfig).args(args).output().unwrap()
}
