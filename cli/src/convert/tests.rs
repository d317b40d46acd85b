//! Tests with files for both providers, invalid files and secrets.

use clap::Parser as _;
use serde_json::json;

use super::variables::{VARIABLES, VariableDestination};
use super::*;
use crate::args::{Cli, CliCommand};

const SUPERVISOR: &str = "\
#! A cluster of a Supervisor.
CLUSTER_NAME: team
CLUSTER_PLAN: dev
NAMESPACE: dev
CNI: antrea
CLUSTER_CIDR: 100.96.0.0/11
SERVICE_CIDR: 100.64.0.0/13
SERVICE_DOMAIN: cluster.local
CONTROL_PLANE_VM_CLASS: best-effort-small
CONTROL_PLANE_STORAGE_CLASS: gold
WORKER_VM_CLASS: best-effort-large
WORKER_STORAGE_CLASS: silver
DEFAULT_STORAGE_CLASS: gold
STORAGE_CLASSES: \"gold, silver\"
NODE_POOL_0_NAME: pool-1
NODE_POOL_0_LABELS: \"team=web, tier=2\"
NODE_POOL_0_TAINTS: \"dedicated=web:NoSchedule,spot:PreferNoSchedule\"
WORKER_MACHINE_COUNT: 2
KUBERNETES_RELEASE: v1.34.2+vmware.1-vkr.1
TKG_HTTP_PROXY: http://user:proxy-password@proxy.example.com:3128
TKG_HTTPS_PROXY: http://user:proxy-password@proxy.example.com:3128
TKG_NO_PROXY: \"10.0.0.0/8, .example.com\"
TKG_PROXY_CA_CERT: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUJRRENCNTZBREFnRUNBZ0VCTUFvR0NDcUdTTTQ5QkFNQ01BOHhEVEFMQmdOVkJBTU1CR052Y25Bd0lCY04KTWpBd01UQXhNREF3TURBd1doZ1BNakV5TURBeE1ERXdNREF3TURCYU1BOHhEVEFMQmdOVkJBTU1CR052Y25BdwpXVEFUQmdjcWhrak9QUUlCQmdncWhrak9QUU1CQndOQ0FBVFBreHM1T1Fvd2pMVXdkT2FtMDByQ21oQm9GTzV1CjBBRStFUUlpSHQvTGVteWE3Ni9sZ0RyMEhlbERQT1ZnbUtVTlFGSi9NdThyejBKQVczNjNCbG05b3pJd01EQVAKQmdOVkhSTUJBZjhFQlRBREFRSC9NQjBHQTFVZERnUVdCQlEwcGhvejRmUlFXSXh3QWRkK3JBQXpOZTFqYkRBSwpCZ2dxaGtqT1BRUURBZ05JQURCRkFpQVFyZHQ1OFdId3BWMHR4S0tYQWZoaEVycGVaOFp0K0JVb3pHRjEvclV1CnRnSWhBTnBlWDY2VUxtTzFWblFYT2ZXUmkvVWprSi9QekNsZnRzZTAzL0ZHZTVjbQotLS0tLUVORCBDRVJUSUZJQ0FURS0tLS0tCg==
ENABLE_MHC:
OUR_OWN: secret-of-ours
";

const VSPHERE: &str = "\
CLUSTER_NAME: workload
CLUSTER_PLAN: prod
INFRASTRUCTURE_PROVIDER: vsphere
OS_NAME: ubuntu
OS_VERSION: 20.10
OS_ARCH: amd64
VSPHERE_SERVER: vcenter.example.com
VSPHERE_USERNAME: administrator@vsphere.local
VSPHERE_PASSWORD: <encoded:cGFzc3dvcmQ=>
VSPHERE_SSH_AUTHORIZED_KEY: ssh-rsa AAAA-public
VSPHERE_CONTROL_PLANE_NUM_CPUS: \"2\"
VSPHERE_CONTROL_PLANE_MEM_MIB: \"8192\"
VSPHERE_CONTROL_PLANE_DISK_GIB: \"40\"
VSPHERE_WORKER_NUM_CPUS: 4
VSPHERE_WORKER_MEM_MIB: 16384
TKG_HTTP_PROXY_ENABLED: \"false\"
TKG_HTTP_PROXY: http://user:proxy-password@proxy.example.com:3128
AVI_PASSWORD: avi-password
LDAP_BIND_PASSWORD: \"\"
";

