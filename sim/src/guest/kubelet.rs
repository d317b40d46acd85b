//! A guest's kubelet: runs static Pods as processes, registers the node and renews its lease.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use plane::process::Command;
use plane::supervise::Supervised;
use serde_json::json;
use tokio_util::task::AbortOnDropHandle;

use super::control_plane::{API_PORT, COMPONENTS, MANIFESTS};
use super::deadline::{Deadline, retry_until};
use super::etcd::Etcd;
use super::failure::{Failure, Reason, api_error};
use super::guest_vm::GuestVm;
use super::host_path::HostMounts;
use super::kubeconfig::client;
use super::node::{mirror, mirror_name, pod_status};
use super::pods::{NodePods, has_network, shows_ready};
use super::program_pods::ProgramPods;
use super::proxy;
use super::registration::Registration;
use super::scheduler;
use super::virtual_ip::{Joins, VirtualIpCandidate};

const REGISTRATION: &str = "/var/lib/kubelet/registration.json";
const KUBECONFIG: &str = "/etc/kubernetes/kubelet.conf";
const RENEWAL: Duration = Duration::from_secs(10);
/// The maximum time that processes may take to end at a shutdown before they are killed.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

/// The kubelet of one guest. It owns all the guest's processes.
///
/// Dropping it simulates a power failure.
pub(super) struct Kubelet {
    guest_vm: GuestVm,
    pods: BTreeMap<String, (Pod, Option<Supervised>)>,
    programs: ProgramPods,
    port_forward: Option<Supervised>,
    virtual_ip: Option<VirtualIpCandidate>,
    heartbeat: Option<AbortOnDropHandle<()>>,
    bound_pods: Option<AbortOnDropHandle<()>>,
    scheduler: Option<AbortOnDropHandle<()>>,
}

impl Kubelet {
    pub(super) fn new(guest_vm: GuestVm) -> Self {
        Self {
            programs: ProgramPods::new(guest_vm.clone()),
            guest_vm,
            pods: BTreeMap::new(),
            port_forward: None,
            virtual_ip: None,
            heartbeat: None,
            bound_pods: None,
            scheduler: None,
        }
    }

    /// Kills every process and waits until all have ended, so that their ports are free.
    pub(super) async fn power_off(&mut self) {
        self.virtual_ip = None;
        self.end(Duration::ZERO).await;
    }

    /// Ends every process gracefully, like an operating system that shuts down.
    pub(super) async fn shut_down(&mut self) {
        if let Some(virtual_ip) = self.virtual_ip.take() {
            virtual_ip.resign().await;
        }
        self.end(SHUTDOWN_GRACE).await;
    }

    async fn end(&mut self, grace: Duration) {
        self.heartbeat = None;
        self.bound_pods = None;
        self.scheduler = None;
        self.programs.stop_all(grace).await;
        let pods = std::mem::take(&mut self.pods).into_values().filter_map(|(_, process)| process);
        let all: Vec<_> = pods.chain(self.port_forward.take()).collect();
        futures::future::join_all(all.iter().map(|process| process.stop(grace))).await;
    }

    /// Stores the node's registration and kubeconfig on the disk, for this boot and later boots.
    pub(super) fn configure(&self, registration: &Registration, kubeconfig: &str) -> Result<(), Failure> {
        let text = json!(registration).to_string();
        self.guest_vm.disk.write(REGISTRATION, text)?;
        self.guest_vm.disk.write(KUBECONFIG, kubeconfig)
    }

    /// Starts everything that is configured on the disk, as at a reboot.
    pub(super) async fn start_all(&mut self) -> Result<(), Failure> {
        let text = self.guest_vm.disk.read(REGISTRATION);
        let registration: Registration = text
            .and_then(|text| serde_json::from_str(&text).ok())
            .ok_or_else(|| Failure::new(Reason::Registration, "the kubelet is not configured"))?;
        if registration.control_plane {
            self.start_virtual_ip(API_PORT, Joins::Later)?;
        }
        for component in COMPONENTS {
            if self.guest_vm.disk.has(&format!("{MANIFESTS}/{component}.json")) {
                self.start_pod(component)?;
            }
        }
        self.register(&registration).await
    }

