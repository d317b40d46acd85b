//! A site whose nodes are QEMU machines, and the workload cluster on them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::core::v1::{Node, Secret};
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, PostParams};
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, ResourceExt};
use layercake::args::{RegistryAccess, SiteNetwork, VimProtocol};
use layercake::kube::manifest;
use layercake::local::guarded::StackPrograms;
use layercake::local::stack::{Options, Stack};
use layercake::local::up::prepare;
use serde_json::{Value, json};
use sim::BootImage;
use sim::control::{ControlApi, PowerAction};
use sim::qemu::console_log;
use support::wait::poll;

use crate::harness::schedule;
use crate::harness::shared_stack::{RUNTIME, build_tool, programs};
use crate::harness::story::{api_resource, is_ready, merge};

/// The variable for the OVA that the machines boot. Stories are skipped if it isn't set.
const IMAGE: &str = "LAYERCAKE_NODE_IMAGE";
/// The variable for an OVA with the images for a management cluster.
const MANAGEMENT_IMAGE: &str = "LAYERCAKE_MANAGEMENT_IMAGE";
/// The clusters' namespace.
pub const NAMESPACE: &str = "real";
/// The deadline for two consecutive boots on emulated machines, on a host that also runs other programs.
pub const BOOTS: Duration = Duration::from_mins(40);
/// The deadline for Pods on emulated machines. Other programs can keep the host busy for a quarter of an hour.
const PODS: Duration = BOOTS;
/// An image with a shell, a web server and an HTTP client. Every node image contains it.
const TOOLBOX: &str = api::names::KEEPALIVED_IMAGE;
const BUSYBOX: &str = "/usr/bin/busybox";
/// kubectl errors if the API server or the kubelet doesn't answer in time.
const NO_ANSWER: [&str; 4] = ["Unable to connect to the server", "timeout", "connection refused", "EOF"];

/// Runs steps on a site whose nodes are QEMU machines, or prints why they are skipped.
pub fn on_real_site(steps: impl AsyncFnOnce(&RealSite, &str)) {
    on_site_of(IMAGE, steps);
}

/// Same as [`on_real_site`], with machines that contain the images for all programs of a management cluster.
pub fn on_management_site(steps: impl AsyncFnOnce(&RealSite, &str)) {
    on_site_of(MANAGEMENT_IMAGE, steps);
}

fn on_site_of(variable: &str, steps: impl AsyncFnOnce(&RealSite, &str)) {
    let Some(image) = std::env::var_os(variable).map(PathBuf::from) else {
        eprintln!(
            "SKIPPED: {variable} names no node image: docs/contributing/evidence.md has the command that builds it"
        );
        return;
    };
    if let Err(error) = RUNTIME.block_on(sim::qemu::check_host()) {
        eprintln!("SKIPPED: {error}");
        return;
    }
    let waiting = schedule::enter();
    RUNTIME.block_on(async {
        let place = waiting.place().await;
        let image = BootImage::open(&image).unwrap();
        let release = image.name.rsplit_once("amd64-").unwrap().1.to_owned();
        let site = RealSite::start(image).await;
        let run = std::panic::AssertUnwindSafe(place.run(steps(&site, &release)));
        let outcome = futures::FutureExt::catch_unwind(run).await;
        if outcome.is_err() {
            site.print_diagnostics().await;
        }
        site.stack.stop().await;
        if let Err(panic) = outcome {
            std::panic::resume_unwind(panic);
        }
    });
}

/// A site whose nodes are QEMU machines.
pub struct RealSite {
    pub stack: Stack,
    client: Client,
    pub control: ControlApi,
    started: Instant,
}

