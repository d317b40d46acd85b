//! The fuzz targets: all parsers of untrusted input, with example inputs and limits.
//!
//! Parsers that read Secrets return their messages. A message must not contain the [`CANARY`].

use std::collections::BTreeMap;
use std::time::Duration;

use api::gcm::TanzuKubernetesCluster;
use bounds::{Budget, Confidential};
use gcm::addons::bundle::{self, BundleFile};
use gcm::addons::health::HealthFields;
use gcm::addons::marks::OurMarks;
use gcm::addons::{config_map, image, manifest, render};
use gcm::admission::authorities;
use kit::guest::{answer, kubeconfig};
use kit::webhook::conversion::{self, Conversion};
use kit::webhook::review::Review;
use serde_json::{Value, json};

pub struct FuzzTarget {
    /// The name on the command line.
    pub name: &'static str,
    /// Runs the parser. Parsers that read Secrets return their messages.
    pub run: fn(&[u8]) -> Vec<String>,
    /// Typical inputs.
    pub examples: &'static [&'static str],
    /// Words from the input format.
    pub words: &'static [&'static str],
    /// The maximum memory for one input in bytes.
    pub max_bytes: usize,
    /// The maximum time for one input in an unoptimized build.
    pub max_time: Duration,
}

/// A word in inputs that stands for a password in a Secret.
pub const CANARY: &str = "S3cr3tC4nary";

/// Returns the error message, if any.
fn message<T>(result: Result<T, impl std::fmt::Display>) -> Option<String> {
    result.err().map(|error| error.to_string())
}

const MIB: usize = 1 << 20;
/// The memory that a target may use in addition to its budget: the input as text, and temporary values.
const SLACK: usize = 16 * MIB;
/// The memory budget for one VM's bootstrap data.
const BOOTSTRAP: usize = 16 * MIB;

const YAML: &[&str] = &[
    "a: {b: [1, 2], c: text}\nd: |\n  line\n",
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: y}\ndata:\n  key: value\n---\nkind: List\nitems: []\n",
    "{\"instance-id\": \"a\", \"network\": {\"version\": 2}}",
    "instance-id: [S3cr3tC4nary]\nredact: S3cr3tC4nary\n",
    "apiVersion: v1\nkind: S3cr3tC4nary\nmetadata: {name: S3cr3tC4nary, namespace: [S3cr3tC4nary]}\n",
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
    CANARY,
    "S3cr3tC4nary: ",
    "!S3cr3tC4nary ",
];
const TEMPLATE_WORDS: &[&str] = &[
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
    CANARY,
    "\"S3cr3tC4nary\" ",
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
/// A few words, compressed with gzip and encoded in base64.
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
    ) -> Option<Result<Value, gotemplate::FunctionError>> {
        (name == "Joined").then(|| {
            let length = args.iter().filter_map(|arg| arg.as_str()).map(str::len).sum();
            budget.spend(length)?;
            Ok(args.iter().filter_map(|arg| arg.as_str()).collect::<String>().into())
        })
    }
}

fn go_template(input: &[u8]) -> Vec<String> {
    let (text, budget) = (text(input), Budget::new(BOOTSTRAP));
    let data = json!({"V1alpha1": {"VM": {"Name": "a"}, "Net": {"Devices": [{"IPAddresses": ["10.0.0.1/24"]}]}}, "Text": "x".repeat(10_000)});
    let rendered = gotemplate::Template::parse(&text, &budget)
        .and_then(|template| template.render(&text, &data, &Ours, &budget));
    message(rendered).into_iter().collect()
}

fn bootstrap(input: &[u8]) -> Vec<String> {
    vmop::untrusted::compose_bootstrap(input, &Budget::new(BOOTSTRAP))
}

fn guestinfo(input: &[u8]) -> Vec<String> {
    let budget = Budget::new(BOOTSTRAP);
    let mut messages: Vec<_> = message(cloudinit::unpacked(input, &budget)).into_iter().collect();
    let (key, encoding) = ("guestinfo.metadata".to_owned(), "guestinfo.metadata.encoding".to_owned());
    for how in ["gzip+base64", "base64", ""] {
        let keys =
            BTreeMap::from([(key.clone(), text(input).into_owned()), (encoding.clone(), how.to_owned())]);
        let read = cloudinit::decode(&keys, &budget).and_then(|decoded| decoded.metadata(&budget));
        messages.extend(message(read));
    }
    messages
}

