//! `layercake uninstall --plan`: what an uninstallation would delete, and the objects that prevent it.

use std::fmt::Write as _;

use anyhow::{Result, bail, ensure};
use components::catalogue::COMPONENTS;

use super::facts::{Facts, Installer};
use crate::args::Uninstall;
use crate::exit::{ExitStatus, status_of};
use crate::output::{say, write_out};

/// Shows the plan.
pub async fn run(args: Uninstall) -> ExitStatus {
    status_of(show_plan(&args).await)
}

async fn show_plan(args: &Uninstall) -> Result<()> {
    let facts = Facts::gather(&args.cluster.client().await?).await?;
    let text = plan(&facts);
    ensure!(!text.is_empty(), "neither Layercake nor Cluster API is installed in this cluster");
    write_out(&text);
    if facts.remaining.is_empty() {
        say!("No cluster and no VM is left.");
        return Ok(());
    }
    let counts: Vec<_> = facts.remaining.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    bail!(ExitStatus::Refused.error(format!(
        "the cluster has {}. Delete them first: without the programs, their VMs stay in vCenter. Nothing was changed",
        counts.join(", ")
    )))
}

/// A line for each component that is installed, in the order of deletion.
fn plan(facts: &Facts) -> String {
    let mut text = String::new();
    for component in COMPONENTS.iter().rev() {
        let Some(installed) = facts.installed.get(component.name) else { continue };
        let version = installed.version.as_deref().unwrap_or("of an unknown version");
        let what = match installed.by {
            Installer::Init => {
                format!("delete namespace {}, its definitions, roles and webhooks", installed.namespace)
            }
            Installer::Clusterctl => "delete it with clusterctl".to_owned(),
            Installer::Other => "delete it with the tool that installed it".to_owned(),
        };
        let _ = writeln!(text, "{:<22} {version}: {what}", component.name);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::facts::Installed;
    use super::*;

    #[test]
    fn components_are_deleted_by_the_tool_that_installed_them() {
        let installed = |by| Installed {
            version: Some("v1".to_owned()),
            namespace: "ns".to_owned(),
            by,
            ..Installed::default()
        };
        let facts = Facts {
            installed: [
                ("cluster-api", installed(Installer::Clusterctl)),
                ("gcm", installed(Installer::Init)),
                ("vmop", installed(Installer::Other)),
            ]
            .into(),
            ..Facts::default()
        };
        let lines = [
            "gcm                    v1: delete namespace ns, its definitions, roles and webhooks\n",
            "vmop                   v1: delete it with the tool that installed it\n",
            "cluster-api            v1: delete it with clusterctl\n",
        ];
        assert_eq!(plan(&facts), lines.concat());
        assert_eq!(plan(&Facts::default()), "");
    }
}
