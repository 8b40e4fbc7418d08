//! Against hosts that freeze, vanish, or are not what they seem.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use egress_plan::plan::Reason;
use egress_plan::provider::error::Class;
use egress_plan::provider::libvirt::host::calls::{Calls, Ended, code, part};
use egress_plan::provider::libvirt::host::link::{Link as _, Opened, Purpose, Stage};
use egress_plan::provider::libvirt::host::live::SshLink;
use egress_plan::provider::libvirt::host::target::SshTarget;
use egress_plan::provider::libvirt::host::traced::{Budgets, SMALL_UPLOAD_MAX};
use rustix::process::{Pid, Signal, kill_process};
use tokio_util::sync::CancellationToken;

use crate::{BUDGET, Bench, CLOSING, Pattern, lab, raw_xml, target, unwrap_err};

/// Processes that are stopped, and go on when this is dropped.
struct Frozen(Vec<Pid>);

impl Frozen {
    fn new(pids: Vec<Pid>) -> Self {
        assert!(!pids.is_empty());
        for pid in &pids {
            kill_process(*pid, Signal::STOP).unwrap();
        }
        Self(pids)
    }

    fn libvirtd() -> Self {
        Self::new(vec![daemon("libvirtd")])
    }

    /// The processes of sshd that serve connections, not the one that listens.
    fn sessions() -> Self {
        Self::new(sessions())
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        for pid in &self.0 {
            let _ = kill_process(*pid, Signal::CONT);
        }
    }
}

fn daemon(name: &str) -> Pid {
    let text = std::fs::read_to_string(format!("{}/pid/{name}", lab("LAB_DIR"))).unwrap();
    Pid::from_raw(text.trim().parse().unwrap()).unwrap()
}

fn sessions() -> Vec<Pid> {
    let mut found = vec![daemon("sshd-a")];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        next += 1;
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            let above = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)?.parse().ok());
            let pid = entry.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
            if let (Some(pid), true) = (pid, above == Some(parent.as_raw_nonzero().get())) {
                found.push(pid);
            }
        }
    }
    found.split_off(1)
}

pub fn kill_during_call() {
    let bench = Bench::new(target());
    let Opened { mut calls, kill } = bench.open();
    let mut bystander = bench.open().calls;
    let frozen = Frozen::libvirtd();
    let call = std::thread::spawn(move || (calls.hostname(), calls.libvirt_version()));
    std::thread::sleep(Duration::from_millis(200));
    assert!(!call.is_finished());
    let started = Instant::now();
    kill();
    let (first, second) = call.join().unwrap();
    assert!(started.elapsed() < CLOSING, "{:?}", started.elapsed());
    let (first, second) = (first.unwrap_err(), second.unwrap_err());
    assert!(first.dead && first.domain == part::RPC, "{first:?}");
    assert!(second.dead, "{second:?}");
    drop(frozen);
    // Other connections over the same SSH connection are none the wiser.
    bystander.hostname().unwrap();
}

pub fn close_frozen() {
    for in_call in [false, true] {
        let bench = Bench::new(target());
        let mut calls = bench.open().calls;
        let other = bench.open().calls;
        let frozen = Frozen::sessions();
        let call = in_call.then(|| std::thread::spawn(move || calls.hostname()));
        std::thread::sleep(Duration::from_millis(100));
        let started = Instant::now();
        drop(other);
        bench.close();
        assert!(started.elapsed() < CLOSING, "{:?}", started.elapsed());
        if let Some(call) = call {
            assert!(call.join().unwrap().unwrap_err().dead);
        }
        // The process can end as well: nothing of the runtime hangs on.
        let started = Instant::now();
        drop(bench);
        assert!(started.elapsed() < CLOSING, "{:?}", started.elapsed());
        drop(frozen);
    }
}

