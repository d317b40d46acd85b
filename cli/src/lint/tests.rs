//! Tests with real manifests, invalid manifests, and real manifests with added errors.

use std::{fmt::Write as _, path::PathBuf};

use super::*;

fn manifests() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../api/tests/manifests")
}

fn manifest(name: &str) -> String {
    std::fs::read_to_string(manifests().join(name)).unwrap()
}

/// Returns the findings, one per line.
fn findings(text: &str) -> String {
    lint(text, "f").to_string()
}

/// Returns a manifest with the first occurrence of `from` replaced by `to`.
fn changed(name: &str, from: &str, to: &str) -> String {
    let text = manifest(name);
    assert!(text.contains(from), "{name} has no {from:?}");
    text.replacen(from, to, 1)
}

#[test]
fn real_manifests() {
    let mut files: Vec<_> =
        std::fs::read_dir(manifests()).unwrap().map(|file| file.unwrap().path()).collect();
    files.extend(std::fs::read_dir(manifests().join("invalid")).unwrap().map(|file| file.unwrap().path()));
    files.retain(|file| file.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    let mut all = String::new();
    for file in files {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let _ = writeln!(all, "{}", lint(&std::fs::read_to_string(&file).unwrap(), &name));
    }
    insta::assert_snapshot!(all);
}

#[test]
fn examples_are_right() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../examples");
    for file in std::fs::read_dir(folder).unwrap() {
        let file = file.unwrap().path();
        if file.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        let text = std::fs::read_to_string(&file).unwrap();
        let report = lint(&text, &file.display().to_string());
        assert_eq!(
            report.count(FindingSeverity::Error) + report.count(FindingSeverity::Warning),
            0,
            "{report}"
        );
        // Kubernetes' own kinds aren't checked.
        assert_eq!(
            report.checked,
            usize::from(text.contains("\napiVersion: run.tanzu.vmware.com/")),
            "{report}"
        );
    }
}

/// Replacements in a manifest: the old string, the new string, and a string that the finding must contain.
type Mutations = &'static [[&'static str; 3]];

const SEED: Mutations = &[
    ["count: 3", "count: 2", "f:11: error: spec.topology.controlPlane.count: control plane can only be"],
    [
        "count: 3",
        "count: \"3\"",
        "spec.topology.controlPlane.count: it is a text, but it must be a whole number",
    ],
    ["count: 3", "replicas: 3", "replicas belongs to v1alpha2 and v1alpha3. In v1alpha1 its name is count"],
    [
        "count: 3\n      class",
        "class",
        "warning: spec.topology.controlPlane.count: it is missing, and the API server fills in 1",
    ],
    ["class:", "vmClass:", "In v1alpha1 its name is class"],
    ["workers:", "nodePools:", "In v1alpha1 it is workers"],
    ["storageClass:", "storageclass:", "Did you mean storageClass?"],
    ["version: v1.17.4", "version: 1.2", "spec.distribution.version: it is a number, but it must be a text"],
    ["version: v1.17.4", "version: v1.17.4", "v1.17 is older than v1.22"],
    ["version: v1.17.4", "version: latest", "\"latest\" is not a version"],
    ["version: v1.17.4", "version: v1.25", "warning: spec.distribution.version: "],
    ["version: v1.17.4", "version: \"\"", "the Kubernetes version is missing"],
    ["version: v1.17.4", "fullVersion: v1.33.1+a\n    version: v1.34", "does not match version hint"],
    ["name: calico", "name: cilium", "spec.settings.network.cni.name: \"cilium\" is not a container network"],
    ["192.0.2.0/16", "192.0.2.0", "\"192.0.2.0\" is not an address range"],
    ["192.0.2.0/16", "198.50.0.0/16", "overlap"],
    [
        "192.0.2.0/16",
        "192.0.0.0/16",
        "note: spec.settings.network.services.cidrBlocks[0]: 198.51.100.0/12 has bits",
    ],
    ["name: test-cluster", "name: Test_Cluster", "metadata.name: \"Test_Cluster\" cannot be"],
    ["  name: test-cluster", "  nmae: test-cluster", "Did you mean metadata.name?"],
    [
        "run.tanzu.vmware.com/v1alpha1",
        "run.tanzu.vmware.com/v1",
        "TanzuKubernetesCluster does not have this version",
    ],
    [
        "run.tanzu.vmware.com/v1alpha1",
        "tanzu.vmware.com/v1alpha1",
        "Use run.tanzu.vmware.com/ with one of: v1alpha1",
    ],
    ["TanzuKubernetesCluster", "TanzuKubernetsCluster", "Did you mean kind: TanzuKubernetesCluster?"],
    ["  settings:", "  serviceDomain: x\n  settings:", "It belongs to spec.settings.network.serviceDomain"],
    ["spec:\n", "spec: {\n", "this is not YAML"],
    ["count: 3", "count: 3\n      count: 1", "this is not YAML"],
];

