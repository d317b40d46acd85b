//! Finds or builds the programs of the stack and says where they are.

fn main() -> Result<(), plane::Error> {
    let site = std::env::args().any(|arg| arg == "--site");
    let tools = plane::tools::ensure(
        &plane::tools::Options { site, ..Default::default() },
        &*plane::tools::progress(),
    )?;
    println!("{tools:#?}");
    Ok(())
}
