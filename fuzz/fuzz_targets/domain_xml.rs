//! Domain XML of any text: what is read is named in full, and an element that is written is read as
//! the same.
#![no_main]

use egress_plan::provider::libvirt::domain_read::{DomainFacts, Source};
use egress_plan::provider::libvirt::host::storage_xml::{parse_pool, parse_volume};
use egress_plan::provider::libvirt::xml::Element;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = (parse_pool(text), parse_volume(text));
    let Ok(facts) = DomainFacts::read(text) else { return };
    for disk in &facts.disks {
        // A file that a disk is made of counts as named, or a prune would delete it.
        if let Source::Path(path) = &disk.source
            && path.starts_with('/')
        {
            let file = path.rsplit('/').next().unwrap_or_default();
            assert!(facts.names_volume(file), "{path:?} is not named");
        }
        if let Source::Volume { volume, .. } = &disk.source {
            assert!(facts.names_volume(volume), "{volume:?} is not named");
        }
    }
    if let Ok(root) = Element::read(text)
        && let Ok(xml) = root.to_xml()
    {
        same(&root, &Element::read(&xml).expect("what is written can be read"));
    }
});

/// Indentation is all that writing may add.
fn same(one: &Element, other: &Element) {
    assert_eq!(one.name(), other.name());
    assert_eq!(one.every().len(), other.every().len(), "children of {}", one.name());
    if one.every().is_empty() {
        assert_eq!(one.value(), other.value(), "text of {}", one.name());
    }
    one.every().iter().zip(other.every()).for_each(|(one, other)| same(one, other));
}
