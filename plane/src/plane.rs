//! Starts and stops the parts of the control plane in dependency order.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use components::catalogue::{Component, ManifestSource};
use components::config;
use futures::future::{join_all, try_join_all};
use kit::objects::Objects;
use kube::Client;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::Instant;
use tracing::instrument::WithSubscriber;
use tracing::subscriber::NoSubscriber;

use crate::capi::{self, Prepared};
use crate::cluster::{self, Authorities, RunningApiServer};
use crate::error::{Error, OperationContext, Result};
use crate::kubeconfig::KubeconfigServer;
use crate::program::{GRACE, Program, Running};
use crate::stack::{StackIdentity, write_private};
use crate::supervise::{Ending, Supervised};
use crate::tools::Tools;
use crate::workload::{Ports, RunningProgram, Workload};
use crate::{apiserver, etcd, inotify, manager, memory, policies, ports};
use components::guest_proxy;
use components::manifest::{Manifests, converting_namespace};

/// The timeout for etcd and for the API server to become ready. Startup usually takes 3 s, but many times that on a
/// busy machine.
const READY: Duration = Duration::from_mins(2);
/// The timeout for the API server to serve new CRDs.
const SERVED_WITHIN: Duration = Duration::from_mins(1);

/// Options to start a [`Plane`].
#[derive(Debug, Clone)]
pub struct Options {
    /// The stack's identity and folder. Its [guard](crate::Guard) should be running already.
    pub stack: Arc<StackIdentity>,
    pub tools: Tools,
    /// Further CRDs, in addition to Layercake's and Cluster API's. In a real cluster, other providers would install them.
    pub definitions: Vec<Value>,
    /// The executable of the proxies between Cluster API's managers and workload clusters: `capw`, or a multi-call
    /// executable that acts as `capw` by its `argv[0]`. `None` if the managers connect directly.
    pub guest_proxy: Option<PathBuf>,
}

/// A running control plane.
pub struct Plane {
    cluster: Arc<RunningApiServer>,
    tools: Tools,
    kubeconfig: PathBuf,
    definitions: Vec<Value>,
    /// Ports reserved for programs that haven't started yet, by namespace. The conversion webhooks in the CRDs already
    /// name these ports.
    converting: Mutex<BTreeMap<String, Ports>>,
    store: Supervised,
    server: Supervised,
    /// Cluster API's managers, which [`Plane::run_managers`] starts. Empty for a [bare](Plane::bare) plane.
    prepared: Vec<Prepared>,
    /// See [`Options::guest_proxy`].
    guest_proxy: Option<PathBuf>,
    /// The processes that [`Plane::run_managers`] has started.
    managers: OnceLock<Vec<Supervised>>,
    programs: Mutex<Vec<Arc<Supervised>>>,
}

/// The ports of etcd and the API server. A kept stack reuses them if they are free.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct MainPorts {
    etcd: u16,
    etcd_peer: u16,
    apiserver: u16,
}

impl Plane {
    /// Starts etcd, the API server, kube-controller-manager and Cluster API, applies the CRDs, and waits until
    /// everything is ready.
    pub async fn start(options: Options) -> Result<Self> {
        let plane = Self::without_managers(options).await?;
        plane.run_managers(|_| Vec::new(), |_| ()).await?;
        Ok(plane)
    }

    /// Starts etcd and the API server, and applies Layercake's and Cluster API's CRDs. The caller then calls
    /// [`run_managers`](Self::run_managers), and can start other programs at the same time.
    pub async fn without_managers(options: Options) -> Result<Self> {
        inotify::check()?;
        let prepared = capi::prepare()?;
        Self::served(options, prepared).await
    }

