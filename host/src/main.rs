//! The `chiton` command. Everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    chiton::cli::main()
}
