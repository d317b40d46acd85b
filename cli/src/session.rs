//! A running stack as its users see it: where its API server, its vCenter and its files are.

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
use crate::connection::client;
use crate::files::{owner_only, read_text};

/// Pool and folder, by MoID, in which a namespace's VMs are made.
#[derive(Clone, Debug)]
pub struct Placement {
    /// `vmware-system-resource-pool`.
    pub resource_pool: String,
    /// `vmware-system-vm-folder`.
    pub folder: String,
}

/// Resident memory in MiB, shared pages counted once.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Memory {
    /// Control plane, Cluster API, simulator and guests: everything but our three programs.
    pub stack: u64,
    /// Guest Cluster Manager.
    pub gcm: u64,
    /// Infrastructure provider.
    pub capw: u64,
    /// VM operator.
    pub vmop: u64,
}

/// What is needed to use a stack, also from another process than the one that runs it.
#[derive(Clone, Serialize, Deserialize)]
pub struct Session {
    /// The process that runs the stack.
    pub pid: u32,
    /// The mark in the environment of every process of the stack.
    pub stack: String,
    /// Everything the stack writes.
    pub folder: PathBuf,
    /// The admin's kubeconfig.
    pub kubeconfig: PathBuf,
    /// The simulated vCenter.
    pub vcenter: VcenterEndpoint,
    /// How its nodes are run where they are machines that boot.
    pub machines: Option<Accelerator>,
}

impl Session {
    /// A client with the admin's rights.
    pub async fn client(&self) -> Result<Client> {
        client(Some(&self.kubeconfig), None).await
    }

    /// The control API of the simulated vCenter.
    pub fn control(&self) -> Result<ControlApi> {
        let token =
            self.vcenter.control_token().context("cannot read the token of the simulator's control API")?;
        Ok(ControlApi::new(&self.vcenter.control, &token))
    }

    /// Where namespaces put their VMs.
    pub fn placement(&self) -> Placement {
        Placement { resource_pool: self.vcenter.resource_pool.clone(), folder: self.vcenter.folder.clone() }
    }

    /// Lines for a shell to source; the password stays in its file.
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

    /// Resident memory of the stack's processes.
    pub fn memory(&self) -> Memory {
        let mut by_name = plane::memory::of(&self.stack);
        let mut taken = |name: &str| by_name.remove(name).unwrap_or_default();
        let (gcm, capw, vmop) = (taken("gcm"), taken("capw"), taken("vmop"));
        Memory { stack: by_name.values().sum(), gcm, capw, vmop }
    }

    /// Writes a cluster's kubeconfig, if it has one by now, and returns its path.
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

impl OperatorFlags {
    /// Reads the CA bundle, and returns the options of the VM operator's checks.
    pub fn doctor_options(&self) -> Result<vmop::doctor::Options> {
        let ca = self.vcenter_ca.as_deref().map(read_text).transpose()?;
        Ok(vmop::doctor::Options {
            namespace: self.operator_namespace.clone(),
            ca,
            recorder: vsphere::Recorder::default(),
        })
    }
}
