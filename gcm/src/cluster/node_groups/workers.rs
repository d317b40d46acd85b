//! Builds a node pool's KubeadmConfigTemplate.

use api::capi::{
    KubeadmConfigSpec as ConfigSpec, KubeadmConfigTemplate, KubeadmConfigTemplateSpec,
    KubeadmConfigTemplateTemplate as Template, KubeadmNodeRegistration as NodeRegistration,
    KubeadmNodeRegistrationTaints as NodeTaint,
};
use api::gcm::parts::NodePool;
use api::names::{self, label};
use k8s_openapi::api::core::v1::Taint;

use super::bootstrap::{build_node_config, node_registration};
use super::group_input::GroupInput;
use crate::cluster::input::content_of;
use crate::cluster::volumes::{VolumeSetup, volume_setup};

/// Returns a pool's KubeadmConfigTemplate, named after its content.
pub fn build_pool_config(input: &GroupInput<'_>, pool: &NodePool) -> KubeadmConfigTemplate {
    let volumes = volume_setup(pool.volumes.as_deref());
    let spec = KubeadmConfigTemplateSpec {
        template: Template { spec: Some(config(input, pool, volumes)), ..Template::default() },
    };
    let name = names::pool_template(&input.cluster.name(), &pool.name, &content_of(&spec));
    KubeadmConfigTemplate { metadata: input.cluster.metadata(&name, &[(label::NODE_POOL, &pool.name)]), spec }
}

fn config(input: &GroupInput<'_>, pool: &NodePool, volumes: VolumeSetup) -> ConfigSpec {
    let taints = pool.taints.as_deref().filter(|taints| !taints.is_empty());
    let registration = NodeRegistration {
        taints: taints.map(|taints| taints.iter().map(node_taint).collect()),
        ..node_registration(&input.cluster, &pool.labels.clone().unwrap_or_default())
    };
    build_node_config(input, volumes, registration)
}

fn node_taint(taint: &Taint) -> NodeTaint {
    let Taint { effect, key, time_added, value } = taint;
    NodeTaint {
        effect: effect.clone(),
        key: key.clone(),
        time_added: time_added.as_ref().map(|time| time.0.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()),
        value: value.clone(),
    }
}
