//! Tests that objects from earlier releases are kept: upgrading gcm doesn't replace nodes.

use std::path::Path;
use std::sync::Arc;

use api::gcm::TanzuKubernetesCluster;
use serde::de::DeserializeOwned;
use serde_json::{Value, from_value};

use super::recipes::rolls;
use super::{pools, shown};
use crate::cluster::facts::Facts;
use crate::cluster::fixtures::ClusterFixture;

/// Returns the facts with the objects that a release of gcm created.
fn left_by(release: &Path, now: Facts) -> Facts {
    let text = std::fs::read_to_string(release.join("cluster.yaml")).unwrap();
    let documents: Vec<Value> = serde_saphyr::from_str(&text).unwrap();
    Facts {
        control_plane: all(&documents, "KubeadmControlPlane").pop(),
        deployments: all(&documents, "MachineDeployment"),
        machine_templates: all(&documents, "WCPMachineTemplate"),
        config_templates: all(&documents, "KubeadmConfigTemplate"),
        ..now
    }
}

fn all<K: DeserializeOwned>(documents: &[Value], kind: &str) -> Vec<Arc<K>> {
    let of_kind = documents.iter().filter(|document| document["kind"] == kind);
    of_kind.map(|document| Arc::new(from_value(document.clone()).unwrap())).collect()
}

/// The certificate authority in the clusters of these releases. Admission accepted it at that time.
const STORED: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUN5ekNDCi0tLS0tRU5EIENFUlRJRklDQVRFLS0tLS0K";

fn trust(tkc: &mut TanzuKubernetesCluster, data: &str) {
    let network = tkc.spec.settings.as_mut().unwrap().network.as_mut().unwrap();
    let authorities = network.trust.as_mut().unwrap().additional_trusted_cas.as_mut().unwrap();
    data.clone_into(&mut authorities[0].data);
}

#[test]
fn an_upgrade_of_gcm_replaces_no_node_that_a_release_made() {
    let releases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../test/releases");
    let folders = std::fs::read_dir(releases).unwrap().map(|entry| entry.unwrap().path());
    let releases: Vec<_> = folders.filter(|path| path.is_dir()).collect();
    assert!(!releases.is_empty());
    for release in releases {
        let mut fixture = ClusterFixture::running(pools());
        let there = left_by(&release, fixture.facts());
        assert_eq!(there.deployments.len(), 3, "{}", release.display());
        trust(&mut fixture.tkc, STORED);
        fixture.tkc.status = Some(shown(&fixture));
        assert_eq!(rolls(&fixture.tkc, &there), [false; 4], "{}", release.display());

        let mut changed = fixture.tkc.clone();
        changed.spec.topology.node_pools[0].vm_class = "best-effort-large".to_owned();
        changed.metadata.generation = Some(2);
        assert!(rolls(&changed, &there).contains(&true), "what is asked for anew is made");
    }
}
