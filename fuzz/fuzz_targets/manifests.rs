//! Manifests of any bytes: read, the same each time, or refused with a reason; never a panic.
#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;

use egress_plan::load::{Loaded, Sources, load};
use libfuzzer_sys::fuzz_target;

/// A config in which manifests resolve, in a folder of this process.
static CONFIG: LazyLock<PathBuf> = LazyLock::new(|| {
    let path = std::env::temp_dir().join(format!("egress-plan-fuzz-manifests-{}.yaml", std::process::id()));
    std::fs::write(&path, include_str!("../../examples/quickstart/config.yaml")).expect("a file can be written");
    path
});

fuzz_target!(|bytes: &[u8]| {
    let sources = Sources { filenames: vec![PathBuf::from("-")], config: CONFIG.clone(), ..Sources::default() };
    match load(&sources, &mut &*bytes) {
        Ok(loaded) => {
            for (key, proxy) in &loaded.desired.proxies {
                assert_eq!(*key, proxy.key, "a proxy stands under its own key");
            }
            let again = load(&sources, &mut &*bytes).expect("what was read is read again");
            let wants = |loaded: &Loaded| serde_json::to_string(&loaded.desired).expect("JSON");
            assert_eq!(wants(&again), wants(&loaded), "the same manifests want the same");
        }
        Err(problems) => {
            assert!(problems.has_errors(), "a refusal says why");
            let text = problems.to_string();
            assert!(!text.contains('\u{1b}'), "a message holds an escape byte: {text:?}");
        }
    }
});
