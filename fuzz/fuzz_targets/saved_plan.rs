//! Saved plans of any text: what is read is the same after it was written, and never stands for more
//! than it holds.
#![no_main]

use egress_plan::plan::saved::{read, still_stands};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(plan) = read(text) else { return };
    let written = serde_json::to_string(&plan).expect("a plan can be written");
    assert_eq!(read(&written).expect("what is written can be read"), plan);

    let mut nothing = plan.clone();
    nothing.actions.clear();
    if let Ok(stands) = still_stands(&plan, nothing.clone()) {
        assert!(plan.actions.is_empty() && stands.actions.is_empty());
    }
    // An empty file carries nothing out, whatever could be done now.
    if let Ok(stands) = still_stands(&nothing, plan) {
        assert!(stands.actions.is_empty());
    }
});
