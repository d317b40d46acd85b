//! What a machine needs before it can be made, each judged by itself.
//!
//! All of them are judged in every pass, so that a user sees everything that is missing at once and
//! not one thing per repair.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::conditions::vmop as reason;
use api::net::VirtualNetwork;
use api::vmop::{
    NETWORK_TYPE_DISTRIBUTED, NETWORK_TYPE_NSX_T, ResourceSpec, TRANSPORT_EXTRA_CONFIG, VirtualMachine,
    VirtualMachineClass, VirtualMachineImage, VirtualMachineNetworkInterface,
};
use kube::ResourceExt;
use vsphere::{Allocation, Backing, EthernetKind};

use crate::provider::{Place, golden::Template};

/// The keys that cloud-init reads. All are always written: a template's own must not shine through.
pub const GUESTINFO: [&str; 6] = [
    "guestinfo.metadata",
    "guestinfo.metadata.encoding",
    "guestinfo.userdata",
    "guestinfo.userdata.encoding",
    "guestinfo.vendordata",
    "guestinfo.vendordata.encoding",
];
/// A guest can't read longer values.
const LONGEST_VALUE: usize = 64 * 1024;

/// Something that is missing, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmet {
    /// The condition's reason.
    pub reason: &'static str,
    /// Which object, why, what to do.
    pub message: String,
    /// Nothing is wrong; it only takes time.
    pub underway: bool,
    /// No watch tells when it is met, so it is looked at again after a while.
    pub unwatched: bool,
}

impl Unmet {
    /// Something is wrong, and somebody must act.
    pub fn wrong(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), underway: false, unwatched: false }
    }

    /// Something is on its way.
    pub fn underway(reason: &'static str, message: impl Into<String>) -> Self {
        Self { underway: true, ..Self::wrong(reason, message) }
    }

    /// As [`Unmet::wrong`], of something that lies in vCenter and is not watched.
    pub fn in_vcenter(reason: &'static str, message: impl Into<String>) -> Self {
        Self { unwatched: true, ..Self::wrong(reason, message) }
    }
}

/// A need: met with what it yields, or not.
pub type Need<T> = Result<T, Unmet>;

/// Everything a machine needs before it is made.
#[derive(Clone, Debug)]
pub struct Needs {
    /// CPUs, memory and reservations.
    pub class: Need<Size>,
    /// The template to clone.
    pub image: Need<Arc<Template>>,
    /// The storage class may be used.
    pub storage: Need<()>,
    /// What each network card is plugged into.
    pub network: Need<Vec<Card>>,
    /// What the guest is told.
    pub bootstrap: Need<Bootstrap>,
    /// Folder and pool.
    pub place: Need<Place>,
}

/// The size of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Virtual CPUs.
    pub cpus: u32,
    /// Memory.
    pub memory_mib: i64,
    /// CPU guaranteed and allowed, in MHz.
    pub cpu: Allocation,
    /// Memory guaranteed and allowed, in MiB.
    pub memory: Allocation,
}

/// A network card as it shall be.
#[derive(Clone, Debug, PartialEq)]
pub struct Card {
    /// What the guest sees.
    pub kind: EthernetKind,
    /// What it is plugged into.
    pub backing: Backing,
}

/// What the guest is told: ExtraConfig keys and values. Never printed: it holds the cluster's keys.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Bootstrap(pub BTreeMap<String, String>);

impl std::fmt::Debug for Bootstrap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// The class exists and is bound to the namespace.
pub fn class<'a>(
    vm: &VirtualMachine,
    class: Option<&'a VirtualMachineClass>,
    bound: bool,
) -> Need<&'a VirtualMachineClass> {
    let name = &vm.spec.class_name;
    let Some(class) = class else {
        let message = format!("VirtualMachineClass {name} does not exist. Create it, or name another class");
        return Err(Unmet::wrong(reason::VIRTUAL_MACHINE_CLASS_NOT_FOUND, message));
    };
    if !bound {
        let namespace = vm.namespace().unwrap_or_default();
        let message = format!(
            "VirtualMachineClass {name} is not bound to namespace {namespace}. Create a VirtualMachineClassBinding there"
        );
        return Err(Unmet::wrong(reason::VIRTUAL_MACHINE_CLASS_BINDING_NOT_FOUND, message));
    }
    Ok(class)
}

