//! A short vm-scale run. The cost per VM doesn't depend on the VM count, so ten are enough.

use std::process::Command;

use serde_json::Value;

const COUNT: u32 = 10;

fn measured(wire: &str) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_vm-scale"))
        .args(["--count", &COUNT.to_string(), "--wire", wire, "--rest", "3", "--no-floor"])
        // Garbage collection in the API servers is less frequent, as in the stories.
        .env("GOGC", "400")
        .output()
        .unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{log}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {log}"))
}

fn checked(wire: &str) {
    let report = measured(wire);
    let number = |pointer: &str| report.pointer(pointer).and_then(Value::as_f64).expect(pointer);
    let exactly = |pointer: &str, wanted: f64| {
        assert!((number(pointer) - wanted).abs() < f64::EPSILON, "{pointer}, wanted {wanted}: {report}");
    };
    exactly("/vmop/mutatingPerVm", 1.0);
    exactly("/rest/vcenterMutating", 0.0);
    exactly("/rest/apiWrites", 0.0);
    // Checks only these calls: with few VMs, the constant cost of reading updates dominates the rest.
    let ended = report.pointer("/delete/byMethod").unwrap();
    assert_eq!(
        (&ended["PowerOffVM_Task"], &ended["Destroy_Task"]),
        (&COUNT.into(), &COUNT.into()),
        "{report}"
    );
    assert!(number("/vmop/apiWritesPerVm") <= 4.0, "{report}");
}

#[test]
fn a_vm_costs_one_call_on_vijson() {
    checked("vijson");
}

#[test]
fn a_vm_costs_one_call_on_soap() {
    checked("soap");
}
