//! An administrator shares a library's images with some namespaces.

use kube::api::DeleteParams;
use serde_json::{Value, json};
use sim::library::PLAIN;

use crate::harness::objects::content_source_binding;
use crate::harness::plain_vm::PlainVm;
use crate::harness::story::{SOON, condition, story};

const GROUP: &str = "vmoperator.vmware.com/v1alpha1";

#[test]
fn a_namespace_uses_the_images_of_a_source_that_is_bound_there() {
    story("shared-images", |story| async move {
        story.prepare_namespace("best-effort-xsmall").await;
        let mut vm = PlainVm { image: PLAIN.to_owned(), ..PlainVm::named("shared-images-vm") }
            .object(&story.namespace);
        vm["spec"]["powerState"] = "poweredOff".into();
        story.apply_object(&vm).await;
        story
            .wait_for_complaint("VirtualMachine", "shared-images-vm", &["VirtualMachineImageNotFound", PLAIN])
            .await;

        let library = story.shared.session.vcenter.subscribed_library.clone();
        story
            .apply_object(&object("ContentLibraryProvider", "team-library", &json!({ "uuid": library })))
            .await;
        let provider =
            json!({ "apiVersion": GROUP, "kind": "ContentLibraryProvider", "name": "team-library" });
        story
            .apply_object(&object("ContentSource", "team-images", &json!({ "providerRef": provider })))
            .await;
        let words = ["ContentSourceBindingNotFound", "team-images", "shared-images"];
        story.wait_for_complaint("VirtualMachine", "shared-images-vm", &words).await;
        let image = story.cluster_api("VirtualMachineImage").get(PLAIN).await.unwrap();
        let image = serde_json::to_value(image).unwrap();
        assert_eq!(image["metadata"]["ownerReferences"][0]["name"], "team-library", "{image}");
        assert_eq!(image["spec"]["providerRef"]["name"], "team-library", "{image}");
        for (suffix, status) in
            [("Synced", "True"), ("OSTypeSupported", "True"), ("V1Alpha1Compatible", "False")]
        {
            let type_ = format!("VirtualMachineImage{suffix}");
            let found = condition(&image, &type_).unwrap();
            assert_eq!(found["status"], status, "{found}");
        }

        story.apply_object(&content_source_binding(&story.namespace, "team-images")).await;
        story.wait_until_made("shared-images-vm").await;
        story.delete("VirtualMachine", "shared-images-vm", SOON).await;

        // The source's objects are deleted with it.
        let sources = story.cluster_api("ContentSource");
        sources.delete("team-images", &DeleteParams::default()).await.unwrap();
        for (kind, name) in [("ContentLibraryProvider", "team-library"), ("VirtualMachineImage", PLAIN)] {
            story.wait_until_deleted(&story.cluster_api(kind), name).await;
        }
    });
}

fn object(kind: &str, name: &str, spec: &Value) -> Value {
    json!({ "apiVersion": GROUP, "kind": kind, "metadata": { "name": name }, "spec": spec })
}
