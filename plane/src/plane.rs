//! Starts and stops the control plane, in the order in which its parts need each other.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use components::catalogue::{Component, Source};
use components::config;
use futures::future::{join_all, try_join_all};
use kube::Client;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::Instant;
use tracing::instrument::WithSubscriber;
use tracing::subscriber::NoSubscriber;

use crate::capi::{self, Prepared};
use crate::cluster::{self, Authorities, Cluster};
use crate::error::{Doing, Error, Result};
use crate::kubeconfig::Server;
use crate::program::{GRACE, Program, Running};
use crate::stack::{Stack, write_private};
use crate::supervise::{Ending, Supervised};
use crate::tools::Tools;
use crate::workload::{Ports, Runtime, Workload};
use crate::{apiserver, etcd, inotify, manager, memory, objects, policies, ports};
use components::guest_proxy;
use components::manifest::{Manifests, converting_namespace};

/// Losing a port to somebody else is rare; losing five in a row is not bad luck.
const ATTEMPTS: usize = 5;
/// A busy machine takes many times the usual three seconds.
const READY: Duration = Duration::from_mins(2);
/// The time after which a definition must be served.
const SERVED_WITHIN: Duration = Duration::from_mins(1);

/// What to start.
#[derive(Debug, Clone)]
pub struct Options {
    /// The stack's identity and folder. Its [guard](crate::Guard) should be running already.
    pub stack: Arc<Stack>,
    /// The programs.
    pub tools: Tools,
    /// Definitions of kinds beside our own and Cluster API's, that somebody else would bring.
    pub definitions: Vec<Value>,
    /// The executable of the proxies through which Cluster API's managers connect to workload clusters, if they use any: `capw`, or
    /// one that is this program when it is called so.
    pub guest_proxy: Option<PathBuf>,
}

/// A running control plane.
pub struct Plane {
    cluster: Arc<Cluster>,
    tools: Tools,
    kubeconfig: PathBuf,
    definitions: Vec<Value>,
    /// The ports reserved for programs that have not run yet, by namespace. They will convert objects there: the definitions name the
    /// ports already.
    converting: Mutex<BTreeMap<String, Ports>>,
    store: Supervised,
    server: Supervised,
    /// Cluster API's managers, for [`Plane::run_managers`]. A plane that is [bare](Plane::bare) has none.
    prepared: Vec<Prepared>,
    /// See [`Options::guest_proxy`].
    guest_proxy: Option<PathBuf>,
    /// The processes that [`Plane::run_managers`] has started.
    managers: OnceLock<Vec<Supervised>>,
    programs: Mutex<Vec<Arc<Supervised>>>,
}

/// The ports of the store and the server. A kept stack stays on them as long as they are free.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct MainPorts {
    etcd: u16,
    etcd_peer: u16,
    apiserver: u16,
}

impl Plane {
    /// Starts etcd, the API server, Kubernetes' controllers and Cluster API, defines our kinds, and returns when
    /// all of it is ready.
    pub async fn start(options: Options) -> Result<Self> {
        let plane = Self::without_managers(options).await?;
        plane.run_managers().await?;
        Ok(plane)
    }

    /// Starts etcd and the API server, and defines our kinds and those of Cluster API. The caller then calls
    /// [`run_managers`](Self::run_managers), and can start other programs at the same time.
    pub async fn without_managers(options: Options) -> Result<Self> {
        inotify::check()?;
        let prepared = capi::prepare(&options.tools)?;
        Self::served(options, prepared).await
    }

    /// Starts Kubernetes' controllers and Cluster API's managers, and returns when they are ready. It is called once.
    pub async fn run_managers(&self) -> Result<()> {
        let began = Instant::now();
        let (cluster, tools) = (&self.cluster, &self.tools);
        // Not before: its garbage collector would learn of the kinds only half a minute later.
        let controllers = Supervised::start(manager::command(cluster, &tools.kube_controller_manager)?)?;
        let proxy = self.guest_proxy.as_deref();
        let managers = try_join_all(self.prepared.iter().map(|one| one.start(cluster, tools, proxy))).await?;
        tracing::info!(seconds = began.elapsed().as_secs_f32(), "Cluster API is ready");
        let started = managers.into_iter().flat_map(|started| [Some(started.process), started.guest_proxy]);
        let all = started.flatten().chain([controllers]).collect();
        let _ = self.managers.set(all);
        Ok(())
    }

