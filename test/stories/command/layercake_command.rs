//! A new user runs the `layercake` command.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use layercake::args::SiteNetwork;
use serde_json::Value;
use tempfile::TempDir;

use crate::harness::command::{exe, layercake, texts};
use crate::harness::home::{Home, small_cluster};
use crate::harness::schedule;
use crate::harness::shared_stack::{other_network, other_wire};
use crate::harness::story::assert_contains;

/// Calls for VMs in a cluster module. A VM becomes a member before it is powered on.
const MODULE_CALLS: [&str; 2] = ["/cluster/modules", "PowerOnVM_Task"];
/// The limit of these calls: a power-on per VM, the modules of two groups, and at most one addition per VM.
const MOST_MODULE_CALLS: u64 = 6 + 2 * 2 + 6 + 1;

/// vCenter requests that don't belong to a single cluster: reading the images, and creating the golden template.
const LISTING: [&str; 7] = [
    "/content/",
    "/cis/data/",
    "/ovf/",
    "CreateSnapshot_Task",
    "MarkAsTemplate",
    "ReconfigVM_Task",
    "downloadsession",
];

/// The limit of the other vCenter requests for a cluster with six VMs. It includes a long poll response for each
/// guest's first boot report, and the session with which `up` lists the library's images.
const MOST_OWN_CALLS: u64 = 75 + 6 + 6;

#[test]
fn up_once_brings_the_seeds_cluster_up_from_a_release_without_network() {
    let _place = schedule::enter().wait();
    let own = up_once();
    if own > MOST_OWN_CALLS {
        // If the CPUs are busy, more changes arrive in separate responses, so try again.
        eprintln!("{own} requests for six VMs");
        let again = up_once();
        assert!(again <= MOST_OWN_CALLS, "{own} and {again} requests for six VMs");
    }
}

/// A release as its archive contains it, unpacked on a machine without network, compilers and earlier runs.
struct UnpackedRelease {
    folder: TempDir,
}

impl UnpackedRelease {
    /// Links this build's command beside the programs that it starts.
    fn new() -> Self {
        // The same file system as the command's, so that it can be linked.
        let release = Self { folder: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap() };
        for folder in ["bin", "home"] {
            fs::create_dir(release.folder.path().join(folder)).unwrap();
        }
        fs::hard_link(exe(), release.command()).unwrap();
        let programs: Vec<_> = plane::tools::control_plane().chain(sim::tools::programs()).collect();
        let (folder, go) =
            (release.folder.path().join("lib/layercake/tools"), plane::tools::go_version().unwrap());
        plane::tools::pack(&programs, &folder, "of this test", &go, &*plane::tools::progress()).unwrap();
        release
    }

    fn command(&self) -> PathBuf {
        self.folder.path().join("bin/layercake")
    }

    /// Returns the command in a network namespace without interfaces, and with an empty home. If this user can't create namespaces,
    /// the command has the machine's network.
    fn layercake(&self, args: &[&str]) -> Command {
        let alone = ["unshare", "--user", "--map-root-user", "--net", "sh", "-euc"];
        let script = "ip link set lo up; exec \"$@\"";
        let can_be_alone = Command::new(alone[0]).args(&alone[1..]).args([script, "sh", "true"]).output();
        let mut command = if can_be_alone.is_ok_and(|output| output.status.success()) {
            let mut command = Command::new(alone[0]);
            command.args(&alone[1..]).args([script, "sh"]).arg(self.command());
            command
        } else {
            eprintln!("skipped: a run without network, because unshare or ip does not work here");
            Command::new(self.command())
        };
        command.args(args).stdin(Stdio::null()).env_clear();
        command.env("HOME", self.folder.path().join("home")).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        if let Some(folder) = std::env::var_os("VCSIM_RECORD") {
            command.env("VCSIM_RECORD", folder);
        }
        command
    }
}

