//! Tests for rendering, limits and error reports.

use bounds::{Budget, Exceeded};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Error, FunctionError, Functions, Template};

/// A budget that suffices for all templates except runaway ones.
const ENOUGH: usize = 8 << 20;

struct Two;

impl Functions for Two {
    fn call(&self, name: &str, args: &[&Value], budget: &Budget) -> Option<Result<Value, FunctionError>> {
        match name {
            "Ours" => Some(Ok(json!("ours"))),
            "Join" => Some(Ok(args.iter().map(|arg| arg.as_str().unwrap_or("?")).collect::<String>().into())),
            "Repeat" => {
                Some(budget.spend(1 << 16).map(|()| "r".repeat(1 << 16).into()).map_err(FunctionError::from))
            }
            "Fails" => Some(Err("it never works".into())),
            _ => None,
        }
    }
}

fn data() -> Value {
    json!({
        "Devices": [{"IP": ["10.0.0.5/24"], "Gateway4": "10.0.0.1"}, {"IP": [], "Gateway4": ""}],
        "Servers": ["1.1.1.1", "8.8.8.8"], "Name": "cp-0", "Count": 2, "Empty": "",
        "Labels": {"a/b": "c"}, "VM": {"spec": {"className": "small"}, (super::SPARSE): true},
    })
}

fn rendered(text: &str) -> Result<String, String> {
    within(text, &data(), ENOUGH).map(|(text, _)| text).map_err(|error| error.to_string())
}

/// Returns the rendered text and the number of charged bytes.
fn within(text: &str, data: &Value, bytes: usize) -> Result<(String, usize), Error> {
    let budget = Budget::new(bytes);
    let rendered = Template::parse(text, &budget)?.render(text, data, &Two, &budget)?;
    Ok((rendered, bytes - budget.left()))
}

fn exceeds(text: &str, data: &Value) -> bool {
    let exceeded = within(text, data, ENOUGH).map_err(|error| error.exceeded);
    exceeded == Err(Some(Exceeded::Bytes { limit: ENOUGH }))
}

#[test]
fn actions_are_carried_out_as_go_does() {
    for (template, text) in [
        ("plain } { text", "plain } { text"),
        ("a {{/* {{ no }} */}} b", "a  b"),
        ("a {{- /* c */ -}} b", "ab"),
        ("{{ .Name }}-{{.Count}}", "cp-0-2"),
        ("x  {{- .Name -}}  y", "xcp-0y"),
        ("{{ \"a\\tb\" }}{{ `r\\w` }}{{ -3 }}{{ 1.5 }}{{ true }}", "a\tbr\\w-31.5true"),
        ("{{ (index .Devices 0).Gateway4 }}", "10.0.0.1"),
        ("{{ index (index .Devices 0).IP 0 }}", "10.0.0.5/24"),
        ("{{ index .Devices 0 }}", "map[Gateway4:10.0.0.1 IP:[10.0.0.5/24]]"),
        ("{{ index .Labels \"a/b\" }}", "c"),
        ("{{ $n := .Name }}{{ $n = print $n 1 }}{{ $n }}", "cp-01"),
        ("{{ if .Empty }}e{{ else if eq .Count 1 2 }}two{{ else }}n{{ end }}", "two"),
        ("{{ range .Servers }}[{{ . }}]{{ end }}", "[1.1.1.1][8.8.8.8]"),
        ("{{ range $i, $s := .Servers }}{{ if $i }},{{ end }}{{ $s }}{{ end }}", "1.1.1.1,8.8.8.8"),
        ("{{ range $s := .Servers }}{{ $s }}{{ $.Count }}{{ end }}", "1.1.1.128.8.8.82"),
        ("{{ range .Empty2 }}{{ else }}none{{ end }}", "line 1, column 10: the field does not exist"),
        ("{{ with index .Devices 0 }}{{ .Gateway4 }}{{ end }}", "10.0.0.1"),
        ("{{ with $x := .Empty }}{{ $x }}{{ else }}-{{ end }}", "-"),
        ("{{ .Servers }}", "[1.1.1.1 8.8.8.8]"),
        ("{{ .Name | printf \"%s=%d%%\" \"n\" | len }}", "7"),
        ("{{ .Count | printf \"%s=%d%%\" \"n\" }}", "n=2%"),
        ("{{ len .Servers }}{{ len .Name }}", "24"),
        ("{{ and .Name .Empty }}{{ or .Empty .Name }}{{ not .Empty }}", "cp-0true"),
        ("{{ lt 1 2 }}{{ ge \"a\" \"b\" }}{{ ne .Count 2 }}", "truefalsefalse"),
        ("{{ slice .Name 0 2 }}{{ slice .Servers 1 }}", "cp[8.8.8.8]"),
        ("{{ Ours }}{{ Ours | Join \"a\" }}{{ Join (print 1) \"b\" }}", "oursaours1b"),
        ("{{ .VM.Spec.ClassName }}{{ .VM.Nothing }}", "small"),
    ] {
        let got = rendered(template).unwrap_or_else(|error| error);
        assert_eq!(got, text, "{template}");
    }
}

