//! Messages never quote a Secret.

use super::*;

/// Template errors that could quote the Secret in conditions and events.
#[test]
fn a_template_that_fails_quotes_nothing_of_the_secret() {
    for text in [
        "x{{S3cr3t}}y",
        "{{ .S3cr3t }}",
        "{{ $S3cr3t }}",
        "{{ V1alpha1_IP \"S3cr3t\" }}",
        "{{ V1alpha1_FormatIP `S3cr3t` \"\" }}",
        "{{ V1alpha1_FormatIP \"10.0.0.1\" \"S3cr3t\" }}",
        "{{ \"S3cr3t\" | V1alpha1_FirstIPFromNIC }}",
        "{{ V1alpha1_FirstIP | S3cr3t }}",
        "{{ index .V1alpha1 \"a\" \"S3cr3t\" }}",
    ] {
        for (transport, key) in [("vAppConfig", "ip"), ("Sysprep", "unattend")] {
            let unmet = with(&with_transport(transport), &[(key, text)]).unwrap_err();
            let at = format!("Secret ns/s: {key} is a template that can't be rendered, line 1, column ");
            assert!(unmet.message.starts_with(&at) && !unmet.message.contains("S3cr3t"), "{}", unmet.message);
        }
    }
}