/// Runs the example cluster once, from a release. Returns how many vCenter requests are neither in `MODULE_CALLS` nor in `LISTING`.
fn up_once() -> u64 {
    let release = UnpackedRelease::new();
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/test-cluster.yaml");
    let wire = other_wire().name();
    let network = match other_network() {
        SiteNetwork::Nsx => "nsx",
        SiteNetwork::PortGroups => "port-groups",
    };
    let sites = ["up", "--once", "--wire", wire, "--network", network];
    let mut up = release.layercake(&sites);
    let run = up.args(["-f", manifest, "-o", "json", "--timeout", "12m"]).output().unwrap();
    let errors = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{errors}");
    let report: Value = serde_json::from_slice(&run.stdout).unwrap();
    eprintln!("{report:#}");
    let cluster = &report["clusters"][0];
    assert_eq!(cluster["phase"], "running");
    assert_eq!(cluster["controlPlane"], serde_json::json!({"ready": 3, "wanted": 3}));
    assert_eq!(cluster["workers"], serde_json::json!({"ready": 3, "wanted": 3}));
    assert!(cluster["blocking"].is_null());
    // Scripts rely on these fields.
    let (stack, vcenter) = (&report["stack"], &report["vcenter"]);
    assert_contains(&stack["kubeconfig"], &[stack["folder"].as_str().unwrap()]);
    assert_contains(&cluster["kubeconfig"], &[stack["folder"].as_str().unwrap(), "test-cluster"]);
    assert_contains(&vcenter["url"], &["https://127.0.0.1:"]);
    for file in ["passwordFile", "caFile"] {
        assert!(vcenter[file].is_string(), "{file}: {vcenter}");
    }
    let methods = report["vcenter"]["byMethod"].as_object().unwrap();
    assert_eq!(methods["CloneVM_Task"], 6);
    // The sum below doesn't count these calls, so check that they are made once and not per VM.
    for once in ["CreateSnapshot_Task", "MarkAsTemplate", "ReconfigVM_Task"] {
        assert_eq!(methods[once], 1, "{once}");
    }
    let sum = |counted: &dyn Fn(&str) -> bool| -> u64 {
        methods.iter().filter(|(method, _)| counted(method)).filter_map(|(_, count)| count.as_u64()).sum()
    };
    let of_modules = |method: &str| MODULE_CALLS.iter().any(|part| method.contains(part));
    let listing = |method: &str| LISTING.iter().any(|part| method.contains(part));
    assert!(sum(&of_modules) <= MOST_MODULE_CALLS, "{methods:?}");
    let own = sum(&|method| !of_modules(method) && !listing(method));
    eprintln!("{own} requests for six VMs: {methods:?}");
    assert_nothing_runs(&errors);
    own
}

fn assert_nothing_runs(output: &str) {
    let folder = output.lines().find_map(|line| line.strip_prefix("All files are in "));
    let folder = folder.expect("no folder is printed");
    assert!(!std::path::Path::new(folder).exists(), "{folder} is left");
    let left = processes_of(Path::new(folder));
    assert!(left.is_empty(), "{left:?} are left");
}