    /// Starts to compete for the control plane's virtual IP, if the disk contains a static Pod with keepalived or
    /// kube-vip.
    pub(super) fn start_virtual_ip(&mut self, port: u16, joins: Joins) -> Result<(), Failure> {
        let GuestVm { disk, images, addresses, address, .. } = &self.guest_vm;
        self.virtual_ip =
            VirtualIpCandidate::start(disk, images, addresses, (address.served, port).into(), joins)?;
        Ok(())
    }

    /// Starts a static Pod's process. kube-scheduler doesn't have a process, because [`scheduler`] replaces it.
    pub(super) fn start_pod(&mut self, component: &str) -> Result<(), Failure> {
        let path = format!("{MANIFESTS}/{component}.json");
        let text = self.guest_vm.disk.read(&path).unwrap_or_default();
        let pod: Pod = serde_json::from_str(&text).map_err(|error| Failure::host(&path, &error))?;
        let process = match self.guest_vm.programs.of(component) {
            None => None,
            Some(program) => {
                let command = pod.spec.as_ref().and_then(|spec| spec.containers.first()?.command.clone());
                let mounts = HostMounts::mount(&pod, &self.guest_vm.disk)?;
                let arguments = command.unwrap_or_default();
                let arguments: Result<Vec<_>, _> =
                    arguments.iter().skip(1).map(|argument| mounts.on_host(argument)).collect();
                let arguments = arguments?;
                Some(start(self.guest_vm.command(component, program)?.args(arguments))?)
            }
        };
        self.pods.insert(component.to_owned(), (pod, process));
        Ok(())
    }

    /// Returns the failure for a component that didn't become ready. The message includes how the component's process
    /// ended.
    fn why(&self, component: &str, reason: Reason) -> Failure {
        let end = self.pods.get(component).and_then(|(_, process)| process.as_ref()?.state().last_end);
        let how = end.map_or_else(|| "did not get ready".to_owned(), |end| format!("ended: {end}"));
        Failure::new(reason, format!("{component} {how}"))
    }

    /// Waits until the local etcd member accepts connections.
    pub(super) async fn etcd_started(&self, deadline: Deadline) -> Result<(), Failure> {
        let address = (self.guest_vm.address.served, 2379);
        let connect = || async {
            tokio::net::TcpStream::connect(address)
                .await
                .map(drop)
                .map_err(|_| self.why("etcd", Reason::Etcd))
        };
        retry_until(deadline, connect).await
    }

    /// Restarts etcd if it doesn't respond within 500 ms after its promotion.
    ///
    /// A new member announces itself with its first proposal. That proposal is lost if the member closes its
    /// connections because it receives a snapshot. etcd repeats the proposal after 7 seconds, or when etcd starts.
    pub(super) async fn etcd_announced(&self, certificates: &str) {
        let ready = self.etcd_ready(certificates, self.guest_vm.deadline());
        if tokio::time::timeout(Duration::from_millis(500), ready).await.is_err()
            && let Some((_, Some(process))) = self.pods.get("etcd")
        {
            process.kill().await;
            process.revive().await;
        }
    }

    /// Waits until the local etcd member responds to linearizable reads.
    pub(super) async fn etcd_ready(&self, certificates: &str, deadline: Deadline) -> Result<(), Failure> {
        let endpoint = format!("https://{}:2379", self.guest_vm.address.served);
        let etcd = Etcd::at(vec![endpoint], &self.guest_vm.disk, certificates)?;
        let healthy = || async { etcd.healthy().await.map_err(|_| self.why("etcd", Reason::Etcd)) };
        retry_until(deadline, healthy).await
    }

