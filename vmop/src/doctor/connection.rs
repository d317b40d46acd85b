//! Checks the connection to vCenter: certificate, login, version and clock.

use std::time::Duration;

use api::vmop::PROVIDER_CONFIGURATION;
use jiff::{SignedDuration, Timestamp};
use kit::diagnosis::Diagnosis;
use vsphere::{About, Client, Config, Kind, Recorder, ShownCertificate, WireKind};

use super::checks::{CERTIFICATE, CLOCK, LOGIN, REACHABLE, TRUSTED, VERSION};
use crate::vcenter::settings::{CertificateTrust, ProviderSettings};

/// The remaining certificate lifetime below which there is a warning.
const SOON: SignedDuration = SignedDuration::from_hours(30 * 24);
/// The clock differences above which there is a warning (first) and an error (second). New clusters' certificates and vCenter's
/// tokens fail if clocks differ too much.
const SKEW: (SignedDuration, SignedDuration) = (SignedDuration::from_secs(10), SignedDuration::from_mins(5));
/// The oldest supported vCenter version (major, minor).
const OLDEST: (u32, u32) = (7, 0);

/// Connects like the VM operator. The client is `None` if the connection fails.
pub async fn check(
    settings: &ProviderSettings,
    ca: Option<&str>,
    recorder: &Recorder,
) -> (Option<Client>, Vec<Diagnosis>) {
    let address = settings.address();
    let mut config = Config::new(settings.host.clone(), settings.username.clone(), settings.password.clone());
    config.port = settings.port;
    config.wire = settings.wire;
    config.connect_timeout = Duration::from_secs(5);
    let shown = match ShownCertificate::of(&config).await {
        Ok(shown) => shown,
        Err(error) => {
            let remedy = format!(
                "Check that vCenter runs, then name resolution and the firewall. If its address has changed, correct VcPNID and VcPort in ConfigMap {PROVIDER_CONFIGURATION}"
            );
            return (None, vec![REACHABLE.error(format!("vCenter {address}: {error}"), remedy)]);
        }
    };
    let mut found = vec![
        REACHABLE.ok(format!("vCenter {address}")),
        judge_certificate(&shown, Timestamp::now()),
        judge_trust(&settings.trust, &shown),
    ];
    config.recorder = recorder.clone();
    config.recorder.forbid(&settings.host);
    config.recorder.forbid(settings.password.expose());
    config.trust = match trust(settings, ca) {
        Ok(trust) => trust,
        Err((problem, remedy)) => {
            found.retain(|diagnosis| diagnosis.check != TRUSTED);
            found.push(TRUSTED.error(problem, remedy));
            return (None, found);
        }
    };
    match Client::connect(config).await {
        Ok(client) => {
            found.push(LOGIN.ok(format!("{} at {address}", settings.username)));
            found.push(judge_version(client.about(), client.wire()));
            found.push(match client.read_current_time().await {
                Ok(time) => judge_clock(time.duration_since(Timestamp::now())),
                Err(error) => CLOCK.error(error.to_string(), error.advice()),
            });
            (Some(client), found)
        }
        Err(error) => {
            if matches!(error.kind(), Kind::Tls { .. }) {
                found.retain(|diagnosis| diagnosis.check != TRUSTED);
                found.push(TRUSTED.error(error.to_string(), error.advice()));
            } else {
                found.push(LOGIN.error(format!("vCenter {address}: {error}"), error.advice()));
            }
            (None, found)
        }
    }
}

/// Returns the certificate verification method. `ca` replaces a CA file that may exist only in the VM operator's container. The
/// error contains a finding and its remedy.
fn trust(settings: &ProviderSettings, ca: Option<&str>) -> Result<vsphere::ServerTrust, (String, String)> {
    Ok(match &settings.trust {
        CertificateTrust::CaFile(path) => {
            match ca.map_or_else(|| std::fs::read_to_string(path), |ca| Ok(ca.to_owned())) {
                Ok(pem) => vsphere::ServerTrust::CaBundle(pem),
                Err(error) => {
                    let found = format!("CAFilePath {path}: {error}");
                    return Err((
                        found,
                        "If the file is in the program's container, pass a copy of it with --vcenter-ca"
                            .to_owned(),
                    ));
                }
            }
        }
        CertificateTrust::Thumbprint(text) => {
            vsphere::ServerTrust::Thumbprint(text.parse().map_err(|error| {
                (
                    format!("Thumbprint {text:?}: {error}"),
                    "Write the SHA-256 of the certificate as AB:CD:…".to_owned(),
                )
            })?)
        }
        CertificateTrust::Insecure => vsphere::ServerTrust::Insecure,
        CertificateTrust::System => vsphere::ServerTrust::System,
    })
}

