//! A user with a Cluster API management cluster installs and removes a release with clusterctl.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams};
use layercake::kube::manifest;
use serde_json::{Value, json};

use crate::harness::own_server::OwnServer;
use crate::harness::story::{assert_contains, story};

const CAPW: (&str, &str) = ("vmware-system-capw", "vmware-system-capw-controller-manager");
const VMOP: (&str, &str) = ("vmware-system-vmop", "vmware-system-vmop-controller-manager");

#[test]
fn a_release_is_installed_and_removed_with_clusterctl() {
    story("clusterctl", |story| async move {
        let folder = tempfile::tempdir().expect("a folder");
        let clusterctl = Clusterctl::prepare(folder.path());
        let kinds = ["certificates", "issuers"].map(of_cert_manager).to_vec();
        let server = OwnServer::start(&story, kinds).await;
        let init = ["init", "--infrastructure=wcp", "--runtime-extension=vm-operator", "--ipam=in-cluster"];
        clusterctl.run(&server, &init);

        let version = concat!("v", env!("CARGO_PKG_VERSION"));
        for (provider, namespace) in
            [("infrastructure-wcp", CAPW.0), ("runtime-extension-vm-operator", VMOP.0)]
        {
            assert!(installed(&server, namespace).await.contains(&(provider.into(), version.into())));
        }
        let ipam = ("ipam-in-cluster".to_owned(), format!("v{}", plane::tools::IPAM));
        assert!(installed(&server, "capi-ipam-in-cluster-system").await.contains(&ipam));
        let args = args(&server, CAPW).await.expect("capw");
        assert!(args.contains(&"--network-provider=NSXT".to_owned()), "{args:?}");
        assert!(args.contains(&"--endpoint-pool=GlobalInClusterIPPool/control-planes".to_owned()));
        assert!(args_are_there(&server, VMOP).await);

        // gcm isn't installed, and Pods haven't run yet.
        let found = server.doctor(&["--only", "LC01"]);
        for (code, outcome) in [("LC0101", "ok"), ("LC0102", "ok"), ("LC0104", "error")] {
            assert_eq!(found[code], outcome, "{found:#?}");
        }

        let cluster = clusterctl.run(&server, &generate(&[]));
        assert_contains(&cluster, &["kind: KubeadmControlPlane", "imageName: node-image", "replicas: 3"]);
        let of_class = clusterctl.run(&server, &generate(&["--flavor=topology"]));
        assert_contains(&of_class, &["kind: ClusterClass", "kind: WCPClusterTemplate", "value: node-image"]);
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "dev" } });
        server.apply("the clusters' namespace", &[namespace]);
        let behind_nsx = clusterctl.run(&server, &generate(&["--flavor=nsx"]));
        for (flavor, holds_address) in [(&cluster, true), (&of_class, true), (&behind_nsx, false)] {
            assert_eq!(flavor.contains("keepalived") || flavor.contains("/etc/virtual-ip"), holds_address);
            server.try_create("a cluster", &own_kinds(flavor));
        }
        assert_contains(&behind_nsx, &["kind: KubeadmControlPlane", "imageName: node-image", "replicas: 3"]);

        let delete = ["delete", "--infrastructure=wcp", "--runtime-extension=vm-operator"];
        clusterctl.run(&server, &delete);
        assert!(!args_are_there(&server, CAPW).await && !args_are_there(&server, VMOP).await);
        server.stop().await;
    });
}

/// Returns the documents with the release's own kinds, because Cluster API's kinds aren't served here.
fn own_kinds(text: &str) -> Vec<Value> {
    let documents = manifest::documents(text).expect("YAML");
    let ours = |document: &Value| {
        document["apiVersion"].as_str().is_some_and(|version| version.starts_with("infrastructure."))
    };
    documents.into_iter().filter(ours).collect()
}

fn generate<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let counts = ["--control-plane-machine-count=3", "--worker-machine-count=2"];
    let first =
        ["generate", "cluster", "test-cluster", "--kubernetes-version=v1.36.0", "--target-namespace=dev"];
    [&first[..], &counts[..], more].concat()
}

/// An upstream provider: its manager in the stack, and its clusterctl names.
struct Upstream {
    manager: &'static str,
    label: &'static str,
    name: &'static str,
    type_: &'static str,
    components: &'static str,
    version: &'static str,
    contract: &'static str,
}

const UPSTREAM: [Upstream; 4] = [
    Upstream {
        manager: "capi-core",
        label: "cluster-api",
        name: "cluster-api",
        type_: "CoreProvider",
        components: "core-components.yaml",
        version: plane::tools::CLUSTER_API,
        contract: "v1beta2",
    },
    Upstream {
        manager: "capi-kubeadm-bootstrap",
        label: "bootstrap-kubeadm",
        name: "kubeadm",
        type_: "BootstrapProvider",
        components: "bootstrap-components.yaml",
        version: plane::tools::CLUSTER_API,
        contract: "v1beta2",
    },
    Upstream {
        manager: "capi-kubeadm-control-plane",
        label: "control-plane-kubeadm",
        name: "kubeadm",
        type_: "ControlPlaneProvider",
        components: "control-plane-components.yaml",
        version: plane::tools::CLUSTER_API,
        contract: "v1beta2",
    },
    Upstream {
        manager: "capi-ipam-in-cluster",
        label: "ipam-in-cluster",
        name: "in-cluster",
        type_: "IPAMProvider",
        components: "ipam-components.yaml",
        version: plane::tools::IPAM,
        contract: "v1beta1",
    },
];

