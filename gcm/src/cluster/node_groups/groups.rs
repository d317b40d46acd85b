//! Plans the objects of a node group, which is a control plane or a pool. The objects are built from the cluster's spec, or
//! kept unchanged if another gcm version built them from the same spec.

use std::sync::Arc;

use api::capi::{
    KubeadmConfigSpecClusterConfigurationDns as Dns, KubeadmConfigTemplate, KubeadmControlPlane,
    MachineDeployment, MachineHealthCheck,
};
use api::capw::WCPMachineTemplate;
use api::gcm::parts::NodePool;
use api::names::label;
use kube::{Resource, ResourceExt};

use super::group_input::GroupInput;
use super::recipe::RecipeMark;
use super::{control_plane, machines, pace, workers};
use crate::cluster::facts::Facts;

/// The control plane's objects.
pub struct ControlPlaneObjects {
    pub template: WCPMachineTemplate,
    pub control_plane: KubeadmControlPlane,
    pub check: MachineHealthCheck,
}

/// A pool's objects.
pub struct PoolObjects {
    pub template: WCPMachineTemplate,
    /// The bootstrap configuration template.
    pub config: KubeadmConfigTemplate,
    pub deployment: MachineDeployment,
    pub check: MachineHealthCheck,
}

/// Plans the control plane's objects.
pub fn control_plane(input: &GroupInput<'_>, facts: &Facts) -> ControlPlaneObjects {
    let live = facts.control_plane.as_deref();
    let template = machines::control_plane_template(&input.cluster);
    let control_plane =
        control_plane::build_control_plane(input, &template.name_any(), control_plane_replicas(input, facts));
    let mut objects =
        ControlPlaneObjects { template, control_plane, check: machines::control_plane_check(input) };
    if let Some(live) = live.filter(|_| input.control_plane_waits)
        && objects.wait(live, facts).is_some()
    {
        return objects;
    }
    let mark = objects.mark(input);
    match live.and_then(|live| objects.kept(&mark, live, facts)) {
        Some(kept) => kept.put_on(&mut objects.control_plane),
        None => mark.put_on(&mut objects.control_plane),
    }
    objects
}

/// Returns the control plane's replicas. A new control plane gets one machine until its API server answers: with more, Cluster
/// API tries to add the other machines too early, and waits several seconds after each attempt.
fn control_plane_replicas(input: &GroupInput<'_>, facts: &Facts) -> i32 {
    let wanted = input.cluster.tkc.spec.topology.control_plane.replicas.unwrap_or(1);
    if facts.is_initialized() {
        return wanted;
    }
    let live = facts.control_plane.as_ref().and_then(|kcp| kcp.spec.replicas);
    wanted.min(live.unwrap_or(1))
}

impl ControlPlaneObjects {
    /// Returns the mark for the planned objects. The mark excludes the CoreDNS image, which Cluster API changes without
    /// replacing machines.
    fn mark(&self, input: &GroupInput<'_>) -> RecipeMark {
        let mut config = self.control_plane.spec.kubeadm_config_spec.clone();
        if let Some(kubeadm) = config.as_mut().and_then(|config| config.cluster_configuration.as_mut()) {
            kubeadm.dns = None;
        }
        RecipeMark::of_control_plane(&input.cluster, &(self.template.name_any(), config))
    }

    /// Takes over the template, configuration and version of the existing machines. Returns `None` if their template no longer
    /// exists.
    fn wait(&mut self, live: &KubeadmControlPlane, facts: &Facts) -> Option<()> {
        let template =
            find(&facts.machine_templates, &live.spec.machine_template.spec.infrastructure_ref.name)?;
        let dns = live
            .spec
            .kubeadm_config_spec
            .as_ref()
            .and_then(|config| config.cluster_configuration.as_ref()?.dns.clone());
        self.take_over(live, template, dns);
        self.control_plane.spec.version.clone_from(&live.spec.version);
        let release = live.labels().get(label::TKR).cloned().unwrap_or_default();
        self.control_plane.labels_mut().insert(label::TKR.to_owned(), release);
        if let Some(mark) = RecipeMark::on(live) {
            mark.put_on(&mut self.control_plane);
        }
        Some(())
    }

    fn take_over(&mut self, live: &KubeadmControlPlane, template: &WCPMachineTemplate, dns: Option<Dns>) {
        self.template.metadata.name.clone_from(&template.metadata.name);
        self.template.spec.clone_from(&template.spec);
        let spec = &mut self.control_plane.spec;
        spec.machine_template.spec.infrastructure_ref.name = template.name_any();
        spec.kubeadm_config_spec.clone_from(&live.spec.kubeadm_config_spec);
        let config = spec.kubeadm_config_spec.as_mut();
        if let Some(kubeadm) = config.and_then(|config| config.cluster_configuration.as_mut()) {
            kubeadm.dns = dns;
        }
    }

