//! Renders user data as cloud-init does. User data is a jinja template if its first line is `## template: jinja`.

use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, ErrorKind, UndefinedBehavior};
use serde_json::Value;

use super::failure::{Failure, Reason};

const JINJA: &str = "## template: jinja";
const CLOUD_CONFIG: &str = "#cloud-config";
/// The marker that cloud-init writes for an undefined variable, with only a warning.
const MISSING: &str = "CI_MISSING_JINJA_VAR";

/// Returns the rendered cloud-config document.
///
/// cloud-init writes a marker for an undefined variable and continues. Such a node fails in ways that are hard to diagnose,
/// so an undefined variable is an error here.
pub fn cloud_config(userdata: &[u8], variables: &Value) -> Result<String, Failure> {
    let text = std::str::from_utf8(userdata).map_err(|_| format_error("not UTF-8"))?;
    let rendered = match text.strip_prefix(JINJA) {
        Some(rest) => {
            template(rest.strip_prefix('\n').ok_or_else(|| format_error("no template"))?, variables)?
        }
        None => text.to_owned(),
    };
    if let Some(at) = rendered.find(MISSING) {
        let name = rendered[at..].split_whitespace().next().unwrap_or(MISSING);
        return Err(Failure::new(Reason::TemplateVariable, format!("the user data holds {name}")));
    }
    let first = rendered.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    if first.trim_end() == CLOUD_CONFIG {
        Ok(rendered)
    } else {
        Err(format_error("no #cloud-config document"))
    }
}

fn format_error(what: &str) -> Failure {
    Failure::new(Reason::UserdataFormat, format!("the user data is {what}"))
}

fn template(text: &str, variables: &Value) -> Result<String, Failure> {
    let mut jinja = Environment::new();
    jinja.set_undefined_behavior(UndefinedBehavior::SemiStrict);
    let mut syntax = SyntaxConfig::builder();
    syntax.trim_blocks(true).keep_trailing_newline(true);
    jinja.set_syntax(syntax.build().map_err(|error| Failure::host("set up jinja", &error))?);
    // cloud-init renders plain text, so don't escape HTML.
    jinja.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    jinja.render_str(text, minijinja::value::Serde(variables)).map_err(|error| {
        let line = error.line().map_or_else(String::new, |line| format!(" at line {}", line + 1));
        match error.kind() {
            ErrorKind::UndefinedError => Failure::new(
                Reason::TemplateVariable,
                format!("the template uses a variable that is not set{line}"),
            ),
            kind => Failure::new(Reason::Template, format!("the template can't be rendered{line}: {kind}")),
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn render(text: &str) -> Result<String, Reason> {
        let variables = json!({"ds": {"meta_data": {"local_hostname": "cp-0", "local_ipv4": "10.1.2.3"}}});
        cloud_config(text.as_bytes(), &variables).map_err(|failure| failure.reason)
    }

    #[test]
    fn templates_are_rendered_only_where_they_are_announced() {
        let plain = "#cloud-config\nhostname: '{{ ds.meta_data.local_hostname }}'\n";
        assert_eq!(render(plain).as_deref(), Ok(plain));
        let announced = format!("## template: jinja\n{plain}");
        assert_eq!(render(&announced).as_deref(), Ok("#cloud-config\nhostname: 'cp-0'\n"));
        // Releases from 2020 write a blank line after the header.
        assert!(render("## template: jinja\n#cloud-config\n\nwrite_files: []\n").is_ok());
    }

    #[test]
    fn a_condition_may_ask_for_what_is_not_set() {
        let endpoint = "{% if ds.meta_data.controlPlaneEndpoint %}{{ ds.meta_data.controlPlaneEndpoint }}{% else %}\
                        {{ ds.meta_data.local_ipv4 }}:6443{% endif %}";
        let text = format!("## template: jinja\n#cloud-config\nx: {endpoint}\n");
        assert_eq!(render(&text).as_deref(), Ok("#cloud-config\nx: 10.1.2.3:6443"));
    }

    #[test]
    fn what_is_not_set_ends_the_boot() {
        for text in [
            "## template: jinja\n#cloud-config\nx: {{ ds.meta_data.nothing }}\n",
            "## template: jinja\n#cloud-config\nx: {{ nothing.at_all }}\n",
            "#cloud-config\nx: CI_MISSING_JINJA_VAR/ds\n",
        ] {
            assert_eq!(render(text), Err(Reason::TemplateVariable), "{text}");
        }
        assert_eq!(render("## template: jinja\n#cloud-config\n{% if %}\n"), Err(Reason::Template));
        assert_eq!(render("##template: jinja\n#cloud-config\n"), Err(Reason::UserdataFormat));
        assert_eq!(render("#!/bin/sh\n"), Err(Reason::UserdataFormat));
    }
}
