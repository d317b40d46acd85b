//! Cluster modules: sets of VMs that DRS keeps on different hosts.
//!
//! A module has no name and no description, only an id that vCenter draws. These calls have the old
//! form only, on every release.

use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::call::{Call, part};
use crate::retry::RetryPolicy;
use crate::style::Form;
use crate::{Client, Error, MoRef, Result};

const MODULES: &str = "/rest/vcenter/cluster/modules";

/// A cluster module.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ClusterModule {
    /// Its id, drawn by vCenter.
    #[serde(rename = "module")]
    pub id: String,
    /// MoID of its cluster.
    pub cluster: String,
}

#[derive(Deserialize)]
struct Summaries {
    #[serde(default)]
    summaries: Option<Vec<ClusterModule>>,
}

#[derive(Deserialize)]
struct Members {
    #[serde(default)]
    vms: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Outcome {
    #[serde(default)]
    success: bool,
}

impl Client {
    /// All cluster modules that there are.
    pub async fn cluster_modules(&self) -> Result<Vec<ClusterModule>> {
        let listed: Summaries = self.modules("modules", self.reading(), || Call::get(MODULES.into())).await?;
        Ok(listed.summaries.unwrap_or_default())
    }

    /// Creates an empty module and gives its id. Never sent twice: a module that was made cannot be found by name.
    pub async fn create_cluster_module(&self, cluster: &MoRef) -> Result<String> {
        let body = json!({ "spec": { "cluster": cluster.id() } });
        self.modules("module create", self.once_only(), || Call::post(MODULES.into(), body.clone()))
            .await
            .map_err(|error| error.on(cluster))
    }

    /// Deletes a module; its members stay as they are.
    pub async fn delete_cluster_module(&self, id: &str) -> Result<()> {
        let deleted: Result<Json> = self
            .modules("module delete", self.reading(), || Call::delete(format!("{MODULES}/{}", part(id))))
            .await;
        deleted.map(drop).map_err(|error| error.on(id))
    }

    /// The VMs in a module.
    pub async fn cluster_module_members(&self, id: &str) -> Result<Vec<MoRef>> {
        let members: Members = self
            .modules("module members", self.reading(), || {
                Call::get(format!("{MODULES}/vm/{}/members", part(id)))
            })
            .await
            .map_err(|error| error.on(id))?;
        Ok(members.vms.unwrap_or_default().into_iter().map(MoRef::vm).collect())
    }

    /// Puts VMs into a module. False where one of them was not put there, be it because it was there before.
    pub async fn add_to_cluster_module(&self, id: &str, vms: &[MoRef]) -> Result<bool> {
        let vms: Vec<_> = vms.iter().map(MoRef::id).collect();
        let path = format!("{MODULES}/vm/{}/members?action=add", part(id));
        let outcome: Outcome = self
            .modules("module add", self.reading(), || Call::post(path.clone(), json!({ "vms": vms })))
            .await
            .map_err(|error| error.on(id))?;
        Ok(outcome.success)
    }

    async fn modules<T: serde::de::DeserializeOwned>(
        &self,
        name: &'static str,
        policy: RetryPolicy,
        call: impl Fn() -> Call + Send + Sync,
    ) -> Result<T, Error> {
        self.automation_at(&self.inner.gate, Some(Form::Rest), name, policy, |_| call()).await
    }
}
