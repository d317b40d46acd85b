//! Tests for the disks that a VM gets and for the distinction between own and foreign disks.

use super::*;
use crate::testing::fixtures;
use crate::virtualmachine::storage::class::DiskStorage;

fn foreign(vsphere_vm: &Vm, devices: &Devices) -> Vec<VirtualDisk> {
    DiskRecord::default().foreign(vsphere_vm, devices)
}

fn gold(encrypts: bool) -> Storage {
    let policy = vsphere::StoragePolicy { id: "aa-1".into(), name: "Gold".into(), encrypts };
    Storage { policy: Some(policy), datastore: Some(MoRef::datastore("datastore-1")), ..Storage::default() }
}

#[test]
fn disks_are_linked_unless_something_speaks_against_it() {
    let plain = fixtures::virtual_machine;
    let sized = |size| {
        let mut vm = fixtures::virtual_machine();
        vm.spec.volumes = vec![fixtures::volume("root", size, Some(2000))];
        vm
    };
    let provisioned = |thin: Option<bool>, eager: Option<bool>| {
        let mut vm = fixtures::virtual_machine();
        let options = serde_json::json!({
            "defaultVolumeProvisioningOptions": { "thinProvisioned": thin, "eagerZeroed": eager }
        });
        vm.spec.advanced_options = serde_json::from_value(options).unwrap();
        vm
    };
    let asked = |mode: &str| fixtures::annotated(FAST_DEPLOY, mode);
    let cases = [
        ("nothing", plain(), Storage::default(), false, false),
        ("a policy", plain(), gold(false), false, false),
        ("an encrypting policy", plain(), gold(true), false, true),
        ("the configuration", plain(), Storage::default(), true, true),
        ("the annotation", asked("direct"), Storage::default(), false, true),
        ("the annotation, otherwise", asked("linked"), Storage::default(), true, false),
        ("the same size", sized("20Gi"), Storage::default(), false, false),
        ("a greater size", sized("21Gi"), Storage::default(), false, true),
        ("thin", provisioned(Some(true), None), Storage::default(), false, false),
        ("thick", provisioned(Some(false), None), Storage::default(), false, true),
        ("eager", provisioned(None, Some(true)), Storage::default(), false, true),
    ];
    for (what, vm, storage, direct, full) in cases {
        let layout = plan_disks(&vm, &fixtures::devices(), &storage, direct).unwrap();
        assert_eq!(layout.move_type == FULL, full, "{what}");
    }
    assert!(plan_disks(&sized("19Gi"), &fixtures::devices(), &Storage::default(), false).is_err());
    let both = provisioned(Some(true), Some(true));
    assert!(plan_disks(&both, &fixtures::devices(), &Storage::default(), false).is_err());
}

/// An ignored key would add a second, empty disk, and the image's disk would keep its size.
#[test]
fn a_device_key_that_the_image_lacks_is_refused_with_those_that_it_has() {
    let mut vm = fixtures::virtual_machine();
    vm.spec.volumes = vec![fixtures::volume("root", "40Gi", Some(2007))];
    let devices = fixtures::devices();
    let refused = plan_disks(&vm, &devices, &Storage::default(), false).unwrap_err();
    assert!(refused.contains("root has the deviceKey 2007, but the image has only 2000"), "{refused}");
    let none = Devices { disks: Vec::new(), ..devices.clone() };
    assert!(
        plan_disks(&vm, &none, &Storage::default(), false).unwrap_err().contains("the image has no disk")
    );
    let vsphere_vm = fixtures::vsphere_vm();
    let refused = plan_disk_changes(&vm, &vsphere_vm, &devices, &Storage::default()).unwrap_err();
    assert!(refused.contains("2007") && refused.contains("2000"), "{refused}");
}

#[test]
fn a_disk_has_at_most_62_tebibytes() {
    let mut vm = fixtures::virtual_machine();
    vm.spec.volumes = vec![fixtures::volume("data", "100Ti", None)];
    let refused = plan_disks(&vm, &fixtures::devices(), &Storage::default(), false).unwrap_err();
    assert!(refused.contains("data") && refused.contains("62Ti"), "{refused}");
}

