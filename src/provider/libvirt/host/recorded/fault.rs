//! Faults on demand, and the log of calls: what tests of interrupted runs are built on.

use std::fmt;
use std::sync::Arc;

use super::super::calls::CallError;

/// A call that was made, refused or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Called {
    /// Its name, that of the method.
    pub call: &'static str,
    /// A domain's, volume's or interface's name; empty for calls about the host.
    pub object: String,
    /// Whether it is one that changes something.
    pub changes: bool,
}

/// What happens at a call. The world is not locked meanwhile.
pub type Point = Arc<dyn Fn() + Send + Sync>;

/// What a rule does to a call.
#[derive(Clone)]
pub enum Effect {
    /// It is refused with this error and does nothing.
    Refuse(CallError),
    /// The connection dies before the call does anything.
    CutBefore,
    /// The call does what it does, and the connection dies before the answer.
    CutAfter,
    /// The call does nothing until somebody ends its connection.
    Hang,
    /// This runs first; then the call goes on.
    Before(Point),
    /// The call is done; then this runs.
    After(Point),
    /// An upload is said to have succeeded, and its last bytes are missing.
    LoseTail(u64),
    /// The connection of an upload dies once at least that many bytes were sent.
    CutUpload(u64),
    /// This runs once at least that many bytes of an upload were sent.
    DuringUpload(u64, Point),
}

impl fmt::Debug for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refuse(error) => f.debug_tuple("Refuse").field(error).finish(),
            Self::CutBefore => f.write_str("CutBefore"),
            Self::CutAfter => f.write_str("CutAfter"),
            Self::Hang => f.write_str("Hang"),
            Self::Before(_) => f.write_str("Before"),
            Self::After(_) => f.write_str("After"),
            Self::LoseTail(bytes) => f.debug_tuple("LoseTail").field(bytes).finish(),
            Self::CutUpload(bytes) => f.debug_tuple("CutUpload").field(bytes).finish(),
            Self::DuringUpload(bytes, _) => f.debug_tuple("DuringUpload").field(bytes).finish(),
        }
    }
}

/// The name by which a rule means the opening of a connection. A rule that names no call does not
/// mean it, and it is not in the log: calls are numbered the same however many connections make them.
pub const OPEN: &str = "open";

/// Which calls a fault befalls, and what it is.
#[derive(Debug, Clone)]
pub struct Rule {
    call: Option<&'static str>,
    object: Option<String>,
    changes_only: bool,
    nth: Option<u64>,
    effect: Effect,
    seen: u64,
}

impl Rule {
    /// Befalls every call.
    #[must_use]
    pub fn always(effect: Effect) -> Self {
        Self { call: None, object: None, changes_only: false, nth: None, effect, seen: 0 }
    }

    /// Befalls the `nth` call alone, from 1, counted from when the rule is set over all calls that
    /// the rule's other limits let through.
    #[must_use]
    pub fn nth(nth: u64, effect: Effect) -> Self {
        Self { nth: Some(nth), ..Self::always(effect) }
    }

    /// Limits the rule to calls of that name, which is the method's, or to [`OPEN`].
    #[must_use]
    pub fn of(mut self, call: &'static str) -> Self {
        self.call = Some(call);
        self
    }

    /// Limits the rule to calls about that object.
    #[must_use]
    pub fn on(mut self, object: impl Into<String>) -> Self {
        self.object = Some(object.into());
        self
    }

    /// Limits the rule to calls that change something.
    #[must_use]
    pub fn changing(mut self) -> Self {
        self.changes_only = true;
        self
    }

    fn befalls(&mut self, called: &Called) -> bool {
        let meant = self.call.map_or(called.call != OPEN, |call| call == called.call)
            && self.object.as_ref().is_none_or(|object| *object == called.object)
            && (called.changes || !self.changes_only);
        if meant {
            self.seen = self.seen.saturating_add(1);
        }
        meant && self.nth.is_none_or(|nth| nth == self.seen)
    }
}

/// The rules in force and the calls so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Faults {
    rules: Vec<Rule>,
    log: Vec<Called>,
    opens: u64,
}

impl Faults {
    /// Adds a rule.
    pub(super) fn add(&mut self, rule: Rule) {
        self.rules.push(rule);
    }

    /// Lifts all rules.
    pub(super) fn clear(&mut self) {
        self.rules.clear();
    }

    /// The calls so far.
    pub(super) fn log(&self) -> &[Called] {
        &self.log
    }

    /// How many connections were asked for so far.
    pub(super) fn opens(&self) -> u64 {
        self.opens
    }

    /// Notes that a connection is asked for and tells what befalls that.
    pub(super) fn note_open(&mut self) -> Vec<Effect> {
        self.opens = self.opens.saturating_add(1);
        self.befalling(&Called { call: OPEN, object: String::new(), changes: false })
    }

    /// Notes a call and tells what befalls it, in the order of the rules.
    pub(super) fn note(&mut self, called: Called) -> Vec<Effect> {
        let effects = self.befalling(&called);
        self.log.push(called);
        effects
    }

    fn befalling(&mut self, called: &Called) -> Vec<Effect> {
        let befall = self.rules.iter_mut().filter_map(|rule| rule.befalls(called).then(|| rule.effect.clone()));
        befall.collect()
    }
}
