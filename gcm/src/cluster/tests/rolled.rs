//! Tests that admission warns about exactly the changes that replace nodes.

use serde_json::json;

use super::pools;
use super::recipes::rolls as planned;
use crate::admission::rolls::rolls as warned;
use crate::cluster::fixtures::ClusterFixture;
use crate::testing::{changed, issuer};

#[test]
fn nodes_are_replaced_where_admission_warns_of_it_and_nowhere_else() {
    let fixture = ClusterFixture::running(pools());
    let facts = fixture.facts();
    let disk = json!([{"name": "d", "mountPath": "/var/lib/d", "capacity": {"storage": "1Gi"}}]);
    for (at, value) in [
        ("/spec/topology/controlPlane/vmClass", json!("guaranteed-large")),
        ("/spec/topology/controlPlane/storageClass", json!("silver")),
        ("/spec/topology/controlPlane/nodeDrainTimeout", json!("9m")),
        ("/spec/topology/nodePools/0/vmClass", json!("guaranteed-large")),
        ("/spec/topology/nodePools/0/storageClass", json!("silver")),
        ("/spec/topology/nodePools/0/volumes", disk),
        ("/spec/topology/nodePools/0/labels", json!({"tier": "x"})),
        ("/spec/topology/nodePools/0/labels", json!({"node-role.kubernetes.io/x": ""})),
        ("/spec/topology/nodePools/0/taints", json!([{"key": "a", "effect": "NoSchedule"}])),
        ("/spec/topology/nodePools/0/nodeDrainTimeout", json!("9m")),
        ("/spec/topology/nodePools/0/replicas", json!(7)),
        (
            "/spec/settings/network/proxy",
            json!({"httpProxy": "http://p", "httpsProxy": "http://p", "noProxy": []}),
        ),
        ("/spec/settings/storage", json!({"defaultClass": "gold"})),
        ("/spec/settings/authentication", json!({"jwt": [issuer("")]})),
    ] {
        let tkc = changed(&fixture.tkc, at, value);
        let planned = planned(&tkc, &facts);
        let warned = warned(&fixture.tkc, &tkc);
        let control_plane = warned.iter().any(|roll| roll.field.ends_with("controlPlane"));
        let idle = tkc.spec.topology.node_pools.iter().filter(|pool| pool.replicas == Some(0)).count();
        let pools = planned[1..].iter().filter(|rolls| **rolls).count();
        assert_eq!(planned[0], control_plane, "{at}: {warned:?}");
        let of_pools = warned.len() - usize::from(control_plane);
        assert!(pools == of_pools || (pools > 1 && pools == of_pools + idle), "{at}: {pools} {warned:?}");
    }
}