    /// Waits until an API server is ready.
    pub(super) async fn api_ready(&self, client: &kube::Client, deadline: Deadline) -> Result<(), Failure> {
        let ask = || async {
            let request = http::Request::get("/readyz").body(Vec::new());
            let request = request.map_err(|error| Failure::host("ask for /readyz", &error))?;
            let ready = tokio::time::timeout(Duration::from_secs(5), client.request_text(request)).await;
            match ready {
                Ok(Ok(_)) => Ok(()),
                _ => Err(self.why("kube-apiserver", Reason::ApiServer)),
            }
        };
        retry_until(deadline, ask).await
    }

    /// Registers the node, publishes its static Pods, and starts to renew the lease.
    pub(super) async fn register(&mut self, registration: &Registration) -> Result<(), Failure> {
        if registration.control_plane && self.port_forward.is_none() {
            self.port_forward = Some(start(self.guest_vm.port_forward()?)?);
        }
        proxy::check(&self.guest_vm.disk, registration, self.guest_vm.address.reported.into())?;
        let kubeconfig = self.guest_vm.disk.read(KUBECONFIG).unwrap_or_default();
        let session = Session {
            client: client(&kubeconfig).await?,
            registration: registration.clone(),
            guest_vm: self.guest_vm.clone(),
        };
        let owner = retry_until(self.guest_vm.deadline(), || session.node()).await?;
        let pods: Vec<_> = self
            .pods
            .values()
            .map(|(pod, process)| (pod.clone(), process.as_ref().map(Supervised::watch)))
            .collect();
        for (pod, state) in &pods {
            retry_until(self.guest_vm.deadline(), || session.mirror(pod, &owner, state.as_ref())).await?;
        }
        retry_until(self.guest_vm.deadline(), || session.renew(&owner)).await?;
        let (network, configured) = tokio::sync::watch::channel(has_network(&self.guest_vm.disk));
        let bound = NodePods {
            client: session.client.clone(),
            node: registration.name.clone(),
            guest_vm: self.guest_vm.clone(),
            network,
            programs: self.programs.clone(),
        };
        self.bound_pods = Some(AbortOnDropHandle::new(tokio::spawn(bound.run())));
        self.heartbeat = Some(AbortOnDropHandle::new(tokio::spawn(session.beat(owner, pods, configured))));
        if registration.control_plane {
            let own = self.guest_vm.disk.read("/etc/kubernetes/scheduler.conf").unwrap_or_default();
            self.scheduler = Some(AbortOnDropHandle::new(tokio::spawn(scheduler::run(client(&own).await?))));
        }
        Ok(())
    }
}

fn start(command: Command) -> Result<Supervised, Failure> {
    Supervised::start(command).map_err(|error| Failure::host("start a program", &error))
}

/// The kubelet's session with the API server.
struct Session {
    client: kube::Client,
    registration: Registration,
    guest_vm: GuestVm,
}

type WatchedState = tokio::sync::watch::Receiver<plane::supervise::ProcessState>;
type Watched = Option<WatchedState>;

fn refused(doing: &str, error: &kube::Error) -> Failure {
    let failure = Failure::new(Reason::Registration, format!("{doing}: {}", api_error(error)));
    match error {
        kube::Error::Api(status) if status.code == 422 => failure.for_good(),
        _ => failure,
    }
}

