//! The agent watches the VMs of the simulated vCenter and runs a guest in each powered-on VM.

mod inspect;
mod reports;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use plane::StackIdentity;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use reports::Reports;
pub use reports::{BootReport, Phase};

use super::boot::Guest;
use super::container_images::{ContainerImages, Registry};
use super::datasource::Seed;
use super::deadline::{Deadline, retry_until};
use super::disk::Disk;
use super::failure::{Failure, Reason};
use super::guest_vm::{BOOT_TIMEOUT, GuestVm, Programs};
use super::network::AddressSource;
use super::provoked::Provoked;
use super::reporter;
use crate::addresses::{GuestAddress, Subnet};
use crate::network::held_address::HeldAddresses;
use crate::pattern::Patterns;
use crate::qemu::Hypervisor;
use crate::vcsim::control::{ControlApi, Error, GuestReport, PowerAction, SimulatedVm};

const LONG_POLL: Duration = Duration::from_secs(25);
const RETRY: Duration = Duration::from_millis(500);
const CONTROL_TIMEOUT: Duration = Duration::from_secs(5);

/// The content of a node image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// The kubelet version, such as `v1.33.1+vmware.1`.
    pub kubernetes_version: String,
    /// The container images, by name and tag.
    pub container_images: Arc<BTreeSet<String>>,
    /// The operating system: `photon`, `ubuntu`, `debian`, or a member of the Red Hat family.
    pub os: &'static str,
}

/// A lookup from a content library item's name to its node image content. Returns `None` if the item isn't a node image.
pub type Images = Arc<dyn Fn(&str) -> Option<Release> + Send + Sync>;

/// The configuration of an agent.
#[derive(Clone)]
pub struct Options {
    /// The simulator's control API.
    pub control: ControlApi,
    /// The address range of the guests.
    pub subnet: Subnet,
    /// The programs that nodes run.
    pub programs: Arc<Programs>,
    /// The stack that owns the guest processes.
    pub stack: Arc<StackIdentity>,
    /// The parent folder for guest disks.
    pub folder: PathBuf,
    /// The lookup for node image content.
    pub images: Images,
    /// The registries from which nodes pull container images.
    pub registry: Registry,
    /// The maximum time that a boot waits for other components.
    pub boot_timeout: Duration,
    /// A hypervisor that runs the VMs as real machines instead of simulating them.
    pub hypervisor: Option<Arc<Hypervisor>>,
}

impl Options {
    /// Creates options with kubeadm's boot timeout, without node images or a hypervisor.
    pub fn new(control: ControlApi, subnet: Subnet, programs: Programs, stack: Arc<StackIdentity>) -> Self {
        let folder = stack.folder().join("guests");
        Self {
            control,
            subnet,
            programs: Arc::new(programs),
            stack,
            folder,
            images: Arc::new(|_| None),
            registry: Registry::default(),
            boot_timeout: BOOT_TIMEOUT,
            hypervisor: None,
        }
    }
}

/// A handle to a running agent. Dropping the last clone stops every guest.
#[derive(Clone)]
pub struct Guests(Arc<Inner>);

struct Inner {
    shared: Arc<Shared>,
    watching: Mutex<Option<JoinHandle<()>>>,
    stop: CancellationToken,
}

struct Shared {
    options: Options,
    reports: Reports,
    addresses: Arc<HeldAddresses>,
    held: Patterns,
    silent: Patterns,
    provoked: Provoked,
}

impl Guests {
    /// Starts an agent that runs a guest in each powered-on VM.
    pub fn start(options: Options) -> Self {
        let shared = Arc::new(Shared {
            addresses: Arc::default(),
            options,
            reports: Reports::default(),
            held: Patterns::default(),
            silent: Patterns::default(),
            provoked: Provoked::default(),
        });
        let stop = CancellationToken::new();
        let watching = tokio::spawn(watch_vms(Arc::clone(&shared), stop.clone()));
        Self(Arc::new(Inner { shared, watching: Mutex::new(Some(watching)), stop }))
    }

    /// Keeps VMs whose name matches the pattern (`*` matches any string) from booting, until [`Self::release`].
    pub fn hold(&self, pattern: &str) {
        self.0.shared.held.add(pattern);
    }

    /// Lets the VMs boot that [`Self::hold`] holds with this pattern.
    pub fn release(&self, pattern: &str) {
        self.0.shared.held.remove(pattern);
    }

    /// Silences the kubelets of VMs whose name matches the pattern, as if their network or disks had failed, until
    /// [`Self::unsilence`]. Their static Pods keep running.
    pub fn silence(&self, pattern: &str) {
        self.0.shared.silent.add(pattern);
    }

