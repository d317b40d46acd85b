//! Tests that objects of releases are kept: upgrading gcm doesn't replace nodes.

use std::path::Path;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::{Value, from_value};

use super::pools;
use super::recipes::rolls;
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

#[test]
fn an_upgrade_of_gcm_replaces_no_node_that_a_release_made() {
    let releases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../test/releases");
    let folders = std::fs::read_dir(releases).unwrap().map(|entry| entry.unwrap().path());
    let releases: Vec<_> = folders.filter(|path| path.is_dir()).collect();
    assert!(!releases.is_empty());
    for release in releases {
        let fixture = ClusterFixture::running(pools());
        let there = left_by(&release, fixture.facts());
        assert_eq!(there.deployments.len(), 3, "{}", release.display());
        assert_eq!(rolls(&fixture.tkc, &there), [false; 4], "{}", release.display());

        let mut changed = fixture.tkc.clone();
        changed.spec.topology.node_pools[0].vm_class = "best-effort-large".to_owned();
        assert_eq!(
            rolls(&changed, &there),
            [false, false, false, true],
            "only the changed pool gets new nodes"
        );
    }
}
