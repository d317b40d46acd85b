//! Runs a control plane until standard input ends. It is its own guard.
//!
//! `cargo run -p plane --example plane` prints the kubeconfig; Ctrl-D stops it.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use plane::{Guard, Options, Plane, Program, Stack, guard, tools};
use tokio::io::AsyncReadExt;

fn main() -> ExitCode {
    let args: Vec<_> = std::env::args_os().collect();
    if args.first().is_some_and(|name| name == guard::ARG0) {
        return guard::main(args);
    }
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main]
async fn run() -> plane::Result<()> {
    let tools = tools::ensure(&tools::Options::default(), &*tools::progress())?;
    let exe = PathBuf::from("/proc/self/exe");
    let stack = Arc::new(match std::env::args_os().nth(1) {
        Some(folder) => Stack::kept(folder.as_ref())?,
        None => Stack::ephemeral()?,
    });
    let guard = Guard::start(&exe, &stack)?;
    let began = Instant::now();
    let plane = Plane::start(Options { stack: stack.clone(), tools }).await?;
    println!(
        "ready in {:.1} s: export KUBECONFIG={}",
        began.elapsed().as_secs_f32(),
        plane.kubeconfig().display()
    );
    if let Some(program) = std::env::args().nth(2) {
        plane.run(Program::new(&program, &exe)).await?;
    }
    let _ = tokio::io::stdin().read_to_end(&mut Vec::new()).await;
    println!("{:#?}", plane.memory());
    let began = Instant::now();
    plane.stop().await;
    guard.finish()?;
    println!("stopped in {:.1} s", began.elapsed().as_secs_f32());
    Ok(())
}
