//! Each program runs on an API server of its own, with the objects that an installation applies for it. The API server
//! accepts these objects with strict validation.

use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::PostParams;
use plane::Running;
use serde_json::{Value, json};

use crate::harness::own_server::{OwnServer, assert_no_right_is_missing, definitions, installed_program};
use crate::harness::story::{SOON, Story, story};

const NAMESPACE: &str = "default";
/// The argument that makes a program create its webhook certificate, because the folder doesn't exist.
const NO_CERTIFICATE: &str = "--webhook-cert-dir=/var/run/no-webhook-certs";
/// The programs, with their arguments and the roles for reading their metrics. vmop is the first, because the doctor checks
/// it alone.
const PROGRAMS: [(&str, &[&str], &str); 3] = [
    ("vmop", &[NO_CERTIFICATE], "vmware-system-vmop-metrics-reader"),
    ("capw", &[], "vmware-system-capw-metrics-reader"),
    ("gcm", &[NO_CERTIFICATE], "vmware-system-tkg-metrics-reader"),
];

#[test]
fn each_program_runs_with_what_is_installed_for_it() {
    story("programs", |story| async move {
        let server = OwnServer::start(&story, upstream_definitions()).await;
        server.apply("the CRDs", &definitions());
        let external = components::config::external_definitions().expect("other providers' CRDs");
        server.apply("other providers' CRDs", &external);
        server.wait_until_served();
        let tokens = [token(&server, "stranger").await, token(&server, "collector").await];
        for (program, args, role) in PROGRAMS {
            let documents = apply_program(&server, program);
            let running = server.run(program, &documents, args).await;
            if program == "vmop" {
                assert_the_vm_operator_creates_its_certificate(&story, &server).await;
            }
            assert_metrics_need_a_role(&story, &server, &running, role, &tokens).await;
            assert_no_right_is_missing(&running);
            running.stop().await;
        }
        server.stop().await;
    });
}

/// A user reads metrics over HTTPS, if the user's token has the role. Others are refused.
async fn assert_metrics_need_a_role(
    story: &Story,
    server: &OwnServer,
    running: &Running,
    role: &str,
    [stranger, collector]: &[String; 2],
) {
    let (program, url) = (running.name(), running.metrics());
    assert_eq!(status(&url, None).await, 401, "{program}");
    assert_eq!(status(&url, Some("invented")).await, 401, "{program}");
    assert_eq!(status(&url, Some(stranger)).await, 403, "{program}");
    bind(server, role).await;
    await_metrics(story, &url, collector).await;
    assert_eq!(status(&url, Some(stranger)).await, 403, "{program}");
    let plain = url.replace("https://", "http://");
    assert!(client().get(plain).send().await.is_err(), "{program} answers in plain HTTP");
    let log = std::fs::read_to_string(running.log()).expect("its log");
    assert!(!log.contains(stranger) && !log.contains(collector), "{program} logs tokens");
}

/// A program caches its authorization decisions for some seconds, so wait until the role applies.
async fn await_metrics(story: &Story, url: &str, token: &str) {
    story
        .wait_until(&format!("metrics of {url}"), SOON, async || status(url, Some(token)).await == 200)
        .await;
    let text = client().get(url).bearer_auth(token).send().await.unwrap().text().await.unwrap();
    assert!(text.contains("# TYPE leader gauge"), "{text}");
}

async fn status(url: &str, token: Option<&str>) -> u16 {
    let request = client().get(url);
    let request = token.map_or(request.try_clone().unwrap(), |token| request.bearer_auth(token));
    request.send().await.unwrap_or_else(|error| panic!("{url}: {error:?}")).status().as_u16()
}

/// Returns a client that doesn't verify the certificate, like Prometheus for Cluster API's managers.
fn client() -> reqwest::Client {
    reqwest::Client::builder()
        .tls_danger_accept_invalid_certs(true)
        .timeout(Duration::from_secs(30))
        .build()
        .unwrap()
}

async fn token(server: &OwnServer, name: &str) -> String {
    let accounts: Api<ServiceAccount> = Api::namespaced(server.client(), NAMESPACE);
    let account = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    accounts.create(&PostParams::default(), &account).await.unwrap();
    let request = TokenRequest { spec: Some(TokenRequestSpec::default()), ..TokenRequest::default() };
    let answer = accounts.create_token_request(name, &PostParams::default(), &request).await.unwrap();
    answer.status.unwrap().token.unwrap()
}

async fn bind(server: &OwnServer, role: &str) {
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": role},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": "collector", "namespace": NAMESPACE}],
    });
    layercake::kube::apply::apply(&server.client(), &binding).await.unwrap();
}

