//! Progress with a clock that the test turns.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use super::super::fixture::{done, failed, host, key, known};
use super::*;
use crate::apply::{ActionOutcome, StepResult, Subject};
use crate::plan::{ActionId, Reason};
use crate::provider::{Direction, Transfer};

#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("not poisoned").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Sink {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().expect("not poisoned").clone()).expect("UTF-8")
    }
}

struct Stage {
    progress: Progress,
    sink: Sink,
    seconds: Arc<AtomicU64>,
}

impl Stage {
    fn plain() -> Self {
        let (sink, seconds) = (Sink::default(), Arc::new(AtomicU64::new(0)));
        let hand = Arc::clone(&seconds);
        let clock: Clock = Arc::new(move || Duration::from_secs(hand.load(Ordering::SeqCst)));
        Self { progress: Progress::plain(Box::new(sink.clone()), clock), sink, seconds }
    }

    /// Ticks every second up to `seconds`.
    fn until(&self, seconds: u64) {
        while self.seconds.fetch_add(1, Ordering::SeqCst) + 1 < seconds {
            self.progress.tick();
        }
        self.progress.tick();
    }
}

fn subject(proxy: &str) -> Subject {
    Subject::Action {
        id: ActionId(format!("create {proxy} on lab/h1")),
        verb: "create",
        proxy: key(proxy),
        place: host("lab/h1"),
        instance: "egress-b".to_owned(),
    }
}

fn image() -> Subject {
    Subject::Image { place: host("lab/h1"), key: "debian-13".to_owned() }
}

fn transfer(direction: Direction, mib: u64) -> Event {
    let place = (direction == Direction::Upload).then(|| host("lab/h1"));
    let image = "debian-13".to_owned();
    Event::Transfer(Transfer { direction, image, place, done: mib << 20, total: Some(400 << 20) })
}

fn finished(subject: Subject, what: ActionOutcome) -> Event {
    Event::Finished(subject, Box::new(what))
}

#[test]
fn plain_lines_tell_start_end_and_every_ten_seconds_what_is_still_in_flight() {
    let stage = Stage::plain();
    let on = |event: Event| stage.progress.on(&event);
    on(Event::WaitingForLock { place: host("lab/h1"), run: "7f3a".to_owned() });
    on(Event::WaitingForLock { place: host("lab/h1"), run: "7f3a".to_owned() });
    on(Event::Started(image()));
    on(transfer(Direction::Download, 0));
    stage.until(10);
    on(transfer(Direction::Download, 120));
    stage.until(20);
    on(transfer(Direction::Download, 400));
    on(transfer(Direction::Upload, 1));
    stage.until(25);
    on(transfer(Direction::Upload, 400));
    on(finished(image(), done(25.0)));
    on(Event::Started(subject("a/b")));
    on(Event::Started(subject("a/c")));
    stage.until(36);
    on(Event::Stage(subject("a/b"), "seed"));
    on(Event::Retrying(subject("a/c"), "the connection was lost".to_owned()));
    stage.until(47);
    on(finished(subject("a/b"), ActionOutcome { address: Some(known(&["192.0.2.7"])), ..done(22.0) }));
    on(finished(subject("a/c"), failed("transient", Reason::Timeout, "start the domain: no answer")));
    stage.until(80);
    insta::assert_snapshot!(stage.sink.text());
}

#[test]
fn each_end_has_its_sentence() {
    let skipped = ActionOutcome::skipped(Reason::DependencyFailed, "another action failed first");
    for (what, wanted) in [
        (done(3.25), "created a/b on lab/h1 after 3.2s"),
        (ActionOutcome { result: StepResult::AlreadyDone, ..done(0.0) }, "create a/b on lab/h1: it was so already"),
        (
            ActionOutcome { result: StepResult::Changed, ..skipped.clone() },
            "create a/b on lab/h1: nothing was done: another action failed first",
        ),
        (skipped, "create a/b on lab/h1: skipped: another action failed first"),
        (
            failed("permanent", Reason::Forbidden, "define the domain x: no"),
            "create a/b on lab/h1: failed after 12s: define the domain x: no",
        ),
    ] {
        let stage = Stage::plain();
        stage.progress.on(&finished(subject("a/b"), what));
        assert_eq!(stage.sink.text(), format!("{wanted}\n"));
    }
}