    /// Starts etcd and the API server alone and defines our kinds: no controller but those that are [run](Self::run)
    /// later does anything, so that their cost can be measured.
    pub async fn bare(options: Options) -> Result<Self> {
        Self::served(options, Vec::new()).await
    }

    /// Starts etcd and the API server alone, and defines no kind but the given ones.
    pub async fn empty(options: Options) -> Result<Self> {
        Self::defined(options, Vec::new(), BTreeMap::new(), None).await
    }

    /// Starts what a Kubernetes cluster has beside its nodes: etcd, the API server, Kubernetes' controllers.
    ///
    /// The API server reaches Services, such as those of webhooks, by an HTTP proxy (`CONNECT`) on the Unix socket `services`.
    pub async fn without_nodes(options: Options, services: &Path) -> Result<Self> {
        let plane = Self::defined(options, Vec::new(), BTreeMap::new(), Some(services)).await?;
        plane.run_managers().await?;
        Ok(plane)
    }

    /// Runs the program of a Deployment as a kubelet would: with its arguments, as its ServiceAccount, and with the certificate
    /// in the folder `mounted`. Nothing is applied to the cluster. `exe` is the executable of our programs.
    pub async fn run_deployed(
        &self,
        component: &Component,
        deployment: &Value,
        exe: &Path,
        mounted: &Path,
        args: &[&str],
    ) -> Result<Running> {
        let manifests = Manifests::sorted(component.name, [deployment.clone()])?;
        let mounted = format!("--webhook-cert-dir={}", mounted.display());
        let ports = Ports::free()?;
        let started = match &component.source {
            Source::Config(name) => {
                let program = Program::new(name, exe);
                let serves =
                    manifests.deployment.as_ref().is_some_and(|deployment| deployment.serves_webhooks);
                let program = if serves { program.arg(mounted) } else { program };
                let program = args.iter().fold(program, Program::arg);
                let workload = Workload {
                    name: component.name,
                    exe,
                    arg0: name,
                    manifests: &manifests,
                    converted: &[],
                    pod: format!("{}-0", component.deployment),
                    recognizes_api_server: false,
                    guest_proxy: None,
                    args: Box::new(|deployment, wiring| program.arguments(deployment, wiring)),
                };
                workload.start(&self.cluster, ports).await?
            }
            Source::Upstream { manifests: name, .. } => {
                let workload = capi::deployed(name, &self.tools, &manifests, mounted)?;
                let proxied = has_guest_proxy(deployment).then_some(exe);
                workload.through(proxied).start(&self.cluster, ports).await?
            }
        };
        Ok(self.keep(started))
    }

    /// Stops a program, and the proxy beside it, with everything else.
    fn keep(&self, mut started: Runtime) -> Running {
        let guest_proxy = started.guest_proxy.take().map(Arc::new);
        let running = Running::new(started);
        self.programs.lock().extend([running.process().clone()].into_iter().chain(guest_proxy));
        running
    }

    async fn served(options: Options, prepared: Vec<Prepared>) -> Result<Self> {
        let mut definitions = config::definitions()?;
        definitions.extend(options.definitions);
        let namespaces: BTreeSet<_> = definitions.iter().filter_map(converting_namespace).collect();
        let converting = namespaces.into_iter().map(|namespace| Ok((namespace.to_owned(), Ports::free()?)));
        let converting = converting.collect::<Result<_>>()?;
        Self::defined(Options { definitions, ..options }, prepared, converting, None).await
    }

    async fn defined(
        options: Options,
        prepared: Vec<Prepared>,
        converting: BTreeMap<String, Ports>,
        services: Option<&Path>,
    ) -> Result<Self> {
        let Options { stack, tools, definitions, guest_proxy } = options;
        let _ = rustls::crypto::ring::default_provider().install_default();
        let began = Instant::now();
        let (cluster, kubeconfig, store, server) = start_server(stack, &tools, services).await?;
        tracing::info!(seconds = began.elapsed().as_secs_f32(), "the API server is ready");
        define(&cluster, &tools, &prepared, &reached(&cluster, &definitions, &converting)).await?;
        tracing::info!(seconds = began.elapsed().as_secs_f32(), "all kinds are available");
        Ok(Self {
            cluster: Arc::new(cluster),
            tools,
            kubeconfig,
            definitions,
            converting: Mutex::new(converting),
            store,
            server,
            prepared,
            guest_proxy,
            managers: OnceLock::new(),
            programs: Mutex::default(),
        })
    }