/// Applies a program's objects, and checks its Deployment. Returns the objects.
fn apply_program(server: &OwnServer, program: &str) -> Vec<Value> {
    let documents = installed_program(program);
    server.apply(program, &documents);
    let deployments: Vec<_> = documents.iter().filter(|document| document["kind"] == "Deployment").collect();
    assert_eq!(deployments.len(), 1, "{program}");
    assert_hardened(program, deployments[0], &documents);
    server.try_create(&format!("a Pod of {program}"), &[pod(deployments[0])]);
    documents
}

/// Returns the Deployment's first Pod. The namespace's Pod security must admit it.
fn pod(deployment: &Value) -> Value {
    let template = &deployment["spec"]["template"];
    json!({
        "apiVersion": "v1", "kind": "Pod", "spec": template["spec"],
        "metadata": {
            "name": "first", "namespace": deployment["metadata"]["namespace"],
            "labels": template["metadata"]["labels"],
        },
    })
}

/// If no certificate is mounted, the VM operator creates one and injects it into its webhooks.
async fn assert_the_vm_operator_creates_its_certificate(story: &Story, server: &OwnServer) {
    let secrets: Api<Secret> = Api::namespaced(server.client(), "vmware-system-vmop");
    let secret = secrets.get("vmware-system-vmop-webhook-own-cert").await.expect("the certificate's Secret");
    let authority = &secret.data.expect("data")["ca.crt"];
    let configurations: Api<ValidatingWebhookConfiguration> = Api::all(server.client());
    story
        .wait_for("the API server trusts the webhooks", SOON, || async {
            let name = "vmware-system-vmop-validating-webhook";
            let webhooks = configurations.get(name).await.expect("webhooks").webhooks.unwrap_or_default();
            let trusted =
                webhooks.iter().all(|hook| hook.client_config.ca_bundle.as_ref() == Some(authority));
            (trusted && !webhooks.is_empty()).then_some(())
        })
        .await;
    let definitions: Api<CustomResourceDefinition> = Api::all(server.client());
    story
        .wait_for("the API server trusts the one that converts", SOON, || async {
            let definition = definitions.get("virtualmachines.vmoperator.vmware.com").await.expect("it");
            let webhook = definition.spec.conversion?.webhook?;
            (webhook.client_config?.ca_bundle.as_ref() == Some(authority)).then_some(())
        })
        .await;
    // A program is ready before it has its lease. The doctor skips the programs that aren't installed.
    let found = story
        .wait_for("the VM operator has its lease", SOON, || async {
            Some(server.doctor(&["--only", "LC01"])).filter(|found| found["LC0104"] == "ok")
        })
        .await;
    for code in ["LC0101", "LC0102", "LC0104", "LC0105", "LC0106"] {
        assert_eq!(found[code], "ok", "{found:#?}");
    }
    assert_eq!(found["LC0103"], "skipped", "{found:#?}");
}

/// Checks that a Deployment runs as non-root, is spread, has a disruption budget and a network policy, and that its
/// namespace enforces restricted Pod security.
fn assert_hardened(name: &str, deployment: &Value, documents: &[Value]) {
    let pod = &deployment["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let program = container["command"][0].as_str().expect("a command").trim_start_matches('/');
    // The image names that release/build-images uses.
    let image = format!("localhost/layercake/{program}:v{}", env!("CARGO_PKG_VERSION"));
    assert_eq!(container["image"], image, "{name}");
    assert_eq!(pod["securityContext"]["runAsUser"], 65532, "{name}");
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true, "{name}");
    assert_eq!(pod["priorityClassName"], "system-cluster-critical", "{name}");
    assert!(pod["topologySpreadConstraints"].is_array() && pod["tolerations"].is_array(), "{name}");
    let labels = &deployment["spec"]["template"]["metadata"]["labels"];
    for (kind, selector) in [
        ("PodDisruptionBudget", "/spec/selector/matchLabels"),
        ("NetworkPolicy", "/spec/podSelector/matchLabels"),
    ] {
        let selects = |document: &&Value| {
            let wanted = document.pointer(selector).and_then(Value::as_object);
            document["kind"] == kind
                && wanted.is_some_and(|wanted| wanted.iter().all(|(key, value)| labels[key] == *value))
        };
        assert!(documents.iter().any(|document| selects(&document)), "{name}: no {kind} selects the Pods");
    }
    let namespace = documents.iter().find(|document| document["kind"] == "Namespace").expect("a namespace");
    assert_eq!(namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"], "restricted", "{name}");
}

/// Returns Cluster API's CRDs without conversion webhooks. gcm and capw watch these kinds.
pub fn upstream_definitions() -> Vec<Value> {
    let names = plane::tools::managers().map(|manager| manager.name);
    let documents = names.flat_map(|name| components::config::upstream(name).expect("manifests"));
    let mut definitions: Vec<_> =
        documents.filter(|document| document["kind"] == "CustomResourceDefinition").collect();
    for definition in &mut definitions {
        definition["spec"]["conversion"] = json!({"strategy": "None"});
    }
    definitions
}