/// Returns the flags for a namespace, a release, a VM class and a storage class.
fn flags(values: [Option<&str>; 4]) -> Convert {
    let names = ["--namespace", "--release", "--vm-class", "--storage-class"];
    let given = names.into_iter().zip(values).filter_map(|(name, value)| Some([name, value?])).flatten();
    parse(given)
}

fn parse<'a>(flags: impl IntoIterator<Item = &'a str>) -> Convert {
    let line = ["layercake", "convert", "cluster.yaml"].into_iter().chain(flags);
    match Cli::try_parse_from(line).unwrap().command {
        CliCommand::Convert(args) => *args,
        other => panic!("{other:?}"),
    }
}

fn no_flags() -> Convert {
    flags([None; 4])
}

fn all_flags() -> Convert {
    flags([Some("dev"), Some("v1.36"), Some("small"), Some("gold")])
}

/// Returns the manifest as an object, and the report.
fn converted(text: &str, args: &Convert) -> (Value, String) {
    let (manifest, report) = compose(text, args).unwrap();
    (serde_saphyr::from_str(&manifest).unwrap(), report)
}

/// Returns the exit status and message of the error.
fn refused(text: &str, args: &Convert) -> (ExitStatus, String) {
    let error = compose(text, args).unwrap_err();
    (crate::terminal::exit::status_of_error(&error), error.to_string())
}

/// Returns a file with one variable replaced or added.
fn changed(text: &str, name: &str, value: &str) -> String {
    let beginning = format!("{name}:");
    let kept: Vec<_> = text.lines().filter(|line| !line.starts_with(&beginning)).collect();
    format!("{}\n{name}: {value}\n", kept.join("\n"))
}

#[test]
fn a_file_of_the_supervisor_needs_no_flags() {
    let (manifest, report) = converted(SUPERVISOR, &no_flags());
    assert_eq!(manifest["apiVersion"], "run.tanzu.vmware.com/v1alpha3");
    assert_eq!(manifest["kind"], "TanzuKubernetesCluster");
    assert_eq!(manifest["metadata"], json!({ "name": "team", "namespace": "dev" }));
    assert_eq!(
        manifest["spec"]["topology"],
        json!({
            "controlPlane": {
                "replicas": 1, "vmClass": "best-effort-small", "storageClass": "gold",
                "tkr": { "reference": { "name": "v1.34.2---vmware.1-vkr.1" } },
            },
            "nodePools": [{
                "name": "pool-1", "replicas": 2, "vmClass": "best-effort-large", "storageClass": "silver",
                "labels": { "team": "web", "tier": "2" },
                "taints": [
                    { "key": "dedicated", "value": "web", "effect": "NoSchedule" },
                    { "key": "spot", "effect": "PreferNoSchedule" },
                ],
            }],
        })
    );
    let settings = &manifest["spec"]["settings"];
    assert_eq!(settings["storage"], json!({ "classes": ["gold", "silver"], "defaultClass": "gold" }));
    let network = &settings["network"];
    assert_eq!(network["cni"]["name"], "antrea");
    assert_eq!(network["pods"]["cidrBlocks"], json!(["100.96.0.0/11"]));
    assert_eq!(network["services"]["cidrBlocks"], json!(["100.64.0.0/13"]));
    assert_eq!(network["serviceDomain"], "cluster.local");
    assert_eq!(network["proxy"]["httpProxy"], "http://user:proxy-password@proxy.example.com:3128");
    assert_eq!(network["proxy"]["noProxy"], json!(["10.0.0.0/8", ".example.com"]));
    assert_eq!(network["trust"]["additionalTrustedCAs"][0]["name"], "proxy");
    for line in ["used       CLUSTER_PLAN ", "left out   ENABLE_MHC ", "warning: OUR_OWN is unknown"] {
        assert!(report.contains(line), "{line}: {report}");
    }
    for secret in ["proxy-password", "secret-of-ours"] {
        assert!(!report.contains(secret), "{report}");
    }
}

