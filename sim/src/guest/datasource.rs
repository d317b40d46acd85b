//! cloud-init's VMware datasource: reads metadata and user data from guestinfo, and writes redactions back.
//!
//! The code follows cloud-init's DataSourceVMware. It deliberately doesn't use the crate `cloudinit`, which encodes
//! these values, because a mistake in shared code would go unnoticed.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read};
use std::net::Ipv4Addr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::MultiGzDecoder;
use serde_json::{Map, Value, json};

use super::failure::{Failure, Reason, without_values};
use super::network::AddressSource;

/// The replacement for redacted values.
pub const REDACTED: &str = "---";
/// The maximum unpacked size in bytes. User data that fits into a VM's configuration is smaller.
const LIMIT: usize = 16 << 20;

/// cloud-init's instance data. `Debug` omits user data and vendordata.
#[derive(Clone, PartialEq)]
pub struct Seed {
    /// The metadata from guestinfo.
    pub metadata: Map<String, Value>,
    /// The user data, unless it is missing or redacted.
    pub userdata: Option<Vec<u8>>,
    /// The vendordata, unless it is missing or redacted.
    pub vendordata: Option<Vec<u8>>,
    /// The keys that the metadata asks to redact.
    pub redact: Vec<String>,
}

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seed").field("metadata", &self.metadata).finish_non_exhaustive()
    }
}

impl Seed {
    /// Reads the seed from guestinfo keys.
    pub fn of(guestinfo: &BTreeMap<String, String>) -> Result<Self, Failure> {
        let Some(metadata) = value(guestinfo, "metadata")? else {
            return Err(Failure::new(Reason::NoDatasource, "guestinfo.metadata is not set"));
        };
        let vendordata = value(guestinfo, "vendordata")?;
        Ok(Self { vendordata, ..Self::from_parts(&metadata, value(guestinfo, "userdata")?)? })
    }

    /// Creates a seed from decoded bytes.
    pub fn from_parts(metadata: &[u8], userdata: Option<Vec<u8>>) -> Result<Self, Failure> {
        let metadata = mapping(metadata)?;
        let redact = redactions(&metadata)?;
        Ok(Self { metadata, userdata, vendordata: None, redact })
    }

    /// Returns the instance ID. If it changes, cloud-init runs its first boot again.
    pub fn instance_id(&self) -> Result<&str, Failure> {
        self.text("instance-id")
    }

    /// Returns the guest's host name, which is `local-hostname` or, if that isn't set, `hostname`.
    pub fn hostname(&self) -> Result<&str, Failure> {
        self.text("local-hostname").or_else(|_| self.text("hostname"))
    }

    /// Returns the address that the network configuration gives to a guest whose network adapters have these MAC
    /// addresses. Without a network configuration, the guest requests a lease.
    pub fn addressing(&self, macs: &[String]) -> Result<AddressSource, Failure> {
        self.metadata
            .get("network")
            .map_or(Ok(AddressSource::Leased), |network| super::network::read(network, macs))
    }

    fn text(&self, key: &str) -> Result<&str, Failure> {
        match self.metadata.get(key).and_then(Value::as_str) {
            Some(text) if !text.trim().is_empty() => Ok(text),
            _ => Err(Failure::new(Reason::Metadata, format!("metadata has no {key}"))),
        }
    }

    /// Returns the variables for jinja templates: `ds.meta_data`, `v1`, and the `v1` keys at the top level.
    pub fn template_variables(&self, address: Ipv4Addr) -> Value {
        let mut metadata = self.metadata.clone();
        let ip = address.to_string();
        // Values that the guest detects. The metadata takes precedence, as in cloud-init.
        for (key, found) in [
            ("local-ipv4", json!(ip)),
            ("local-hostname", json!(self.hostname().unwrap_or_default())),
            ("hostname", json!(self.hostname().unwrap_or_default())),
        ] {
            metadata.entry(key).or_insert(found);
        }
        let with_aliases = aliased(&metadata);
        let standard = aliased(&standard(&with_aliases));
        let mut all = standard.clone();
        all.insert("v1".into(), Value::Object(standard));
        all.insert("ds".into(), json!({ "meta_data": with_aliases }));
        Value::Object(all)
    }

    /// Returns the guestinfo changes with which cloud-init reports the address and redacts values.
    pub fn write_back(&self, address: Ipv4Addr) -> BTreeMap<String, Option<String>> {
        let mut writes = BTreeMap::from([("guestinfo.local-ipv4".to_owned(), Some(address.to_string()))]);
        for key in &self.redact {
            writes.insert(format!("guestinfo.{key}"), Some(REDACTED.to_owned()));
            writes.insert(format!("guestinfo.{key}.encoding"), Some(String::new()));
        }
        writes
    }
}

