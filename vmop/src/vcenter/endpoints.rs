//! Control plane endpoints in the ExtraConfig of VMs, in keys that root in a guest can't write. Management clusters that share
//! a vCenter read these records to learn which addresses and virtual routers are in use, including the ones that powered-off
//! VMs use.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use api::names::annotation;
use api::vmop::VirtualMachine;
use kube::ResourceExt;
use tokio::sync::Mutex;
use vsphere::{Client, MoRef, ObjectContent};

use crate::vcenter::mark::{OWNER, STACK};

/// The ExtraConfig key for the host of the cluster's endpoint, on control plane VMs.
const ENDPOINT: &str = "vmservice.controlPlaneEndpoint";
/// The ExtraConfig key for the id of the VRRP virtual router that owns the endpoint's address, on control plane VMs.
const VIRTUAL_ROUTER: &str = "vmservice.virtualRouterID";

/// Returns the ExtraConfig entries that record a control plane VM's endpoint. The entries are blank for other VMs, because
/// their image may have been created from a control plane node.
pub fn extra_config(vm: &VirtualMachine) -> [(String, String); 2] {
    let entry = |key: &str, annotation: &str| {
        (key.to_owned(), vm.annotations().get(annotation).cloned().unwrap_or_default())
    };
    [entry(ENDPOINT, annotation::CONTROL_PLANE_ENDPOINT), entry(VIRTUAL_ROUTER, annotation::VIRTUAL_ROUTER)]
}

/// A VM's endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointRecord {
    /// The VM's name and MoID.
    pub vm: (String, MoRef),
    /// The VirtualMachine as `namespace/name`.
    pub owner: String,
    /// The id of the installation that owns the VM.
    pub stack: String,
    /// The endpoint's host.
    pub host: String,
    /// The virtual router id, if there is one.
    pub virtual_router: Option<u8>,
}

impl EndpointRecord {
    /// Returns true if `host` is this endpoint. IP addresses are compared by value.
    pub fn has_host(&self, host: &str) -> bool {
        let address = |host: &str| host.parse::<IpAddr>().ok();
        self.host == host || address(host).is_some_and(|wanted| address(&self.host) == Some(wanted))
    }

    /// Returns the VM's record, or `None` if it doesn't have one. Records on templates are ignored, because a template never
    /// uses an address.
    fn read(vm: &ObjectContent) -> Option<Self> {
        let entry = |key: &str| vm.get(&path(key)).get("value").as_str().unwrap_or_default().to_owned();
        let (host, is_template) = (entry(ENDPOINT), vm.get("config.template").as_bool() == Some(true));
        let name = vm.get("name").as_str().unwrap_or_default();
        (!host.is_empty() && !is_template).then(|| Self {
            vm: (vsphere::unescape_name(name), vm.obj.clone()),
            owner: entry(OWNER),
            stack: entry(STACK),
            host,
            virtual_router: entry(VIRTUAL_ROUTER).parse().ok(),
        })
    }
}

impl fmt::Display for EndpointRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { vm: (name, moref), owner, stack, .. } = self;
        let id = moref.id();
        write!(f, "VM {name} ({id}, of VirtualMachine {owner} of installation {stack:?})")
    }
}

/// Reads the endpoints of all VMs that the user can see in vCenter.
pub async fn read_endpoints(client: &Client) -> vsphere::Result<Vec<EndpointRecord>> {
    let [owner, stack, endpoint, router] = [OWNER, STACK, ENDPOINT, VIRTUAL_ROUTER].map(path);
    // Read single keys, because the whole ExtraConfig contains bootstrap data.
    let paths = ["name", "config.template", &owner, &stack, &endpoint, &router];
    let vms = client.retrieve_all("VirtualMachine", &paths).await?;
    Ok(vms.iter().filter_map(EndpointRecord::read).collect())
}

/// Returns the property path of one ExtraConfig key.
fn path(key: &str) -> String {
    format!("config.extraConfig[\"{key}\"]")
}

/// Reads all endpoints, at most once at a time, and shares each result between callers.
#[derive(Default)]
pub struct EndpointReads(Mutex<Option<(Instant, Arc<Vec<EndpointRecord>>)>>);

