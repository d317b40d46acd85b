//! What tests of several modules begin with: real manifests, and the releases of the simulated site.

use std::path::Path;

use api::gcm::{TanzuKubernetesCluster, convert};
use serde_json::Value;

pub(crate) use crate::release::resolution::tests::{SITE_VERSIONS, available};

/// A manifest as the hub version, and as it is written.
pub(crate) fn manifest(name: &str) -> (TanzuKubernetesCluster, Value) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../api/tests/manifests").join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let written: Value = serde_saphyr::from_str(&text).unwrap();
    (hub(&written), written)
}

/// An object as the hub version.
pub(crate) fn hub(written: &Value) -> TanzuKubernetesCluster {
    serde_json::from_value(convert(written, "run.tanzu.vmware.com/v1alpha3").unwrap()).unwrap()
}

/// A cluster in the hub version, from YAML.
pub(crate) fn cluster(yaml: &str) -> TanzuKubernetesCluster {
    serde_saphyr::from_str(yaml).unwrap()
}

/// A cluster with one control plane node and one pool, which nothing is wrong with.
pub(crate) fn sound() -> TanzuKubernetesCluster {
    cluster(
        "
apiVersion: run.tanzu.vmware.com/v1alpha3
kind: TanzuKubernetesCluster
metadata: {name: c, namespace: ns}
spec:
  topology:
    controlPlane:
      replicas: 1
      vmClass: small
      storageClass: gold
      tkr: {reference: {name: v1.33.1---vmware.1-fips-vkr.2}}
    nodePools:
    - {name: workers, replicas: 1, vmClass: small, storageClass: gold}
  settings:
    network:
      pods: {cidrBlocks: [192.168.0.0/16]}
      services: {cidrBlocks: [10.96.0.0/12]}
",
    )
}
