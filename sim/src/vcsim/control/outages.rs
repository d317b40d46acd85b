//! Simulated outages (hosts, datastores and VMs that vCenter can't reach), vCenter backups, and clock skew.

use reqwest::Method;
use serde_json::json;

use super::client::ControlApi;
use super::error::Error;

impl ControlApi {
    /// Sets a VM's connection state: `connected`, `disconnected`, `orphaned`, `inaccessible` or `invalid`.
    ///
    /// The VM's configuration is unset unless the state is `connected`, as if vCenter can't read it.
    pub async fn set_vm_state(&self, moid: &str, state: &str) -> Result<(), Error> {
        let config = if state == "connected" { "kept" } else { "unset" };
        let order = json!({"state": state, "config": config});
        self.send(Method::PUT, &format!("/v1/vms/{moid}/outage"), Some(order)).await
    }

    /// Sets a host's connection state: `connected`, `disconnected` or `notResponding`.
    pub async fn set_host_state(&self, moid: &str, state: &str) -> Result<(), Error> {
        self.send(Method::PUT, &format!("/v1/hosts/{moid}/outage"), Some(json!({"state": state}))).await
    }

    /// Makes the datastore with this name inaccessible, or accessible again.
    pub async fn set_datastore_accessible(&self, name: &str, accessible: bool) -> Result<(), Error> {
        let order = json!({"accessible": accessible});
        self.send(Method::PUT, &format!("/v1/datastores/{name}/outage"), Some(order)).await
    }

    /// Ends all VM, host and datastore outages.
    pub async fn end_outages(&self) -> Result<(), Error> {
        self.send(Method::DELETE, "/v1/outages", None).await
    }

    /// Takes a backup of vCenter's database. The new backup replaces an earlier one.
    pub async fn take_backup(&self) -> Result<(), Error> {
        self.send(Method::POST, "/v1/backup", None).await
    }

    /// Restores the backup and ends all sessions.
    ///
    /// VMs created after the backup disappear from the inventory. VMs destroyed after the backup reappear as `orphaned`.
    pub async fn restore_backup(&self) -> Result<(), Error> {
        self.send(Method::POST, "/v1/restore", None).await
    }

    /// Reconnects the hosts after a restore. vCenter registers the VMs that it doesn't know in a separate folder, with other ids.
    pub async fn reconnect_hosts(&self) -> Result<(), Error> {
        self.send(Method::POST, "/v1/hosts/reconnect", None).await
    }

    /// Sets the offset of vCenter's clock from the true time. A positive offset sets the clock ahead.
    pub async fn set_clock(&self, offset_seconds: i64) -> Result<(), Error> {
        self.send(Method::PUT, "/v1/clock", Some(json!({ "offsetSeconds": offset_seconds }))).await
    }
}