const POOL: Mutations = &[
    ["replicas: 1", "replicas: null", ""],
    ["replicas: 2", "replicas: -2", "spec.topology.nodePools[0].replicas: -2"],
    ["replicas: 2", "count: 2", "spec.topology.nodePools[0].count: count belongs to v1alpha1"],
    ["nodePools:", "workers:", "In v1alpha2 it is nodePools, a list"],
    ["name: worker-nodepool-a1", "name: Worker", "\"Worker\" cannot be part of a host name"],
    ["name: worker-nodepool-a1", "name: control-plane", "reserved for the objects of the control plane"],
    ["name: worker-nodepool-a1", "name: worker-nodepool-with-a-long-name", "the names will be cut off"],
    [
        "name: v1.22.9---vmware.1-tkg.1.cc71bc8\n      vmClass: best-effort-small\n",
        "name: v1.33.1---a\n      vmClass: b\n",
        "requests",
    ],
    [
        "vmClass: best-effort-small",
        "vmClass: best-effort-small\n      labels: {a: b}",
        "It belongs to spec.topology.nodePools[…].labels",
    ],
];

const FULL: Mutations = &[
    ["storage: 4Gi", "storage: 4GB", "spec.topology.controlPlane.volumes[0].capacity"],
    ["storage: 4Gi", "size: 4Gi", "spec.topology.controlPlane.volumes[0].capacity"],
    [
        "mountPath: /var/lib/etcd",
        "mountPath: var/lib/etcd",
        "spec.topology.controlPlane.volumes[0].mountPath",
    ],
    ["name: worker-nodepool-a2", "name: worker-nodepool-a1", "another pool has the name"],
    ["httpsProxy:", "httpsproxy:", "Did you mean httpsProxy?"],
    ["additionalTrustedCAs:", "additionalTrustedCas:", "Did you mean additionalTrustedCAs?"],
];

#[test]
fn mutations() {
    for (name, changes) in [
        ("seed-test-cluster.yaml", SEED),
        ("node-pool-service-domain.yaml", POOL),
        ("full-proxy-trust.yaml", FULL),
    ] {
        for [from, to, expected] in changes {
            let found = findings(&changed(name, from, to));
            assert!(found.contains(expected), "{name} with {to:?} must say {expected:?}:\n{found}");
        }
    }
}

#[test]
fn a_field_in_the_wrong_place_is_reported_once() {
    let found = findings(&manifest("invalid/v1alpha1-fields-under-v1alpha3.yaml"));
    assert_eq!(found.matches("vmClass").count(), 2, "{found}");
    assert!(!found.contains("it is missing"), "{found}");
}

#[test]
fn no_password_is_repeated() {
    for to in [
        "httpProxy: http://user:s3cret@host",
        "httpProxy: [http://user:s3cret@host]",
        "httpProxy: \"http://user:s3cret@",
    ] {
        let found =
            findings(&changed("full-proxy-trust.yaml", "httpProxy: http://<user>:<pwd>@<ip>:<port>", to));
        assert!(!found.contains("s3cret"), "{found}");
    }
}

