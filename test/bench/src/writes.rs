//! What the API server was asked to write, as its own metrics tell.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use kube::Client;

/// Verbs that write.
const WRITING: [&str; 6] = ["APPLY", "DELETE", "DELETECOLLECTION", "PATCH", "POST", "PUT"];
/// Events are told, leases are renewed, reviews and tokens are questions: no state of an object is among them.
const ASIDE: [&str; 7] = [
    "events",
    "leases",
    "localsubjectaccessreviews",
    "selfsubjectaccessreviews",
    "selfsubjectreviews",
    "subjectaccessreviews",
    "tokenreviews",
];

/// So long without a write is quiet.
const QUIET: Duration = Duration::from_secs(2);

/// Writes by verb and resource, such as `PATCH virtualmachines/status`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Writes(pub BTreeMap<String, u64>);

impl Writes {
    /// All of them since the API server started.
    pub async fn read(client: &Client) -> Result<Self> {
        Ok(Self::parsed(&metrics(client).await?))
    }

    /// All others since the API server started: reads, and writes that stand aside.
    pub async fn others(client: &Client) -> Result<Self> {
        Ok(Self::sorted(&metrics(client).await?, |verb, resource| !counts(verb, resource)))
    }

    fn parsed(metrics: &str) -> Self {
        Self::sorted(metrics, counts)
    }

    fn sorted(metrics: &str, wanted: impl Fn(&str, &str) -> bool) -> Self {
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
            // A counter in a text of floats.
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let count = count as u64;
            *writes.entry(format!("{verb} {what}")).or_default() += count;
        }
        Self(writes)
    }

    /// What was written since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let before = |what: &String| earlier.0.get(what).copied().unwrap_or_default();
        let grown = self.0.iter().map(|(what, count)| (what.clone(), count.saturating_sub(before(what))));
        Self(grown.filter(|(_, count)| *count > 0).collect())
    }

    /// Without so many writes of one sort, which somebody else made.
    #[must_use]
    pub fn without(mut self, what: &str, count: u64) -> Self {
        if let Some(all) = self.0.get_mut(what) {
            *all = all.saturating_sub(count);
        }
        self.0.retain(|_, count| *count > 0);
        self
    }

    /// Those of resources that `wanted` lets through.
    #[must_use]
    pub fn only(mut self, wanted: impl Fn(&str) -> bool) -> Self {
        self.0.retain(|what, _| wanted(what.split_once(' ').map_or(what, |(_, resource)| resource)));
        self
    }

    /// The sum.
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }
}

async fn metrics(client: &Client) -> Result<String> {
    let request = http::Request::get("/metrics").body(Vec::new())?;
    client.request_text(request).await.context("cannot read the API server's metrics")
}

/// Whether a request is a write that counts.
fn counts(verb: &str, resource: &str) -> bool {
    WRITING.contains(&verb) && !ASIDE.contains(&resource)
}

/// Waits until no more is written.
pub async fn quiet(client: &Client) -> Result<()> {
    let mut last = Writes::read(client).await?;
    loop {
        tokio::time::sleep(QUIET).await;
        let now = Writes::read(client).await?;
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
    fn writes_are_told_from_reads_and_from_what_stands_aside() {
        let metrics = r#"# HELP x
apiserver_request_total{code="200",group="g",resource="virtualmachines",subresource="status",verb="PATCH"} 3
apiserver_request_total{code="409",group="g",resource="virtualmachines",subresource="status",verb="PATCH"} 1
apiserver_request_total{code="200",group="g",resource="virtualmachines",subresource="",verb="GET"} 30
apiserver_request_total{code="201",group="",resource="events",subresource="",verb="POST"} 9
apiserver_request_total{code="201",group="g",resource="virtualmachines",subresource="",verb="POST"} 2"#;
        let writes = Writes::parsed(metrics);
        assert_eq!(writes.total(), 6);
        assert_eq!(writes.0["PATCH virtualmachines/status"], 4);
        assert_eq!(writes.clone().without("POST virtualmachines", 2).total(), 4);
        assert_eq!(writes.since(&writes).total(), 0);
    }
}