/// Returns the processes that belong to the stack with this folder, even if the folder is gone.
fn processes_of(folder: &Path) -> Vec<PathBuf> {
    let id = folder.to_str().unwrap().rsplit('-').next().unwrap();
    let mark = format!("LAYERCAKE_STACK={id}");
    let processes = std::fs::read_dir("/proc").unwrap().flatten().map(|process| process.path());
    let marked = |process: &PathBuf| {
        let environment = std::fs::read(process.join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
    };
    processes.filter(marked).collect()
}

#[test]
fn a_killed_stack_leaves_no_process_and_no_folder_and_up_says_so() {
    let _place = schedule::enter().wait();
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    home.write("cluster.yaml", &small_cluster("team", 0));
    let up = ["up", "--detach", "-f", &home.path("cluster.yaml")];
    let (mut up, printed) = home.start_until(&up, "Cluster API objects exist");
    let (_, refused) = home.layercake(&["up", "--detach"], 1);
    let ways = ["(process ", "export KUBECONFIG=/", "layercake down", "XDG_STATE_HOME="];
    assert_contains(&refused, &ways);
    let after =
        |words: &str, end: &str| refused.split_once(words).unwrap().1.split(end).next().unwrap().to_owned();
    let (process, kubeconfig) = (after("(process ", ")"), after("export KUBECONFIG=", ". To stop"));
    let stack = Path::new(&kubeconfig).parent().unwrap();
    assert_ne!(processes_of(stack), Vec::<PathBuf>::new());
    assert_is_healthy(&kubeconfig);
    // The stack can't clean up after SIGKILL, so the guard must.
    assert!(Command::new("kill").args(["-KILL", &process]).status().unwrap().success());
    let killed = Instant::now();
    while stack.exists() || !processes_of(stack).is_empty() {
        assert!(killed.elapsed() < Duration::from_secs(20), "{:?} are left", processes_of(stack));
        std::thread::sleep(Duration::from_millis(50));
    }
    let printed: Vec<_> = printed.collect();
    assert_eq!(up.wait().unwrap().code(), Some(1));
    assert_contains(printed.join("\n"), &["error: the stack in the background has ended"]);
    let of_a_running_stack = ["runs until", "memory: stack"];
    assert!(
        !printed.iter().any(|line| of_a_running_stack.iter().any(|words| line.contains(words))),
        "{printed:?}"
    );
}

/// The user's system allows too few inotify instances. `up` names the limit, because Cluster API's managers only exit
/// with "too many open files".
#[test]
fn up_names_the_limit_of_inotify_instances() {
    let _place = schedule::enter().wait();
    let mut unshare = Command::new("unshare");
    unshare.args(["--user", "--map-root-user", "sh", "-euc"]);
    unshare.arg(r#"echo 3 >/proc/sys/user/max_inotify_instances; exec "$0" up --once"#);
    let run = unshare.arg(env!("CARGO_BIN_EXE_layercake")).output().unwrap();
    let errors = String::from_utf8_lossy(&run.stderr);
    if errors.starts_with("unshare: ") {
        eprintln!("skipped: {errors}");
        return;
    }
    assert!(!run.status.success(), "{errors}");
    let words = ["needs 8 inotify instances", "only 3 more", "sysctl fs.inotify.max_user_instances=1024"];
    assert_contains(&errors, &words);
}

/// Checks that the doctor doesn't find errors on a new site, within three seconds.
fn assert_is_healthy(kubeconfig: &str) {
    // Other stories may use all CPUs for a while, so only the fastest run counts.
    let mut times = Vec::new();
    while !times.iter().any(|took| *took < Duration::from_secs(3)) {
        assert!(times.len() < 5, "{times:?}");
        let started = Instant::now();
        let found = layercake(&["doctor", "--kubeconfig", kubeconfig]).output().unwrap();
        times.push(started.elapsed());
        let (report, errors) = texts(&found);
        assert_eq!(found.status.code(), Some(0), "{report}{errors}");
        eprintln!("doctor: {times:?}\n{report}");
    }
}

#[test]
fn up_starts_no_stack_for_a_manifest_with_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    home.write("cluster.yaml", &small_cluster("team", 0).replace("vmClass", "vmclas"));
    let (_, refused) = home.layercake(&["up", "--once", "-f", &home.path("cluster.yaml")], 3);
    let words = [
        "cluster.yaml:7: error: spec.topology.controlPlane.vmclas: ",
        "Did you mean vmClass?",
        "no stack was started",
    ];
    assert_contains(&refused, &words);
    assert!(!refused.contains("All files are in"), "{refused}");
}

#[test]
fn a_refused_manifest_does_not_stop_the_others() {
    let _place = schedule::enter().wait();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("clusters.yaml");
    let cluster = |name: &str, annotations: &str| {
        format!(
            "apiVersion: run.tanzu.vmware.com/v1alpha3\nkind: TanzuKubernetesCluster\nmetadata:\n  name: {name}\n  namespace: demo\n  annotations: {annotations}\nspec:\n  distribution: {{version: v1.35}}\n  topology:\n    controlPlane: {{replicas: 1, vmClass: not-there, storageClass: gold}}\n    nodePools: [{{name: p, replicas: 1, vmClass: not-there, storageClass: gold}}]\n---\n"
        )
    };
    // `lint` can't refuse this manifest, because only the cluster knows the releases' labels.
    let query = "{run.tanzu.vmware.com/resolve-tkr: track=none}";
    std::fs::write(&path, cluster("refused", query) + &cluster("late", "{}")).unwrap();
    let up = ["up", "--once", "-f", path.to_str().unwrap(), "-o", "json", "--timeout", "30s"];
    let run = layercake(&up).output().unwrap();
    let output = String::from_utf8_lossy(&run.stderr);
    assert_eq!(run.status.code(), Some(1), "{output}");
    let report: Value = serde_json::from_slice(&run.stdout).unwrap();
    let refused = &report["clusters"][0];
    assert_eq!((&refused["name"], &refused["phase"]), (&"refused".into(), &"refused".into()), "{report}");
    assert_contains(&refused["blocking"]["message"], &["unable to find a compatible full version"]);
    assert_eq!(report["clusters"][1]["phase"], "creating", "{report}");
    assert!(report["clusters"][1]["blocking"]["object"].is_string(), "{report}");
    assert_contains(&output, &["applied TanzuKubernetesCluster demo/late"]);
    assert_nothing_runs(&output);
}

#[test]
fn a_wrong_command_line_or_manifest_is_a_usage_error() {
    let run = layercake(&["up", "--once", "-f", "/nonexistent/cluster.yaml"]).output().unwrap();
    assert_eq!(run.status.code(), Some(2));
    assert_contains(String::from_utf8_lossy(&run.stderr), &["/nonexistent/cluster.yaml"]);
    assert_eq!(layercake(&["up", "--no-such-flag"]).output().unwrap().status.code(), Some(2));
}

#[test]
fn lint_finds_what_is_wrong_without_a_cluster() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cluster.yaml");
    let text = "apiVersion: run.tanzu.vmware.com/v1alpha3\nkind: TanzuKubernetesCluster\nmetadata: {name: c}\nspec:\n  topology:\n    controlPlane: {count: 1, class: best-effort-small, storageClass: gold}\n    workers: {count: 1, class: best-effort-small, storageClass: gold}\n";
    std::fs::write(&path, text).unwrap();
    let run = layercake(&["lint", path.to_str().unwrap()]).output().unwrap();
    assert_eq!(run.status.code(), Some(1));
    let (printed, errors) = texts(&run);
    assert_contains(printed + &errors, &["spec.topology.workers", "nodePools", "replicas", "vmClass"]);
    let good = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/test-cluster.yaml");
    assert_eq!(layercake(&["lint", good]).output().unwrap().status.code(), Some(0));
}
