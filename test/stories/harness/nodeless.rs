//! A Kubernetes cluster without nodes: an API server of its own with Kubernetes' controllers, and what stands in for kubelet and
//! kube-proxy.
//!
//! The program of each Deployment runs as a process, with the arguments of the Deployment, the token of its ServiceAccount and the
//! Secret that it mounts. The API server calls webhooks by the names and addresses of their Services, and trusts only the
//! authorities in the webhook configurations.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use components::catalogue::{COMPONENTS, Component, LAYERCAKE};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Secret, Service};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use plane::{Guard, Plane, Running};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufStream, copy_bidirectional};
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::harness::own_server::{exe, prepare_stack};
use crate::harness::story::Story;

/// Between two looks at Deployments and Services.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// The cluster.
pub struct Nodeless {
    guard: Guard,
    plane: Arc<Plane>,
    kubelet: (oneshot::Sender<()>, JoinHandle<()>),
    proxy: JoinHandle<()>,
    programs: Programs,
}

/// The running programs, by the namespace that each has for itself.
type Programs = Arc<Mutex<BTreeMap<String, Running>>>;

impl Nodeless {
    /// A cluster in which nothing is installed. Our programs get further arguments.
    pub async fn start(story: &Story, args: &'static [(&'static str, &'static str)]) -> Self {
        let (guard, options) = prepare_stack(story, Vec::new());
        let folder = options.stack.folder().to_owned();
        let socket = folder.join("services.sock");
        let listener = UnixListener::bind(&socket).expect("a socket");
        let plane = Arc::new(Plane::without_nodes(options, &socket).await.expect("a server"));
        let programs = Programs::default();
        let proxy = tokio::spawn(serve_services(listener, plane.client(), programs.clone()));
        let kubelet = Kubelet { plane: plane.clone(), folder, args, programs: programs.clone() };
        let (stop, stopped) = oneshot::channel::<()>();
        // A thread of its own: what starts programs cannot move between threads.
        let kubelet = tokio::task::spawn_blocking(move || {
            Handle::current().block_on(async {
                tokio::select! {
                    () = kubelet.run() => {}
                    _ = stopped => {}
                }
            });
        });
        Self { guard, plane, kubelet: (stop, kubelet), proxy, programs }
    }

    pub fn client(&self) -> Client {
        self.plane.client()
    }

    pub fn kubeconfig(&self) -> &Path {
        self.plane.kubeconfig()
    }

    /// The program of a namespace.
    pub fn program(&self, namespace: &str) -> Running {
        self.programs.lock().unwrap()[namespace].clone()
    }

    /// Ends the cluster and leaves nothing behind.
    pub async fn stop(self) {
        let (stop, kubelet) = self.kubelet;
        drop(stop);
        kubelet.await.expect("the stand-in for kubelet");
        self.plane.stop().await;
        self.proxy.abort();
        tokio::task::spawn_blocking(move || self.guard.finish()).await.expect("joined").expect("clean");
    }
}

/// Runs Deployments.
struct Kubelet {
    plane: Arc<Plane>,
    folder: PathBuf,
    args: &'static [(&'static str, &'static str)],
    programs: Programs,
}

