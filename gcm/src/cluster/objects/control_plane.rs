//! The KubeadmControlPlane.

use std::collections::BTreeMap;

use api::capi::{
    KubeadmControlPlane, KubeadmControlPlaneKubeadmConfigSpec as ConfigSpec,
    KubeadmControlPlaneKubeadmConfigSpecClusterConfiguration as ClusterConfiguration,
    KubeadmControlPlaneKubeadmConfigSpecClusterConfigurationApiServer as ApiServer,
    KubeadmControlPlaneKubeadmConfigSpecClusterConfigurationApiServerExtraArgs as ApiServerArgument,
    KubeadmControlPlaneKubeadmConfigSpecClusterConfigurationControllerManager as ControllerManager,
    KubeadmControlPlaneKubeadmConfigSpecClusterConfigurationControllerManagerExtraArgs as ControllerManagerArgument,
    KubeadmControlPlaneKubeadmConfigSpecClusterConfigurationDns as Dns,
    KubeadmControlPlaneKubeadmConfigSpecClusterConfigurationEtcd as Etcd,
    KubeadmControlPlaneKubeadmConfigSpecClusterConfigurationEtcdLocal as LocalEtcd,
    KubeadmControlPlaneKubeadmConfigSpecClusterConfigurationScheduler as Scheduler,
    KubeadmControlPlaneKubeadmConfigSpecClusterConfigurationSchedulerExtraArgs as SchedulerArgument,
    KubeadmControlPlaneKubeadmConfigSpecFiles as ConfigFile,
    KubeadmControlPlaneKubeadmConfigSpecInitConfiguration as InitConfiguration,
    KubeadmControlPlaneKubeadmConfigSpecInitConfigurationNodeRegistration as InitRegistration,
    KubeadmControlPlaneKubeadmConfigSpecInitConfigurationNodeRegistrationKubeletExtraArgs as InitArgument,
    KubeadmControlPlaneKubeadmConfigSpecJoinConfiguration as JoinConfiguration,
    KubeadmControlPlaneKubeadmConfigSpecJoinConfigurationNodeRegistration as JoinRegistration,
    KubeadmControlPlaneKubeadmConfigSpecJoinConfigurationNodeRegistrationKubeletExtraArgs as JoinArgument,
    KubeadmControlPlaneKubeadmConfigSpecUsers as User, KubeadmControlPlaneMachineTemplate as MachineTemplate,
    KubeadmControlPlaneMachineTemplateSpec as MachineTemplateSpec,
    KubeadmControlPlaneMachineTemplateSpecDeletion as MachineDeletion,
    KubeadmControlPlaneMachineTemplateSpecInfrastructureRef as InfrastructureRef, KubeadmControlPlaneSpec,
};
use api::capw::WCPMachineTemplate;
use api::gcm::parts::ControlPlane;
use api::gcm::release::ContainerImage;
use api::names::{self, label};

use super::bootstrap::{
    FILE_OWNER, NODE_NAME, NodeFile, NodeSetup, USER, USER_SHELL, USER_SUDO, drain_seconds,
    kubelet_arguments, node_setup,
};
use super::input::{Input, TypedReference};
use crate::releases::Release;

/// Add-ons are this program's: Cluster API is not to touch those that kubeadm brings.
const HANDS_OFF: [&str; 2] =
    ["controlplane.cluster.x-k8s.io/skip-coredns", "controlplane.cluster.x-k8s.io/skip-kube-proxy"];

/// The KubeadmControlPlane, whose machines are made from the template of this name.
pub fn control_plane(input: &Input<'_>, template: &str) -> KubeadmControlPlane {
    let ControlPlane { replicas, vm_class: _, storage_class: _, volumes: _, tkr: _, node_drain_timeout } =
        &input.tkc.spec.topology.control_plane;
    let mut metadata =
        input.metadata(&names::control_plane(&input.name()), &[(label::TKR, &input.release_label())]);
    metadata.annotations = Some(HANDS_OFF.iter().map(|key| ((*key).to_owned(), String::new())).collect());
    let TypedReference { api_group, kind, name } = TypedReference::to::<WCPMachineTemplate>(template);
    let machine = MachineTemplateSpec {
        infrastructure_ref: InfrastructureRef { api_group, kind, name },
        deletion: drain_seconds(node_drain_timeout.as_deref()).map(|seconds| MachineDeletion {
            node_drain_timeout_seconds: Some(seconds),
            ..MachineDeletion::default()
        }),
        ..MachineTemplateSpec::default()
    };
    KubeadmControlPlane {
        metadata,
        spec: KubeadmControlPlaneSpec {
            replicas: Some(replicas.unwrap_or(1)),
            version: input.release.kubernetes.clone(),
            machine_template: MachineTemplate { spec: machine, ..MachineTemplate::default() },
            kubeadm_config_spec: Some(config(input)),
            ..KubeadmControlPlaneSpec::default()
        },
        status: None,
    }
}

