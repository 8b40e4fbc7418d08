//! Strikes the run of a kind at every moment, lets one plain run follow, and compares what is there
//! with what the same story leaves when nothing fails. Where the struck run left everything as it was, or
//! as it should be, the plain run is the one that the story without a fault has told already.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;

use jiff::SignedDuration;

use crate::ground::{FLEET, Foreign, Hosts, lock, locks};
use crate::kinds::{KINDS, Kind, Story};
use crate::point::{Ambush, Asked, Fault, Point, points};
use crate::run::{Line, look, run, whole};
use crate::shape::{Before, Shape, held, is_base, is_proof, machines, shape, without};
use egress_plan::provider::libvirt::host::recorded::{Called, RecordedDomain, RecordedHost, RecordedVolume, World};
use egress_plan::provider::libvirt::naming::{BaseName, LockName, ProofName, parse_disk};

/// Longer than a lock lives.
const LOCK_IS_OVER: SignedDuration = SignedDuration::from_secs(301);
/// Longer than a base image may stay without a proof.
const DEBRIS_IS_OLD: SignedDuration = SignedDuration::from_secs(2 * 3600 + 1);
/// Runs whose machines' retries wait at the same time.
const AT_A_TIME: usize = 16;
/// Runs after which it is given up that there is nothing left to do.
const MOST_RUNS: usize = 4;

/// What was found of a kind.
#[derive(Debug, Clone, Default)]
pub struct Row {
    pub calls: usize,
    pub faults: usize,
    pub lost: usize,
    pub leaked: usize,
    pub touched: usize,
    /// The most plain runs that a fault needed.
    pub runs: usize,
    /// Base images that nothing uses, left for `images prune`.
    pub spare: usize,
    /// Each point that did not end as it should.
    pub wrong: Vec<String>,
}

/// A story without a fault, to compare with.
struct Clean {
    story: Story,
    /// Each host as the story began, but for locks.
    begin: Vec<(Vec<RecordedDomain>, Vec<RecordedVolume>)>,
    foreign: Foreign,
    before: Before,
    code: Result<u8, String>,
    shape: Shape,
    held: Vec<String>,
    /// The shape after `images prune` much later.
    pruned: Shape,
}

/// What one point came to.
#[derive(Default)]
struct Found {
    lost: usize,
    leaked: usize,
    touched: usize,
    runs: usize,
    spare: usize,
    wrong: Vec<String>,
}

impl Found {
    fn touch(&mut self, touched: &[String], wrong: &mut Vec<String>) {
        self.touched = touched.len();
        wrong.extend((!touched.is_empty()).then(|| format!("touched {touched:?}")));
    }
}

/// The row of a kind; told once, whoever asks.
pub fn row(at: usize) -> &'static Row {
    static ROWS: [OnceLock<Row>; KINDS.len()] = [const { OnceLock::new() }; KINDS.len()];
    ROWS[at].get_or_init(|| strike_everywhere(&KINDS[at]))
}

fn strike_everywhere(kind: &Kind) -> Row {
    let (clean, asked) = Clean::tell(kind);
    let calls = asked.iter().map(|asked| asked.calls.len()).sum();
    let points = points(&asked, kind.changes_only);
    let row = Mutex::new(Row { calls, faults: points.len(), ..Row::default() });
    let (clean, next) = (Arc::new(clean), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                while let Some(point) = points.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let found = clean.strike(point);
                    let mut row = row.lock().expect("no other point panicked");
                    row.lost += found.lost;
                    row.leaked += found.leaked;
                    row.touched += found.touched;
                    row.runs = row.runs.max(found.runs);
                    row.spare += found.spare;
                    row.wrong.extend(found.wrong.iter().map(|wrong| format!("{point}: {wrong}")));
                }
            });
        }
    });
    row.into_inner().expect("no point panicked")
}

