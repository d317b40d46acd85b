//! The KubeadmConfigTemplate of a node pool.

use api::capi::{
    KubeadmConfigTemplate, KubeadmConfigTemplateSpec, KubeadmConfigTemplateTemplate as Template,
    KubeadmConfigTemplateTemplateSpec as ConfigSpec, KubeadmConfigTemplateTemplateSpecFiles as ConfigFile,
    KubeadmConfigTemplateTemplateSpecJoinConfiguration as JoinConfiguration,
    KubeadmConfigTemplateTemplateSpecJoinConfigurationNodeRegistration as JoinRegistration,
    KubeadmConfigTemplateTemplateSpecJoinConfigurationNodeRegistrationKubeletExtraArgs as JoinArgument,
    KubeadmConfigTemplateTemplateSpecJoinConfigurationNodeRegistrationTaints as NodeTaint,
    KubeadmConfigTemplateTemplateSpecUsers as User,
};
use api::gcm::parts::NodePool;
use api::names::{self, label};
use k8s_openapi::api::core::v1::Taint;

use super::bootstrap::{
    FILE_OWNER, NODE_NAME, NodeFile, NodeSetup, USER, USER_SHELL, USER_SUDO, kubelet_arguments, node_setup,
};
use super::input::{Input, content_of};

/// The KubeadmConfigTemplate of a pool, named after its content.
pub fn pool_config(input: &Input<'_>, pool: &NodePool) -> KubeadmConfigTemplate {
    let spec = KubeadmConfigTemplateSpec {
        template: Template { spec: Some(config(input, pool)), ..Template::default() },
    };
    let name = names::pool_template(&input.name(), &pool.name, &content_of(&spec));
    KubeadmConfigTemplate { metadata: input.metadata(&name, &[(label::NODE_POOL, &pool.name)]), spec }
}

fn config(input: &Input<'_>, pool: &NodePool) -> ConfigSpec {
    let NodeSetup { commands, files } = node_setup(input);
    let files: Vec<ConfigFile> = files.into_iter().map(config_file).collect();
    ConfigSpec {
        join_configuration: Some(JoinConfiguration {
            node_registration: Some(registration(input, pool)),
            ..JoinConfiguration::default()
        }),
        pre_kubeadm_commands: Some(commands),
        files: (!files.is_empty()).then_some(files),
        users: Some(vec![user()]),
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
