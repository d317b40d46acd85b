//! A user runs the commands in docs/bootstrap.md: management clusters on the local machine, and standalone clusters.

use std::path::Path;

use serde_json::Value;

use crate::harness::documented_commands::Page;
use crate::harness::home::{Home, USER, small_cluster};
use crate::harness::story::{CLUSTER, assert_contains, story};

/// The cluster's context, and its container network's namespace and ConfigMap.
const CONTEXT: &str = "--context=edge-admin@edge";
const NAMESPACE: &str = "--namespace=kube-flannel";
const NETWORK: &str = "configmap/kube-flannel-cfg";
#[test]
fn bootstrap_clusters_do_what_the_page_says() {
    story("bootstrap", |story| async move {
        let mut page = Page::open("bootstrap.md", story.shared);
        let home = Home::new(&page.home());
        page.run_section("Start").await;
        refuses_what_cannot_be(&home);
        names_another_release_that_runs(&home);
        names_an_address_that_answers(&home);
        page.run_section("Create a cluster").await;
        page.run_section("Stop").await;
        moves_and_comes_back(&home);
        page.run_section("Delete").await;
        page.run_section("Standalone clusters").await;
        page.close();
        assert_eq!(home.processes(), Vec::<String>::new());
    });
}

#[test]
fn a_bootstrap_cluster_that_is_killed_loses_and_doubles_no_vm() {
    story("bootstrap-killed", |story| async move {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path());
        let site = home.simulate_site("--site", "dev");
        home.write("edge.yaml", &small_cluster("edge", 1));
        let apply = ["apply", "-f", &home.path("edge.yaml"), "--bootstrap", "edge"].map(str::to_owned);
        let first = [apply.as_slice(), &site].concat();
        // Kill the command at the first VM, at the second VM, and right after the scaling change. Nodes boot on
        // without management components, but only gcm installs the container network that makes them ready.
        home.kill_when("edge", &first, "first VM created");
        let (command, _printed) = home.start_until(&apply, "started management components");
        story.wait_until("the second VM", CLUSTER, async || home.vms("edge").await == 2).await;
        home.kill("edge", command);
        let (_, errors) = home.layercake(&apply, 0);
        assert_contains(
            &errors,
            &["started management components", "Running", "stopped management components"],
        );
        assert_eq!(home.vms("edge").await, 2);
        home.kubectl(&[
            CONTEXT,
            NAMESPACE,
            "patch",
            NETWORK,
            "--type=merge",
            r#"--patch={"data": {"net-conf.json": "{}"}}"#,
        ]);
        let scale = ["scale", "edge", "--replicas", "2", "-n", "dev", "--bootstrap", "edge"];
        home.kill_when("edge", &scale, "scaling edge worker nodes");
        home.layercake(&scale, 0);
        assert_eq!(home.vms("edge").await, 3);
        let kept =
            home.kubectl(&[CONTEXT, NAMESPACE, "get", NETWORK, r"--output=jsonpath={.data.net-conf\.json}"]);
        assert_eq!(kept, "{}", "what a user changes of the container network stays");
        assert_no_policy_refused_for_its_kind(&home.path(".local/state/layercake/bootstrap/edge/logs"));
        home.layercake(&["delete", "edge", "-n", "dev", "--bootstrap", "edge"], 0);
        assert_eq!(home.vms("edge").await, 0);
        home.layercake(&["site", "stop"], 0);
        assert_eq!(home.processes(), Vec::<String>::new());
    });
}

/// If an API server starts with a policy whose parameter kind it doesn't serve yet, it refuses all objects that the
/// policy covers.
fn assert_no_policy_refused_for_its_kind(logs: &str) {
    let logs: Vec<_> = std::fs::read_dir(logs).unwrap().map(|log| log.unwrap().path()).collect();
    assert!(logs.len() > 5, "{logs:?}");
    for log in logs {
        let text = std::fs::read(&log).unwrap();
        let text = String::from_utf8_lossy(&text);
        let refused =
            text.lines().find(|line| line.contains("failed to find resource referenced by paramKind"));
        assert_eq!(refused, None, "{}", log.display());
    }
}