impl Clean {
    /// Tells the story to its end, and notes what its run asked of each host.
    fn tell(kind: &Kind) -> (Self, Vec<Asked>) {
        let story = kind.tell();
        let hosts = Hosts::from(&story.wanted, &story.begin);
        let before = machines(&hosts);
        let domains: BTreeMap<_, _> = before.clone();
        let ours = |zone: &str, name: &str| {
            // A machine is known by its name, its disks by the machine's name and UUID.
            let wanted = |domain: &str| is_of_fleet(&story, zone, domain);
            let disk = domains
                .iter()
                .any(|((at, domain), uuid)| at == zone && wanted(domain) && parse_disk(domain, *uuid, name).is_some());
            wanted(name)
                || disk
                || BaseName::parse(name).is_some()
                || ProofName::parse(name).is_some()
                || LockName::parse(name).is_some()
        };
        let foreign = Foreign::on(hosts.files(), ours);
        assert!(foreign.count() >= 12, "{}: only {} things of others are there", kind.name, foreign.count());
        let (calls, opens) = so_far(&hosts);
        let code = whole(&story.line, &story.wanted, &hosts).code();
        let (all, opened) = so_far(&hosts);
        let asked = (0..all.len())
            .map(|zone| Asked { calls: all[zone][calls[zone].len()..].to_vec(), opens: opened[zone] - opens[zone] });
        let asked: Vec<Asked> = asked.collect();
        hosts.pass(LOCK_IS_OVER);
        assert_eq!(foreign.touched(hosts.files()), Vec::<String>::new(), "{}", kind.name);
        let (observed, plan) = look(&story.wanted, &hosts);
        assert!(!plan.has_changes(), "{}: a second look still finds something to do: {plan:#?}", kind.name);
        let end = shape(&hosts.files(), &observed, &foreign, &before);
        let begin = story.begin.iter().map(|world| untimed(&world.to_file())).collect();
        let mut clean =
            Self { story, begin, foreign, before, code, shape: end, held: held(&plan), pruned: Shape::new() };
        // One run more does nothing, so that it can be spared wherever it would find the same.
        assert_eq!(whole(&clean.story.line, &clean.story.wanted, &hosts).code(), clean.code, "{}", kind.name);
        let (observed, plan) = look(&clean.story.wanted, &hosts);
        assert!(!plan.has_changes() && held(&plan) == clean.held, "{}: {plan:#?}", kind.name);
        assert_eq!(shape(&hosts.files(), &observed, &clean.foreign, &clean.before), clean.shape, "{}", kind.name);
        assert_eq!(clean.foreign.touched(hosts.files()), Vec::<String>::new(), "{}", kind.name);
        assert!(clean.code == Ok(3) || clean.code == Ok(0), "{}: {:?}", kind.name, clean.code);
        clean.pruned = clean.prune(&hosts);
        (clean, asked)
    }

    /// What `images prune` leaves once everything that nothing vouches for is old.
    fn prune(&self, hosts: &Hosts) -> Shape {
        hosts.pass(DEBRIS_IS_OLD);
        let end = whole(&Line::prune(), &self.story.wanted, hosts);
        assert_eq!(end.code(), Ok(0), "{end:?}");
        let (observed, _) = look(&self.story.wanted, hosts);
        shape(&hosts.files(), &observed, &self.foreign, &self.before)
    }