    /// Starts kube-controller-manager and Cluster API's managers, and waits until the managers are ready. `further` returns
    /// additional arguments for a component, and `started` is called with each component that is ready. Call it only once.
    pub async fn run_managers(
        &self,
        further: impl Fn(&str) -> Vec<String>,
        started: impl Fn(&str),
    ) -> Result<()> {
        let began = Instant::now();
        let (cluster, tools) = (&self.cluster, &self.tools);
        // Start kube-controller-manager after the CRDs are served. Otherwise, its garbage collector discovers their kinds
        // only 30 s later.
        let controllers = Supervised::start(manager::command(cluster, &tools.kube_controller_manager)?)?;
        let proxy = self.guest_proxy.as_deref();
        let start = async |one: &Prepared| {
            let manager = one.start(cluster, tools, proxy, further(one.component())).await?;
            started(one.component());
            Ok::<_, Error>(manager)
        };
        let managers = try_join_all(self.prepared.iter().map(start)).await?;
        tracing::info!(seconds = began.elapsed().as_secs_f32(), "Cluster API is ready");
        let started = managers.into_iter().flat_map(|started| [Some(started.process), started.guest_proxy]);
        let all = started.flatten().chain([controllers]).collect();
        let _ = self.managers.set(all);
        Ok(())
    }

    /// Starts only etcd and the API server, and applies Layercake's CRDs. Controllers run only if the caller starts
    /// them with [`run`](Self::run), so that their cost can be measured.
    pub async fn bare(options: Options) -> Result<Self> {
        Self::served(options, Vec::new()).await
    }

    /// Starts only etcd and the API server, and applies only the CRDs in `options`.
    pub async fn empty(options: Options) -> Result<Self> {
        Self::defined(options, Vec::new(), BTreeMap::new(), None).await
    }

    /// Starts a Kubernetes cluster without its nodes: etcd, the API server and kube-controller-manager.
    ///
    /// The API server reaches Services, such as webhook Services, through an HTTP proxy (`CONNECT`) on the Unix socket
    /// `services`.
    pub async fn without_nodes(options: Options, services: &Path) -> Result<Self> {
        let plane = Self::defined(options, Vec::new(), BTreeMap::new(), Some(services)).await?;
        plane.run_managers(|_| Vec::new(), |_| ()).await?;
        Ok(plane)
    }

    /// Runs a Deployment's program as a kubelet would: with its arguments, its ServiceAccount, and the certificate in
    /// the folder `mounted`. Doesn't apply any objects. `exe` is the executable of Layercake's programs, and `args` are
    /// further arguments for them.
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
            ManifestSource::Config(name) => {
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
            ManifestSource::Upstream { manifests: name, .. } => {
                let workload = capi::deployed(name, &self.tools, &manifests, mounted)?;
                let proxied = has_guest_proxy(deployment).then_some(exe);
                workload.through(proxied).start(&self.cluster, ports).await?
            }
        };
        Ok(self.keep(started))
    }

    /// Registers a program and its guest proxy, so that [`Plane::stop`] stops them.
    fn keep(&self, mut started: RunningProgram) -> Running {
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

    /// Runs one of Layercake's programs with the rights, arguments and webhooks from config/, and waits until it is ready.
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

    /// Returns a client with cluster-admin rights.
    pub fn client(&self) -> Client {
        self.cluster.client.clone()
    }

    /// Returns the path to the administrator's kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Returns the API server URL.
    pub fn url(&self) -> &str {
        &self.cluster.server.url
    }

    pub fn stack(&self) -> &Arc<StackIdentity> {
        &self.cluster.stack
    }

    /// Returns the paths to the programs that the plane runs.
    pub fn tools(&self) -> &Tools {
        &self.tools
    }

    /// Returns the control plane's own processes: etcd, the API server, and those that [`Plane::run_managers`] has
    /// started.
    pub fn parts(&self) -> impl Iterator<Item = &Supervised> {
        [&self.store, &self.server].into_iter().chain(self.managers.get().into_iter().flatten())
    }

    /// Returns the control plane processes and programs that keep exiting.
    pub fn endings(&self) -> Vec<Ending> {
        let programs: Vec<_> = self.programs.lock().clone();
        let parts = self.parts().filter_map(Supervised::ending);
        parts.chain(programs.iter().filter_map(|program| program.ending())).collect()
    }

    /// Returns the memory in MiB of every process in the stack, by name. This includes processes beside the control plane.
    pub fn memory(&self) -> BTreeMap<String, u64> {
        memory::of(self.cluster.stack.id())
    }

    /// Stops all processes: programs first, then managers, the API server and etcd. The guard deletes the folder of an
    /// ephemeral stack.
    pub async fn stop(&self) {
        let programs: Vec<_> = std::mem::take(&mut *self.programs.lock());
        join_all(programs.iter().map(|program| program.stop(GRACE))).await;
        let managers = self.managers.get().into_iter().flatten();
        join_all(managers.map(|manager| manager.stop(Duration::ZERO))).await;
        // On SIGTERM, an API server with an open watch takes a minute to exit.
        self.server.stop(Duration::ZERO).await;
        let grace = if self.cluster.stack.is_ephemeral() { Duration::ZERO } else { GRACE };
        self.store.stop(grace).await;
    }
}

