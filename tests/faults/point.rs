//! Where a run is struck, and by what.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use egress_plan::provider::libvirt::host::calls::{CallError, code, part};
use egress_plan::provider::libvirt::host::recorded::{Called, Effect, OPEN, Rule};
use tokio::sync::Notify;

use crate::ground::{Hosts, lock};

/// What befalls a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// The call is refused with an error that may pass.
    Refused,
    /// The connection is cut before the call does anything.
    Cut,
    /// The call does what it does, and its answer is lost.
    Lost,
    /// The process is killed before the call.
    Killed,
    /// The connection is cut in the middle of an upload.
    CutInside,
    /// An upload is said to have succeeded, and its end is missing.
    Short,
    /// The process is killed in the middle of an upload.
    KilledInside,
    /// The process stands still for longer than its lock lives, and another run does the work meanwhile.
    Suspended,
}

/// Those that befall reads. A read that is cut and one whose answer is lost are the same to the host,
/// and a run that is killed before a read is one that is killed before its next change.
const READS: [Fault; 2] = [Fault::Refused, Fault::Cut];
/// Those that befall calls that change something.
const CHANGES: [Fault; 5] = [Fault::Refused, Fault::Cut, Fault::Lost, Fault::Killed, Fault::Suspended];
/// Those that befall uploads besides.
const UPLOADS: [Fault; 3] = [Fault::CutInside, Fault::Short, Fault::KilledInside];

/// A moment of a run on one host: its n-th call or its n-th connection, from 1.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Point {
    pub zone: usize,
    pub nth: u64,
    pub call: &'static str,
    pub object: String,
    pub changes: bool,
    pub fault: Fault,
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { zone, nth, call, object, fault, .. } = self;
        write!(f, "{fault:?} at call {nth} of host {}: {call} {object}", zone + 1)
    }
}

/// What a run without a fault asked of one host.
pub struct Asked {
    pub calls: Vec<Called>,
    pub opens: u64,
}

/// Every fault at every moment; with `changes_only`, at the calls that change something.
pub fn points(asked: &[Asked], changes_only: bool) -> Vec<Point> {
    let mut points = Vec::new();
    for (zone, Asked { calls, opens }) in asked.iter().enumerate() {
        for (nth, called) in (1..).zip(calls) {
            let faults: &[Fault] = match (called.changes, changes_only) {
                (true, _) => &CHANGES,
                (false, true) => &[],
                (false, false) => &READS,
            };
            let uploads: &[Fault] = if called.call == "upload" { &UPLOADS } else { &[] };
            let (call, changes) = (called.call, called.changes);
            let point =
                |fault: &Fault| Point { zone, nth, call, object: called.object.clone(), changes, fault: *fault };
            points.extend(faults.iter().chain(uploads).map(point));
        }
        let opens = if changes_only { 0 } else { *opens };
        let open = |nth| Point { zone, nth, call: OPEN, object: String::new(), changes: false, fault: Fault::Cut };
        points.extend((1..=opens).map(open));
    }
    points
}

/// A point that lies in wait for a run.
pub struct Ambush {
    pub killed: Arc<Notify>,
    sprung: Arc<AtomicBool>,
    meanwhile: Arc<Mutex<Option<Code>>>,
}

/// An exit code, or why there is none.
type Code = Result<u8, String>;

impl Ambush {
    /// Sets the rules for a point. `meanwhile` is what goes on while a run is suspended: another run,
    /// to its end.
    pub fn lay(point: &Point, hosts: &Hosts, meanwhile: impl Fn() -> Code + Send + Sync + 'static) -> Self {
        let (killed, sprung) = (Arc::new(Notify::new()), Arc::new(AtomicBool::new(false)));
        let came = Arc::<Mutex<Option<Code>>>::default();
        let worlds: Vec<_> = hosts.worlds().map(|(_, world)| Arc::clone(world)).collect();
        let struck = Arc::clone(&worlds[point.zone]);
        let rule = |effect: Effect| {
            let rule = Rule::nth(point.nth, effect);
            lock(&struck).fail(if point.call == OPEN { rule.of(OPEN) } else { rule });
        };
        let seen = Arc::clone(&sprung);
        rule(Effect::Before(Arc::new(move || seen.store(true, Ordering::SeqCst))));
        let dies = {
            let killed = Arc::clone(&killed);
            Arc::new(move || {
                // From here on nothing of the run reaches any host; what waits for its answers is dropped.
                for world in &worlds {
                    let mut world = lock(world);
                    world.fail(Rule::always(Effect::CutBefore));
                    world.fail(Rule::always(Effect::CutBefore).of(OPEN));
                }
                killed.notify_one();
            })
        };
        match point.fault {
            Fault::Refused => rule(Effect::Refuse(CallError {
                code: code::INTERNAL_ERROR,
                domain: part::NONE,
                message: "internal error: the daemon is out of sorts".to_owned(),
                dead: false,
                ended: None,
            })),
            Fault::Cut => rule(Effect::CutBefore),
            Fault::Lost => rule(Effect::CutAfter),
            Fault::Killed => {
                rule(Effect::Before(dies));
                rule(Effect::CutBefore);
            }
            Fault::CutInside => rule(Effect::CutUpload(1)),
            Fault::Short => rule(Effect::LoseTail(1)),
            Fault::KilledInside => {
                rule(Effect::DuringUpload(1, dies));
                rule(Effect::CutUpload(1));
            }
            Fault::Suspended => {
                let (meanwhile, slot) = (Arc::new(meanwhile), Arc::clone(&came));
                rule(Effect::Before(Arc::new(move || {
                    // A run has a runtime of its own, which no thread of another one may enter.
                    let other = Arc::clone(&meanwhile);
                    let code = thread::spawn(move || other()).join();
                    // A panic here would be one of the struck run's steps, which is a failure like others.
                    *slot.lock().expect("nobody panics with it") =
                        Some(code.unwrap_or_else(|_| Err("the run that took over panicked".to_owned())));
                })));
            }
        }
        Self { killed, sprung, meanwhile: came }
    }

    /// How the run ended that took over, if one did.
    pub fn meanwhile(&self) -> Option<Code> {
        self.meanwhile.lock().expect("nobody panics with it").take()
    }

    /// Whether the run came by.
    pub fn sprung(&self) -> bool {
        self.sprung.load(Ordering::SeqCst)
    }
}
