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

/// One parser.
pub struct Target {
    /// Its name on the command line.
    pub name: &'static str,
    /// Feeds it.
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
        let _ = conversion::answer(&read, api::gcm::convert::convert);
        let _ = conversion::answer(&read, api::vmop::convert);
    }
}

fn guests_answer(input: &[u8]) {
    let _ = answer::read::<answer::MetadataOnly<OurMarks>>(input);
    let _ = answer::read::<Live>(input);
}

/// All targets.
pub const TARGETS: &[Target] = &[Target {
    name: "text",
    run: |input| drop(bounds::printable(&String::from_utf8_lossy(input), 400)),
    examples: &["a plain line", "two\nlines", "\u{1b}]0;title\u{7}\u{202e}"],
    words: &["\u{1b}[31m", "\u{202e}", "\u{9b}", "é", "\r\n"],
    max_bytes: 4 * MIB,
    max_time: Duration::from_secs(1),
}];
