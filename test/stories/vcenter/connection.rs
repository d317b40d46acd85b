//! vCenter is unreachable or refuses the login. Each waiting VM reports it, and comes up after the administrator has
//! corrected the configuration.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use serde_json::json;

use crate::harness::plain_vm::PlainVm;
use crate::harness::story::{SOON, Story, disruptive_story, merge};
use crate::virtual_machines::operator_crash::restart_vmop;

const NAMESPACE: &str = "vmware-system-vmop";
const PROVIDER: &str = "vsphere.provider.config.vmoperator.vmware.com";

#[test]
fn wrong_credentials_are_reported_and_recovered_from() {
    disruptive_story("locked-out", |story| async move {
        story.prepare_namespace("best-effort-xsmall").await;
        let secrets: Api<Secret> = Api::namespaced(story.client(), NAMESPACE);
        let provider = provider_config(&story).await;
        let name = &provider["VcCredsSecretName"];
        let right = secrets.get(name).await.unwrap().data.unwrap()["password"].clone();
        set_password(&secrets, name, &ByteString(b"wrong".to_vec())).await;
        // A running VM operator keeps its session, and an event on the Secret reports the refusal. Only a restart
        // affects VMs.
        story.wait_for_events_in(NAMESPACE, "Secret", name, &["CredentialsRefused"]).await;
        restart_vmop(&story).await;
        story.shared.stack().await.program("vmop").unwrap().ready(SOON).await.unwrap();
        story.apply_object(&PlainVm::named("locked-out-vm").object(&story.namespace)).await;
        let complaint = story.wait_for_complaint("VirtualMachine", "locked-out-vm", &["ogin"]).await;
        assert!(!complaint.contains("wrong"), "the password is in: {complaint}");
        set_password(&secrets, name, &right).await;
        story.wait_until_powered_on("locked-out-vm").await;
        story.delete("VirtualMachine", "locked-out-vm", SOON).await;
    });
}

#[test]
fn an_unreachable_vcenter_is_reported_and_recovered_from() {
    disruptive_story("cut-off", |story| async move {
        story.prepare_namespace("best-effort-xsmall").await;
        let configs: Api<ConfigMap> = Api::namespaced(story.client(), NAMESPACE);
        let port = provider_config(&story).await["VcPort"].clone();
        let nobody = {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            listener.local_addr().unwrap().port().to_string()
        };
        set_port(&configs, &nobody).await;
        story.apply_object(&PlainVm::named("cut-off-vm").object(&story.namespace)).await;
        story.wait_for_complaint("VirtualMachine", "cut-off-vm", &[&nobody]).await;
        set_port(&configs, &port).await;
        story.wait_until_powered_on("cut-off-vm").await;
        story.delete("VirtualMachine", "cut-off-vm", SOON).await;
    });
}

async fn provider_config(story: &Story) -> BTreeMap<String, String> {
    let configs: Api<ConfigMap> = Api::namespaced(story.client(), NAMESPACE);
    configs.get(PROVIDER).await.unwrap().data.unwrap()
}

async fn set_password(secrets: &Api<Secret>, name: &str, value: &ByteString) {
    merge(secrets, name, json!({"data": {"password": value}})).await.unwrap();
}

async fn set_port(configs: &Api<ConfigMap>, port: &str) {
    merge(configs, PROVIDER, json!({"data": {"VcPort": port}})).await.unwrap();
}
