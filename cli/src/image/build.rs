//! `image build`: builds a node image from packages and Go modules.

use anyhow::Result;
use nodeimage::BuildRequest;

use crate::args::ImageBuild;
use crate::terminal::output::write_out;

/// Builds an image and prints the paths of its files.
pub async fn build(args: ImageBuild) -> Result<()> {
    let ImageBuild { kubernetes, os, output_folder: output, lock, preload } = args;
    let request = BuildRequest { kubernetes, os, out: output, lock, preload };
    let making = move || nodeimage::build(&request, plane::tools::progress().as_ref());
    let made = tokio::task::spawn_blocking(making).await??;
    for file in &made.files {
        write_out(&format!("{}\n", file.display()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use api::names::KEEPALIVED_IMAGE;
    use gcm::addons::builtin::BUILT_IN;
    use nodeimage::{RELEASES, image_names};

    /// Nodes contain the images that gcm's own manifests name, so a cluster comes up without access to a registry.
    #[test]
    fn images_of_the_built_in_add_ons_are_there() {
        let files: Vec<_> = BUILT_IN.iter().flat_map(|built_in| built_in.bundle().files).collect();
        let named: Vec<_> = files
            .iter()
            .flat_map(|file| file.text.expose().lines())
            .filter_map(|line| line.trim_start_matches([' ', '-']).strip_prefix("image: "))
            .chain([KEEPALIVED_IMAGE])
            .collect();
        assert!(named.len() > BUILT_IN.len(), "{named:?}");
        for release in &RELEASES {
            let held = image_names(release);
            let missing: Vec<_> =
                named.iter().filter(|image| !held.iter().any(|name| name == *image)).collect();
            assert!(missing.is_empty(), "{}: {missing:?}", release.minor);
        }
    }
}
