//! Cache tests with updates in any order and with repetitions.

use proptest::prelude::*;

use super::*;
use crate::{Object, Value};

fn update(kind: UpdateKind, id: &str, changes: &[(&str, Value)]) -> ObjectUpdate {
    let changes = changes.iter().map(|(path, value)| ((*path).to_owned(), value.clone())).collect();
    ObjectUpdate { obj: MoRef::vm(id), kind, changes }
}

fn enter(id: &str, name: &str, uuid: Uuid) -> ObjectUpdate {
    let parent = Value::from(MoRef::folder("group-v3"));
    update(
        UpdateKind::Enter,
        id,
        &[("name", name.into()), ("parent", parent), ("config.instanceUuid", uuid.to_string().into())],
    )
}

fn option(key: &str, value: &str) -> Object {
    Object::new("OptionValue").with("key", key).with("value", Value::any_string(value))
}

#[test]
fn a_vm_is_found_by_every_key_until_it_leaves() {
    let (mut cache, uuid, folder) = (VmCache::default(), Uuid::from_u128(1), MoRef::folder("group-v3"));
    let appeared = cache.apply(enter("vm-1", "a%2fb", uuid)).unwrap();
    assert_eq!(appeared.was, None);
    assert_eq!(cache.by_uuid(uuid).unwrap().moref, MoRef::vm("vm-1"));
    assert!(cache.by_name(&folder, "a/b").is_some());

    assert_eq!(cache.apply(enter("vm-1", "a%2fb", uuid)), None, "sent twice");
    cache.apply(update(UpdateKind::Modify, "vm-1", &[("name", "c".into())])).unwrap();
    assert!(cache.by_name(&folder, "a/b").is_none() && cache.by_name(&folder, "c").is_some());

    let left = cache.apply(update(UpdateKind::Leave, "vm-1", &[])).unwrap();
    assert_eq!((left.was.unwrap().name.as_str(), left.now), ("c", None));
    assert!(cache.by_uuid(uuid).is_none() && cache.by_name(&folder, "c").is_none());
    let late = update(UpdateKind::Modify, "vm-1", &[("name", "d".into())]);
    assert_eq!(cache.apply(late), None, "a change after the end is a repetition");
}

#[test]
fn a_vm_is_found_by_its_bios_uuid_while_it_has_it() {
    let (mut cache, one, two) = (VmCache::default(), Uuid::from_u128(1), Uuid::from_u128(2));
    let has = |uuid: Uuid| [("config.uuid", Value::from(uuid.to_string()))];
    cache.apply(update(UpdateKind::Enter, "vm-1", &has(one)));
    cache.apply(update(UpdateKind::Enter, "vm-2", &has(one)));
    assert_eq!(cache.by_bios_uuid(one).unwrap().moref, MoRef::vm("vm-1"));
    cache.apply(update(UpdateKind::Modify, "vm-1", &has(two)));
    assert_eq!(cache.by_bios_uuid(one).unwrap().moref, MoRef::vm("vm-2"));
    cache.apply(update(UpdateKind::Leave, "vm-2", &[]));
    assert!(cache.by_bios_uuid(one).is_none() && cache.by_bios_uuid(two).is_some());
}

#[test]
fn a_parent_that_is_unset_unsets_what_is_below() {
    let mut cache = VmCache::default();
    let sent = [("guest.ipAddress", "10.0.0.1".into()), ("guest.hostName", "h".into()), ("name", "a".into())];
    cache.apply(update(UpdateKind::Enter, "vm-1", &sent));
    cache.apply(update(UpdateKind::Modify, "vm-1", &[("guest", Value::Null)]));
    let vm = cache.get(&MoRef::vm("vm-1")).unwrap();
    assert_eq!((&vm.guest.ip, &vm.guest.host_name, vm.name.as_str()), (&None, &None, "a"));
}

