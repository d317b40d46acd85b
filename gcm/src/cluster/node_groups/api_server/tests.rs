//! Which clusters have which files, and that they keep them.

use kube::ResourceExt;
use serde_json::json;

use super::*;
use crate::cluster::fixtures::{ClusterFixture, plan, stored};
use crate::testing::sound;

const ALL: ApiServerFeatures = ApiServerFeatures { audit: true, encryption: true };
const NONE: ApiServerFeatures = ApiServerFeatures { audit: false, encryption: false };

fn control_plane(features: ApiServerFeatures) -> KubeadmControlPlane {
    let mut config = ConfigSpec::default();
    ApiServerSetup::new(features, "c").put_into(&mut config);
    let mut live = KubeadmControlPlane::default();
    live.spec.kubeadm_config_spec = Some(config);
    live
}

fn noted(text: Option<&str>) -> TanzuKubernetesCluster {
    let mut tkc = sound();
    tkc.annotations_mut().extend(text.map(|text| (annotation::API_SERVER.to_owned(), text.to_owned())));
    tkc
}

#[test]
fn a_cluster_has_what_was_noted_when_it_was_created() {
    assert_eq!(ApiServerFeatures::of(&noted(Some(ApiServerFeatures::OF_NEW_CLUSTER)), None), ALL);
    assert_eq!(ApiServerFeatures::of(&noted(None), None), NONE);
    assert_eq!(ApiServerFeatures::of(&noted(None), Some(&control_plane(NONE))), NONE);
    assert_eq!(
        ApiServerFeatures::of(&noted(Some("audit, x")), None),
        ApiServerFeatures { audit: true, ..NONE }
    );
    for features in
        [ALL, NONE, ApiServerFeatures { audit: true, ..NONE }, ApiServerFeatures { encryption: true, ..NONE }]
    {
        let of_live = ApiServerFeatures::of(&noted(None), Some(&control_plane(features)));
        assert_eq!(of_live, features, "a control plane keeps what it has");
    }
    assert_eq!(control_plane(NONE).spec.kubeadm_config_spec, Some(ConfigSpec::default()));
}

/// Otherwise API servers without the key would serve Secrets that others have encrypted.
#[test]
fn a_control_plane_keeps_its_arguments_whatever_else_changes() {
    let arguments = |tkc: &TanzuKubernetesCluster, fixture: &ClusterFixture| {
        let config = plan(tkc, &fixture.facts()).unwrap().control_plane.spec.kubeadm_config_spec.unwrap();
        let server = config.cluster_configuration.unwrap().api_server.unwrap();
        let names: Vec<_> = server.extra_args.unwrap().into_iter().map(|argument| argument.name).collect();
        (names, server.extra_volumes.map_or(0, |volumes| volumes.len()))
    };
    let fixture = ClusterFixture::running(sound());
    let mut changed = fixture.tkc.clone();
    changed.spec.topology.control_plane.vm_class = "large".to_owned();
    changed.annotations_mut().remove(annotation::API_SERVER);
    let (names, volumes) = arguments(&changed, &fixture);
    assert!(names.contains(&"encryption-provider-config".to_owned()), "{names:?}");
    assert!(names.contains(&"audit-policy-file".to_owned()), "{names:?}");
    assert_eq!(volumes, 3);

    let mut earlier = ClusterFixture::running(sound());
    earlier.tkc.annotations_mut().remove(annotation::API_SERVER);
    earlier.plan = plan(&earlier.tkc, &crate::cluster::fixtures::nothing()).unwrap();
    let mut changed = earlier.tkc.clone();
    changed.spec.topology.control_plane.vm_class = "large".to_owned();
    assert_eq!(
        arguments(&changed, &earlier),
        (vec!["profiling".to_owned(), "tls-min-version".to_owned()], 0)
    );
}

#[test]
fn every_argument_names_a_file_that_the_static_pod_sees() {
    let ApiServerSetup { arguments, files, volumes } = ApiServerSetup::new(ALL, "c");
    for file in &files {
        let argument = arguments.iter().filter(|argument| argument.value == file.path);
        assert_eq!(argument.count(), 1, "{}", file.path);
        let volume = volumes.iter().find(|volume| volume.mount_path == file.path).unwrap();
        assert_eq!((&volume.host_path, volume.path_type.as_deref()), (&file.path, Some("File")));
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
    let mut encryption = Encryption::default();
    encryption.new_configuration = Some(configuration::generate());
    let planned = crate::cluster::plan::plan(&stored(sound()), &nothing(), &login(), &encryption).unwrap();
    let [secret] = planned.new_secrets.0.as_slice() else { panic!("one Secret") };
    assert_eq!(secret.name_any(), "c-encryption");
    let owner = &secret.metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!((owner.name.as_str(), owner.controller), ("c", Some(true)), "clusterctl moves what is owned");
    assert_eq!(secret.labels()["cluster.x-k8s.io/cluster-name"], "c");
    assert!(secret.data.as_ref().unwrap().keys().eq([ENCRYPTION]));
    assert!(!format!("{planned:?}").contains("aescbc"), "no print has the key");
}