/// Whether the class reserves or limits CPU by cores, which only the hosts' clock turns into MHz.
pub fn counts_cores(class: &VirtualMachineClass) -> bool {
    let resources = class.spec.policies.as_ref().and_then(|policies| policies.resources.as_ref());
    resources
        .is_some_and(|resources| [&resources.requests, &resources.limits].into_iter().flatten().any(in_cores))
}

/// Whether an amount of CPU is given in cores.
pub fn in_cores(spec: &ResourceSpec) -> bool {
    let millis = spec.cpu.as_ref().and_then(|cpu| cpu.millis().ok());
    millis.is_some_and(|millis| millis > 0 && millis < HERTZ_FROM)
}

/// From here on a CPU quantity means hertz, below it cores (in thousandths).
const HERTZ_FROM: i128 = 1_000_000;

/// The size that a class stands for, on hosts of that clock.
pub fn size(class: &VirtualMachineClass, megahertz: i64) -> Need<Size> {
    let bad = |what: String| {
        let message = format!("VirtualMachineClass {}: {what}. Mend the class", class.name_any());
        Unmet::wrong(reason::VIRTUAL_MACHINE_CLASS_NOT_FOUND, message)
    };
    let hardware = class.spec.hardware.as_ref().ok_or_else(|| bad("spec.hardware is missing".into()))?;
    let cpus = hardware.cpus.and_then(|cpus| u32::try_from(cpus).ok()).filter(|cpus| *cpus > 0);
    let memory = hardware.memory.as_ref().ok_or_else(|| bad("spec.hardware.memory is missing".into()))?;
    let memory_mib = memory.mib().map_err(|error| bad(format!("spec.hardware.memory: {error}")))?;
    if memory_mib <= 0 {
        return Err(bad("spec.hardware.memory is not positive".into()));
    }
    let resources = class.spec.policies.as_ref().and_then(|policies| policies.resources.as_ref());
    let (cpu, memory) = allocations(
        resources.and_then(|resources| resources.requests.as_ref()),
        resources.and_then(|resources| resources.limits.as_ref()),
        megahertz,
    )
    .map_err(|error| bad(format!("spec.policies.resources: {error}")))?;
    Ok(Size {
        cpus: cpus.ok_or_else(|| bad("spec.hardware.cpus is not positive".into()))?,
        memory_mib,
        cpu,
        memory,
    })
}

/// Guarantees and limits in MHz and MiB; 0 means none.
pub fn allocations(
    requests: Option<&ResourceSpec>,
    limits: Option<&ResourceSpec>,
    megahertz: i64,
) -> Result<(Allocation, Allocation), api::quantity::NotAQuantity> {
    let cpu = |spec: Option<&ResourceSpec>| -> Result<Option<i64>, api::quantity::NotAQuantity> {
        let Some(quantity) = spec.and_then(|spec| spec.cpu.as_ref()) else { return Ok(None) };
        let millis = quantity.millis()?;
        // A core's worth, or hertz as vSphere counts them; rounded up, a guarantee must hold.
        let scaled = if millis < HERTZ_FROM { millis * i128::from(megahertz) } else { millis / 1_000_000 };
        let mhz = scaled.div_euclid(1000) + i128::from(scaled.rem_euclid(1000) != 0);
        Ok(i64::try_from(mhz).ok().filter(|mhz| *mhz > 0))
    };
    let memory = |spec: Option<&ResourceSpec>| -> Result<Option<i64>, api::quantity::NotAQuantity> {
        let Some(quantity) = spec.and_then(|spec| spec.memory.as_ref()) else { return Ok(None) };
        Ok(Some(quantity.mib()?).filter(|mib| *mib > 0))
    };
    Ok((
        Allocation { reservation: cpu(requests)?, limit: cpu(limits)?, expandable: None },
        Allocation { reservation: memory(requests)?, limit: memory(limits)?, expandable: None },
    ))
}

