//! Restricts requests in API versions other than the stored one: they can change only claim volumes, labels and annotations.
//!
//! Such a version shows only a part of the stored object. The conversion (`api::vmop::convert`) carries the rest in the
//! converted object, where clients could change it and bypass the CRD schema. Therefore the new object is compared with the
//! stored one.

use api::vmop::{VERSION, VirtualMachine, VirtualMachineSpec};

use super::denial::Denial;

/// Denies a request in the API version `version` that creates a VirtualMachine, or that changes more than claim volumes, labels
/// and annotations. Returns `None` if the request is allowed. In the stored version, all requests are.
pub fn version_denials(version: &str, new: &VirtualMachine, old: Option<&VirtualMachine>) -> Option<Denial> {
    let only = |what: &str| format!("Forbidden: {what}. Use vmoperator.vmware.com/{VERSION}");
    if version == VERSION {
        return None;
    }
    let Some(old) = old else {
        return Some(Denial::new("apiVersion", only(&format!("{version} cannot create VirtualMachines"))));
    };
    if without_claims(&new.spec) != without_claims(&old.spec) {
        let reason = only(&format!("{version} can only change volumes of claims, labels and annotations"));
        let field =
            changed_field(&new.spec, &old.spec).map_or("spec".to_owned(), |field| format!("spec.{field}"));
        return Some(Denial::new(&field, reason));
    }
    (new.status != old.status)
        .then(|| Denial::new("status", only(&format!("{version} cannot change the status"))))
}

fn without_claims(spec: &VirtualMachineSpec) -> VirtualMachineSpec {
    let mut spec = spec.clone();
    spec.volumes.retain(|volume| volume.persistent_volume_claim.is_none());
    spec
}

/// Returns the name of the first spec field that differs, or `None`. Claim volumes don't count.
fn changed_field(new: &VirtualMachineSpec, old: &VirtualMachineSpec) -> Option<String> {
    let fields = |spec| serde_json::to_value(without_claims(spec)).unwrap_or_default();
    let (new, old) = (fields(new), fields(old));
    let mut names = new.as_object().into_iter().chain(old.as_object()).flat_map(|fields| fields.keys());
    names.find(|name| new.get(*name) != old.get(*name)).cloned()
}
