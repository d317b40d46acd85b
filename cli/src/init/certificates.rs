//! Reads or generates the webhook certificates for an installation.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use components::certificate::{self, RENEWED_BEFORE, ServingPair};
use components::plan::WantedCertificate;
use components::render::MANAGED_BY;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, ResourceExt};
use time::OffsetDateTime;

/// Reads the certificates from an earlier installation, and generates missing or expiring certificates. Doesn't write
/// anything.
pub async fn read_or_generate<'a>(
    client: &Client,
    wanted: &'a [WantedCertificate],
) -> Result<BTreeMap<&'a str, ServingPair>> {
    let now = OffsetDateTime::now_utc();
    let mut pairs = BTreeMap::new();
    for WantedCertificate { component, namespace, secret, dns_names } in wanted {
        let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
        let kept = secrets.get_opt(secret).await;
        let kept = kept.with_context(|| format!("cannot read Secret {namespace}/{secret}"))?;
        let kept = kept.and_then(|kept| read_pair(&kept, now));
        let pair = kept.map_or_else(|| certificate::generate(dns_names, now), Ok)?;
        pairs.insert(*component, pair);
    }
    Ok(pairs)
}

/// Reads a certificate that `init` created, unless it expires soon.
fn read_pair(secret: &Secret, now: OffsetDateTime) -> Option<ServingPair> {
    if secret.labels().get(MANAGED_BY.0).is_none_or(|by| by != MANAGED_BY.1) {
        return None;
    }
    let text = |key: &str| String::from_utf8(secret.data.as_ref()?.get(key)?.0.clone()).ok();
    let pair = ServingPair {
        authority: text("ca.crt")?,
        certificate: text("tls.crt")?,
        key: text("tls.key")?.into(),
    };
    pki::expiry(&pair.certificate).is_some_and(|end| end - now > RENEWED_BEFORE).then_some(pair)
}

#[cfg(test)]
mod tests {
    use components::certificate::VALID;
    use k8s_openapi::ByteString;
    use time::Duration;

    use super::*;

    #[test]
    fn only_own_certificates_that_do_not_end_soon_are_kept() {
        let now = OffsetDateTime::now_utc();
        let pair = certificate::generate(&["hook.ns.svc".to_owned()], now).unwrap();
        let data = [("ca.crt", &pair.authority), ("tls.crt", &pair.certificate), ("tls.key", &*pair.key)];
        let mut secret = Secret {
            data: Some(
                data.map(|(key, text)| (key.to_owned(), ByteString(text.clone().into_bytes()))).into(),
            ),
            ..Secret::default()
        };
        assert!(read_pair(&secret, now).is_none(), "of another tool");
        secret.labels_mut().insert(MANAGED_BY.0.to_owned(), MANAGED_BY.1.to_owned());
        let kept = read_pair(&secret, now).unwrap();
        assert!(
            kept.certificate == pair.certificate && kept.key == pair.key && kept.authority == pair.authority
        );
        let last_year = now + VALID - RENEWED_BEFORE;
        assert!(read_pair(&secret, last_year - Duration::hours(1)).is_some());
        assert!(read_pair(&secret, last_year + Duration::hours(1)).is_none());
        secret.data.as_mut().unwrap().remove("tls.key");
        assert!(read_pair(&secret, now).is_none(), "incomplete");
    }
}