fn yaml(input: &[u8]) -> Vec<String> {
    let budget = Budget::new(BOOTSTRAP);
    let mapping = message(cloudinit::mapping(&text(input), &budget));
    let documents = message(bounds::from_yaml_documents::<Value>(&text(input), &budget));
    mapping.into_iter().chain(documents).collect()
}

fn add_on(input: &[u8]) -> Vec<String> {
    let budget = Budget::new(bundle::LIMITS.bytes);
    let file = |name: &str| {
        let text = Confidential::new(text(input).into_owned());
        BundleFile { name: name.to_owned(), text, secret: true }
    };
    let plain = message(manifest::parse(&[file("a.yaml")], &values(), &budget));
    let template = message(manifest::parse(&[file("b.yaml.jinja")], &values(), &budget));
    let data = BTreeMap::from([("a.yaml".to_owned(), text(input).into_owned())]);
    plain.into_iter().chain(template).chain(message(config_map::read(&data))).collect()
}

fn add_on_in_image(input: &[u8]) -> Vec<String> {
    let _ = image::read(&text(input), &Budget::new(bundle::LIMITS.bytes));
    Vec::new()
}

fn kubeconfig(input: &[u8]) -> Vec<String> {
    let budget = Budget::new(4 * MIB);
    let read = kubeconfig::parse_config(&text(input), "https://10.0.0.1:6443", &budget);
    read.err().map(|kubeconfig::Unusable(what)| what).into_iter().collect()
}

fn review(input: &[u8]) -> Vec<String> {
    if let Ok(review) = Review::read(input.to_vec()) {
        let _ = review.objects::<TanzuKubernetesCluster>();
        let _ = review.objects::<api::vmop::VirtualMachine>();
        let _ = review.document();
    }
    if let Ok(read) = Conversion::read(input.to_vec()) {
        let _ = conversion::answer(&read, api::gcm::convert);
        let _ = conversion::answer(&read, api::vmop::convert);
    }
    Vec::new()
}

fn guests_answer(input: &[u8]) -> Vec<String> {
    let _ = answer::read::<answer::MetadataOnly<OurMarks>>(input);
    let _ = answer::read::<HealthFields>(input);
    Vec::new()
}

/// Runs a parser whose messages are shown only to the input's author.
fn quiet(run: impl FnOnce()) -> Vec<String> {
    run();
    Vec::new()
}

