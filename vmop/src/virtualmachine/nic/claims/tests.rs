//! Tests which VM owns an address: single cases, and guests that report addresses at random.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn vm(namespace: &str, name: &str, created: &str, addresses: &[&str]) -> VirtualMachine {
    serde_json::from_value(json!({
        "metadata": { "namespace": namespace, "name": name, "uid": name, "creationTimestamp": created },
        "spec": { "imageName": "i", "className": "c" },
        "status": { "endpointAddresses": addresses },
    }))
    .unwrap()
}

fn divided(vm: &VirtualMachine, others: &[(&VirtualMachine, bool)], assigned: &[&str]) -> Claims {
    let reported = vec!["10.1.0.9".parse().unwrap()];
    let assigned: Vec<IpAddr> = assigned.iter().map(|text| text.parse().unwrap()).collect();
    let holders = |ip: &str| {
        let ip = ip.to_owned();
        let holding = others.iter().filter(move |(other, _)| held(other).contains(&ip));
        holding.map(|(other, _)| Arc::new((*other).clone()))
    };
    let is_assigned = |vm: &VirtualMachine, _| {
        others.iter().any(|(other, assigned)| *assigned && other.metadata.uid == vm.metadata.uid)
    };
    divide(vm, reported, &assigned, holders, is_assigned)
}

#[test]
fn an_address_stays_with_the_vm_that_had_it_first() {
    let first = vm("ns", "young", "2026-01-02T00:00:00Z", &["10.1.0.9"]);
    let second = vm("ns", "old", "2026-01-01T00:00:00Z", &[]);
    assert_eq!(divided(&first, &[(&second, false)], &[]).own.len(), 1);
    let claims = divided(&second, &[(&first, false)], &[]);
    assert!(claims.own.is_empty());
    assert!(claims.conflict.unwrap().contains("which VirtualMachine young already uses"));
    let both = vm("ns", "old", "2026-01-01T00:00:00Z", &["10.1.0.9"]);
    let claims = divided(&both, &[(&first, false)], &[]);
    assert_eq!(claims.own.len(), 1, "of two that have it the older object wins");
    assert!(divided(&first, &[(&both, false)], &[]).own.is_empty());
}

#[test]
fn an_address_of_the_network_provider_is_nobody_elses() {
    let claimant = vm("ns", "a", "2026-01-01T00:00:00Z", &["10.1.0.9"]);
    let assigned = vm("ns", "b", "2026-01-02T00:00:00Z", &["10.1.0.9"]);
    assert_eq!(divided(&assigned, &[(&claimant, false)], &["10.1.0.9"]).own.len(), 1);
    assert!(divided(&claimant, &[(&assigned, true)], &[]).own.is_empty());
}

#[test]
fn the_search_for_an_address_stops_at_the_first_earlier_vm() {
    let vms: Vec<_> = (0..1000)
        .map(|n| Arc::new(vm("ns", &format!("vm-{n:04}"), "2026-01-01T00:00:00Z", &["10.1.0.9"])))
        .collect();
    let seen = std::cell::Cell::new(0);
    for vm in &vms[1..] {
        let holders = |_: &str| vms.iter().inspect(|_| seen.set(seen.get() + 1)).cloned();
        let claims = divide(vm, vec!["10.1.0.9".parse().unwrap()], &[], holders, |_, _| false);
        assert!(claims.own.is_empty());
    }
    assert_eq!(seen.get(), 999);
}

#[test]
fn a_conflict_names_no_vm_of_another_namespace() {
    let first = vm("theirs", "secret", "2026-01-01T00:00:00Z", &["10.1.0.9"]);
    let second = vm("ns", "b", "2026-01-02T00:00:00Z", &[]);
    let message = divided(&second, &[(&first, false)], &[]).conflict.unwrap();
    assert!(message.contains("of another namespace"), "{message}");
    assert!(!message.contains("secret") && !message.contains("theirs"), "{message}");
}

#[test]
fn an_address_is_kept_while_the_guest_reports_none_and_free_once_it_reports_another() {
    let mut status = VirtualMachineStatus {
        endpoint_addresses: vec!["10.1.0.9".to_owned()],
        ..VirtualMachineStatus::default()
    };
    status.kept_addresses = list_kept_addresses(&status, &[], false);
    status.endpoint_addresses.clear();
    assert_eq!(status.kept_addresses, ["10.1.0.9"]);
    assert_eq!(list_kept_addresses(&status, &[], false), ["10.1.0.9"], "however long that lasts");
    let mut off = vm("ns", "a", "2026-01-02T00:00:00Z", &[]);
    off.status = Some(status.clone());
    let other = vm("ns", "b", "2026-01-01T00:00:00Z", &[]);
    assert!(divided(&other, &[(&off, false)], &[]).own.is_empty());
    assert!(list_kept_addresses(&status, &["10.1.0.8".to_owned()], false).is_empty());
}

