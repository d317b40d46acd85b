//! A user runs `layercake site discover`. The file that it writes configures the VM operator.

use std::process::Output;

use kube::Api;
use layercake::kube::manifest;
use serde_json::{Value, json};

use crate::harness::command::layercake;
use crate::harness::own_server::{OwnServer, definitions, installed_program};
use crate::harness::story::{Story, assert_contains, story};

/// The flags that select among several objects in the simulated vCenter.
const CHOSEN: [&str; 4] = ["--network", "workload-network", "--library", "layercake"];
const CONTROL_PLANES: [&str; 6] =
    ["--endpoints", "10.20.0.10-10.20.0.99", "--prefix", "16", "--gateway", "10.20.0.1"];

#[test]
fn a_vcenter_becomes_a_site_file_that_the_doctor_finds_in_order() {
    story("site", |story| async move {
        story.prepare_namespace("best-effort-small").await;
        let untrusted = discover(&story, &CHOSEN);
        assert_eq!(untrusted.status.code(), Some(3));
        let errors = String::from_utf8_lossy(&untrusted.stderr).into_owned();
        assert_contains(&errors, &["is not trusted, so the password was not sent", "--thumbprint"]);
        let thumbprint = errors.trim_end().rsplit(' ').next().unwrap();
        assert_is_refused(&story, thumbprint);

        let trusted = ["--thumbprint", thumbprint];
        let namespace = ["--namespace", &story.namespace, "--roles-for", "operator@vsphere.local"];
        let found = discover(&story, &[&trusted[..], &CHOSEN, &CONTROL_PLANES, &namespace].concat());
        let explanation = String::from_utf8_lossy(&found.stderr);
        assert_eq!(found.status.code(), Some(0), "{explanation}");
        assert_contains(
            &explanation,
            &["layercake (group-", "most free space of", "govc permissions.set", "New-VIPermission"],
        );
        let objects = manifest::documents(&String::from_utf8(found.stdout).unwrap()).unwrap();
        let password = story.shared.session.vcenter.password().unwrap();
        assert!(!json!(objects).to_string().contains(&password));
        assert_is_the_stacks(&story, &objects[0]).await;
        for object in &objects {
            let mut object = object.clone();
            if is_pool(&object) {
                // The stack's own pool contains addresses in use, so rename this one.
                object["metadata"]["name"] = "site".into();
            }
            layercake::kube::apply::dry_run(&story.client(), &object).await.unwrap();
        }
        assert_the_doctor_agrees(&story, &objects, &password).await;
    });
}

/// Each invalid command names the error and the possible values.
fn assert_is_refused(story: &Story, thumbprint: &str) {
    let trusted = ["--thumbprint", thumbprint];
    let wrong = format!("00{}", &thumbprint[2..]);
    let cases: [(Vec<&str>, i32, &[&str]); 7] = [
        ([&["--thumbprint", wrong.as_str()], &CHOSEN[..]].concat(), 3, &["is not trusted", thumbprint]),
        (
            [&trusted[..], &CHOSEN[2..]].concat(),
            3,
            &["Pass one with --network", "VM Network (network-", "workload-network (dvportgroup-"],
        ),
        ([&trusted[..], &CHOSEN[..2]].concat(), 3, &["Pass one with --library", "published ("]),
        (trusted.to_vec(), 3, &["Pass one with --network", "\nseveral objects can be the content library"]),
        (
            [&trusted[..], &CHOSEN, &["--datacenter", "dc9"]].concat(),
            3,
            &["--datacenter dc9: there is no such datacenter", "dc0 (datacenter-"],
        ),
        (
            [&trusted[..], &CHOSEN, &CONTROL_PLANES, &["--node-addresses", "10.20.0.0/24"]].concat(),
            3,
            &["overlaps --node-addresses 10.20.0.0/24"],
        ),
        (
            [&trusted[..], &CHOSEN, &["--user", "nobody@vsphere.local"]].concat(),
            1,
            &["InvalidLogin", "--password-file"],
        ),
    ];
    for (args, status, words) in cases {
        let found = discover(story, &args);
        let errors = String::from_utf8_lossy(&found.stderr);
        assert_eq!(found.status.code(), Some(status), "{args:?}: {errors}");
        assert_contains(&errors, words);
        // Uplink port groups can't be used for VMs.
        assert!(found.stdout.is_empty() && !errors.contains("Uplinks"), "{args:?}: {errors}");
    }
}

