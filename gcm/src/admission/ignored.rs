//! Warns about schema fields that gcm doesn't use.

use api::gcm::TanzuKubernetesClusterSpec;
use api::gcm::parts::{Tkr, Volume};

/// The only resource that a volume's capacity uses.
const STORAGE: &str = "storage";

/// Returns warnings about fields that don't have an effect.
pub(super) fn warnings(spec: &TanzuKubernetesClusterSpec) -> Vec<String> {
    let topology = &spec.topology;
    let control_plane = &topology.control_plane;
    let mut groups = vec![(
        "spec.topology.controlPlane".to_owned(),
        control_plane.tkr.as_ref(),
        control_plane.volumes.as_ref(),
    )];
    groups.extend(topology.node_pools.iter().enumerate().map(|(at, pool)| {
        (format!("spec.topology.nodePools[{at}]"), pool.tkr.as_ref(), pool.volumes.as_ref())
    }));
    let mut warnings = Vec::new();
    for (field, tkr, volumes) in groups {
        warnings.extend(reference(&field, tkr));
        let volumes = volumes.into_iter().flatten().enumerate();
        warnings.extend(volumes.flat_map(|(at, volume)| capacity(&format!("{field}.volumes[{at}]"), volume)));
    }
    warnings
}

/// Returns a warning about reference fields other than the name. Releases are cluster-scoped, and there is only one kind.
fn reference(field: &str, tkr: Option<&Tkr>) -> Option<String> {
    let reference = tkr?.reference.as_ref()?;
    let other_kind = reference.kind.as_deref().filter(|kind| !matches!(*kind, "" | "TanzuKubernetesRelease"));
    let parts = [
        ("kind", other_kind),
        ("namespace", reference.namespace.as_deref()),
        ("uid", reference.uid.as_deref()),
        ("resourceVersion", reference.resource_version.as_deref()),
        ("fieldPath", reference.field_path.as_deref()),
    ];
    let written: Vec<&str> = parts
        .into_iter()
        .filter(|(_, text)| text.is_some_and(|text| !text.is_empty()))
        .map(|(key, _)| key)
        .collect();
    (!written.is_empty())
        .then(|| format!("{field}.tkr.reference: only the name is used. Remove {}", written.join(", ")))
}

fn capacity(field: &str, volume: &Volume) -> Vec<String> {
    let others = volume.capacity.keys().filter(|key| *key != STORAGE);
    others
        .map(|key| {
            format!("{field}.capacity.{key}: only {STORAGE} is used; this key has no effect. Remove it")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json, to_value};

    use super::*;
    use crate::testing::sound;

    #[test]
    fn fields_without_effect_are_warned_of() {
        assert_eq!(warnings(&sound().spec), Vec::<String>::new());
        let mut written = to_value(sound().spec).unwrap();
        let topology = &mut written["topology"];
        topology["controlPlane"]["tkr"]["reference"]["kind"] = json!("TanzuKubernetesRelease");
        topology["nodePools"][0]["tkr"] = json!({"reference": {"kind": "Release", "name": "v1.33.1---vmware.1-fips-vkr.2", "namespace": "x"}});
        topology["nodePools"][0]["volumes"] =
            json!([{"name": "d", "mountPath": "/d", "capacity": {"storage": "1Gi", "cpu": "2"}}]);
        insta::assert_debug_snapshot!(warnings(&from_value(written).unwrap()), @r#"
        [
            "spec.topology.nodePools[0].tkr.reference: only the name is used. Remove kind, namespace",
            "spec.topology.nodePools[0].volumes[0].capacity.cpu: only storage is used; this key has no effect. Remove it",
        ]
        "#);
    }
}
