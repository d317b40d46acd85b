//! Chooses between VM disks and PersistentVolumeClaims for a node group's volumes.

use api::capw::WCPMachineTemplate;
use api::gcm::parts::Volume;
use kube::ResourceExt;

use super::setup::VolumesAs;
use crate::admission::volumes::group_denials;
use crate::cluster::invalid::Invalid;

/// Returns the kind of a group's volumes: claims only if the group's machines already use the template `claims`, and disks
/// otherwise. `live` is the name of the machines' current template.
///
/// Machines that were created with claims keep the claims. If their template changes for another reason, disks replace the
/// claims.
pub fn volumes_as(
    live: Option<&str>,
    claims: &WCPMachineTemplate,
    field: &str,
    volumes: Option<&[Volume]>,
) -> Result<VolumesAs, Invalid> {
    if live == Some(claims.name_any().as_str()) {
        return Ok(VolumesAs::Claims);
    }
    // Earlier versions admitted more volumes. The commands for disks would break a node with such volumes.
    match group_denials(field, volumes).into_iter().next() {
        Some(denial) => Err(Invalid::Denied(denial)),
        None => Ok(VolumesAs::Disks),
    }
}
