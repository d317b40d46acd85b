//! Decides the action for each component, or refuses the installation. Also chooses the options. This module doesn't
//! perform I/O.

use std::collections::BTreeMap;

use components::catalogue::{COMPONENTS, Component, LAYERCAKE, ManifestSource, Registries};
use components::render::{Certificates, NodeNetworkProvider, Options, PULLS_IMAGES};
use components::settings::SettingsByProgram;
use semver::Version;

use super::facts::{Facts, InstalledComponent, Installer, VIRTUAL_MACHINE};
use super::programs;
use crate::args::SiteNetworkProvider;

/// The oldest Kubernetes version with the admission policies that the programs rely on.
const OLDEST_KUBERNETES: Version = Version::new(1, 31, 0);

/// The resource whose limit `init` keeps.
const MEMORY: &str = "memory";

/// The action for a component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Install the component.
    Install,
    /// Apply the component again. The string is the installed version, if it is known.
    Replace(Option<String>),
    /// Leave the component unchanged, because another tool manages it in a suitable version. The string names the
    /// version and the tool.
    Leave(String),
}

/// The components with their actions, in installation order.
pub type Decisions = Vec<(&'static Component, Decision)>;

/// Decides the action for each component, or returns all reasons why the installation is refused. `site_vcenter` is
/// vCenter's host name or address in the site file.
pub fn decide(facts: &Facts, site_vcenter: Option<&str>) -> Result<Decisions, Vec<String>> {
    let mut refusals = Vec::new();
    if version(&facts.kubernetes).is_some_and(|version| version < OLDEST_KUBERNETES) {
        refusals.push(format!(
            "the API server has version {}. Layercake needs Kubernetes {}.{} or later: upgrade the cluster, or use another one",
            facts.kubernetes, OLDEST_KUBERNETES.major, OLDEST_KUBERNETES.minor
        ));
    }
    if !facts.may_all {
        refusals.push(
            "the user of the kubeconfig does not have all rights, which an installation needs. Use a user with ClusterRole cluster-admin".to_owned(),
        );
    }
    let machines = facts.remaining.get(VIRTUAL_MACHINE).copied().unwrap_or(0);
    let configured = facts.configuration.as_ref().map(|configuration| configuration.vc_pnid.as_str());
    let configured = configured.filter(|vcenter| !vcenter.is_empty());
    if let (Some(old), Some(new)) = (configured, site_vcenter)
        && old != new
        && machines > 0
    {
        refusals.push(format!(
            "this cluster manages {machines} VirtualMachines on vCenter {old}, and the site file is for {new}. Use the kubeconfig of the cluster for {new}, or delete the VirtualMachines first"
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

fn decide_one(component: &Component, installed: Option<&InstalledComponent>) -> Result<Decision, String> {
    let Some(installed) = installed else { return Ok(Decision::Install) };
    let Component { name, image, .. } = component;
    let shown = installed.version.as_deref().unwrap_or("of an unknown version");
    match (&component.source, installed.by) {
        (ManifestSource::Config(_), Installer::Clusterctl) => Err(format!(
            "{name} {shown} in namespace {} was installed by clusterctl. Upgrade it with clusterctl upgrade apply (docs/cluster-api.md)",
            installed.namespace
        )),
        (ManifestSource::Config(_), _) | (ManifestSource::Upstream { .. }, Installer::Init) => {
            if is_older(Some(image.tag), installed.version.as_deref()) {
                return Err(format!(
                    "{name} {shown} is installed in namespace {}, and this program installs {}. Use the layercake that installed it, or a later version: an older version cannot read the objects that a newer version stores",
                    installed.namespace, image.tag
                ));
            }
            Ok(Decision::Replace(installed.version.clone()))
        }
        (ManifestSource::Upstream { oldest, .. }, by) => {
            if is_older(installed.version.as_deref(), Some(oldest)) {
                return Err(format!(
                    "{name} {shown} was not installed by layercake init. Layercake needs {name} {oldest} or later: upgrade it with the tool that installed it, such as clusterctl upgrade apply --contract v1beta2"
                ));
            }
            let by = if by == Installer::Clusterctl {
                "clusterctl manages it"
            } else {
                "another tool installed it"
            };
            Ok(Decision::Leave(format!("{shown}, {by}")))
        }
    }
}

/// Returns true if a tag names a version other than this program's.
pub fn is_of_another_version(tag: &str) -> bool {
    version(tag).is_some_and(|named| version(LAYERCAKE) != Some(named))
}

/// Returns the registries and the tag for images.
///
/// Values that `given` doesn't set are taken from the last installation, except a tag from another version.
pub fn registries(facts: &Facts, given: Registries) -> Registries {
    let repository = |name: &str| {
        let installed = facts.installed.get(name)?;
        let component = Component::find(name)?;
        let is_ours = !component.is_upstream() || installed.by == Installer::Init;
        let (repository, _) = installed.image.rsplit_once('/')?;
        (is_ours && repository != component.image.repository).then(|| repository.to_owned())
    };
    let tag = || {
        let gcm = Component::find("gcm")?;
        let tag = facts.installed.get("gcm")?.version.clone()?;
        (version(&tag).is_some() && version(&tag) == version(gcm.image.tag)).then_some(tag)
    };
    Registries {
        upstream: given.upstream.or_else(|| repository("cluster-api")),
        own: given.own.or_else(|| repository("gcm")),
        own_tag: given.own_tag.or_else(tag),
    }
}

/// Returns the installation options. Unset options keep the value from the last installation. Programs keep a memory limit
/// that was raised without `programs`.
pub fn options(
    facts: &Facts,
    registries: Registries,
    networks: Option<NodeNetworkProvider>,
    nodes_pull_images: Option<bool>,
    mut programs: SettingsByProgram,
) -> Options {
    let installed_networks = || {
        let given = facts.configuration.as_ref().map(|configuration| configuration.network_provider.as_str());
        SiteNetworkProvider::of_key(given.unwrap_or_default()).networks()
    };
    let pulled_images =
        || facts.installed.get("gcm").is_some_and(|gcm| gcm.args.iter().any(|arg| arg == PULLS_IMAGES));
    for (name, limit) in raised_limits(facts) {
        programs.entry(name).or_default().limits.entry(MEMORY.to_owned()).or_insert(limit);
    }
    Options {
        registries: self::registries(facts, registries),
        certificates: if facts.cert_manager { Certificates::CertManager } else { Certificates::Own },
        networks: networks.unwrap_or_else(installed_networks),
        nodes_pull_images: nodes_pull_images.unwrap_or_else(pulled_images),
        programs,
    }
}

/// Returns the memory limits that an administrator has raised above the default in Deployments, by component name. Leaves
/// out limits that the last installation set.
fn raised_limits(facts: &Facts) -> BTreeMap<&'static str, String> {
    let former =
        facts.programs.as_ref().and_then(|data| programs::read_stored(data).ok()).unwrap_or_default();
    let raised = |(&name, installed): (&&'static str, &InstalledComponent)| {
        let limit = installed.memory_limit.as_ref()?;
        let default = Component::find(name)?.memory.limit_mib;
        let is_former = former.get(name).is_some_and(|one| one.limits.get(MEMORY) == Some(&limit.0));
        let is_raised = limit.mib().is_ok_and(|mib| mib > i64::from(default));
        (is_raised && !is_former).then(|| (name, limit.0.clone()))
    };
    facts.installed.iter().filter_map(raised).collect()
}

/// Returns true if both versions are known and the first is older.
pub fn is_older(one: Option<&str>, other: Option<&str>) -> bool {
    matches!((one.and_then(version), other.and_then(version)), (Some(one), Some(other)) if one < other)
}

/// Parses a version such as `v1.36.3` or `v1.36.3+vmware.1`. Ignores build metadata and prerelease parts. Returns
/// `None` for other strings.
fn version(text: &str) -> Option<Version> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let plain = text.split(['+', '-']).next()?;
    Version::parse(plain).ok()
}

#[cfg(test)]
mod tests;
