//! OVF property keys and values that are rejected.

use super::*;

#[test]
fn keys_that_set_nothing_and_values_of_another_type_are_refused() {
    let mut properties = properties();
    properties[0].kind = Some("ip".to_owned());
    let refusal = |transport: &str, data: &[(&str, &str)]| {
        let (vm, nics, network) = (with_transport(transport), nics(), network());
        let data = read(&vm, data).unwrap();
        let composed = compose(&vm, &data, &input(&nics, &properties, &network), &enough());
        composed.map_err(|error| error.into_unmet("Secret ns/s").message).unwrap_err()
    };
    for transport in ["OvfEnv", "vAppConfig"] {
        assert_eq!(
            refusal(transport, &[("ip", "10.0.0.9"), ("IP", "x"), ("nane", "y")]),
            "Secret ns/s: the image has no OVF property IP, nane. It has ip, same, x. Correct the key, or remove it"
        );
        assert_eq!(
            refusal(transport, &[("serial", "9")]),
            "Secret ns/s: the image does not allow to set its OVF property serial. Remove the key"
        );
        assert_eq!(
            refusal(transport, &[("ip", "S3cr3t")]),
            "Secret ns/s: ip needs a value of the type ip. Correct it"
        );
    }
    assert_eq!(
        refusal("Sysprep", &[("value", "x")]),
        "Secret ns/s: unattend is missing. Add Windows' answer file"
    );
    assert!(refusal("Sysprep", &[("unattend", "x"), ("nane", "y")]).contains("no OVF property nane"));
}
