//! Tests the API server files, and the arguments and volumes that name them.

use api::gcm::TanzuKubernetesCluster;
use api::gcm::authentication::AuthenticationSettings;
use kube::ResourceExt;
use serde_json::json;

use super::*;
use crate::cluster::fixtures::{ClusterFixture, plan, stored};
use crate::testing::{issuer, sound};

const KUBERNETES: &str = "v1.33.1+vmware.1-fips";

#[test]
fn every_argument_names_a_file_that_the_static_pod_sees() {
    let ApiServerSetup { arguments, files, volumes } = ApiServerSetup::new("c", KUBERNETES);
    for file in &files {
        let argument = arguments.iter().filter(|argument| argument.value == file.path);
        assert_eq!(argument.count(), 1, "{}", file.path);
        let sees = |volume: &&HostMount| file.path.starts_with(&volume.mount_path);
        let volume = volumes.iter().find(sees).unwrap();
        assert_eq!((&volume.host_path, volume.read_only), (&volume.mount_path, Some(true)));
        // Pods in the workload cluster replace the authentication configuration.
        let is_replaced = file.path == authentication_file();
        assert_eq!(volume.path_type.as_deref(), Some(if is_replaced { "Directory" } else { "File" }));
        assert_eq!(file.permissions.as_deref(), Some("0600"));
    }
    let log = arguments.iter().find(|argument| argument.name == "audit-log-path").unwrap();
    let writable = volumes.iter().find(|volume| volume.read_only.is_none()).unwrap();
    assert!(log.value.starts_with(&format!("{}/", writable.mount_path)));
    let encryption = files.iter().find(|file| file.path == ENCRYPTION_FILE).unwrap();
    assert_eq!(encryption.content, None, "the key is in no object but its Secret");
    let from = &encryption.content_from.as_ref().unwrap().secret;
    assert_eq!((from.name.as_str(), from.key.as_str()), ("c-encryption", ENCRYPTION));
}

#[test]
fn api_servers_before_v1_30_get_no_argument_that_they_do_not_know() {
    let arguments = |kubernetes: &str| {
        let setup = ApiServerSetup::new("c", kubernetes);
        setup.arguments.into_iter().map(|argument| argument.name).collect::<Vec<_>>()
    };
    let has = |kubernetes: &str| arguments(kubernetes).contains(&"authentication-config".to_owned());
    assert!(!has("v1.29.4+vmware.3-fips.1"));
    assert!(has("v1.30.1+vmware.1"));
}

/// Pods in the workload cluster give API servers their issuers.
#[test]
fn issuers_replace_no_node() {
    let config = |tkc: &TanzuKubernetesCluster, fixture: &ClusterFixture| {
        plan(tkc, &fixture.facts()).unwrap().control_plane.spec.kubeadm_config_spec.unwrap()
    };
    let fixture = ClusterFixture::running(sound());
    let mut changed = fixture.tkc.clone();
    let jwt = Some(vec![issuer("corp:")]);
    changed.spec.settings.get_or_insert_default().authentication = Some(AuthenticationSettings { jwt });
    assert_eq!(config(&changed, &fixture), config(&fixture.tkc, &fixture));
}

#[test]
fn no_rule_of_the_audit_policy_logs_what_an_object_contains() {
    let text = include_str!("audit-policy.yaml");
    let policy: serde_json::Value = serde_saphyr::from_str(text).unwrap();
    let levels: Vec<_> = policy["rules"].as_array().unwrap().iter().map(|rule| &rule["level"]).collect();
    assert!(levels.iter().all(|level| [json!("None"), json!("Metadata")].contains(level)), "{levels:?}");
    assert_eq!(policy["rules"].as_array().unwrap().last(), Some(&json!({"level": "Metadata"})));
    assert!(
        !["{{", "{%", "{#"].iter().any(|template| text.contains(template)),
        "cloud-init would replace it"
    );
    assert!(text.len() < 2048, "each node gets it in its user data");
}

#[test]
fn a_new_secret_with_the_key_belongs_to_the_cluster() {
    use crate::cluster::encryption::configuration;
    use crate::cluster::encryption::gather::Encryption;
    use crate::cluster::fixtures::{login, nothing};
    let encryption =
        Encryption { new_configuration: Some(configuration::generate()), ..Encryption::default() };
    let planned = crate::cluster::plan::plan(&stored(sound()), &nothing(), &login(), &encryption).unwrap();
    let [secret] = planned.new_secrets.0.as_slice() else { panic!("one Secret") };
    assert_eq!(secret.name_any(), "c-encryption");
    let owner = &secret.metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!((owner.name.as_str(), owner.controller), ("c", Some(true)), "clusterctl moves what is owned");
    assert_eq!(secret.labels()["cluster.x-k8s.io/cluster-name"], "c");
    assert!(secret.data.as_ref().unwrap().keys().eq([ENCRYPTION]));
    assert!(!format!("{planned:?}").contains("aescbc"), "no print has the key");
}