pub fn budget_frozen() {
    let bench = Bench::new(target());
    let budgets = Budgets { ordinary: Duration::from_millis(300), ..Budgets::default() };
    let mut calls = bench.traced(bench.open(), budgets, &CancellationToken::new());
    calls.hostname().unwrap();
    let frozen = Frozen::sessions();
    let started = Instant::now();
    let error = calls.hostname().unwrap_err();
    assert!(started.elapsed() < CLOSING);
    assert_eq!((error.ended, error.dead), (Some(Ended::Budget), true), "{error:?}");
    assert!(calls.hostname().unwrap_err().dead);
    drop(frozen);
}

pub fn cancel_upload_frozen() {
    let bench = Bench::new(target());
    bench.open().calls.create_volume(&raw_xml("cancel.raw", 0)).unwrap();
    let cancelled = CancellationToken::new();
    for silence in [Duration::from_secs(2), Duration::from_mins(1)] {
        let opened = bench.try_open(Purpose::Upload).map_err(|error| error.message).unwrap();
        let budgets = Budgets { upload_silence: silence, ..Budgets::default() };
        let mut calls = bench.traced(opened, budgets, &cancelled);
        let sent = Arc::new(AtomicU64::new(0));
        let told = Arc::clone(&sent);
        let upload = std::thread::spawn(move || {
            calls.upload("cancel.raw", &mut Pattern(1), 1 << 40, &mut |bytes| told.store(bytes, Ordering::Relaxed))
        });
        while sent.load(Ordering::Relaxed) < SMALL_UPLOAD_MAX {
            assert!(!upload.is_finished(), "the upload ended before its host was frozen");
            std::thread::sleep(Duration::from_millis(1));
        }
        let frozen = Frozen::sessions();
        let expected = if silence < Duration::from_mins(1) {
            Ended::Budget
        } else {
            // Until the windows are full and the call waits.
            std::thread::sleep(Duration::from_millis(500));
            cancelled.cancel();
            Ended::Cancelled
        };
        let started = Instant::now();
        let error = upload.join().unwrap().unwrap_err();
        let allowed = if expected == Ended::Budget { silence + CLOSING } else { CLOSING };
        assert!(started.elapsed() < allowed, "{:?}", started.elapsed());
        assert_eq!((error.ended, error.dead), (Some(expected), true), "{error:?}");
        drop(frozen);
    }
    let mut calls = bench.traced(bench.open(), Budgets::default(), &cancelled);
    let error = calls.upload("cancel.raw", &mut Pattern(1), 1 << 40, &mut |_| ()).unwrap_err();
    assert_eq!((error.ended, error.dead), (Some(Ended::Cancelled), false));
    calls.upload("cancel.raw", &mut Pattern(1), 100, &mut |_| ()).unwrap();
    calls.delete_volume("cancel.raw").unwrap();
}

pub fn redial() {
    let bench = Bench::new(target());
    let mut calls = bench.open().calls;
    for dial in 1..=3 {
        for pid in sessions() {
            let _ = kill_process(pid, Signal::KILL);
        }
        let error = calls.hostname().unwrap_err();
        assert!(error.dead, "{error:?}");
        match bench.try_open(Purpose::Calls) {
            Ok(opened) if dial < 3 => calls = opened.calls,
            Err(error) if dial == 3 => assert_eq!((error.class, error.reason), (Class::Transient, Reason::Unreachable)),
            Ok(_) => panic!("dialled {dial} times"),
            Err(error) => panic!("{dial}: {error:?}"),
        }
    }
}

/// Threads, open files and memory in KiB.
type Usage = (usize, usize, u64);

fn usage(pid: &str) -> Usage {
    let count = |what: &str| std::fs::read_dir(format!("/proc/{pid}/{what}")).unwrap().count();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    (count("task"), count("fd"), memory.trim().trim_end_matches(" kB").parse().unwrap())
}

/// A source that breaks after a while.
struct Breaking(u64);

impl Read for Breaking {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0 = self
            .0
            .checked_sub(u64::try_from(into.len()).unwrap())
            .ok_or_else(|| io::Error::other("the source broke"))?;
        into.fill(1);
        Ok(into.len())
    }
}

