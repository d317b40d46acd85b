//! Folders, pools and content libraries belong to the namespace that created them. A tenant can't reach another's by
//! name, and can't make others wait.

use std::time::Duration;

use kube::api::DeleteParams;
use serde_json::{Value, json};
use sim::control::{FaultKind, FaultRule};

use crate::harness::objects::content_source_binding;
use crate::harness::plain_vm::PlainVm;
use crate::harness::story::{SOON, Story, assert_contains, condition, disruptive_story, merge, story};
use crate::harness::tenants::Tenants;

const GROUP: &str = "vmoperator.vmware.com/v1alpha1";
const POLICY: &str = "VirtualMachineSetResourcePolicy";
const REQUEST: &str = "VirtualMachinePublishRequest";
const LEDGER: &str = "vmoperator.vmware.com/cluster-modules";
const CLASS: &str = "best-effort-xsmall";

#[test]
fn a_policy_reaches_no_folder_pool_or_module_of_others() {
    story("payments", |story| async move {
        let tenants = Tenants::prepare(&story, CLASS).await;
        story.apply_object(&policy(&story, "16Gi")).await;
        let own = wait_for_policy(&story).await;
        tenants.mallory_applies(&policy(&tenants.hostile, "10Mi")).await.unwrap();
        let hers = wait_for_policy(&tenants.hostile).await;
        for place in ["folderMoID", "resourcePools"] {
            assert_ne!(own["status"][place], hers["status"][place], "one {place} for two tenants");
        }

        let record = own["metadata"]["annotations"][LEDGER].clone();
        assert!(record.is_string(), "{own}");
        let mut forged = policy(&tenants.hostile, "10Mi");
        forged["metadata"] = json!({
            "name": "forged", "namespace": tenants.hostile.namespace, "annotations": { LEDGER: record },
        });
        let refusal =
            tenants.mallory_applies(&forged).await.expect_err("a policy with the record of another");
        assert_contains(refusal, &[LEDGER, "not allowed for non-admin users"]);
        let policies = tenants.mallory_api(POLICY);
        for record in [record, json!(r#"{"modules":{},"before":[]}"#), Value::Null] {
            let patch = json!({ "metadata": { "annotations": { LEDGER: record } } });
            let patched = merge(&policies, "payments", patch).await;
            assert_contains(
                patched.expect_err("a record of mallory's"),
                &["not allowed for non-admin users"],
            );
        }

        policies.delete("payments", &DeleteParams::default()).await.unwrap();
        tenants.hostile.wait_until_gone(POLICY, "payments", SOON).await;
        let there = story.shared.control().inventory().await.unwrap();
        let ids: Vec<_> = there.folders.iter().chain(&there.pools).map(|node| &node.moid).collect();
        let kept = |id: &Value| ids.iter().any(|there| id == there.as_str());
        let pool = |policy: &Value| policy["status"]["resourcePools"][0]["childResourcePoolMoID"].clone();
        assert!(kept(&own["status"]["folderMoID"]) && kept(&pool(&own)), "{own}");
        assert!(!kept(&hers["status"]["folderMoID"]) && !kept(&pool(&hers)), "{hers}");
        let modules: Vec<_> = there.modules.iter().map(|module| module.id.as_str()).collect();
        let module = own["status"]["clustermodules"][0]["moduleUUID"].as_str().unwrap();
        assert!(modules.contains(&module), "{modules:?}");
        story.delete(POLICY, "payments", SOON).await;
    });
}

fn policy(story: &Story, memory: &str) -> Value {
    json!({
        "apiVersion": GROUP, "kind": POLICY,
        "metadata": { "name": "payments", "namespace": story.namespace },
        "spec": {
            "folder": { "name": "payments" },
            "resourcepool": { "name": "payments", "limits": { "memory": memory } },
            "clustermodules": [{ "groupname": "apart" }],
        },
    })
}

async fn wait_for_policy(story: &Story) -> Value {
    story.wait_for_field((POLICY, "payments"), ("/status/conditions/0/status", "True"), SOON).await
}

#[test]
fn nobody_publishes_to_the_library_of_the_node_images() {
    story("donations", |story| async move {
        let tenants = Tenants::prepare(&story, CLASS).await;
        let library = &story.shared.session.vcenter.library;
        for (number, location) in ["layercake", library.as_str(), "published"].into_iter().enumerate() {
            let name = format!("forged-{number}");
            tenants.mallory_applies(&request(&tenants.hostile, &name, location)).await.unwrap();
            let refused = tenants
                .hostile
                .wait_for("the request is refused", SOON, || async {
                    let request = tenants.hostile.get(REQUEST, &name).await?;
                    condition(&request, "TargetValid").cloned()
                })
                .await;
            assert_eq!(refused["reason"], "TargetContentLibraryNotExist", "{refused}");
            assert_contains(&refused["message"], &[location, &tenants.hostile.namespace]);
        }
    });
}

#[test]
fn slow_publications_of_one_tenant_keep_no_other_waiting() {
    disruptive_story("unhurried", |story| async move {
        let tenants = Tenants::prepare(&story, CLASS).await;
        for tenant in [&tenants.victim, &tenants.hostile] {
            tenant.apply_object(&content_source_binding(&tenant.namespace, "published")).await;
            let donor = donor(tenant);
            tenant.apply_object(&PlainVm::named(&donor).object(&tenant.namespace)).await;
            tenant.wait_until_powered_on(&donor).await;
        }
        let slow = FaultRule::once("POST /api/vcenter/ovf/library-item", FaultKind::Hold).times(0);
        let slow = story.shared.control().plant(&slow).await.unwrap();
        for number in 0..40 {
            let request = request(&tenants.hostile, &format!("copy-{number}"), "published");
            tenants.mallory_applies(&request).await.unwrap();
        }
        wait_for_upload(&tenants.hostile, "Uploading", 2).await;
        wait_for_upload(&tenants.hostile, "Queued", 38).await;
        let quickly = Duration::from_secs(20);
        story.apply_object(&PlainVm::named("urgent").object(&story.namespace)).await;
        let urgent = ("VirtualMachine", "urgent");
        story.wait_for_field(urgent, ("/status/powerState", "poweredOn"), quickly).await;
        story.patch("VirtualMachine", "urgent", json!({ "spec": { "powerState": "poweredOff" } })).await;
        story.wait_for_field(urgent, ("/status/powerState", "poweredOff"), quickly).await;
        story.apply_object(&request(&story, "copy", "published")).await;
        wait_for_upload(&story, "Uploading", 1).await;
        let requests = tenants.hostile.api(REQUEST);
        requests
            .delete_collection(&DeleteParams::default(), &kube::api::ListParams::default())
            .await
            .unwrap();
        story.shared.control().remove_faults(Some(&slow)).await.unwrap();
        story.delete("VirtualMachine", "urgent", SOON).await;
        for tenant in [&tenants.victim, &tenants.hostile] {
            tenant.delete("VirtualMachine", &donor(tenant), SOON).await;
        }
    });
}

/// Returns the name for the VM that a tenant publishes. The tenants share a vCenter folder, where names are unique.
fn donor(story: &Story) -> String {
    format!("donor-{}", story.namespace)
}

fn request(story: &Story, name: &str, location: &str) -> Value {
    json!({
        "apiVersion": GROUP, "kind": REQUEST, "metadata": { "name": name, "namespace": story.namespace },
        "spec": {
            "source": { "name": donor(story) },
            "target": { "item": { "name": format!("{}-{name}", story.namespace) }, "location": { "name": location } },
        },
    })
}

/// Waits until `count` requests of the tenant have this reason in their `Uploaded` condition.
async fn wait_for_upload(story: &Story, reason: &str, count: usize) {
    story
        .wait_for(&format!("{count} requests are {reason}"), SOON, || async {
            let of = |request: &Value| {
                condition(request, "Uploaded").is_some_and(|uploaded| uploaded["reason"] == reason)
            };
            (story.list(REQUEST).await.iter().filter(|request| of(request)).count() == count).then_some(())
        })
        .await;
}