impl EndpointReads {
    /// Returns the endpoints from a read that began after this call. Callers that wait while a read is running share the next
    /// read.
    pub async fn get(&self, client: &Client) -> vsphere::Result<Arc<Vec<EndpointRecord>>> {
        let asked = Instant::now();
        let mut last = self.0.lock().await;
        if let Some((_, records)) = last.as_ref().filter(|(began, _)| *began >= asked) {
            return Ok(Arc::clone(records));
        }
        let began = Instant::now();
        let records = Arc::new(read_endpoints(client).await?);
        *last = Some((began, Arc::clone(&records)));
        Ok(records)
    }
}

#[cfg(test)]
mod tests {
    use support::on_both_wires;
    use support::vcsim::Sim;
    use support::wait::within;
    use vsphere::ConfigSpec;

    use super::*;
    use crate::testing::fixtures;
    use crate::testing::vcsim::{clone_vm, planned_clone, reconfigure, wanted_of};
    use crate::vcenter::mark::Mark;

    #[test]
    fn addresses_are_compared_by_value() {
        let record = |host: &str| EndpointRecord {
            vm: (String::new(), MoRef::new("VirtualMachine", "vm-1")),
            owner: String::new(),
            stack: String::new(),
            host: host.to_owned(),
            virtual_router: None,
        };
        for (there, asked, same) in [
            ("10.0.0.5", "10.0.0.5", true),
            ("10.0.0.5", "10.0.0.50", false),
            ("fd00:0::5", "fd00::5", true),
            ("api.example.com", "api.example.com", true),
            ("api.example.com", "10.0.0.5", false),
        ] {
            assert_eq!(record(there).has_host(asked), same, "{there} {asked}");
        }
    }

    async fn the_endpoint_of_a_vm_is_read_by_other_installations(sim: Sim) {
        let (vcenter, template, facts, plain) = planned_clone(&sim).await;
        let mut node = fixtures::annotated(annotation::CONTROL_PLANE_ENDPOINT, "10.0.0.5");
        node.annotations_mut().insert(annotation::VIRTUAL_ROUTER.to_owned(), "9".to_owned());
        let cloned = wanted_of(&node, &sim, &vcenter, &template, &facts).await;
        let vm = within("the clone", clone_vm(&cloned, &facts, &vcenter)).await.unwrap();
        let read = async || read_endpoints(&vcenter.client).await.unwrap();
        let record = |stack: &str| EndpointRecord {
            vm: ("cp-0".to_owned(), vm.moref.clone()),
            owner: "ns/cp-0".to_owned(),
            stack: stack.to_owned(),
            host: "10.0.0.5".to_owned(),
            virtual_router: Some(9),
        };
        assert_eq!(read().await, [record("s1")]);
        let power_off = vcenter.client.power_off(&vm.moref).await.unwrap();
        within("power off", vcenter.inventory.wait_for_task(&power_off)).await.unwrap();
        let mark = Mark::new("ns", "cp-0", "s2").extra_config().to_vec().into();
        reconfigure(&vm.moref, ConfigSpec { extra_config: mark, ..ConfigSpec::default() }, &vcenter).await;
        assert_eq!(read().await, [record("s2")], "another installation's, and switched off");
        let of_plain = plain.spec.config.unwrap().extra_config;
        let blank = of_plain
            .iter()
            .filter(|(key, value)| [ENDPOINT, VIRTUAL_ROUTER].contains(&&**key) && value.is_empty());
        assert_eq!(blank.count(), 2, "a VM made of a control plane node's image has no endpoint");
        vcenter.client.mark_as_template(&vm.moref).await.unwrap();
        assert_eq!(read().await, []);
    }

    async fn reads_are_shared_and_leave_no_view(sim: Sim) {
        let (vcenter, ..) = planned_clone(&sim).await;
        sim.forget_requests().await;
        let reads = (0..20).map(|_| vcenter.endpoints.get(&vcenter.client));
        let all = futures::future::join_all(reads).await;
        assert!(all.iter().all(|records| records.as_ref().is_ok_and(|records| records.is_empty())));
        let views = sim.calls("CreateContainerView").await;
        assert!(views <= 2, "{views}");
        vcenter.endpoints.get(&vcenter.client).await.unwrap();
        assert_eq!(sim.calls("CreateContainerView").await, views + 1, "a later question is asked anew");
        assert_eq!(sim.calls("DestroyView").await, views + 1);
    }

    on_both_wires!(the_endpoint_of_a_vm_is_read_by_other_installations, reads_are_shared_and_leave_no_view);
}
