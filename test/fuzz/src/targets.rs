//! What is fed: each parser of untrusted input, with examples of its format and what one input may cost.

use std::collections::BTreeMap;
use std::time::Duration;

use api::gcm::TanzuKubernetesCluster;
use bounds::Budget;
use gcm::addons::bundle::{self, BundleFile};
use gcm::addons::health::Live;
use gcm::addons::marks::OurMarks;
use gcm::addons::{config_map, image, manifest, render};
use gcm::admission::settings;
use kit::guest::{answer, kubeconfig};
use kit::webhook::conversion::{self, Conversion};
use kit::webhook::review::Review;
use serde_json::{Value, json};

pub struct Target {
    /// Its name on the command line.
    pub name: &'static str,
    pub run: fn(&[u8]),
    /// Inputs as people write them.
    pub examples: &'static [&'static str],
    /// What its format is made of.
    pub words: &'static [&'static str],
    /// The most memory for one input, bytes.
    pub max_bytes: usize,
    /// The most time for one input, in a build that is not optimised.
    pub max_time: Duration,
}

const MIB: usize = 1 << 20;
/// What a target's code may make besides what its budget counts: the input as text, and values that are dropped again.
const SLACK: usize = 16 * MIB;
/// What bootstrap data of one VM may use.
const BOOTSTRAP: usize = 16 * MIB;

const YAML: &[&str] = &[
    "a: {b: [1, 2], c: text}\nd: |\n  line\n",
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: y}\ndata:\n  key: value\n---\nkind: List\nitems: []\n",
    "{\"instance-id\": \"a\", \"network\": {\"version\": 2}}",
];
const YAML_WORDS: &[&str] = &[
    "&a ",
    "*a",
    "<<: ",
    "- ",
    "? ",
    "!!binary ",
    "|\n",
    "\"\\u0041\"",
    "\n---\n",
    ": ",
    "[",
    "{",
    ", ",
    "'",
    "\t",
    "# ",
];
const JSON_WORDS: &[&str] =
    &["0,", "[", "]", "{\"a\":", "}", "\"\\ud800\"", "1e999", "-0.0", "null", "\\u0000", ","];
const XML_WORDS: &[&str] = &[
    "<a>",
    "</a>",
    "<!--",
    "-->",
    "<![CDATA[",
    "]]>",
    "&amp;",
    "&#0;",
    "xsi:type=\"xsd:int\"",
    "<!DOCTYPE a [",
    "<?x ?>",
];
/// A few words in gzip and base64.
const PACKED: &str = "H4sIAAAAAAACA0u0UihJrSjhShylBwUNADH18ZmQAQAA";
const PACKED_WORDS: &[&str] = &["H4sIAAAAAAAA", "AAAA", "=", "\n"];
const KEY: &str = include_str!("key.txt");

fn text(input: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(input)
}

fn values() -> render::Values {
    render::Values { service_domain: "cluster.local".repeat(8), ..render::Values::default() }
}

struct Ours;

impl gotemplate::Functions for Ours {
    fn call(
        &self,
        name: &str,
        args: &[&Value],
        budget: &Budget,
    ) -> Option<Result<Value, gotemplate::Failure>> {
        (name == "Joined").then(|| {
            let length = args.iter().filter_map(|arg| arg.as_str()).map(str::len).sum();
            budget.spend(length)?;
            Ok(args.iter().filter_map(|arg| arg.as_str()).collect::<String>().into())
        })
    }
}

fn go_template(input: &[u8]) {
    let (text, budget) = (text(input), Budget::new(BOOTSTRAP));
    let data = json!({"V1alpha1": {"VM": {"Name": "a"}, "Net": {"Devices": [{"IPAddresses": ["10.0.0.1/24"]}]}}, "Text": "x".repeat(10_000)});
    if let Ok(template) = gotemplate::Template::parse(&text, &budget) {
        let _ = template.render(&text, &data, &Ours, &budget);
    }
}

fn guestinfo(input: &[u8]) {
    let budget = Budget::new(BOOTSTRAP);
    let _ = cloudinit::unpacked(input, &budget);
    let (key, encoding) = ("guestinfo.metadata".to_owned(), "guestinfo.metadata.encoding".to_owned());
    for how in ["gzip+base64", "base64", ""] {
        let keys =
            BTreeMap::from([(key.clone(), text(input).into_owned()), (encoding.clone(), how.to_owned())]);
        if let Ok(decoded) = cloudinit::decode(&keys, &budget) {
            let _ = decoded.metadata(&budget);
        }
    }
}

