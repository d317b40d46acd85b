//! The commands of docs/bootstrap.md: management clusters on this machine, and clusters that only a command manages.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;
use sim::VcenterEndpoint;
use sim::control::ControlApi;

use crate::harness::documented_commands::Page;
use crate::harness::own_server::exe;
use crate::harness::story::{assert_contains, story};

/// The user of the simulated vSphere.
const USER: &str = "administrator@vsphere.local";

#[test]
fn bootstrap_clusters_do_what_the_page_says() {
    story("bootstrap", |story| async move {
        let mut page = Page::open("bootstrap.md", story.shared);
        let home = Home(page.home());
        page.run_section("Start").await;
        refuses_what_cannot_be(&home);
        page.run_section("Create a cluster").await;
        page.run_section("Stop").await;
        page.run_section("Delete").await;
        page.run_section("Standalone clusters").await;
        page.close();
        assert_eq!(home.processes(), Vec::<String>::new());
    });
}

#[test]
fn a_bootstrap_cluster_that_is_killed_loses_and_doubles_no_vm() {
    story("bootstrap-killed", |_| async move {
        let folder = tempfile::tempdir().unwrap();
        let home = Home(folder.path().to_owned());
        let site = home.layercake(&["site", "simulate"], 0).0;
        home.write("site.yaml", &site);
        let apply = ["apply", "-f", &home.path("edge.yaml"), "--bootstrap", "edge"];
        let password = home.path(".local/state/layercake/site/password");
        let site = ["--site", &home.path("site.yaml"), "--user", USER, "--password-file", &password];
        home.write("edge.yaml", MANIFEST);
        let first = [apply.as_slice(), &site].concat();

        // At the first VM, at the second one, and when the change has just been made.
        home.kill_when(&first, "first VM created");
        home.kill_when(&apply, "API server up");
        let (_, errors) = home.layercake(&apply, 0);
        assert_contains(
            &errors,
            &["started management components", "Running", "stopped management components"],
        );
        assert_eq!(home.vms().await, 2);
        let scale = ["scale", "edge", "--replicas", "2", "-n", "dev", "--bootstrap", "edge"];
        home.kill_when(&scale, "scaling edge worker nodes");
        home.layercake(&scale, 0);
        assert_eq!(home.vms().await, 3);
        home.layercake(&["delete", "edge", "-n", "dev", "--bootstrap", "edge"], 0);
        assert_eq!(home.vms().await, 0);
        home.layercake(&["site", "stop"], 0);
        assert_eq!(home.processes(), Vec::<String>::new());
    });
}

const MANIFEST: &str = r"
apiVersion: run.tanzu.vmware.com/v1alpha3
kind: TanzuKubernetesCluster
metadata: {name: edge, namespace: dev}
spec:
  topology:
    controlPlane: {replicas: 1, vmClass: best-effort-small, storageClass: vsan-default-storage-policy, tkr: {reference: {name: v1.36}}}
    nodePools: [{name: workers, replicas: 1, vmClass: best-effort-small, storageClass: vsan-default-storage-policy}]
";

/// Each refusal names what helps, has its exit status, and changes nothing. Bootstrap cluster lab runs.
fn refuses_what_cannot_be(home: &Home) {
    let site = home.path("site.yaml");
    let state = home.0.join(".local/state/layercake/bootstrap");
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
            2,
            &["need a site file"],
        ),
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

/// The home folder of a user, whose processes in the background end with it.
struct Home(PathBuf);

impl Home {
    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.join(name), text).unwrap();
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(exe());
        command.args(args).env("HOME", &self.0).env("KUBECONFIG", self.0.join("kubeconfig"));
        command.env("LAYERCAKE_CACHE", plane::tools::cache_folder().unwrap()).env_remove("XDG_STATE_HOME");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// What a command prints on both streams, with the status that it must have.
    fn layercake(&self, args: &[&str], status: i32) -> (String, String) {
        let output = self.command(args).output().unwrap();
        let [printed, errors] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        eprintln!("$ layercake {}\n{errors}", args.join(" "));
        assert_eq!(output.status.code(), Some(status), "{args:?}: {errors}");
        (printed, errors)
    }

    /// Runs a command, and kills it and the bootstrap cluster when it prints these words.
    fn kill_when(&self, args: &[&str], words: &str) {
        let mut child = self.command(args).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let printed = lines.by_ref().map(|line| line.unwrap()).inspect(|line| eprintln!("{line}"));
        let is_there = { printed }.any(|line| line.contains(words));
        let status = child.try_wait().unwrap();
        assert!(is_there && status.is_none(), "{args:?} never printed {words:?}");
        let process =
            std::fs::read_to_string(self.0.join(".local/state/layercake/bootstrap/edge/process.lock"));
        for pid in [child.id().to_string(), process.unwrap()] {
            assert!(Command::new("kill").args(["-9", &pid]).status().unwrap().success());
        }
        child.wait().unwrap();
    }

    /// The VMs of cluster edge in the simulated vSphere.
    async fn vms(&self) -> usize {
        let record = std::fs::read(self.0.join(".local/state/layercake/site/process.json")).unwrap();
        let record: Value = serde_json::from_slice(&record).unwrap();
        let vcenter: VcenterEndpoint = serde_json::from_value(record["vcenter"].clone()).unwrap();
        let control = ControlApi::new(&vcenter.control, &vcenter.control_token().unwrap());
        let inventory = control.inventory().await.unwrap();
        inventory.vms.iter().filter(|vm| vm.name.starts_with("edge-")).count()
    }

    fn lock_files(&self) -> Vec<PathBuf> {
        let state = self.0.join(".local/state/layercake");
        let bootstrap = std::fs::read_dir(state.join("bootstrap")).into_iter().flatten();
        let folders = bootstrap.filter_map(|entry| Some(entry.ok()?.path())).chain([state.join("site")]);
        folders.map(|folder| folder.join("process.lock")).filter(|path| path.exists()).collect()
    }

    /// The processes in the background that run.
    fn processes(&self) -> Vec<String> {
        let held = self.lock_files().into_iter().filter(|path| {
            std::fs::File::options().write(true).open(path).is_ok_and(|file| file.try_lock().is_err())
        });
        held.filter_map(|path| std::fs::read_to_string(path).ok()).collect()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        for process in self.processes() {
            // Their guards end what they have started.
            let _ = Command::new("kill").args(["-9", &process]).status();
        }
    }
}