impl Kubelet {
    async fn run(self) {
        let deployments: Api<Deployment> = Api::all(self.plane.client());
        let mut known = BTreeSet::new();
        loop {
            let found =
                deployments.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default();
            for deployment in found {
                let id = (deployment.uid(), deployment.metadata.generation);
                if !known.contains(&id) && self.deploy(&deployment).await {
                    known.insert(id);
                }
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Runs the program of a Deployment, in place of an older one; false if what it mounts does not exist yet.
    async fn deploy(&self, deployment: &Deployment) -> bool {
        let namespace = deployment.namespace().unwrap();
        let is_it = |one: &&Component| one.namespace == namespace && one.deployment == deployment.name_any();
        let component = COMPONENTS.iter().find(is_it).expect("a component");
        let pod = deployment.spec.as_ref().and_then(|spec| spec.template.spec.as_ref()).expect("a Pod");
        let image = pod.containers[0].image.as_deref().unwrap();
        assert!(image.ends_with(component.version()) || image.ends_with(LAYERCAKE), "{image} does not exist");
        let Some(mounted) = self.mount(&namespace, pod).await else { return false };
        let older = self.programs.lock().unwrap().remove(&namespace);
        if let Some(older) = older {
            older.stop().await;
        }
        let args: Vec<_> =
            self.args.iter().filter(|(name, _)| *name == component.name).map(|(_, arg)| *arg).collect();
        let document = with_types(deployment);
        let running = self.plane.run_deployed(component, &document, exe(), &mounted, &args).await;
        let running = running.unwrap_or_else(|error| panic!("{}: {error}", component.name));
        self.programs.lock().unwrap().insert(namespace.clone(), running);
        let replicas = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
        let status = json!({ "status": {
            "observedGeneration": deployment.metadata.generation, "replicas": replicas,
            "updatedReplicas": replicas, "readyReplicas": replicas, "availableReplicas": replicas,
        }});
        let api: Api<Deployment> = Api::namespaced(self.plane.client(), &namespace);
        let name = deployment.name_any();
        let patched = api.patch_status(&name, &PatchParams::default(), &Patch::Merge(&status)).await;
        patched.expect("the status of a Deployment");
        true
    }

    /// Writes the Secret that a Pod mounts into a folder, which is empty if it mounts none.
    async fn mount(&self, namespace: &str, pod: &k8s_openapi::api::core::v1::PodSpec) -> Option<PathBuf> {
        let folder = self.folder.join("mounted").join(namespace);
        fs::create_dir_all(&folder).unwrap();
        let secret =
            pod.volumes.iter().flatten().find_map(|volume| volume.secret.as_ref()?.secret_name.as_deref());
        if let Some(secret) = secret {
            let secrets: Api<Secret> = Api::namespaced(self.plane.client(), namespace);
            let data = secrets.get_opt(secret).await.ok()??.data.unwrap_or_default();
            for (key, value) in data {
                fs::write(folder.join(key), value.0).unwrap();
            }
        }
        Some(folder)
    }
}

/// A Deployment as a document: an item of a list has no kind.
fn with_types(deployment: &Deployment) -> serde_json::Value {
    let mut document = serde_json::to_value(deployment).unwrap();
    document["apiVersion"] = "apps/v1".into();
    document["kind"] = "Deployment".into();
    document
}

/// Connects the API server with the programs behind Services, as kube-proxy does.
async fn serve_services(listener: UnixListener, client: Client, programs: Programs) {
    while let Ok((stream, _)) = listener.accept().await {
        let (client, programs) = (client.clone(), programs.clone());
        tokio::spawn(async move { drop(connect(stream, &client, &programs).await) });
    }
}

async fn connect(stream: UnixStream, client: &Client, programs: &Programs) -> std::io::Result<()> {
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
    let Some(port) = port_behind(address, client, programs).await else {
        stream.write_all(b"HTTP/1.1 503 Service Unavailable\r\n\r\n").await?;
        return stream.flush().await;
    };
    let mut program = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
    stream.flush().await?;
    copy_bidirectional(&mut stream, &mut program).await.map(drop)
}

/// The port of the program behind a Service, by the Service's address.
async fn port_behind(address: &str, client: &Client, programs: &Programs) -> Option<u16> {
    let (host, port) = address.rsplit_once(':')?;
    let services: Api<Service> = Api::all(client.clone());
    let services = services.list(&ListParams::default()).await.ok()?;
    let service = services.into_iter().find(|service| {
        let spec = service.spec.as_ref();
        let has_port = |spec: &k8s_openapi::api::core::v1::ServiceSpec| {
            spec.ports.iter().flatten().any(|one| one.port.to_string() == port)
        };
        spec.is_some_and(|spec| spec.cluster_ip.as_deref() == Some(host) && has_port(spec))
    })?;
    let programs = programs.lock().unwrap();
    programs.get(&service.namespace()?).map(Running::webhook_port)
}
