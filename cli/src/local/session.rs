//! The addresses and files of a running stack, for its users.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use serde::{Deserialize, Serialize};
use sim::VcenterEndpoint;
use sim::control::ControlApi;
use sim::qemu::Accelerator;

use crate::args::OperatorFlags;
use crate::files::{owner_only, read_text};
use crate::kube::connection::client;

/// The resource pool and the folder for a namespace's VMs, as MoIDs.
#[derive(Clone, Debug)]
pub struct NamespacePlacement {
    /// The annotation `vmware-system-resource-pool`.
    pub resource_pool: String,
    /// The annotation `vmware-system-vm-folder`.
    pub folder: String,
}

/// Resident memory in MiB. Pages that processes share are counted once.
#[derive(Clone, Debug, Default, Serialize)]
pub struct StackMemory {
    /// All processes except the controllers of Layercake: control plane, Cluster API, simulator and guests.
    pub stack: u64,
    pub gcm: u64,
    pub capw: u64,
    pub vmop: u64,
}

/// The data that a program needs to use a running stack, even if another process runs the stack.
#[derive(Clone, Serialize, Deserialize)]
pub struct StackSession {
    /// The ID of the process that runs the stack.
    pub pid: u32,
    /// The stack's ID, which is in the environment of each of its processes.
    pub stack: String,
    /// The folder for all files that the stack writes.
    pub folder: PathBuf,
    /// The administrator's kubeconfig.
    pub kubeconfig: PathBuf,
    pub vcenter: VcenterEndpoint,
    /// The accelerator for nodes that are QEMU machines, or `None` for simulated nodes.
    pub machines: Option<Accelerator>,
}

impl StackSession {
    /// Connects with the administrator's rights.
    pub async fn client(&self) -> Result<Client> {
        client(Some(&self.kubeconfig), None).await
    }

    /// Returns a client for the simulated vCenter's control API.
    pub fn control(&self) -> Result<ControlApi> {
        control(&self.vcenter)
    }

    /// Returns the resource pool and the folder for VMs in namespaces.
    pub fn placement(&self) -> NamespacePlacement {
        NamespacePlacement {
            resource_pool: self.vcenter.resource_pool.clone(),
            folder: self.vcenter.folder.clone(),
        }
    }

    /// Returns shell commands that set environment variables for kubectl and govc. They read the password from its
    /// file.
    pub fn exports(&self) -> String {
        let VcenterEndpoint { username, password_file, ca_file, .. } = &self.vcenter;
        format!(
            "export KUBECONFIG={}\nexport GOVC_URL={} GOVC_USERNAME={username} GOVC_PASSWORD=\"$(cat {})\" GOVC_TLS_CA_CERTS={}",
            self.kubeconfig.display(),
            self.vcenter.url(),
            password_file.display(),
            ca_file.display(),
        )
    }

    /// Returns the resident memory of the stack's processes.
    pub fn memory(&self) -> StackMemory {
        let mut by_name = plane::memory::of(&self.stack);
        let mut taken = |name: &str| by_name.remove(name).unwrap_or_default();
        let (gcm, capw, vmop) = (taken("gcm"), taken("capw"), taken("vmop"));
        StackMemory { stack: by_name.values().sum(), gcm, capw, vmop }
    }

    /// Writes a cluster's kubeconfig to a file and returns the path. Returns `None` if the cluster doesn't have a
    /// kubeconfig yet.
    pub async fn write_kubeconfig(
        &self,
        client: &Client,
        namespace: &str,
        name: &str,
    ) -> Result<Option<PathBuf>> {
        let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
        let secret = secrets.get_opt(&api::names::kubeconfig_secret(name)).await?;
        let Some(kubeconfig) =
            secret.and_then(|secret| secret.data).and_then(|mut data| data.remove("value"))
        else {
            return Ok(None);
        };
        let folder = self.folder.join("kubeconfigs");
        fs::create_dir_all(&folder)?;
        let path = folder.join(format!("{namespace}-{name}.kubeconfig"));
        owner_only(&path, &kubeconfig.0)?;
        Ok(Some(path))
    }
}

/// Returns a client for a simulated vCenter's control API.
///
/// # Errors
/// Returns an error if the token can't be read.
pub fn control(vcenter: &VcenterEndpoint) -> Result<ControlApi> {
    let token = vcenter.control_token().context("cannot read the token of the simulator's control API")?;
    Ok(ControlApi::new(&vcenter.control, &token))
}

impl OperatorFlags {
    /// Reads the CA bundle, and returns the options for the VM operator's checks.
    pub fn doctor_options(&self) -> Result<vmop::doctor::Options> {
        let ca = self.vcenter_ca.as_deref().map(read_text).transpose()?;
        Ok(vmop::doctor::Options {
            namespace: self.operator_namespace.clone(),
            ca,
            recorder: vsphere::Recorder::default(),
        })
    }
}
