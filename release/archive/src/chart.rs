//! Writes a Helm chart that installs the objects of `layercake manifests`.
//!
//! Helm creates the files in `crds` before it checks the kinds of all other objects. If they were templates, Helm would refuse the
//! chart, because it also contains objects of these kinds.

use std::path::Path;

use anyhow::Result;
use components::catalogue::{LAYERCAKE, OUR_IMAGES};
use components::manifest::DEFINITION;
use layercake::args::{ManifestsFlags, RegistryFlags};
use layercake::init;
use layercake::kube::manifest;
use serde_json::Value;

use crate::tree::write_file;

/// The chart's name, which is also the name of the folder in its archive.
pub const NAME: &str = "layercake";
/// The registry and tag in [`manifests`], which the chart's values replace.
const REGISTRY: &str = "registry.placeholder.invalid";
const TAG: &str = "tag-placeholder";

/// Returns the objects of an installation, with placeholders for the registry and tag.
pub fn manifests() -> Result<Vec<Value>> {
    init::manifest_objects(&from_registry(REGISTRY, TAG))
}

fn from_registry(registry: &str, tag: &str) -> ManifestsFlags {
    let registries = RegistryFlags {
        layercake_registry: Some(registry.to_owned()),
        layercake_tag: Some(tag.to_owned()),
        ..RegistryFlags::default()
    };
    ManifestsFlags { registries, ..ManifestsFlags::default() }
}

/// Writes the chart that creates these objects.
pub fn write(folder: &Path, objects: Vec<Value>) -> Result<()> {
    let (definitions, others): (Vec<_>, Vec<_>) =
        objects.into_iter().partition(|object| object["kind"] == DEFINITION);
    let templates = others.iter().map(template).collect::<Result<Vec<_>>>()?;
    let chart = format!(
        "apiVersion: v2\nname: {NAME}\ntype: application\ndescription: Kubernetes clusters made of vSphere VMs\nversion: {}\nappVersion: {LAYERCAKE}\n",
        env!("CARGO_PKG_VERSION")
    );
    let values = format!(
        "# The registry and path of Layercake's images. By default, the images must be imported on every node.\nregistry: {OUR_IMAGES}\n# The tag of these images.\ntag: {LAYERCAKE}\n"
    );
    for (file, text) in [
        ("Chart.yaml", chart),
        ("values.yaml", values),
        ("crds/install.yaml", manifest::yaml(&definitions)?),
        ("templates/install.yaml", manifest::yaml(&templates)?),
    ] {
        write_file(&folder.join(file), text.as_bytes())?;
    }
    Ok(())
}

/// Escapes the braces in an object's strings, and replaces the placeholders by values. JSON has two opening braces in a row only in
/// strings.
fn template(object: &Value) -> Result<Value> {
    let text = object
        .to_string()
        .replace("{{", "{{ `{{` }}")
        .replace(REGISTRY, "{{ .Values.registry }}")
        .replace(TAG, "{{ .Values.tag }}");
    Ok(serde_json::from_str(&text)?)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::process::Command;

    use plane::tools::{self, Module, Tool};
    use serde_json::json;
    use support::helm;
    use tempfile::TempDir;

    use super::*;
    use crate::pack;

    static MODULE: Module = Module::new("helm", &helm::SOURCES);
    static TOOL: Tool = Tool::new("helm", &MODULE, helm::PACKAGE).taking(100);

    /// A packed chart.
    struct Chart {
        folder: TempDir,
        helm: PathBuf,
    }

    impl Chart {
        fn new(objects: Vec<Value>) -> Self {
            let folder = tempfile::tempdir().unwrap();
            write(&folder.path().join(NAME), objects).unwrap();
            pack::archive(folder.path(), NAME, 0, &folder.path().join("chart.tgz")).unwrap();
            let helm = tools::ensure_one(&TOOL, &tools::Options::default(), &*tools::progress()).unwrap();
            Self { folder, helm }
        }

        /// Runs Helm, and returns its output.
        fn helm(&self, args: &[&str]) -> String {
            let mut command = Command::new(&self.helm);
            command.args(args).current_dir(self.folder.path()).env("HOME", self.folder.path());
            let output = command.output().unwrap();
            assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap()
        }

        /// Renders the chart.
        fn render(&self, values: &[&str]) -> Vec<Value> {
            let args = [&["template", NAME, "chart.tgz", "--include-crds"], values].concat();
            manifest::documents(&self.helm(&args)).unwrap()
        }
    }

    fn assert_equal(mut rendered: Vec<Value>, mut expected: Vec<Value>) {
        let key = |object: &Value| {
            let metadata = &object["metadata"];
            format!("{} {} {}", object["kind"], metadata["namespace"], metadata["name"])
        };
        rendered.sort_by_key(key);
        expected.sort_by_key(key);
        let keys = |objects: &[Value]| objects.iter().map(key).collect::<Vec<_>>();
        assert_eq!(keys(&rendered), keys(&expected));
        for (rendered, expected) in rendered.iter().zip(&expected) {
            assert_eq!(rendered, expected);
        }
    }

    #[test]
    fn helm_renders_the_manifests() {
        let chart = Chart::new(manifests().unwrap());
        chart.helm(&["lint", "--strict", "chart.tgz"]);
        let default = init::manifest_objects(&ManifestsFlags::default()).unwrap();
        assert_equal(chart.render(&[]), default);

        let (registry, tag) = ("registry.example.com/layercake", "2");
        let chosen = init::manifest_objects(&from_registry(registry, tag)).unwrap();
        let values = [format!("--set=registry={registry}"), format!("--set=tag={tag}")];
        assert_equal(chart.render(&[&values[0], &values[1]]), chosen);
    }

    #[test]
    fn helm_keeps_braces() {
        let text = "{{ .Values.tag }}, {{`{{ a }}`}} and {{{{";
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "braces" }, "data": { "text": text },
        });
        assert_equal(Chart::new(vec![object.clone()]).render(&[]), vec![object]);
    }
}
