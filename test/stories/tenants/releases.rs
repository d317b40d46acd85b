//! Only administrators define releases: an image that a tenant publishes can't become, join or replace a release.

use kube::api::{DeleteParams, DynamicObject};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use sim::releases::SHARED_IMAGE;

use crate::harness::objects::content_source_binding;
use crate::harness::plain_vm::PlainVm;
use crate::harness::story::{SOON, Story, assert_contains, condition, merge, story};
use crate::harness::tenants::Tenants;

const GROUP: &str = "vmoperator.vmware.com/v1alpha1";
/// The ContentSource for the library that is shared with mallory.
const SOURCE: &str = "shared-images";
const RELEASE_LIBRARY: &str = "run.tanzu.vmware.com/release-library";
/// The release that mallory attacks. Other stories don't use it.
const RELEASE: &str = "v1.32.0---vmware.6-fips-vkr.2";
const NODE_IMAGE: &str = "ob-24613402-photon-5-amd64-v1.32.0---vmware.6-fips-vkr.2";
/// The names that mallory chooses sort before all others.
const FORGED: &str = "a-photon-5-amd64-v1.32.0---vmware.6-fips-vkr.2";
const OTHER: &str = "a-other-facts-v1.32.0";

#[test]
fn what_a_tenant_publishes_never_becomes_a_release() {
    story("releases", |story| async move {
        let tenants = Tenants::prepare(&story, "best-effort-xsmall").await;
        share_library(&tenants).await;
        wait_until_listed(&story, SHARED_IMAGE.item, false).await;
        designate(&story, true).await;
        wait_until_listed(&story, SHARED_IMAGE.item, true).await;

        publish_node_image(&tenants).await;
        // Changing the library's label twice proves that the publication before it was processed.
        designate(&story, false).await;
        wait_until_listed(&story, SHARED_IMAGE.item, false).await;
        designate(&story, true).await;
        wait_until_listed(&story, SHARED_IMAGE.item, true).await;
        let release = release(&story).await;
        assert!(!images_of(&release).contains(&FORGED.to_owned()), "{release}");
        let forged = story.cluster_api("OSImage").get_opt(FORGED).await.unwrap();
        assert!(forged.is_none(), "mallory's image is a node image: {forged:?}");

        assert_disagreement_is_a_conflict(&story).await;
        let sources = story.cluster_api("ContentSource");
        sources.delete(SOURCE, &DeleteParams::default()).await.unwrap();
        wait_until_listed(&story, SHARED_IMAGE.item, false).await;
    });
}

/// The administrator lets mallory's namespace use images in a local library, and publish to it.
async fn share_library(tenants: &Tenants) {
    let library = tenants.victim.shared.session.vcenter.shared_library.clone();
    let cluster_scoped = |kind: &str, name: &str, spec: Value| json!({ "apiVersion": GROUP, "kind": kind, "metadata": { "name": name }, "spec": spec });
    let provider = json!({ "apiVersion": GROUP, "kind": "ContentLibraryProvider", "name": SOURCE });
    let binding = content_source_binding(&tenants.hostile.namespace, SOURCE);
    let mut source = cluster_scoped("ContentSource", SOURCE, json!({ "providerRef": provider }));
    source["metadata"]["labels"] = json!({ api::names::label::WRITABLE: "true" });
    for object in
        [cluster_scoped("ContentLibraryProvider", SOURCE, json!({ "uuid": library })), source, binding]
    {
        tenants.victim.apply_object(&object).await;
    }
    wait_for_image(&tenants.victim, SHARED_IMAGE.item).await;
}

async fn wait_for_image(story: &Story, name: &str) -> DynamicObject {
    let images = story.cluster_api("VirtualMachineImage");
    story
        .wait_for(&format!("VirtualMachineImage {name} is there"), SOON, || async {
            let image = images.get_opt(name).await.unwrap()?;
            image.data["status"]["contentVersion"].as_str()?;
            Some(image)
        })
        .await
}

/// Adds or removes the label with which the administrator designates the shared library for releases.
async fn designate(story: &Story, designated: bool) {
    let label = designated.then_some("true");
    let patch = json!({ "metadata": { "labels": { RELEASE_LIBRARY: label } } });
    merge(&story.cluster_api("ContentSource"), SOURCE, patch).await.unwrap();
}

async fn release(story: &Story) -> Value {
    let release = story.cluster_api("TanzuKubernetesRelease").get(RELEASE).await.unwrap();
    serde_json::to_value(release).unwrap()
}

fn images_of(release: &Value) -> Vec<String> {
    let images = release["spec"]["osImages"].as_array().cloned().unwrap_or_default();
    images.iter().filter_map(|image| Some(image["name"].as_str()?.to_owned())).collect()
}

