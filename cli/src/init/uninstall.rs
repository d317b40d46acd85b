//! `layercake uninstall`: deletes everything that `init` installed, if all clusters and VMs are gone.
//!
//! The program namespaces are deleted last, so that the same command continues after an interruption.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Result, bail};
use components::catalogue::{COMPONENTS, Component, Registries};
use components::plan::{self, InstallationObjects};
use components::settings::SettingsByProgram;
use kit::objects::Objects;
use kube::Client;
use kube::api::DynamicObject;
use serde_json::Value;

use super::facts::{Facts, Installer};
use super::progress::InstallationProgress;
use super::{decision, interruptible, refuse};
use crate::args::Uninstall;
use crate::terminal::exit::ExitStatus;
use crate::terminal::output::{say, write_out};

/// The interval between reads of an object that is being deleted.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Runs `layercake uninstall`.
pub async fn run(args: Uninstall) -> ExitStatus {
    interruptible(async { uninstall(args.cluster.client().await?, &args).await }).await
}

/// Deletes everything that `init` installed in the cluster of `client`.
pub async fn uninstall(client: Client, args: &Uninstall) -> Result<()> {
    let facts = Facts::gather(&client).await?;
    let text = plan(&facts);
    if text.is_empty() {
        say!("Neither Layercake nor Cluster API is installed in this cluster.");
        return Ok(());
    }
    write_out(&text);
    let components = components_to_delete(&facts);
    if let Some(reason) = obstacle(&facts, &components) {
        bail!(refuse(&reason));
    }
    if args.plan {
        say!("No cluster and no VM is left.");
        return Ok(());
    }
    let options = decision::options(&facts, Registries::default(), None, None, SettingsByProgram::new());
    let installation = plan::installation(&options, &components, &BTreeMap::new())?;
    let remover = Remover { client: &client, timeout: args.timeout, progress: InstallationProgress::begin() };
    remover.remove(&installation, keeps_own_definitions(&facts)).await
}

/// Returns the components that `init` installed, or whose installation or deletion is incomplete.
fn components_to_delete(facts: &Facts) -> Vec<&'static Component> {
    let is_by_init = |name: &str| match facts.installed.get(name) {
        Some(installed) => installed.by == Installer::Init,
        None => facts.begun.contains(name),
    };
    COMPONENTS.iter().filter(|component| is_by_init(component.name)).collect()
}

/// Returns the reason why the installation can't be deleted, or `None` if it can.
fn obstacle(facts: &Facts, components: &[&Component]) -> Option<String> {
    if !facts.remaining.is_empty() {
        let counts: Vec<_> = facts.remaining.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        let kinds: Vec<_> = facts.remaining.keys().map(|kind| kind.to_lowercase()).collect();
        return Some(format!(
            "the cluster has objects with VMs, folders or networks in vCenter, which would stay there without the programs: {}. Delete them first, the clusters before the others (kubectl get {} -A lists them)",
            counts.join(", "),
            kinds.join(",")
        ));
    }
    if components.is_empty() {
        return Some(
            "init installed none of these components. Delete them with the tools that installed them"
                .to_owned(),
        );
    }
    if !facts.may_all {
        return Some(
            "the user of the kubeconfig does not have all rights. Use a user with ClusterRole cluster-admin"
                .to_owned(),
        );
    }
    if !components.iter().any(|component| component.is_upstream()) {
        return None;
    }
    if facts.other_clusters > 0 {
        return Some(format!(
            "Cluster API manages {} Clusters of other infrastructure providers. Delete them first, or keep this installation",
            facts.other_clusters
        ));
    }
    let others = facts.installed.iter().filter(|(name, one)| **name != "vmop" && one.by != Installer::Init);
    let others: Vec<_> =
        others.map(|(name, _)| *name).chain(facts.other_providers.iter().map(String::as_str)).collect();
    (!others.is_empty()).then(|| {
        format!(
            "these programs need Cluster API and were installed by other tools: {}. Delete each with its tool first",
            others.join(", ")
        )
    })
}

/// Returns true if another tool installed one of Layercake's programs, which needs Layercake's CRDs.
fn keeps_own_definitions(facts: &Facts) -> bool {
    let ours = COMPONENTS.iter().filter(|component| !component.is_upstream());
    ours.filter_map(|component| facts.installed.get(component.name)).any(|one| one.by != Installer::Init)
}

/// Deletes an installation from one cluster.
struct Remover<'a> {
    client: &'a Client,
    timeout: Duration,
    progress: InstallationProgress,
}