/// The image exists and can be used; `library` says what is wrong with the library, if something is.
pub fn image<'a>(
    vm: &VirtualMachine,
    image: Option<&'a VirtualMachineImage>,
    library: Option<&str>,
) -> Need<&'a VirtualMachineImage> {
    let name = &vm.spec.image_name;
    let Some(image) = image else {
        let why = library.map_or_else(String::new, |library| format!(" ({library})"));
        let message = format!(
            "VirtualMachineImage {name} does not exist{why}. Add the image to the content library, or name another image"
        );
        return Err(Unmet::wrong(reason::VIRTUAL_MACHINE_IMAGE_NOT_FOUND, message));
    };
    let conditions = image.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    if let Some(bad) = conditions.iter().find(|condition| condition.status == api::conditions::FALSE) {
        let why = bad.message.as_deref().or(bad.reason.as_deref()).unwrap_or("it is not ready");
        let message = format!("VirtualMachineImage {name} can't be used: {why}");
        return Err(Unmet::wrong(reason::VIRTUAL_MACHINE_IMAGE_NOT_READY, message));
    }
    if image.status.as_ref().is_none_or(|status| status.content_version.is_none()) {
        let message = format!("VirtualMachineImage {name} is being read from its library");
        return Err(Unmet::underway(reason::VIRTUAL_MACHINE_IMAGE_NOT_READY, message));
    }
    Ok(image)
}

/// The storage class exists and the namespace was given it by a quota.
pub fn storage(vm: &VirtualMachine, required: bool, exists: bool, quotas: &BTreeSet<String>) -> Need<()> {
    let namespace = vm.namespace().unwrap_or_default();
    let Some(name) = vm.spec.storage_class.as_deref().filter(|name| !name.is_empty()) else {
        if required {
            let message = "spec.storageClass is empty, and the provider configuration requires one. Set it";
            return Err(Unmet::wrong(reason::STORAGE_NOT_READY, message));
        }
        return Ok(());
    };
    if !exists {
        let message = format!("StorageClass {name} does not exist. Create it, or name another");
        return Err(Unmet::wrong(reason::STORAGE_NOT_READY, message));
    }
    let prefix = format!("{name}.storageclass.storage.k8s.io/");
    if !quotas.iter().any(|key| key.starts_with(&prefix)) {
        let message = format!(
            "StorageClass {name} is not assigned to namespace {namespace}. Give a ResourceQuota there the hard key {prefix}requests.storage"
        );
        return Err(Unmet::wrong(reason::STORAGE_NOT_READY, message));
    }
    Ok(())
}

/// The network that a card is plugged into, by its name in vCenter; `None` is the configured one.
pub fn network_name<'a>(
    namespace: &str,
    interface: &'a VirtualMachineNetworkInterface,
    realised: impl Fn(&str) -> Option<Arc<VirtualNetwork>>,
) -> Need<Option<&'a str>> {
    let name = interface.network_name.as_deref().filter(|name| !name.is_empty());
    match interface.network_type.as_deref().unwrap_or_default() {
        "" | NETWORK_TYPE_DISTRIBUTED => Ok(name),
        NETWORK_TYPE_NSX_T => {
            let name = name.unwrap_or_default();
            let found = realised(name);
            let ready = found
                .as_ref()
                .and_then(|network| network.status.as_ref())
                .is_some_and(|status| api::conditions::holds(&status.conditions, api::net::READY));
            match (found, ready) {
                (_, true) => Ok(None),
                (Some(_), false) => Err(Unmet::underway(
                    reason::NETWORK_NOT_READY,
                    format!("VirtualNetwork {namespace}/{name} is not Ready: the network provider is at it"),
                )),
                (None, false) => Err(Unmet::wrong(
                    reason::NETWORK_NOT_READY,
                    format!(
                        "VirtualNetwork {namespace}/{name} does not exist. Create it, or name another network"
                    ),
                )),
            }
        }
        other => Err(Unmet::wrong(
            reason::NETWORK_NOT_READY,
            format!("networkType {other:?} is not supported. Use nsx-t, vsphere-distributed, or none"),
        )),
    }
}