fn config(input: &Input<'_>) -> ConfigSpec {
    let NodeSetup { commands, files } = node_setup(input);
    let files: Vec<ConfigFile> = files.into_iter().map(config_file).collect();
    ConfigSpec {
        cluster_configuration: Some(cluster_configuration(input.release)),
        init_configuration: Some(InitConfiguration {
            node_registration: Some(init_registration(input)),
            ..InitConfiguration::default()
        }),
        join_configuration: Some(JoinConfiguration {
            node_registration: Some(join_registration(input)),
            ..JoinConfiguration::default()
        }),
        pre_kubeadm_commands: Some(commands),
        files: (!files.is_empty()).then_some(files),
        users: Some(vec![user()]),
        ..ConfigSpec::default()
    }
}

fn cluster_configuration(release: &Release) -> ClusterConfiguration {
    const PROFILING: (&str, &str) = ("profiling", "false");
    ClusterConfiguration {
        certificates_dir: Some("/etc/kubernetes/pki".to_owned()),
        api_server: Some(ApiServer {
            extra_args: Some(
                [PROFILING, ("tls-min-version", "VersionTLS12")]
                    .map(|(name, value)| ApiServerArgument { name: name.to_owned(), value: value.to_owned() })
                    .to_vec(),
            ),
            ..ApiServer::default()
        }),
        controller_manager: Some(ControllerManager {
            extra_args: Some(vec![ControllerManagerArgument {
                name: PROFILING.0.to_owned(),
                value: PROFILING.1.to_owned(),
            }]),
            ..ControllerManager::default()
        }),
        scheduler: Some(Scheduler {
            extra_args: Some(vec![SchedulerArgument {
                name: PROFILING.0.to_owned(),
                value: PROFILING.1.to_owned(),
            }]),
            ..Scheduler::default()
        }),
        image_repository: release.image_repository.clone(),
        dns: release
            .coredns
            .clone()
            .filter(names_something)
            .map(|image| Dns { image_repository: image.image_repository, image_tag: image.image_tag }),
        etcd: release.etcd.clone().filter(names_something).map(|image| Etcd {
            local: Some(LocalEtcd {
                image_repository: image.image_repository,
                image_tag: image.image_tag,
                ..LocalEtcd::default()
            }),
            ..Etcd::default()
        }),
        ..ClusterConfiguration::default()
    }
}

fn names_something(image: &ContainerImage) -> bool {
    let ContainerImage { image_repository, image_tag } = image;
    image_repository.is_some() || image_tag.is_some()
}

fn init_registration(input: &Input<'_>) -> InitRegistration {
    let arguments = kubelet_arguments(input, &BTreeMap::new());
    InitRegistration {
        name: Some(NODE_NAME.to_owned()),
        kubelet_extra_args: Some(
            arguments.map(|(name, value)| InitArgument { name: name.to_owned(), value }).to_vec(),
        ),
        ..InitRegistration::default()
    }
}

fn join_registration(input: &Input<'_>) -> JoinRegistration {
    let arguments = kubelet_arguments(input, &BTreeMap::new());
    JoinRegistration {
        name: Some(NODE_NAME.to_owned()),
        kubelet_extra_args: Some(
            arguments.map(|(name, value)| JoinArgument { name: name.to_owned(), value }).to_vec(),
        ),
        ..JoinRegistration::default()
    }
}

fn config_file(file: NodeFile) -> ConfigFile {
    let NodeFile { path, permissions, content } = file;
    ConfigFile {
        path,
        owner: Some(FILE_OWNER.to_owned()),
        permissions: Some(permissions.to_owned()),
        content: Some(content),
        ..ConfigFile::default()
    }
}

fn user() -> User {
    User {
        name: USER.to_owned(),
        sudo: Some(USER_SUDO.to_owned()),
        shell: Some(USER_SHELL.to_owned()),
        lock_password: Some(true),
        ..User::default()
    }
}