async fn wait_until_listed(story: &Story, image: &str, listed: bool) {
    let what = format!("{image} is {} the release", if listed { "in" } else { "not in" });
    let os_images = story.cluster_api("OSImage");
    story
        .wait_for(&what, SOON, || async {
            let there = os_images.get_opt(image).await.unwrap().is_some();
            let so = images_of(&release(story).await).contains(&image.to_owned()) == listed;
            (so && there == listed).then_some(())
        })
        .await;
}

/// Mallory creates a VM from a node image, and publishes it under a node image's name.
async fn publish_node_image(tenants: &Tenants) {
    let mut donor = PlainVm { image: NODE_IMAGE.to_owned(), ..PlainVm::named("donor") }
        .object(&tenants.hostile.namespace);
    donor["spec"]["powerState"] = "poweredOff".into();
    tenants.mallory_applies(&donor).await.unwrap();
    tenants
        .hostile
        .wait_for("mallory's VM is made", SOON, || async {
            let vm = tenants.mallory_api("VirtualMachine").get("donor").await.unwrap();
            vm.data["status"]["uniqueID"].as_str().map(str::to_owned)
        })
        .await;
    let request = json!({
        "apiVersion": GROUP, "kind": "VirtualMachinePublishRequest",
        "metadata": { "name": "forged", "namespace": tenants.hostile.namespace },
        "spec": {
            "source": { "name": "donor" },
            "target": { "item": { "name": FORGED }, "location": { "name": SOURCE, "apiVersion": GROUP, "kind": "ContentSource" } },
        },
    });
    tenants.mallory_applies(&request).await.unwrap();
    tenants
        .hostile
        .wait_for("mallory's VM is published", SOON, || async {
            let request = tenants.mallory_api("VirtualMachinePublishRequest").get("forged").await.unwrap();
            (request.data["status"]["ready"] == true).then_some(())
        })
        .await;
    let image = wait_for_image(&tenants.victim, FORGED).await;
    let carried = image.annotations().keys().any(|key| key.starts_with("vmware-system.tkr"));
    assert!(carried, "the export carries the release's properties on: {image:?}");
    tenants.hostile.delete("VirtualMachine", "donor", SOON).await;
}

/// An image that contradicts a release doesn't change it, and a condition names the image and the differences.
async fn assert_disagreement_is_a_conflict(story: &Story) {
    let facts = release(story).await["spec"]["kubernetes"].clone();
    let distribution = json!({
        "distribution": { "version": "v1.32.0+vmware.6-fips-vkr.2" },
        "kubernetes": { "version": "v1.32.0+vmware.6-fips", "imageRepository": "registry.mallory.example" },
    });
    let annotation = "vmware-system.guest.kubernetes.distribution.image.version";
    story
        .apply_object(&json!({
            "apiVersion": GROUP, "kind": "VirtualMachineImage",
            "metadata": { "name": OTHER, "annotations": { annotation: distribution.to_string() } },
            "spec": { "type": "OVF", "imageID": "by-hand", "providerRef": { "kind": "ByHand", "name": "by-hand" } },
        }))
        .await;
    let words = [OTHER, NODE_IMAGE, "bootstrapPackages", "kubernetes.coredns"];
    let valid = wait_for_valid(story, "False").await;
    assert_eq!(valid["reason"], "ConflictingOSImages", "{valid}");
    assert_contains(&valid["message"], &words);
    let changed = release(story).await;
    assert_eq!(changed["spec"]["kubernetes"], facts, "an image that came later changed the release");
    assert!(!images_of(&changed).contains(&OTHER.to_owned()), "{changed}");
    let refusal = story.try_apply(CLUSTER).await.expect_err("a cluster of a release in conflict");
    assert_contains(refusal, &["v1.32.0", "run.tanzu.vmware.com/conflicting-os-images"]);

    let images: Api<DynamicObject> = story.cluster_api("VirtualMachineImage");
    images.delete(OTHER, &DeleteParams::default()).await.unwrap();
    wait_for_valid(story, "True").await;
}

async fn wait_for_valid(story: &Story, status: &str) -> Value {
    story
        .wait_for(&format!("the release's Valid is {status}"), SOON, || async {
            condition(&release(story).await, "Valid").filter(|valid| valid["status"] == status).cloned()
        })
        .await
}

const CLUSTER: &str = r"
apiVersion: run.tanzu.vmware.com/v1alpha1
kind: TanzuKubernetesCluster
metadata: {name: refused, namespace: NAMESPACE}
spec:
  topology:
    controlPlane: {count: 1, class: best-effort-xsmall, storageClass: gold}
    workers: {count: 1, class: best-effort-xsmall, storageClass: gold}
  distribution: {version: v1.32}
";