/// Returns the standardized keys, `v1` in cloud-init's instance data.
fn standard(metadata: &Map<String, Value>) -> Map<String, Value> {
    let of = |key: &str| metadata.get(key).cloned().unwrap_or(Value::Null);
    let mut standard = Map::new();
    for (key, value) in [
        ("instance-id", of("instance-id")),
        ("local-hostname", of("local-hostname")),
        ("cloud-name", json!("vmware")),
        ("cloud_name", json!("vmware")),
        ("platform", json!("vmware")),
        ("subplatform", json!("vmware (guestinfo)")),
        ("distro", json!("photon")),
        ("machine", json!("x86_64")),
        ("region", Value::Null),
        ("availability-zone", Value::Null),
    ] {
        standard.insert(key.into(), value);
    }
    standard
}

/// Adds an alias with underscores for each key with hyphens, because templates can't refer to keys with hyphens.
fn aliased(map: &Map<String, Value>) -> Map<String, Value> {
    let mut out = Map::new();
    for (key, value) in map {
        let value = value.as_object().map_or_else(|| value.clone(), |inner| Value::Object(aliased(inner)));
        if key.contains('-') {
            out.entry(key.replace('-', "_")).or_insert_with(|| value.clone());
        }
        out.insert(key.clone(), value);
    }
    out
}

/// Returns the value of `guestinfo.KEY`, decoded according to `guestinfo.KEY.encoding`, or `None` if the value is
/// missing, empty or redacted.
fn value(guestinfo: &BTreeMap<String, String>, key: &str) -> Result<Option<Vec<u8>>, Failure> {
    let raw = guestinfo.get(&format!("guestinfo.{key}")).map_or("", String::as_str);
    if raw.is_empty() || raw == REDACTED {
        return Ok(None);
    }
    let encoding = guestinfo.get(&format!("guestinfo.{key}.encoding")).map_or("", String::as_str);
    let wrong =
        |what: &str| Failure::new(Reason::Encoding, format!("guestinfo.{key} is not {what} ({encoding})"));
    let base64 = || {
        let compact: String = raw.chars().filter(|c| !c.is_ascii_whitespace()).collect();
        STANDARD.decode(compact).map_err(|_| wrong("base64"))
    };
    match encoding {
        "gzip+base64" | "gz+b64" => {
            let plain = gunzip(&base64()?).map_err(|_| wrong("gzip"))?;
            if plain.len() > LIMIT {
                let what = format!("guestinfo.{key} has more than {} MiB unpacked", LIMIT >> 20);
                return Err(Failure::new(Reason::Encoding, what));
            }
            Ok(Some(plain))
        }
        "base64" | "b64" => base64().map(Some),
        _ => Ok(Some(raw.as_bytes().to_vec())),
    }
}

/// Unpacks all gzip members, as Python does. Stops one byte after `LIMIT`.
fn gunzip(packed: &[u8]) -> io::Result<Vec<u8>> {
    let mut plain = Vec::new();
    MultiGzDecoder::new(packed).take(LIMIT as u64 + 1).read_to_end(&mut plain)?;
    Ok(plain)
}

fn mapping(metadata: &[u8]) -> Result<Map<String, Value>, Failure> {
    let wrong = |what: String| Failure::new(Reason::Metadata, format!("metadata is {what}"));
    let text = std::str::from_utf8(metadata).map_err(|_| wrong("not UTF-8".into()))?;
    match serde_saphyr::from_str::<Value>(text) {
        Ok(Value::Object(map)) => Ok(map),
        Ok(_) => Err(wrong("no mapping".into())),
        Err(error) => Err(wrong(without_values(&error.without_snippet().to_string()))),
    }
}

