use api::Quantity;
use api::vmop::ProviderConfiguration;
use components::catalogue::LAYERCAKE;
use components::settings::ProgramSettings;

use super::*;

fn facts() -> Facts {
    Facts { kubernetes: "v1.36.3".to_owned(), may_all: true, ..Facts::default() }
}

fn with(name: &'static str, version: &str, by: Installer) -> Facts {
    Facts { installed: [(name, installed("", version, by))].into(), ..facts() }
}

fn decision(facts: &Facts, name: &str) -> Decision {
    let decisions = decide(facts, None).unwrap();
    decisions.into_iter().find(|(component, _)| component.name == name).unwrap().1
}

fn refusal(facts: &Facts, vcenter: Option<&str>) -> String {
    decide(facts, vcenter).unwrap_err().join("\n")
}

#[test]
fn an_empty_cluster_gets_everything() {
    let decisions = decide(&facts(), Some("vc")).unwrap();
    assert!(decisions.iter().all(|(_, decision)| *decision == Decision::Install));
    assert_eq!(decisions.len(), COMPONENTS.len());
}

#[test]
fn old_clusters_and_users_without_rights_are_refused() {
    for old in ["v1.30.9", "v1.30.9+vmware.1", "1.28.0"] {
        let refused = refusal(&Facts { kubernetes: old.to_owned(), ..facts() }, None);
        assert!(refused.contains("needs Kubernetes 1.31 or later"), "{refused}");
    }
    assert!(decide(&Facts { kubernetes: "v1.31.0-eks-a1".to_owned(), ..facts() }, None).is_ok());
    assert!(refusal(&Facts { may_all: false, ..facts() }, None).contains("cluster-admin"));
}

#[test]
fn a_site_file_of_another_vcenter_is_refused_while_there_are_machines() {
    let managing = Facts {
        configuration: Some(ProviderConfiguration {
            vc_pnid: "a".to_owned(),
            ..ProviderConfiguration::default()
        }),
        remaining: [(VIRTUAL_MACHINE, 3)].into(),
        ..facts()
    };
    let refused = refusal(&managing, Some("b"));
    assert!(refused.contains("3 VirtualMachines on vCenter a"), "{refused}");
    assert!(decide(&managing, Some("a")).is_ok() && decide(&managing, None).is_ok());
    assert!(decide(&Facts { remaining: [].into(), ..managing }, Some("b")).is_ok());
}

#[test]
fn an_older_version_never_replaces_a_newer_one() {
    for (name, same_or_older) in [("gcm", LAYERCAKE), ("cluster-api", "v1.13.0")] {
        let replaced = decision(&with(name, same_or_older, Installer::Init), name);
        assert_eq!(replaced, Decision::Replace(Some(same_or_older.to_owned())));
    }
    for name in ["gcm", "cluster-api"] {
        let refused = refusal(&with(name, "v9.0.0", Installer::Init), None);
        assert!(refused.contains("an older version cannot read"), "{refused}");
    }
    // Installed with kubectl.
    assert!(matches!(decision(&with("vmop", "latest", Installer::Other), "vmop"), Decision::Replace(_)));
}

#[test]
fn installations_of_other_tools_stay_or_are_refused() {
    let left = decision(&with("cluster-api", "v1.15.0", Installer::Clusterctl), "cluster-api");
    assert_eq!(left, Decision::Leave("v1.15.0, clusterctl manages it".to_owned()));
    let left = decision(&with("ipam-in-cluster", "v1.0.1", Installer::Other), "ipam-in-cluster");
    assert_eq!(left, Decision::Leave("v1.0.1, another tool installed it".to_owned()));
    for (name, old) in [("cluster-api", "v1.10.4"), ("ipam-in-cluster", "v0.9.0")] {
        let refused = refusal(&with(name, old, Installer::Clusterctl), None);
        assert!(refused.contains(&format!("Layercake needs {name} v1")), "{refused}");
    }
    let refused = refusal(&with("capw", "v0.1.0", Installer::Clusterctl), None);
    assert!(refused.contains("clusterctl upgrade apply"), "{refused}");
}

