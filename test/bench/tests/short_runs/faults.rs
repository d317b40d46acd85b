//! Short runs in both vm-faults modes: a sample of the exhaustive cases, and storms that contain all site events.

use std::process::Command;

/// Runs the program and checks that its report doesn't contain a violation.
fn survives(args: &[&str]) -> serde_json::Value {
    let mut program = Command::new(env!("CARGO_BIN_EXE_vm-faults"));
    // Garbage collection in the API servers is less frequent, as in the stories.
    let output = program.args(args).env("GOGC", "400").output().unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {}\n{log}", String::from_utf8_lossy(&output.stdout));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    for count in ["lost", "duplicated", "orphaned", "stuck", "leaks"] {
        assert_eq!(report[count], 0, "{count} in {report}");
    }
    report
}

#[test]
fn what_is_killed_at_a_write_comes_to_the_same_end() {
    let report = survives(&["--exhaustive", "--sample", "6"]);
    assert!(report["trials"].as_u64() >= Some(6), "{report}");
    let injected = report["faults"].as_object().unwrap().values().filter_map(serde_json::Value::as_u64);
    assert!(injected.sum::<u64>() >= 4, "{report}");
}

/// The storms mostly wait, so both wires run in parallel.
#[test]
fn storms_are_survived_on_either_wire() {
    std::thread::scope(|scope| {
        for wire in ["vijson", "soap"] {
            scope.spawn(move || {
                let report = survives(&["--seed", "11", "--trials", "3", "--arenas", "2", "--wire", wire]);
                assert!(report["faults"]["kill"].as_u64() >= Some(1), "{report}");
            });
        }
    });
}