/// Returns the keys in `redact`, or in `cleanup-guestinfo`, which is the former name of `redact`.
fn redactions(metadata: &Map<String, Value>) -> Result<Vec<String>, Failure> {
    let keys = match metadata.get("redact").or_else(|| metadata.get("cleanup-guestinfo")) {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::String(one)) => vec![one.clone()],
        Some(Value::Array(keys)) => keys.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        Some(_) => return Err(Failure::new(Reason::Metadata, "metadata key redact is no list of keys")),
    };
    match keys.iter().find(|key| !["metadata", "userdata", "vendordata"].contains(&key.as_str())) {
        Some(unknown) => {
            Err(Failure::new(Reason::Metadata, format!("metadata asks to redact {unknown}, which is no key")))
        }
        None => Ok(keys),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const METADATA: &str =
        "instance-id: cp-0\nlocal-hostname: cp-0\nprovider_id: vsphere://u\nredact: [userdata, vendordata]\n";

    fn packed(text: &str) -> String {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gzip.write_all(text.as_bytes()).unwrap();
        STANDARD.encode(gzip.finish().unwrap())
    }

    fn keys(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| (format!("guestinfo.{key}"), (*value).to_owned())).collect()
    }

    #[test]
    fn packed_userdata_is_read_to_its_end_or_not_at_all() {
        let seed = |userdata: &str| {
            let pairs = [("metadata", METADATA), ("userdata", userdata), ("userdata.encoding", "gz+b64")];
            Seed::of(&keys(&pairs))
        };
        let members = ["#cloud-config\n", "runcmd: []\n"].map(|text| STANDARD.decode(packed(text)).unwrap());
        let userdata = seed(&STANDARD.encode(members.concat())).unwrap().userdata.unwrap();
        assert_eq!(userdata, b"#cloud-config\nruncmd: []\n");
        let userdata = seed(&packed(&"x".repeat(LIMIT))).unwrap().userdata.unwrap();
        assert_eq!(userdata.len(), LIMIT);
        let failure = seed(&packed(&"x".repeat(LIMIT + 1))).unwrap_err();
        assert_eq!(failure.message, "guestinfo.userdata has more than 16 MiB unpacked");
    }

    #[test]
    fn every_encoding_is_read() {
        for (encoding, metadata) in [
            ("gzip+base64", packed(METADATA)),
            ("gz+b64", packed(METADATA)),
            ("base64", STANDARD.encode(METADATA)),
            ("", METADATA.to_owned()),
        ] {
            let seed = Seed::of(&keys(&[
                ("metadata", &metadata),
                ("metadata.encoding", encoding),
                ("userdata", &STANDARD.encode("#cloud-config\n")),
                ("userdata.encoding", "b64"),
            ]))
            .unwrap();
            assert_eq!(seed.hostname(), Ok("cp-0"), "{encoding}");
            assert_eq!(seed.userdata.as_deref(), Some(b"#cloud-config\n".as_slice()));
        }
    }

    #[test]
    fn user_data_is_not_printed() {
        let text = "canary";
        let seed =
            Seed::of(&keys(&[("metadata", METADATA), ("userdata", text), ("vendordata", text)])).unwrap();
        let shown = format!("{seed:?}");
        let bytes = format!("{:?}", text.as_bytes());
        assert!(seed.vendordata.is_some() && !shown.contains(text) && !shown.contains(&bytes), "{shown}");
    }

    #[test]
    fn what_is_wrong_has_a_reason() {
        let wrong = |pairs: &[(&str, &str)]| Seed::of(&keys(pairs)).unwrap_err().reason;
        assert_eq!(wrong(&[]), Reason::NoDatasource);
        assert_eq!(wrong(&[("metadata", "---")]), Reason::NoDatasource);
        assert_eq!(wrong(&[("metadata", "%%%"), ("metadata.encoding", "base64")]), Reason::Encoding);
        assert_eq!(
            wrong(&[("metadata", &STANDARD.encode("plain")), ("metadata.encoding", "gzip+base64")]),
            Reason::Encoding
        );
        assert_eq!(wrong(&[("metadata", "- a list")]), Reason::Metadata);
        assert_eq!(wrong(&[("metadata", "redact: [everything]")]), Reason::Metadata);
        let seed = Seed::of(&keys(&[("metadata", "hostname: x")])).unwrap();
        assert_eq!(seed.instance_id().unwrap_err().reason, Reason::Metadata);
        assert_eq!(seed.userdata, None);
    }

    #[test]
    fn redaction_spares_the_metadata() {
        let seed = Seed::of(&keys(&[("metadata", METADATA), ("userdata", "x")])).unwrap();
        let writes = seed.write_back(Ipv4Addr::new(10, 1, 2, 3));
        assert_eq!(writes["guestinfo.userdata"].as_deref(), Some("---"));
        assert_eq!(writes["guestinfo.userdata.encoding"].as_deref(), Some(""));
        assert_eq!(writes["guestinfo.local-ipv4"].as_deref(), Some("10.1.2.3"));
        assert!(!writes.contains_key("guestinfo.metadata"));
    }

    #[test]
    fn templates_see_aliases_and_the_address() {
        let seed = Seed::of(&keys(&[("metadata", METADATA)])).unwrap();
        let variables = seed.template_variables(Ipv4Addr::new(10, 1, 2, 3));
        assert_eq!(variables["ds"]["meta_data"]["local_hostname"], "cp-0");
        assert_eq!(variables["ds"]["meta_data"]["local_ipv4"], "10.1.2.3");
        assert_eq!(variables["ds"]["meta_data"]["provider_id"], "vsphere://u");
        assert_eq!(variables["v1"]["instance_id"], "cp-0");
        assert_eq!(variables["local_hostname"], "cp-0");
    }
}