#[test]
fn a_vm_whose_configuration_is_unset_is_who_it_was() {
    let (mut cache, uuid, folder) = (VmCache::default(), Uuid::from_u128(1), MoRef::folder("group-v3"));
    let config = [
        ("config.template", false.into()),
        ("config.uuid", uuid.to_string().into()),
        ("config.extraConfig", vec![option("vmservice.namespacedName", "ns/a")].into()),
        ("summary.config.numVirtualDisks", Value::from(2)),
        ("runtime.connectionState", "connected".into()),
    ];
    cache.keep = vec!["vmservice.".into()];
    cache.apply(enter("vm-1", "a", uuid));
    assert_eq!(cache.unidentified().count(), 1, "no configuration yet: it is being created");
    cache.apply(update(UpdateKind::Modify, "vm-1", &config));
    let known = cache.get(&MoRef::vm("vm-1")).unwrap().clone();
    assert!(known.is_available() && cache.unidentified().count() == 0);

    let unset: Vec<_> = config[..4].iter().map(|(path, _)| (*path, Value::Null)).collect();
    let lost: [&[(&str, Value)]; 3] = [
        &unset,
        &[("config", Value::Null), ("summary", Value::Null)],
        &[
            ("runtime.connectionState", "inaccessible".into()),
            ("config", Value::Null),
            ("name", "/vmfs/a.vmx".into()),
        ],
    ];
    for lost in lost {
        cache.apply(update(UpdateKind::Modify, "vm-1", lost));
        let vm = cache.by_uuid(uuid).unwrap().clone();
        assert!(!vm.is_available() && vm.configuration == Configuration::LastKnown, "{lost:?}");
        assert_eq!((&vm.extra_config, vm.uuid, vm.disks), (&known.extra_config, known.uuid, known.disks));
        // A new session sends all known properties, but no configuration.
        cache.begin();
        let parent = Value::from(MoRef::folder("group-v3"));
        cache.apply(update(UpdateKind::Enter, "vm-1", &[("name", "a".into()), ("parent", parent)]));
        cache.finish();
        let vm = cache.by_name(&folder, "a").unwrap().clone();
        assert_eq!((vm.instance_uuid, vm.configuration), (Some(uuid), Configuration::LastKnown));
        cache.apply(update(UpdateKind::Modify, "vm-1", &config));
        assert!(cache.by_uuid(uuid).unwrap().is_available());
    }
    // While the configuration is readable, a property can really be unset.
    cache.apply(update(UpdateKind::Modify, "vm-1", &[("config.extraConfig", Value::Null)]));
    assert!(cache.by_uuid(uuid).unwrap().extra_config.is_empty());
}

#[test]
fn of_two_with_one_uuid_the_one_that_can_be_reached_is_found() {
    let (mut cache, uuid) = (VmCache::default(), Uuid::from_u128(1));
    for id in ["vm-1", "vm-2"] {
        cache.apply(enter(id, id, uuid));
    }
    let config = [("config.template", false.into()), ("runtime.connectionState", "connected".into())];
    cache.apply(update(UpdateKind::Modify, "vm-2", &config));
    assert_eq!(cache.by_uuid(uuid).unwrap().moref, MoRef::vm("vm-2"));
}

#[test]
fn no_secret_is_kept() {
    let mut cache = VmCache::new(vec!["vmservice.".into(), "guestinfo.".into()]);
    let options = Value::from(vec![
        option("vmservice.namespacedName", "ns/cp-0"),
        option("guestinfo.userdata", "H4sI-secret"),
        option("guestinfo.vendordata", "---"),
        option("guestinfo.metadata", ""),
        option("guestinfo.password", "secret"),
        option("guestinfo.local-ipv4", "10.0.0.1"),
        option("sched.cpu.latencySensitivity", "normal"),
    ]);
    cache.apply(update(UpdateKind::Enter, "vm-1", &[("config.extraConfig", options)]));
    let vm = cache.get(&MoRef::vm("vm-1")).unwrap();
    let kept: Vec<&str> = vm.extra_config.keys().map(String::as_str).collect();
    assert_eq!(kept, ["guestinfo.local-ipv4", "vmservice.namespacedName"]);
    assert!(!format!("{vm:?}").contains("secret"));
}

#[test]
fn a_guest_does_not_fill_the_memory_with_what_it_reports() {
    let mut cache = VmCache::new(vec!["vmservice.".into()]);
    let flood = (0..1000).map(|at| option(&format!("guestinfo.vmservice.x{at}"), &"ü".repeat(100_000)));
    let ours = option("vmservice.namespacedName", "ns/cp-0");
    cache.apply(update(
        UpdateKind::Enter,
        "vm-1",
        &[("config.extraConfig", flood.chain([ours]).collect::<Vec<_>>().into())],
    ));
    let vm = cache.get(&MoRef::vm("vm-1")).unwrap();
    assert_eq!(vm.extra_config["vmservice.namespacedName"], "ns/cp-0");
    assert!(vm.extra_config.values().map(String::len).sum::<usize>() < 100_000);
}

/// Text from a hostile guest: terminal titles, colors, screen erasure, line breaks, text direction, invisible characters.
fn hostile_text() -> impl Strategy<Value = String> {
    let parts = prop::sample::select(vec![
        "\u{1b}]0;pwned\u{7}",
        "\u{1b}[31m",
        "\u{9b}2J",
        "\r\n",
        "\u{202e}",
        "\u{200b}",
        "\0",
        "a",
        "é",
        "10.0.0.1",
        ":",
    ]);
    prop::collection::vec(parts, 0..500).prop_map(|parts| parts.concat())
}