impl Remover<'_> {
    /// Deletes webhooks first, because the API server would otherwise call deleted programs. Keeps the programs running
    /// until all objects of their kinds are gone, because the programs remove the finalizers from these objects.
    async fn remove(&self, installation: &InstallationObjects, keeps_own_definitions: bool) -> Result<()> {
        let objects = Objects::new(self.client);
        let parts = &installation.parts;
        let after: Vec<_> = parts.iter().flat_map(|part| &part.after).collect();
        objects.delete_all(after.iter().copied()).await?;
        self.progress.report("webhooks", "are deleted");

        let is_deleted = |definition: &&Value| !(keeps_own_definitions && is_own(definition));
        let definitions: Vec<_> = installation.definitions().filter(is_deleted).collect();
        objects.delete_all(definitions.iter().copied()).await?;
        for definition in &definitions {
            self.wait_until_gone(definition).await?;
        }
        self.progress.report("definitions", &format!("{} are deleted", definitions.len()));

        for part in parts.iter().rev() {
            let namespace = part.component.namespace;
            let elsewhere = part.objects.iter().filter(|object| object["metadata"]["namespace"] != namespace);
            objects.delete_all(elsewhere).await?;
        }
        let namespaces = || installation.base.iter().filter(|object| object["kind"] == "Namespace");
        objects.delete_all(namespaces()).await?;
        for namespace in namespaces() {
            self.wait_until_gone(namespace).await?;
            let name = namespace["metadata"]["name"].as_str().unwrap_or_default();
            let component = COMPONENTS.iter().find(|component| component.namespace == name);
            self.progress.report(component.map_or(name, |component| component.name), "is deleted");
        }
        Ok(())
    }

    async fn wait_until_gone(&self, object: &Value) -> Result<()> {
        let objects = Objects::new(self.client);
        let mut last = String::new();
        let gone = plane::wait::poll(self.timeout, POLL_INTERVAL, async || {
            match objects.read(object).await {
                Ok(None) => return Ok(Some(())),
                Ok(Some(found)) => last = remaining_content(&found),
                Err(error) => last = error.to_string(),
            }
            Ok::<_, anyhow::Error>(None)
        });
        match gone.await? {
            Some(()) => Ok(()),
            None => Err(ExitStatus::NotYet.error(format!(
                "{} {} is not deleted after {} s: {last}. Remove the cause, and run the same command again",
                object["kind"].as_str().unwrap_or_default(),
                object["metadata"]["name"].as_str().unwrap_or_default(),
                self.timeout.as_secs()
            ))),
        }
    }
}

/// Returns true for CRDs in Layercake's API groups, which all end with `vmware.com`.
fn is_own(definition: &Value) -> bool {
    definition["spec"]["group"].as_str().is_some_and(|group| group.ends_with("vmware.com"))
}

/// Returns the messages in a namespace's or CRD's conditions about the objects that block its deletion.
fn remaining_content(object: &DynamicObject) -> String {
    let conditions = object.data["status"]["conditions"].as_array().into_iter().flatten();
    let is_about_deletion = |condition: &&Value| {
        let kind = condition["type"].as_str().unwrap_or_default();
        condition["status"] == "True" && (kind == "Terminating" || kind.contains("Remaining"))
    };
    let messages = conditions.filter(is_about_deletion).filter_map(|condition| condition["message"].as_str());
    messages.collect::<Vec<_>>().join("; ")
}

/// Returns a line for each component that is installed completely or in part, in deletion order.
fn plan(facts: &Facts) -> String {
    let mut text = String::new();
    for component in COMPONENTS.iter().rev() {
        let Some(installed) = facts.installed.get(component.name) else {
            if facts.begun.contains(component.name) {
                let _ = writeln!(
                    text,
                    "{:<22} installed in part: namespace {} will be deleted",
                    component.name, component.namespace
                );
            }
            continue;
        };
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
    use serde_json::json;

    use super::super::facts::InstalledComponent;
    use super::*;

    #[test]
    fn components_are_deleted_by_the_tool_that_installed_them() {
        let installed = |by| InstalledComponent {
            version: Some("v1".to_owned()),
            namespace: "ns".to_owned(),
            by,
            ..InstalledComponent::default()
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
        let names: Vec<_> = components_to_delete(&facts).iter().map(|component| component.name).collect();
        assert_eq!(names, ["gcm"]);
        assert!(keeps_own_definitions(&facts), "vmop needs them");
    }

    #[test]
    fn nothing_is_deleted_that_others_need() {
        let by = |by| InstalledComponent { by, ..InstalledComponent::default() };
        let whole = Facts {
            installed: [("cluster-api", by(Installer::Init)), ("vmop", by(Installer::Init))].into(),
            begun: ["gcm"].into(),
            may_all: true,
            ..Facts::default()
        };
        let reason = |facts: &Facts| obstacle(facts, &components_to_delete(facts)).unwrap_or_default();
        assert_eq!(reason(&whole), "");
        let names: Vec<_> = components_to_delete(&whole).iter().map(|component| component.name).collect();
        assert_eq!(names, ["cluster-api", "vmop", "gcm"], "also what was begun");
        assert!(plan(&whole).contains(
            "gcm                    installed in part: namespace vmware-system-tkg will be deleted"
        ));

        let facts = Facts { remaining: [("VirtualNetwork", 2)].into(), ..whole.clone() };
        assert!(
            reason(&facts).contains("2 VirtualNetwork")
                && reason(&facts).contains("kubectl get virtualnetwork")
        );
        let facts = Facts { may_all: false, ..whole.clone() };
        assert!(reason(&facts).contains("cluster-admin"));
        let facts = Facts { other_clusters: 3, ..whole.clone() };
        assert!(reason(&facts).contains("3 Clusters of other"));
        let facts = Facts { other_providers: vec!["infrastructure-vsphere".to_owned()], ..whole.clone() };
        assert!(reason(&facts).contains("installed by other tools: infrastructure-vsphere."));
        let mut facts = whole.clone();
        facts.installed.insert("capw", by(Installer::Clusterctl));
        assert!(reason(&facts).contains("installed by other tools: capw."));
        // Cluster API stays, so its clusters and providers don't matter.
        facts.installed.insert("cluster-api", by(Installer::Clusterctl));
        facts.other_clusters = 3;
        assert_eq!(reason(&facts), "");
    }

    #[test]
    fn objects_that_keep_a_namespace_are_named() {
        let namespace = json!({ "metadata": { "name": "ns" }, "status": { "conditions": [
            { "type": "NamespaceDeletionDiscoveryFailure", "status": "False", "message": "no" },
            { "type": "NamespaceFinalizersRemaining", "status": "True", "message": "pods/keep in 1 resource instances" },
        ] } });
        let found = remaining_content(&serde_json::from_value(namespace).unwrap());
        assert_eq!(found, "pods/keep in 1 resource instances");
    }
}
