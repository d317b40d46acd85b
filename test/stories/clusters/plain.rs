//! Clusters without a TanzuKubernetesCluster, from the clusterctl templates. Templates are immutable, a cluster whose
//! class changes gets new ones, VM names can be chosen, and zones are failure domains.

use kube::api::{DeleteParams, Patch, PatchParams};
use layercake::args::SiteNetwork;
use layercake::kube::manifest;
use layercake::site::manifests::storage_quota;
use serde_json::{Value, json};
use sim::guest::Failure;

use crate::harness::command;
use crate::harness::objects::{POLICY, storage_class};
use crate::harness::shared_stack::network;
use crate::harness::story::{CLUSTER, SOON, Story, assert_contains, condition, story};

const REFUSAL: &str = "spec.template.spec may not be changed. Create another template";
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

#[test]
fn a_naming_template_is_refused_where_it_can_make_no_names() {
    story("naming", |story| async move {
        story.prepare_namespace("best-effort-xsmall").await;
        let naming = |text: &str| {
            let mut spec = machine("best-effort-small");
            spec["naming"] = json!({ "template": text });
            spec
        };
        let of_machine = |spec: &Value| {
            let mut object = template(&story, "WCPMachine", spec);
            object["spec"] = spec.clone();
            object
        };
        for (text, why) in [
            ("node", "template must contain {{ .machine.name }}"),
            ("{{ .machine }}", "template must contain {{ .machine.name }}"),
            ("VM-{{ .machine.name }}", "only lower case letters"),
            ("{{ .machine.name }} ", "only lower case letters"),
            ("{{ .machine.name }}-{{ trunc 3", "only lower case letters"),
            ("", "at least 1"),
        ] {
            let spec = naming(text);
            for object in [template(&story, "WCPMachineTemplate", &spec), of_machine(&spec)] {
                let refusal = story.try_apply(&object.to_string()).await.expect_err(text);
                assert_contains(&refusal, &["naming.template", why]);
            }
        }
        let taken = naming("{{ .machine.name | trunc 8 }}-vm-{{ trunc -5 .machine.name }}");
        story.apply_object(&template(&story, "WCPMachineTemplate", &taken)).await;
        story.apply_object(&of_machine(&taken)).await;
        for changed in [naming("{{ .machine.name }}"), machine("best-effort-small")] {
            let change = json!([{ "op": "replace", "path": "/spec", "value": changed }]);
            let patch: Patch<()> = Patch::Json(serde_json::from_value(change).unwrap());
            let refusal = story.api("WCPMachine").patch("template", &PatchParams::default(), &patch).await;
            let refusal = refusal.expect_err("a refusal").to_string();
            assert_contains(&refusal, &["naming may not be changed: replace the Machine"]);
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

/// The VM classes aren't assigned to the namespace, so VMs aren't created, but templates still change.
#[test]
fn a_cluster_whose_class_changes_gets_other_templates() {
    story("topology", |story| async move {
        story.prepare_namespace("best-effort-xsmall").await;
        apply_cluster(&story).await;
        let before = of_class(&story, "best-effort-small").await;
        set_variable(&story, 1, "className", "best-effort-medium".into()).await;
        let after = of_class(&story, "best-effort-medium").await;
        assert!(before.iter().all(|name| !after.contains(name)), "{before:?} {after:?}");
        let files = async || {
            let owner = story.list("KubeadmControlPlane").await.into_iter().next()?;
            Some(owner["spec"]["kubeadmConfigSpec"]["files"].as_array().map_or(0, Vec::len))
        };
        assert_eq!(files().await, Some(2), "keepalived, which holds the address");
        set_variable(&story, 3, "loadBalancer", true.into()).await;
        story
            .wait_for("nothing of the nodes' is left of the address", SOON, || async {
                let owner = story.list("KubeadmControlPlane").await.into_iter().next()?;
                let commands = owner["spec"]["kubeadmConfigSpec"]["preKubeadmCommands"].as_array()?.len();
                (files().await == Some(0) && commands == 1).then_some(())
            })
            .await;
        delete_cluster(&story).await;
    });
}

async fn set_variable(story: &Story, at: usize, name: &str, value: Value) {
    let variable = format!("/spec/topology/variables/{at}");
    let change = json!([
        { "op": "test", "path": format!("{variable}/name"), "value": name },
        { "op": "replace", "path": format!("{variable}/value"), "value": value },
    ]);
    let patch: Patch<()> = Patch::Json(serde_json::from_value(change).unwrap());
    story.api("Cluster").patch(CLUSTER_NAME, &PatchParams::default(), &patch).await.unwrap();
}

#[test]
fn the_zones_of_a_namespace_are_failure_domains_of_its_clusters() {
    story("failure-domains", |story| async move {
        story.prepare_namespace("best-effort-xsmall").await;
        for zone in ["zone-a", "zone-b"] {
            story.apply_object(&zone_object(&story, zone)).await;
        }
        apply_cluster(&story).await;
        let (machine, zone) = story
            .wait_for("a control plane Machine has a zone", SOON, || async {
                let machine = story.list("Machine").await.into_iter().find(|machine| {
                    machine["metadata"]["labels"].get("cluster.x-k8s.io/control-plane").is_some()
                })?;
                let zone = machine["spec"]["failureDomain"].as_str()?.to_owned();
                Some((machine["metadata"]["name"].as_str()?.to_owned(), zone))
            })
            .await;
        let cluster = story.get("Cluster", CLUSTER_NAME).await.expect("the Cluster");
        let domains = cluster["status"]["failureDomains"].as_array().expect("failure domains");
        let names: Vec<_> = domains.iter().map(|domain| &domain["name"]).collect();
        assert_eq!(names, ["zone-a", "zone-b"]);
        assert!(domains.iter().all(|domain| domain["controlPlane"] == true), "{domains:?}");
        let zone_label = "/metadata/labels/topology.kubernetes.io~1zone";
        story.wait_for_field(("VirtualMachine", &machine), (zone_label, &zone), SOON).await;
        delete_cluster(&story).await;
    });
}

pub fn zone_object(story: &Story, name: &str) -> Value {
    let placement = story.shared.session.placement();
    json!({
        "apiVersion": "topology.tanzu.vmware.com/v1alpha1", "kind": "Zone",
        "metadata": { "name": name, "namespace": story.namespace },
        "spec": {
            "availabilityZoneReference": { "apiVersion": "topology.tanzu.vmware.com/v1alpha1", "name": name },
            "managedVMs": { "folderMoID": placement.folder, "poolMoIDs": [placement.resource_pool] },
        },
    })
}

/// The manifest has the format for VKS, in `v1beta1`.
#[test]
fn the_commands_know_a_cluster_of_cluster_api() {
    story("plain-commands", |story| async move {
        story.prepare_namespace("best-effort-xsmall").await;
        let gold = storage_class("gold", &json!({ "storagePolicyID": POLICY }));
        let quota = storage_quota("storage", &story.namespace, ["gold"]);
        for object in [gold, quota].into_iter().chain(container_network(&story.namespace)) {
            story.apply_object(&object).await;
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("cluster.json");
        let file_name = file.to_str().unwrap();
        std::fs::write(&file, vks_cluster(&story.namespace).to_string()).unwrap();
        let run = |args: &[&str], status: i32, words: &[&str]| {
            let mut command = command::layercake(args);
            let output = command.env("KUBECONFIG", &story.shared.session.kubeconfig).output().unwrap();
            let (printed, errors) = command::texts(&output);
            assert_eq!(output.status.code(), Some(status), "{args:?}: {printed}{errors}");
            assert_contains(printed + &errors, words);
        };
        run(&["lint", file_name], 0, &["0 errors"]);
        let apply = ["apply", "-f", file_name];
        let missing = [
            "not Running after",
            "Blocked by Cluster plain-commands/topology",
            "ClusterClass plain-commands/wcp",
            "not found",
            "Next: kubectl get clusterclasses -n plain-commands",
            "not finished after 8s",
        ];
        run(&[&apply[..], &["--timeout", "8s"]].concat(), 4, &missing);
        for document in template_documents(&story, "clusterclass-wcp.yaml", ["1", "1"]) {
            story.apply_object(&document).await;
        }
        run(&apply, 0, &["applied Cluster plain-commands/topology", "Running after", "workers 1/1"]);
        let named = ["topology", "-n", &story.namespace];
        run(&["list", "-n", &story.namespace], 0, &["topology   plain-commands   cluster", "1/1"]);
        let scale = [&["scale"], &named[..], &["--replicas", "2"]].concat();
        let failure =
            Failure::preflight("ImagePull", "failed to pull image registry.example/pause:3.10: not found");
        story.shared.guests.provoke("topology-*", failure);
        run(&[&scale[..], &["--timeout", "1s"]].concat(), 4, &["from 1 to 2 nodes"]);
        let machine = story
            .wait_for("a WCPMachine whose first boot failed", CLUSTER, || first_boot_failed(&story))
            .await;
        let remedy = "Check their proxy and certificate authorities, or use";
        run(&[&["describe", "cluster"], &named[..]].concat(), 0, &["Blocked by WCPMachine", remedy]);
        let message = condition(&machine, "Ready").unwrap()["message"].as_str().unwrap();
        assert!(!message.contains("spec."), "fields of a TanzuKubernetesCluster: {message}");
        story.shared.guests.stop_provoking("topology-*");
        story.delete("Machine", machine["metadata"]["name"].as_str().unwrap(), CLUSTER).await;
        run(&scale, 0, &["workers 2/2"]);
        run(&[&["delete"], &named[..]].concat(), 0, &["the deletion has begun", "topology: deleted"]);
        assert!(story.vms().await.is_empty());
    });
}

async fn first_boot_failed(story: &Story) -> Option<Value> {
    let has_failed = |machine: &Value| {
        condition(machine, "Ready").is_some_and(|ready| ready["reason"] == "BootstrapFailed")
    };
    story.list("WCPMachine").await.into_iter().find(has_failed)
}

/// Returns objects that install a container network in the namespace's labeled clusters.
fn container_network(namespace: &str) -> [Value; 2] {
    let mount = json!({ "name": "cni", "mountPath": "/etc/cni/net.d" });
    let agent = json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": { "name": "agent", "namespace": "kube-system" },
        "spec": {
            "selector": { "matchLabels": { "app": "agent" } },
            "template": { "metadata": { "labels": { "app": "agent" } }, "spec": {
                "hostNetwork": true, "tolerations": [{ "operator": "Exists" }],
                "containers": [{ "name": "agent", "image": AGENT, "volumeMounts": [mount] }],
                "volumes": [{ "name": "cni", "hostPath": { "path": "/etc/cni/net.d" } }],
            } },
        },
    });
    let config = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "cni", "namespace": namespace },
        "data": { "agent.yaml": agent.to_string() },
    });
    let set = json!({
        "apiVersion": "addons.cluster.x-k8s.io/v1beta2", "kind": "ClusterResourceSet",
        "metadata": { "name": "cni", "namespace": namespace },
        "spec": {
            "clusterSelector": { "matchLabels": { "cni": "agent" } },
            "resources": [{ "kind": "ConfigMap", "name": "cni" }],
        },
    });
    [config, set]
}

