use components::catalogue::Registries;
use components::plan;
use components::render::{Certificates, NodeNetworkProvider, Options};
use serde_json::json;

use super::*;

fn read_text(text: &str) -> Result<SettingsByProgram, String> {
    parse(text).map_err(|errors| errors.join("\n"))
}

fn config_map(namespace: &str, data: &Value) -> Value {
    let metadata = json!({ "name": CONFIG_MAP, "namespace": namespace });
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data })
}

#[test]
fn settings_become_arguments_and_amounts() {
    let text = "
        gcm:
          flags:
            management-cidrs: [10.0.0.0/16, 10.1.0.0/16]
            max-remediations: 5
            max-unhealthy: 20%
            insecure-diagnostics: true
        capw:
        cluster-api:
          flags: {machine-concurrency: 20, kube-api-qps: 0.5, sync-period: 1h30m}
          resources:
            requests: {cpu: 1}
            limits: {memory: 4Gi}
        guest-proxy: {resources: {limits: {memory: 1Gi}}}
    ";
    let settings = read_text(text).unwrap();
    insta::assert_snapshot!(summary(&settings).replace("; ", "\n"), @r"
    cluster-api --kube-api-qps=0.5 --machine-concurrency=20 --sync-period=1h30m cpu request 1 memory limit 4Gi
    gcm --insecure-diagnostics=true --management-cidrs=10.0.0.0/16 --management-cidrs=10.1.0.0/16 --max-remediations=5 --max-unhealthy=20%
    guest-proxy memory limit 1Gi
    ");
    for empty in ["", "# nothing", "{}", "---"] {
        assert_eq!(read_text(empty), Ok(SettingsByProgram::new()), "{empty:?}");
    }
}

#[test]
fn every_wrong_setting_is_reported_with_its_remedy() {
    let cases = [
        "vmopp: {}",
        "vmop: {flags: {log-levle: debug}}",
        "vmop: {flags: {--log-level: debug}}",
        "vmop: {flags: {help: true}}",
        "vmop: {flags: {log-format: yaml}}",
        "vmop: {flags: {image-sync-period: 20m, bootstrap-report-timeout: soon}}",
        "vmop: {flags: {log-level: }}",
        "vmop: {flags: {log-level: {kit: debug}}}",
        "vmop: {flags: {log-level: [debug, info]}}",
        "vmop: {flags: {leader-elect: false}}",
        "gcm: {flags: {max-unhealthy: 140%, nodes-pull-images: true}}",
        "capw: {flags: {network-provider: NSXT}}",
        "capw: {flags: {endpoint-pool: control-planes}}",
        "cluster-api: {flags: {machine-concurrency: 0, kube-api-qps: -1, sync-period: 10}}",
        "cluster-api: {flags: {feature-gates: a=true}}",
        "kubeadm-bootstrap: {flags: {machine-concurrency: 5}}",
        "ipam-in-cluster: {flags: {leader-elect: true}}",
        "guest-proxy: {flags: {log-level: debug}}",
        "gcm: {resources: {limits: {memory: 4GB, cpu: 0}}}",
        "gcm: {resources: {limits: {disk: 4Gi}}}",
        "gcm: {memory: 4Gi}",
        "gcm: {}\ngcm: {}",
        "[gcm]",
    ];
    let report =
        cases.map(|case| format!("{case}\n  {}", read_text(case).unwrap_err().replace('\n', "\n  ")));
    insta::assert_snapshot!(report.join("\n"));
}

#[test]
fn the_config_map_is_found_by_its_name() {
    let found = |objects: &[Value]| find(objects).map_err(|errors| errors.join("\n"));
    let good = config_map(VMOP_NAMESPACE, &json!({ KEY: "gcm: {flags: {log-level: debug}}" }));
    assert_eq!(found(&[]), Ok(None));
    assert_eq!(found(std::slice::from_ref(&good)).unwrap().unwrap()["gcm"].args, ["--log-level=debug"]);
    assert_eq!(found(&[config_map(VMOP_NAMESPACE, &json!({}))]), Ok(Some(SettingsByProgram::new())));
    let wrong = [
        vec![good.clone(), good],
        vec![config_map("default", &json!({}))],
        vec![config_map(VMOP_NAMESPACE, &json!({ "gcm": "flags: {}" }))],
        vec![config_map(VMOP_NAMESPACE, &json!({ KEY: { "gcm": {} } }))],
    ];
    let report = wrong.map(|objects| found(&objects).unwrap_err());
    insta::assert_snapshot!(report.join("\n"));
    let stored = [(KEY.to_owned(), "gcm: {flags: {gone: 1}}".to_owned())].into();
    insta::assert_snapshot!(read_stored(&stored).unwrap_err().join("\n"));
}

#[test]
fn a_limit_below_a_request_is_reported() {
    let found = |text: &str| {
        let options = Options {
            registries: Registries::default(),
            certificates: Certificates::CertManager,
            networks: NodeNetworkProvider::PortGroups,
            nodes_pull_images: false,
            programs: read_text(text).unwrap(),
        };
        let components: Vec<_> = COMPONENTS.iter().collect();
        let installation = plan::installation(&options, &components, &BTreeMap::new()).unwrap();
        find_contradictions(&installation).into_iter().collect::<Vec<_>>()
    };
    assert_eq!(found(""), Vec::<String>::new());
    assert_eq!(found("gcm: {resources: {limits: {cpu: 50m, memory: 32Mi}}}"), Vec::<String>::new());
    let text = "
        gcm: {resources: {limits: {cpu: 20m}}}
        vmop: {resources: {requests: {memory: 1Gi}}}
        guest-proxy: {resources: {limits: {memory: 512m}}}
    ";
    insta::assert_snapshot!(found(text).join("\n"));
}

#[test]
fn each_default_of_a_flag_is_a_valid_value() {
    for program in names() {
        let command = flags::command(program);
        for arg in command.get_arguments() {
            let flag = arg.get_long().unwrap();
            let default = arg.get_default_values().first().map(|value| value.to_string_lossy().into_owned());
            if let (Some(default), None) = (default, flags::other_place(flag)) {
                let given = [(flag.to_owned(), Value::String(default))].into();
                flags::read_arguments(program, &given)
                    .unwrap_or_else(|errors| panic!("{program} {errors:?}"));
            }
        }
    }
}

#[test]
fn processes_on_this_machine_get_flags_without_files_of_containers() {
    let text = "
        vmop: {flags: {log-level: debug, webhook-client-ca: /ca.crt}}
        gcm: {flags: {webhook-conversion-key: /key}, resources: {limits: {memory: 1Gi}}}
        cluster-api: {flags: {machine-concurrency: 8}}
    ";
    let local = flags::local_arguments(&read_text(text).unwrap());
    let expected = [("cluster-api", "--machine-concurrency=8"), ("vmop", "--log-level=debug")];
    assert_eq!(local, expected.map(|(name, arg)| (name.to_owned(), vec![arg.to_owned()])).into());
}