pub fn failed_uploads() {
    let bench = Bench::new(target());
    let mut calls = bench.open().calls;
    calls.create_volume(&raw_xml("fail.raw", 0)).unwrap();
    let fail = |shared: &mut dyn Calls, round: usize| {
        // In turn: on a connection that lives on, on one that is killed in the middle, and on one
        // that the daemon's error ends.
        match round % 3 {
            0 => assert!(!shared.upload("fail.raw", &mut Breaking(5 << 20), 1 << 30, &mut |_| ()).unwrap_err().dead),
            1 => {
                let Opened { mut calls, kill } = bench.try_open(Purpose::Upload).map_err(|e| e.message).unwrap();
                let mut cut = |bytes| {
                    if bytes >= 2 << 20 {
                        kill();
                    }
                };
                assert!(calls.upload("fail.raw", &mut Pattern(1), 1 << 30, &mut cut).unwrap_err().dead);
            }
            _ => {
                let mut calls = bench.try_open(Purpose::Upload).map_err(|e| e.message).unwrap().calls;
                assert_eq!(
                    calls.upload("none", &mut Pattern(1), 9, &mut |_| ()).unwrap_err().code,
                    code::NO_STORAGE_VOL
                );
                assert!(calls.upload("fail.raw", &mut Breaking(1 << 20), 1 << 30, &mut |_| ()).is_err());
            }
        }
    };
    // What is made once, such as the runtime's own threads, is made by the first few.
    for round in 0..12 {
        fail(calls.as_mut(), round);
    }
    let before = settled(None);
    for round in 0..200 {
        fail(calls.as_mut(), round);
    }
    let after = settled(Some(before));
    println!("200 failed uploads: threads, files and KiB, and files of libvirtd, {before:?} then {after:?}");
    assert!(after.0.0 <= before.0.0 && after.0.1 <= before.0.1, "threads, files: {before:?} then {after:?}");
    assert!(after.1 <= before.1, "files of libvirtd: {before:?} then {after:?}");
    assert!(after.0.2 < before.0.2 + 64 * 1024, "memory: {before:?} then {after:?}");
    calls.delete_volume("fail.raw").unwrap();
}

