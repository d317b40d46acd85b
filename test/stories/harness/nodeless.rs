//! A Kubernetes cluster without nodes: an API server, Kubernetes' controllers, and replacements for kubelet and kube-proxy.
//!
//! Each Deployment's program runs as a process, with the Deployment's arguments, its ServiceAccount's token and the Secret that it
//! mounts. The API server calls webhooks through Service names and addresses, and only trusts the CA certificates in the webhook
//! configurations.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use components::catalogue::{COMPONENTS, Component, Registries};
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{PodSpec, Secret, Service, ServicePort};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::api::{ListParams, Patch, PatchParams};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt};
use plane::{Guard, Plane, Running};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufStream, copy_bidirectional};
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::harness::command::exe;
use crate::harness::own_server::prepare_stack;
use crate::harness::story::Story;

/// The interval between attempts to start a Pod.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);

pub struct Nodeless {
    guard: Guard,
    plane: Arc<Plane>,
    kubelet: (oneshot::Sender<()>, JoinHandle<()>),
    proxy: JoinHandle<()>,
    pods: Pods,
    published: Published,
}

/// The running Pods by namespace. Each program has its own namespace.
type Pods = Arc<Mutex<BTreeMap<String, Pod>>>;

type Published = Arc<Mutex<Vec<Registries>>>;

/// The only Pod of a Deployment.
struct Pod {
    program: Running,
    labels: BTreeMap<String, String>,
    /// The names of its container ports.
    ports: Vec<String>,
}

impl Nodeless {
    /// Starts an empty cluster. `args` are additional program arguments, by program.
    pub async fn start(story: &Story, args: &'static [(&'static str, &'static str)]) -> Self {
        let (guard, options) = prepare_stack(story, Vec::new());
        let folder = options.stack.folder().to_owned();
        let socket = folder.join("services.sock");
        let listener = UnixListener::bind(&socket).expect("a socket");
        let plane = Arc::new(Plane::without_nodes(options, &socket).await.expect("a server"));
        let pods = Pods::default();
        let published: Published = Arc::new(Mutex::new(vec![Registries::default()]));
        let proxy = tokio::spawn(serve_services(listener, plane.client(), pods.clone()));
        let kubelet =
            Kubelet { plane: plane.clone(), folder, args, pods: pods.clone(), published: published.clone() };
        let (stop, stopped) = oneshot::channel::<()>();
        // It needs its own thread, because the future that starts programs isn't `Send`.
        let kubelet = tokio::task::spawn_blocking(move || {
            Handle::current().block_on(async {
                tokio::select! {
                    () = kubelet.run() => {}
                    _ = stopped => {}
                }
            });
        });
        Self { guard, plane, kubelet: (stop, kubelet), proxy, pods, published }
    }

    /// Makes all images available from these registries too. Pods with other images don't start.
    pub fn publish(&self, registries: Registries) {
        self.published.lock().unwrap().push(registries);
    }

    pub fn client(&self) -> Client {
        self.plane.client()
    }

    pub fn kubeconfig(&self) -> &Path {
        self.plane.kubeconfig()
    }

    /// Returns the program in a namespace.
    pub fn program(&self, namespace: &str) -> Running {
        self.pods.lock().unwrap()[namespace].program.clone()
    }

    /// Stops the cluster and cleans up.
    pub async fn stop(self) {
        let (stop, kubelet) = self.kubelet;
        drop(stop);
        kubelet.await.expect("the stand-in for kubelet");
        self.plane.stop().await;
        self.proxy.abort();
        tokio::task::spawn_blocking(move || self.guard.finish()).await.expect("joined").expect("clean");
    }
}

struct Kubelet {
    plane: Arc<Plane>,
    folder: PathBuf,
    args: &'static [(&'static str, &'static str)],
    pods: Pods,
    published: Published,
}

impl Kubelet {
    /// Runs the latest generation of each Deployment, until the Deployment is deleted.
    async fn run(self) {
        let deployments: Api<Deployment> = Api::all(self.plane.client());
        let mut stream = watcher(deployments, watcher::Config::default()).default_backoff().boxed();
        let mut generations = BTreeMap::new();
        // The latest generations whose Pods don't run yet.
        let mut waiting: BTreeMap<Option<String>, Deployment> = BTreeMap::new();
        let mut ticks = tokio::time::interval(RETRY_INTERVAL);
        loop {
            tokio::select! {
                event = stream.try_next() => {
                    match event.expect("a watch of Deployments").expect("a watch that does not end") {
                        Event::Apply(deployment) | Event::InitApply(deployment) => {
                            let generation = deployment.metadata.generation;
                            if generations.insert(deployment.uid(), generation) != Some(generation) {
                                waiting.insert(deployment.uid(), deployment);
                            }
                        }
                        Event::Delete(deployment) => {
                            waiting.remove(&deployment.uid());
                            self.stop_pod(&deployment.namespace().unwrap()).await;
                        }
                        Event::Init | Event::InitDone => {}
                    }
                }
                _ = ticks.tick() => {}
            }
            for (uid, deployment) in std::mem::take(&mut waiting) {
                if !self.deploy(&deployment).await {
                    waiting.insert(uid, deployment);
                }
            }
        }
    }

    async fn stop_pod(&self, namespace: &str) {
        let pod = self.pods.lock().unwrap().remove(namespace);
        if let Some(pod) = pod {
            pod.program.stop().await;
        }
    }

