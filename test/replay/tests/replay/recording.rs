//! Checks that `layercake doctor --record` writes a readable recording without data that identifies the vCenter.

use replay::{Exchange, recording};
use serde_json::json;
use support::vcsim::Sim;
use vsphere::untrusted::Decoded;
use vsphere::{Recorder, WireKind};

use super::inventories::diagnose;

/// Records a doctor run against the simulated vCenter, and returns the recording's text.
async fn record(sim: &Sim, wire: WireKind) -> String {
    let recorder = Recorder::new();
    diagnose(sim, wire, recorder.clone()).await;
    let (exchanges, left_out) = recorder.take();
    assert_eq!(left_out, 0);
    let mut lines = vec![json!({ "layercakeRecording": 1 }).to_string()];
    lines.extend(exchanges.iter().map(|exchange| serde_json::to_string(exchange).unwrap()));
    lines.push(json!({ "exchanges": exchanges.len() }).to_string());
    lines.join("\n") + "\n"
}

/// Returns strings that identify the simulated vCenter: addresses, names, the user and library IDs.
fn secrets(sim: &Sim) -> Vec<String> {
    let config = sim.config();
    let mut secrets =
        vec![config.credentials.password.expose().to_owned(), config.host.clone(), sim.library().to_owned()];
    let names = [
        "dc0",
        "cluster0",
        "\"layercake\"",
        ">layercake<",
        "VM Network",
        "\"workload\"",
        ">workload<",
        ">ds0<",
        "\"ds0\"",
        "host0.cluster0",
        ">user<",
        "\"user\"",
        "BEGIN CERTIFICATE",
    ];
    secrets.extend(names.map(str::to_owned));
    secrets
}

#[tokio::test]
async fn a_recording_of_the_doctor_is_replayed_and_names_nothing() {
    for wire in [WireKind::ViJson, WireKind::Soap] {
        let Some(sim) = Sim::over(wire, "a_recording_of_the_doctor_is_replayed_and_names_nothing") else {
            return;
        };
        let text = record(&sim, wire).await;
        let about = sim.client().await.about().clone();
        for secret in secrets(&sim).into_iter().chain([about.instance_uuid]) {
            let at = text.find(&secret);
            assert!(
                at.is_none(),
                "{wire:?}: {secret:?} in {:?}",
                at.map(|at| &text[at.saturating_sub(200)..at + 40])
            );
        }
        let exchanges = recording::read(&text).unwrap();
        let decoded = |exchange: &Exchange| !matches!(exchange.decode(), None | Some(Decoded::Unreadable(_)));
        let unreadable: Vec<_> = exchanges.iter().filter(|exchange| !decoded(exchange)).collect();
        assert!(unreadable.is_empty(), "{unreadable:?}");
        let calls: Vec<&str> = exchanges.iter().map(Exchange::call).collect();
        println!("{wire:?}: {} exchanges, {} bytes: {calls:?}", exchanges.len(), text.len());
        for call in ["Login", "RetrievePropertiesEx", "CreateFilter", "WaitForUpdatesEx"] {
            assert!(calls.contains(&call), "{call}: {calls:?}");
        }
        assert!(text.contains("VMware vCenter Server 8.0.3"), "the version is kept");
        assert!(text.contains("config.hardware.device"), "property paths are kept");
    }
}