/// An image that the node image contains.
const AGENT: &str = "localhost/layercake/keepalived:debian-13";

fn vks_cluster(namespace: &str) -> Value {
    let variable = |name: &str, value: Value| json!({ "name": name, "value": value });
    let balanced = network() == SiteNetwork::Nsx;
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster",
        "metadata": { "name": CLUSTER_NAME, "namespace": namespace, "labels": { "cni": "agent" } },
        "spec": {
            "clusterNetwork": {
                "services": { "cidrBlocks": ["10.96.0.0/12"] }, "pods": { "cidrBlocks": ["10.244.0.0/16"] },
            },
            "topology": {
                "class": "wcp", "version": "v1.35.4", "controlPlane": { "replicas": 1 },
                "workers": { "machineDeployments": [{ "class": "worker", "name": "np-1", "replicas": 1 }] },
                "variables": [
                    variable("imageName", IMAGE.into()), variable("className", "best-effort-xsmall".into()),
                    variable("storageClass", "gold".into()), variable("loadBalancer", balanced.into()),
                ],
            },
        },
    })
}

/// Applies the ClusterClass and a cluster that uses it.
async fn apply_cluster(story: &Story) {
    for file in ["clusterclass-wcp.yaml", "cluster-template-topology.yaml"] {
        for document in template_documents(story, file, ["1", "1"]) {
            story.apply_object(&document).await;
        }
    }
}

pub async fn delete_cluster(story: &Story) {
    story.api("Cluster").delete(CLUSTER_NAME, &DeleteParams::default()).await.unwrap();
    story.wait_until_gone("Cluster", CLUSTER_NAME, SOON).await;
}

const IMAGE: &str = "debian-13-amd64-v1.35.4---layercake.1";
/// The cluster name in all stories in this file.
pub const CLUSTER_NAME: &str = "topology";

/// Returns the documents in a clusterctl template, with these control plane and worker counts.
pub fn template_documents(story: &Story, file: &str, counts: [&str; 2]) -> Vec<Value> {
    let path = format!("{}/../config/clusterctl/templates/{file}", env!("CARGO_MANIFEST_DIR"));
    let mut text = components::upstream::with_defaults(&std::fs::read_to_string(path).unwrap());
    for (variable, value) in [
        ("CLUSTER_NAME", CLUSTER_NAME),
        ("KUBERNETES_VERSION", "v1.35.4"),
        ("CONTROL_PLANE_MACHINE_COUNT", counts[0]),
        ("WORKER_MACHINE_COUNT", counts[1]),
        ("VSPHERE_IMAGE_NAME", IMAGE),
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

/// Waits until both machine templates have this VM class, and returns their names.
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
