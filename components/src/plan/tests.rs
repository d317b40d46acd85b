use time::OffsetDateTime;

use super::*;
use crate::catalogue::Registries;
use crate::certificate;
use crate::guest_proxy;
use crate::manifest::Manifests;
use crate::memory::GO_LIMIT;
use crate::render::NodeNetworkProvider;
use crate::settings::ProgramSettings;

fn options(certificates: Certificates) -> Options {
    Options {
        registries: Registries::default(),
        certificates,
        networks: NodeNetworkProvider::PortGroups,
        nodes_pull_images: false,
        programs: BTreeMap::new(),
    }
}

fn all() -> Vec<&'static Component> {
    COMPONENTS.iter().collect()
}

fn own(options: &Options) -> InstallationObjects {
    own_of(options, &all())
}

fn own_of(options: &Options, components: &[&'static Component]) -> InstallationObjects {
    let wanted = wanted_certificates(options, components).unwrap();
    let now = OffsetDateTime::now_utc();
    let pairs = wanted.iter().map(|one| (one.component, certificate::generate(&one.dns_names, now).unwrap()));
    installation(options, components, &pairs.collect()).unwrap()
}

fn line(document: &Value) -> String {
    let text =
        |pointer: &str| document.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    format!("{} {} {}", text("/kind"), text("/metadata/namespace"), text("/metadata/name"))
}

#[test]
fn what_is_needed_comes_first() {
    let lines: Vec<_> = own(&options(Certificates::Own)).documents().map(line).collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn without_cert_manager_nothing_waits_for_it() {
    let installation = own(&options(Certificates::Own));
    let text = serde_json::to_string(&installation.documents().collect::<Vec<_>>()).unwrap();
    assert!(!text.contains("cert-manager.io"), "an object of cert-manager");
    // The API server trusts the certificates of upstream webhooks.
    for part in installation.parts.iter().filter(|part| part.component.is_upstream()) {
        let hook = part.after.iter().find(|document| document["webhooks"].is_array()).unwrap();
        assert!(hook["webhooks"][0]["clientConfig"]["caBundle"].is_string(), "{}", part.component.name);
        let secret = part.objects.iter().find(|document| document["kind"] == "Secret").unwrap();
        assert!(secret["stringData"]["tls.key"].as_str().unwrap().contains("PRIVATE KEY"));
    }
    let converted =
        installation.definitions().find(|one| one["metadata"]["name"] == "clusters.cluster.x-k8s.io");
    let client = converted.unwrap().pointer("/spec/conversion/webhook/clientConfig").unwrap();
    assert!(client["caBundle"].is_string() && client["service"].is_object());
    // Layercake's programs create their own certificate if none is mounted.
    for part in installation.parts.iter().filter(|part| !part.component.is_upstream()) {
        let pod = &part.deployment["spec"]["template"]["spec"];
        assert!(pod["volumes"].is_null(), "{}: {pod}", part.component.name);
    }
}

#[test]
fn with_cert_manager_it_makes_all_certificates() {
    let options = options(Certificates::CertManager);
    assert_eq!(wanted_certificates(&options, &all()).unwrap(), []);
    let installation = installation(&options, &all(), &BTreeMap::new()).unwrap();
    let kinds =
        |part: &ComponentObjects| part.objects.iter().filter(|one| one["kind"] == "Certificate").count();
    let with: Vec<_> =
        installation.parts.iter().filter(|part| kinds(part) == 1).map(|part| part.component.name).collect();
    assert_eq!(
        with,
        ["cluster-api", "kubeadm-bootstrap", "kubeadm-control-plane", "ipam-in-cluster", "vmop", "gcm"]
    );
    assert!(installation.documents().all(|document| document["kind"] != "Secret"));
}

#[test]
fn deployments_run_on_one_node_with_images_of_the_version() {
    let options = Options {
        registries: Registries { own: Some("registry.example.com/l".to_owned()), ..Registries::default() },
        networks: NodeNetworkProvider::Nsx,
        nodes_pull_images: true,
        ..options(Certificates::Own)
    };
    for part in own(&options).parts {
        let name = part.component.name;
        let pod = &part.deployment["spec"]["template"]["spec"];
        let tolerations = pod["tolerations"].as_array().unwrap();
        let control_plane = "node-role.kubernetes.io/control-plane";
        assert_eq!(tolerations.iter().filter(|one| one["key"] == control_plane).count(), 1, "{name}");
        let container = &pod["containers"][0];
        assert_eq!(container["image"], part.component.image_reference(&options.registries), "{name}");
        assert_eq!(container["imagePullPolicy"], "IfNotPresent", "{name}");
        assert_eq!(part.deployment["metadata"]["labels"][render::VERSION_LABEL], part.component.image.tag);
        let has = |flag: &str| container["args"].as_array().unwrap().iter().any(|arg| arg == flag);
        assert_eq!(has("--virtual-ip=none") && has("--nodes-pull-images"), name == "gcm", "{name}");
        assert_eq!(has("--network-provider=NSXT"), name == "capw", "{name}");
    }
}

#[test]
fn every_program_has_a_memory_limit_that_an_administrator_can_raise() {
    let raised = [("cluster-api", "4Gi"), ("gcm", "1Gi")].map(|(name, limit)| {
        let limits = [("memory".to_owned(), limit.to_owned())].into();
        (name, ProgramSettings { limits, ..ProgramSettings::default() })
    });
    let options = Options { programs: raised.into(), ..options(Certificates::Own) };
    for part in own(&options).parts {
        let Component { name, memory, .. } = part.component;
        let container = &part.deployment["spec"]["template"]["spec"]["containers"][0];
        let default = format!("{}Mi", memory.limit_mib);
        let limit = options.programs.get(name).map_or(&default, |settings| &settings.limits["memory"]);
        assert_eq!(container["resources"]["limits"]["memory"], **limit, "{name}");
        assert_eq!(
            container["resources"]["requests"]["memory"],
            format!("{}Mi", memory.request_mib),
            "{name}"
        );
        let variables = container["env"].as_array().map(Vec::as_slice).unwrap_or_default();
        let has_go_limit = variables.iter().any(|variable| variable["name"] == GO_LIMIT);
        assert_eq!(has_go_limit, part.component.is_upstream(), "{name}");
    }
}

#[test]
fn changed_settings_follow_the_defaults_of_each_program() {
    let amount = |resource: &str, amount: &str| [(resource.to_owned(), amount.to_owned())].into();
    let gcm = ProgramSettings {
        args: vec!["--virtual-ip=keepalived".to_owned()],
        requests: amount("cpu", "100m"),
        limits: amount("memory", "1Gi"),
    };
    let core =
        ProgramSettings { args: vec!["--machine-concurrency=20".to_owned()], ..ProgramSettings::default() };
    let proxy = ProgramSettings { limits: amount("memory", "1Gi"), ..ProgramSettings::default() };
    let programs = [("gcm", gcm), ("cluster-api", core), (guest_proxy::CONTAINER, proxy)];
    let options = Options {
        networks: NodeNetworkProvider::Nsx,
        programs: programs.into(),
        ..options(Certificates::Own)
    };
    for part in own(&options).parts {
        let name = part.component.name;
        let containers = &part.deployment["spec"]["template"]["spec"]["containers"];
        let args: Vec<_> =
            containers[0]["args"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        let resources = &containers[0]["resources"];
        match name {
            // A program uses the last value of a repeated flag.
            "gcm" => {
                assert!(args.ends_with(&["--virtual-ip=none", "--virtual-ip=keepalived"]), "{args:?}");
                let expected = serde_json::json!({
                    "requests": { "cpu": "100m", "memory": "32Mi" }, "limits": { "memory": "1Gi" },
                });
                assert_eq!(*resources, expected);
            }
            "cluster-api" => assert_eq!(args.last(), Some(&"--machine-concurrency=20")),
            _ => assert_eq!(resources["limits"]["memory"], format!("{}Mi", part.component.memory.limit_mib)),
        }
        if part.component.uses_guest_proxy() {
            assert_eq!(containers[1]["resources"]["limits"]["memory"], "1Gi", "{name}");
            assert_eq!(containers[1]["resources"]["requests"]["memory"], "32Mi", "{name}");
        }
    }
}

#[test]
fn classes_belong_to_the_administrator() {
    let installation = own(&options(Certificates::Own));
    let vmop = installation.parts.iter().find(|part| part.component.name == "vmop").unwrap();
    assert!(
        !vmop.defaults.is_empty() && vmop.defaults.iter().all(|one| one["kind"] == "VirtualMachineClass")
    );
}

#[test]
fn nothing_of_another_tools_installation_is_touched() {
    let ours: Vec<_> = all().into_iter().filter(|component| !component.is_upstream()).collect();
    let lines = |components: &[&'static Component]| {
        own_of(&options(Certificates::Own), components).documents().map(line).collect::<Vec<_>>()
    };
    let without = lines(&ours);
    let of_upstream = |line: &&String| line.contains("capi-") || line.contains("x-k8s.io");
    assert_eq!(without.iter().filter(of_upstream).collect::<Vec<_>>(), Vec::<&String>::new());
    // If the IPAM provider is the only upstream component, the inventory is one of its defaults, so that an inventory that
    // clusterctl created isn't changed.
    let ipam = Component::find("ipam-in-cluster").unwrap();
    let with_ipam = own_of(&options(Certificates::Own), &[&[ipam], ours.as_slice()].concat());
    assert!(
        with_ipam.definitions().all(|one| one["metadata"]["name"] != "providers.clusterctl.cluster.x-k8s.io")
    );
    assert_eq!(with_ipam.parts[0].defaults.len(), 1);
}

#[test]
fn the_embedded_plane_runs_what_is_installed() {
    for part in own(&options(Certificates::Own)).parts {
        let Component { name, source: ManifestSource::Config(folder), .. } = part.component else { continue };
        let embedded = config::manifests(folder).unwrap();
        let installed: Vec<_> = part.documents().cloned().collect();
        let found = Manifests::sorted(name, installed.iter().cloned()).unwrap();
        assert_eq!(embedded.deployment, found.deployment, "{name}");
        // Labels and annotations differ: they are for cert-manager and for the installation's own tools.
        for document in embedded.objects.iter().chain(&embedded.webhooks) {
            let same = installed.iter().find(|other| line(other) == line(document));
            let same = same.unwrap_or_else(|| panic!("{} is not installed", line(document)));
            let rest = |document: &Value| {
                let mut rest = document.clone();
                rest.as_object_mut().unwrap().remove("metadata");
                rest
            };
            assert_eq!(rest(same), rest(document), "{}", line(document));
        }
    }
}