impl RealSite {
    async fn start(image: BootImage) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let options = Options {
            needs: StackPrograms { exe: programs(), given: BTreeMap::new(), further: sim::tools::programs() },
            wire: VimProtocol::default(),
            network: SiteNetwork::PortGroups,
            registry: RegistryAccess::Unreachable,
            nodes: sim::NodeRuntime::Qemu(vec![image]),
            vmop: Vec::new(),
            gcm: Vec::new(),
        };
        let started = Instant::now();
        let stack = Stack::start(&options).await.unwrap_or_else(|error| panic!("{error:#}"));
        eprintln!(
            "machines are run by {:?}",
            stack.site().hypervisor().map(sim::qemu::Hypervisor::accelerator)
        );
        let session = stack.session();
        Self { client: session.client().await.unwrap(), control: session.control().unwrap(), stack, started }
    }

    pub async fn apply(&self, object: &Value) {
        let documents = manifest::documents(&object.to_string()).unwrap();
        let placement = self.stack.session().placement();
        prepare::prepare_namespaces(&self.client, &documents, &placement).await.unwrap();
        layercake::kube::apply::apply(&self.client, object).await.unwrap();
    }

    pub async fn patch(&self, kind: &str, name: &str, patch: &Value) {
        merge(&self.api(kind), name, patch).await.unwrap();
    }

    pub async fn get(&self, kind: &str, name: &str) -> Option<Value> {
        Some(json!(self.api(kind).get_opt(name).await.ok()??))
    }

    /// Writes the private key for the cluster's nodes to a file that only its owner can read, and returns the path.
    pub async fn ssh_key(&self) -> PathBuf {
        use std::os::unix::fs::OpenOptionsExt as _;
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), NAMESPACE);
        let data = secrets.get("real-ssh").await.unwrap().data.unwrap();
        let path = self.folder().join("ssh-key");
        let mut file =
            std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).unwrap();
        std::io::Write::write_all(&mut file, &data["ssh-privatekey"].0).unwrap();
        path
    }

    async fn list(&self, kind: &str) -> Vec<Value> {
        let all = self.api(kind).list(&ListParams::default()).await.unwrap().items;
        all.iter().map(|object| json!(object)).collect()
    }

    fn api(&self, kind: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), NAMESPACE, &api_resource(kind))
    }

    pub async fn wait_for<T>(&self, what: &str, deadline: Duration, look: impl AsyncFn() -> Option<T>) -> T {
        let found = poll(what, deadline, || look()).await.unwrap_or_else(|late| panic!("{late}"));
        eprintln!("{:6.1} s  {what}", self.started.elapsed().as_secs_f64());
        found
    }

    /// Returns the managed object IDs of the cluster's VMs.
    pub async fn vms(&self) -> Vec<String> {
        let vms = self.list("VirtualMachine").await;
        vms.iter().map(|vm| vm["status"]["uniqueID"].as_str().unwrap().to_owned()).collect()
    }

    /// Asserts that cloud-init has removed its userdata, and that the guest has reported its address and a successful boot.
    pub async fn assert_guestinfo(&self, moid: &str) {
        let info = self.control.guestinfo(moid).await.unwrap();
        let value = |key: &str| info.get(&format!("guestinfo.{key}")).map(String::as_str).unwrap_or_default();
        let userdata = value("userdata");
        assert!(matches!(userdata, "" | "---"), "{moid} has userdata of {} bytes", userdata.len());
        assert!(value("local-ipv4").starts_with("10."), "{moid} reports {:?}", value("local-ipv4"));
        assert_eq!(value("vmservice.bootstrap.condition"), "true", "{moid}");
    }

    /// Resets the worker's VM as vCenter does, and waits until the same node is back.
    pub async fn reboot_worker(&self, guest: &RealWorkloadCluster) {
        let worker = guest.nodes().await.into_iter().find(|node| !is_control_plane(node)).unwrap();
        let boot_id = |node: &Node| node.status.as_ref()?.node_info.as_ref().map(|info| info.boot_id.clone());
        let vm = self.get("VirtualMachine", &worker.name_any()).await.unwrap();
        let moid = vm["status"]["uniqueID"].as_str().unwrap();
        // A reset loses data that isn't written to disk yet, as on any machine.
        guest.sync_disks(&worker.name_any()).await;
        self.control.power(moid, PowerAction::Reset).await.unwrap();
        let seen = std::sync::Mutex::new(String::new());
        self.wait_for("the worker is back", BOOTS, async || {
            match console_log(&self.folder(), moid) {
                Some(console) => *seen.lock().unwrap() = plane::process::tail(&console, 0, 60),
                None => panic!("the worker was replaced; the end of its console:\n{}", seen.lock().unwrap()),
            }
            let now = guest.nodes().await.into_iter().find(|node| node.name_any() == worker.name_any())?;
            (boot_id(&now) != boot_id(&worker) && is_ready(&now)).then_some(())
        })
        .await;
        guest.assert_answer("after the reboot").await;
    }

    pub async fn delete_all(&self) {
        let memory = plane::memory::of(&self.stack.session().stack);
        let machines = memory.iter().filter(|(name, _)| name.starts_with("machine-"));
        eprintln!("memory, MiB: {:?}", machines.collect::<Vec<_>>());
        self.api("TanzuKubernetesCluster").delete("real", &DeleteParams::default()).await.unwrap();
        self.wait_for("the cluster is gone", PODS, async || {
            self.get("TanzuKubernetesCluster", "real").await.is_none().then_some(())
        })
        .await;
        let inventory = self.control.inventory().await.unwrap();
        let left: Vec<_> = inventory.vms.iter().filter(|vm| !vm.template).map(|vm| &vm.name).collect();
        assert!(left.is_empty(), "{left:?}");
        let disks = self.folder().join("machines/disks");
        self.wait_for("no disk is left", PODS, async || {
            std::fs::read_dir(&disks).unwrap().next().is_none().then_some(())
        })
        .await;
        let running = plane::memory::of(&self.stack.session().stack);
        assert!(!running.keys().any(|name| name.starts_with("machine-")), "{running:?}");
    }

    /// Returns this host's address in the machines' network.
    pub fn host_address(&self) -> std::net::IpAddr {
        sim::qemu::host_address(self.stack.site().subnet().number()).into()
    }

    pub fn folder(&self) -> PathBuf {
        self.stack.session().folder
    }

    async fn print_diagnostics(&self) {
        eprintln!("logs: {}", self.folder().join("logs").display());
        for cluster in self.list("TanzuKubernetesCluster").await {
            let name = cluster["metadata"]["name"].as_str().unwrap_or_default();
            match layercake::describe::describe(&self.client, NAMESPACE, name).await {
                Ok(description) => eprintln!("{}", description.text(false)),
                Err(error) => eprintln!("{error:#}"),
            }
        }
        for vm in self.list("VirtualMachine").await {
            let moid = vm["status"]["uniqueID"].as_str().unwrap_or_default();
            let Some(console) = console_log(&self.folder(), moid) else { continue };
            eprintln!(
                "the end of {}'s console:\n{}",
                vm["metadata"]["name"],
                plane::process::tail(&console, 0, 40)
            );
        }
    }
}

