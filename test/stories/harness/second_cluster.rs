//! A second management cluster: its own API server, and a VM operator on the same vCenter.

use std::path::Path;

use kube::api::DynamicObject;
use kube::{Api, Client, ResourceExt};
use plane::{Plane, Program, Running};
use serde_json::{Value, json};

use crate::harness::command::exe;
use crate::harness::own_server::{OwnServer, definitions, prepare_stack};
use crate::harness::story::{Story, api_resource};

pub const OPERATOR: &str = "vmware-system-vmop";
const CONFIG: &str = "vsphere.provider.config.vmoperator.vmware.com";

/// The second management cluster.
pub struct SecondCluster {
    pub server: OwnServer,
}

impl SecondCluster {
    /// Starts a cluster with the stack's VM operator configuration and `changes` to it. `None` removes a key.
    pub async fn start(story: &Story, changes: &[(&str, Option<&str>)]) -> Self {
        let (guard, options) = prepare_stack(story, sim::tools::definitions().unwrap());
        let server = OwnServer { guard, plane: Plane::bare(options).await.unwrap() };
        let second = Self::adopt(story, server, changes).await;
        second.run_operator().await;
        second
    }

    /// Uses a server that serves our kinds, but doesn't run a VM operator yet.
    pub async fn adopt(story: &Story, server: OwnServer, changes: &[(&str, Option<&str>)]) -> Self {
        let second = Self { server };
        second.configure(story, changes).await;
        second
    }

    /// Starts the VM operator.
    pub async fn run_operator(&self) -> Running {
        self.run(Program::new("vmop", exe()).arg("--probe-address-map=10.0.0.0/8=127.0.0.0/8")).await
    }

    /// Starts a program.
    pub async fn run(&self, program: Program) -> Running {
        self.server.plane.run(program).await.unwrap()
    }

    /// Applies the current CRDs over the existing ones.
    pub fn upgrade(&self) {
        self.server.apply("the CRDs", &definitions());
    }

    /// Copies the first cluster's provider configuration, namespace and VM class.
    async fn configure(&self, story: &Story, changes: &[(&str, Option<&str>)]) {
        let (from, to) = (story.client(), self.client());
        let namespaces = [("Namespace", OPERATOR), ("Namespace", story.namespace.as_str())];
        for (kind, name) in namespaces {
            copy_object(&Api::all_with(from.clone(), &api_resource(kind)), name, &to).await;
        }
        let operator = |kind| Api::namespaced_with(from.clone(), OPERATOR, &api_resource(kind));
        let mut config = read_object(&operator("ConfigMap"), CONFIG).await;
        let data = config["data"].as_object_mut().unwrap();
        for (key, value) in changes {
            match value {
                Some(value) => drop(data.insert((*key).to_owned(), json!(value))),
                None => drop(data.remove(*key)),
            }
        }
        self.apply(&config).await;
        let credentials = config["data"]["VcCredsSecretName"].as_str().unwrap();
        copy_object(&operator("Secret"), credentials, &to).await;
        copy_object(&story.cluster_api("VirtualMachineClass"), "best-effort-xsmall", &to).await;
        copy_object(&story.api("VirtualMachineClassBinding"), "best-effort-xsmall", &to).await;
    }

    pub fn client(&self) -> Client {
        self.server.client()
    }

    /// Returns the administrator's kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        self.server.plane.kubeconfig()
    }

    pub fn api(&self, kind: &str, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client(), namespace, &api_resource(kind))
    }

    pub fn cluster_api(&self, kind: &str) -> Api<DynamicObject> {
        Api::all_with(self.client(), &api_resource(kind))
    }

    pub async fn apply(&self, object: &Value) {
        layercake::kube::apply::apply(&self.client(), object)
            .await
            .unwrap_or_else(|error| panic!("{error:#}"));
    }

    pub async fn stop(self) {
        self.server.stop().await;
    }
}

/// Copies an object to another cluster, and returns it.
pub async fn copy_object(from: &Api<DynamicObject>, name: &str, to: &Client) -> Value {
    let copy = read_object(from, name).await;
    layercake::kube::apply::apply(to, &copy).await.unwrap_or_else(|error| panic!("{name}: {error:#}"));
    copy
}

/// Reads an object without its status and without server-generated metadata.
async fn read_object(from: &Api<DynamicObject>, name: &str) -> Value {
    let object = from.get(name).await.unwrap_or_else(|error| panic!("{name}: {error}"));
    let finalizers = object.finalizers().to_vec();
    let mut copy = serde_json::to_value(object).unwrap();
    copy.as_object_mut().unwrap().remove("status");
    let metadata = copy["metadata"].as_object_mut().unwrap();
    for given in
        ["uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "ownerReferences"]
    {
        metadata.remove(given);
    }
    metadata.insert("finalizers".to_owned(), json!(finalizers));
    copy
}