fn yaml(input: &[u8]) {
    let budget = Budget::new(BOOTSTRAP);
    let _ = cloudinit::mapping(&text(input), &budget);
    let _ = bounds::from_yaml_documents::<Value>(&text(input), &budget);
}

fn add_on(input: &[u8]) {
    let budget = Budget::new(bundle::LIMITS.bytes);
    let file =
        |name: &str| BundleFile { name: name.to_owned(), text: text(input).into_owned(), secret: false };
    let _ = manifest::parse(&[file("a.yaml"), file("b.yaml.jinja")], &values(), &budget);
    let data = BTreeMap::from([("a.yaml".to_owned(), text(input).into_owned())]);
    let _ = config_map::read(&data);
}

fn add_on_in_image(input: &[u8]) {
    let _ = image::read(&text(input), &Budget::new(bundle::LIMITS.bytes));
}

fn review(input: &[u8]) {
    if let Ok(review) = Review::read(input.to_vec()) {
        let _ = review.objects::<TanzuKubernetesCluster>();
        let _ = review.objects::<api::vmop::VirtualMachine>();
        let _ = review.document();
    }
    if let Ok(read) = Conversion::read(input.to_vec()) {
        let _ = conversion::answer(&read, api::gcm::convert);
        let _ = conversion::answer(&read, api::vmop::convert);
    }
}

fn guests_answer(input: &[u8]) {
    let _ = answer::read::<answer::MetadataOnly<OurMarks>>(input);
    let _ = answer::read::<Live>(input);
}

