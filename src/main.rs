//! The `egress-plan` command.

fn main() -> std::process::ExitCode {
    egress_plan::run::main(std::env::args_os())
}