impl Upstream {
    /// Writes the provider's release into a repository, and returns its entry for the clusterctl configuration.
    fn put_into(&self, repository: &Path) -> String {
        let folder = repository.join(self.label).join(format!("v{}", self.version));
        std::fs::create_dir_all(&folder).expect("a folder");
        let documents = components::config::upstream(self.manager).expect("manifests");
        let documents: Vec<_> = documents.iter().map(Value::to_string).collect();
        std::fs::write(folder.join(self.components), documents.join("\n---\n")).expect("written");
        let mut numbers = self.version.split('.').map(|number| number.parse::<u32>().expect("a number"));
        let metadata = json!({
            "apiVersion": "clusterctl.cluster.x-k8s.io/v1alpha3", "kind": "Metadata",
            "releaseSeries": [{ "major": numbers.next(), "minor": numbers.next(), "contract": self.contract }],
        });
        std::fs::write(folder.join("metadata.yaml"), metadata.to_string()).expect("written");
        let url = folder.join(self.components);
        format!("- name: {}\n  type: {}\n  url: {}\n", self.name, self.type_, url.display())
    }
}

/// clusterctl with its own repository.
struct Clusterctl {
    program: PathBuf,
    folder: PathBuf,
}

impl Clusterctl {
    /// Writes the release files and the upstream providers into `folder`.
    fn prepare(folder: &Path) -> Self {
        let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../release/write-files");
        succeeded(&Command::new(script).arg(folder).output().expect("release/write-files"));
        let config = folder.join("clusterctl.yaml");
        let mut text = std::fs::read_to_string(&config).expect("the configuration of the release");
        for provider in UPSTREAM {
            text.push_str(&provider.put_into(folder));
        }
        text.push_str(
            "WCP_NETWORK_PROVIDER: NSXT\nVSPHERE_IMAGE_NAME: node-image\nVSPHERE_STORAGE_CLASS: gold\n\
             cert-manager:\n  externallyProvisioned: \"true\"\n",
        );
        std::fs::write(config, text).expect("written");
        let program = crate::harness::shared_stack::build_tool(&plane::tools::CLUSTERCTL);
        Self { program, folder: folder.to_owned() }
    }

    /// Runs clusterctl and returns its output.
    fn run(&self, server: &OwnServer, args: &[&str]) -> String {
        let output = Command::new(&self.program)
            .args(args)
            .arg("--kubeconfig")
            .arg(server.plane.kubeconfig())
            .arg("--config")
            .arg(self.folder.join("clusterctl.yaml"))
            .env("CLUSTERCTL_DISABLE_VERSIONCHECK", "true")
            .env("HOME", &self.folder)
            .output()
            .expect("clusterctl");
        succeeded(&output);
        String::from_utf8(output.stdout).expect("UTF-8")
    }
}

fn succeeded(output: &Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Returns a cert-manager CRD, because clusterctl checks that it is served.
fn of_cert_manager(plural: &str) -> Value {
    let kind = if plural == "issuers" { "Issuer" } else { "Certificate" };
    let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.cert-manager.io") },
        "spec": {
            "group": "cert-manager.io", "scope": "Namespaced", "names": { "kind": kind, "plural": plural },
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema },
            }],
        },
    })
}

/// Returns the providers and versions that clusterctl has recorded in a namespace.
async fn installed(server: &OwnServer, namespace: &str) -> Vec<(String, String)> {
    let kind = GroupVersionKind::gvk("clusterctl.cluster.x-k8s.io", "v1alpha3", "Provider");
    let api: Api<DynamicObject> =
        Api::namespaced_with(server.client(), namespace, &ApiResource::from_gvk(&kind));
    let list = api.list(&ListParams::default()).await.expect("providers");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    list.items
        .into_iter()
        .map(|item| (item.metadata.name.unwrap_or_default(), text(&item.data["version"])))
        .collect()
}

/// Returns the arguments in a Deployment, or `None` if the Deployment doesn't exist.
async fn args(server: &OwnServer, (namespace, name): (&str, &str)) -> Option<Vec<String>> {
    let api: Api<Deployment> = Api::namespaced(server.client(), namespace);
    let deployment = api.get_opt(name).await.expect("an answer")?;
    deployment.spec?.template.spec?.containers.into_iter().next()?.args
}

async fn args_are_there(server: &OwnServer, deployment: (&str, &str)) -> bool {
    args(server, deployment).await.is_some()
}