/// The workload cluster on the machines.
pub struct RealWorkloadCluster {
    pub client: Client,
    kubectl: PathBuf,
    pub kubeconfig: PathBuf,
}

impl RealWorkloadCluster {
    pub async fn of(site: &RealSite) -> Self {
        let secrets: Api<Secret> = Api::namespaced(site.client.clone(), NAMESPACE);
        let secret = secrets.get("real-kubeconfig").await.unwrap();
        let text = String::from_utf8(secret.data.unwrap()["value"].0.clone()).unwrap();
        let kubeconfig = site.folder().join("guest.kubeconfig");
        std::fs::write(&kubeconfig, &text).unwrap();
        let client = layercake::kube::connection::client(Some(&kubeconfig), None).await.unwrap();
        Self { client, kubectl: build_tool(&plane::tools::KUBECTL), kubeconfig }
    }

    /// Returns the user name that the API server derives from a token, or the error.
    pub async fn user_of(&self, token: &str) -> Result<String, String> {
        let kubeconfig = Kubeconfig::read_from(&self.kubeconfig).unwrap();
        let mut config =
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        config.auth_info = AuthInfo { token: Some(token.to_owned().into()), ..AuthInfo::default() };
        let reviews: Api<SelfSubjectReview> = Api::all(Client::try_from(config).unwrap());
        let review = reviews.create(&PostParams::default(), &SelfSubjectReview::default()).await;
        let user = review.map_err(|error| error.to_string())?.status.and_then(|status| status.user_info);
        user.and_then(|user| user.username).ok_or_else(|| "no name".to_owned())
    }

