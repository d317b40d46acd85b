//! The control API of the simulated vCenter: what a guest, an operator behind our back, or a fault does to it.
//!
//! Nothing of the product uses it; stories and the guest agent do.

mod disks;
mod fault;
mod inventory;

use std::collections::BTreeMap;
use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use disks::FirstClassDisk;
pub use fault::{Fault, FaultKind};
pub use inventory::{
    Call, Inventory, InventoryDisk, InventoryModule, InventoryNode, InventoryVm, OrphanedFiles, Requests,
    Traffic,
};

/// What went wrong at the control API.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The control API did not answer.
    #[error("the simulator's control API does not answer {call}: {source}")]
    Unreachable {
        /// Method and path.
        call: String,
        /// The transport's error, without its address.
        source: reqwest::Error,
    },
    /// The thing asked for is not there (any more).
    #[error("the simulator's control API knows no {call}")]
    NotFound {
        /// Method and path.
        call: String,
    },
    /// The control API refused.
    #[error("the simulator's control API refused {call}: {status} {message}")]
    Refused {
        /// Method and path.
        call: String,
        /// HTTP status.
        status: StatusCode,
        /// The control API's own words.
        message: String,
    },
}

/// A VM as the control API lists it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Vm {
    /// Managed object id, `vm-42`.
    pub moid: String,
    /// Name in its folder.
    pub name: String,
    /// BIOS UUID.
    pub uuid: String,
    /// vCenter's instance UUID.
    pub instance_uuid: String,
    /// `poweredOn`, `poweredOff` or `suspended`.
    pub power_state: String,
    /// Whether it is a template, which never boots.
    pub template: bool,
    /// The folder it is in.
    pub folder: String,
    /// Grows with every power-on, reset and reboot.
    pub boot_count: u64,
}

impl Vm {
    /// Whether a guest runs in it.
    pub fn powered_on(&self) -> bool {
        self.power_state == "poweredOn" && !self.template
    }
}

/// All VMs at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Vms {
    /// To be given as `since` to the next call.
    pub revision: u64,
    /// Every VM, templates too.
    #[serde(deserialize_with = "listed")]
    pub vms: Vec<Vm>,
}

/// Go writes an empty list as null.
fn listed<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<Vm>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// A VM that came to be as a copy of another.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct VmCopy {
    /// Name in its folder.
    pub name: String,
    /// Managed object id.
    pub moid: String,
    /// BIOS and instance UUID.
    pub uuid: String,
}

/// What VMware Tools in the guest reports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GuestReport {
    /// The primary address; none takes it away.
    pub ip: Option<String>,
    /// The host name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_name: Option<String>,
    /// Whether VMware Tools runs.
    pub tools_running: bool,
}

/// What somebody does to a VM behind our back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum PowerAction {
    /// Power it on.
    On,
    /// Power it off, hard.
    Off,
    /// Press reset.
    Reset,
    /// Power it off and delete it from disk.
    Destroy,
    /// Take it out of the inventory.
    Unregister,
}

/// A client of the control API.
#[derive(Clone)]
pub struct ControlApi {
    http: reqwest::Client,
    base: String,
    token: String,
}

impl std::fmt::Debug for ControlApi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ControlApi").field("base", &self.base).finish_non_exhaustive()
    }
}

impl ControlApi {
    /// A client for the control API at `base` (`http://127.0.0.1:PORT`).
    pub fn new(base: &str, token: &str) -> Self {
        // Somebody else's provider serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder().no_proxy().build().unwrap_or_default();
        Self { http, base: base.trim_end_matches('/').to_owned(), token: token.to_owned() }
    }

    /// The VMs, at once if the revision is not `since` any more, else when something changes or `wait` is over.
    pub async fn vms(&self, since: Option<u64>, wait: Duration) -> Result<Vms, Error> {
        let path = match since {
            Some(revision) => format!("/v1/vms?since={revision}&waitMs={}", wait.as_millis()),
            None => "/v1/vms".to_owned(),
        };
        self.call(Method::GET, &path, None).await
    }

