//! An administrator applies each folder of config/ with `kubectl apply -k`. An empty API server accepts it with
//! strict validation, and the embedded plane runs programs with the same manifests.

use components::manifest::Manifests;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use serde_json::{Value, json};

use crate::harness::own_server::{OwnServer, render, without_cert_manager};
use crate::harness::story::{SOON, story};

const DEFINITIONS: [&str; 2] = ["crd", "crd-external"];
const PROGRAMS: [&str; 3] = ["gcm", "capw", "vmop"];

#[test]
fn every_folder_of_config_is_accepted_by_the_api_server() {
    story("config-folders", |story| async move {
        let server = OwnServer::start(&story, Vec::new()).await;
        for folder in DEFINITIONS {
            server.apply(&format!("config/{folder}"), &render(folder));
        }
        server.wait_until_served();
        for folder in PROGRAMS.iter().chain(&["vmop-standalone"]) {
            let documents = without_cert_manager(&render(folder));
            server.apply(&format!("config/{folder}"), &documents);
            let deployments: Vec<_> =
                documents.iter().filter(|document| document["kind"] == "Deployment").collect();
            assert_eq!(deployments.len(), 1, "config/{folder}");
            assert_hardened(folder, deployments[0], &documents);
            server.try_create(&format!("a Pod of config/{folder}"), &[pod(deployments[0])]);
        }
        server.apply("config/nsx", &without_cert_manager(&render("nsx")));
        server.stop().await;
    });
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

#[test]
fn the_embedded_plane_runs_what_kubectl_would_apply() {
    story("config-rendered", |_| async {
        for program in PROGRAMS {
            let rendered = Manifests::sorted(program, render(program)).expect("manifests");
            let embedded = components::config::manifests(program).expect("manifests");
            assert_eq!(embedded.deployment, rendered.deployment, "{program}");
            for (embedded, rendered) in [
                (&embedded.namespaces, &rendered.namespaces),
                (&embedded.objects, &rendered.objects),
                (&embedded.webhooks, &rendered.webhooks),
            ] {
                assert_eq!(unlabelled(embedded), unlabelled(rendered), "{program}");
            }
        }
    });
}

/// Sorts the documents by name, and removes the label that capw's kustomization adds for clusterctl.
fn unlabelled(documents: &[Value]) -> Vec<Value> {
    let mut documents = documents.to_vec();
    for document in &mut documents {
        let Some(metadata) = document["metadata"].as_object_mut() else { continue };
        if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
            labels.remove("cluster.x-k8s.io/provider");
            if labels.is_empty() {
                metadata.remove("labels");
            }
        }
    }
    documents.sort_by_key(|document| {
        let metadata = &document["metadata"];
        format!("{} {} {}", document["kind"], metadata["namespace"], metadata["name"])
    });
    documents
}

/// If no certificate is mounted, the VM operator can create one and inject it into its webhooks.
#[test]
fn the_vm_operator_alone_makes_the_certificate_of_its_webhooks() {
    story("config-standalone", |story| async move {
        let server = OwnServer::start(&story, Vec::new()).await;
        server.apply("config/crd", &render("crd"));
        server.wait_until_served();
        let documents = render("vmop-standalone");
        server.apply("config/vmop-standalone", &documents);
        let vmop = server.run("vmop", &documents, &["--webhook-cert-dir=/var/run/no-webhook-certs"]).await;
        let secrets: Api<Secret> = Api::namespaced(server.client(), "vmware-system-vmop");
        let secret =
            secrets.get("vmware-system-vmop-webhook-own-cert").await.expect("the certificate's Secret");
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
        crate::harness::own_server::assert_no_right_is_missing(&vmop);
        server.stop().await;
    });
}

/// Checks that a Deployment runs as non-root, is spread, has a disruption budget and a network policy, and that its
/// namespace enforces restricted Pod security.
fn assert_hardened(folder: &str, deployment: &Value, documents: &[Value]) {
    let pod = &deployment["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let program = container["command"][0].as_str().expect("a command").trim_start_matches('/');
    // The image names that release/build-images uses.
    let image = format!("localhost/layercake/{program}:v{}", env!("CARGO_PKG_VERSION"));
    assert_eq!(container["image"], image, "config/images");
    assert_eq!(pod["securityContext"]["runAsUser"], 65532, "{folder}");
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true, "{folder}");
    assert_eq!(pod["priorityClassName"], "system-cluster-critical", "{folder}");
    assert!(pod["topologySpreadConstraints"].is_array() && pod["tolerations"].is_array(), "{folder}");
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
        assert!(documents.iter().any(|document| selects(&document)), "{folder}: no {kind} selects the Pods");
    }
    let namespace = documents.iter().find(|document| document["kind"] == "Namespace").expect("a namespace");
    assert_eq!(
        namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"], "restricted",
        "{folder}"
    );
}
