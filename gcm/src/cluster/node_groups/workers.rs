//! The KubeadmConfigTemplate of a node pool.

use api::capi::{
    KubeadmConfigTemplate, KubeadmConfigTemplateSpec, KubeadmConfigTemplateTemplate as Template,
    KubeadmConfigTemplateTemplateSpec as ConfigSpec, KubeadmConfigTemplateTemplateSpecDiskSetup as DiskSetup,
    KubeadmConfigTemplateTemplateSpecDiskSetupFilesystems as DiskFilesystem,
    KubeadmConfigTemplateTemplateSpecDiskSetupPartitions as DiskPartition,
    KubeadmConfigTemplateTemplateSpecFiles as ConfigFile,
    KubeadmConfigTemplateTemplateSpecJoinConfiguration as JoinConfiguration,
    KubeadmConfigTemplateTemplateSpecJoinConfigurationNodeRegistration as JoinRegistration,
    KubeadmConfigTemplateTemplateSpecJoinConfigurationNodeRegistrationKubeletExtraArgs as JoinArgument,
    KubeadmConfigTemplateTemplateSpecJoinConfigurationNodeRegistrationTaints as NodeTaint,
};
use api::gcm::parts::NodePool;
use api::names::{self, label};
use k8s_openapi::api::core::v1::Taint;

use super::bootstrap::{NODE_NAME, NodeSetup, kubelet_arguments, node_setup};
use super::group_input::GroupInput;
use crate::cluster::input::{Input, content_of};
use crate::cluster::login::objects::NodeUser;
use crate::cluster::volumes::setup::{VolumeFilesystem, VolumeSetup, VolumesAs, volume_setup};

/// The KubeadmConfigTemplate of a pool, whose nodes have their volumes like this, named after its content.
pub fn pool_config(input: &GroupInput<'_>, pool: &NodePool, kind: VolumesAs) -> KubeadmConfigTemplate {
    let volumes = volume_setup(pool.volumes.as_deref(), kind);
    let spec = KubeadmConfigTemplateSpec {
        template: Template { spec: Some(config(input, pool, volumes)), ..Template::default() },
    };
    let name = names::pool_template(&input.cluster.name(), &pool.name, &content_of(&spec));
    KubeadmConfigTemplate { metadata: input.cluster.metadata(&name, &[(label::NODE_POOL, &pool.name)]), spec }
}

fn config(input: &GroupInput<'_>, pool: &NodePool, volumes: VolumeSetup) -> ConfigSpec {
    let NodeSetup { commands, files } = node_setup(&input.cluster, &volumes);
    let VolumeSetup { boot_commands, filesystems, mounts, files: _, commands: _ } = volumes;
    let files: Vec<ConfigFile> = files.into_iter().map(Into::into).collect();
    ConfigSpec {
        join_configuration: Some(JoinConfiguration {
            node_registration: Some(registration(&input.cluster, pool)),
            ..JoinConfiguration::default()
        }),
        boot_commands: (!boot_commands.is_empty()).then_some(boot_commands),
        disk_setup: (!filesystems.is_empty()).then(|| disk_setup(filesystems)),
        mounts: (!mounts.is_empty()).then_some(mounts),
        pre_kubeadm_commands: Some(commands),
        files: (!files.is_empty()).then_some(files),
        users: Some(vec![NodeUser::of(&input.cluster, input.login).into()]),
        ..ConfigSpec::default()
    }
}

fn registration(input: &Input<'_>, pool: &NodePool) -> JoinRegistration {
    let arguments = kubelet_arguments(input, &pool.labels.clone().unwrap_or_default());
    let taints = pool.taints.as_deref().filter(|taints| !taints.is_empty());
    JoinRegistration {
        name: Some(NODE_NAME.to_owned()),
        kubelet_extra_args: Some(
            arguments.map(|(name, value)| JoinArgument { name: name.to_owned(), value }).to_vec(),
        ),
        taints: taints.map(|taints| taints.iter().map(node_taint).collect()),
        ..JoinRegistration::default()
    }
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

fn disk_setup(volumes: Vec<VolumeFilesystem>) -> DiskSetup {
    // Of each disk, since Cluster API writes a `disk_setup` that is nothing otherwise, which cloud-init warns of.
    let whole = |volume: &VolumeFilesystem| DiskPartition {
        device: volume.device.clone(),
        layout: Some(false),
        ..DiskPartition::default()
    };
    let partitions = volumes.iter().map(whole).collect();
    let filesystem = |volume: VolumeFilesystem| DiskFilesystem {
        device: volume.device,
        filesystem: volume.filesystem,
        label: Some(volume.label),
        partition: Some(volume.partition),
        ..DiskFilesystem::default()
    };
    let filesystems = volumes.into_iter().map(filesystem).collect();
    DiskSetup { filesystems: Some(filesystems), partitions: Some(partitions) }
}