    pub async fn nodes(&self) -> Vec<Node> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        nodes.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default()
    }

    pub async fn wait_for_nodes(&self, count: usize) {
        let ready = poll("the nodes are ready", PODS, || async {
            let nodes = self.nodes().await;
            (nodes.len() == count && nodes.iter().all(is_ready)).then_some(())
        });
        ready.await.unwrap_or_else(|late| panic!("{late}"));
    }

    /// Returns kubectl's output. Repeats the call while the API server doesn't answer, because emulated machines are slow.
    pub async fn kubectl(&self, args: &[&str], input: Option<&Path>) -> Result<String, String> {
        let answered = poll("an API server that answers", BOOTS, async || {
            let result = self.kubectl_once(args, input).await;
            let is_late =
                result.as_ref().is_err_and(|error| NO_ANSWER.iter().any(|words| error.contains(words)));
            (!is_late).then_some(result)
        });
        answered.await.unwrap_or_else(|late| Err(late.to_string()))
    }

    async fn kubectl_once(&self, args: &[&str], input: Option<&Path>) -> Result<String, String> {
        let mut command = Command::new(&self.kubectl);
        command.arg("--kubeconfig").arg(&self.kubeconfig).arg("--request-timeout=2m").args(args);
        if let Some(input) = input {
            command.stdin(std::fs::File::open(input).unwrap());
        }
        let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            return Ok(text);
        }
        Err(format!("kubectl {args:?}: {}", String::from_utf8_lossy(&output.stderr)))
    }

    pub async fn wait_for_output(
        &self,
        what: &str,
        args: &[&str],
        is_right: impl Fn(&str) -> bool,
    ) -> String {
        let last = std::sync::Mutex::new(String::new());
        let found = poll(what, PODS, || async {
            let output = self.kubectl(args, None).await;
            let text = output.clone().unwrap_or_else(|error| error);
            last.lock().unwrap().clone_from(&text);
            output.ok().filter(|text| is_right(text))
        });
        found.await.unwrap_or_else(|late| panic!("{late}; last: {}", last.lock().unwrap()))
    }

    /// Applies objects as a user of kubectl does.
    pub async fn apply(&self, objects: &Value) {
        let file = self.kubeconfig.with_file_name("objects.json");
        std::fs::write(&file, objects.to_string()).unwrap();
        self.kubectl(&["apply", "-f", "-"], Some(&file)).await.unwrap();
    }

    /// Asserts that a Deployment's Pods on the worker answer through their Service, by its name.
    pub async fn assert_pods_serve(&self) {
        self.apply(&workload()).await;
        let rolled_out = ["rollout", "status", "deployment/web", "--timeout=40m"];
        self.wait_for_output("the Deployment's pods run", &rolled_out, |_| true).await;
        self.assert_answer("at first").await;
        let logs = ["logs", "deployment/web"];
        self.wait_for_output("the log of a pod", &logs, |text| text.contains("response:200")).await;
    }

    /// Asserts that Pods on the worker answer a client on the control plane node, by the Service's name.
    async fn assert_answer(&self, when: &str) {
        let wget = "wget -T 20 -q -O - http://web/hostname".split(' ');
        let ask: Vec<_> = ["exec", "daemonset/toolbox", "--", BUSYBOX].into_iter().chain(wget).collect();
        let answer =
            self.wait_for_output(&format!("an answer {when}"), &ask, |text| text.starts_with("web-")).await;
        eprintln!("{when}, {answer:?} answers");
    }

    async fn sync_disks(&self, node: &str) {
        let on_node = format!("spec.nodeName={node}");
        let toolbox = ["get", "pods", "-l", "app=toolbox", "-o", "name", "--field-selector", &on_node];
        let toolbox = self.kubectl(&toolbox, None).await.unwrap();
        self.kubectl(&["exec", toolbox.trim(), "--", BUSYBOX, "sync"], None).await.unwrap();
    }

    /// Asserts that etcd's files contain a Secret only in encrypted form, and that the audit log names its user but not its content.
    pub async fn assert_secrets_are_encrypted_and_logged(&self) {
        const VALUE: &str = "prefix-of-hidden-value";
        let literal = format!("--from-literal=a={VALUE}");
        self.kubectl(&["create", "secret", "generic", "hidden", &literal], None).await.unwrap();
        let node = self.nodes().await.into_iter().find(is_control_plane).unwrap();
        let on_node = format!("spec.nodeName={}", node.name_any());
        let toolbox = ["get", "pods", "-l", "app=toolbox", "-o", "name", "--field-selector", &on_node];
        let toolbox = self.kubectl(&toolbox, None).await.unwrap();
        let shell = async |script: &str| {
            let command = ["exec", toolbox.trim(), "--", BUSYBOX, "sh", "-c", script];
            self.kubectl(&command, None).await.unwrap()
        };
        let grep = format!("{BUSYBOX} grep -rF");
        let log = shell(&format!("{grep}h '\"name\":\"hidden\"' /host/var/log/kubernetes/audit.log")).await;
        assert!(log.contains("kubernetes-admin") && !log.contains(VALUE), "{log}");
        let etcd = "/host/var/lib/etcd/member/wal";
        let encrypted = shell(&format!("{grep}l k8s:enc:aescbc:v1:key1: {etcd} || echo none")).await;
        assert!(encrypted.contains(".wal"), "{encrypted}");
        let readable = shell(&format!("{grep}l {VALUE} {etcd} || echo none")).await;
        assert_eq!(readable.trim(), "none");
    }

    /// Asserts that cloud-init has no warnings, that volumes are separate file systems, and that flannel's interface has its link file.
    pub async fn assert_no_warnings_and_disks(&self) {
        let pods = self.kubectl(&["get", "pods", "-l", "app=toolbox", "-o", "name"], None).await.unwrap();
        assert_eq!(pods.lines().count(), 2, "{pods}");
        let mut mounts = String::new();
        for pod in pods.lines() {
            let cat = |file| ["exec", pod, "--", BUSYBOX, "cat", file];
            let status = self.kubectl(&cat("/host/run/cloud-init/status.json"), None).await.unwrap();
            let status: Value = serde_json::from_str(&status).unwrap();
            for (stage, found) in status["v1"].as_object().unwrap() {
                let complaints = [&found["errors"], &found["recoverable_errors"]];
                let none = |what: &&Value| {
                    what.as_array().is_none_or(Vec::is_empty)
                        && what.as_object().is_none_or(serde_json::Map::is_empty)
                };
                assert!(complaints.iter().all(none), "{stage}: {found}");
            }
            mounts += &self.kubectl(&cat("/proc/mounts"), None).await.unwrap();
            let links =
                ["exec", pod, "--", BUSYBOX, "grep", "-rh", "ID_NET_LINK_FILE", "/host/run/udev/data"];
            // Pods can answer before udev has recorded the interface.
            let is_recorded = |links: &str| links.contains("/etc/systemd/network/10-flannel.link");
            self.wait_for_output("the link file of flannel's interface", &links, is_recorded).await;
        }
        for place in ["/host/var/lib/etcd", "/host/var/lib/containerd"] {
            assert!(mounts.contains(&format!(" {place} ext4 ")), "{place}: {mounts}");
        }
    }
}

