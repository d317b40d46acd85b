//! The subject and usages of a certificate.

use std::net::IpAddr;

use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose, SanType,
};
use zeroize::Zeroizing;

use crate::{Error, Validity};

/// The maximum length of a common name. Clients check the subject alternative names instead, so longer names are cut.
const MAX_COMMON_NAME: usize = 64;

/// The subject of a certificate, and the TLS roles in which it is valid.
#[derive(Clone, Debug)]
pub struct Subject {
    name: String,
    organizations: Vec<String>,
    hosts: Vec<String>,
    roles: Vec<ExtendedKeyUsagePurpose>,
}

impl Subject {
    /// Returns the subject for a client certificate. Kubernetes uses `name` as the user name, and organizations as groups.
    pub fn client(name: &str, organizations: &[&str]) -> Self {
        Self {
            name: name.to_owned(),
            organizations: organizations.iter().map(|&one| one.to_owned()).collect(),
            hosts: Vec::new(),
            roles: vec![ExtendedKeyUsagePurpose::ClientAuth],
        }
    }

    /// Returns the subject for a server certificate. `hosts` are DNS names and IP addresses.
    pub fn server(name: &str, hosts: &[impl AsRef<str>]) -> Self {
        Self {
            name: name.to_owned(),
            organizations: Vec::new(),
            hosts: hosts.iter().map(|host| host.as_ref().to_owned()).collect(),
            roles: vec![ExtendedKeyUsagePurpose::ServerAuth],
        }
    }

    /// Returns the subject for the certificate of an etcd member, which is both server and client.
    pub fn peer(name: &str, hosts: &[impl AsRef<str>]) -> Self {
        let mut peer = Self::server(name, hosts);
        peer.roles.push(ExtendedKeyUsagePurpose::ClientAuth);
        peer
    }

    /// Generates a key, and a signing request for a client certificate. Returns both in PEM.
    ///
    /// # Errors
    /// Returns an error if the request can't be encoded.
    pub fn request(&self) -> Result<(String, Zeroizing<String>), Error> {
        let mut params = CertificateParams::default();
        params.distinguished_name = self.distinguished_name();
        let key = KeyPair::generate()?;
        let request = params.serialize_request(&key)?.pem()?;
        Ok((request, Zeroizing::new(key.serialize_pem())))
    }

    pub(crate) fn params(&self, validity: Validity) -> Result<CertificateParams, Error> {
        let mut params = CertificateParams::default();
        params.distinguished_name = self.distinguished_name();
        for host in &self.hosts {
            params.subject_alt_names.push(match host.parse::<IpAddr>() {
                Ok(address) => SanType::IpAddress(address),
                Err(_) => SanType::DnsName(host.as_str().try_into()?),
            });
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages.clone_from(&self.roles);
        params.use_authority_key_identifier_extension = true;
        (params.not_before, params.not_after) = (validity.begin, validity.end);
        Ok(params)
    }

    fn distinguished_name(&self) -> DistinguishedName {
        let mut name = common_name(&self.name);
        for organization in &self.organizations {
            name.push(DnType::OrganizationName, organization);
        }
        name
    }
}

pub(crate) fn common_name(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name.chars().take(MAX_COMMON_NAME).collect::<String>());
    distinguished
}