#[test]
fn an_error_has_its_place() {
    let errors = [
        "a\nb {{ .Name",
        "{{ .Nowhere }}",
        "{{ Nobody }}",
        "{{ Fails }}",
        "x\n  {{ index .Devices 7 }}",
        "{{ if .Name }}",
        "{{ end }}",
        "{{ else }}",
        "{{ if 1 }}{{ else }}{{ else }}{{ end }}",
        "{{ define \"x\" }}{{ end }}",
        "{{ (.Name }}",
        "{{ .Name 3 }}",
        "{{ \"abc }}",
        "{{ }}",
        "{{ $x }}",
        "{{ 1a }}",
        "{{ ! }}",
        "{{ range .Count }}{{ end }}",
        "{{ .Name.First }}",
        "{{/* no end",
    ]
    .map(|template| format!("{template:?}: {}", rendered(template).unwrap_err()));
    insta::assert_snapshot!(errors.join("\n"));
}

#[test]
fn a_template_can_not_run_away() {
    let loops = "{{ range $.Servers }}".repeat(20) + &"{{ end }}".repeat(20);
    assert!(within(&loops, &data(), 64 << 20).unwrap_err().to_string().contains("exceeds its limits"));
    assert!(exceeds(&loops, &data()));
    let deep = format!("{{{{ {}1{} }}}}", "(".repeat(5000), ")".repeat(5000));
    assert!(rendered(&deep).unwrap_err().contains("too deeply"));
}

#[test]
fn a_template_that_multiplies_a_value_is_refused() {
    let start = format!("{{{{ $a := \"{}\" }}}}", "a".repeat(16));
    for action in [
        "{{ $a = print $a $a $a $a }}",
        "{{ $a = println $a $a $a $a }}",
        "{{ $a = printf \"%s%s%q%v\" $a $a $a $a }}",
        "{{ $a = $a | print $a | print $a | print $a }}",
        "{{ with $b := print $a $a $a $a }}{{ $a = $b }}{{ end }}",
        "{{ $a = Join $a $a $a $a }}",
    ] {
        let text = format!("{start}{}", action.repeat(12));
        assert!(exceeds(&text, &data()), "{action}");
    }
    let kept = "{{ range $.Many }}{{ $x := Repeat }}{{ end }}";
    assert!(exceeds(kept, &json!({ "Many": vec![0; 1000] })), "what functions return is counted");
}

#[test]
fn work_on_large_values_is_counted() {
    let large = "x".repeat(1 << 20);
    let data = json!({ "A": large, "B": large.clone(), "Many": vec![0; 1000], "Map": {"k": large} });
    for body in [
        "{{ if eq $.A $.B }}{{ end }}",
        "{{ if lt $.A $.B }}{{ end }}",
        "{{ if eq $ $ }}{{ end }}",
        "{{ $x := slice $.A 1 }}",
        "{{ $x := slice $.Many 1 }}",
        "{{ $x := print $.A }}",
        "{{ range $.Many }}{{ end }}",
        "{{ $x := printf $.A }}",
        "{{ $x := index $.Map $.A }}",
    ] {
        assert!(exceeds(&format!("{{{{ range $.Many }}}}{body}{{{{ end }}}}"), &data), "{body}");
    }
}

/// A growing string uses its old and its new buffer at the same time, so more than its length is charged.
#[test]
fn text_that_grows_is_counted_with_its_buffers() {
    let length = 1 << 20;
    let letters = vec!["xx"; length / 2];
    for body in
        ["{{ $x := print $.Letters }}", "{{ $x := printf $.Format }}", "{{ $x := println $.Letters }}"]
    {
        let (_, spent) =
            within(body, &json!({ "Letters": letters, "Format": "x".repeat(length) }), ENOUGH).unwrap();
        assert!(spent > length * 5 / 2, "{body}: {spent}");
    }
}

#[test]
fn what_lies_in_the_data_is_borrowed() {
    let data = json!({ "Large": {"A": "x".repeat(1 << 20), "B": vec![0; 1000]}, "Many": vec![0; 100] });
    for body in [
        "{{ $x := $ }}",
        "{{ $x := $.Large }}",
        "{{ $x := .Large }}",
        "{{ with $x := $.Large }}{{ $y := $x }}{{ end }}",
        "{{ $x := index $ \"Large\" \"A\" }}",
        "{{ $x := and $.Large $ }}{{ $x = or $x $ }}",
        "{{ if len $.Large.A }}{{ end }}",
    ] {
        let text = format!("{}{body}{}", "{{ range $i, $_ := .Many }}{{ with $ }}", "{{ end }}{{ end }}");
        let (_, spent) = within(&text, &data, ENOUGH).unwrap();
        assert!(spent < 256 * 1024, "{body}: {spent}");
    }
}

