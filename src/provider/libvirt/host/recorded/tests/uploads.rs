//! Uploads: what their end says, and what it does not.

use super::super::super::calls::Calls;
use super::super::probe::tests::qcow2;
use super::{calls, connect, refusal, volume_xml, world};

const CHUNK: usize = 64 << 10;

fn send(calls: &mut dyn Calls, name: &str, bytes: &[u8], length: usize) -> Result<(), (i32, i32)> {
    let length = u64::try_from(length).unwrap();
    calls.upload(name, &mut &*bytes, length, &mut |_| {}).map_err(|error| (error.code, error.domain))
}

fn length(calls: &mut dyn Calls, name: &str) -> u64 {
    calls.volume(name).unwrap().unwrap().physical.unwrap()
}

#[test]
fn an_upload_needs_a_volume_and_makes_a_raw_one_as_long_as_it_is() {
    let world = world("{}");
    let mut calls = connect(&world);
    assert_eq!(send(&mut *calls, "u", b"abc", 3), Err((50, 18)));
    calls.create_volume(&volume_xml("u", 0, 0, "raw", None)).unwrap();
    let bytes = vec![7; CHUNK + 10];
    let mut progress = Vec::new();
    calls.upload("u", &mut &bytes[..], 65_546, &mut |sent| progress.push(sent)).unwrap();
    assert_eq!(progress, [65_536, 65_546]);
    let u = calls.volume("u").unwrap().unwrap();
    assert_eq!((u.capacity, u.allocation, u.format.as_str()), (65_546, 69_632, "raw"));
    assert_eq!(world.lock().unwrap().content("u").unwrap(), bytes);
}

#[test]
fn a_short_upload_ends_well_and_a_long_one_does_not() {
    let mut calls = calls("{}");
    calls.create_volume(&volume_xml("u", 0, 0, "raw", None)).unwrap();
    assert_eq!(send(&mut *calls, "u", b"abc", 1000), Ok(()));
    assert_eq!(length(&mut *calls, "u"), 3);
    assert_eq!(send(&mut *calls, "u", b"abcdef", 5), Err((38, 38)));
    assert_eq!(length(&mut *calls, "u"), 5);
    // The connection lives on.
    calls.hostname().unwrap();
}

#[test]
fn a_volume_that_was_longer_before_stays_as_long() {
    let mut calls = calls("pool: {lostTail: 10}");
    calls.create_volume(&volume_xml("u", 1_000_000, 0, "raw", None)).unwrap();
    assert_eq!(send(&mut *calls, "u", &[1; 1000], 1000), Ok(()));
    assert_eq!(length(&mut *calls, "u"), 1_000_000);
}

#[test]
fn a_qcow2_file_in_a_raw_volume_is_known_as_what_it_is_afterwards() {
    let mut calls = calls("{}");
    calls.create_volume(&volume_xml("u.raw", 0, 0, "raw", None)).unwrap();
    let image = qcow2(5 << 20, "");
    assert_eq!(send(&mut *calls, "u.raw", &image, image.len()), Ok(()));
    let u = calls.volume("u.raw").unwrap().unwrap();
    assert_eq!((u.format.as_str(), u.capacity, u.physical), ("qcow2", 5 << 20, Some(104)));
}

#[test]
fn while_jobs_run_in_the_pool_the_format_stays_stale() {
    let mut calls = calls("pool: {busyRefreshes: 1}");
    calls.create_volume(&volume_xml("u.raw", 0, 0, "raw", None)).unwrap();
    let image = qcow2(5 << 20, "");
    assert_eq!(send(&mut *calls, "u.raw", &image, image.len()), Ok(()));
    let u = calls.volume("u.raw").unwrap().unwrap();
    assert_eq!((u.format.as_str(), u.capacity), ("raw", 104));
    assert_eq!(refusal(calls.refresh_pool()), (1, 18));
    calls.refresh_pool().unwrap();
    assert_eq!(calls.volume("u.raw").unwrap().unwrap().format, "qcow2");
}

#[test]
fn l24_an_upload_into_a_volume_that_somebody_deletes_succeeds_into_nothing() {
    let world = world("{}");
    let mut calls = connect(&world);
    let mut other = connect(&world);
    calls.create_volume(&volume_xml("u", 0, 0, "raw", None)).unwrap();
    let bytes = vec![1; 3 * CHUNK];
    let mut deleted = false;
    let mut interfere = |_| {
        if !deleted {
            other.delete_volume("u").unwrap();
            // A new volume of the name is another file.
            other.create_volume(&volume_xml("u", 0, 0, "raw", None)).unwrap();
            deleted = true;
        }
    };
    calls.upload("u", &mut &bytes[..], 196_608, &mut interfere).unwrap();
    assert_eq!(length(&mut *calls, "u"), 0);
}

#[test]
fn a_lost_tail_is_told_by_the_length_alone() {
    let mut calls = calls("pool: {lostTail: 100}");
    calls.create_volume(&volume_xml("u", 0, 0, "raw", None)).unwrap();
    assert_eq!(send(&mut *calls, "u", &[1; 5000], 5000), Ok(()));
    assert_eq!(length(&mut *calls, "u"), 4900);
}

#[test]
fn a_pool_that_fills_is_told_unless_it_is_the_last_piece_that_does_not_fit() {
    for (length_sent, expected) in [(CHUNK * 3, Err((38, 38))), (CHUNK + 8192, Ok(()))] {
        let world = world("pool: {capacity: 1 GiB, available: 68 KiB}");
        let mut calls = connect(&world);
        calls.create_volume(&volume_xml("u", 0, 0, "raw", None)).unwrap();
        assert_eq!(send(&mut *calls, "u", &vec![1; length_sent], length_sent), expected);
        assert_eq!(length(&mut *calls, "u"), 68 << 10);
        assert_eq!(calls.pool().unwrap().available, 0);
        calls.delete_volume("u").unwrap();
        assert_eq!(calls.pool().unwrap().available, 68 << 10);
    }
}

#[test]
fn l04_a_source_that_fails_leaves_what_was_sent_and_a_connection_that_works() {
    struct Broken(usize);
    impl std::io::Read for Broken {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            self.0 = self.0.checked_sub(buffer.len()).ok_or_else(|| std::io::Error::other("gone"))?;
            Ok(buffer.len())
        }
    }
    let mut calls = calls("{}");
    calls.create_volume(&volume_xml("u", 0, 0, "raw", None)).unwrap();
    let failed = calls.upload("u", &mut Broken(3 * CHUNK), 1 << 20, &mut |_| {}).unwrap_err();
    assert!(!failed.dead && failed.message.contains("gone"), "{failed}");
    assert!(length(&mut *calls, "u") < 3 * 65_536);
    calls.delete_volume("u").unwrap();
}