/// The discovered configuration names the same vCenter as the stack's own configuration.
async fn assert_is_the_stacks(story: &Story, configuration: &Value) {
    let maps = Api::<k8s_openapi::api::core::v1::ConfigMap>::namespaced(story.client(), "vmware-system-vmop");
    let name = configuration["metadata"]["name"].as_str().unwrap();
    let data = maps.get(name).await.unwrap().data.unwrap();
    for key in ["VcPNID", "VcPort", "VcCredsSecretName", "Datacenter", "ContentSource"] {
        assert_eq!(configuration["data"][key], data[key], "{key}");
    }
}

/// On an API server with only the VM operator's kinds, the site file and a Secret pass the doctor's checks.
async fn assert_the_doctor_agrees(story: &Story, objects: &[Value], password: &str) {
    let server = OwnServer::start(story, Vec::new()).await;
    for (args, unserved) in [
        (&["list", "-A"][..], "the API server serves neither TanzuKubernetesClusters nor Clusters"),
        (
            &["scale", "web", "--replicas", "2"],
            "the API server serves neither TanzuKubernetesClusters nor Clusters",
        ),
    ] {
        let (status, errors) = server.layercake(args);
        assert!(
            status == Some(1) && errors.contains(unserved) && errors.contains("layercake init"),
            "{status:?} {errors}"
        );
    }
    server.apply("the CRDs", &definitions());
    server.wait_until_served();
    server.apply("vmop", &installed_program("vmop"));
    let site: Vec<_> = objects.iter().filter(|object| !is_pool(object)).cloned().collect();
    server.apply("the site file", &site);
    server.apply(
        "the credentials",
        &[json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": { "name": "vcenter-credentials", "namespace": "vmware-system-vmop" },
            "stringData": { "username": story.shared.session.vcenter.username, "password": password },
        })],
    );
    let found = server.doctor(&["--skip", "LC01,LC06,LC10"]);
    let bad: Vec<_> = found.iter().filter(|(_, outcome)| *outcome != "ok").collect();
    assert!(bad.is_empty() && found.len() > 15, "{bad:?} of {found:#?}");
    // The VM operator hasn't read the library yet.
    assert_eq!(server.doctor(&["--only", "LC0601"])["LC0601"], "ok");
    server.stop().await;
}

fn is_pool(object: &Value) -> bool {
    object["kind"] == "GlobalInClusterIPPool"
}

/// Returns vCenter's certificate thumbprint, which the command prints because this computer doesn't trust the
/// certificate.
pub fn thumbprint(story: &Story) -> String {
    let untrusted = String::from_utf8(discover(story, &CHOSEN).stderr).unwrap();
    untrusted.trim_end().rsplit(' ').next().unwrap().to_owned()
}

/// Returns vCenter's host and port.
pub fn address(story: &Story) -> String {
    let url = story.shared.session.vcenter.url();
    url.trim_start_matches("https://").split('/').next().unwrap().to_owned()
}

pub fn discover(story: &Story, args: &[&str]) -> Output {
    let vcenter = &story.shared.session.vcenter;
    let mut command = layercake(&["site", "discover", "--vcenter", &address(story), "--password-file"]);
    command.arg(&vcenter.password_file);
    if !args.contains(&"--user") {
        command.args(["--user", &vcenter.username]);
    }
    if !args.contains(&"--node-addresses") {
        command.args(["--node-addresses", "10.20.128.0/17"]);
    }
    command.args(args).output().unwrap()
}