/// The next address for a control plane is already in use. The user sees it in the `layercake doctor` output.
fn names_an_address_that_answers(home: &Home) {
    let site = std::fs::read_to_string(home.path("site.yaml")).unwrap();
    let range = site.lines().find_map(|line| line.trim().strip_prefix("- 127.")).unwrap();
    let (first, _) = range.split_once('-').unwrap();
    let address = format!("127.{first}");
    let listener = std::net::TcpListener::bind((address.as_str(), 6443)).unwrap();
    let (found, _) = home.layercake(&["doctor", "--only", "LC0803", "-o", "short"], 0);
    let words = format!("LC0803 port 6443 answers at {address} of GlobalInClusterIPPool control-planes");
    assert_contains(&found, &[&words, "Remove the address from the pool"]);
    drop(listener);
    let (found, _) = home.layercake(&["doctor", "--only", "LC0803"], 0);
    assert_contains(&found, &["32 addresses were probed"]);
}

/// The user moves the cluster of `lab` to another bootstrap cluster with the same `StackID`, and back. `lab` is running.
fn moves_and_comes_back(home: &Home) {
    const OPERATOR: &str = "--namespace=vmware-system-vmop";
    let id = home.kubectl(&[
        OPERATOR,
        "get",
        "configmap",
        "vmware-system-vmop-stack",
        "--output=jsonpath={.data.StackID}",
    ]);
    let site = std::fs::read_to_string(home.path("site.yaml")).unwrap();
    let of_lab = site.replacen("\ndata:\n", &format!("\ndata:\n  StackID: {id}\n"), 1);
    assert_ne!(of_lab, site);
    home.write("of-lab.yaml", &of_lab);
    home.write("other.yaml", &of_lab.replace(&id, "another"));
    let start = |site: &str| {
        let password = home.path(".local/state/layercake/site/password");
        let start = ["bootstrap", "start", "lab2", "--user", USER, "--password-file", &password, "-f"];
        home.layercake(&[&start[..], &[&home.path(site)]].concat(), 0);
    };
    start("other.yaml");
    let there = ["move", "--bootstrap", "lab", "--to-context", "layercake-lab2"];
    let (_, refused) = home.layercake(&there, 3);
    assert_contains(
        &refused,
        &["StackID of the target is another", &format!("set StackID: {id}"), "nothing was moved"],
    );
    start("of-lab.yaml");
    let (planned, copied) =
        home.layercake(&["move", "--bootstrap", "lab", "--to-context", "layercake-lab2", "--dry-run"], 0);
    assert_contains(&planned, &["namespace dev: move", "Machine 2"]);
    assert_contains(&copied, &["credentials of vCenter stay", "nothing was changed"]);
    let (_, moved) = home.layercake(&there, 0);
    assert_contains(&moved, &["dev/team: Running", "verified: the same 2 VMs"]);
    let back = ["move", "--bootstrap", "lab2", "--to-bootstrap", "lab", "-n", "dev"];
    let (_, moved) = home.layercake(&back, 0);
    assert_contains(&moved, &["dev/team: Running", "verified: the same 2 VMs"]);
    // The VMs are those of `lab`, too.
    home.layercake(&["bootstrap", "remove", "lab2", "--orphan"], 0);
}

/// A running cluster keeps the programs of the release that started it.
fn names_another_release_that_runs(home: &Home) {
    let version = home.path(".local/state/layercake/bootstrap/lab/version");
    let current = std::fs::read_to_string(&version).unwrap();
    let release = concat!("v", env!("CARGO_PKG_VERSION"));
    std::fs::write(&version, current.replace(release, "v0.0.9")).unwrap();
    let (_, printed) = home.layercake(&["bootstrap", "start", "lab"], 0);
    assert_contains(&printed, &["lab runs with layercake v0.0.9", "layercake bootstrap stop lab"]);
    std::fs::write(version, current).unwrap();
}

