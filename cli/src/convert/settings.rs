//! Converts the settings for network, proxy, trusted CAs and storage. This module doesn't perform I/O.

use serde_json::{Map, Value, json};

use super::cluster::{ConversionState, list};

/// The proxy variables.
const PROXY: [&str; 3] = ["TKG_HTTP_PROXY", "TKG_HTTPS_PROXY", "TKG_NO_PROXY"];
/// The CAs that nodes trust: the variable with the certificate, and the name of its file on nodes.
const AUTHORITIES: [(&str, &str); 5] = [
    ("TKG_PROXY_CA_CERT", "proxy"),
    ("TKG_CUSTOM_IMAGE_REPOSITORY_CA_CERTIFICATE", "image-repository"),
    ("ADDITIONAL_IMAGE_REGISTRY_1_CA_CERTIFICATE", "image-registry-1"),
    ("ADDITIONAL_IMAGE_REGISTRY_2_CA_CERTIFICATE", "image-registry-2"),
    ("ADDITIONAL_IMAGE_REGISTRY_3_CA_CERTIFICATE", "image-registry-3"),
];

impl ConversionState<'_> {
    /// Returns the settings that the file contains.
    pub(super) fn settings(&mut self) -> Map<String, Value> {
        let mut settings = Map::new();
        for (key, part) in [("network", self.network()), ("storage", self.storage())] {
            if !part.is_empty() {
                settings.insert(key.to_owned(), Value::Object(part));
            }
        }
        settings
    }

    fn network(&mut self) -> Map<String, Value> {
        let mut network = Map::new();
        match self.value("CNI") {
            Some("none") => {
                let reason = "a cluster has the container network of its node image, or of a bundle";
                self.leave_out(&["CNI"], reason);
            }
            Some(name) => {
                self.check_name("CNI", name);
                self.cni = Some(name);
                network.insert("cni".to_owned(), json!({ "name": name }));
            }
            None => {}
        }
        for (key, name) in [("pods", "CLUSTER_CIDR"), ("services", "SERVICE_CIDR")] {
            if let Some(text) = self.value(name) {
                network.insert(key.to_owned(), json!({ "cidrBlocks": list(text) }));
            }
        }
        if let Some(domain) = self.value("SERVICE_DOMAIN") {
            network.insert("serviceDomain".to_owned(), json!(domain));
        }
        network.extend(self.proxy().map(|proxy| ("proxy".to_owned(), proxy)));
        let authorities = self.authorities();
        if !authorities.is_empty() {
            network.insert("trust".to_owned(), json!({ "additionalTrustedCAs": authorities }));
        }
        network
    }

    fn proxy(&mut self) -> Option<Value> {
        let is_off = |text: &str| text.eq_ignore_ascii_case("false");
        if self.value("TKG_HTTP_PROXY_ENABLED").is_some_and(is_off) {
            self.leave_out(&PROXY, "TKG_HTTP_PROXY_ENABLED is false");
            return None;
        }
        let [http, https, no_proxy] = PROXY.map(|name| self.value(name));
        match (http, https) {
            (Some(http), Some(https)) => {
                let no_proxy = list(no_proxy.unwrap_or_default());
                Some(json!({ "httpProxy": http, "httpsProxy": https, "noProxy": no_proxy }))
            }
            (None, None) => {
                self.leave_out(&["TKG_NO_PROXY"], "the file names no proxy");
                None
            }
            (http, _) => {
                let [set, missing] = if http.is_some() { [PROXY[0], PROXY[1]] } else { [PROXY[1], PROXY[0]] };
                self.add_fault(
                    missing,
                    &format!("it is missing, but {set} is set. Set both; they can be equal"),
                );
                None
            }
        }
    }

    /// Returns the trusted CAs, without the line breaks in their base64.
    fn authorities(&mut self) -> Vec<Value> {
        let mut authorities = Vec::new();
        for (variable, name) in AUTHORITIES {
            if let Some(text) = self.value(variable) {
                let data: String = text.split_whitespace().collect();
                self.authorities.push(variable);
                authorities.push(json!({ "name": name, "data": data }));
            }
        }
        authorities
    }

    fn storage(&mut self) -> Map<String, Value> {
        let mut storage = Map::new();
        if let Some(text) = self.value("STORAGE_CLASSES") {
            let classes = list(text);
            for class in &classes {
                self.check_name("STORAGE_CLASSES", class);
            }
            storage.insert("classes".to_owned(), json!(classes));
        }
        if let Some(class) = self.value("DEFAULT_STORAGE_CLASS") {
            self.check_name("DEFAULT_STORAGE_CLASS", class);
            storage.insert("defaultClass".to_owned(), json!(class));
        }
        storage
    }
}
