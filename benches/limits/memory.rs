//! The most memory that an `apply` holds while it brings a large image to a host.

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Duration;

use super::fleet::{EMPTY, Fleet, Image, Settings};
use super::lab::{lab, sha256};
use super::{Figure, seconds, timed};

const LENGTH: u64 = 1 << 30;
const LIMIT_KIB: u64 = 96 << 10;

pub fn measure() -> Vec<Figure> {
    let file = Path::new(&lab("LAB_WEB_DIR")).join("large.raw");
    write_image(&file);
    let sha256 = sha256(&file);
    let image = Image { key: "large", url: "large.raw".to_owned(), sha256, format: "raw", firmware: "bios" };
    let settings = Settings { disk_gib: 2, ..Settings::default() };
    let fleet = Fleet::new("memory", "lab", "libvirt", &[image], &settings);
    fleet.manifest("memory-1", "a", "tiny", "large", EMPTY);
    let (peak, time) = timed(|| {
        // Without its call log, as a user would run it.
        let mut run = fleet.start(&["apply", "--auto-approve", "--log-format", "text"], &[]);
        let status = format!("/proc/{}/status", run.child.id());
        let mut peak = 0;
        while !run.has_ended() {
            // The kernel keeps the highest value, so that only the last moments can be missed.
            peak = high_water_kib(&status).unwrap_or(peak);
            std::thread::sleep(Duration::from_millis(20));
        }
        run.finish().must(0);
        peak
    });
    fleet.destroy();
    fs::remove_file(file).unwrap();
    assert!(peak > 1024, "the peak was not read");
    vec![Figure {
        what: format!("peak memory of an apply with an image of 1 GiB ({})", seconds(time)),
        measured: format!("{} MiB", peak >> 10),
        limit: format!("{} MiB", LIMIT_KIB >> 10),
        within: peak < LIMIT_KIB,
    }]
}

/// A GiB of holes with some bytes that differ in each MiB: it is made at once, and no two pieces of
/// it are alike.
fn write_image(path: &Path) {
    let mut file = File::create(path).unwrap();
    file.set_len(LENGTH).unwrap();
    for piece in 0..LENGTH >> 20 {
        file.seek(SeekFrom::Start(piece << 20)).unwrap();
        let seed = piece.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        file.write_all(&seed.repeat(512)).unwrap();
    }
}

fn high_water_kib(status: &str) -> Option<u64> {
    let text = fs::read_to_string(status).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}