pub const TARGETS: &[FuzzTarget] = &[
    FuzzTarget {
        name: "text",
        run: |input| quiet(|| drop(bounds::printable(&text(input), 400))),
        examples: &["a plain line", "two\nlines", "\u{1b}]0;title\u{7}\u{202e}"],
        words: &["\u{1b}[31m", "\u{202e}", "\u{9b}", "é", "\r\n"],
        max_bytes: 8 * MIB,
        max_time: Duration::from_secs(1),
    },
    FuzzTarget {
        name: "go-template",
        run: go_template,
        examples: &[
            "{{ $a := \"aaaa\" }}{{ $a = print $a $a $a }}{{ $a }}",
            "{{ range $i, $d := .V1alpha1.Net.Devices }}{{ index $d.IPAddresses 0 }}{{ end }}",
            "{{ if eq .Text \"x\" }}a{{ else }}{{ printf \"%s-%d\" .Text 2 | Joined \"b\" }}{{ end }}",
            "{{ with .V1alpha1 }}{{ .VM.Name }}{{ end }}{{ slice .Text 1 5 }}{{ len .Text }}",
            "{{ S3cr3tC4nary }}",
            "{{ .Text | S3cr3tC4nary }}{{ $S3cr3tC4nary }}{{ index .Text \"S3cr3tC4nary\" }}",
        ],
        words: TEMPLATE_WORDS,
        max_bytes: BOOTSTRAP + SLACK,
        max_time: Duration::from_secs(10),
    },
    FuzzTarget {
        name: "bootstrap",
        run: bootstrap,
        examples: &[
            "x{{S3cr3tC4nary}}y",
            "{{ .S3cr3tC4nary }}",
            "{{ V1alpha1_FormatIP \"S3cr3tC4nary\" `S3cr3tC4nary` }}",
            "{{ V1alpha1_FirstIP | S3cr3tC4nary }}",
            "S3cr3tC4nary: S3cr3tC4nary\ninstance-id: [S3cr3tC4nary]\n",
            PACKED,
        ],
        words: TEMPLATE_WORDS,
        max_bytes: BOOTSTRAP + SLACK,
        max_time: Duration::from_secs(20),
    },
    FuzzTarget {
        name: "guestinfo",
        run: guestinfo,
        examples: &[PACKED, "instance-id: a\n", "aW5zdGFuY2UtaWQ6IGEK"],
        words: PACKED_WORDS,
        max_bytes: BOOTSTRAP + SLACK,
        max_time: Duration::from_secs(10),
    },
    FuzzTarget {
        name: "yaml",
        run: yaml,
        examples: YAML,
        words: YAML_WORDS,
        max_bytes: BOOTSTRAP + SLACK,
        max_time: Duration::from_secs(10),
    },
    FuzzTarget {
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
    FuzzTarget {
        name: "add-on-in-image",
        run: add_on_in_image,
        examples: &[PACKED, "{\"name\": \"antrea\"}"],
        words: PACKED_WORDS,
        max_bytes: 48 * MIB + SLACK,
        max_time: Duration::from_secs(20),
    },
    FuzzTarget {
        name: "kubeconfig",
        run: kubeconfig,
        examples: &[
            "clusters: [{name: a, cluster: {certificate-authority-data: LS0t}}]\nusers: [{name: a, user: {token: t}}]\n",
            "clusters: [{name: a, cluster: {certificate-authority-data: S3cr3tC4nary}}]\nusers: [{user: {token: S3cr3tC4nary}}]\n",
            "{\"clusters\": [], \"users\": [{\"name\": \"a\", \"user\": {\"exec\": {\"command\": \"x\"}}}]}",
        ],
        words: YAML_WORDS,
        max_bytes: 4 * MIB + SLACK,
        max_time: Duration::from_secs(5),
    },
    FuzzTarget {
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
    FuzzTarget {
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
    FuzzTarget {
        name: "trusted-ca",
        run: |input| {
            quiet(|| {
                let _ = authorities::is_sound(&text(input));
            })
        },
        examples: &[
            "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUIKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo=",
            "not base64",
        ],
        words: &["LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t", "AAAA", "=", "\n"],
        max_bytes: SLACK,
        max_time: Duration::from_secs(5),
    },
    FuzzTarget {
        name: "console-key",
        run: |input| quiet(|| vmop::untrusted::encrypt_for(&text(input), &Budget::new(MIB))),
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
    FuzzTarget {
        name: "ovf",
        run: |input| quiet(|| vmop::untrusted::read_ovf(&text(input), &Budget::new(96 * MIB))),
        examples: &[
            r#"<Envelope><VirtualSystem><ProductSection><Property ovf:key="a" ovf:type="string" ovf:value="v"><Label>l</Label></Property></ProductSection></VirtualSystem></Envelope>"#,
        ],
        words: XML_WORDS,
        max_bytes: 96 * MIB + SLACK,
        max_time: Duration::from_secs(10),
    },
    FuzzTarget {
        name: "soap",
        run: |input| quiet(|| vsphere::untrusted::decode_soap(input)),
        examples: &[
            r#"<soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><soapenv:Body><R xmlns="urn:vim25"><returnval><a xsi:type="xsd:string">b</a></returnval></R></soapenv:Body></soapenv:Envelope>"#,
        ],
        words: XML_WORDS,
        max_bytes: 192 * MIB,
        max_time: Duration::from_secs(20),
    },
    FuzzTarget {
        name: "vijson",
        run: |input| quiet(|| vsphere::untrusted::decode_vijson(input)),
        examples: &[
            r#"{"_typeName":"UpdateSet","version":"1","filterSet":[{"_typeName":"PropertyFilterUpdate","objectSet":[]}]}"#,
            "[0,0,0]",
        ],
        words: JSON_WORDS,
        max_bytes: 192 * MIB,
        max_time: Duration::from_secs(20),
    },
];
