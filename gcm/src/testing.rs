//! Shared test fixtures: real manifests, and the releases of the simulated vCenter.

use std::io::Write;
use std::path::Path;

use api::gcm::authentication::JwtAuthenticator;
use api::gcm::{TanzuKubernetesCluster, convert};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::release::ReleaseImage;
pub(crate) use crate::release::resolution::tests::{SITE_VERSIONS, available};

/// Returns the manifest with this file name, converted to the hub version (v1alpha3) and as written.
pub(crate) fn manifest(name: &str) -> (TanzuKubernetesCluster, Value) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../api/tests/manifests").join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let written: Value = serde_saphyr::from_str(&text).unwrap();
    (hub(&written), written)
}

/// Converts an object to the hub version.
pub(crate) fn hub(written: &Value) -> TanzuKubernetesCluster {
    serde_json::from_value(convert(written, "run.tanzu.vmware.com/v1alpha3").unwrap()).unwrap()
}

/// Parses a cluster in the hub version from YAML.
pub(crate) fn cluster(yaml: &str) -> TanzuKubernetesCluster {
    serde_saphyr::from_str(yaml).unwrap()
}

/// Returns a valid cluster with one control plane node and one pool.
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

/// A CA certificate, as base64-encoded PEM.
pub(crate) const AUTHORITY: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUJRRENCNTZBREFnRUNBZ0VCTUFvR0NDcUdTTTQ5QkFNQ01BOHhEVEFMQmdOVkJBTU1CR052Y25Bd0lCY04KTWpBd01UQXhNREF3TURBd1doZ1BNakV5TURBeE1ERXdNREF3TURCYU1BOHhEVEFMQmdOVkJBTU1CR052Y25BdwpXVEFUQmdjcWhrak9QUUlCQmdncWhrak9QUU1CQndOQ0FBVFBreHM1T1Fvd2pMVXdkT2FtMDByQ21oQm9GTzV1CjBBRStFUUlpSHQvTGVteWE3Ni9sZ0RyMEhlbERQT1ZnbUtVTlFGSi9NdThyejBKQVczNjNCbG05b3pJd01EQVAKQmdOVkhSTUJBZjhFQlRBREFRSC9NQjBHQTFVZERnUVdCQlEwcGhvejRmUlFXSXh3QWRkK3JBQXpOZTFqYkRBSwpCZ2dxaGtqT1BRUURBZ05JQURCRkFpQVFyZHQ1OFdId3BWMHR4S0tYQWZoaEVycGVaOFp0K0JVb3pHRjEvclV1CnRnSWhBTnBlWDY2VUxtTzFWblFYT2ZXUmkvVWprSi9QekNsZnRzZTAzL0ZHZTVjbQotLS0tLUVORCBDRVJUSUZJQ0FURS0tLS0tCg==";

/// Returns a token issuer with this user name prefix.
pub(crate) fn issuer(prefix: &str) -> JwtAuthenticator {
    serde_json::from_value(json!({
        "issuer": {"url": "https://login.example.com", "audiences": ["kubernetes"]},
        "claimMappings": {"username": {"claim": "sub", "prefix": prefix}},
    }))
    .unwrap()
}

/// Returns a node image with these labels.
pub(crate) fn node_image(name: &str, labels: &[(&str, &str)]) -> ReleaseImage {
    let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    ReleaseImage { name: name.to_owned(), labels, ..ReleaseImage::default() }
}

/// Encodes data like image properties: gzip, then base64.
pub(crate) fn packed(text: &[u8]) -> String {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(text).unwrap();
    STANDARD.encode(gzip.finish().unwrap())
}

/// Sets the value at a JSON pointer, and creates missing parents.
pub(crate) fn set_at(value: &mut Value, pointer: &str, new: Value) {
    let mut at = value;
    for step in pointer.split('/').skip(1) {
        at = match step.parse::<usize>() {
            Ok(index) => &mut at[index],
            Err(_) => &mut at[step],
        };
    }
    *at = new;
}

/// Returns the cluster with the value at a JSON pointer replaced.
pub(crate) fn changed(tkc: &TanzuKubernetesCluster, pointer: &str, new: Value) -> TanzuKubernetesCluster {
    let mut value = serde_json::to_value(tkc).unwrap();
    // A path that doesn't exist would become an unknown field, which has no effect.
    let parent = pointer.rsplit_once('/').unwrap().0;
    assert!(value.pointer(parent).is_some(), "{pointer}: there is no {parent}");
    set_at(&mut value, pointer, new);
    serde_json::from_value(value).unwrap()
}
