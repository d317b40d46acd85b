//! The kind of a group's volumes: disks of its VMs, or claims.

use api::capw::WCPMachineTemplate;
use api::gcm::parts::Volume;
use kube::ResourceExt;

use super::setup::VolumesAs;
use crate::admission::volumes::group_denials;
use crate::cluster::invalid::Invalid;

/// Returns the kind of a group's volumes: claims only if its machines are made from the template with claims.
///
/// Machines that were created with claims keep them. Any other change of their template also replaces the claims by disks.
pub fn volumes_as(
    live: Option<&str>,
    claims: &WCPMachineTemplate,
    field: &str,
    volumes: Option<&[Volume]>,
) -> Result<VolumesAs, Invalid> {
    if live == Some(claims.name_any().as_str()) {
        return Ok(VolumesAs::Claims);
    }
    // What was admitted by fewer rules gets no commands that it would break.
    match group_denials(field, volumes).into_iter().next() {
        Some(denial) => Err(Invalid::Denied(denial)),
        None => Ok(VolumesAs::Disks),
    }
}