fn hostile_nic(key: i32, text: &str) -> Object {
    let address =
        |ip: &str| Object::new("NetIpConfigInfoIpAddress").with("ipAddress", ip).with("prefixLength", 24);
    let addresses: Vec<Object> =
        (0..40).map(|at| address(&format!("10.0.0.{at}"))).chain([address(text)]).collect();
    Object::new("GuestNicInfo")
        .with("macAddress", text)
        .with("network", text)
        .with("ipAddress", vec![text])
        .with("ipConfig", Object::new("NetIpConfigInfo").with("ipAddress", addresses))
        .with("connected", true)
        .with("deviceConfigId", key)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn nothing_of_what_a_guest_writes_steers_a_terminal_or_grows_without_end(text in hostile_text()) {
        let mut cache = VmCache::new(vec!["vmservice.".into()]);
        let nics: Vec<Object> = (0..40).map(|key| hostile_nic(key, &text)).collect();
        let custom = Object::new("GuestInfoCustomizationInfo")
            .with("customizationStatus", "TOOLSDEPLOYPKG_FAILED").with("errorMsg", text.as_str());
        let options = vec![option("guestinfo.vmservice.x", &text), option(&format!("guestinfo.vmservice.{text}"), "x")];
        cache.apply(update(UpdateKind::Enter, "vm-1", &[
            ("guest.hostName", text.as_str().into()), ("guest.ipAddress", text.as_str().into()),
            ("guestHeartbeatStatus", text.as_str().into()), ("guest.net", nics.into()),
            ("guest.customizationInfo", custom.into()), ("config.extraConfig", options.into()),
            ("runtime.connectionState", text.as_str().into()),
        ]));
        let vm = cache.get(&MoRef::vm("vm-1")).unwrap();
        let guest = &vm.guest;
        prop_assert!(guest.nics.len() <= 16 && guest.nics.iter().all(|nic| nic.addresses.len() <= 16));
        let nics = guest.nics.iter().flat_map(|nic| nic.addresses.iter().chain([&nic.mac, &nic.network]));
        let custom = guest.customization.iter().flat_map(|custom| custom.error.iter().chain([&custom.status]));
        let options = vm.extra_config.iter().flat_map(|(key, value)| [key, value]);
        let all: Vec<&String> = guest.ip.iter().chain(&guest.host_name).chain(&guest.heartbeat).chain(nics).chain(custom)
            .chain(options).chain([&vm.connection_state]).collect();
        for kept in all {
            prop_assert!(kept.chars().count() <= 1025, "{} characters", kept.chars().count());
            prop_assert_eq!(kept, &bounds::printable(kept, 2000));
        }
    }
}

#[test]
fn what_is_an_address_or_a_mac_is_kept() {
    let nic = hostile_nic(4000, "00:50:56:AB:cd:ef");
    let mut cache = VmCache::default();
    let changes = [
        ("guest.net", vec![nic].into()),
        ("guest.ipAddress", "fd00::1".into()),
        ("guest.hostName", "cp-0".into()),
    ];
    cache.apply(update(UpdateKind::Enter, "vm-1", &changes));
    let guest = &cache.get(&MoRef::vm("vm-1")).unwrap().guest;
    assert_eq!((guest.ip.as_deref(), guest.host_name.as_deref()), (Some("fd00::1"), Some("cp-0")));
    assert_eq!(
        (guest.nics[0].mac.as_str(), guest.nics[0].addresses[0].as_str()),
        ("00:50:56:AB:cd:ef", "10.0.0.0/24")
    );
}

#[test]
fn interfaces_inside_the_guest_are_no_news() {
    let nic = |key: i32, ip: &str| {
        Object::new("GuestNicInfo")
            .with("ipAddress", vec![ip])
            .with("connected", true)
            .with("deviceConfigId", key)
    };
    let mut cache = VmCache::default();
    cache.apply(update(UpdateKind::Enter, "vm-1", &[("guest.net", vec![nic(4000, "10.0.0.1")].into())]));
    let more = vec![nic(4000, "10.0.0.1"), nic(-1, "192.168.0.1")];
    assert_eq!(cache.apply(update(UpdateKind::Modify, "vm-1", &[("guest.net", more.into())])), None);
}