    /// The VM's `guestinfo.*` keys.
    pub async fn guestinfo(&self, moid: &str) -> Result<BTreeMap<String, String>, Error> {
        self.call(Method::GET, &format!("/v1/vms/{moid}/guestinfo"), None).await
    }

    /// Writes `guestinfo.*` keys as the guest's RPC tool does; none removes one.
    pub async fn set_guestinfo(
        &self,
        moid: &str,
        values: &BTreeMap<String, Option<String>>,
    ) -> Result<(), Error> {
        self.send(Method::PATCH, &format!("/v1/vms/{moid}/guestinfo"), Some(json!(values))).await
    }

    /// Reports what VMware Tools sees.
    pub async fn report(&self, moid: &str, report: &GuestReport) -> Result<(), Error> {
        self.send(Method::PUT, &format!("/v1/vms/{moid}/guest"), Some(json!(report))).await
    }

    /// Does something to a VM behind our back.
    pub async fn power(&self, moid: &str, action: PowerAction) -> Result<(), Error> {
        self.send(Method::POST, &format!("/v1/vms/{moid}/power"), Some(json!({ "action": action }))).await
    }

    /// So many copies of a VM come to be beside it, to be read and not to be changed.
    pub async fn copies(&self, moid: &str, count: usize, prefix: &str) -> Result<Vec<VmCopy>, Error> {
        let body = json!({"count": count, "prefix": prefix});
        self.call(Method::POST, &format!("/v1/vms/{moid}/copies"), Some(body)).await
    }

    /// Requests so far.
    pub async fn requests(&self) -> Result<Requests, Error> {
        self.call(Method::GET, "/v1/requests", None).await
    }

    /// Starts counting anew.
    pub async fn forget_requests(&self) -> Result<(), Error> {
        self.send(Method::DELETE, "/v1/requests", None).await
    }

    /// VMs, folders and pools.
    pub async fn inventory(&self) -> Result<Inventory, Error> {
        self.call(Method::GET, "/v1/inventory", None).await
    }

    /// Plants a fault; answers its id.
    pub async fn plant(&self, fault: &Fault) -> Result<String, Error> {
        #[derive(Deserialize)]
        struct Planted {
            id: String,
        }
        Ok(self.call::<Planted>(Method::POST, "/v1/faults", Some(json!(fault))).await?.id)
    }

    /// The planted faults with their hits and the calls they hold.
    pub async fn faults(&self) -> Result<Value, Error> {
        self.call(Method::GET, "/v1/faults", None).await
    }

    /// Removes one fault, or all; what they held goes on.
    pub async fn remove_faults(&self, id: Option<&str>) -> Result<(), Error> {
        let path = id.map_or_else(|| "/v1/faults".to_owned(), |id| format!("/v1/faults/{id}"));
        self.send(Method::DELETE, &path, None).await
    }

    /// Ends every session but the control API's.
    pub async fn expire_sessions(&self) -> Result<(), Error> {
        self.send(Method::POST, "/v1/sessions/expire", None).await
    }

    /// Closes every connection and refuses new ones for `down`; then also the sessions may be gone. Returns when
    /// vCenter serves again.
    pub async fn cut(&self, down: Duration, sessions: bool) -> Result<(), Error> {
        let order = json!({"downMs": down.as_millis(), "sessions": sessions});
        self.send(Method::POST, "/v1/front/cut", Some(order)).await
    }

    /// The calls that can change something, so far.
    pub async fn journal(&self) -> Result<Vec<Call>, Error> {
        self.journaled(Method::GET).await
    }

    /// The calls that can change something, which are forgotten by this.
    pub async fn take_journal(&self) -> Result<Vec<Call>, Error> {
        self.journaled(Method::DELETE).await
    }

    async fn journaled(&self, method: Method) -> Result<Vec<Call>, Error> {
        #[derive(Deserialize)]
        struct Journal {
            calls: Vec<Call>,
        }
        Ok(self.call::<Journal>(method, "/v1/journal", None).await?.calls)
    }