    /// Ends [`Self::silence`] for this pattern.
    pub fn unsilence(&self, pattern: &str) {
        self.0.shared.silent.remove(pattern);
    }

    /// Makes kubeadm fail with `failure` on VMs whose name matches the pattern. VMs that have already run kubeadm
    /// aren't affected.
    pub fn provoke(&self, pattern: &str, failure: Failure) {
        self.0.shared.provoked.add(pattern, failure);
    }

    /// Removes the failures that [`Self::provoke`] added with this pattern.
    pub fn stop_provoking(&self, pattern: &str) {
        self.0.shared.provoked.remove(pattern);
    }

    /// Returns the simulated container image registries. Callers can use them to disconnect the nodes from the
    /// registries.
    pub fn registry(&self) -> &Registry {
        &self.0.shared.options.registry
    }

    /// Returns reports for all existing VMs that were powered on at least once since the agent started.
    pub fn boots(&self) -> Vec<BootReport> {
        self.0.shared.reports.all()
    }

    /// Returns the report of the named VM, or `None` if the VM hasn't been powered on since the agent started.
    pub fn boot_of(&self, name: &str) -> Option<BootReport> {
        self.0.shared.reports.of_name(name)
    }

    /// Waits until `there` returns true for the named VM's phase, and returns the VM's report. The VM doesn't have to
    /// exist yet.
    pub async fn reached(&self, name: &str, there: impl Fn(&Phase) -> bool) -> BootReport {
        self.0.shared.reports.reached(name, there).await
    }

    /// Returns the failure that kept the named VM from becoming a node. Returns `None` if the VM is a node, is off, or
    /// is still booting.
    pub fn failure(&self, name: &str) -> Option<Failure> {
        match self.boot_of(name)?.phase {
            Phase::Failed(failure) | Phase::Plain(failure) => Some(failure),
            _ => None,
        }
    }

