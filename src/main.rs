//! The `dlo` program: everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    dead_letter_office::cli::main()
}