/// Each refusal names a remedy, has the documented exit status, and doesn't change anything. The bootstrap cluster
/// `lab` is running.
fn refuses_what_cannot_be(home: &Home) {
    let site = home.path("site.yaml");
    let state = Path::new(&home.path(".local/state/layercake/bootstrap")).to_owned();
    let write = |name: &str, file: &str, text: &str| {
        std::fs::create_dir_all(state.join(name)).unwrap();
        std::fs::write(state.join(name).join(file), text).unwrap();
    };
    let writer = |layercake: &str, kubernetes: &str| {
        format!(r#"{{"layout": 1, "layercake": "{layercake}", "kubernetes": "{kubernetes}"}}"#)
    };
    write("newer", "version", &writer("v99.0.0", "v1.36.3"));
    write("later", "version", &writer("v0.1.0", "v1.99.0"));
    for file in ["id", "place", "version", "settings"] {
        let text = std::fs::read_to_string(state.join("lab").join(file)).unwrap();
        write("copied", file, &text);
    }
    let readonly = home.path("readonly");
    std::fs::write(&readonly, "").unwrap();
    let mut permissions = std::fs::metadata(&readonly).unwrap().permissions();
    permissions.set_readonly(true);
    std::fs::set_permissions(&readonly, permissions).unwrap();
    home.write("password", "wrong");
    let wrong = home.path("password");
    let right = home.path(".local/state/layercake/site/password");
    let cases: &[(&[&str], i32, &[&str])] = &[
        (&["bootstrap", "start", "../lab"], 3, &["is not a name for a bootstrap cluster"]),
        (&["bootstrap", "start", "none"], 3, &["none does not exist", "pass a site file", "site discover"]),
        (&["bootstrap", "stop", "none"], 3, &["none does not exist", "bootstrap list"]),
        (&["list", "--bootstrap", "none"], 3, &["none does not exist"]),
        (
            &["list", "--bootstrap", "newer"],
            3,
            &["newer was last run by layercake v99.0.0", "v99.0.0 or later"],
        ),
        (&["bootstrap", "remove", "later"], 3, &["Kubernetes v1.99.0", "cannot read its objects"]),
        (&["bootstrap", "start", "copied"], 3, &["copied is a copy of", "Delete the copy"]),
        (
            &["bootstrap", "start", "lab", "--kubeconfig", &readonly],
            3,
            &["readonly is read-only", "--kubeconfig"],
        ),
        (
            &["bootstrap", "start", "other", "-f", &site, "--user", USER, "--password-file", &wrong],
            3,
            &["LC0304", "Correct --user or the password", "Nothing was changed"],
        ),
        (
            &["bootstrap", "start", "other", "--user", USER, "--password-file", &wrong],
            3,
            &["other does not exist", "pass a site file"],
        ),
        (
            &["bootstrap", "start", "other", "-f", &site, "--password-file", &wrong],
            2,
            &["--password-file needs --user"],
        ),
        (
            &["bootstrap", "start", "lab", "--password-file", &wrong],
            3,
            &["LC0304", "the password in --password-file", "Nothing was changed"],
        ),
        (&["bootstrap", "start", "lab", "--password-file", &right], 0, &["has the new password of vCenter"]),
        (
            &["apply", "-f", &site, "--bootstrap", "lab", "--context", "layercake-lab"],
            2,
            &["cannot be used with"],
        ),
    ];
    for (args, status, words) in cases {
        let (_, errors) = home.layercake(args, *status);
        assert_contains(&errors, words);
    }
    assert!(!state.join("other").exists(), "what was refused leaves nothing");
    for name in ["newer", "later", "copied"] {
        std::fs::remove_dir_all(state.join(name)).unwrap();
    }
    let (listed, _) = home.layercake(&["bootstrap", "list", "-o", "json"], 0);
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed["schema"], 1);
    assert_eq!(listed["bootstrapClusters"][0]["status"], "running");
    let lock = std::fs::File::options().write(true).open(state.join("lab/command.lock")).unwrap();
    lock.lock().unwrap();
    let (_, errors) = home.layercake(&["bootstrap", "stop", "lab"], 3);
    assert_contains(&errors, &["another command uses bootstrap cluster lab"]);
}