    /// Stops every guest and waits until all their processes have ended.
    pub async fn stop(&self) {
        self.0.stop.cancel();
        let watching = self.0.watching.lock().take();
        if let Some(watching) = watching {
            let _ = watching.await;
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// The guest in a powered-on VM, with the task that runs it.
struct Played {
    boot_count: u64,
    vm: watch::Sender<SimulatedVm>,
    power: CancellationToken,
    task: AbortOnDropHandle<()>,
}

impl Played {
    async fn power_off(self) {
        self.power.cancel();
        let _ = self.task.await;
    }
}

async fn watch_vms(shared: Arc<Shared>, stop: CancellationToken) {
    let mut played: BTreeMap<String, Played> = BTreeMap::new();
    let mut revision = None;
    loop {
        let vms = tokio::select! {
            () = stop.cancelled() => break,
            vms = shared.options.control.vms(revision, LONG_POLL) => vms,
        };
        match vms {
            Ok(vms) => {
                revision = Some(vms.revision);
                follow(&shared, &mut played, vms.vms).await;
            }
            Err(error) => {
                tracing::debug!(%error, "the control API cannot be read");
                tokio::select! { () = stop.cancelled() => break, () = tokio::time::sleep(RETRY) => {} }
            }
        }
    }
    futures::future::join_all(played.into_values().map(Played::power_off)).await;
}

/// Starts and stops guests to match the VMs' power state.
async fn follow(shared: &Arc<Shared>, played: &mut BTreeMap<String, Played>, vms: Vec<SimulatedVm>) {
    let vms: BTreeMap<_, _> = vms.into_iter().map(|vm| (vm.moid.clone(), vm)).collect();
    let is_over = |moid: &String, guest: &Played| {
        !vms.get(moid).is_some_and(|vm| vm.powered_on() && vm.boot_count == guest.boot_count)
    };
    let over: Vec<_> =
        played.iter().filter(|(moid, guest)| is_over(moid, guest)).map(|(moid, _)| moid.clone()).collect();
    let down = over.iter().filter_map(|moid| played.remove(moid)).map(Played::power_off);
    futures::future::join_all(down).await;
    for moid in &over {
        match vms.get(moid) {
            Some(_) => shared.reports.set_phase(moid, Phase::Off),
            None => shared.forget(moid),
        }
    }
    let gone = shared.reports.moids().into_iter().filter(|moid| !vms.contains_key(moid));
    for moid in gone {
        shared.forget(&moid);
    }
    for vm in vms.into_values() {
        shared.reports.rename(&vm);
        if vm.powered_on() && !played.contains_key(&vm.moid) {
            let power = CancellationToken::new();
            let (moid, boot_count) = (vm.moid.clone(), vm.boot_count);
            let (vm, seen) = watch::channel(vm);
            let task = AbortOnDropHandle::new(tokio::spawn(play(Arc::clone(shared), seen, power.clone())));
            played.insert(moid, Played { boot_count, vm, power, task });
        } else if let Some(played) = played.get(&vm.moid) {
            played.vm.send_if_modified(|before| {
                *before != vm && {
                    *before = vm;
                    true
                }
            });
        }
    }
}

impl Shared {
    /// Deletes the disk and the report of a deleted VM, and releases the VM's address.
    fn forget(&self, moid: &str) {
        self.options.subnet.release_guest_address(moid);
        if let Some(hypervisor) = &self.options.hypervisor {
            hypervisor.forget(moid);
        }
        if let Ok(disk) = Disk::at(self.disk_folder(moid)) {
            let _ = disk.erase();
        }
        self.reports.remove(moid);
    }

    fn disk_folder(&self, moid: &str) -> PathBuf {
        self.options.folder.join(moid)
    }
}

/// Runs a guest from power-on to power-off.
async fn play(shared: Arc<Shared>, seen: watch::Receiver<SimulatedVm>, power: CancellationToken) {
    if let Some(hypervisor) = shared.options.hypervisor.clone() {
        return run_machine(&shared, &hypervisor, seen, &power).await;
    }
    let vm = seen.borrow().clone();
    let control = &shared.options.control;
    let image = tokio::select! {
        hardware = call_control(|| control.hardware(&vm.moid)) => hardware.map(|hardware| hardware.image),
        () = power.cancelled() => return,
    };
    let release = image.ok().and_then(|image| (shared.options.images)(&image));
    let guest_vm = match guest_vm(&shared, &vm, release) {
        Ok(guest_vm) => guest_vm,
        Err(failure) => return tracing::warn!(vm = vm.name, %failure, "a guest can't be played"),
    };
    shared.reports.add(&vm, guest_vm.address);
    let mut guest = Guest::new(guest_vm.clone());
    tokio::select! {
        () = power.cancelled() => {}
        () = boot_and_run(&shared, &vm, guest_vm, &mut guest) => {}
        () = asked_to_shut_down(seen, vm.shutdown_count) => shut_down(&shared, &vm, &mut guest, &power).await,
    }
    guest.power_off().await;
}

async fn boot_and_run(shared: &Shared, vm: &SimulatedVm, guest_vm: GuestVm, guest: &mut Guest) {
    match boot(shared, vm, guest_vm, guest).await {
        Ok(()) => shared.reports.set_phase(&vm.moid, Phase::Node),
        Err(failure) if failure.reason.is_plain_vm() => {
            shared.reports.set_phase(&vm.moid, Phase::Plain(failure));
        }
        Err(failure) => {
            tracing::warn!(vm = vm.name, %failure, "a guest did not become a node");
            shared.reports.set_phase(&vm.moid, Phase::Failed(failure));
        }
    }
    std::future::pending::<()>().await;
}

async fn asked_to_shut_down(mut seen: watch::Receiver<SimulatedVm>, before: u64) {
    let asked = seen.wait_for(|vm| vm.shutdown_count != before).await.is_ok();
    if !asked {
        std::future::pending::<()>().await;
    }
}

/// Shuts the guest down and then powers its VM off, unless the VM loses power first.
async fn shut_down(shared: &Shared, vm: &SimulatedVm, guest: &mut Guest, power: &CancellationToken) {
    tokio::select! {
        () = power.cancelled() => return,
        () = guest.shut_down() => {}
    }
    if let Err(error) = shared.options.control.power(&vm.moid, PowerAction::Off).await {
        tracing::debug!(vm = vm.name, %error, "the VM was off already");
    }
    power.cancelled().await;
}

/// Runs a VM as a real machine, from power-on to power-off.
async fn run_machine(
    shared: &Shared,
    hypervisor: &Hypervisor,
    seen: watch::Receiver<SimulatedVm>,
    power: &CancellationToken,
) {
    let vm = &seen.borrow().clone();
    let unknown = GuestAddress::reported_as(Ipv4Addr::UNSPECIFIED);
    shared.reports.add(vm, unknown);
    let reported = |report: &GuestReport| {
        if let Some(address) = report.ip.as_ref().and_then(|ip| ip.parse().ok()) {
            shared.reports.readdress(&vm.moid, GuestAddress { reported: address, served: address });
        }
        shared.reports.set_phase(&vm.moid, Phase::Running);
    };
    if let Err(error) = hypervisor.run(seen, power, reported).await {
        tracing::warn!(vm = vm.name, %error, "a machine can't be run");
        shared.reports.set_phase(&vm.moid, Phase::Failed(Failure::new(Reason::Host, error.to_string())));
    }
    power.cancelled().await;
}

fn guest_vm(shared: &Shared, vm: &SimulatedVm, release: Option<Release>) -> Result<GuestVm, Failure> {
    let options = &shared.options;
    let address =
        options.subnet.guest_address(&vm.moid).map_err(|error| Failure::host("find an address", &error))?;
    let held = release.as_ref().map(|release| Arc::clone(&release.container_images)).unwrap_or_default();
    let disk = Disk::at(shared.disk_folder(&vm.moid))?.with_devices(&vm.disks);
    release.as_ref().map_or(Ok(()), |release| disk.install_os(release.os))?;
    Ok(GuestVm {
        name: vm.name.clone(),
        address,
        disk,
        programs: Arc::clone(&options.programs),
        stack: Arc::clone(&options.stack),
        kubernetes_version: release.map(|release| release.kubernetes_version),
        images: ContainerImages::new(held, options.registry.clone()),
        boot_timeout: options.boot_timeout,
        addresses: Arc::clone(&shared.addresses),
        silent: shared.silent.clone(),
        provoked: shared.provoked.clone(),
    })
}

async fn boot(
    shared: &Shared,
    vm: &SimulatedVm,
    guest_vm: GuestVm,
    guest: &mut Guest,
) -> Result<(), Failure> {
    if shared.held.fit(&vm.name) {
        shared.reports.set_phase(&vm.moid, Phase::Held);
        shared.held.fit_no_more(&vm.name).await;
    }
    shared.reports.set_phase(&vm.moid, Phase::Booting);
    let control = &shared.options.control;
    let guestinfo = call_control(|| control.guestinfo(&vm.moid)).await?;
    let seed = Seed::of(&guestinfo);
    let leased = guest_vm.address;
    let given = seed.as_ref().map_or(Ok(AddressSource::Leased), |seed| seed.addressing(&vm.macs));
    let address = match given {
        Ok(AddressSource::Static(address)) => GuestAddress::reported_as(address),
        _ => leased,
    };
    shared.reports.readdress(&vm.moid, address);
    // VMware Tools start with the network, before cloud-init's last stage and regardless of the stage's result.
    let host_name = seed.as_ref().ok().and_then(|seed| seed.hostname().ok()).unwrap_or("localhost");
    let ip = match given {
        Ok(AddressSource::StaticV6(address)) => Some(address.to_string()),
        Ok(AddressSource::None) => None,
        _ => Some(address.reported.to_string()),
    };
    let report = GuestReport { ip, host_name: Some(host_name.to_owned()), tools_running: true };
    call_control(|| control.report(&vm.moid, &report)).await?;
    let seed = seed?;
    if given? == AddressSource::None {
        let what = "metadata's network gives no network adapter of the VM an address";
        return Err(Failure::new(Reason::Metadata, what));
    }
    let (disk, stack) = (guest_vm.disk.clone(), Arc::clone(&guest_vm.stack));
    *guest = Guest::new(GuestVm { address, ..guest_vm });
    let writes = seed.write_back(address.reported);
    call_control(|| control.set_guestinfo(&vm.moid, &writes)).await?;
    let is_new = guest.is_new(&seed);
    let booted = guest.boot(&seed).await;
    if is_new {
        // A failed report doesn't change the result of the boot.
        match reporter::report(&disk, &stack, &seed, booted.as_ref().err()).await {
            Ok(reported) if reported.is_empty() => {}
            Ok(reported) => call_control(|| control.set_guestinfo(&vm.moid, &reported)).await?,
            Err(failure) => tracing::warn!(vm = vm.name, %failure, "a guest could not report on its boot"),
        }
    }
    booted
}

/// Calls the control API and retries failures for up to `CONTROL_TIMEOUT`, so that a broken connection doesn't fail a boot.
async fn call_control<T, Call>(call: impl Fn() -> Call) -> Result<T, Failure>
where
    Call: Future<Output = Result<T, Error>>,
{
    let call = || async { call().await.map_err(|error| Failure::new(Reason::Host, error.to_string())) };
    retry_until(Deadline::after(CONTROL_TIMEOUT), call).await
}

#[cfg(test)]
mod tests;
