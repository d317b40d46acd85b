//! `image build`: a node image, from packages and Go modules.

use anyhow::Result;
use nodeimage::BuildRequest;

use crate::args::ImageBuild;
use crate::output::write_out;

/// Builds an image and prints the paths of its files.
pub async fn build(args: ImageBuild) -> Result<()> {
    let ImageBuild { kubernetes, os, output, lock } = args;
    let request = BuildRequest { kubernetes, os, out: output, lock };
    let making = move || nodeimage::build(&request, plane::tools::progress().as_ref());
    let made = tokio::task::spawn_blocking(making).await??;
    for file in &made.files {
        write_out(&format!("{}\n", file.display()));
    }
    Ok(())
}
