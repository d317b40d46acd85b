//! Plans a cluster's objects, and finds existing objects that are obsolete.

use std::collections::BTreeSet;

use api::capi::{Cluster, KubeadmConfigTemplate, KubeadmControlPlane, MachineDeployment, MachineHealthCheck};
use api::capw::{ProviderServiceAccount, WCPCluster, WCPMachineTemplate};
use api::gcm::TanzuKubernetesCluster;
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde_json::{Value, to_value};

use super::cluster_secret::NewSecrets;
use super::encryption;
use super::encryption::gather::Encryption;
use super::facts::Facts;
use super::guest::{accounts, addons};
use super::health::budget;
use super::health::first_node::{self, CLONED_FROM};
use super::input::Input;
use super::invalid::Invalid;
use super::login;
use super::login::gather::Login;
use super::network::cluster;
use super::network::virtual_ip::VirtualIp;
use super::node_groups::group_input::GroupInput;
use super::node_groups::groups;
use super::spec::ValidatedCluster;
use super::upgrade::{self, GateResult, UpgradeTarget};
use crate::addons::guests::WantedAddons;
use crate::release::virtual_ip::choose_holder;
use crate::release::{KubernetesRelease, ReleaseImage};

/// The objects to create or update for a cluster, and the obsolete objects to delete.
#[derive(Debug)]
pub struct Plan {
    /// The missing Secrets for node login and encryption.
    pub new_secrets: NewSecrets,
    pub machine_templates: Vec<WCPMachineTemplate>,
    /// The pools' bootstrap configuration templates.
    pub config_templates: Vec<KubeadmConfigTemplate>,
    pub wcp_cluster: WCPCluster,
    pub control_plane: KubeadmControlPlane,
    pub cluster: Cluster,
    /// The MachineDeployments of the node pools.
    pub deployments: Vec<MachineDeployment>,
    pub checks: Vec<MachineHealthCheck>,
    /// The service accounts for programs in the workload cluster.
    pub accounts: Vec<ProviderServiceAccount>,
    /// The add-ons to apply, once the workload cluster's API server has answered.
    pub addons: Option<WantedAddons>,
    pub obsolete: Obsolete,
}

impl Plan {
    /// Returns the objects in apply order, as JSON. Secrets are omitted to keep their contents secret.
    ///
    /// # Errors
    /// Fails if an object can't be serialized as JSON.
    pub fn documents(&self) -> serde_json::Result<Vec<Value>> {
        let Self {
            new_secrets: _,
            machine_templates,
            config_templates,
            wcp_cluster,
            control_plane,
            cluster,
            deployments,
            checks,
            accounts,
            addons: _,
            obsolete: _,
        } = self;
        let mut all = [json_of(machine_templates)?, json_of(config_templates)?].concat();
        all.extend([to_value(cluster)?, to_value(wcp_cluster)?, to_value(control_plane)?]);
        all.extend([json_of(deployments)?, json_of(checks)?, json_of(accounts)?].concat());
        Ok(all)
    }
}

fn json_of<K: Serialize>(objects: &[K]) -> serde_json::Result<Vec<Value>> {
    objects.iter().map(to_value).collect()
}

/// The names of the cluster's obsolete objects.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Obsolete {
    /// MachineDeployments for removed pools.
    pub deployments: BTreeSet<String>,
    /// Health checks for removed pools.
    pub checks: BTreeSet<String>,
    /// Machine templates that aren't used by a group, MachineSet or machine.
    pub machine_templates: BTreeSet<String>,
    /// Bootstrap configuration templates that aren't used by a MachineDeployment or MachineSet.
    pub config_templates: BTreeSet<String>,
    pub accounts: BTreeSet<String>,
}

/// Plans a cluster's objects.
pub fn plan(
    tkc: &TanzuKubernetesCluster,
    facts: &Facts,
    login: &Login,
    encryption: &Encryption,
) -> Result<Plan, Invalid> {
    let cluster = ValidatedCluster::validate(tkc, facts)?;
    let tkc = cluster.tkc();
    let UpgradeTarget { release, image, gates } = upgrade::choose_target(tkc, facts)?;
    let virtual_ip = set_up_virtual_ip(facts, &release, &image, gates.control_plane)?;
    let unreplaced =
        budget::list_spent_pools(tkc, facts).into_iter().map(|(pool, _)| pool.name.clone()).collect();
    let input = GroupInput {
        cluster: Input::new(&cluster, &release, &image),
        control_plane_waits: gates.control_plane.is_waiting(),
        pools_wait: gates.pools.is_waiting(),
        health: &facts.health,
        virtual_ip: &virtual_ip,
        login,
        unreplaced: &unreplaced,
    };
    let mut plan = build_objects(&input, facts);
    plan.new_secrets.0.extend(encryption::objects::secret(&input.cluster, encryption));
    plan.addons = addons::choose_addons(&input.cluster, facts);
    plan.obsolete = find_obsolete(&plan, facts);
    Ok(plan)
}

