//! A user creates other objects: a resource policy, a service, a publish request, a console request, and the defaults
//! for new clusters.

use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, PostParams};
use serde_json::{Value, json};

use crate::harness::objects::content_source_binding;
use crate::harness::own_server::{OwnServer, assert_no_right_is_missing, definitions, installed_program};
use crate::harness::plain_vm::PlainVm;
use crate::harness::story::{SOON, Story, api_resource, assert_contains, story};
use crate::install::programs::upstream_definitions;

const NAME: &str = "tkg-service-configuration";
const NAMES: [&str; 2] = ["beside-a", "beside-b"];

#[test]
fn machines_are_kept_apart_served_published_and_looked_at() {
    story("beside", |story| async move {
        story.prepare_namespace("best-effort-xsmall").await;
        story
            .apply_object(&object(
                &story,
                "VirtualMachineSetResourcePolicy",
                &json!({
                    "folder": {"name": "beside"}, "resourcepool": {"name": "beside"},
                    "clustermodules": [{"groupname": "apart"}],
                }),
            ))
            .await;
        for name in NAMES {
            let mut vm = PlainVm::named(name).object(&story.namespace);
            vm["spec"]["resourcePolicyName"] = "beside".into();
            vm["metadata"]["annotations"] = json!({"vsphere-cluster-module-group": "apart"});
            vm["metadata"]["labels"] = json!({"app": "beside"});
            story.apply_object(&vm).await;
        }
        assert_kept_apart(&story).await;
        assert_served(&story).await;
        assert_published(&story).await;
        assert_console_answered(&story).await;
        for name in NAMES {
            story.delete("VirtualMachine", name, SOON).await;
        }
        story.delete("VirtualMachineSetResourcePolicy", "beside", SOON).await;
    });
}

fn object(story: &Story, kind: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "vmoperator.vmware.com/v1alpha1", "kind": kind,
        "metadata": {"name": "beside", "namespace": story.namespace}, "spec": spec,
    })
}

/// Waits until `seen` returns a value for the object `beside`.
async fn wait_for_object(
    story: &Story,
    kind: &str,
    what: &str,
    seen: impl Fn(&Value) -> Option<Value>,
) -> Value {
    story.wait_for(what, SOON, || async { seen(&story.get(kind, "beside").await?) }).await
}

async fn assert_kept_apart(story: &Story) {
    let modules = wait_for_object(story, "VirtualMachineSetResourcePolicy", "the module is made", |policy| {
        policy["status"]["clustermodules"].as_array().filter(|all| all.len() == 1).map(|all| all[0].clone())
    })
    .await;
    assert_eq!(modules["groupname"], "apart");
    let mut hosts = std::collections::BTreeSet::new();
    for name in NAMES {
        let vm = story.wait_until_powered_on(name).await;
        hosts.insert(vm["status"]["host"].to_string());
    }
    assert_eq!(hosts.len(), NAMES.len(), "on different hosts: {hosts:?}");
}

async fn assert_served(story: &Story) {
    let port = json!({"name": "http", "protocol": "TCP", "port": 80, "targetPort": 8080});
    let spec = json!({"type": "ClusterIP", "ports": [port], "selector": {"app": "beside"}});
    story.apply_object(&object(story, "VirtualMachineService", &spec)).await;
    let address = wait_for_object(story, "Service", "the service has an address", |service| {
        service["spec"]["clusterIP"].as_str().map(Value::from)
    })
    .await;
    assert_ne!(address, "None");
}

async fn assert_published(story: &Story) {
    story.apply_object(&content_source_binding(&story.namespace, "published")).await;
    let spec = json!({"source": {"name": NAMES[0]}, "target": {"item": {"name": "beside-image"}, "location": {"name": "published"}}});
    story.apply_object(&object(story, "VirtualMachinePublishRequest", &spec)).await;
    let done = wait_for_object(story, "VirtualMachinePublishRequest", "the VM is published", |request| {
        (request["status"]["ready"] == true).then(|| request["status"].clone())
    })
    .await;
    assert_eq!(done["attempts"], 1);
    let image = done["imageName"].as_str().unwrap();
    let image = story.cluster_api("VirtualMachineImage").get(image).await.unwrap();
    assert_eq!(image.data["status"]["imageName"], "beside-image");
}

async fn assert_console_answered(story: &Story) {
    let spec = json!({"virtualMachineName": NAMES[0], "publicKey": support::console_keys::pem("wrapped")});
    story.apply_object(&object(story, "WebConsoleRequest", &spec)).await;
    let answered = wait_for_object(story, "WebConsoleRequest", "the request is answered", |request| {
        request["status"]["response"].as_str()?;
        Some(request.clone())
    })
    .await;
    // 256 bytes in base64.
    assert_eq!(answered["status"]["response"].as_str().unwrap().len(), 344);
    assert!(answered["status"]["expiryTime"].is_string());
    let label = &answered["metadata"]["labels"]["vmoperator.vmware.com/webconsolerequest-uuid"];
    assert_eq!(*label, answered["metadata"]["uid"]);
}

/// Its default matches what clusters from VMware's releases get anyway, so concurrent stories aren't affected.
#[test]
fn the_configuration_of_the_service_is_one_and_checked() {
    story("service-configuration", |story| async move {
        let api = story.cluster_api("TkgServiceConfiguration");
        let of = |version: &str, name: &str, spec: Value| {
            let object = json!({
                "apiVersion": format!("run.tanzu.vmware.com/{version}"), "kind": "TkgServiceConfiguration",
                "metadata": {"name": name}, "spec": spec,
            });
            serde_json::from_value::<DynamicObject>(object).unwrap()
        };
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        for (name, spec, word) in [
            ("mine", json!({}), "tkg-service-configuration"),
            (NAME, json!({"defaultCNI": "cilium"}), "spec.defaultCNI"),
            (NAME, json!({"proxy": {"httpProxy": "http://p"}}), "spec.proxy.httpsProxy"),
        ] {
            let refusal = api.create(&dry, &of("v1alpha3", name, spec)).await.expect_err(word);
            assert_contains(refusal, &[word]);
        }
        let spec = json!({"defaultCNI": "antrea"});
        let old = ApiResource {
            version: "v1alpha1".into(),
            api_version: "run.tanzu.vmware.com/v1alpha1".into(),
            ..api_resource("TkgServiceConfiguration")
        };
        let old = Api::<DynamicObject>::all_with(story.client(), &old);
        old.create(&PostParams::default(), &of("v1alpha1", NAME, spec)).await.unwrap();
        let stored = api.get(NAME).await.unwrap();
        assert_eq!(stored.data["spec"]["defaultCNI"], "antrea");
        api.delete(NAME, &DeleteParams::default()).await.unwrap();
    });
}

/// An administrator deploys gcm without the configuration kind. Clusters don't inherit settings, and gcm still
/// becomes ready.
#[test]
fn gcm_is_ready_where_the_kind_of_its_configuration_is_not_served() {
    story("no-configuration", |story| async move {
        let server = OwnServer::start(&story, upstream_definitions()).await;
        let is_its = |document: &Value| document["spec"]["names"]["kind"] == "TkgServiceConfiguration";
        let (its, others): (Vec<_>, Vec<_>) = definitions().into_iter().partition(is_its);
        assert_eq!(its.len(), 1);
        server.apply("the CRDs", &others);
        server.wait_until_served();
        let documents = installed_program("gcm");
        server.apply("gcm", &documents);
        let gcm = server.run("gcm", &documents, &[]).await;
        assert_no_right_is_missing(&gcm);
        gcm.stop().await;
        server.stop().await;
    });
}
