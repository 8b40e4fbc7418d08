//! A relay between the program and an sshd, which can be told to treat the traffic badly.
//!
//! Threads carry the bytes; nothing here knows what they mean. The only thing that it waits for by
//! sleeping is the time that it is told to lose.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};
use std::{fs, thread};

use super::fleet::Fleet;
use super::lab::{lab, tool};

/// How soon a thread notices that it was told something else.
const TICK: Duration = Duration::from_millis(10);
const CHUNK: usize = 32 * 1024;

/// What becomes of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Traffic {
    /// They are carried, this much later.
    Carried(Duration),
    /// They are taken and lost, both ways.
    Swallowed,
    /// They are neither taken nor carried for as long as this is so.
    Held,
    /// They are carried this many bytes a second, each way.
    Narrow(u32),
}

/// What becomes of a new connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Door {
    /// It is carried to the server.
    Open,
    /// It is accepted, and nothing is ever said.
    Silent,
    /// It gets bytes that mean nothing, and its end.
    Garbage,
    /// It is carried until this many bytes came back, and ended then.
    CutAfter(u64),
}

/// What happens by itself once so many bytes went to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mishap {
    Swallow,
    Reset,
}

/// A relay; its connections end when it is dropped.
pub struct Relay {
    address: SocketAddr,
    state: Arc<State>,
}

struct State {
    traffic: Mutex<Traffic>,
    door: Mutex<Door>,
    due: Mutex<Option<(u64, Mishap)>>,
    /// The number of a connection that is held whatever becomes of the others; 0 for none.
    held: AtomicU64,
    up: AtomicU64,
    accepted: AtomicU64,
    streams: Mutex<Vec<TcpStream>>,
}

impl State {
    fn new() -> Self {
        Self {
            traffic: Mutex::new(Traffic::Carried(Duration::ZERO)),
            door: Mutex::new(Door::Open),
            due: Mutex::default(),
            held: AtomicU64::new(0),
            up: AtomicU64::new(0),
            accepted: AtomicU64::new(0),
            streams: Mutex::default(),
        }
    }
}

impl Relay {
    /// A relay to a server, on a port of its own.
    pub fn to(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State::new());
        let (weak, server) = (Arc::downgrade(&state), server.to_owned());
        thread::spawn(move || {
            for client in listener.incoming() {
                let (Ok(client), Some(state)) = (client, weak.upgrade()) else { return };
                let number = state.accepted.fetch_add(1, Ordering::SeqCst) + 1;
                let door = *state.door.lock().unwrap();
                serve(&state, client, &server, door, number);
            }
        });
        Self { address, state }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn traffic(&self, traffic: Traffic) {
        *self.state.traffic.lock().unwrap() = traffic;
    }

    pub fn door(&self, door: Door) {
        *self.state.door.lock().unwrap() = door;
    }

    /// Everything is well again.
    pub fn heal(&self) {
        *self.state.due.lock().unwrap() = None;
        self.hold(0);
        self.door(Door::Open);
        self.traffic(Traffic::Carried(Duration::ZERO));
    }

    /// Holds one connection, by its number from 1; none with 0.
    pub fn hold(&self, number: u64) {
        self.state.held.store(number, Ordering::SeqCst);
    }

    /// Once this many more bytes went to the server, the mishap happens, once.
    pub fn after(&self, bytes: u64, mishap: Mishap) {
        *self.state.due.lock().unwrap() = Some((self.up() + bytes, mishap));
    }

    /// Bytes that went to the server so far.
    pub fn up(&self) -> u64 {
        self.state.up.load(Ordering::SeqCst)
    }

    /// Connections that were accepted so far.
    pub fn accepted(&self) -> u64 {
        self.state.accepted.load(Ordering::SeqCst)
    }

    /// Ends every connection with a reset.
    pub fn reset(&self) {
        self.state.reset();
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.state.reset();
        // The listening thread wakes, finds nobody, and ends.
        drop(std::mem::replace(&mut self.state, Arc::new(State::new())));
        let _ = TcpStream::connect(self.address);
    }
}

impl State {
    fn traffic(&self, number: u64) -> Traffic {
        if self.held.load(Ordering::SeqCst) == number { Traffic::Held } else { *self.traffic.lock().unwrap() }
    }