#[test]
fn every_disk_of_the_image_gets_the_policy_however_it_comes_about() {
    let vm = fixtures::virtual_machine();
    for encrypts in [false, true] {
        let layout = plan_disks(&vm, &fixtures::devices(), &gold(encrypts), false).unwrap();
        let [locator] = layout.locators.as_slice() else { panic!("{layout:?}") };
        assert_eq!((locator.key, locator.profiles.as_slice()), (2000, ["aa-1".to_owned()].as_slice()));
        assert_eq!(locator.move_type, Some(layout.move_type), "encrypts: {encrypts}");
    }
    assert!(plan_disks(&vm, &fixtures::devices(), &Storage::default(), false).unwrap().locators.is_empty());
}

#[test]
fn no_disk_is_linked_to_one_on_another_datastore() {
    let storage =
        Storage { policy: None, datastore: Some(MoRef::datastore("datastore-2")), ..Storage::default() };
    let vm = fixtures::virtual_machine();
    let refused = plan_disks(&vm, &fixtures::devices(), &storage, false).unwrap_err();
    assert!(refused.contains("[ds0] photon-x/photon-x.vmdk") && refused.contains("direct"), "{refused}");
    assert!(plan_disks(&vm, &fixtures::devices(), &storage, true).is_ok(), "a copy may lie anywhere");
}

#[test]
fn a_clone_with_volumes() {
    let mut vm = fixtures::virtual_machine();
    vm.spec.volumes = vec![
        fixtures::volume("data", "1Gi", None),
        fixtures::volume("root", "40Gi", Some(2000)),
        fixtures::volume("logs", "2Gi", None),
    ];
    insta::assert_debug_snapshot!(plan_disks(&vm, &fixtures::devices(), &gold(false), false).unwrap());
}

#[test]
fn where_there_is_no_place_a_controller_comes() {
    let mut vm = fixtures::virtual_machine();
    vm.spec.volumes = (0..16).map(|n| fixtures::volume(&format!("v{n}"), "1Gi", None)).collect();
    let layout = plan_disks(&vm, &fixtures::devices(), &Storage::default(), false).unwrap();
    assert!(layout.mark.ends_with("scsi0:15=v13 scsi1:0=v14 scsi1:1=v15"), "{}", layout.mark);
    let controllers = layout
        .changes
        .iter()
        .filter(|change| matches!(change, DeviceChange::Disk(DiskChange::AddController { bus: 1, .. })));
    assert_eq!(controllers.count(), 1);
    vm.spec.volumes = (0..30).map(|n| fixtures::volume(&format!("v{n}"), "1Gi", None)).collect();
    assert!(super::plan_disks(&vm, &fixtures::devices(), &Storage::default(), false).is_err());
}

#[test]
fn a_volume_has_the_place_and_the_policy_that_it_names() {
    let mut vm = fixtures::virtual_machine();
    let at = |name: &str, unit: Option<i32>, class: Option<&str>| {
        let mut volume = fixtures::volume(name, "1Gi", None);
        volume.unit_number = unit;
        volume.v_sphere_volume.as_mut().unwrap().storage_class = class.map(str::to_owned);
        volume
    };
    let mut storage = gold(false);
    let silver = vsphere::StoragePolicy { id: "bb-2".into(), ..gold(false).policy.unwrap() };
    let lies_on = DiskStorage { policy: Some(silver), datastore: Some("ds2".into()) };
    storage.of_classes.insert("silver".into(), lies_on);
    vm.spec.volumes =
        vec![at("free", None, None), at("logs", Some(1), Some("silver")), at("etcd", Some(3), None)];
    let layout = plan_disks(&vm, &fixtures::devices(), &storage, false).unwrap();
    assert_eq!(layout.mark, "scsi0:0 scsi0:2=free scsi0:1@=logs scsi0:3=etcd");
    let made = layout.changes.iter().filter_map(|change| match change {
        DeviceChange::Disk(DiskChange::Create { datastore, profiles, .. }) => {
            Some((datastore.as_deref(), profiles[0].as_str()))
        }
        _ => None,
    });
    assert_eq!(made.collect::<Vec<_>>(), [(None, "aa-1"), (Some("ds2"), "bb-2"), (None, "aa-1")]);
    for (unit, why) in [
        (0, "which another disk of the image"),
        (7, "which no disk can have"),
        (64, "which no disk can have"),
    ] {
        vm.spec.volumes = vec![at("etcd", Some(unit), None)];
        let refused = super::plan_disks(&vm, &fixtures::devices(), &storage, false).unwrap_err();
        assert!(refused.contains("etcd") && refused.contains(why), "{refused}");
    }
    // An image without a SCSI controller: a controller is added with the disk.
    let mut sata = fixtures::devices();
    sata.controllers.clear();
    vm.spec.volumes = vec![at("etcd", Some(1), None)];
    let layout = super::plan_disks(&vm, &sata, &storage, false).unwrap();
    assert!(matches!(layout.changes[0], DeviceChange::Disk(DiskChange::AddController { bus: 0, .. })));
    assert!(layout.mark.ends_with("scsi0:1=etcd"), "{}", layout.mark);
}