/// What the process and libvirtd have once things have settled: as little as `before`, if given.
fn settled(before: Option<(Usage, usize)>) -> (Usage, usize) {
    let libvirtd = daemon("libvirtd").as_raw_nonzero().to_string();
    let started = Instant::now();
    loop {
        let now = (usage("self"), usage(&libvirtd).1);
        let is_settled = before.is_some_and(|(mine, theirs)| now.0.0 <= mine.0 && now.0.1 <= mine.1 && now.1 <= theirs);
        if is_settled || started.elapsed() > Duration::from_secs(if before.is_some() { 30 } else { 2 }) {
            return now;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Does something often, after a few times that may make what is made once, and demands that nothing
/// is left of it.
fn leaves_nothing(what: &str, times: u32, mut work: impl FnMut()) {
    for _ in 0..5 {
        work();
    }
    let before = settled(None);
    for _ in 0..times {
        work();
    }
    let after = settled(Some(before));
    println!("{times} {what}: threads, files and KiB, and files of libvirtd, {before:?} then {after:?}");
    assert!(after.0.0 <= before.0.0 && after.0.1 <= before.0.1, "threads, files: {before:?} then {after:?}");
    assert!(after.1 <= before.1, "files of libvirtd: {before:?} then {after:?}");
    assert!(after.0.2 < before.0.2 + 64 * 1024, "memory: {before:?} then {after:?}");
}

/// This many in `make soak`, and as many in the suite.
fn times(soak: u32, suite: u32) -> u32 {
    if std::env::var_os("EGRESS_PLAN_SOAK").is_some() { soak } else { suite }
}

pub fn many_dials() {
    let bench = Bench::new(target());
    let stranger = SshTarget { sockets: vec!["/run/libvirt/none".to_owned()], ..target() };
    let mut number = 0;
    leaves_nothing("dials", times(1000, 60), || {
        number += 1;
        // In turn: one that is used and closed, one that finds no socket, and one given up at once.
        let link = SshLink::new(if number % 3 == 1 { stranger.clone() } else { target() });
        let budget = if number % 3 == 2 { Duration::from_millis(number % 40) } else { BUDGET };
        let opened = bench.runtime.block_on(link.open(Purpose::Calls, budget));
        if number % 3 == 0 {
            opened.map_err(|error| error.message).unwrap().calls.hostname().unwrap();
        } else {
            drop(opened);
        }
        bench.runtime.block_on(link.close());
    });
}

pub fn cancelled_calls() {
    let bench = Bench::new(target());
    let budgets = Budgets { ordinary: Duration::from_millis(40), ..Budgets::default() };
    leaves_nothing("cancelled calls", times(200, 20), || {
        let link = SshLink::new(target());
        let opened = bench.runtime.block_on(link.open(Purpose::Calls, BUDGET)).map_err(|error| error.message).unwrap();
        let mut calls = bench.traced(opened, budgets, &CancellationToken::new());
        let frozen = Frozen::libvirtd();
        let error = calls.hostname().unwrap_err();
        assert!(error.dead && error.ended == Some(Ended::Budget), "{error:?}");
        drop(frozen);
        drop(calls);
        bench.runtime.block_on(link.close());
    });
}

pub fn keepalive() {
    let bench = Bench::new(target());
    let mut calls = bench.open().calls;
    let frozen = Frozen::sessions();
    let started = Instant::now();
    let error = calls.hostname().unwrap_err();
    assert!(error.dead, "{error:?}");
    assert!(started.elapsed() < Duration::from_secs(90), "{:?}", started.elapsed());
    drop(frozen);
    bench.open().calls.hostname().unwrap();
}

/// A unix socket at whose end somebody else than libvirt sits.
fn impostor(behave: fn(std::os::unix::net::UnixStream)) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || listener.incoming().flatten().for_each(behave));
    (folder, path.to_str().unwrap().to_owned())
}

pub fn garbage() {
    use std::io::Write as _;
    let behaviours: [fn(std::os::unix::net::UnixStream); 3] = [
        |mut stream| drop(stream.write_all(&[0xff; 4096])),
        |mut stream| drop(stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")),
        drop,
    ];
    for behave in behaviours {
        let (_folder, path) = impostor(behave);
        let error = unwrap_err(Bench::new(SshTarget { sockets: vec![path], ..target() }).try_open(Purpose::Calls));
        assert_eq!((error.stage, error.class), (Stage::Libvirt, Class::Transient), "{error:?}");
        assert_eq!(error.reason, Reason::Unreachable, "{error:?}");
    }
}

pub fn silent_socket() {
    let (_folder, path) = impostor(std::mem::forget);
    let bench = Bench::new(SshTarget { sockets: vec![path], ..target() });
    let started = Instant::now();
    // Long enough for the stages before on a loaded machine.
    let budget = Duration::from_secs(3);
    let error = unwrap_err(bench.runtime.block_on(bench.link.open(Purpose::Calls, budget)));
    assert_eq!((error.stage, error.class, error.reason), (Stage::Libvirt, Class::Transient, Reason::Timeout));
    assert!(started.elapsed() < budget + CLOSING);
}

pub fn burst() {
    let bench = Bench::new(target());
    let dials = (0..24).map(|_| {
        let link = SshLink::new(target());
        async move { link.open(Purpose::Calls, BUDGET * 3).await.map(|opened| drop((opened, link))) }
    });
    let outcomes = bench.runtime.block_on(futures::future::join_all(dials));
    let failed: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).collect();
    assert!(failed.is_empty(), "{failed:?}");
    // And workers of one host share one connection.
    let opens = (0..4).map(|_| bench.link.open(Purpose::Calls, BUDGET));
    let opened = bench.runtime.block_on(futures::future::join_all(opens));
    assert!(opened.iter().all(Result::is_ok));
}