/// The kind of card that an interface asks for.
pub fn card_kind(interface: &VirtualMachineNetworkInterface) -> Need<EthernetKind> {
    match interface.ethernet_card_type.as_deref().unwrap_or_default() {
        "" | "vmxnet3" => Ok(EthernetKind::Vmxnet3),
        "vmxnet2" => Ok(EthernetKind::Vmxnet2),
        "e1000" => Ok(EthernetKind::E1000),
        "e1000e" => Ok(EthernetKind::E1000e),
        "pcnet32" => Ok(EthernetKind::Pcnet32),
        other => Err(Unmet::wrong(
            reason::NETWORK_NOT_READY,
            format!("ethernetCardType {other:?} is unknown. Use vmxnet3, vmxnet2, e1000, e1000e or pcnet32"),
        )),
    }
}

/// Where the guest's data is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source<'a> {
    /// Nowhere: the guest is told nothing.
    None,
    /// In a Secret.
    Secret(&'a str),
    /// In a ConfigMap.
    ConfigMap(&'a str),
}

/// Where the guest's data is kept, as the spec says.
pub fn source(vm: &VirtualMachine) -> Need<Source<'_>> {
    let invalid = |message: String| Unmet::wrong(reason::BOOTSTRAP_NOT_READY, message);
    let Some(metadata) = &vm.spec.vm_metadata else { return Ok(Source::None) };
    let named = |name: &'_ Option<String>| name.as_deref().is_some_and(|name| !name.is_empty());
    let source = match (named(&metadata.secret_name), named(&metadata.config_map_name)) {
        (true, true) => {
            return Err(invalid("spec.vmMetadata names a Secret and a ConfigMap. Name one of them".into()));
        }
        (true, false) => Source::Secret(metadata.secret_name.as_deref().unwrap_or_default()),
        (false, true) => Source::ConfigMap(metadata.config_map_name.as_deref().unwrap_or_default()),
        (false, false) => return Ok(Source::None),
    };
    match metadata.transport.as_deref() {
        None | Some("" | TRANSPORT_EXTRA_CONFIG) => Ok(source),
        Some(other) => {
            Err(invalid(format!("spec.vmMetadata.transport {other} is not supported. Use ExtraConfig")))
        }
    }
}

/// The guest's data out of a Secret or ConfigMap: only keys of guestinfo, none too long to be read.
pub fn bootstrap(source: &str, data: impl IntoIterator<Item = (String, Vec<u8>)>) -> Need<Bootstrap> {
    let invalid = |message: String| Unmet::wrong(reason::BOOTSTRAP_NOT_READY, message);
    let mut values = BTreeMap::new();
    for (key, value) in data.into_iter().filter(|(key, _)| key.starts_with("guestinfo.")) {
        if value.len() > LONGEST_VALUE {
            return Err(invalid(format!(
                "{source}: {key} has {} bytes, and a guest reads at most {LONGEST_VALUE}. Make it smaller, or compress it",
                value.len()
            )));
        }
        let text = String::from_utf8(value).map_err(|_| {
            invalid(format!(
                "{source}: {key} is not text. Encode it, and name the encoding in {key}.encoding"
            ))
        })?;
        values.insert(key, text);
    }
    if values.is_empty() {
        return Err(invalid(format!("{source} has no key that begins with guestinfo. Add the guest's data")));
    }
    Ok(Bootstrap(values))
}

impl Needs {
    /// What is unmet: what is wrong before what only takes time.
    pub fn unmet(&self) -> impl Iterator<Item = &Unmet> {
        let Self { class, image, storage, network, bootstrap, place } = self;
        let all = [
            class.as_ref().err(),
            image.as_ref().err(),
            storage.as_ref().err(),
            network.as_ref().err(),
            bootstrap.as_ref().err(),
            place.as_ref().err(),
        ];
        let wrong = all.into_iter().flatten().filter(|unmet| !unmet.underway);
        wrong.chain(all.into_iter().flatten().filter(|unmet| unmet.underway))
    }

    /// What to tell first of all that is unmet.
    pub fn first_unmet(&self) -> Option<&Unmet> {
        self.unmet().next()
    }
}