#[test]
fn a_vm_that_has_its_disks_needs_no_change() {
    let mut vm = fixtures::virtual_machine();
    let mut vsphere_vm = fixtures::vsphere_vm();
    let mut devices = fixtures::devices();
    vsphere_vm.extra_config.insert(DISKS.to_owned(), "scsi0:0 scsi0:1=data".to_owned());
    vsphere_vm.disks = Some(2);
    let data = VirtualDisk { key: 2001, unit: Some(1), capacity: 1 << 30, ..devices.disks[0].clone() };
    devices.disks.push(data);
    let change = |vm: &VirtualMachine| plan_disk_changes(vm, &vsphere_vm, &devices, &Storage::default());
    assert_eq!(change(&vm), Ok(None), "a volume that leaves the spec stays a disk");
    vm.spec.volumes = vec![fixtures::volume("data", "1Gi", None)];
    assert_eq!(change(&vm), Ok(None));
    assert!(foreign(&vsphere_vm, &devices).is_empty());
    vm.spec.volumes = vec![fixtures::volume("data", "512Mi", None)];
    assert!(change(&vm).unwrap_err().contains("Disks can't shrink"));
    vm.spec.volumes = vec![fixtures::volume("root", "40Gi", Some(2000))];
    let grown = change(&vm).unwrap().unwrap();
    assert_eq!(grown.extra_config[0].1, "scsi0:1=data scsi0:0=root");
    devices.disks[0].parents = vec!["[ds0] photon-x/photon-x.vmdk".to_owned()];
    let linked = plan_disk_changes(&vm, &vsphere_vm, &devices, &Storage::default());
    assert!(linked.unwrap_err().contains("can't grow"));
    devices.disks.remove(1);
    vm.spec.volumes = vec![fixtures::volume("data", "1Gi", None)];
    let lost = plan_disk_changes(&vm, &vsphere_vm, &devices, &Storage::default());
    assert!(lost.unwrap_err().contains("is missing from the VM"));
    // A clone whose devices haven't been checked may lack a disk.
    let kinds = crate::device_check::DeviceKinds { nics: false, disks: true };
    vsphere_vm.extra_config.extend([crate::device_check::unchecked_note(kinds)]);
    let lacking = plan_disk_changes(&vm, &vsphere_vm, &devices, &Storage::default()).unwrap().unwrap();
    assert_eq!(lacking.device_change.len(), 1);
    assert_eq!(lacking.extra_config[0].1, "scsi0:0 scsi0:1=data");
    assert_eq!(lacking.extra_config[1].1, "changing", "what the clone brought proves nothing any more");
}

#[test]
fn disks_of_others_are_distinguished_from_ours() {
    let mut vsphere_vm = fixtures::vsphere_vm();
    let mut devices = fixtures::devices();
    let other = VirtualDisk { key: 2001, unit: Some(1), ..devices.disks[0].clone() };
    let elsewhere = VirtualDisk { file: Some("[ds0] other/x.vmdk".into()), ..other.clone() };
    let volume = VirtualDisk { key: 2002, unit: Some(0), first_class: Some("fcd-1".into()), ..other.clone() };
    devices.disks.push(elsewhere.clone());
    vsphere_vm.extra_config.insert(DISKS.to_owned(), "scsi0:0 scsi0:1".to_owned());
    assert_eq!(foreign(&vsphere_vm, &devices), [elsewhere]);
    vsphere_vm.extra_config.insert(DISKS.to_owned(), "scsi0:0".to_owned());
    devices.disks = vec![devices.disks[0].clone(), other.clone(), volume.clone()];
    assert_eq!(foreign(&vsphere_vm, &devices), [other, volume]);
}
