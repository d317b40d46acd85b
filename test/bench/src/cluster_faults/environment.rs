//! A management cluster on a simulated site, with a proxy between each of our programs and the API server.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use api::names::VMOP_NAMESPACE;
use api::vmop::ProviderConfiguration;
use kit::objects::Objects;
use kube::Client;
use layercake::site::manifests::class_binding;
use plane::{Guard, Options, Plane, Program, Running, StackIdentity};
use serde_json::{Value, json};
use sim::control::ControlApi;
use sim::guest::Registry;
use sim::{NodeRuntime, SiteNetworks, SiteSimulation};

use super::command::User;
use crate::proxy::ApiProxy;
use crate::testbed::{find_tools, namespace_object};

/// The namespace that contains the clusters.
pub const NAMESPACE: &str = "dev";
/// The nodes' VM class and StorageClass.
pub const CLASS: &str = "best-effort-small";
pub const STORAGE: &str = "gold";
/// The storage policy ID in the simulated vCenter.
const POLICY: &str = "aa6d5a82-1c88-45da-85d3-3d74b91a5bad";

/// One of our programs, and the proxy through which it accesses the API server.
pub struct Watched {
    pub name: &'static str,
    pub program: Running,
    pub proxy: ApiProxy,
}

/// A running management cluster.
pub struct ManagementCluster {
    guard: Guard,
    plane: Plane,
    site: SiteSimulation,
    /// Our programs.
    pub programs: Vec<Watched>,
    /// The control API of the simulated vCenter.
    pub control: ControlApi,
    /// The user who changes clusters.
    pub user: User,
}

impl ManagementCluster {
    /// Starts the control plane, the site and our programs.
    pub async fn start() -> Result<Self> {
        let exe = std::env::current_exe().context("cannot find the path of this program")?;
        let tools = find_tools().await?;
        let stack = Arc::new(StackIdentity::ephemeral()?);
        let guard = Guard::start(&exe, &stack)?;
        let options = Options {
            stack: stack.clone(),
            tools: tools.clone(),
            definitions: sim::tools::definitions()?,
            guest_proxy: None,
        };
        let registry = Registry::new(true);
        let (plane, site) =
            tokio::try_join!(async { Plane::start(options).await.map_err(anyhow::Error::from) }, async {
                let site =
                    SiteSimulation::start(&stack, &tools, NodeRuntime::default(), registry, Vec::new()).await;
                site.map_err(anyhow::Error::from)
            },)?;
        site.serve(&plane.client(), SiteNetworks::PortGroups);
        let vcenter = site.vcenter();
        let control = ControlApi::new(&vcenter.control, &vcenter.control_token()?);
        for object in objects(&site)? {
            Objects::new(&plane.client()).apply(&object).await?;
        }
        let mut programs = Vec::new();
        for name in ["gcm", "capw", "vmop"] {
            programs.push(start_program(&plane, name, &exe).await?);
        }
        let user = User::new(plane.stack().folder())?;
        let environment = Self { guard, plane, site, programs, control, user };
        // The VM operator's webhook checks the binding, so the VM operator must already run.
        Objects::new(&environment.client()).apply(&class_binding(CLASS, NAMESPACE)).await?;
        Ok(environment)
    }

    /// Returns a client with all permissions.
    pub fn client(&self) -> Client {
        self.plane.client()
    }

    /// Returns the administrator's kubeconfig path.
    pub fn kubeconfig(&self) -> String {
        self.plane.kubeconfig().display().to_string()
    }

    /// Stops everything.
    pub async fn stop(self) -> Result<()> {
        let Self { guard, plane, site, .. } = self;
        site.leave();
        plane.stop().await;
        site.stop().await;
        drop(plane);
        tokio::task::spawn_blocking(move || guard.finish()).await??;
        Ok(())
    }
}

/// Starts a program that accesses the API server only through a proxy. Leader election is off, so a restarted program
/// doesn't wait for its old lease.
async fn start_program(plane: &Plane, name: &'static str, exe: &std::path::Path) -> Result<Watched> {
    let deployment = components::config::manifests(name)?.deployment.context("it has no Deployment")?;
    let account = format!("system:serviceaccount:{}:{}", deployment.namespace, deployment.service_account);
    let proxy = ApiProxy::start(plane.client(), &account).await?;
    let kubeconfig = plane.stack().folder().join(format!("proxy-{name}"));
    proxy.write_kubeconfig(&kubeconfig)?;
    let program = Program::new(name, exe)
        .arg(format!("--kubeconfig={}", kubeconfig.display()))
        .arg("--leader-elect=false");
    let program = match name {
        "gcm" => program.arg("--nodes-pull-images"),
        // Simulated guests report network addresses, but they serve on loopback.
        "vmop" => program.arg("--probe-address-map=10.0.0.0/8=127.0.0.0/8"),
        _ => program,
    };
    let program = plane.run(program).await.with_context(|| format!("cannot start {name}"))?;
    Ok(Watched { name, program, proxy })
}

fn objects(site: &SiteSimulation) -> Result<Vec<Value>> {
    let vcenter = site.vcenter();
    let place = json!({
        "vmware-system-resource-pool": vcenter.resource_pool, "vmware-system-vm-folder": vcenter.folder,
    });
    let configuration = ProviderConfiguration {
        stack_id: "cluster-faults".to_owned(),
        folder: vcenter.folder.clone(),
        resource_pool: vcenter.resource_pool.clone(),
        ..vcenter.provider()
    };
    let quota = json!({format!("{STORAGE}.storageclass.storage.k8s.io/requests.storage"): "1Ti"});
    Ok(vec![
        namespace_object(VMOP_NAMESPACE, &json!({})),
        vcenter.credentials(VMOP_NAMESPACE)?,
        configuration.config_map(VMOP_NAMESPACE),
        json!({
            "apiVersion": "ipam.cluster.x-k8s.io/v1alpha2", "kind": "GlobalInClusterIPPool",
            "metadata": {"name": "control-planes"},
            "spec": {"addresses": [site.claimed_addresses()], "prefix": 16},
        }),
        namespace_object(NAMESPACE, &place),
        json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": STORAGE},
            "provisioner": "csi.vsphere.vmware.com", "parameters": {"storagePolicyID": POLICY},
        }),
        json!({
            "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "storage", "namespace": NAMESPACE},
            "spec": {"hard": quota},
        }),
    ])
}