    /// Takes over the template and configuration of the existing machines, and returns their mark, if another gcm version built
    /// them from the same recipe. Returns `None` if the machines already match or must be replaced.
    fn kept(&mut self, mark: &RecipeMark, live: &KubeadmControlPlane, facts: &Facts) -> Option<RecipeMark> {
        let kept = mark.kept(RecipeMark::on(live))?;
        let template =
            find(&facts.machine_templates, &live.spec.machine_template.spec.infrastructure_ref.name)?;
        let config = self.control_plane.spec.kubeadm_config_spec.take();
        let dns = config.and_then(|config| config.cluster_configuration?.dns);
        self.take_over(live, template, dns);
        Some(kept)
    }
}

/// Plans a pool. Returns `None` for a new pool whose creation must wait for the control plane.
pub fn pool(input: &GroupInput<'_>, facts: &Facts, pool: &NodePool) -> Option<PoolObjects> {
    let name = api::names::machine_deployment(&input.cluster.namespace(), &input.cluster.name(), &pool.name);
    let live = find(&facts.deployments, &name);
    if input.pools_wait {
        let waiting = live.and_then(|live| waiting_pool(input, facts, pool, live));
        if live.is_none() || waiting.is_some() {
            return waiting;
        }
    }
    let mut template = machines::pool_template(&input.cluster, pool);
    let mut config = workers::build_pool_config(input, pool);
    let mark = RecipeMark::of_pool(&input.cluster, pool, &(template.name_any(), config.name_any()));
    let kept = live.and_then(|live| keep_templates(&mark, live, facts, &mut template, &mut config));
    let mut deployment = deployment(input, facts, pool, &template.name_any(), &config.name_any());
    kept.as_ref().unwrap_or(&mark).put_on(&mut deployment);
    let check = machines::pool_check(input, pool, live.map(AsRef::as_ref));
    Some(PoolObjects { template, config, deployment, check })
}

/// Returns a pool's MachineDeployment, with the replicas for its next step.
fn deployment(
    input: &GroupInput<'_>,
    facts: &Facts,
    pool: &NodePool,
    template: &str,
    config: &str,
) -> MachineDeployment {
    let pools = &input.cluster.tkc.spec.topology.node_pools;
    let mut deployment = machines::deployment(&input.cluster, pool, template, config);
    deployment.spec.replicas = pace::next_replicas(pool, pools, &facts.deployments);
    deployment
}

/// Plans a pool that waits for the control plane. The configuration of its machines doesn't change, but their number can.
///
/// Returns `None` if a template of the machines no longer exists. In this case, the pool can't wait.
fn waiting_pool(
    input: &GroupInput<'_>,
    facts: &Facts,
    pool: &NodePool,
    live: &MachineDeployment,
) -> Option<PoolObjects> {
    let uses = &live.spec.template.spec;
    let mut template =
        WCPMachineTemplate::clone(find(&facts.machine_templates, &uses.infrastructure_ref.name)?);
    let mut config = KubeadmConfigTemplate::clone(find(
        &facts.config_templates,
        &uses.bootstrap.config_ref.as_ref()?.name,
    )?);
    let metadata = |name: String| input.cluster.metadata(&name, &[(label::NODE_POOL, &pool.name)]);
    template.metadata = metadata(template.name_any());
    config.metadata = metadata(config.name_any());
    let mut deployment = deployment(input, facts, pool, &template.name_any(), &config.name_any());
    deployment.spec.template.spec.version.clone_from(&uses.version);
    for (key, value) in live.labels().iter().filter(|(key, _)| *key == label::TKR) {
        deployment.labels_mut().insert(key.clone(), value.clone());
    }
    if let Some(mark) = RecipeMark::on(live) {
        mark.put_on(&mut deployment);
    }
    let check = machines::pool_check(input, pool, Some(live));
    Some(PoolObjects { template, config, deployment, check })
}

/// Takes over the templates of the pool's machines, and returns their mark, if another gcm version built them from the same
/// recipe.
fn keep_templates(
    mark: &RecipeMark,
    live: &MachineDeployment,
    facts: &Facts,
    template: &mut WCPMachineTemplate,
    config: &mut KubeadmConfigTemplate,
) -> Option<RecipeMark> {
    let uses = &live.spec.template.spec;
    let (machine, bootstrap) = (&uses.infrastructure_ref.name, &uses.bootstrap.config_ref.as_ref()?.name);
    let kept = mark.kept(RecipeMark::on(live))?;
    let (there, configured) =
        (find(&facts.machine_templates, machine)?, find(&facts.config_templates, bootstrap)?);
    template.metadata.name = Some(machine.clone());
    template.spec.clone_from(&there.spec);
    config.metadata.name = Some(bootstrap.clone());
    config.spec.clone_from(&configured.spec);
    Some(kept)
}

fn find<'f, K: Resource>(objects: &'f [Arc<K>], name: &str) -> Option<&'f Arc<K>> {
    objects.iter().find(|object| object.name_any() == name)
}