#[test]
fn every_document_is_checked_and_other_kinds_are_left_alone() {
    let good = manifest("seed-test-cluster.yaml").replace("v1.17.4", "v1.33");
    let bad = good.replace("count: 3", "count: 5");
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: x\n";
    let report = lint(&format!("{namespace}---\n{good}---\n{bad}"), "f");
    assert_eq!((report.checked, report.count(FindingSeverity::Error)), (2, 1), "{report}");
    let error = report.findings.iter().find(|finding| finding.severity == FindingSeverity::Error).unwrap();
    let lines = namespace.lines().count() + 1 + good.lines().count() + 1;
    assert_eq!(usize::try_from(error.line).unwrap(), lines + 11, "{report}");
    let list = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: run.tanzu.vmware.com/v1alpha3\n  kind: OSImage\n  metadata: {name: a}\n  spec: {}\n";
    assert_eq!(lint(list, "f").count(FindingSeverity::Error), 3, "{}", lint(list, "f"));
}

#[test]
fn a_configuration_file_of_tanzu_kubernetes_grid_is_named_with_its_command() {
    let report = lint("CLUSTER_NAME: team\nCLUSTER_PLAN: dev\n", "team.yaml");
    insta::assert_snapshot!(report, @"team.yaml:1: error: this is a cluster configuration file of Tanzu Kubernetes Grid, not a manifest. Convert it with `layercake convert FILE`. With --apply, this command also applies the result.");
}

#[test]
fn an_empty_file_is_no_error() {
    for text in ["", "# nothing\n", "---\n---\n"] {
        let report = lint(text, "f");
        assert_eq!((report.checked, report.count(FindingSeverity::Error)), (0, 0), "{report}");
    }
}

/// A cluster without findings.
const SOUND: &str = "\
apiVersion: run.tanzu.vmware.com/v1alpha3
kind: TanzuKubernetesCluster
metadata:
  name: linted
  namespace: shop
spec:
  topology:
    controlPlane:
      replicas: 1
      vmClass: best-effort-small
      storageClass: silver
      tkr: {reference: {name: v1.34}}
    nodePools:
    - name: np
      replicas: 1
      vmClass: best-effort-small
      storageClass: silver
";

const BOUND: &str = "cluster.x-k8s.io/cluster-api-autoscaler-node-group";

/// Each case has a part that admission refuses, and the words that the finding must contain. The part is added to the
/// manifest's end, or replaces its metadata.
#[test]
fn what_admission_refuses_is_an_error() {
    assert_eq!(findings(SOUND), "");
    let volume = |size: &str| {
        format!("      volumes: [{{name: a, mountPath: /data, capacity: {{storage: {size}}}}}]\n")
    };
    let proxy = |url: &str| {
        format!(
            "  settings: {{network: {{proxy: {{httpProxy: '{url}', httpsProxy: 'http://p:1', noProxy: [.corp]}}}}}}\n"
        )
    };
    for (end, words) in [
        (
            volume("20"),
            "20 is 20 bytes, less than the 1Mi of the smallest disk. Write the size with its unit, such as 20Gi",
        ),
        (volume("100Ti"), "100Ti is more than 62Ti, the largest disk of vSphere"),
        (proxy("http://CORP\\svc:secret@proxy.shop.example:3128"), "percent-encoded: \\ as %5C"),
        (proxy("http://svc:%ss@proxy.shop.example:3128"), "is not followed by two hexadecimal digits"),
    ] {
        let found = findings(&format!("{SOUND}{end}"));
        assert!(found.contains(": error: ") && found.contains(words) && !found.contains("secret"), "{found}");
    }
    for (annotations, words) in [
        (
            format!("{{{BOUND}-min-size: '3', {BOUND}-max-size: '1'}}"),
            "f:6: error: metadata.annotations[cluster.x-k8s.io/",
        ),
        (format!("{{{BOUND}-min-size: '1'}}"), "it has no effect without"),
        (format!("{{{BOUND}-min-size: '1', {BOUND}-max-size: '9999'}}"), "9999 nodes are more than the 5000"),
        ("{run.tanzu.vmware.com/resolve-os-image: os-name=a b}".to_owned(), "is not a label selector"),
        ("{run.tanzu.vmware.com/resolve-tkr: track in stable}".to_owned(), "is not a label selector"),
    ] {
        let text = SOUND
            .replace("  namespace: shop\n", &format!("  namespace: shop\n  annotations: {annotations}\n"));
        let found = findings(&text);
        assert!(found.contains(words) && found.contains(": error: "), "{found}");
        assert_eq!(found.matches("is not a label selector").count().max(1), 1, "{found}");
    }
}