    /// Tells the story with a fault.
    fn strike(&self, point: &Point) -> Found {
        let Story { wanted, line, begin, .. } = &self.story;
        let hosts = Hosts::from(wanted, begin);
        let meanwhile = {
            let (line, wanted, hosts) = (line.clone(), wanted.clone(), hosts.clone());
            move || {
                hosts.pass(LOCK_IS_OVER);
                whole(&line, &wanted, &hosts).code()
            }
        };
        let ambush = Ambush::lay(point, &hosts, meanwhile);
        let end = run(line, wanted, std::slice::from_ref(&hosts), &ambush.killed);
        hosts.heal();
        let mut found = Found::default();
        let mut wrong = Vec::new();
        if !ambush.sprung() {
            wrong.push("the run did not come by".to_owned());
        }
        if let Err(bug) = end.code()
            && !matches!(point.fault, Fault::Killed | Fault::KilledInside)
        {
            wrong.push(bug);
        }
        if point.fault == Fault::Suspended {
            let code = ambush.meanwhile();
            wrong.extend((code.as_ref() != Some(&self.code)).then(|| format!("the run that took over: {code:?}")));
        }
        // Before any lock has run out.
        let files = hosts.files();
        let locks = locks(&files);
        wrong.extend((locks > 0 && gives_back(point)).then(|| format!("{locks} locks were not given back")));
        let untouched: Vec<bool> =
            files.iter().zip(&self.begin).map(|((_, file), begin)| untimed(file) == *begin).collect();
        let said_done = end.code() == self.code;
        // A run that could not see one of its hosts ends as one does that holds something back.
        let lost_a_host = self.code == Ok(3) && begin.len() > 1 && untouched[point.zone];
        hosts.pass(LOCK_IS_OVER);
        if said_done && !lost_a_host {
            // Nothing is left to the next one.
            let (observed, plan) = look(wanted, &hosts);
            let (held, end) = (held(&plan), shape(&files, &observed, &self.foreign, &self.before));
            let done =
                !plan.has_changes() && held == self.held && (matches!(line, Line::Apply(_)) || end == self.shape);
            if !done {
                wrong.push(format!("it said that it was done; {} actions are left, held {held:?}", plan.actions.len()));
            }
            if done && locks == 0 && end == self.shape {
                // A plain run has nothing to do there, as after the story without a fault.
                found.touch(&self.foreign.touched(files), &mut wrong);
                found.wrong = wrong;
                return found;
            }
        } else if locks == 0 && !untouched.contains(&false) {
            // What follows is the story without a fault.
            found.runs = 1;
            found.wrong = wrong;
            return found;
        }
        let (observed, plan) = loop {
            found.runs += 1;
            let code = whole(line, wanted, &hosts).code();
            if code != self.code {
                wrong.push(format!("plain run {} ended with {code:?}", found.runs));
            }
            let (observed, plan) = look(wanted, &hosts);
            if !plan.has_changes() && held(&plan) == self.held || found.runs == MOST_RUNS {
                break (observed, plan);
            }
            hosts.pass(LOCK_IS_OVER);
        };
        wrong.extend((found.runs > 1).then(|| format!("{} runs were needed", found.runs)));
        wrong.extend(plan.has_changes().then(|| "there is still something to do".to_owned()));
        let held = held(&plan);
        wrong.extend((held != self.held).then(|| format!("held {held:?}")));
        let mut files = hosts.files();
        let end = shape(&files, &observed, &self.foreign, &self.before);
        let (missing, more) = (without(&self.shape, &end), without(&end, &self.shape));
        // A base image that nothing vouches for is not used, and one that a run proved after another one
        // took over is as good as the other's; both go with `images prune`.
        let proven = more.iter().any(|line| is_proof(line));
        let may_stay = |line: &String| match point.fault {
            Fault::Suspended => is_base(line) || is_proof(line),
            _ => is_base(line) && !proven,
        };
        let (debris, leaked): (Vec<_>, Vec<_>) = more.into_iter().partition(may_stay);
        found.spare = debris.iter().filter(|line| is_base(line)).count();
        if !debris.is_empty() {
            let left = self.prune(&hosts);
            files = hosts.files();
            let differs = (without(&left, &self.pruned), without(&self.pruned, &left));
            wrong.extend((differs != (vec![], vec![])).then(|| format!("after images prune: {differs:?}")));
        }
        found.touch(&self.foreign.touched(files), &mut wrong);
        (found.lost, found.leaked) = (missing.len(), leaked.len());
        wrong.extend((!missing.is_empty()).then(|| format!("lost {missing:?}")));
        wrong.extend((!leaked.is_empty()).then(|| format!("leaked {leaked:?}")));
        found.wrong = wrong;
        found
    }
}

/// Whether a run that is struck so gives its locks back at once. Only after a call that may have
/// changed something and whose answer was lost does it leave them, and a dead one does.
fn gives_back(point: &Point) -> bool {
    match point.fault {
        Fault::Refused => true,
        Fault::Cut => !point.changes,
        _ => false,
    }
}

/// What is on a host, but for its locks and its clock.
fn untimed(file: &RecordedHost) -> (Vec<RecordedDomain>, Vec<RecordedVolume>) {
    let is_lock = |volume: &&RecordedVolume| LockName::parse(&volume.name).is_some();
    (file.domains.clone(), file.pool.volumes.iter().filter(|volume| !is_lock(volume)).cloned().collect())
}

/// Whether a domain of this name is a machine of the fleet: of a proxy that is wanted, or that the
/// story began with.
fn is_of_fleet(story: &Story, zone: &str, domain: &str) -> bool {
    let names = story.proxies.iter().map(|proxy| crate::ground::instance(FLEET, zone, proxy));
    names.into_iter().any(|name| name == domain)
        && domain != crate::ground::instance(FLEET, zone, crate::ground::SQUATTED)
}

type SoFar = (Vec<Vec<Called>>, Vec<u64>);

fn so_far(hosts: &Hosts) -> SoFar {
    let asked = |world: &World| (world.calls().to_vec(), world.opens());
    hosts.worlds().map(|(_, world)| asked(&lock(world))).unzip()
}
