//! Validates the settings for flannel, the built-in container network.

use api::gcm::TanzuKubernetesCluster;
use kube::ResourceExt;

use super::denial::FieldDenial;
use crate::addons::builtin;
use crate::spec::flannel::{ANNOTATIONS, FlannelSettings, InvalidSetting};
use crate::spec::network::network_settings;

/// Returns the denial for new or changed settings that are invalid, or that would change the network of an existing
/// cluster.
///
/// flannel reads its settings when it starts. With another backend or MTU on only some of the nodes, Pods lose packets, and a
/// DaemonSet replaces its Pods one by one.
pub(super) fn denial(
    new: &TanzuKubernetesCluster,
    old: Option<&TanzuKubernetesCluster>,
) -> Option<FieldDenial> {
    let written = |tkc: &TanzuKubernetesCluster| ANNOTATIONS.map(|key| tkc.annotations().get(key).cloned());
    if old.is_some_and(|old| written(old) == written(new)) {
        return None;
    }
    let field = |key: &str| format!("metadata.annotations[{key}]");
    let settings = match FlannelSettings::read(new) {
        Ok(settings) => settings,
        Err(InvalidSetting { annotation, reason, remedy }) => {
            return Some(FieldDenial::new(field(annotation), reason, remedy));
        }
    };
    let old = old.filter(|old| network(old) == Some(builtin::NETWORK))?;
    if FlannelSettings::read(old).unwrap_or_default() == settings {
        return None;
    }
    let changed =
        ANNOTATIONS.into_iter().find(|key| old.annotations().get(*key) != new.annotations().get(*key))?;
    Some(FieldDenial::new(
        field(changed),
        "the cluster exists, and Pods would lose packets while only some of its nodes have the new setting",
        "Undo the change, and set the annotation on a new cluster",
    ))
}

/// Returns a warning if the settings don't have an effect because the cluster has another container network.
pub(super) fn idle(tkc: &TanzuKubernetesCluster) -> Option<String> {
    let key = ANNOTATIONS.into_iter().find(|key| tkc.annotations().contains_key(*key))?;
    let other = network(tkc).filter(|name| *name != builtin::NETWORK)?;
    Some(format!(
        "metadata.annotations[{key}]: it has no effect, because the container network of the cluster is {other}. Set spec.settings.network.cni.name to {}, or remove the annotation",
        builtin::NETWORK
    ))
}

/// Returns the container network that the spec names.
fn network(tkc: &TanzuKubernetesCluster) -> Option<&str> {
    network_settings(&tkc.spec)?.cni.as_ref().map(|cni| cni.name.as_str())
}

#[cfg(test)]
mod tests {
    use api::names::annotation;
    use serde_json::{from_value, json};

    use super::*;
    use crate::admission::validate;
    use crate::testing::{SITE_VERSIONS, available, sound};

    fn cluster(cni: &str, annotations: &[(&str, &str)]) -> TanzuKubernetesCluster {
        let mut tkc = sound();
        let network = tkc.spec.settings.as_mut().unwrap().network.as_mut().unwrap();
        network.cni = Some(from_value(json!({"name": cni})).unwrap());
        tkc.annotations_mut()
            .extend(annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
        tkc
    }

    #[test]
    fn settings_are_refused_if_they_are_invalid_or_change_an_existing_network() {
        const BACKEND: &str = annotation::FLANNEL_BACKEND;
        const MTU: &str = annotation::FLANNEL_MTU;
        let plain = cluster("flannel", &[]);
        let host_gw = cluster("flannel", &[(BACKEND, "host-gw")]);
        let small = cluster("flannel", &[(MTU, "1400")]);
        let invalid = cluster("flannel", &[(MTU, "90")]);
        let antrea = |annotations: &[(&str, &str)]| cluster("antrea", annotations);
        for (new, old, denied) in [
            (&host_gw, None, None),
            (&small, None, None),
            (&invalid, None, Some(MTU)),
            (&invalid, Some(&invalid), None),
            (&host_gw, Some(&host_gw), None),
            (&host_gw, Some(&plain), Some(BACKEND)),
            (&plain, Some(&host_gw), Some(BACKEND)),
            (&small, Some(&plain), Some(MTU)),
            (&cluster("flannel", &[(BACKEND, "vxlan")]), Some(&plain), None),
            (&antrea(&[(MTU, "1400")]), Some(&antrea(&[])), None),
        ] {
            let denial = denial(new, old);
            let field = denied.map(|key| format!("metadata.annotations[{key}]"));
            assert_eq!(denial.map(|denial| denial.field), field, "{new:?}");
        }
        let texts =
            [validate(&invalid, None, &available(&SITE_VERSIONS)), validate(&small, Some(&plain), &[])];
        let texts: Vec<_> = texts.iter().flatten().map(ToString::to_string).collect();
        insta::assert_snapshot!(texts.join("\n"), @r#"
        metadata.annotations[run.tanzu.vmware.com/flannel-mtu]: "90" is not an MTU from 1280 to 9000. Write the MTU of the nodes' network, such as "1400".
        metadata.annotations[run.tanzu.vmware.com/flannel-mtu]: the cluster exists, and Pods would lose packets while only some of its nodes have the new setting. Undo the change, and set the annotation on a new cluster.
        "#);
        assert!(
            idle(&antrea(&[(BACKEND, "vxlan")]))
                .unwrap()
                .contains("container network of the cluster is antrea")
        );
        assert_eq!(idle(&host_gw).or(idle(&antrea(&[]))), None);
    }
}
