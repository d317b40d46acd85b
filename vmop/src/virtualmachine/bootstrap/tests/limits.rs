//! Data that grows too much when it is decompressed, parsed or rendered is rejected. Realistic data is accepted.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::virtualmachine::bootstrap::user_data::invalid;

/// A line that is repeated to fill a Secret.
const LINE: &str = "  <component name=\"Microsoft-Windows-Shell-Setup\" language=\"neutral\"/>\n";

/// Returns the message in the VM's condition for rejected data.
fn refusal(transport: &str, data: &[(&str, &str)]) -> String {
    let unmet = with(&with_transport(transport), data).map(|_| ()).unwrap_err();
    assert!(!unmet.unwatched, "nothing changes by itself");
    assert_eq!(unmet.reason, invalid(String::new()).reason);
    unmet.message
}

/// Returns `mebibytes` MiB of zeros as a guestinfo value, compressed by a factor of about 1,000.
fn packed(mebibytes: usize) -> String {
    let metadata = cloudinit::NodeMetadata::default();
    let keys = cloudinit::encode(&metadata, &vec![b'0'; mebibytes << 20], None, &Budget::new(usize::MAX));
    keys.unwrap()["guestinfo.userdata"].clone()
}

fn too_much(key: &str) -> String {
    format!(
        "Secret ns/s: {key} needs more than 16 MiB, together with the keys before it, after it is unpacked and its templates are rendered. Make it smaller"
    )
}

#[test]
fn a_template_that_multiplies_a_value_is_refused() {
    let start = "{{ $a := \"aaaaaaaaaaaaaaaa\" }}";
    for action in
        ["{{ $a = print $a $a $a $a }}", "{{ $a = V1alpha1_FormatNameservers -1 $a | print $a $a }}"]
    {
        let template = start.to_owned() + &action.repeat(13);
        assert_eq!(refusal("Sysprep", &[("unattend", &template)]), too_much("unattend"));
        assert_eq!(refusal("vAppConfig", &[("ip", &template)]), too_much("ip"));
    }
    let loops = "{{ range $.V1alpha1.Net.Devices }}".repeat(30) + &"{{ end }}".repeat(30);
    assert!(refusal("OvfEnv", &[("ip", &loops)]).contains("the template exceeds its limits"));
}

#[test]
fn what_unpacks_to_too_much_is_refused_and_all_keys_count() {
    let (large, half) = (packed(17), packed(7));
    assert!(with(&with_transport("CloudInit"), &[("user-data", &half)]).is_ok());
    let message = refusal("CloudInit", &[("user-data", &half), ("vendor-data", &half)]);
    assert!(message.starts_with("Secret ns/s") && message.contains("needs more than 16 MiB"), "{message}");
    assert_eq!(refusal("CloudInit", &[("user-data", &large)]), too_much("user-data"));
    let verbatim = [
        ("guestinfo.metadata", large.as_str()),
        ("guestinfo.metadata.encoding", "gzip+base64"),
        ("guestinfo.userdata", "#cloud-config"),
    ];
    assert_eq!(refusal("ExtraConfig", &verbatim), too_much("guestinfo.metadata"));
}

#[test]
fn metadata_with_aliases_is_refused_and_not_quoted() {
    let bomb = format!("a: &a \"{}\"\nb: [{}]", "SECRET".repeat(10_000), "*a,".repeat(1000));
    for key in ["metadata", "network-config"] {
        let message = refusal("CloudInit", &[("user-data", "x"), (key, &bomb)]);
        let why = format!("{key} is not a YAML mapping: it has an anchor or an alias");
        assert!(message.contains(&why), "{message}");
        assert!(!message.contains("SECRET"), "{message}");
    }
    let typed = refusal("CloudInit", &[("user-data", "x"), ("metadata", "instance-id: [SECRET]")]);
    assert!(typed.contains("does not have the type") && !typed.contains("SECRET"), "{typed}");
    let nodes = format!("a: [{}]", "{},".repeat(100_000));
    assert_eq!(refusal("CloudInit", &[("user-data", "x"), ("metadata", &nodes)]), too_much("metadata"));
}

#[test]
fn a_secret_of_full_length_is_taken() {
    let mebibyte = LINE.repeat((1 << 20) / LINE.len() - 10);
    let answers = format!("{mebibyte}{{{{ V1alpha1_FirstIP }}}}{{{{ .V1alpha1.VM.Name }}}}");
    assert!(with(&with_transport("Sysprep"), &[("unattend", &answers)]).is_ok());
    assert!(with(&with_transport("CloudInit"), &[("user-data", &mebibyte)]).is_ok());
    let value = "x".repeat(64 * 1024);
    let names: Vec<_> = (0..15).map(|at| format!("guestinfo.part{at}")).collect();
    let keys: Vec<_> = names.iter().map(|name| (name.as_str(), value.as_str())).collect();
    assert!(with(&with_transport("ExtraConfig"), &keys).is_ok());
    let quarter = &mebibyte[..mebibyte.len() / 4];
    let properties = [("ip", quarter), ("same", quarter), ("x", quarter)];
    assert!(with(&with_transport("OvfEnv"), &properties).is_ok());
}

#[test]
fn data_that_takes_too_long_is_tried_again() {
    let budget = enough();
    budget.stop();
    let vm = with_transport("CloudInit");
    let (nics, properties, network) = (nics(), properties(), network());
    let input = input(&nics, &properties, &network);
    let data = read(&vm, &[("user-data", "x")]).unwrap();
    let unmet = compose(&vm, &data, &input, &budget).unwrap_err().into_unmet("Secret ns/s");
    assert!(unmet.unwatched);
    assert!(unmet.message.starts_with("Secret ns/s takes too long to unpack"), "{}", unmet.message);
}

/// While all blocking threads are occupied, work that needs one waits, and other work doesn't.
#[test]
fn what_users_wrote_is_computed_where_nothing_waits_for_it() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().max_blocking_threads(1).build();
    runtime.unwrap().block_on(async {
        let (release, held) = std::sync::mpsc::channel::<()>();
        let holder = tokio::task::spawn_blocking(move || held.recv());
        let vm = with_transport("CloudInit");
        let (nics, properties, network) = (nics(), properties(), network());
        let input = input(&nics, &properties, &network);
        let data = read(&vm, &[("user-data", "x")]).unwrap();
        let mut composing = std::pin::pin!(compose_within_limits(&vm, data, &input));
        assert!(futures::poll!(composing.as_mut()).is_pending());
        release.send(()).unwrap();
        holder.await.unwrap().unwrap();
        let composed = tokio::time::timeout(Duration::from_mins(1), composing).await.unwrap();
        assert!(composed.is_ok());
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any data in a Secret is either composed or rejected. Composed data never exceeds the budget.
    #[test]
    fn whatever_a_secret_holds_is_composed_or_refused(
        transport in proptest::sample::select(&["ExtraConfig", "CloudInit", "OvfEnv", "vAppConfig", "Sysprep"][..]),
        key in proptest::sample::select(&["user-data", "metadata", "network-config", "unattend", "ip", "guestinfo.metadata"][..]),
        value in "([{}|()$.:=\"` a-c0-2\\-\n/*&!,\\[\\]]|print|range|end|H4sI){0,40}",
    ) {
        let _ = with(&with_transport(transport), &[(key, &value), ("value", "x")]);
    }
}
