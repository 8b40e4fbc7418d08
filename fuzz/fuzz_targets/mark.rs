//! Marks of any text: what is read is read again as the same after it was written, and what is not
//! read still says whether it may be ours.
#![no_main]

use egress_plan::provider::libvirt::mark::{element, read, write};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| match read(text) {
    Ok(mark) => {
        // What XML cannot carry is refused when it is written, never changed.
        if let Ok(xml) = write(&mark) {
            assert_eq!(read(&xml).as_ref(), Ok(&mark));
        }
        if let Ok(xml) = element(&mark).to_xml() {
            assert_eq!(read(&xml).as_ref(), Ok(&mark));
        }
    }
    Err(error) => {
        let fleet = "fuzz".parse().expect("a label");
        let bears = error.bears().fleet.clone();
        assert_eq!(error.may_be_of(&fleet), bears.is_none_or(|found| found == fleet));
    }
});