#[test]
fn a_conflict_with_a_vm_that_is_off_names_what_to_do() {
    let mut off = vm("ns", "a", "2026-01-01T00:00:00Z", &[]);
    off.status.get_or_insert_default().kept_addresses = vec!["10.1.0.9".to_owned()];
    let message =
        divided(&vm("ns", "b", "2026-01-02T00:00:00Z", &[]), &[(&off, false)], &[]).conflict.unwrap();
    assert!(
        message.contains("VirtualMachine a had last") && message.contains("Start or delete"),
        "{message}"
    );
}

/// VMs with reporting guests, reconciled one at a time with the controller's code. Only their status is persistent.
struct Site {
    vms: Vec<Arc<VirtualMachine>>,
    reports: Vec<Vec<u8>>,
}

fn address(number: u8) -> IpAddr {
    IpAddr::from([10, 1, 0, number])
}

impl Site {
    /// Creates the VMs. VM 0 is the youngest.
    fn new(count: usize) -> Self {
        let name = |n| format!("vm-{n}");
        let vm = |n| Arc::new(vm("ns", &name(n), &format!("2026-01-{:02}T00:00:00Z", 28 - n), &[]));
        Self { vms: (0..count).map(vm).collect(), reports: vec![Vec::new(); count] }
    }

    fn reconcile(&mut self, index: usize) -> Claims {
        let vm = &self.vms[index];
        let reported = self.reports[index].iter().map(|&number| address(number)).collect();
        let holders = |ip: &str| {
            let ip = ip.to_owned();
            self.vms.clone().into_iter().filter(move |other| held(other).contains(&ip))
        };
        let claims = divide(vm, reported, &[], holders, |_, _| false);
        let old = vm.status.clone().unwrap_or_default();
        let own: Vec<String> = claims.own.iter().map(ToString::to_string).collect();
        let kept_addresses = list_kept_addresses(&old, &own, claims.conflict.is_some());
        Arc::make_mut(&mut self.vms[index]).status =
            Some(VirtualMachineStatus { endpoint_addresses: own, kept_addresses, ..old });
        claims
    }

    fn holders(&self, number: u8) -> Vec<usize> {
        let text = address(number).to_string();
        (0..self.vms.len()).filter(|&index| held(&self.vms[index]).contains(&text)).collect()
    }
}

/// An event at a site: a guest reports addresses, or the controller reconciles a VM.
#[derive(Debug, Clone)]
enum Event {
    Report(usize, Vec<u8>),
    Reconcile(usize),
}

const VMS: usize = 5;

fn events(first: usize) -> impl Strategy<Value = Vec<Event>> {
    let report = (first..VMS, proptest::collection::vec(0..6_u8, 0..3));
    let event = prop_oneof![
        report.prop_map(|(vm, addresses)| Event::Report(vm, addresses)),
        (0..VMS).prop_map(Event::Reconcile),
    ];
    proptest::collection::vec(event, 0..60)
}

fn play(site: &mut Site, events: Vec<Event>) {
    for event in events {
        match event {
            Event::Report(vm, addresses) => site.reports[vm] = addresses,
            Event::Reconcile(vm) => drop(site.reconcile(vm)),
        }
    }
}

proptest! {
    /// Two VMs exchange their addresses, or any number of VMs in a circle, after any history.
    #[test]
    fn guests_that_report_different_addresses_all_get_theirs(
        before in events(0),
        addresses in Just(vec![0_u8, 1, 2, 3, 4]).prop_shuffle(),
        order in Just((0..VMS).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let mut site = Site::new(VMS);
        play(&mut site, before);
        site.reports = addresses.iter().map(|&number| vec![number]).collect();
        for &vm in &order {
            site.reconcile(vm);
        }
        for &vm in order.iter().rev() {
            let claims = site.reconcile(vm);
            prop_assert_eq!(claims, Claims { own: vec![address(addresses[vm])], conflict: None });
        }
    }

    /// VM 0 reports its address or none, like a guest that restarts. The others report any addresses in any order.
    #[test]
    fn a_guest_that_stays_with_its_address_never_loses_it(around in events(1), rests in any::<u64>()) {
        let mut site = Site::new(VMS);
        site.reports[0] = vec![0];
        site.reconcile(0);
        for (number, event) in around.into_iter().enumerate() {
            site.reports[0] = if rests >> (number % 64) & 1 == 0 { vec![0] } else { Vec::new() };
            play(&mut site, vec![event]);
            prop_assert_eq!(site.holders(0), [0]);
            for number in 0..6 {
                prop_assert!(site.holders(number).len() < 2, "{} is held twice", number);
            }
        }
        site.reports[0] = vec![0];
        prop_assert_eq!(site.reconcile(0).own, [address(0)]);
    }
}
