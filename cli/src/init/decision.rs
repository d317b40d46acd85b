//! What an installation does with each component, and why it refuses. Pure.

use components::catalogue::{COMPONENTS, Component};
use semver::Version;

use super::facts::{Facts, Installed, Installer};

/// The oldest Kubernetes on which the programs run: it has the admission policies that they rely on.
const OLDEST_KUBERNETES: Version = Version::new(1, 31, 0);
/// The oldest Cluster API that serves the version of its kinds that the programs use.
const OLDEST_CLUSTER_API: Version = Version::new(1, 11, 0);

/// What is done with a component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It is installed.
    Install,
    /// It is applied again, over this version.
    Replace(Option<String>),
    /// Another tool manages it, and its version is suitable.
    Leave(String),
}

/// Decides about every component, in order; or says everything that prevents the installation.
pub fn decide(
    facts: &Facts,
    site_vcenter: Option<&str>,
) -> Result<Vec<(&'static Component, Decision)>, Vec<String>> {
    let mut refusals = Vec::new();
    match version(&facts.kubernetes) {
        Some(version) if version < OLDEST_KUBERNETES => refusals.push(format!(
            "the API server has version {}. Layercake needs Kubernetes {}.{} or later: upgrade the cluster, or use another one",
            facts.kubernetes, OLDEST_KUBERNETES.major, OLDEST_KUBERNETES.minor
        )),
        _ => {}
    }
    if !facts.may_all {
        refusals.push(
            "the user of the kubeconfig may not create ClusterRoles and definitions. Use a user with ClusterRole cluster-admin".to_owned(),
        );
    }
    if let (Some(old), Some(new)) = (&facts.vcenter, site_vcenter)
        && old != new
        && facts.machines > 0
    {
        refusals.push(format!(
            "this cluster manages {} VirtualMachines on vCenter {old}, and the site file is for {new}. Use the kubeconfig of the cluster for {new}, or delete the VirtualMachines first",
            facts.machines
        ));
    }
    let mut decisions = Vec::with_capacity(COMPONENTS.len());
    for component in &COMPONENTS {
        match decide_one(component, facts.installed.get(component.name)) {
            Ok(decision) => decisions.push((component, decision)),
            Err(refusal) => refusals.push(refusal),
        }
    }
    if refusals.is_empty() { Ok(decisions) } else { Err(refusals) }
}

fn decide_one(component: &Component, installed: Option<&Installed>) -> Result<Decision, String> {
    let Some(installed) = installed else { return Ok(Decision::Install) };
    let name = component.name;
    let known = installed.version.as_deref().and_then(version);
    let shown = installed.version.as_deref().unwrap_or("of an unknown version");
    let is_newer = match (&known, version(component.version())) {
        (Some(known), Some(ours)) => *known > ours,
        _ => false,
    };
    let is_upstream = component.provider().is_some();
    match installed.by {
        Installer::Init | Installer::Other if !is_upstream || installed.by == Installer::Init => {
            if is_newer {
                return Err(format!(
                    "{name} {shown} is installed in namespace {}, and this program installs {}. Use the version of layercake that belongs to it: an older one cannot read what a newer one stores",
                    installed.namespace,
                    component.version()
                ));
            }
            Ok(Decision::Replace(installed.version.clone()))
        }
        Installer::Clusterctl if !is_upstream => Err(format!(
            "{name} {shown} in namespace {} was installed by clusterctl. Upgrade it with clusterctl upgrade apply, as docs/cluster-api.md shows",
            installed.namespace
        )),
        _ if name != "ipam-in-cluster" && known.as_ref().is_some_and(|known| *known < OLDEST_CLUSTER_API) => {
            Err(format!(
                "{name} {shown} was not installed by layercake init. Layercake needs Cluster API v{}.{} or later: upgrade it with the tool that installed it, such as clusterctl upgrade apply --contract v1beta2",
                OLDEST_CLUSTER_API.major, OLDEST_CLUSTER_API.minor
            ))
        }
        Installer::Clusterctl => Ok(Decision::Leave(format!("{shown}, which clusterctl manages"))),
        _ => Ok(Decision::Leave(format!("{shown}, which another tool installed"))),
    }
}

