//! Hosts, datastores and VMs that vCenter does not reach; backups of vCenter, and its clock.

use reqwest::Method;
use serde_json::json;

use super::client::ControlApi;
use super::error::Error;

impl ControlApi {
    /// Shows a VM as `disconnected`, `orphaned`, `inaccessible` or `invalid`, without the configuration that vCenter then
    /// can't read, or as `connected` again.
    pub async fn set_vm_state(&self, moid: &str, state: &str) -> Result<(), Error> {
        let config = if state == "connected" { "kept" } else { "unset" };
        let order = json!({"state": state, "config": config});
        self.send(Method::PUT, &format!("/v1/vms/{moid}/outage"), Some(order)).await
    }

    /// Takes a host away (`disconnected`, `notResponding`), or brings it back (`connected`).
    pub async fn set_host_state(&self, moid: &str, state: &str) -> Result<(), Error> {
        self.send(Method::PUT, &format!("/v1/hosts/{moid}/outage"), Some(json!({"state": state}))).await
    }

    /// Makes the datastore of that name inaccessible, or accessible again.
    pub async fn set_datastore_accessible(&self, name: &str, accessible: bool) -> Result<(), Error> {
        let order = json!({"accessible": accessible});
        self.send(Method::PUT, &format!("/v1/datastores/{name}/outage"), Some(order)).await
    }

    /// Brings back all that was taken away.
    pub async fn end_outages(&self) -> Result<(), Error> {
        self.send(Method::DELETE, "/v1/outages", None).await
    }

    /// Notes what vCenter's database knows.
    pub async fn take_backup(&self) -> Result<(), Error> {
        self.send(Method::POST, "/v1/backup", None).await
    }

    /// Puts vCenter back to the backup: VMs that were made since are gone from it, those that were destroyed since are back,
    /// orphaned.
    pub async fn restore_backup(&self) -> Result<(), Error> {
        self.send(Method::POST, "/v1/restore", None).await
    }

    /// Connects the hosts of a restored vCenter: the VMs that it does not know come into a folder of its own, under other ids.
    pub async fn reconnect_hosts(&self) -> Result<(), Error> {
        self.send(Method::POST, "/v1/hosts/reconnect", None).await
    }

    /// Sets vCenter's clock so far from the true time.
    pub async fn set_clock(&self, offset_seconds: i64) -> Result<(), Error> {
        self.send(Method::PUT, "/v1/clock", Some(json!({ "offsetSeconds": offset_seconds }))).await
    }
}