fn installed(image: &str, version: &str, by: Installer) -> InstalledComponent {
    let args = vec![PULLS_IMAGES.to_owned()];
    InstalledComponent {
        version: Some(version.to_owned()),
        namespace: "ns".to_owned(),
        by,
        image: image.to_owned(),
        args,
        memory_limit: None,
    }
}

#[test]
fn a_memory_limit_that_was_raised_is_kept_and_no_lower_one() {
    let with_limit = |limit: &str| {
        let one = installed("", "v1.14.2", Installer::Init);
        let one = InstalledComponent { memory_limit: Some(Quantity(limit.to_owned())), ..one };
        let facts = Facts { installed: [("cluster-api", one)].into(), ..facts() };
        options(&facts, Registries::default(), None, None, SettingsByProgram::new()).programs
    };
    assert_eq!(with_limit("4Gi"), [("cluster-api", limited_to("4Gi"))].into());
    for unchanged in ["2Gi", "2048Mi", "128Mi", "much"] {
        assert_eq!(with_limit(unchanged), [].into(), "{unchanged}");
    }
}

fn limited_to(memory: &str) -> ProgramSettings {
    let limits = [(MEMORY.to_owned(), memory.to_owned())].into();
    ProgramSettings { limits, ..ProgramSettings::default() }
}

#[test]
fn a_limit_of_former_settings_goes_with_them() {
    let one = installed("", "v1.14.2", Installer::Init);
    let one = InstalledComponent { memory_limit: Some(Quantity("4Gi".to_owned())), ..one };
    let stored = "cluster-api: {resources: {limits: {memory: 4Gi}}}".to_owned();
    let before = Facts {
        installed: [("cluster-api", one)].into(),
        programs: Some([(programs::KEY.to_owned(), stored)].into()),
        ..facts()
    };
    let limits = |settings| options(&before, Registries::default(), None, None, settings).programs;
    assert_eq!(limits(SettingsByProgram::new()), [].into());
    let lower: SettingsByProgram = [("cluster-api", limited_to("3Gi"))].into();
    assert_eq!(limits(lower.clone()), lower);
    // A limit that was raised after the last installation isn't in the settings.
    let raised = Facts { programs: None, ..before };
    let kept = options(&raised, Registries::default(), None, None, lower.clone()).programs;
    assert_eq!(kept, lower, "settings have priority");
}

#[test]
fn what_is_not_given_stays_as_it_was_installed() {
    let build = format!("{LAYERCAKE}-2");
    let own = installed("r.example.com/l/gcm:x", &build, Installer::Init);
    let core = installed("m.example.com/cluster-api-controller:v1.14.2", "v1.14.2", Installer::Init);
    let before = Facts {
        installed: [("gcm", own), ("cluster-api", core)].into(),
        configuration: Some(ProviderConfiguration {
            network_provider: "NSXT".to_owned(),
            ..ProviderConfiguration::default()
        }),
        ..facts()
    };
    let kept = options(&before, Registries::default(), None, None, SettingsByProgram::new());
    let expected = Registries {
        upstream: Some("m.example.com".to_owned()),
        own: Some("r.example.com/l".to_owned()),
        own_tag: Some(build),
    };
    assert_eq!(kept.registries, expected);
    assert_eq!((kept.networks, kept.nodes_pull_images), (NodeNetworkProvider::Nsx, true));

    let given =
        Registries { own: Some("new".to_owned()), own_tag: Some("t".to_owned()), ..Registries::default() };
    let networks = Some(NodeNetworkProvider::PortGroups);
    let changed = options(&before, given.clone(), networks, Some(false), SettingsByProgram::new());
    assert_eq!(changed.registries, Registries { upstream: expected.upstream, ..given });
    assert_eq!((changed.networks, changed.nodes_pull_images), (NodeNetworkProvider::PortGroups, false));
}

#[test]
fn defaults_and_images_of_other_tools_and_versions_are_not_kept() {
    let published = Component::find("gcm").unwrap().image_reference(&Registries::default());
    let own = installed(&published, "v0.0.9", Installer::Init);
    let core = installed("m.example.com/core:v1.14.2", "v1.14.2", Installer::Clusterctl);
    let before = Facts { installed: [("gcm", own), ("cluster-api", core)].into(), ..facts() };
    assert_eq!(registries(&before, Registries::default()), Registries::default());
    assert_eq!(registries(&facts(), Registries::default()), Registries::default());
}