/// Returns a web server, its Service, and a toolbox on every node that mounts the host's files.
fn workload() -> Value {
    // The kernel ignores SIGTERM for a first process without a handler, and a node that shuts down waits 90 s for it. The shell
    // handles it.
    let container = |program: &str| {
        let script = format!("trap 'exit 0' TERM; {BUSYBOX} {program} & wait");
        json!({
            "name": "main", "image": TOOLBOX, "imagePullPolicy": "Never", "command": [BUSYBOX, "sh", "-c", script],
        })
    };
    let mut server = container("httpd -f -v -p 8080 -h /etc");
    server["readinessProbe"] = json!({"httpGet": {"path": "/hostname", "port": 8080}});
    let mut toolbox = container("sleep 1000000");
    toolbox["volumeMounts"] = json!([{"name": "host", "mountPath": "/host", "readOnly": true, "mountPropagation": "HostToContainer"}]);
    let controller = |kind: &str, name: &str, mut spec: Value| {
        spec["terminationGracePeriodSeconds"] = json!(1);
        let labels = json!({"app": name});
        json!({
            "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": "default"},
            "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}},
        })
    };
    let privileged = json!({"pod-security.kubernetes.io/enforce": "privileged"});
    json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default", "labels": privileged}},
        controller("Deployment", "web", json!({"containers": [server]})),
        controller("DaemonSet", "toolbox", json!({
            "containers": [toolbox], "tolerations": [{"operator": "Exists"}],
            "volumes": [{"name": "host", "hostPath": {"path": "/"}}],
        })),
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default"},
         "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]}},
    ]})
}

/// Returns true for a control plane node.
pub fn is_control_plane(node: &Node) -> bool {
    node.labels().contains_key("node-role.kubernetes.io/control-plane")
}