#[test]
fn r39_plain_lines_hold_no_escape_byte() {
    let stage = Stage::plain();
    let evil = "\u{1b}[31m\r\nx\u{9b}";
    stage.progress.on(&Event::Retrying(subject("a/b"), evil.to_owned()));
    stage.progress.on(&finished(subject("a/b"), failed("transient", Reason::Timeout, evil)));
    stage.progress.on(&Event::WaitingForLock { place: host("lab/h1"), run: evil.to_owned() });
    stage.progress.print("one\ntwo\u{1b}[0m\n");
    let text = stage.sink.text();
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
    assert_eq!(text.lines().count(), 5, "{text:?}");
}

#[test]
fn with_json_logs_nothing_is_shown() {
    let progress = Progress::off();
    progress.on(&Event::Started(subject("a/b")));
    progress.tick();
    progress.finish();
    assert!(matches!(&*progress.lock(), Shown::Off));
}

#[test]
fn an_output_that_is_gone_stops_nothing() {
    struct Gone;
    impl Write for Gone {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Err(std::io::ErrorKind::BrokenPipe.into())
        }
    }
    let progress = Progress::plain(Box::new(Gone), monotonic());
    progress.on(&Event::Started(subject("a/b")));
    progress.on(&finished(subject("a/b"), done(1.0)));
}

/// A terminal that keeps what is written to it, a line an element.
#[derive(Debug, Clone, Default)]
struct Terminal(Arc<Mutex<Vec<String>>>);

impl Terminal {
    fn take(&self) -> String {
        std::mem::take(&mut *self.0.lock().expect("not poisoned")).concat()
    }

    fn push(&self, text: String) {
        self.0.lock().expect("not poisoned").push(text);
    }
}

impl indicatif::TermLike for Terminal {
    fn width(&self) -> u16 {
        100
    }
    fn move_cursor_up(&self, _: usize) -> std::io::Result<()> {
        Ok(())
    }
    fn move_cursor_down(&self, _: usize) -> std::io::Result<()> {
        Ok(())
    }
    fn move_cursor_right(&self, _: usize) -> std::io::Result<()> {
        Ok(())
    }
    fn move_cursor_left(&self, _: usize) -> std::io::Result<()> {
        Ok(())
    }
    fn write_line(&self, text: &str) -> std::io::Result<()> {
        self.push(format!("{text}\n"));
        Ok(())
    }
    fn write_str(&self, text: &str) -> std::io::Result<()> {
        self.push(text.to_owned());
        Ok(())
    }
    fn clear_line(&self) -> std::io::Result<()> {
        Ok(())
    }
    fn flush(&self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn on_a_terminal_what_is_in_flight_moves_and_what_ended_stands_above() {
    let (terminal, seconds) = (Terminal::default(), Arc::new(AtomicU64::new(0)));
    let hand = Arc::clone(&seconds);
    let clock: Clock = Arc::new(move || Duration::from_secs(hand.load(Ordering::SeqCst)));
    let target = ProgressDrawTarget::term_like(Box::new(terminal.clone()));
    let progress = Progress::bars(target, clock);

    progress.on(&Event::Started(subject("a/b")));
    progress.on(&Event::Stage(subject("a/b"), "overlay"));
    seconds.store(12, Ordering::SeqCst);
    // The terminal is drawn to some twenty times a second at most; a line that is printed is drawn at once.
    progress.tick();
    progress.print("a line from elsewhere");
    let drawn = terminal.take();
    assert!(drawn.contains("a line from elsewhere"), "{drawn:?}");
    assert!(drawn.contains("creating a/b on lab/h1 … overlay 12s"), "{drawn:?}");

    progress.on(&transfer(Direction::Upload, 100));
    progress.print("another");
    let drawn = terminal.take();
    assert!(drawn.contains("uploading debian-13 to lab/h1 ["), "{drawn:?}");
    assert!(drawn.contains("of 400.00 MiB at"), "{drawn:?}");

    progress.on(&finished(image(), done(30.0)));
    progress.on(&finished(subject("a/b"), done(12.0)));
    let drawn = terminal.take();
    assert!(drawn.contains("created a/b on lab/h1 after 12s"), "{drawn:?}");
    progress.print("last");
    let drawn = terminal.take();
    assert!(!drawn.contains("creating") && !drawn.contains("uploading"), "{drawn:?}");
    progress.finish();
}
