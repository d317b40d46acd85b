//! Generates the recordings table in docs/vcenter.md: `recordings page <PAGE`.

use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use replay::folder::{RecordingsFolder, VARIABLE, from_environment};
use replay::page::with_table;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match print_page(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Reads the page from standard input, replaces the table and prints the page. Without recordings, prints it
/// unchanged.
fn print_page(arguments: &[String]) -> Result<()> {
    if arguments != ["page"] {
        bail!("usage: recordings page <PAGE");
    }
    let page = std::io::read_to_string(std::io::stdin())?;
    let Some(folder) = from_environment() else {
        eprintln!("skipped: the table of recorded vCenters in docs/vcenter.md: {VARIABLE} names no folder");
        print!("{page}");
        return Ok(());
    };
    let made = with_table(&page, &RecordingsFolder::read(&folder)?);
    print!("{}", made.context("the page has no marks for the table of recorded vCenters")?);
    Ok(())
}
