//! What templates make of data, and how they are told to be wrong.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Functions, Template};

struct Two;

impl Functions for Two {
    fn call(&self, name: &str, args: &[Value]) -> Option<Result<Value, String>> {
        match name {
            "Ours" => Some(Ok(json!("ours"))),
            "Join" => Some(Ok(args.iter().map(|arg| arg.as_str().unwrap_or("?")).collect::<String>().into())),
            "Fails" => Some(Err("it never works".into())),
            _ => None,
        }
    }
}

fn data() -> Value {
    json!({
        "Devices": [{"IP": ["10.0.0.5/24"], "Gateway4": "10.0.0.1"}, {"IP": [], "Gateway4": ""}],
        "Servers": ["1.1.1.1", "8.8.8.8"], "Name": "cp-0", "Count": 2, "Empty": "",
        "Labels": {"a/b": "c"}, "VM": {"spec": {"className": "small"}, (super::builtin::SPARSE): true},
    })
}

fn rendered(text: &str) -> Result<String, String> {
    let template = Template::parse(text).map_err(|error| error.to_string())?;
    template.render(text, &data(), &Two).map_err(|error| error.to_string())
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
        (
            "{{ range .Empty2 }}{{ else }}none{{ end }}",
            "line 1, column 10: there is no field Empty2 in the data",
        ),
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
fn what_is_wrong_is_told_with_its_place() {
    let said = [
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
    insta::assert_snapshot!(said.join("\n"));
}

#[test]
fn a_template_can_not_run_away() {
    let loops = "{{ range $.Servers }}".repeat(20) + &"{{ end }}".repeat(20);
    assert!(rendered(&loops).unwrap_err().contains("too much"));
    let deep = format!("{{{{ {}1{} }}}}", "(".repeat(5000), ")".repeat(5000));
    assert!(rendered(&deep).unwrap_err().contains("too deeply"));
}

#[test]
fn only_templates_have_actions() {
    assert!(!Template::parse("a } { b").unwrap().has_actions());
    assert!(Template::parse("a {{ . }}").unwrap().has_actions());
}

proptest! {
    /// Whatever is written, it renders or is refused; text without braces stays as it is.
    #[test]
    fn nothing_panics(text in "[{}|()$.:=\"` a-c0-2\\-\n/*]{0,40}") {
        let _ = rendered(&text);
    }

    #[test]
    fn text_stays(text in "[^{]{0,40}") {
        prop_assert_eq!(rendered(&text).unwrap(), text);
    }
}
