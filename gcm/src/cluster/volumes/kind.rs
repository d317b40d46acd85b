//! Whether the volumes of a group are disks of its VMs or claims.

use api::capw::WCPMachineTemplate;
use api::gcm::parts::Volume;
use kube::ResourceExt;

use super::setup::VolumesAs;
use crate::admission::volumes::group_denials;
use crate::cluster::invalid::Invalid;

/// How a group's volumes come about: as claims only where its machines are made from the very template that says so.
///
/// Machines that were created before volumes were disks stay as they are; whatever else changes their template brings the disks with it.
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