    /// Runs one of our programs with the rights, arguments and webhooks that config/ gives it, and returns when it
    /// is ready.
    pub async fn run(&self, program: Program) -> Result<Running> {
        let mut manifests = program.manifests()?;
        if !program.asked || program.replica > 0 {
            manifests.webhooks.clear();
        }
        let namespace = manifests.deployment.as_ref().map(|deployment| deployment.namespace.clone());
        let converted: Vec<_> = self
            .definitions
            .iter()
            .filter(|definition| converting_namespace(definition) == namespace.as_deref())
            .filter(|_| namespace.is_some())
            .cloned()
            .collect();
        let deployment = manifests.deployment.as_ref().map(|deployment| deployment.name.clone());
        let name = program.process();
        let workload = Workload {
            name: &name,
            exe: &program.exe,
            arg0: &program.name,
            manifests: &manifests,
            converted: &converted,
            pod: format!("{}-{}", deployment.unwrap_or_default(), program.replica),
            recognizes_api_server: true,
            guest_proxy: None,
            args: Box::new(|deployment, wiring| program.arguments(deployment, wiring)),
        };
        let reserved = namespace.and_then(|namespace| self.converting.lock().remove(&namespace));
        let ports = if let Some(ports) = reserved {
            ports
        } else {
            let ports = Ports::free()?;
            workload.have_conversions_called(&self.cluster, ports).await?;
            ports
        };
        Ok(self.keep(workload.start(&self.cluster, ports).await?))
    }

