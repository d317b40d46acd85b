//! Runs a control plane until standard input ends. The executable is also its own guard.
//!
//! `cargo run -p plane --example plane -- [--keep FOLDER] [NAME=EXE]...` prints the kubeconfig and starts Layercake's
//! programs (gcm, capw, vmop) from the given executables. Ctrl-D stops the control plane.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use plane::{Guard, Options, Plane, Program, StackIdentity, guard, tools};
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
    let mut args: Vec<_> = std::env::args().skip(1).collect();
    let folder = (args.first().is_some_and(|arg| arg == "--keep")).then(|| args.drain(..2).nth(1)).flatten();
    let stack = Arc::new(match folder {
        Some(folder) => StackIdentity::kept(folder.as_ref())?,
        None => StackIdentity::ephemeral()?,
    });
    let guard = Guard::start(&exe, &stack)?;
    let began = Instant::now();
    let plane =
        Plane::start(Options { stack: stack.clone(), tools, definitions: Vec::new(), guest_proxy: None })
            .await?;
    println!(
        "ready in {:.1} s: export KUBECONFIG={}",
        began.elapsed().as_secs_f32(),
        plane.kubeconfig().display()
    );
    for (name, exe) in args.iter().filter_map(|arg| arg.split_once('=')) {
        let running = plane.run(Program::new(name, exe.as_ref())).await?;
        println!("{name} is ready after {:.1} s: {}", began.elapsed().as_secs_f32(), running.metrics());
    }
    let _ = tokio::io::stdin().read_to_end(&mut Vec::new()).await;
    println!("{:#?}", plane.memory());
    let began = Instant::now();
    plane.stop().await;
    guard.finish()?;
    println!("stopped in {:.1} s", began.elapsed().as_secs_f32());
    Ok(())
}