#[test]
fn a_service_configuration_is_checked_like_the_fields_that_it_fills_in() {
    let text = "\
apiVersion: run.tanzu.vmware.com/v1alpha1
kind: TkgServiceConfiguration
metadata:
  name: tkg-configuration
spec:
  defaultCNI: Calico
  proxy:
    httpProxy: http://proxy.shop.example:3128
  trust:
    additionalTrustedCAs:
    - {name: first, data: \"not base64!\"}
";
    let found = findings(text);
    for words in [
        "f:4: error: metadata.name: only one configuration can exist, for all clusters. Name it tkg-service-configuration.",
        "f:6: error: spec.defaultCNI: \"Calico\" is not a container network",
        "error: spec.proxy.httpsProxy: it is missing",
        "f:11: error: spec.trust.additionalTrustedCAs[0].data: authority \"first\": it is not base64",
    ] {
        assert!(found.contains(words), "{words}\n{found}");
    }
}

#[test]
fn a_value_that_is_left_empty_is_no_error() {
    let text = SOUND
        .replace("      replicas: 1\n      vmClass: best-effort-small\n      storageClass: silver\n", "");
    let text =
        text.replace("    - name: np\n", "    - name: np\n      replicas: null\n      labels: {a: null}\n");
    let text = text.replace("  namespace: shop\n", "  namespace: shop\n  labels: {tier: null}\n");
    let found = findings(
        &text.replace("controlPlane:\n", "controlPlane:\n      vmClass: a\n      storageClass: b\n"),
    );
    assert!(!found.contains(": error: spec.topology.nodePools[0].replicas"), "{found}");
    assert!(!found.contains(": error: metadata"), "{found}");
    assert!(found.contains("nodePools[0].labels.a: it is empty, but it must be a text"), "{found}");
    assert!(
        found.contains("nodePools[0].vmClass: it is missing"),
        "what is required stays an error: {found}"
    );
}

#[test]
fn sizes_that_no_vsphere_takes_are_found_in_classes() {
    let class = |memory: &str| {
        format!(
            "apiVersion: vmoperator.vmware.com/v1alpha1\nkind: VirtualMachineClass\nmetadata: {{name: c}}\nspec:\n  hardware:\n    cpus: 1\n    memory: {memory}\n"
        )
    };
    let found = findings(&class("1000M"));
    assert!(found.contains("f:7") && found.contains("not a multiple of 4 MiB"), "{found}");
    assert!(found.contains("Use 952Mi or 956Mi"), "{found}");
    assert!(!findings(&class("952Mi")).contains("error"));
}

#[test]
fn a_refusal_names_a_field_by_its_whole_name() {
    let refusal = r#"spec.topology.nodePools[0].vmClass: Invalid value: "large": namespace dev has no class"#;
    assert!(has_word(refusal, "vmClass"));
    assert!(has_word(refusal, "namespace"));
    assert!(!has_word(refusal, "name"), "namespace is another field");
    assert!(!has_word(refusal, "class-a") && !has_word(refusal, ""));
}