    /// A client with all rights.
    pub fn client(&self) -> Client {
        self.cluster.client.clone()
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The URL of the API server.
    pub fn url(&self) -> &str {
        &self.cluster.server.url
    }

    /// The stack that this is the control plane of.
    pub fn stack(&self) -> &Arc<Stack> {
        &self.cluster.stack
    }

    /// The programs it runs.
    pub fn tools(&self) -> &Tools {
        &self.tools
    }

    /// The processes of the control plane itself, from the store to Cluster API's managers.
    pub fn parts(&self) -> impl Iterator<Item = &Supervised> {
        [&self.store, &self.server].into_iter().chain(self.managers.get().into_iter().flatten())
    }

    /// The processes that end again and again: of the control plane, and of the programs that it runs.
    pub fn endings(&self) -> Vec<Ending> {
        let programs: Vec<_> = self.programs.lock().clone();
        let parts = self.parts().filter_map(Supervised::ending);
        parts.chain(programs.iter().filter_map(|program| program.ending())).collect()
    }

    /// Memory in MiB of every process of the stack, by name; not only of the control plane's.
    pub fn memory(&self) -> BTreeMap<String, u64> {
        memory::of(self.cluster.stack.id())
    }

    /// Stops everything: who writes first, who stores last. An ephemeral stack's folder is left to its guard.
    pub async fn stop(&self) {
        let programs: Vec<_> = std::mem::take(&mut *self.programs.lock());
        join_all(programs.iter().map(|program| program.stop(GRACE))).await;
        let managers = self.managers.get().into_iter().flatten();
        join_all(managers.map(|manager| manager.stop(Duration::ZERO))).await;
        // Asked nicely, an API server with one open watch takes a minute.
        self.server.stop(Duration::ZERO).await;
        let grace = if self.cluster.stack.is_ephemeral() { Duration::ZERO } else { GRACE };
        self.store.stop(grace).await;
    }
}

/// Returns true if a Deployment has the proxy beside its manager.
fn has_guest_proxy(deployment: &Value) -> bool {
    let containers = deployment.pointer("/spec/template/spec/containers").and_then(Value::as_array);
    containers.into_iter().flatten().any(|container| container["name"] == guest_proxy::CONTAINER)
}

/// Applies all definitions, Cluster API's and ours, and waits until they are served.
async fn define(cluster: &Cluster, tools: &Tools, prepared: &[Prepared], ours: &[Value]) -> Result<()> {
    let upstream = try_join_all(prepared.iter().map(|one| one.define(cluster, tools)));
    tokio::try_join!(upstream, objects::apply_all(&cluster.client, ours))?;
    let all: Vec<_> = prepared.iter().flat_map(|one| one.definitions().iter().cloned()).collect();
    objects::served(&cluster.client, &all, SERVED_WITHIN).await?;
    objects::served(&cluster.client, ours, SERVED_WITHIN).await
}

/// The definitions, with the URLs of the programs that will convert their objects. The programs' ports are given by namespace.
fn reached(cluster: &Cluster, definitions: &[Value], converting: &BTreeMap<String, Ports>) -> Vec<Value> {
    let mut definitions = definitions.to_vec();
    for definition in &mut definitions {
        let ports = converting_namespace(definition).and_then(|namespace| converting.get(namespace));
        if let Some(ports) = ports {
            cluster.endpoint(ports.webhooks, true).reach(definition);
        }
    }
    definitions
}

/// Starts etcd and the API server on ports that nobody else takes.
async fn start_server(
    stack: Arc<Stack>,
    tools: &Tools,
    services: Option<&Path>,
) -> Result<(Cluster, PathBuf, Supervised, Supervised)> {
    let file = stack.folder().join("ports.json");
    let mut ports = kept_ports(&file).map_or_else(MainPorts::free, Ok)?;
    for _ in 1..ATTEMPTS {
        match try_server(stack.clone(), tools, ports, services).await {
            Err(Error::PortTaken { name }) => {
                tracing::debug!(name, "a port was already in use");
                ports = MainPorts::free()?;
            }
            Err(error) => return Err(error),
            Ok(started) => {
                if !stack.is_ephemeral() {
                    write_private(&file, &serde_json::to_vec(&ports).unwrap_or_default())?;
                }
                return Ok(started);
            }
        }
    }
    Err(Error::PortTaken { name: "kube-apiserver".to_owned() })
}

impl MainPorts {
    fn free() -> Result<Self> {
        let [etcd, etcd_peer, apiserver] = ports::free().doing(|| "find free ports".to_owned())?;
        Ok(Self { etcd, etcd_peer, apiserver })
    }
}

fn kept_ports(file: &Path) -> Option<MainPorts> {
    let ports: MainPorts = serde_json::from_slice(&fs::read(file).ok()?).ok()?;
    [ports.etcd, ports.etcd_peer, ports.apiserver].into_iter().all(ports::is_free).then_some(ports)
}

async fn try_server(
    stack: Arc<Stack>,
    tools: &Tools,
    ports: MainPorts,
    services: Option<&Path>,
) -> Result<(Cluster, PathBuf, Supervised, Supervised)> {
    let authorities = Authorities::open(&stack)?;
    let etcd = etcd::command(&stack, &tools.etcd, &authorities, ports.etcd, ports.etcd_peer)?;
    let apiserver = apiserver::command(
        &stack,
        &tools.kube_apiserver,
        &authorities,
        ports.apiserver,
        ports.etcd,
        services,
    )?;
    let server = Server {
        url: format!("https://127.0.0.1:{}", ports.apiserver),
        authority: authorities.serving.certificate().to_owned(),
    };
    let admin = authorities.client.client("layercake-admin", Some("system:masters"))?;
    let text = server.for_certificate("layercake-admin", &admin);
    let kubeconfig = stack.folder().join("kubeconfig");
    write_private(&kubeconfig, text.as_bytes())?;
    let client = cluster::client(&text).await?;

    let store = Supervised::start(etcd)?;
    let listening = async || {
        let is_taken = !ports::is_free(ports.etcd);
        is_taken.then_some(()).ok_or_else(|| "it does not listen".to_owned())
    };
    store.until("etcd is not ready", READY, listening).await?;
    if !stack.is_ephemeral() {
        policies::forget(&store, &etcd::client(&authorities, ports.etcd).await?, READY).await?;
    }
    let process = Supervised::start(apiserver)?;
    let ready = async || {
        let request = http::Request::get("/readyz").body(Vec::new()).map_err(|error| error.to_string())?;
        // The client logs refusals as errors; here they are what is waited out.
        let answer = client.request_text(request).with_subscriber(NoSubscriber::new()).await;
        answer.map(drop).map_err(|error| error.to_string())
    };
    tokio::select! {
        result = process.until("kube-apiserver is not ready", READY, ready) => result?,
        // Who listened may have been somebody else.
        error = store.given_up() => return Err(error),
    }
    // Created at every start, like the programs' certificates.
    let conversion_key = format!("{:032x}", rand::random::<u128>());
    Ok((Cluster { stack, authorities, server, client, conversion_key }, kubeconfig, store, process))
}
