//! Creates an encrypted bundle from an API server with canaries in its objects, then decrypts, unpacks and searches it.

use std::collections::BTreeMap;
use std::io::Read as _;

use age::x25519::Identity;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;
use jiff::Timestamp;
use serde_json::{Value, json};
use support::api_server::{Request, refusal, server};

use crate::bundle::archive::{Archive, recipient};
use crate::bundle::{Options, collect};

const NAMESPACE: &str = "dev";

fn options() -> Options {
    Options { namespaces: Vec::new(), since: None, kubeconfig: None, doctor: None }
}

fn list(items: &[Value]) -> (u16, Value) {
    (200, json!({"kind": "List", "apiVersion": "v1", "metadata": {}, "items": items}))
}

/// Returns metadata with canaries.
fn metadata(name: &str) -> Value {
    json!({
        "name": name, "namespace": NAMESPACE, "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"anybody.test/x": "canary-label", "cluster.x-k8s.io/cluster-name": "c-1"},
        "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": "{\"data\":\"canary-last-applied\"}",
            "canary-key": "canary-annotation",
        },
        "managedFields": [{"manager": "canary-manager", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1"}],
    })
}

fn secrets() -> Vec<Value> {
    let secret = |name: &str, key: &str, value: &str| json!({"metadata": metadata(name), "type": "Opaque", "data": {key: STANDARD.encode(value)}});
    vec![
        secret("credentials", "password", "canary-password"),
        secret("c-1-kubeconfig", "value", "users:\n- user:\n    token: canary-kubeconfig-token\n"),
        secret("short", "pin", "qx7z"),
    ]
}

/// Responds like an API server with one object for each relevant kind.
fn reply(request: &Request) -> (u16, Value) {
    let path = request.path.split('?').next().unwrap_or_default();
    let object = |more: Value| {
        let mut object = json!({"metadata": metadata("x-1")});
        if let (Some(object), Some(more)) = (object.as_object_mut(), more.as_object()) {
            object.extend(more.clone());
        }
        list(&[object])
    };
    match path {
        "/version" => (
            200,
            json!({"major": "1", "minor": "36", "gitVersion": "v1.36.0", "gitCommit": "", "gitTreeState": "",
                "buildDate": "", "goVersion": "", "compiler": "", "platform": ""}),
        ),
        "/api/v1/secrets" => list(&secrets()),
        "/api/v1/namespaces/dev/configmaps/userdata" => (
            200,
            json!({"metadata": metadata("userdata"), "data": {"user-data": "#cloud-config\nruncmd: [canary-in-userdata-line]\n"}}),
        ),
        "/api/v1/namespaces/vmware-system-vmop/configmaps/vsphere.provider.config.vmoperator.vmware.com" => (
            200,
            json!({"metadata": metadata("provider"), "data": {"VcPNID": "vcenter.test", "canary-other-key": "canary-other"}}),
        ),
        "/apis/vmoperator.vmware.com/v1alpha1/virtualmachines" => object(json!({
            "spec": {"imageName": "image", "className": "canary-password", "vmMetadata": {"configMapName": "userdata"}},
            "status": {"conditions": [{"type": "Ready", "status": "False", "reason": "Failed",
                "message": "vCenter refused canary-password; session 52bca1b5-8a3f-9d3e-1b70-0a8a6cb3a7a9 ended"}]},
        })),
        "/apis/vmoperator.vmware.com/v1alpha1/webconsolerequests" => object(json!({
            "spec": {"virtualMachineName": "vm", "publicKey": "canary-public-key"},
            "status": {"response": "canary-response", "proxyAddr": "canary-proxy"},
        })),
        "/apis/bootstrap.cluster.x-k8s.io/v1beta2/kubeadmconfigs" => object(json!({
            "spec": {
                "files": [{"path": "/etc/file", "content": "canary-content"}],
                "preKubeadmCommands": ["canary-command"],
                "users": [{"name": "ann", "passwd": "canary-passwd"}],
                "joinConfiguration": {"discovery": {"bootstrapToken": {
                    "token": "canary.token", "apiServerEndpoint": "10.0.0.1:6443"}}},
            },
        })),
        "/api/v1/events" => object(json!({
            "type": "Warning", "reason": "Failed", "lastTimestamp": "2026-01-01T00:00:00Z", "source": {"component": "vmop"},
            "message": "the pin is qx7z and runcmd: [canary-in-userdata-line], https://a:canary-url@h/",
            "involvedObject": {"kind": "VirtualMachine", "name": "vm", "uid": "canary-uid"},
        })),
        "/api/v1/namespaces/vmware-system-vmop/pods" => object(json!({
            "spec": {"containers": [{"name": "manager", "image": "vmop:1", "env": [{"name": "X", "value": "canary-env"}]}]},
            "status": {"containerStatuses": [{"name": "manager", "ready": true, "restartCount": 1, "image": "", "imageID": ""}]},
        })),
        "/api/v1/namespaces/vmware-system-vmop/pods/x-1/log" => {
            (200, json!("showed canary-kubeconfig-token and canary-password\n"))
        }
        path if path.contains("/configmaps/") => refusal(404, "NotFound"),
        "/apis/storage.k8s.io/v1/storageclasses" => refusal(403, "Forbidden"),
        _ => list(&[]),
    }
}

async fn bundle(
    options: Options,
    reply: impl Fn(&Request) -> (u16, Value) + Send + Sync + 'static,
) -> (Vec<u8>, Identity) {
    let (client, requests) = server(reply);
    let identity = Identity::generate();
    let to = recipient(&identity.to_public().to_string()).unwrap();
    let mut archive = Archive::new(Vec::new(), &[to], 0).unwrap();
    let collected = collect(client, options, Timestamp::UNIX_EPOCH, &mut archive).await.unwrap();
    assert!(requests.lock().iter().all(|request| request.method == "GET"), "it only reads");
    (archive.finish(&collected.page).unwrap(), identity)
}

fn unpack(bundle: &[u8], identity: &Identity) -> BTreeMap<String, String> {
    let plain = age::decrypt(identity, bundle).unwrap();
    let mut files = BTreeMap::new();
    for entry in tar::Archive::new(GzDecoder::new(plain.as_slice())).entries().unwrap() {
        let mut entry = entry.unwrap();
        assert_eq!(entry.header().mode().unwrap(), 0o600);
        let path = entry.path().unwrap().display().to_string();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        let path = path.strip_prefix("layercake-bundle/").expect("one folder").to_owned();
        assert!(files.insert(path, text).is_none());
    }
    files
}

#[tokio::test]
async fn no_canary_is_in_a_bundle() {
    let (bundle, identity) = bundle(options(), reply).await;
    assert!(!bundle.windows(6).any(|window| window == b"canary"));
    let files = unpack(&bundle, &identity);
    for (path, text) in &files {
        for secret in ["canary", "qx7z", "52bca1b5", &STANDARD.encode("canary-password")] {
            assert!(!text.contains(secret) && !path.contains(secret), "{secret} is in {path}:\n{text}");
        }
    }
    let has = |path: &str, parts: &[&str]| {
        let text = files.get(path).unwrap_or_else(|| panic!("no {path}, but {:?}", files.keys()));
        for part in parts {
            assert!(text.contains(part), "{path} lacks {part}:\n{text}");
        }
    };
    has("namespaces/dev/secrets.txt", &["c-1-kubeconfig   Opaque", "password (15)"]);
    has(
        "namespaces/dev/virtualmachines.vmoperator.vmware.com/x-1.yaml",
        &["kind: VirtualMachine", "vCenter refused", "ended", "cluster-name: c-1", "configMapName: userdata"],
    );
    has("namespaces/dev/kubeadmconfigs.bootstrap.cluster.x-k8s.io/x-1.yaml", &["/etc/file", "10.0.0.1:6443"]);
    has("namespaces/dev/events.txt", &["VirtualMachine/vm", "the pin is [scrubbed: value of a Secret]"]);
    has("namespaces/dev/configmaps/provider.yaml", &["VcPNID: vcenter.test"]);
    has("namespaces/vmware-system-vmop/logs/x-1/manager.log", &["showed [scrubbed"]);
    has("namespaces/vmware-system-vmop/logs/x-1/manager.previous.log", &["showed [scrubbed"]);
    has(
        "contents.txt",
        &[
            "API server: Kubernetes v1.36.0",
            "storageclasses.storage.k8s.io: forbidden for this user",
            "KubeadmConfig   spec.files[].content",
            "VirtualMachine   metadata.annotations.*",
            "value of a Secret",
            "namespaces/dev/events.txt",
        ],
    );
}

#[tokio::test]
async fn two_bundles_of_the_same_are_the_same() {
    let (first, of_first) = bundle(options(), reply).await;
    let (second, of_second) = bundle(options(), reply).await;
    assert_eq!(unpack(&first, &of_first), unpack(&second, &of_second));
    assert_ne!(first, second, "each has a key of its own");
}

#[tokio::test]
async fn who_may_read_one_namespace_gets_that() {
    let of_reader = |request: &Request| {
        let path = request.path.split('?').next().unwrap_or_default();
        match path {
            "/version" => reply(request),
            path if path
                .starts_with("/apis/vmoperator.vmware.com/v1alpha1/namespaces/default/virtualmachines") =>
            {
                reply(&Request {
                    path: "/apis/vmoperator.vmware.com/v1alpha1/virtualmachines".into(),
                    ..request.clone()
                })
            }
            _ => refusal(403, "Forbidden"),
        }
    };
    let (bundle, identity) = bundle(options(), of_reader).await;
    let files = unpack(&bundle, &identity);
    assert!(files.contains_key("namespaces/dev/virtualmachines.vmoperator.vmware.com/x-1.yaml"));
    let contents = &files["contents.txt"];
    for line in [
        "namespaces other than default (add them with -n): forbidden for this user",
        "Secrets, whose values were not searched for, in namespaces capi-ipam-in-cluster-system,",
        "machines.cluster.x-k8s.io in namespace default: forbidden for this user",
        "pods in namespaces capi-ipam-in-cluster-system, capi-kubeadm-bootstrap-system, capi-kubeadm-control-plane-system, capi-system, cert-manager, vmware-system-capw, vmware-system-tkg, vmware-system-vmop: forbidden for this user",
    ] {
        assert!(contents.contains(line), "{line}: {contents}");
    }
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_an_error() {
    let (client, _) = server(|_| refusal(500, "Broken"));
    let mut archive = Archive::new(Vec::new(), &[], 0).unwrap();
    let error = collect(client, options(), Timestamp::UNIX_EPOCH, &mut archive).await.err().unwrap();
    assert!(format!("{error:#}").contains("check --kubeconfig"), "{error:#}");
}

#[tokio::test]
async fn a_namespace_that_does_not_exist_is_an_error() {
    let (client, _) = server(|request| match request.line().as_str() {
        "GET /api/v1/namespaces/missing" => refusal(404, "NotFound"),
        _ => reply(request),
    });
    let mut archive = Archive::new(Vec::new(), &[], 0).unwrap();
    let options = Options { namespaces: vec!["missing".to_owned()], ..options() };
    let error = collect(client, options, Timestamp::UNIX_EPOCH, &mut archive).await.err().unwrap();
    assert!(error.to_string().contains("namespace missing does not exist"), "{error}");
}

#[test]
fn an_identity_is_no_recipient_and_is_not_repeated() {
    use age::secrecy::ExposeSecret as _;
    let identity = Identity::generate().to_string();
    let error = recipient(identity.expose_secret()).unwrap_err().to_string();
    assert!(error.contains("identity") && !error.contains(&identity.expose_secret()[20..]), "{error}");
    assert!(recipient("age1nonsense").unwrap_err().to_string().contains("age1"));
}
