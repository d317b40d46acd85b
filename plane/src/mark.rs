//! By what the processes of a stack are known.

/// The environment variable that every process of a stack carries, with the stack's id.
pub const MARK: &str = "LAYERCAKE_STACK";
/// The environment variable with the name of the process within its stack.
pub const NAME: &str = "LAYERCAKE_PROCESS";
