//! An empty API server for one story, and `kubectl` for it.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use components::catalogue::Registries;
use components::manifest::DEFINITION;
use components::plan::{self, InstallationObjects};
use components::render::{Certificates, NodeNetworkProvider, Options};
use kube::Client;
use layercake::kube::manifest;
use plane::{Guard, Plane, Program, Running};
use serde_json::{Value, json};

use crate::harness::command::{exe, layercake};
use crate::harness::story::Story;

/// The server and its guard.
pub struct OwnServer {
    pub guard: Guard,
    pub plane: Plane,
}

impl OwnServer {
    /// Starts a server with Kubernetes' own kinds and these CRDs.
    pub async fn start(story: &Story, definitions: Vec<Value>) -> Self {
        let (guard, options) = prepare_stack(story, definitions);
        Self { guard, plane: Plane::empty(options).await.expect("a server") }
    }

    /// Returns an administrator's client.
    pub fn client(&self) -> Client {
        self.plane.client()
    }

    /// Applies documents as `kubectl apply --server-side` does, with strict validation. Warnings are errors.
    pub fn apply(&self, what: &str, documents: &[Value]) {
        apply(self.plane.kubeconfig(), what, documents);
    }

    /// Checks with a dry run that the server would create these objects.
    pub fn try_create(&self, what: &str, documents: &[Value]) {
        let strictly = ["create", "--dry-run=server", "--validate=strict"];
        pipe(self.plane.kubeconfig(), what, &strictly, documents);
    }

    /// Waits until all CRDs are served.
    pub fn wait_until_served(&self) {
        wait_until_served(self.plane.kubeconfig());
    }

    /// Returns the outcomes of the doctor's checks, by code. If several checks have the same code, the last one wins.
    pub fn doctor(&self, args: &[&str]) -> BTreeMap<String, String> {
        let mut doctor = layercake(&["doctor", "-o", "json", "--kubeconfig"]);
        let output = doctor.arg(self.plane.kubeconfig()).args(args).output().expect("the doctor");
        let report: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
        let text = |check: &Value, member: &str| check[member].as_str().expect("a text").to_owned();
        let checks = report["checks"].as_array().expect("checks").iter();
        for wrong in checks.clone().filter(|check| check["outcome"] != "ok") {
            eprintln!("{wrong}");
        }
        checks.map(|check| (text(check, "code"), text(check, "outcome"))).collect()
    }

    /// Runs `layercake` with this server's kubeconfig, and returns its exit status and stderr.
    pub fn layercake(&self, args: &[&str]) -> (Option<i32>, String) {
        let mut command = layercake(args);
        let output = command.arg("--kubeconfig").arg(self.plane.kubeconfig()).output().expect("an output");
        (output.status.code(), String::from_utf8(output.stderr).expect("text"))
    }

    /// Starts a program with the configuration in `documents`, but without webhooks.
    pub async fn run(&self, name: &str, documents: &[Value], args: &[&str]) -> Running {
        let program = Program::new(name, exe()).configured_by(documents.to_vec()).without_webhooks();
        let program = args.iter().fold(program, Program::arg);
        self.plane.run(program).await.unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Stops the server and cleans up.
    pub async fn stop(self) {
        self.plane.stop().await;
        tokio::task::spawn_blocking(move || self.guard.finish()).await.expect("joined").expect("clean");
    }
}

/// Returns the guard of a new stack, and the options to start a control plane with these CRDs in it.
pub fn prepare_stack(story: &Story, definitions: Vec<Value>) -> (Guard, plane::Options) {
    let stack = Arc::new(plane::StackIdentity::ephemeral().expect("a stack"));
    let guard = Guard::start(exe(), &stack).expect("a guard");
    (guard, plane::Options { stack, tools: story.shared.tools.clone(), definitions, guest_proxy: None })
}

/// Applies documents as `kubectl apply --server-side` does, with strict validation. Warnings are errors.
///
/// It uses the plane's field manager, so that the plane can override fields of these documents, such as webhook addresses.
pub fn apply(kubeconfig: &Path, what: &str, documents: &[Value]) {
    let strictly = ["apply", "--server-side", "--validate=strict", "--field-manager=layercake"];
    pipe(kubeconfig, what, &strictly, documents);
}

/// Waits until all CRDs are served.
pub fn wait_until_served(kubeconfig: &Path) {
    let all = ["wait", "crd", "--all", "--for=condition=Established", "--timeout=60s"];
    let output = kubectl(kubeconfig).args(all).output().expect("kubectl");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn pipe(kubeconfig: &Path, what: &str, args: &[&str], documents: &[Value]) {
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": documents });
    let mut running = kubectl(kubeconfig)
        .args(args)
        .args(["-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("kubectl");
    running.stdin.take().expect("its input").write_all(list.to_string().as_bytes()).expect("written");
    let output = running.wait_with_output().expect("its end");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what}: {errors}");
    assert!(!errors.contains("Warning"), "{what}: {errors}");
}

/// Returns kubectl with this kubeconfig.
pub fn kubectl(kubeconfig: &Path) -> Command {
    let mut command = Command::new(crate::harness::shared_stack::build_tool(&plane::tools::KUBECTL));
    command.arg("--kubeconfig").arg(kubeconfig);
    command
}

/// Returns Layercake's CRDs, as `layercake manifests` prints them.
pub fn definitions() -> Vec<Value> {
    installed().definitions().cloned().collect()
}

/// Returns the objects of one of Layercake's programs without CRDs, as `layercake manifests` prints them.
pub fn installed_program(name: &str) -> Vec<Value> {
    let mut command = layercake(&["manifests", "--component", name, "--webhook-certificates", "own"]);
    let output = command.output().expect("layercake manifests");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let documents = manifest::documents(&String::from_utf8_lossy(&output.stdout)).expect("manifests");
    documents.into_iter().filter(|document| document["kind"] != DEFINITION).collect()
}

fn installed() -> InstallationObjects {
    let options = Options {
        registries: Registries::default(),
        certificates: Certificates::Own,
        networks: NodeNetworkProvider::PortGroups,
        nodes_pull_images: false,
        programs: BTreeMap::new(),
    };
    plan::installation(&options, &[], &BTreeMap::new()).expect("an installation")
}

/// Fails the story if the program's log contains a denied request, because its role in config/ lacks a permission.
pub fn assert_no_right_is_missing(program: &Running) {
    let log = std::fs::read_to_string(program.log()).expect("its log");
    let refused = |line: &&str| {
        line.contains("is forbidden: User") && line.contains("system:serviceaccount:vmware-system-")
    };
    let refused: Vec<_> = log.lines().filter(refused).take(3).collect();
    assert!(refused.is_empty(), "{} lacks rights: {refused:#?}", program.name());
}
