//! The `egress-plan` command.

fn main() {}
