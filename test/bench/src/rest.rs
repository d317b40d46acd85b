//! What the VM operator does when there is nothing to do.

use std::time::Duration;

use anyhow::Result;
use serde::Serialize;

use crate::world::World;
use crate::writes::Writes;
use crate::{calls, process};

/// What was seen of the idle VM operator.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rest {
    /// For so long.
    pub seconds: u64,
    /// Requests to vCenter.
    pub vcenter_calls: u64,
    /// Those that change something.
    pub vcenter_mutating: u64,
    /// Writes to the API server, leases aside.
    pub api_writes: u64,
    /// Processor time, in per cent of one core.
    pub cpu_percent: f64,
}

/// Watches the process for so many seconds.
pub async fn watched(world: &World, pid: u32, seconds: u64) -> Result<Rest> {
    let (client, control) = (world.client(), world.control());
    let (writes, cpu) = (Writes::read(&client).await?, process::cpu(pid));
    control.forget_requests().await?;
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let requests = control.requests().await?;
    let used = process::cpu(pid).saturating_sub(cpu).as_secs_f64();
    Ok(Rest {
        seconds,
        vcenter_calls: requests.total,
        vcenter_mutating: calls::mutating(&requests),
        api_writes: Writes::read(&client).await?.since(&writes).total(),
        cpu_percent: used * 100.0 / Duration::from_secs(seconds.max(1)).as_secs_f64(),
    })
}
