//! An administrator upgrades an installation. The last release's objects stay valid with the new CRDs and programs.

use std::collections::BTreeSet;
use std::path::Path;

use gcm::release::version::Version;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use layercake::kube::manifest;
use serde_json::{Value, json};

use crate::harness::own_server::{OwnServer, assert_no_right_is_missing, definitions, installed_program};
use crate::harness::plain_vm::PlainVm;
use crate::harness::second_cluster::SecondCluster;
use crate::harness::story::{SOON, api_resource, story};

const CLASS: &str = "best-effort-xsmall";
const NAMESPACE: &str = "left";

#[test]
fn an_upgrade_keeps_objects_and_replaces_the_configuration() {
    story("upgrade", |story| async move {
        story.prepare_namespace(CLASS).await;
        let mut old_definitions = read_release("crds.jsonl");
        old_definitions.extend(sim::tools::definitions().unwrap());
        let server = OwnServer::start(&story, old_definitions).await;
        let cluster = SecondCluster::adopt(&story, server, &[("StackID", Some("upgraded"))]).await;
        let old = create_old_objects(&cluster.client()).await;
        cluster.apply(&PlainVm::named("waiting").object(&story.namespace)).await;

        cluster.upgrade();
        assert_stored_versions_are_served(&cluster.client()).await;
        for before in &old {
            assert_lives_on(&cluster.client(), before).await;
        }

        let vmop = cluster.run_operator().await;
        let vms = cluster.api("VirtualMachine", &story.namespace);
        story
            .wait_for("waiting is powered on", SOON, || async {
                let vm = vms.get("waiting").await.expect("the VirtualMachine");
                (vm.data["status"]["powerState"] == "poweredOn").then_some(())
            })
            .await;
        assert!(story.vms_named(NAMESPACE).await.is_empty(), "a VM that was there once is not made again");
        assert_no_right_is_missing(&vmop);
        vms.delete("waiting", &DeleteParams::default()).await.unwrap();
        story.wait_until("its VM is gone", SOON, async || story.vms_named("waiting").await.is_empty()).await;

        let applied = apply_over_old_configuration(&cluster.server);
        assert_programs_are_replaced(&cluster.server, &applied).await;
        cluster.stop().await;
    });
}

/// Applies the programs' manifests over the last release's configuration, as an administrator does. Checks that old permissions and
/// webhooks are replaced, and that objects aren't left over.
fn apply_over_old_configuration(server: &OwnServer) -> Vec<Value> {
    let old = read_release("config.jsonl");
    server.apply("the last release's config/", &old);
    let mut new = definitions();
    for program in layercake::local::cluster::PROGRAMS {
        let documents = installed_program(program);
        server.apply(program, &documents);
        new.extend(documents);
    }
    let name = |document: &Value| {
        let metadata = &document["metadata"];
        format!("{} {}/{}", document["kind"], metadata["namespace"], metadata["name"])
    };
    let kept: BTreeSet<_> = new.iter().map(name).collect();
    let left: Vec<_> = old.iter().map(name).filter(|old| !kept.contains(old)).collect();
    assert!(left.is_empty(), "the upgrade leaves objects that the new release does not have: {left:?}");
    new
}

/// Checks that the Deployments in `applied` have the new containers, with all their arguments and ports.
async fn assert_programs_are_replaced(server: &OwnServer, applied: &[Value]) {
    for wanted in applied.iter().filter(|document| document["kind"] == "Deployment") {
        let namespace = wanted["metadata"]["namespace"].as_str().unwrap();
        let deployments: Api<Deployment> = Api::namespaced(server.client(), namespace);
        let there = deployments.get(wanted["metadata"]["name"].as_str().unwrap()).await.unwrap();
        let containers = serde_json::to_value(there.spec.unwrap().template.spec.unwrap().containers).unwrap();
        let wanted = &wanted["spec"]["template"]["spec"]["containers"];
        assert_eq!(containers[0]["args"], wanted[0]["args"]);
        assert_eq!(containers.as_array().unwrap().len(), 1);
        assert_eq!(
            containers[0]["ports"].as_array().unwrap().len(),
            wanted[0]["ports"].as_array().unwrap().len()
        );
    }
}

/// Reads a file of the last release.
fn read(name: &str) -> String {
    let releases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../test/releases");
    let entries = std::fs::read_dir(&releases).expect("releases");
    let names = entries.map(|entry| entry.expect("a release").file_name().into_string().expect("a name"));
    let last = names.filter_map(|name| Some((Version::parse(&name).ok()?, name))).max().expect("a release").1;
    let path = releases.join(last).join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Reads the objects in a file from the last release.
pub fn read_release(name: &str) -> Vec<Value> {
    read(name).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// Creates the last release's objects, and returns them as they are stored.
async fn create_old_objects(client: &Client) -> Vec<DynamicObject> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    layercake::kube::apply::apply(client, &namespace).await.unwrap();
    let strictly = PatchParams::apply("release").validation_strict();
    let mut stored = Vec::new();
    for mut object in manifest::documents(&read("objects.yaml")).unwrap() {
        let status = object.as_object_mut().unwrap().remove("status");
        let what = format!("{}", object["kind"]);
        let (api, name) = (api_of(client, &object), object["metadata"]["name"].as_str().unwrap().to_owned());
        api.patch(&name, &strictly, &Patch::Apply(&object))
            .await
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        if let Some(status) = status {
            let written =
                json!({"apiVersion": object["apiVersion"], "kind": object["kind"], "status": status});
            let written = api.patch_status(&name, &strictly, &Patch::Apply(&written)).await;
            let written = written.unwrap_or_else(|error| panic!("status of {what}: {error}"));
            assert_eq!(written.data["status"], status, "{what}");
        }
        stored.push(api.get(&name).await.unwrap());
    }
    let kinds = read("crds.jsonl").lines().count();
    assert_eq!(stored.len(), kinds, "there is an object of each kind");
    stored
}

fn api_of(client: &Client, object: &Value) -> Api<DynamicObject> {
    let resource = api_resource(object["kind"].as_str().expect("a kind"));
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

/// Checks that each CRD still serves the versions in which objects may be stored.
async fn assert_stored_versions_are_served(client: &Client) {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in definitions.list(&ListParams::default()).await.unwrap() {
        let name = definition.name_any();
        let served: Vec<_> = definition.spec.versions.iter().filter(|version| version.served).collect();
        for stored in definition.status.and_then(|status| status.stored_versions).unwrap_or_default() {
            assert!(served.iter().any(|version| version.name == stored), "{name}: {stored}");
        }
    }
}

/// Checks that the object is unchanged, and that it and its status can be written again.
async fn assert_lives_on(client: &Client, before: &DynamicObject) {
    let value = serde_json::to_value(before).unwrap();
    let (api, name) = (api_of(client, &value), before.name_any());
    let what = format!("{} {name}", value["kind"]);
    let mut now = api.get(&name).await.unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(now.data, before.data, "{what}");
    now.annotations_mut().insert("upgraded".to_owned(), "true".to_owned());
    let written = api.replace(&name, &PostParams::default(), &now).await;
    let written = written.unwrap_or_else(|error| panic!("{what} is refused: {error}"));
    assert_eq!(written.data, before.data, "{what}");
    assert_eq!(written.metadata.generation, before.metadata.generation, "{what}");
    if !before.data["status"].is_null() {
        let written = api.replace_status(&name, &PostParams::default(), &written).await;
        let written = written.unwrap_or_else(|error| panic!("status of {what} is refused: {error}"));
        assert_eq!(written.data, before.data, "{what}");
    }
}