    /// Runs a Deployment's program in place of an older one, and reports the Deployment as available. Returns false if the Pod can't start
    /// yet.
    async fn deploy(&self, deployment: &Deployment) -> bool {
        let (namespace, name) = (deployment.namespace().unwrap(), deployment.name_any());
        let is_it = |one: &&Component| one.namespace == namespace && one.deployment == name;
        let component = COMPONENTS.iter().find(is_it).expect("a component");
        let template = &deployment.spec.as_ref().unwrap().template;
        let pod = template.spec.as_ref().unwrap();
        let image = pod.containers[0].image.as_deref().unwrap_or_default();
        let is_there = |registries: &Registries| component.image_reference(registries) == image;
        if !self.published.lock().unwrap().iter().any(is_there) {
            return false;
        }
        let Some(mounted) = self.mount(&namespace, pod).await else { return false };
        self.stop_pod(&namespace).await;
        let further: Vec<_> =
            self.args.iter().filter(|(name, _)| *name == component.name).map(|(_, arg)| *arg).collect();
        let document = with_types(deployment);
        let program = self.plane.run_deployed(component, &document, exe(), &mounted, &further).await;
        let program = program.unwrap_or_else(|error| panic!("{}: {error}", component.name));
        let labels = template.metadata.as_ref().and_then(|metadata| metadata.labels.clone());
        let ports = pod.containers[0].ports.iter().flatten().filter_map(|port| port.name.clone()).collect();
        let pod = Pod { program, labels: labels.unwrap_or_default(), ports };
        self.pods.lock().unwrap().insert(namespace.clone(), pod);
        let replicas = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
        let status = json!({ "status": {
            "observedGeneration": deployment.metadata.generation, "replicas": replicas,
            "updatedReplicas": replicas, "readyReplicas": replicas, "availableReplicas": replicas,
        }});
        let api: Api<Deployment> = Api::namespaced(self.plane.client(), &namespace);
        let patched = api.patch_status(&name, &PatchParams::default(), &Patch::Merge(&status)).await;
        patched.expect("the status of a Deployment");
        true
    }

    /// Writes the Secret that a Pod mounts into a folder, which stays empty if the Pod doesn't mount one. Returns `None` if the Secret
    /// doesn't exist.
    async fn mount(&self, namespace: &str, pod: &PodSpec) -> Option<PathBuf> {
        let folder = self.folder.join("mounted").join(namespace);
        fs::create_dir_all(&folder).unwrap();
        let secret = pod.volumes.iter().flatten().find_map(|one| one.secret.as_ref()?.secret_name.as_deref());
        if let Some(secret) = secret {
            let secrets: Api<Secret> = Api::namespaced(self.plane.client(), namespace);
            let secret = secrets.get_opt(secret).await.expect("an answer")?;
            for (key, value) in secret.data.unwrap_or_default() {
                fs::write(folder.join(key), value.0).unwrap();
            }
        }
        Some(folder)
    }
}

/// Returns a Deployment as a document. Watched objects don't contain their kind.
fn with_types(deployment: &Deployment) -> serde_json::Value {
    let mut document = serde_json::to_value(deployment).unwrap();
    document["apiVersion"] = "apps/v1".into();
    document["kind"] = "Deployment".into();
    document
}

/// Connects the API server with the programs behind Services, as kube-proxy does.
async fn serve_services(listener: UnixListener, client: Client, pods: Pods) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // The process has probably run out of file descriptors.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let (client, pods) = (client.clone(), pods.clone());
        tokio::spawn(async move { drop(connect(stream, &client, &pods).await) });
    }
}

async fn connect(stream: UnixStream, client: &Client, pods: &Pods) -> std::io::Result<()> {
    let mut stream = BufStream::new(stream);
    let mut request = String::new();
    stream.read_line(&mut request).await?;
    loop {
        let mut header = String::new();
        if stream.read_line(&mut header).await? <= 2 {
            break;
        }
    }
    let address = request.split(' ').nth(1).unwrap_or_default();
    let Some(port) = port_behind(address, client, pods).await else {
        stream.write_all(b"HTTP/1.1 503 Service Unavailable\r\n\r\n").await?;
        return stream.flush().await;
    };
    let mut program = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
    stream.flush().await?;
    copy_bidirectional(&mut stream, &mut program).await.map(drop)
}

/// Returns the port of the program behind a Service. Its selector must match the Pod, and its target port must be a container port.
async fn port_behind(address: &str, client: &Client, pods: &Pods) -> Option<u16> {
    let (host, port) = address.rsplit_once(':')?;
    let services: Api<Service> = Api::all(client.clone());
    let services = services.list(&ListParams::default()).await.ok()?;
    let is_it = |service: &Service| service.spec.as_ref()?.cluster_ip.as_deref().map(|ip| ip == host);
    let service = services.into_iter().find(|service| is_it(service) == Some(true))?;
    let (namespace, spec) = (service.namespace()?, service.spec?);
    let has_port = |one: &ServicePort| one.port.to_string() == port;
    let target = spec.ports?.into_iter().find(has_port)?.target_port?;
    let pods = pods.lock().unwrap();
    let pod = pods.get(&namespace)?;
    let is_selected = spec.selector?.iter().all(|(key, value)| pod.labels.get(key) == Some(value));
    let has_target = matches!(target, IntOrString::String(name) if pod.ports.contains(&name));
    (is_selected && has_target).then(|| pod.program.webhook_port())
}
