//! Warns about machine names that exceed the host name limit.

use api::gcm::TanzuKubernetesCluster;
use api::names;
use kube::ResourceExt;

use super::nodes::LONGEST_NAME;

/// Returns warnings about pools whose machine names are cut off. A cluster name that is itself too long is denied elsewhere.
pub(super) fn warnings(tkc: &TanzuKubernetesCluster) -> Vec<String> {
    let name = tkc.name_any();
    if name.len() > LONGEST_NAME {
        return Vec::new();
    }
    let is_cut =
        |pool: &str| !names::machine_deployment("", &name, pool).starts_with(&format!("{name}-{pool}-"));
    let pools = tkc.spec.topology.node_pools.iter().enumerate().filter(|(_, pool)| is_cut(&pool.name));
    pools
        .map(|(at, pool)| {
            format!(
                "spec.topology.nodePools[{at}].name: {name}-{} with the suffixes of its machines is longer than {} characters, so the names will be cut off. Use a shorter name for the cluster or the pool",
                pool.name,
                names::MAX_MACHINE_NAME
            )
        })
        .collect()
}
