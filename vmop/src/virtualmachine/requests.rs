//! The requests from a VM to other components, independent of the VM's plan: objects, watches and a template. This module
//! decides what to request, and doesn't send it.

use api::vmop::VirtualMachine;
use vsphere::inventory::PowerState;

use super::bootstrap::observe::DataSourceWatch;
use super::facts::Facts;
use super::identity::find::Found;
use super::nic::request::NicRequest;
use super::storage::claims::{AttachTo, Volumes};
use crate::pause;
use crate::probe::ProbeTarget;
use crate::templates::TemplateKey;

/// The change to a readiness probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeRequest {
    /// Keeps the probe.
    Keep,
    /// Sets the probe's target; `None` stops the probe.
    Set(Option<ProbeTarget>),
}

/// The requests for one VM.
#[derive(Clone, Copy, Debug)]
pub struct Requests<'a> {
    pub probe: ProbeRequest,
    /// Keeps, starts or stops the watch on the guest's Secret or ConfigMap.
    pub data_source: &'a DataSourceWatch,
    /// The name of an image that doesn't exist. A library sync may add it.
    pub missing_image: Option<&'a str>,
    /// The golden template that the VM is cloned from.
    pub template: Option<&'a TemplateKey>,
    /// The cluster module that vanished from vCenter.
    pub vanished_module: Option<&'a str>,
    /// The persistent volumes and the VM that they are attached to.
    pub volumes: Option<(&'a Volumes, AttachTo<'a>)>,
    /// The objects that request NICs from network providers.
    pub nics: &'a [NicRequest],
}

/// Returns the requests for `vm`.
pub fn compose_requests<'a>(vm: &'a VirtualMachine, facts: &'a Facts) -> Requests<'a> {
    let creation = facts.creation.as_deref();
    let exists = matches!(facts.found, Found::Ours(_) | Found::Moved(_));
    Requests {
        probe: if exists { ProbeRequest::Set(facts.runtime.probe_target) } else { ProbeRequest::Keep },
        data_source: &facts.data_source_watch,
        missing_image: creation
            .filter(|creation| creation.image_missing)
            .map(|_| vm.spec.image_name.as_str()),
        template: creation.and_then(|creation| creation.template_request.as_ref()),
        vanished_module: facts.membership.as_ref().ok().and_then(|membership| membership.vanished.as_deref()),
        volumes: attached_volumes(facts),
        nics: creation.map_or(facts.nic_requests.as_slice(), |creation| &creation.nic_requests),
    }
}

/// Returns the volumes and the VM that they are attached to, or `None` if the VM wasn't found, doesn't have volumes, or was
/// paused by an admin.
fn attached_volumes(facts: &Facts) -> Option<(&Volumes, AttachTo<'_>)> {
    let (Found::Ours(vsphere_vm), Some(volumes)) = (&facts.found, &facts.volumes) else { return None };
    let node = AttachTo {
        bios: vsphere_vm.uuid.unwrap_or(facts.identity.bios),
        zone: facts.runtime.zone.as_deref(),
        off: vsphere_vm.power_state == Some(PowerState::Off),
    };
    (!pause::by_admin(vsphere_vm)).then_some((volumes, node))
}