/// Returns true if a Deployment contains the guest proxy container.
fn has_guest_proxy(deployment: &Value) -> bool {
    let containers = deployment.pointer("/spec/template/spec/containers").and_then(Value::as_array);
    containers.into_iter().flatten().any(|container| container["name"] == guest_proxy::CONTAINER)
}

/// Applies Cluster API's CRDs and the CRDs in `ours`, and waits until all of them are served.
async fn define(
    cluster: &RunningApiServer,
    tools: &Tools,
    prepared: &[Prepared],
    ours: &[Value],
) -> Result<()> {
    let upstream = try_join_all(prepared.iter().map(|one| one.define(cluster, tools)));
    let objects = Objects::new(&cluster.client);
    let own = async { objects.apply_all(ours).await.map_err(Error::from) };
    tokio::try_join!(upstream, own)?;
    let all: Vec<_> = prepared.iter().flat_map(|one| one.definitions().iter().cloned()).collect();
    objects.wait_until_served(&all, SERVED_WITHIN).await?;
    Ok(objects.wait_until_served(ours, SERVED_WITHIN).await?)
}

/// Returns the CRDs with webhook URLs for the programs that will convert their objects. `converting` holds the
/// programs' ports by namespace.
fn reached(
    cluster: &RunningApiServer,
    definitions: &[Value],
    converting: &BTreeMap<String, Ports>,
) -> Vec<Value> {
    let mut definitions = definitions.to_vec();
    for definition in &mut definitions {
        let ports = converting_namespace(definition).and_then(|namespace| converting.get(namespace));
        if let Some(ports) = ports {
            cluster.endpoint(ports.webhooks, true).reach(definition);
        }
    }
    definitions
}

/// Starts etcd and the API server. Returns the cluster, the path to the administrator's kubeconfig, etcd and the API
/// server, in this order. Retries with new ports if another program takes one of them.
async fn start_server(
    stack: Arc<StackIdentity>,
    tools: &Tools,
    services: Option<&Path>,
) -> Result<(RunningApiServer, PathBuf, Supervised, Supervised)> {
    let file = stack.folder().join("ports.json");
    let mut kept = kept_ports(&file);
    let (started, ports) = ports::retry_if_taken(async || {
        let ports = kept.take().map_or_else(MainPorts::free, Ok)?;
        Ok((try_server(stack.clone(), tools, ports, services).await?, ports))
    })
    .await?;
    if !stack.is_ephemeral() {
        write_private(&file, &serde_json::to_vec(&ports).unwrap_or_default())?;
    }
    Ok(started)
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
    stack: Arc<StackIdentity>,
    tools: &Tools,
    ports: MainPorts,
    services: Option<&Path>,
) -> Result<(RunningApiServer, PathBuf, Supervised, Supervised)> {
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
    let server = KubeconfigServer {
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
        // The client logs refusals as errors, but they are expected until the API server is ready.
        let answer = client.request_text(request).with_subscriber(NoSubscriber::new()).await;
        answer.map(drop).map_err(|error| error.to_string())
    };
    tokio::select! {
        result = process.until("kube-apiserver is not ready", READY, ready) => result?,
        // Another program may listen on etcd's port. Then the check above succeeds, but etcd can't start.
        error = store.given_up() => return Err(error),
    }
    // Generated at every start, like the programs' certificates.
    let conversion_key = format!("{:032x}", rand::random::<u128>());
    Ok((RunningApiServer { stack, authorities, server, client, conversion_key }, kubeconfig, store, process))
}