impl Session {
    /// Creates the Node or, if it exists, updates its status. Returns an owner reference to the Node.
    async fn node(&self) -> Result<OwnerReference, Failure> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let node = self.registration.node(self.guest_vm.address, has_network(&self.guest_vm.disk))?;
        let node = match nodes.create(&PostParams::default(), &node).await {
            Err(kube::Error::Api(status)) if status.code == 409 => self.refresh().await?,
            other => other.map_err(|error| refused("register the node", &error))?,
        };
        Ok(OwnerReference {
            api_version: "v1".into(),
            kind: "Node".into(),
            name: self.registration.name.clone(),
            uid: node.metadata.uid.unwrap_or_default(),
            controller: Some(true),
            block_owner_deletion: None,
        })
    }

    async fn refresh(&self) -> Result<Node, Failure> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let status = self.registration.status(self.guest_vm.address, has_network(&self.guest_vm.disk));
        let status = Patch::Strategic(json!({ "status": status }));
        let patched = nodes.patch_status(&self.registration.name, &PatchParams::default(), &status).await;
        patched.map_err(|error| refused("report the node's status", &error))
    }

    /// Creates or updates the mirror Pod for a static Pod.
    async fn mirror(
        &self,
        manifest: &Pod,
        owner: &OwnerReference,
        state: Option<&WatchedState>,
    ) -> Result<(), Failure> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), "kube-system");
        let pod = mirror(manifest, owner);
        let name = pod.metadata.name.clone().unwrap_or_default();
        match pods.create(&PostParams::default(), &pod).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            other => drop(other.map_err(|error| refused("show a static pod", &error))?),
        }
        let state = state.map(|state| state.borrow().clone());
        let (running, restarts) = state.map_or((true, 0), |state| (state.pid.is_some(), state.failures));
        let status = pod_status(manifest, self.guest_vm.address, running, restarts);
        let status = Patch::Merge(json!({ "status": status }));
        let patched = pods.patch_status(&name, &PatchParams::default(), &status).await;
        patched.map(drop).map_err(|error| refused("report a static pod's status", &error))
    }

    async fn renew(&self, owner: &OwnerReference) -> Result<(), Failure> {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), "kube-node-lease");
        let lease = self.registration.lease(owner);
        let renewal = Patch::Merge(json!({ "spec": lease.spec }));
        match leases.patch(&self.registration.name, &PatchParams::default(), &renewal).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {
                leases.create(&PostParams::default(), &lease).await.map(drop)
            }
            other => other.map(drop),
        }
        .map_err(|error| refused("renew the node's lease", &error))
    }

    /// Renews the lease forever, and repairs the status of the Node and its static Pods after other writers changed it.
    async fn beat(
        self,
        owner: OwnerReference,
        pods: Vec<(Pod, Watched)>,
        mut configured: tokio::sync::watch::Receiver<bool>,
    ) {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let mut shown: Vec<_> = pods.iter().map(|(_, state)| process_id(state)).collect();
        loop {
            tokio::select! {
                () = tokio::time::sleep(RENEWAL) => {}
                // Fails only after the Pod watcher, which holds the sender, has ended. The Pod watcher ends together
                // with this task.
                Ok(()) = configured.changed() => {}
            }
            if self.guest_vm.is_silent() {
                continue;
            }
            if let Err(failure) = self.renew(&owner).await {
                tracing::debug!(node = owner.name, %failure, "the lease is not renewed");
                continue;
            }
            // A deleted Node isn't created again before the next boot.
            let ready = has_network(&self.guest_vm.disk);
            if nodes.get(&owner.name).await.is_ok_and(|node| is_ready(&node) != ready) {
                let _ = self.refresh().await;
            }
            let unready = self.unready_pods(&owner.name).await;
            for ((pod, state), shown) in pods.iter().zip(&mut shown) {
                let now = process_id(state);
                let runs = state.is_none() || now.is_some();
                let changed = now != *shown || runs && unready.contains(&mirror_name(pod, &owner));
                if changed && self.mirror(pod, &owner, state.as_ref()).await.is_ok() {
                    *shown = now;
                }
            }
        }
    }

    /// Returns the names of the node's Pods in kube-system that aren't ready. The node lifecycle controller marks an
    /// unready node's Pods as not ready, and leaves it to the kubelet to revert that.
    async fn unready_pods(&self, node: &str) -> BTreeSet<String> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), "kube-system");
        let own = ListParams::default().fields(&format!("spec.nodeName={node}"));
        let all = pods.list(&own).await.map(|list| list.items).unwrap_or_default();
        all.iter().filter(|pod| !shows_ready(pod)).map(ResourceExt::name_any).collect()
    }
}

fn process_id(state: &Watched) -> Option<u32> {
    state.as_ref().and_then(|state| state.borrow().pid)
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
