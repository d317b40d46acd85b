//! Tests which clusters get which API server files, and that clusters keep their files.

use api::gcm::authentication::AuthenticationSettings;
use api::names::annotation;
use kube::ResourceExt;
use serde_json::json;

use super::*;
use crate::cluster::fixtures::{ClusterFixture, plan, stored};
use crate::testing::{issuer, sound};

const ALL: ApiServerFeatures = ApiServerFeatures { audit: true, encryption: true, authentication: true };
const NONE: ApiServerFeatures = ApiServerFeatures { audit: false, encryption: false, authentication: false };

const KUBERNETES: &str = "v1.33.1+vmware.1-fips";

fn control_plane(features: ApiServerFeatures) -> KubeadmControlPlane {
    let mut config = ConfigSpec::default();
    ApiServerSetup::new(features, "c", KUBERNETES).put_into(&mut config);
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
    let only_authentication = ApiServerFeatures { authentication: true, ..NONE };
    let only_encryption = ApiServerFeatures { encryption: true, ..NONE };
    for features in
        [ALL, NONE, ApiServerFeatures { audit: true, ..NONE }, only_encryption, only_authentication]
    {
        let of_live = ApiServerFeatures::of(&noted(None), Some(&control_plane(features)));
        assert_eq!(of_live, features, "a control plane keeps what it has");
    }
    assert_eq!(control_plane(NONE).spec.kubeadm_config_spec, Some(ConfigSpec::default()));
}

/// Otherwise new API servers would lack the key for Secrets that other API servers have encrypted.
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
    assert!(names.contains(&"authentication-config".to_owned()), "{names:?}");
    assert_eq!(volumes, 4);

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
    let ApiServerSetup { arguments, files, volumes } = ApiServerSetup::new(ALL, "c", KUBERNETES);
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
        let setup = ApiServerSetup::new(ApiServerFeatures { authentication: true, ..NONE }, "c", kubernetes);
        setup.arguments.into_iter().map(|argument| argument.name).collect::<Vec<_>>()
    };
    assert_eq!(arguments("v1.29.4+vmware.3-fips.1"), Vec::<String>::new());
    assert_eq!(arguments("v1.30.1+vmware.1"), ["authentication-config"]);
}

/// Other clusters from earlier versions keep their nodes. Further issuers don't replace nodes either.
#[test]
fn only_the_first_issuer_of_a_cluster_of_an_earlier_version_replaces_its_control_plane() {
    let config = |tkc: &TanzuKubernetesCluster, fixture: &ClusterFixture| {
        plan(tkc, &fixture.facts()).unwrap().control_plane.spec.kubeadm_config_spec.unwrap()
    };
    let is_read = |config: &ConfigSpec| {
        let files = config.files.as_deref().unwrap_or_default();
        files.iter().any(|file| file.path == authentication_file())
    };
    for (noted, rolls) in [("audit,encryption", true), ("audit,encryption,authentication", false)] {
        let mut fixture = ClusterFixture::running(sound());
        fixture.tkc.annotations_mut().insert(annotation::API_SERVER.to_owned(), noted.to_owned());
        fixture.plan = plan(&fixture.tkc, &crate::cluster::fixtures::nothing()).unwrap();
        let before = config(&fixture.tkc, &fixture);
        assert_eq!(is_read(&before), !rolls);
        let mut changed = fixture.tkc.clone();
        changed.spec.settings.get_or_insert_default().authentication =
            Some(AuthenticationSettings { jwt: Some(vec![issuer("corp:")]) });
        let after = config(&changed, &fixture);
        assert!(is_read(&after));
        assert_eq!(before != after, rolls, "{noted}");
        let warned = crate::admission::rolls::warnings(&fixture.tkc, &changed);
        assert_eq!(warned.iter().any(|text| text.contains("authentication.jwt")), rolls, "{warned:?}");
        fixture.plan = plan(&changed, &fixture.facts()).unwrap();
        changed.spec.settings.as_mut().unwrap().authentication = None;
        assert_eq!(config(&changed, &fixture), after, "the file stays, and has no issuer");
    }
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
