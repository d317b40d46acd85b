//! `layercake list`: lists the clusters in one namespace or in all.

use anyhow::Result;
use jiff::Timestamp;

use super::SCHEMA;
use crate::args::{List, Output};
use crate::describe::cluster_view::ClusterView;
use crate::describe::words::age;
use crate::local::target::Target;
use crate::terminal::exit::{ExitStatus, failed};
use crate::terminal::output::{align, say, write_json, write_out};

/// Runs `layercake list`.
pub async fn list(args: List) -> ExitStatus {
    let listed = args.target.with(async |target| run(target, &args).await.map(|()| ExitStatus::Done)).await;
    listed.unwrap_or_else(|error| failed(&error))
}

async fn run(target: &Target, args: &List) -> Result<()> {
    let namespace = (!args.all_namespaces).then_some(target.namespace.as_str());
    let mut clusters = ClusterView::read_all(&target.client, namespace).await?;
    if target.is_for_commands()? {
        clusters.iter_mut().for_each(ClusterView::set_standalone);
    }
    match (args.output, namespace) {
        (Some(Output::Json), _) => {
            write_json(&serde_json::json!({"schema": SCHEMA, "clusters": clusters}))?;
        }
        (None, Some(namespace)) if clusters.is_empty() => {
            say!("Namespace {namespace} has no clusters. -A lists those of all namespaces.");
        }
        (None, None) if clusters.is_empty() => say!("There are no clusters."),
        (None, _) => write_out(&table(&clusters, Timestamp::now())),
    }
    Ok(())
}

fn table(clusters: &[ClusterView], now: Timestamp) -> String {
    const HEAD: [&str; 8] =
        ["NAME", "NAMESPACE", "KIND", "PHASE", "CONTROL PLANE", "WORKERS", "KUBERNETES", "AGE"];
    let lines = clusters.iter().map(|cluster| {
        let ClusterView { phase, .. } = cluster;
        [
            cluster.name.clone(),
            cluster.namespace.clone(),
            cluster.kind.to_owned(),
            if cluster.paused { format!("{phase} (paused)").trim_start().to_owned() } else { phase.clone() },
            cluster.control_plane.to_string(),
            cluster.workers.to_string(),
            cluster.kubernetes.clone(),
            age(cluster.created.as_deref().unwrap_or_default(), now),
        ]
    });
    let lines: Vec<_> = std::iter::once(HEAD.map(str::to_owned)).chain(lines).collect();
    let lines: Vec<_> = align(&lines).iter().map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::describe::cluster_view::{ClusterRole, Count};

    #[test]
    fn a_cluster_is_a_row() {
        let team = ClusterView {
            name: "team".to_owned(),
            namespace: "dev".to_owned(),
            kind: "tkc",
            phase: "updating".to_owned(),
            paused: true,
            control_plane: Count { ready: 1, wanted: 3 },
            workers: Count { ready: 1, wanted: 5 },
            kubernetes: "v1.36.3+layercake.1".to_owned(),
            plan: Some("prod"),
            tkr: "v1.36.3---layercake.1".to_owned(),
            labels: [("run.tanzu.vmware.com/tkr".to_owned(), "v1.36.3---layercake.1".to_owned())].into(),
            created: Some("2026-01-01T00:00:00Z".to_owned()),
            runs: false,
            role: ClusterRole::Workload,
        };
        let document = serde_json::to_string(&team).unwrap();
        let plain = ClusterView { name: "plain".to_owned(), kind: "cluster", ..ClusterView::default() };
        let text = table(&[plain, team], "2026-01-01T00:00:42Z".parse().unwrap());
        insta::assert_snapshot!(text, @"
        NAME    NAMESPACE   KIND      PHASE               CONTROL PLANE   WORKERS   KUBERNETES            AGE
        plain               cluster                       0/0             0/0
        team    dev         tkc       updating (paused)   1/3             1/5       v1.36.3+layercake.1   42s
        ");
        insta::assert_snapshot!(document, @r#"{"name":"team","namespace":"dev","kind":"tkc","phase":"updating","paused":true,"controlPlane":{"ready":1,"wanted":3},"workers":{"ready":1,"wanted":5},"kubernetes":"v1.36.3+layercake.1","role":"workload","plan":"prod","tkr":"v1.36.3---layercake.1","labels":{"run.tanzu.vmware.com/tkr":"v1.36.3---layercake.1"},"created":"2026-01-01T00:00:00Z"}"#);
    }
}