#[test]
fn what_is_not_sent_again_is_gone() {
    let mut cache = VmCache::default();
    for id in ["vm-1", "vm-2"] {
        cache.apply(enter(id, id, Uuid::nil()));
    }
    cache.begin();
    assert_eq!(cache.apply(enter("vm-2", "vm-2", Uuid::nil())), None);
    assert_eq!(cache.len(), 2, "nothing is forgotten before everything is sent");
    let gone = cache.finish();
    assert_eq!(gone.len(), 1);
    assert_eq!((&gone[0].moref, &gone[0].now), (&MoRef::vm("vm-1"), &None));
}

#[test]
fn the_stream_knows_better_than_a_reading_beside_it() {
    let mut cache = VmCache::default();
    cache.apply(enter("vm-1", "new", Uuid::nil()));
    cache.reading();
    cache.apply(update(UpdateKind::Leave, "vm-2", &[]));
    let found = ["vm-1", "vm-2", "vm-3"].map(|id| enter(id, "old", Uuid::nil()));
    let deltas = cache.read(found);
    assert_eq!(deltas.len(), 1);
    assert_eq!(cache.get(&MoRef::vm("vm-1")).unwrap().name, "new");
    assert!(cache.get(&MoRef::vm("vm-2")).is_none() && cache.get(&MoRef::vm("vm-3")).is_some());
}

prop_compose! {
    fn any_update()(id in 0..4u8, kind in 0..6u8, name in "[ab]", uuid in 0..3u128) -> ObjectUpdate {
        let id = format!("vm-{id}");
        match kind {
            0 | 1 => enter(&id, &name, Uuid::from_u128(uuid)),
            2 => update(UpdateKind::Leave, &id, &[]),
            3 => update(UpdateKind::Modify, &id, &[("config", Value::Null)]),
            4 => update(UpdateKind::Modify, &id, &[("config.instanceUuid", Uuid::from_u128(uuid).to_string().into())]),
            _ => update(UpdateKind::Modify, &id, &[("name", name.into())]),
        }
    }
}

/// Asserts that the UUID and name indexes match a scan.
fn check_indexes(cache: &VmCache) {
    let folder = MoRef::folder("group-v3");
    for uuid in (0..3).map(Uuid::from_u128) {
        let scanned = cache.all().any(|vm| vm.instance_uuid == Some(uuid));
        assert_eq!(cache.by_uuid(uuid).is_some(), scanned);
    }
    for name in ["a", "b"] {
        let scanned = cache.all().any(|vm| vm.name == name && vm.folder.as_ref() == Some(&folder));
        assert_eq!(cache.by_name(&folder, name).is_some(), scanned);
    }
    let indexed: usize = cache.uuids.values().map(Vec::len).sum();
    assert_eq!(indexed, cache.all().filter(|vm| vm.instance_uuid.is_some()).count());
}

proptest! {
    #[test]
    fn repetitions_change_nothing(updates in proptest::collection::vec(any_update(), 0..40)) {
        let (mut once, mut twice) = (VmCache::default(), VmCache::default());
        for update in updates {
            once.apply(update.clone());
            twice.apply(update.clone());
            prop_assert_eq!(twice.apply(update), None);
            check_indexes(&twice);
        }
        prop_assert_eq!(&once.vms, &twice.vms);
    }

    #[test]
    fn a_rebuilt_cache_is_as_a_new_one(
        before in proptest::collection::vec(any_update(), 0..20),
        after in proptest::collection::vec(any_update(), 0..20),
    ) {
        let (mut rebuilt, mut fresh) = (VmCache::default(), VmCache::default());
        for update in before {
            rebuilt.apply(update);
        }
        rebuilt.begin();
        fresh.begin();
        // A new stream sends a VM itself before it sends changes to it.
        let sent = after.into_iter().filter(|update| update.kind != UpdateKind::Modify);
        for update in sent {
            rebuilt.apply(update.clone());
            fresh.apply(update);
        }
        rebuilt.finish();
        fresh.finish();
        check_indexes(&rebuilt);
        prop_assert_eq!(&rebuilt.vms, &fresh.vms);
    }

    #[test]
    fn deltas_add_up_to_the_cache(updates in proptest::collection::vec(any_update(), 0..40)) {
        let mut cache = VmCache::default();
        let mut followed: HashMap<MoRef, Arc<Vm>> = HashMap::new();
        for update in updates {
            if let Some(Delta { moref, was, now }) = cache.apply(update) {
                let before = match now {
                    Some(now) => followed.insert(moref, now),
                    None => followed.remove(&moref),
                };
                prop_assert_eq!(before, was);
            }
        }
        prop_assert_eq!(&followed, &cache.vms);
    }
}