    fn reset(&self) {
        for stream in self.streams.lock().unwrap().drain(..) {
            // Taking the peer's address away from a connection resets it.
            let _ = rustix::net::connect_unspec(&stream);
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Counts what goes to the server, and lets happen what is due.
    fn count(&self, bytes: u64) {
        let up = self.up.fetch_add(bytes, Ordering::SeqCst) + bytes;
        let mut due = self.due.lock().unwrap();
        if let Some((at, mishap)) = *due
            && up >= at
        {
            *due = None;
            match mishap {
                Mishap::Swallow => *self.traffic.lock().unwrap() = Traffic::Swallowed,
                Mishap::Reset => self.reset(),
            }
        }
    }
}

fn serve(state: &Arc<State>, mut client: TcpStream, server: &str, door: Door, number: u64) {
    let limit = match door {
        Door::Silent => return state.streams.lock().unwrap().push(client),
        Door::Garbage => return drop(client.write_all(b"\0\xff\xff\xff\xffgarbage\r\n\r\n")),
        Door::Open => u64::MAX,
        Door::CutAfter(bytes) => bytes,
    };
    // A server that is away is a connection that ends at once.
    let Ok(server) = TcpStream::connect(server) else { return };
    for stream in [&client, &server] {
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(TICK)).unwrap();
        state.streams.lock().unwrap().push(stream.try_clone().unwrap());
    }
    pump(state, client.try_clone().unwrap(), server.try_clone().unwrap(), Way { number, is_up: true, limit: u64::MAX });
    pump(state, server, client, Way { number, is_up: false, limit });
}

/// One direction of a connection.
#[derive(Clone, Copy)]
struct Way {
    number: u64,
    is_up: bool,
    limit: u64,
}

/// Bytes, and when they are due.
type Late = (Instant, Vec<u8>);

/// A thread that reads and one that writes, later perhaps.
fn pump(state: &Arc<State>, from: TcpStream, to: TcpStream, way: Way) {
    let (send, receive) = sync_channel(1024);
    let (reader, writer) = (Arc::downgrade(state), Arc::downgrade(state));
    thread::spawn(move || read(&reader, from, &send, way));
    thread::spawn(move || write(&writer, to, &receive, way.number));
}

fn read(state: &Weak<State>, mut from: TcpStream, send: &SyncSender<Late>, way: Way) {
    let (mut chunk, mut seen) = (vec![0; CHUNK], 0);
    while let Some(state) = state.upgrade() {
        if state.traffic(way.number) == Traffic::Held {
            drop(state);
            thread::sleep(TICK);
            continue;
        }
        let count = match from.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => continue,
            Err(_) => break,
        };
        let bytes = u32::try_from(count).unwrap();
        seen += u64::from(bytes);
        if way.is_up {
            state.count(u64::from(bytes));
        }
        if seen > way.limit {
            let _ = from.shutdown(Shutdown::Both);
            break;
        }
        let later = match state.traffic(way.number) {
            Traffic::Swallowed => continue,
            Traffic::Carried(later) => later,
            Traffic::Held => Duration::ZERO,
            Traffic::Narrow(rate) => {
                thread::sleep(Duration::from_secs_f64(f64::from(bytes) / f64::from(rate)));
                Duration::ZERO
            }
        };
        if send.send((Instant::now() + later, chunk[..count].to_vec())).is_err() {
            break;
        }
    }
}

fn write(state: &Weak<State>, mut to: TcpStream, receive: &Receiver<Late>, number: u64) {
    while let Ok((due, bytes)) = receive.recv() {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        loop {
            let Some(state) = state.upgrade() else { return };
            let traffic = state.traffic(number);
            drop(state);
            match traffic {
                Traffic::Held => thread::sleep(TICK),
                Traffic::Swallowed => break,
                Traffic::Carried(_) | Traffic::Narrow(_) => match to.write_all(&bytes) {
                    Ok(()) => break,
                    Err(_) => return,
                },
            }
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

/// Writes random bytes after an empty first sector: by chance, the program would take them for a text.
pub fn random_disk(path: &Path, mib: u32) {
    let (of, count) = (format!("of={}", path.display()), format!("count={mib}"));
    tool("dd", &["if=/dev/urandom", &of, "bs=1M", &count, "status=none"]);
    tool("dd", &["if=/dev/zero", &of, "bs=512", "count=1", "conv=notrunc", "status=none"]);
}

/// Replaces a host's address in the config by that of a relay, which gets the host's own keys.
pub fn lead_through(fleet: &Fleet, host: &str, relay: &Relay) {
    lead(fleet, &lab(host), relay.address());
}

/// Replaces one address in the config by another one, which gets the keys of the first.
pub fn lead(fleet: &Fleet, from: &str, to: SocketAddr) {
    let config = fleet.folder.join("config.yaml");
    let known = fleet.folder.join("known_hosts");
    let old = fs::read_to_string(&known).or_else(|_| fs::read_to_string(lab("LAB_KNOWN_HOSTS"))).unwrap();
    let entry = |address: SocketAddr| format!("[{}]:{} ", address.ip(), address.port());
    let (old_entry, new_entry) = (entry(from.parse().unwrap()), entry(to));
    let new: String = old
        .lines()
        .filter(|line| line.starts_with(&old_entry))
        .map(|line| line.replace(&old_entry, &new_entry) + "\n")
        .collect();
    assert!(!new.is_empty());
    fs::write(&known, old + &new).unwrap();
    let text = fs::read_to_string(&config).unwrap();
    let text = text.replace(&format!("address: '{from}'"), &format!("address: '{to}'"));
    fs::write(&config, text.replace(&lab("LAB_KNOWN_HOSTS"), known.to_str().unwrap())).unwrap();
}