fn judge_trust(trust: &CertificateTrust, shown: &ShownCertificate) -> Diagnosis {
    match trust {
        CertificateTrust::Insecure => TRUSTED.warning(
            "InsecureSkipTLSVerify is true: any server that answers receives the password",
            format!(
                "Remove it, and set CAFilePath or Thumbprint; the server's thumbprint is {}, compare it with vCenter's own first",
                shown.thumbprint
            ),
        ),
        CertificateTrust::CaFile(path) => TRUSTED.ok(format!("by the CA bundle {path}")),
        CertificateTrust::Thumbprint(_) => TRUSTED.ok("by its thumbprint"),
        CertificateTrust::System => TRUSTED.ok("by the operating system's trust anchors"),
    }
}

fn judge_certificate(shown: &ShownCertificate, now: Timestamp) -> Diagnosis {
    let left = shown.not_after.duration_since(now);
    let days = left.as_hours() / 24;
    let found = format!("certificate of {} ends {}", shown.subject, shown.not_after.strftime("%F"));
    let remedy = "Renew the machine SSL certificate of vCenter, and update Thumbprint if it is set";
    if left.is_negative() {
        CERTIFICATE.error(format!("{found}: it has expired"), remedy)
    } else if left < SOON {
        CERTIFICATE.warning(format!("{found}, in {days} days"), remedy)
    } else {
        CERTIFICATE.ok(format!("{found}, in {days} days"))
    }
}

fn judge_version(about: &About, wire: WireKind) -> Diagnosis {
    let mut numbers = about.version.split('.').map(|part| part.parse().unwrap_or(0));
    let version: (u32, u32) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let found = format!(
        "{}, connected over {}",
        about.full_name,
        match wire {
            WireKind::ViJson => "VI/JSON",
            WireKind::Soap => "SOAP",
        }
    );
    if version < OLDEST {
        VERSION.error(found, "Upgrade vCenter: 7.0 is the oldest that is supported")
    } else {
        VERSION.ok(found)
    }
}

/// Compares vCenter's clock with this machine's. `ahead` is positive if vCenter's clock is ahead.
fn judge_clock(ahead: SignedDuration) -> Diagnosis {
    let found = format!(
        "vCenter's clock is {:.1} s {}",
        ahead.abs().as_secs_f64(),
        if ahead.is_negative() { "behind" } else { "ahead" }
    );
    let remedy = "Configure vCenter, the hosts and this machine to use the same NTP servers";
    if ahead.abs() > SKEW.1 {
        CLOCK.error(found, remedy)
    } else if ahead.abs() > SKEW.0 {
        CLOCK.warning(found, remedy)
    } else {
        CLOCK.ok(found)
    }
}

#[cfg(test)]
mod tests {
    use kit::diagnosis::CheckOutcome;

    use super::*;

    #[test]
    fn certificates_are_judged_by_what_is_left() {
        let not_after: Timestamp = "2027-01-31T00:00:00Z".parse().unwrap();
        let shown =
            ShownCertificate { thumbprint: vsphere::Thumbprint::of(b""), subject: "CN=vc".into(), not_after };
        let cases = [
            ("2026-11-01T00:00:00Z", CheckOutcome::Ok),
            ("2027-01-02T00:00:00Z", CheckOutcome::Warning),
            ("2027-01-31T00:00:01Z", CheckOutcome::Error),
        ];
        for (now, outcome) in cases {
            let diagnosis = judge_certificate(&shown, now.parse().unwrap());
            assert_eq!(diagnosis.outcome, outcome, "{now}: {}", diagnosis.found);
        }
    }

    #[test]
    fn clocks_may_differ_by_seconds() {
        let cases = [
            (2, CheckOutcome::Ok),
            (-11, CheckOutcome::Warning),
            (301, CheckOutcome::Error),
            (-301, CheckOutcome::Error),
        ];
        for (seconds, outcome) in cases {
            assert_eq!(judge_clock(SignedDuration::from_secs(seconds)).outcome, outcome, "{seconds}");
        }
    }

    #[test]
    fn versions_before_7_0_are_refused() {
        let about = |version: &str| About { version: version.into(), ..About::default() };
        for (version, outcome) in
            [("8.0.3", CheckOutcome::Ok), ("7.0.0", CheckOutcome::Ok), ("6.7.0", CheckOutcome::Error)]
        {
            assert_eq!(judge_version(&about(version), WireKind::Soap).outcome, outcome, "{version}");
        }
    }

    #[test]
    fn a_certificate_that_nobody_verifies_is_reported_with_its_thumbprint() {
        let not_after = Timestamp::MAX;
        let shown =
            ShownCertificate { thumbprint: vsphere::Thumbprint::of(b"x"), subject: String::new(), not_after };
        let diagnosis = judge_trust(&CertificateTrust::Insecure, &shown);
        assert_eq!(diagnosis.outcome, CheckOutcome::Warning);
        assert!(diagnosis.remedy.contains(&shown.thumbprint.to_string()), "{}", diagnosis.remedy);
    }
}
