//! Things of others on the same hosts: whatever runs beside them, they stay byte for byte.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::fleet::{EMPTY, Fleet, Image, Settings};
use super::guests::CRAWL;
use super::lab::{lab, pool, sha256, tool, virsh, volumes};

/// Something that nobody may change, as it was when it was made.
enum Thing {
    /// A domain and its persistent configuration.
    Domain(String, String),
    /// A file and its digest.
    File(PathBuf, String),
}

static THINGS: Mutex<Vec<Thing>> = Mutex::new(Vec::new());

fn keep_domain(name: &str) {
    let xml = virsh(&["dumpxml", "--inactive", name]);
    THINGS.lock().unwrap().push(Thing::Domain(name.to_owned(), xml));
}

fn keep_file(path: PathBuf) {
    let digest = sha256(&path);
    THINGS.lock().unwrap().push(Thing::File(path, digest));
}

/// Names of the files that are kept.
pub fn files() -> Vec<String> {
    let things = THINGS.lock().unwrap();
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    things.iter().filter_map(|thing| if let Thing::File(path, _) = thing { Some(name(path)) } else { None }).collect()
}

/// Says what changed, if anything did.
pub fn check() -> Result<(), String> {
    for thing in THINGS.lock().unwrap().iter() {
        match thing {
            Thing::Domain(name, xml) if super::lab::try_virsh(&["dumpxml", "--inactive", name]).as_ref() != Ok(xml) => {
                return Err(format!("the domain {name} of somebody else was changed"));
            }
            Thing::File(path, digest) if !path.exists() || sha256(path) != *digest => {
                return Err(format!("the file {} of somebody else was changed", path.display()));
            }
            _ => {}
        }
    }
    Ok(())
}

/// A domain of another fleet, an unmarked one with a name of ours, and foreign volumes.
pub fn plant() {
    let settings = Settings::default();
    let others = Fleet::new("others", "other", "kvm2", &[Image::blank()], &settings);
    others.want("other-1", "b");
    others.apply(0);
    keep_domain(&others.instance("other-1", "b"));

    let squatter = CRAWL.instance("squatter", "a");
    let disk = pool("a").join("squatter.raw");
    fs::write(&disk, vec![7; 1 << 20]).unwrap();
    let xml = format!(
        "<domain type='qemu'><name>{squatter}</name><memory unit='MiB'>64</memory>\
         <os><type arch='x86_64' machine='q35'>hvm</type></os><devices><disk type='file' device='disk'>\
         <driver name='qemu' type='raw'/><source file='{}'/><target dev='vda' bus='virtio'/></disk></devices></domain>",
        disk.display()
    );
    define(&xml);
    keep_domain(&squatter);

    for (zone, name) in [("a", "database.qcow2"), ("b", "notes.raw")] {
        tool("qemu-img", &["create", "-q", "-f", "qcow2", pool(zone).join(name).to_str().unwrap(), "1M"]);
        virsh(&["pool-refresh", &lab(if zone == "a" { "LAB_POOL_A" } else { "LAB_POOL_B" })]);
        for volume in volumes(zone) {
            keep_file(pool(zone).join(volume));
        }
    }
}

fn define(xml: &str) {
    let file = Path::new(&lab("LAB_DIR")).join("tmp/domain.xml");
    fs::write(&file, xml).unwrap();
    virsh(&["define", file.to_str().unwrap()]);
}

/// Puts `text` between two marks in place of what is there.
fn put(xml: &str, before: &str, text: &str, after: &str) -> String {
    let begin = xml.find(before).unwrap() + before.len();
    let end = begin + xml[begin..].find(after).unwrap();
    [&xml[..begin], text, &xml[end..]].concat()
}

/// A clone of a machine of ours, mark and all, with a name, a UUID and disks of its own.
pub fn plant_copy() {
    let original = CRAWL.instance("crawl-1", "a");
    let xml = virsh(&["dumpxml", "--inactive", &original]);
    let uuid = virsh(&["domuuid", &original]);
    // The UEFI variables are left to libvirt, which gives each name a file of its own.
    let xml: String = xml.lines().filter(|line| !line.contains("<nvram")).collect();
    let xml = put(&xml, "<name>", "copy-of-crawl-1", "</name>");
    let xml = put(&xml, "<uuid>", "0b5c3d1e-7f2a-4c6d-8e9f-a1b2c3d4e5f6", "</uuid>");
    let mut xml = put(&xml, "<mac address='", "52:54:00:0c:0b:01", "'");
    assert!(xml.contains(&uuid), "the mark is a copy too");
    let short = &uuid[..8];
    for (of, copy) in [
        (format!("{original}-{short}.qcow2"), "copied.qcow2"),
        (format!("{original}-{short}-seed.iso"), "copied-seed.iso"),
    ] {
        tool("qemu-img", &["create", "-q", "-f", "qcow2", pool("a").join(copy).to_str().unwrap(), "1M"]);
        xml = xml.replace(&of, copy);
        keep_file(pool("a").join(copy));
    }
    define(&xml);
    keep_domain("copy-of-crawl-1");
    CRAWL
        .diff(3)
        .says(&["blocked: the mark was written for another domain", "copy-of-crawl-1"])
        .ends_with("Plan: 0 to create, 0 to start, 0 to update, 0 to replace, 0 to delete, 1 blocked.");
}

/// A manifest that wants the very name that somebody's domain has.
pub fn squatter_is_blocked() {
    CRAWL.manifest("squatter", "a", "small", "debian", EMPTY);
    let run = CRAWL.run(&["apply", "--auto-approve"]);
    CRAWL.unwant("squatter");
    run.must(3)
        .says(&[&CRAWL.instance("squatter", "a"), "default/squatter"])
        .ends_with("Plan: 0 to create, 0 to start, 0 to update, 0 to replace, 0 to delete, 2 blocked.");
}

/// The last look, after everything.
pub fn untouched() {
    let things = THINGS.lock().unwrap().len();
    assert!(things >= 10, "{things} things were planted");
    check().unwrap();
}
