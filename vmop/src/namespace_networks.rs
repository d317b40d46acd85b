//! Checks which vCenter networks VMs in a namespace may use.
//!
//! A network name or MoID in a spec is only a request. An administrator lists the allowed networks in a Namespace
//! annotation. The network in the provider configuration is always allowed. A network provider's networks are objects
//! in the namespace and aren't listed.

use api::names::annotation;
use k8s_openapi::api::core::v1::Namespace;
use kit::watch::Cache;
use kube::ResourceExt;
use kube::api::PartialObjectMeta;

use crate::vcenter::settings::NetworkProvider;

/// The list entry that allows all networks.
const ALL: &str = "*";
/// The default network for provider `NAMED` if the configuration doesn't set one.
const VM_NETWORK: &str = "VM Network";

/// Returns the network that every namespace may use: the configured one, or the default for provider `NAMED`.
pub fn default_network(provider: Option<NetworkProvider>, configured: Option<&str>) -> Option<&str> {
    configured.or_else(|| (provider == Some(NetworkProvider::Named)).then_some(VM_NETWORK))
}

/// Returns the reason why VMs in `namespace` aren't allowed to connect to the network with that name or MoID, or `None` if they
/// are.
pub fn refusal(
    namespace: &str,
    name: &str,
    default: Option<&str>,
    namespaces: &Cache<PartialObjectMeta<Namespace>>,
) -> Option<String> {
    let object = namespaces.get(None, namespace);
    let listed = object.as_ref().and_then(|object| object.annotations().get(annotation::NAMESPACE_NETWORKS));
    (!is_allowed(name, default, listed.map(String::as_str))).then(|| {
        format!(
            "network {name:?} is not allowed in namespace {namespace}. Use an allowed network, or ask an administrator to add {name:?} to annotation {} of the Namespace",
            annotation::NAMESPACE_NETWORKS
        )
    })
}

fn is_allowed(name: &str, default: Option<&str>, listed: Option<&str>) -> bool {
    let mut listed = listed.into_iter().flat_map(|listed| listed.split(',')).map(str::trim);
    default == Some(name) || listed.any(|listed| listed == ALL || listed == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_uses_the_networks_that_are_listed_for_it() {
        let allowed = |name: &str, listed: Option<&str>| is_allowed(name, Some("workload"), listed);
        assert!(allowed("workload", None));
        assert!(!allowed("dvportgroup-13", None) && !allowed("dvportgroup-13", Some("")));
        let listed = Some("front end, dvportgroup-13");
        assert!(
            allowed("workload", listed) && allowed("front end", listed) && allowed("dvportgroup-13", listed)
        );
        assert!(!allowed("front", listed) && !allowed("*", listed) && !allowed("", listed));
        assert!(allowed("anything", Some("a, *")));
        assert!(!is_allowed("workload", None, None));
    }

    #[test]
    fn everybodys_network_is_the_configured_one() {
        let named = Some(NetworkProvider::Named);
        assert_eq!(default_network(named, Some("a")), Some("a"));
        assert_eq!(default_network(named, None), Some("VM Network"));
        assert_eq!(default_network(Some(NetworkProvider::Nsx), None), None);
        assert_eq!(default_network(None, None), None);
    }
}
