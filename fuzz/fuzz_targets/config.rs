//! Configs of any bytes: read or refused with a place, never a panic.
#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;

use egress_plan::load::load_config;
use libfuzzer_sys::fuzz_target;

static PATH: LazyLock<PathBuf> =
    LazyLock::new(|| std::env::temp_dir().join(format!("egress-plan-fuzz-config-{}.yaml", std::process::id())));

fuzz_target!(|bytes: &[u8]| {
    std::fs::write(&*PATH, bytes).expect("a file can be written");
    match load_config(&PATH, None) {
        Ok(config) => {
            assert!(!config.providers.is_empty(), "a config without a provider is refused");
            assert!((1..=256).contains(&config.concurrency.hosts), "a bound is kept");
        }
        Err(problems) => {
            assert!(problems.has_errors(), "a refusal says why");
            let text = problems.to_string();
            assert!(!text.contains('\u{1b}'), "a message holds an escape byte: {text:?}");
        }
    }
});