/// Returns the virtual IP setup. For a new control plane, the flags and the node image decide which program announces the
/// address. An existing control plane keeps its program, and gets the image for its next release unless the upgrade waits.
fn set_up_virtual_ip(
    facts: &Facts,
    release: &KubernetesRelease,
    image: &ReleaseImage,
    gate: GateResult,
) -> Result<VirtualIp, Invalid> {
    let holder = choose_holder(&facts.virtual_ip, &release.candidate, image);
    let Some(live) = &facts.control_plane else { return Ok(VirtualIp::of(&holder?)) };
    let kept = VirtualIp::kept(live);
    match holder {
        Ok(holder) if !gate.is_waiting() => Ok(kept.with_image_of(&holder)),
        _ => Ok(kept),
    }
}

fn build_objects(input: &GroupInput<'_>, facts: &Facts) -> Plan {
    let objects = groups::control_plane(input, facts);
    let groups::ControlPlaneObjects { template, control_plane, mut check } = objects;
    let cluster_input = &input.cluster;
    first_node::replace_outdated(&mut check, cluster_input.tkc, facts, &control_plane);
    let mut plan = Plan {
        new_secrets: NewSecrets(login::objects::build_secrets(cluster_input, input.login)),
        machine_templates: vec![template],
        config_templates: Vec::new(),
        wcp_cluster: cluster::wcp_cluster(cluster_input),
        control_plane,
        cluster: cluster::build_cluster(cluster_input),
        deployments: Vec::new(),
        checks: vec![check],
        accounts: accounts::build_accounts(cluster_input),
        addons: None,
        obsolete: Obsolete::default(),
    };
    for pool in &cluster_input.tkc.spec.topology.node_pools {
        let Some(objects) = groups::pool(input, facts, pool) else { continue };
        let groups::PoolObjects { template, config, deployment, check } = objects;
        plan.checks.push(check);
        plan.deployments.push(deployment);
        plan.machine_templates.push(template);
        plan.config_templates.push(config);
    }
    plan
}

fn names<'k, K: Resource + 'k>(objects: impl IntoIterator<Item = &'k K>) -> BTreeSet<String> {
    objects.into_iter().map(ResourceExt::name_any).collect()
}

/// Finds the obsolete objects. A template is kept until the last machine created from it is gone.
fn find_obsolete(plan: &Plan, facts: &Facts) -> Obsolete {
    let mut machine_templates = names(&plan.machine_templates);
    let mut config_templates = names(&plan.config_templates);
    let control_plane = facts.control_plane.iter();
    machine_templates
        .extend(control_plane.map(|kcp| kcp.spec.machine_template.spec.infrastructure_ref.name.clone()));
    for deployment in &facts.deployments {
        machine_templates.insert(deployment.spec.template.spec.infrastructure_ref.name.clone());
        config_templates
            .extend(deployment.spec.template.spec.bootstrap.config_ref.as_ref().map(|r| r.name.clone()));
    }
    for set in &facts.sets {
        machine_templates.insert(set.spec.template.spec.infrastructure_ref.name.clone());
        config_templates.extend(set.spec.template.spec.bootstrap.config_ref.as_ref().map(|r| r.name.clone()));
    }
    let sources = facts.wcp_machines.iter().filter_map(|machine| machine.annotations().get(CLONED_FROM));
    machine_templates.extend(sources.cloned());
    let without = |live: BTreeSet<String>, kept: &BTreeSet<String>| live.difference(kept).cloned().collect();
    Obsolete {
        deployments: without(names(facts.deployments.iter().map(AsRef::as_ref)), &names(&plan.deployments)),
        checks: without(names(facts.checks.iter().map(AsRef::as_ref)), &names(&plan.checks)),
        machine_templates: without(
            names(facts.machine_templates.iter().map(AsRef::as_ref)),
            &machine_templates,
        ),
        config_templates: without(names(facts.config_templates.iter().map(AsRef::as_ref)), &config_templates),
        accounts: without(names(facts.accounts.iter().map(AsRef::as_ref)), &names(&plan.accounts)),
    }
}
