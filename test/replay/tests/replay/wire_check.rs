//! Checks recorded responses of real vCenters against the types that the wire check uses for the simulated vCenter.

use std::path::Path;
use std::process::Command;

use replay::traffic;

use super::recordings;

#[test]
fn the_wire_check_accepts_every_recorded_answer() {
    let Some(folder) = recordings("the_wire_check_accepts_every_recorded_answer") else { return };
    let traffic_folder = tempfile::tempdir().unwrap();
    traffic::write(&folder, traffic_folder.path()).unwrap();
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let packages =
        Command::new(tests.join("python-packages")).arg(tests.join("wire-check/requirements.txt")).output();
    let packages = packages.expect("test/python-packages does not run");
    assert!(packages.status.success(), "{}", String::from_utf8_lossy(&packages.stderr));
    let site = String::from_utf8(packages.stdout).unwrap();
    let mut check = Command::new(tests.join("wire-check/recorded"));
    let checked = check.arg(site.trim()).arg(traffic_folder.path()).output().unwrap();
    let report = String::from_utf8_lossy(&checked.stdout);
    println!("{report}");
    assert!(checked.status.success(), "{report}{}", String::from_utf8_lossy(&checked.stderr));
}
