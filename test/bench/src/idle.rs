//! Measures the idle VM operator's cost.

use std::time::Duration;

use anyhow::Result;
use serde::Serialize;

use crate::api_writes::ApiWrites;
use crate::testbed::Testbed;
use crate::{calls, process};

/// The idle VM operator's calls and CPU time.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct IdleCost {
    pub seconds: u64,
    pub vcenter_calls: u64,
    /// The mutating calls.
    pub vcenter_mutating: u64,
    /// Writes to the API server, without leases.
    pub api_writes: u64,
    /// CPU time as a percentage of one core.
    pub cpu_percent: f64,
}

/// Measures the process for `seconds`.
pub async fn watch_idle(testbed: &Testbed, pid: u32, seconds: u64) -> Result<IdleCost> {
    let (client, control) = (testbed.client(), testbed.control());
    let (writes, cpu) = (ApiWrites::read(&client).await?, process::cpu(pid));
    control.forget_requests().await?;
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let requests = control.requests().await?;
    let used = process::cpu(pid).saturating_sub(cpu).as_secs_f64();
    Ok(IdleCost {
        seconds,
        vcenter_calls: requests.total,
        vcenter_mutating: calls::count_mutating(&requests),
        api_writes: ApiWrites::read(&client).await?.since(&writes).total(),
        cpu_percent: used * 100.0 / Duration::from_secs(seconds.max(1)).as_secs_f64(),
    })
}