    /// What belongs to nothing.
    pub async fn orphaned_files(&self) -> Result<OrphanedFiles, Error> {
        self.call(Method::GET, "/v1/orphans", None).await
    }

    /// Removes the files that belong to nothing.
    pub async fn remove_orphaned_files(&self) -> Result<(), Error> {
        self.send(Method::DELETE, "/v1/orphans", None).await
    }

    /// Removes all cluster modules.
    pub async fn clear_modules(&self) -> Result<(), Error> {
        self.send(Method::DELETE, "/v1/modules", None).await
    }

    /// Hangs the disk of that file (`[datastore] folder/name.vmdk`) on a VM behind our back; it is made if it is not
    /// there. Answers its UUID.
    pub async fn attach(&self, moid: &str, file: &str, capacity_mib: u64) -> Result<String, Error> {
        #[derive(Deserialize)]
        struct Attached {
            uuid: String,
        }
        let order = json!({"file": file, "capacityMiB": capacity_mib});
        Ok(self.call::<Attached>(Method::POST, &format!("/v1/vms/{moid}/disks"), Some(order)).await?.uuid)
    }

    /// The tokens of all sessions that were ever opened.
    pub async fn tokens(&self) -> Result<Vec<String>, Error> {
        #[derive(Deserialize)]
        struct Issued {
            tokens: Vec<String>,
        }
        Ok(self.call::<Issued>(Method::GET, "/v1/sessions", None).await?.tokens)
    }

    /// Gives a VM another name behind our back.
    pub async fn rename(&self, moid: &str, name: &str) -> Result<(), Error> {
        self.send(Method::POST, &format!("/v1/vms/{moid}/rename"), Some(json!({ "name": name }))).await
    }

    /// Puts a VM into another folder behind our back.
    pub async fn relocate(&self, moid: &str, folder: &str) -> Result<(), Error> {
        self.send(Method::POST, &format!("/v1/vms/{moid}/move"), Some(json!({ "folder": folder }))).await
    }

    /// Makes a folder of VMs; answers its id.
    pub async fn make_folder(&self, parent: &str, name: &str) -> Result<String, Error> {
        #[derive(Deserialize)]
        struct Made {
            moid: String,
        }
        let order = json!({"parent": parent, "name": name});
        Ok(self.call::<Made>(Method::POST, "/v1/folders", Some(order)).await?.moid)
    }

    /// Destroys a folder with all VMs and folders in it.
    pub async fn clear_folder(&self, moid: &str) -> Result<(), Error> {
        self.send(Method::DELETE, &format!("/v1/folders/{moid}"), None).await
    }

    /// Destroys a resource pool.
    pub async fn clear_pool(&self, moid: &str) -> Result<(), Error> {
        self.send(Method::DELETE, &format!("/v1/pools/{moid}"), None).await
    }

    async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Result<T, Error> {
        let call = format!("{method} {path}");
        let answer = self.answer(method, path, body, &call).await?;
        answer.json().await.map_err(|source| Error::Unreachable { call, source: source.without_url() })
    }

    async fn send(&self, method: Method, path: &str, body: Option<Value>) -> Result<(), Error> {
        let call = format!("{method} {path}");
        self.answer(method, path, body, &call).await.map(drop)
    }

    async fn answer(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
        call: &str,
    ) -> Result<reqwest::Response, Error> {
        let mut request = self.http.request(method, format!("{}{path}", self.base)).bearer_auth(&self.token);
        if let Some(body) = body {
            request = request.json(&body);
        }
        let call = call.to_owned();
        let answer = match request.send().await {
            Ok(answer) => answer,
            Err(source) => return Err(Error::Unreachable { call, source: source.without_url() }),
        };
        match answer.status() {
            status if status.is_success() => Ok(answer),
            StatusCode::NOT_FOUND => Err(Error::NotFound { call }),
            status => Err(Error::Refused { call, status, message: answer.text().await.unwrap_or_default() }),
        }
    }
}