/// Reads a version such as `v1.36.3` or `v1.36.3+vmware.1`. Build metadata and what follows a hyphen do not count.
fn version(text: &str) -> Option<Version> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let plain = text.split(['+', '-']).next()?;
    Version::parse(plain).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        Facts { kubernetes: "v1.36.3".to_owned(), may_all: true, ..Facts::default() }
    }

    fn with(name: &'static str, version: &str, by: Installer) -> Facts {
        let installed = Installed { version: Some(version.to_owned()), namespace: "ns".to_owned(), by };
        Facts { installed: [(name, installed)].into(), ..facts() }
    }

    fn decision(facts: &Facts, name: &str) -> Decision {
        let decisions = decide(facts, None).unwrap();
        decisions.into_iter().find(|(component, _)| component.name == name).unwrap().1
    }

    fn refusal(facts: &Facts, vcenter: Option<&str>) -> String {
        decide(facts, vcenter).unwrap_err().join("\n")
    }

    #[test]
    fn an_empty_cluster_gets_everything() {
        let decisions = decide(&facts(), Some("vc")).unwrap();
        assert!(decisions.iter().all(|(_, decision)| *decision == Decision::Install));
        assert_eq!(decisions.len(), COMPONENTS.len());
    }

    #[test]
    fn the_cluster_and_its_user_must_do() {
        for old in ["v1.30.9", "v1.30.9+vmware.1", "1.28.0"] {
            let refused = refusal(&Facts { kubernetes: old.to_owned(), ..facts() }, None);
            assert!(refused.contains("needs Kubernetes 1.31 or later"), "{refused}");
        }
        assert!(decide(&Facts { kubernetes: "v1.31.0-eks-a1".to_owned(), ..facts() }, None).is_ok());
        assert!(refusal(&Facts { may_all: false, ..facts() }, None).contains("cluster-admin"));
    }

    #[test]
    fn a_site_file_of_another_vcenter_is_refused_where_there_are_machines() {
        let managing = Facts { vcenter: Some("a".to_owned()), machines: 3, ..facts() };
        let refused = refusal(&managing, Some("b"));
        assert!(refused.contains("3 VirtualMachines on vCenter a"), "{refused}");
        assert!(decide(&managing, Some("a")).is_ok() && decide(&managing, None).is_ok());
        assert!(decide(&Facts { machines: 0, ..managing }, Some("b")).is_ok());
    }

    #[test]
    fn what_init_installed_is_replaced_but_never_by_something_older() {
        for (name, ours) in [("gcm", components::catalogue::LAYERCAKE), ("cluster-api", "v1.13.0")] {
            let replaced = decision(&with(name, ours, Installer::Init), name);
            assert_eq!(replaced, Decision::Replace(Some(ours.to_owned())));
        }
        for name in ["gcm", "cluster-api"] {
            let refused = refusal(&with(name, "v9.0.0", Installer::Init), None);
            assert!(refused.contains("an older one cannot read"), "{refused}");
        }
        // kubectl apply -k of config/ before.
        assert!(matches!(decision(&with("vmop", "latest", Installer::Other), "vmop"), Decision::Replace(_)));
    }

    #[test]
    fn what_another_tool_manages_is_left_alone_or_named() {
        let left = decision(&with("cluster-api", "v1.15.0", Installer::Clusterctl), "cluster-api");
        assert_eq!(left, Decision::Leave("v1.15.0, which clusterctl manages".to_owned()));
        let left = decision(&with("ipam-in-cluster", "v1.0.1", Installer::Other), "ipam-in-cluster");
        assert_eq!(left, Decision::Leave("v1.0.1, which another tool installed".to_owned()));
        let refused = refusal(&with("cluster-api", "v1.10.4", Installer::Clusterctl), None);
        assert!(refused.contains("needs Cluster API v1.11 or later"), "{refused}");
        let refused = refusal(&with("capw", "v0.1.0", Installer::Clusterctl), None);
        assert!(refused.contains("clusterctl upgrade apply"), "{refused}");
    }
}
