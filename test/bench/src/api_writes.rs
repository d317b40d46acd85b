//! Counts API server requests by verb and resource, as the API server's own metrics report them.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use kube::Client;

const WRITING: [&str; 6] = ["APPLY", "DELETE", "DELETECOLLECTION", "PATCH", "POST", "PUT"];
/// Resources that don't hold object state: events, leases, token reviews and access reviews.
const NOT_STATE: [&str; 7] = [
    "events",
    "leases",
    "localsubjectaccessreviews",
    "selfsubjectaccessreviews",
    "selfsubjectreviews",
    "subjectaccessreviews",
    "tokenreviews",
];

/// The time without a write after which the API server counts as quiet.
const QUIET: Duration = Duration::from_secs(2);

/// The request counts by verb and resource, such as `PATCH virtualmachines/status`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApiWrites(pub BTreeMap<String, u64>);

impl ApiWrites {
    /// Returns the writes since the API server started.
    pub async fn read(client: &Client) -> Result<Self> {
        Ok(Self::parse(&read_metrics(client).await?))
    }

    /// Returns all other requests since the API server started: reads, and writes to [`NOT_STATE`] resources.
    pub async fn read_others(client: &Client) -> Result<Self> {
        Ok(Self::parse_where(&read_metrics(client).await?, |verb, resource| !is_counted(verb, resource)))
    }

    fn parse(metrics: &str) -> Self {
        Self::parse_where(metrics, is_counted)
    }

    fn parse_where(metrics: &str, wanted: impl Fn(&str, &str) -> bool) -> Self {
        let mut writes = BTreeMap::new();
        for line in metrics.lines() {
            let Some((labels, count)) =
                line.strip_prefix("apiserver_request_total{").and_then(|rest| rest.rsplit_once("} "))
            else {
                continue;
            };
            let label = |name: &str| {
                let start = labels.find(&format!("{name}=\""))? + name.len() + 2;
                labels[start..].split('"').next()
            };
            let (verb, resource) = (label("verb").unwrap_or_default(), label("resource").unwrap_or_default());
            if resource.is_empty() || !wanted(verb, resource) {
                continue;
            }
            let part = label("subresource").filter(|part| !part.is_empty() && *part != "token");
            let what = part.map_or_else(|| resource.to_owned(), |part| format!("{resource}/{part}"));
            let count = count.trim().parse::<f64>().unwrap_or_default();
            // The metrics format writes counters as floats.
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let count = count as u64;
            *writes.entry(format!("{verb} {what}")).or_default() += count;
        }
        Self(writes)
    }

    /// Returns the requests since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let before = |what: &String| earlier.0.get(what).copied().unwrap_or_default();
        let grown = self.0.iter().map(|(what, count)| (what.clone(), count.saturating_sub(before(what))));
        Self(grown.filter(|(_, count)| *count > 0).collect())
    }

    /// Subtracts `count` requests that the benchmark itself made.
    #[must_use]
    pub fn without(mut self, what: &str, count: u64) -> Self {
        if let Some(all) = self.0.get_mut(what) {
            *all = all.saturating_sub(count);
        }
        self.0.retain(|_, count| *count > 0);
        self
    }

    /// Keeps only the resources for which `wanted` returns true.
    #[must_use]
    pub fn only(mut self, wanted: impl Fn(&str) -> bool) -> Self {
        self.0.retain(|what, _| wanted(what.split_once(' ').map_or(what, |(_, resource)| resource)));
        self
    }

    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }
}

async fn read_metrics(client: &Client) -> Result<String> {
    let request = http::Request::get("/metrics").body(Vec::new())?;
    client.request_text(request).await.context("cannot read the API server's metrics")
}

fn is_counted(verb: &str, resource: &str) -> bool {
    WRITING.contains(&verb) && !NOT_STATE.contains(&resource)
}

/// Waits until [`QUIET`] has elapsed without a write.
pub async fn wait_until_quiet(client: &Client) -> Result<()> {
    let mut last = ApiWrites::read(client).await?;
    loop {
        tokio::time::sleep(QUIET).await;
        let now = ApiWrites::read(client).await?;
        if now == last {
            return Ok(());
        }
        last = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_separated_from_reads_and_from_what_is_no_state() {
        let metrics = r#"# HELP x
apiserver_request_total{code="200",group="g",resource="virtualmachines",subresource="status",verb="PATCH"} 3
apiserver_request_total{code="409",group="g",resource="virtualmachines",subresource="status",verb="PATCH"} 1
apiserver_request_total{code="200",group="g",resource="virtualmachines",subresource="",verb="GET"} 30
apiserver_request_total{code="201",group="",resource="events",subresource="",verb="POST"} 9
apiserver_request_total{code="201",group="g",resource="virtualmachines",subresource="",verb="POST"} 2"#;
        let writes = ApiWrites::parse(metrics);
        assert_eq!(writes.total(), 6);
        assert_eq!(writes.0["PATCH virtualmachines/status"], 4);
        assert_eq!(writes.clone().without("POST virtualmachines", 2).total(), 4);
        assert_eq!(writes.since(&writes).total(), 0);
    }
}