pub const TARGETS: &[Target] = &[
    Target {
        name: "text",
        run: |input| drop(bounds::printable(&text(input), 400)),
        examples: &["a plain line", "two\nlines", "\u{1b}]0;title\u{7}\u{202e}"],
        words: &["\u{1b}[31m", "\u{202e}", "\u{9b}", "é", "\r\n"],
        max_bytes: 8 * MIB,
        max_time: Duration::from_secs(1),
    },
    Target {
        name: "go-template",
        run: go_template,
        examples: &[
            "{{ $a := \"aaaa\" }}{{ $a = print $a $a $a }}{{ $a }}",
            "{{ range $i, $d := .V1alpha1.Net.Devices }}{{ index $d.IPAddresses 0 }}{{ end }}",
            "{{ if eq .Text \"x\" }}a{{ else }}{{ printf \"%s-%d\" .Text 2 | Joined \"b\" }}{{ end }}",
            "{{ with .V1alpha1 }}{{ .VM.Name }}{{ end }}{{ slice .Text 1 5 }}{{ len .Text }}",
        ],
        words: &[
            "{{ $a = print $a $a $a $a }}",
            "{{ range $ }}",
            "{{ end }}",
            "$",
            ".",
            "print ",
            "printf \"%q\" ",
            "(",
            "| ",
            "{{ $a := .Text }}",
            "{{ $b = $a }}",
            "{{/*",
            "*/}}",
            "Joined ",
        ],
        max_bytes: BOOTSTRAP + SLACK,
        max_time: Duration::from_secs(10),
    },
    Target {
        name: "guestinfo",
        run: guestinfo,
        examples: &[PACKED, "instance-id: a\n", "aW5zdGFuY2UtaWQ6IGEK"],
        words: PACKED_WORDS,
        max_bytes: BOOTSTRAP + SLACK,
        max_time: Duration::from_secs(10),
    },
    Target {
        name: "yaml",
        run: yaml,
        examples: YAML,
        words: YAML_WORDS,
        max_bytes: BOOTSTRAP + SLACK,
        max_time: Duration::from_secs(10),
    },
    Target {
        name: "add-on",
        run: add_on,
        examples: YAML,
        words: &[
            "{{ service_domain }}",
            "{{ pod_cidr }}",
            "{{",
            "}}",
            "{% if %}",
            "- &a b\n",
            "*a",
            ": ",
            "\n---\n",
            "items: [",
            "kind: List\n",
        ],
        max_bytes: 48 * MIB + SLACK,
        max_time: Duration::from_secs(20),
    },
    Target {
        name: "add-on-in-image",
        run: add_on_in_image,
        examples: &[PACKED, "{\"name\": \"antrea\"}"],
        words: PACKED_WORDS,
        max_bytes: 48 * MIB + SLACK,
        max_time: Duration::from_secs(20),
    },
    Target {
        name: "kubeconfig",
        run: |input| {
            let _ = kubeconfig::config(&text(input), "https://10.0.0.1:6443", &Budget::new(4 * MIB));
        },
        examples: &[
            "clusters: [{name: a, cluster: {certificate-authority-data: LS0t}}]\nusers: [{name: a, user: {token: t}}]\n",
            "{\"clusters\": [], \"users\": [{\"name\": \"a\", \"user\": {\"exec\": {\"command\": \"x\"}}}]}",
        ],
        words: YAML_WORDS,
        max_bytes: 4 * MIB + SLACK,
        max_time: Duration::from_secs(5),
    },
    Target {
        name: "guests-answer",
        run: guests_answer,
        examples: &[
            r#"{"kind":"ConfigMap","metadata":{"name":"a","uid":"u","labels":{"a":"b"},"resourceVersion":"1"}}"#,
            r#"{"status":{"replicas":1,"conditions":[{"type":"Available","status":"True","message":"m"}]}}"#,
            "[0,0,0]",
        ],
        words: JSON_WORDS,
        max_bytes: SLACK,
        max_time: Duration::from_secs(5),
    },
    Target {
        name: "review",
        run: review,
        examples: &[
            r#"{"request":{"uid":"1","userInfo":{"username":"u"},"object":{"apiVersion":"run.tanzu.vmware.com/v1alpha3","kind":"TanzuKubernetesCluster","metadata":{"name":"a"},"spec":{"topology":{}}}}}"#,
            r#"{"request":{"uid":"1","desiredAPIVersion":"run.tanzu.vmware.com/v1alpha1","objects":[{"apiVersion":"run.tanzu.vmware.com/v1alpha3","kind":"TanzuKubernetesCluster","spec":{}}]}}"#,
            r#"{"request":{"object":[0,0,0]}}"#,
        ],
        words: JSON_WORDS,
        max_bytes: 48 * MIB,
        max_time: Duration::from_secs(5),
    },
    Target {
        name: "trusted-ca",
        run: |input| drop(settings::pem(&text(input))),
        examples: &[
            "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUIKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo=",
            "not base64",
        ],
        words: &["LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t", "AAAA", "=", "\n"],
        max_bytes: SLACK,
        max_time: Duration::from_secs(5),
    },
    Target {
        name: "console-key",
        run: |input| vmop::untrusted::encrypt_for(&text(input), &Budget::new(MIB)),
        examples: &[KEY, "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----\n"],
        words: &[
            "-----BEGIN PUBLIC KEY-----\n",
            "-----END PUBLIC KEY-----\n",
            "AAAA",
            "////",
            "MIIBCgKCAQEA",
        ],
        max_bytes: SLACK,
        max_time: Duration::from_secs(10),
    },
    Target {
        name: "ovf",
        run: |input| vmop::untrusted::read_ovf(&text(input), &Budget::new(96 * MIB)),
        examples: &[
            r#"<Envelope><VirtualSystem><ProductSection><Property ovf:key="a" ovf:type="string" ovf:value="v"><Label>l</Label></Property></ProductSection></VirtualSystem></Envelope>"#,
        ],
        words: XML_WORDS,
        max_bytes: 96 * MIB + SLACK,
        max_time: Duration::from_secs(10),
    },
    Target {
        name: "soap",
        run: vsphere::untrusted::decode_soap,
        examples: &[
            r#"<soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><soapenv:Body><R xmlns="urn:vim25"><returnval><a xsi:type="xsd:string">b</a></returnval></R></soapenv:Body></soapenv:Envelope>"#,
        ],
        words: XML_WORDS,
        max_bytes: 192 * MIB,
        max_time: Duration::from_secs(20),
    },
    Target {
        name: "vijson",
        run: vsphere::untrusted::decode_vijson,
        examples: &[
            r#"{"_typeName":"UpdateSet","version":"1","filterSet":[{"_typeName":"PropertyFilterUpdate","objectSet":[]}]}"#,
            "[0,0,0]",
        ],
        words: JSON_WORDS,
        max_bytes: 192 * MIB,
        max_time: Duration::from_secs(20),
    },
];