#[test]
fn the_text_of_a_template_is_counted_with_what_is_made_of_it() {
    let long = |part: &str| part.repeat((1 << 20) / part.len());
    let texts = [
        long("{{.}}"),
        format!("{{{{ print {} }}}}", long(". ")),
        format!("{{{{ {} }}}}", long("(.)|")),
        "x".repeat(ENOUGH),
    ];
    for text in texts {
        assert!(exceeds(&text, &data()), "{}", &text[..20]);
    }
    let (_, spent) = within(&long("only text "), &data(), ENOUGH).unwrap();
    assert!(spent < 4 << 20, "{spent}");
    let names: String =
        (0..2000).map(|n| format!("{{{{$v{n}:=1}}}}")).chain((0..2000).map(|_| "{{$v1}}".into())).collect();
    assert!(exceeds(&names, &data()), "variables that are searched for are counted");
}

#[test]
fn a_template_ends_when_its_time_is_up() {
    let budget = Budget::new(ENOUGH);
    let template = Template::parse("{{ . }}", &budget).unwrap();
    budget.stop();
    let ended = template.render("{{ . }}", &data(), &Two, &budget).unwrap_err();
    assert_eq!(ended.exceeded, Some(Exceeded::Time));
}

const CANARY: &str = "S3cr3tC4nary";

/// Template fragments that contain a Secret's text as a name or a string.
const LEAKS: &[&str] = &[
    "{{S3cr3tC4nary}}",
    "{{ .S3cr3tC4nary }}",
    "{{ .Name.S3cr3tC4nary }}",
    "{{ $S3cr3tC4nary }}",
    "{{ $S3cr3tC4nary = 1 }}",
    "{{ index . \"S3cr3tC4nary\" 1 }}",
    "{{ index 1 `S3cr3tC4nary` }}",
    "{{ .Name | S3cr3tC4nary }}",
    "{{ len (slice \"S3cr3tC4nary\" 90) }}",
    "{{ slice .Name \"S3cr3tC4nary\" }}",
    "{{ lt 1 \"S3cr3tC4nary\" }}",
    "{{ range \"S3cr3tC4nary\" }}{{ end }}",
    "{{ printf \"S3cr3tC4nary%\" }}",
    "{{ printf \"%x\" \"S3cr3tC4nary\" }}",
    "{{ \"S3cr3tC4nary",
    "{{ \"\\qS3cr3tC4nary\" }}",
    "{{ 1S3cr3tC4nary }}",
    "{{ block \"S3cr3tC4nary\" . }}",
    "{{/* S3cr3tC4nary",
];

#[test]
fn an_error_quotes_nothing_of_the_template() {
    for text in LEAKS {
        let error = rendered(text).unwrap_err();
        assert!(error.starts_with("line 1, column ") && !error.contains(CANARY), "{text}: {error}");
    }
}

#[test]
fn only_templates_have_actions() {
    let has_actions = |text: &str| Template::parse(text, &Budget::new(ENOUGH)).unwrap().has_actions();
    assert!(!has_actions("a } { b"));
    assert!(has_actions("a {{ . }}"));
}

const ACTIONS: &[&str] = &[
    "{{$a := .Name}}",
    "{{$a := $}}",
    "{{$a := print $a $a}}",
    "{{$a}}",
    "{{range $.Servers}}",
    "{{with $b := slice $.Servers 0}}{{$b}}{{end}}",
    "{{$a := printf \"%v-%q\" $a $a}}",
    "{{if eq $a $a}}same{{end}}",
    "{{$.}}",
    "{{Join $a $a}}",
];

proptest! {
    /// Arbitrary text is rendered or rejected without a panic.
    #[test]
    fn nothing_panics(text in "[{}|()$.:=\"` a-c0-2\\-\n/*]{0,40}") {
        let _ = rendered(&text);
    }

    /// With any budget, a rendering stays within the budget, and its result isn't longer than the charged bytes.
    #[test]
    fn no_result_is_longer_than_what_was_spent(
        actions in proptest::collection::vec(proptest::sample::select(ACTIONS), 0..30), bytes in 0_usize..200_000,
    ) {
        let text = actions.concat() + &"{{end}}".repeat(actions.iter().filter(|action| action.contains("range")).count());
        match within(&text, &data(), bytes) {
            Ok((rendered, spent)) => prop_assert!(rendered.len() <= spent && spent <= bytes),
            Err(error) => prop_assert!(!matches!(error.exceeded, Some(Exceeded::Time))),
        }
    }

    /// Errors don't contain names or strings from the template, regardless of the surrounding text.
    #[test]
    fn no_error_contains_the_canary(
        before in "[{}|()$.:=\"` a-c0-2\\-\n]{0,12}", leak in proptest::sample::select(LEAKS), after in "[{}|()$.\"` a-c]{0,12}",
    ) {
        if let Err(error) = within(&format!("{before}{leak}{after}"), &data(), ENOUGH) {
            let shown = format!("{error} {error:?}");
            prop_assert!(!shown.contains(CANARY), "{}", shown);
        }
    }

    #[test]
    fn text_stays(text in "[^{]{0,40}") {
        prop_assert_eq!(rendered(&text).unwrap(), text);
    }
}
