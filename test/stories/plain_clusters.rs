//! Clusters without a TanzuKubernetesCluster, made of the templates that clusterctl is given: templates stay as they are,
//! and a cluster whose class changes gets others.

use kube::api::{DeleteParams, Patch, PatchParams};
use layercake::up::manifest;
use serde_json::{Value, json};

use crate::story::{SOON, Story, assert_contains, story};

const REFUSAL: &str = "spec.template.spec may not be changed: make another template";
const DRY_RUN: &str = "topology.cluster.x-k8s.io/dry-run";

#[test]
fn a_template_stays_as_it_is_and_only_the_topology_controller_may_try_a_change() {
    story("templates", |story| async move {
        story.prepare_namespace("best-effort-xsmall").await;
        for (kind, spec, changed) in [
            ("WCPMachineTemplate", machine("best-effort-small"), machine("best-effort-large")),
            ("WCPClusterTemplate", json!({}), json!({ "controlPlaneEndpoint": { "host": "a", "port": 1 } })),
        ] {
            story.apply_object(&template(&story, kind, &spec)).await;
            let api = story.api(kind);
            let try_change = async |dry_run: bool, annotated: bool| {
                let mut intent = template(&story, kind, &changed);
                if annotated {
                    intent["metadata"]["annotations"] = json!({ DRY_RUN: "" });
                }
                let params = PatchParams { dry_run, ..PatchParams::apply("capi-topology").force() };
                api.patch("template", &params, &Patch::Apply(&intent)).await
            };
            for (dry_run, annotated) in [(false, false), (false, true), (true, false)] {
                let refusal = try_change(dry_run, annotated).await.expect_err("a refusal").to_string();
                assert_contains(&refusal, &[REFUSAL]);
            }
            let tried = try_change(true, true).await.expect("what it would be");
            assert_eq!(tried.data["spec"]["template"]["spec"], changed);
            let kept = story.get(kind, "template").await.expect("the template");
            assert_eq!(kept["spec"]["template"]["spec"], spec, "{kind}");
        }
    });
}

fn machine(class: &str) -> Value {
    json!({ "imageName": "image", "className": class, "storageClass": "gold" })
}

fn template(story: &Story, kind: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "infrastructure.cluster.vmware.com/v1beta2", "kind": kind,
        "metadata": { "name": "template", "namespace": story.namespace },
        "spec": { "template": { "spec": spec } },
    })
}

/// The VM classes are bound to nobody: no VM is made, and what becomes of the templates shows all the same.
#[test]
fn a_cluster_whose_class_changes_gets_other_templates() {
    story("topology", |story| async move {
        story.prepare_namespace("best-effort-xsmall").await;
        apply_cluster(&story).await;
        let before = of_class(&story, "best-effort-small").await;
        let path = "/spec/topology/variables/1";
        let patch = json!([
            { "op": "test", "path": format!("{path}/name"), "value": "className" },
            { "op": "replace", "path": format!("{path}/value"), "value": "best-effort-medium" },
        ]);
        let patch: Patch<()> = Patch::Json(serde_json::from_value(patch).unwrap());
        story.api("Cluster").patch("topology", &PatchParams::default(), &patch).await.unwrap();
        let after = of_class(&story, "best-effort-medium").await;
        assert!(before.iter().all(|name| !after.contains(name)), "{before:?} {after:?}");
        delete_cluster(&story).await;
    });
}

/// A cluster of the ClusterClass, with the class beside it.
async fn apply_cluster(story: &Story) {
    for file in ["clusterclass-wcp.yaml", "cluster-template-topology.yaml"] {
        for document in documents(story, file) {
            story.apply_object(&document).await;
        }
    }
}

async fn delete_cluster(story: &Story) {
    story.api("Cluster").delete("topology", &DeleteParams::default()).await.unwrap();
    story
        .wait_for("the cluster is gone", SOON, || async {
            story.get("Cluster", "topology").await.is_none().then_some(())
        })
        .await;
}

/// The documents of a template that clusterctl is given, as it would process them.
fn documents(story: &Story, file: &str) -> Vec<Value> {
    let path = format!("{}/../config/clusterctl/templates/{file}", env!("CARGO_MANIFEST_DIR"));
    let mut text = plane::manifest::with_defaults(&std::fs::read_to_string(path).unwrap());
    for (variable, value) in [
        ("CLUSTER_NAME", "topology"),
        ("KUBERNETES_VERSION", "v1.33.1+vmware.1-fips"),
        ("CONTROL_PLANE_MACHINE_COUNT", "1"),
        ("WORKER_MACHINE_COUNT", "1"),
        ("VSPHERE_IMAGE_NAME", "ob-24892153-photon-5-amd64-v1.33.1---vmware.1-fips-vkr.2"),
        ("VSPHERE_STORAGE_CLASS", "gold"),
    ] {
        text = text.replace(&format!("${{{variable}}}"), value);
    }
    let mut documents = manifest::documents(&text).unwrap();
    for document in &mut documents {
        document["metadata"]["namespace"] = story.namespace.as_str().into();
    }
    documents
}

/// The names of the templates of the control plane's machines and the workers', once both are of this class.
async fn of_class(story: &Story, class: &str) -> Vec<String> {
    story
        .wait_for(&format!("machines are made from templates of {class}"), SOON, || async {
            let mut names = Vec::new();
            for (kind, path) in [
                ("KubeadmControlPlane", "/spec/machineTemplate/spec/infrastructureRef/name"),
                ("MachineDeployment", "/spec/template/spec/infrastructureRef/name"),
            ] {
                let owner = story.list(kind).await.into_iter().next()?;
                let name = owner.pointer(path)?.as_str()?.to_owned();
                let template = story.get("WCPMachineTemplate", &name).await?;
                (template["spec"]["template"]["spec"]["className"] == class).then_some(())?;
                names.push(name);
            }
            Some(names)
        })
        .await
}
