//! Writes the table of recordings in docs/vcenter.md, and recordings as the wire check reads them.

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use replay::folder::{Folder, VARIABLE, from_environment};
use replay::page::with_table;

const USAGE: &str = "usage: recordings page <PAGE | recordings traffic FOLDER";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        ["page"] => print_page(),
        ["traffic", folder] => write_traffic(Path::new(folder)),
        _ => Err(anyhow::anyhow!(USAGE)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Writes the page of standard input with the table of the recordings; without recordings the page stays as it is.
fn print_page() -> Result<()> {
    let page = std::io::read_to_string(std::io::stdin())?;
    let Some(folder) = from_environment() else {
        eprintln!("skipped: the table of recorded vCenters in docs/vcenter.md: {VARIABLE} names no folder");
        print!("{page}");
        return Ok(());
    };
    let made = with_table(&page, &Folder::read(&folder)?);
    print!("{}", made.context("the page has no marks for the table of recorded vCenters")?);
    Ok(())
}

/// Writes a file of exchanges for each recording.
fn write_traffic(into: &Path) -> Result<()> {
    let Some(folder) = from_environment() else { bail!("{VARIABLE} names no folder") };
    std::fs::create_dir_all(into)?;
    for file in Folder::read(&folder)?.files {
        let path = into.join(format!("{}.jsonl", file.name.replace('/', "-")));
        let mut out = std::io::BufWriter::new(std::fs::File::create(&path)?);
        for (_, exchange) in &file.exchanges {
            serde_json::to_writer(&mut out, exchange)?;
            out.write_all(b"\n")?;
        }
        out.flush()?;
    }
    Ok(())
}
