use super::*;
use crate::upstream::from_kustomize;

const UPSTREAM: &str = r#"
apiVersion: v1
kind: Namespace
metadata: {name: capi-system}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.x.io}
spec:
  conversion:
    strategy: Webhook
    webhook:
      clientConfig: {service: {name: hook, namespace: capi-system, path: /convert}}
      conversionReviewVersions: [v1]
  versions:
  - name: v1
    schema:
      openAPIV3Schema:
        description: prose
        type: object
        properties:
          description: {type: string, description: prose}
          list:
            type: array
            items: {description: prose, anyOf: [{description: prose, type: integer}]}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: manager, namespace: capi-system}
---
apiVersion: v1
kind: Service
metadata: {name: hook, namespace: capi-system}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: serving, namespace: capi-system}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: hooks}
webhooks:
- name: default.things.x.io
  clientConfig: {service: {name: hook, namespace: capi-system, path: /mutate}}
- name: elsewhere.x.io
  clientConfig: {url: "https://elsewhere/"}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: controller-manager, namespace: capi-system}
spec:
  template:
    spec:
      serviceAccountName: manager
      containers:
      - name: sidecar
      - name: manager
        args: ["--leader-elect", "--address=${ADDRESS:=:8443}", "--plain=${PLAIN}"]
        env:
        - {name: MODE, value: quiet}
        - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
        ports: [{name: webhook-server, containerPort: 9443}]
"#;

#[test]
fn upstream_manifests_become_what_the_plane_applies() {
    let manifests = Manifests::sorted("capi", from_kustomize("capi", UPSTREAM).unwrap()).unwrap();
    let endpoint = WebhookEndpoint { port: 4711, ca_bundle: "Q0E=".to_owned(), conversion_key: None };
    assert_eq!(converting_namespace(&manifests.definitions[0]), Some("capi-system"));
    insta::assert_yaml_snapshot!((
        &manifests.namespaces,
        endpoint.reached(&manifests.definitions),
        &manifests.objects,
        endpoint.reached(&manifests.webhooks)
    ));
    insta::assert_debug_snapshot!(manifests.deployment.unwrap());
}

#[test]
fn reaching_adds_nothing_to_what_calls_no_service() {
    let endpoint = WebhookEndpoint { port: 1, ca_bundle: String::new(), conversion_key: None };
    for document in parse("", UPSTREAM).unwrap().iter_mut().filter(|document| document["kind"] == "Namespace")
    {
        let before = document.clone();
        endpoint.reach(document);
        assert_eq!(*document, before);
    }
}

#[test]
fn only_conversions_are_asked_for_with_the_key() {
    let key = Some("k".to_owned());
    let endpoint = WebhookEndpoint { port: 1, ca_bundle: String::new(), conversion_key: key };
    let service = json!({ "service": { "path": "/convert" } });
    let mut definition = json!({ "spec": { "conversion": { "webhook": { "clientConfig": service } } } });
    let mut webhooks = json!({ "webhooks": [{ "clientConfig": service }] });
    endpoint.reach(&mut definition);
    endpoint.reach(&mut webhooks);
    let url = definition.pointer("/spec/conversion/webhook/clientConfig/url");
    assert_eq!(url, Some(&json!("https://127.0.0.1:1/convert/k")));
    assert_eq!(webhooks.pointer("/webhooks/0/clientConfig/url"), Some(&json!("https://127.0.0.1:1/convert")));
}

#[test]
fn a_bad_manifest_is_named() {
    let error = parse("config/x.yaml", "a: [").unwrap_err().to_string();
    assert!(error.starts_with("manifest config/x.yaml: "), "{error}");
    assert!(Manifests::sorted("config/x", [json!({"metadata": {}})]).is_err());
    assert!(parse("empty", "---\n# nothing\n---\n").unwrap().is_empty());
}

#[test]
fn what_config_declares_can_be_read() {
    assert!(!crate::config::definitions().unwrap().is_empty());
    assert!(!crate::config::external_definitions().unwrap().is_empty());
    for program in ["gcm", "capw", "vmop"] {
        let deployment = crate::config::manifests(program).unwrap().deployment.expect(program);
        assert!(!deployment.namespace.is_empty() && deployment.service_account != "default", "{program}");
    }
}
