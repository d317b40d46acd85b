//! Tests that nodes trust additional certificate authorities (CAs) on each operating system, and that existing nodes are kept.

use api::gcm::TanzuKubernetesCluster;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::pools;
use super::recipes::rolls;
use crate::cluster::facts::Facts;
use crate::cluster::fixtures::{ClusterFixture, nothing, plan, stored};

/// Returns facts with an image for this operating system.
fn of_system(mut facts: Facts, os: &str) -> Facts {
    for image in &mut facts.releases.fixed {
        image.labels.insert("os-name".to_owned(), os.to_owned());
    }
    facts
}

/// Returns a cluster whose nodes run this operating system.
fn running_on(os: &str) -> ClusterFixture {
    let running = ClusterFixture::running(pools());
    ClusterFixture { plan: plan(&running.tkc, &of_system(nothing(), os)).unwrap(), ..running }
}

/// Returns the commands and file paths for the additional CAs of a node.
fn trust(tkc: &TanzuKubernetesCluster, facts: &Facts) -> (Vec<String>, Vec<String>) {
    let config = plan(tkc, facts).unwrap().control_plane.spec.kubeadm_config_spec.unwrap();
    let commands = config.pre_kubeadm_commands.unwrap().into_iter();
    let files = config.files.unwrap().into_iter().map(|file| file.path);
    (
        commands.filter(|command| command.contains("ca-") || command.contains("ca_")).collect(),
        files.filter(|path| path.contains("corp")).collect(),
    )
}

#[test]
fn each_system_collects_authorities_with_its_own_program() {
    let folders = ["/etc/ssl/certs/corp.pem", "/usr/local/share/ca-certificates/corp.crt"];
    let anchors = ["/etc/pki/ca-trust/source/anchors/corp.pem"];
    for (os, command, files) in [
        ("photon", "rehash_ca_certificates.sh", folders.as_slice()),
        ("ubuntu", "update-ca-certificates", &folders),
        ("debian", "update-ca-certificates", &folders),
        ("rockylinux", "update-ca-trust", &anchors),
        ("amazon", "update-ca-trust", &anchors),
    ] {
        let (commands, paths) = trust(&stored(pools()), &of_system(nothing(), os));
        assert_eq!(commands, [command], "{os}");
        assert_eq!(paths, files, "{os}");
    }
}

/// The label of the nodes' image was corrected. The nodes get the right command when they are replaced for another reason.
#[test]
fn nodes_with_the_program_of_another_system_are_not_replaced_for_it() {
    let running = running_on("debian");
    let there = of_system(running.facts(), "rhel");
    assert_eq!(rolls(&running.tkc, &there), [false; 4]);
    let mut changed = running.tkc.clone();
    changed.spec.topology.control_plane.vm_class = "guaranteed-large".to_owned();
    assert_eq!(rolls(&changed, &there), [true, false, false, false]);
    assert_eq!(trust(&changed, &there).0, ["update-ca-trust"]);
}

/// Without the image, only the objects of the running cluster show the operating system.
#[test]
fn a_cluster_whose_image_is_gone_keeps_its_program() {
    for os in ["photon", "debian", "rhel"] {
        let running = running_on(os);
        let mut gone = running.facts();
        gone.releases.fixed.clear();
        assert_eq!(rolls(&running.tkc, &gone), [false; 4], "{os}");
        let mut changed = running.tkc.clone();
        changed.spec.topology.control_plane.vm_class = "guaranteed-large".to_owned();
        assert_eq!(trust(&changed, &gone), trust(&running.tkc, &of_system(running.facts(), os)), "{os}");
    }
}

/// The key was stored before admission rejected it.
#[test]
fn a_private_key_reaches_no_node_of_a_cluster_that_runs() {
    let running = running_on("photon");
    let mut tkc = running.tkc.clone();
    let network = tkc.spec.settings.as_mut().unwrap().network.as_mut().unwrap();
    let authorities = network.trust.as_mut().unwrap().additional_trusted_cas.as_mut().unwrap();
    authorities[0].data = STANDARD.encode("-----BEGIN PRIVATE KEY-----\nhidden\n-----END PRIVATE KEY-----\n");
    let invalid = plan(&tkc, &running.facts()).unwrap_err().to_string();
    assert!(
        invalid.starts_with(
            "spec.settings.network.trust.additionalTrustedCAs[0].data: it contains a private key"
        ),
        "{invalid}"
    );
    assert!(!invalid.contains("hidden"), "{invalid}");
}