#[test]
fn a_file_of_the_vsphere_provider_needs_flags() {
    let (status, error) = refused(VSPHERE, &no_flags());
    assert_eq!(status, ExitStatus::Refused);
    for part in [
        "--namespace: it is missing",
        "--release: it is missing",
        "--vm-class: it is missing",
        "2 CPUs, 8192 MiB of memory, 40 GiB of disk for the control plane",
        "4 CPUs, 16384 MiB of memory for workers",
        "--storage-class: it is missing",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
    let (manifest, report) = converted(VSPHERE, &all_flags());
    let topology = &manifest["spec"]["topology"];
    assert_eq!(topology["controlPlane"]["replicas"], 3);
    assert_eq!(topology["nodePools"][0]["name"], "workers");
    assert_eq!(topology["nodePools"][0]["replicas"], 3);
    assert_eq!(topology["nodePools"][0]["vmClass"], "small");
    assert_eq!(topology["controlPlane"]["tkr"]["reference"]["name"], "v1.36");
    assert_eq!(
        manifest["metadata"]["annotations"]["run.tanzu.vmware.com/resolve-os-image"],
        "os-name=ubuntu,os-version=20.10,os-arch=amd64"
    );
    assert_eq!(manifest["spec"].get("settings"), None);
    for part in ["VcPNID in the site file", "TKG_HTTP_PROXY_ENABLED is false"] {
        assert!(report.contains(part), "{part}: {report}");
    }
}

#[test]
fn flags_replace_variables() {
    let (manifest, report) = converted(SUPERVISOR, &flags([Some("other"), Some("v1.36"), Some("big"), None]));
    assert_eq!(manifest["metadata"]["namespace"], "other");
    let topology = &manifest["spec"]["topology"];
    assert_eq!(topology["controlPlane"]["vmClass"], "big");
    assert_eq!(topology["nodePools"][0]["vmClass"], "big");
    assert_eq!(topology["nodePools"][0]["storageClass"], "silver");
    assert_eq!(topology["controlPlane"]["tkr"]["reference"]["name"], "v1.36");
    assert_eq!(report.matches("--vm-class is set").count(), 2, "{report}");
}

#[test]
fn wrong_values_are_refused_with_their_variable() {
    for (name, value, part) in [
        ("CONTROL_PLANE_MACHINE_COUNT", "two", "\"two\" is not a number of nodes"),
        ("CONTROL_PLANE_MACHINE_COUNT", "2", "either 1 or 3 nodes"),
        ("WORKER_MACHINE_COUNT", "-1", "\"-1\" is not a number of nodes"),
        ("CLUSTER_NAME", "Team_1", "cannot be the name of a service"),
        ("CLUSTER_NAME", "", "it is missing"),
        ("CLUSTER_CIDR", "100.96.0.0", "is not an address range"),
        ("SERVICE_CIDR", "100.96.0.0/16", "overlap"),
        ("SERVICE_DOMAIN", "\"a b\"", "is not a domain name"),
        ("CNI", "\"a: b\"", "is not a name"),
        ("WORKER_VM_CLASS", "\"a: b\"", "is not a name"),
        ("KUBERNETES_RELEASE", "latest", "is not a release"),
        ("NODE_POOL_0_LABELS", "team", "is not a label"),
        ("NODE_POOL_0_LABELS", "\"te am=web\"", "is not a valid label"),
        ("NODE_POOL_0_TAINTS", "dedicated", "is not a taint"),
        ("NODE_POOL_0_TAINTS", "\"dedicated:Never\"", "is not an effect"),
        ("OS_NAME", "\"photon,os-arch=arm64\"", "is not a name"),
        ("TKG_HTTPS_PROXY", "", "it is missing, but TKG_HTTP_PROXY is set"),
        ("TKG_HTTPS_PROXY", "ftp://user:proxy-password@proxy.example.com", "does not begin with http"),
        ("TKG_PROXY_CA_CERT", "bm90aGluZw==", "contains no PEM certificate"),
        ("TKG_NO_PROXY", "\"<encoded:YQ==>\"", "its value is encoded"),
    ] {
        let (status, error) = refused(&changed(SUPERVISOR, name, value), &no_flags());
        assert_eq!(status, ExitStatus::Refused, "{name}: {error}");
        assert!(error.contains(&format!("\n{name}: ")), "{name}: {value}: {error}");
        assert!(error.contains(part), "{name}: {value}: {error}");
        assert!(!error.contains("proxy-password"), "{name}: {value}: {error}");
    }
}

#[test]
fn an_unknown_plan_needs_numbers_of_nodes() {
    let text = changed(SUPERVISOR, "CLUSTER_PLAN", "our-plan");
    let (_, error) = refused(&text, &no_flags());
    assert!(error.contains("\nCONTROL_PLANE_MACHINE_COUNT: it is missing"), "{error}");
    let text = changed(&text, "CONTROL_PLANE_MACHINE_COUNT", "3");
    let (manifest, report) = converted(&text, &no_flags());
    assert_eq!(manifest["spec"]["topology"]["controlPlane"]["replicas"], 3);
    assert!(report.contains("both numbers of nodes are set"), "{report}");
}

#[test]
fn other_files_are_not_configuration_files() {
    for (text, part) in [
        ("- CLUSTER_NAME: team\n", "it is not a mapping of variables"),
        ("team\n", "it is not a mapping of variables"),
        ("# nothing\n", "it has no variables"),
        ("{}\n", "it has no variables"),
        ("CLUSTER_NAME: one\nCLUSTER_NAME: two\n", "duplicate key"),
        ("CLUSTER_NAME: team\nAVI_LABELS: {a: hidden}\n", "the value of AVI_LABELS is a mapping or a list"),
        ("CLUSTER_NAME: [hidden\n", "cluster.yaml: it "),
    ] {
        let (status, error) = refused(text, &all_flags());
        assert_eq!(status, ExitStatus::Usage, "{text}: {error}");
        assert!(error.contains(part), "{text}: {error}");
        assert!(!error.contains("hidden"), "{text}: {error}");
    }
}

#[test]
fn values_cannot_change_the_structure() {
    let value = "\"http://user:a# b\"";
    let (_, error) = refused(&changed(SUPERVISOR, "TKG_HTTP_PROXY", value), &no_flags());
    assert!(error.contains("\nTKG_HTTP_PROXY: "), "{error}");
    for text in ["yes", "1.36", "0x10", "null", "~"] {
        let file = changed(SUPERVISOR, "WORKER_STORAGE_CLASS", &format!("\"{text}\""));
        let result = compose(&file, &no_flags());
        if text == "~" {
            assert!(result.unwrap_err().to_string().contains("is not a name"));
            continue;
        }
        let manifest: Value = serde_saphyr::from_str(&result.unwrap().0).unwrap();
        assert_eq!(manifest["spec"]["topology"]["nodePools"][0]["storageClass"], text);
    }
    let value = "\"http://user:&b*c!,-@proxy.example.com:3128\"";
    let (manifest, _) = converted(&changed(SUPERVISOR, "TKG_HTTP_PROXY", value), &no_flags());
    let proxy = &manifest["spec"]["settings"]["network"]["proxy"]["httpProxy"];
    assert_eq!(proxy, "http://user:&b*c!,-@proxy.example.com:3128");
}

#[test]
fn secrets_are_neither_in_the_manifest_nor_in_the_report() {
    let (manifest, report) = compose(VSPHERE, &all_flags()).unwrap();
    let (_, error) = refused(VSPHERE, &no_flags());
    for secret in ["encoded", "cGFzc3dvcmQ=", "avi-password", "AAAA-public", "proxy-password"] {
        for text in [&manifest, &report, &error] {
            assert!(!text.contains(secret), "{text}");
        }
    }
}

#[test]
fn every_variable_is_reported() {
    let name = |pattern: &str| pattern.replace('*', "OTHER");
    let mut text = SUPERVISOR.to_owned();
    for (pattern, destination) in VARIABLES {
        if !matches!(destination, VariableDestination::Field(_)) {
            text = changed(&text, &name(pattern), "\"1\"");
        }
    }
    let (_, report) = converted(&text, &no_flags());
    let lines: Vec<_> = report.lines().collect();
    for (pattern, destination) in VARIABLES {
        let kind = match destination {
            VariableDestination::Field(_) => continue,
            VariableDestination::Elsewhere(_) => "elsewhere",
            VariableDestination::LeftOut(_) => "left out",
        };
        let beginning = format!("{kind:<9}  {} ", name(pattern));
        assert!(lines.iter().any(|line| line.starts_with(&beginning)), "{beginning}: {report}");
    }
}

#[test]
fn a_used_variable_changes_the_manifest() {
    let mut text = changed(SUPERVISOR, "OS_NAME", "photon");
    for (name, value) in [("OS_VERSION", "\"5\""), ("OS_ARCH", "amd64"), ("CONTROL_PLANE_MACHINE_COUNT", "3")]
    {
        text = changed(&text, name, value);
    }
    let certificate = read_variables(SUPERVISOR).unwrap().remove("TKG_PROXY_CA_CERT").unwrap();
    for name in ["TKG_CUSTOM_IMAGE_REPOSITORY", "ADDITIONAL_IMAGE_REGISTRY_1", "ADDITIONAL_IMAGE_REGISTRY_2"]
    {
        text = changed(&text, &format!("{name}_CA_CERTIFICATE"), &certificate);
    }
    text = changed(&text, "ADDITIONAL_IMAGE_REGISTRY_3_CA_CERTIFICATE", &certificate);
    let variables = read_variables(&text).unwrap();
    let (manifest, outcomes) = cluster::convert(&variables, &no_flags()).unwrap();
    let used: Vec<_> = outcomes.iter().filter(|outcome| outcome.kind == OutcomeKind::Used).collect();
    let fields =
        VARIABLES.iter().filter(|(_, destination)| matches!(destination, VariableDestination::Field(_)));
    // Both node counts override the plan, and the release overrides the version.
    assert_eq!(used.len(), fields.count() - 2);
    for outcome in used {
        let without: Variables =
            variables.clone().into_iter().filter(|(name, _)| *name != outcome.name).collect();
        match cluster::convert(&without, &no_flags()) {
            Ok((other, _)) => assert_ne!(other, manifest, "{}", outcome.name),
            Err(InvalidConfiguration(faults)) => assert!(!faults.is_empty(), "{}", outcome.name),
        }
    }
}

#[test]
fn the_flags_of_apply_require_apply() {
    let line = |flags: &str| {
        let flags = flags.split(' ').filter(|flag| !flag.is_empty());
        Cli::try_parse_from(["layercake", "convert", "cluster.yaml"].into_iter().chain(flags)).is_ok()
    };
    for flags in [
        "--timeout 5m",
        "--wait=false",
        "-o json",
        "--dry-run",
        "--bootstrap edge",
        "--context c",
        "--force-conflicts",
    ] {
        assert!(!line(flags), "{flags}");
        assert!(line(&format!("--apply {flags}")), "{flags}");
    }
    assert!(line("-n dev --release v1.36") && line("--apply -n dev --release v1.36"));
}

#[test]
fn the_report_names_the_next_command_unless_the_manifest_is_applied() {
    for (flags, is_named) in [(&["-n", "dev"][..], true), (&["-n", "dev", "--apply"], false)] {
        let (_, report) = converted(SUPERVISOR, &parse(flags.iter().copied()));
        assert_eq!(report.contains("Next: layercake apply -f"), is_named, "{report}");
    }
}
