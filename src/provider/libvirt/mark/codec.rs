//! The mark as XML. Strict where a decision hangs on a value, so that a damaged mark is never
//! taken for another one; lenient about white space, case and elements that it does not know.

use std::collections::BTreeMap;

use jiff::Timestamp;
use uuid::Uuid;

use super::{FINGERPRINT, FORMAT, NAMESPACE, PREFIX};
use crate::plan::{Fingerprint, Label, Mark, MarkState, ProxyKey};
use crate::provider::libvirt::xml::{Element, XmlError};

const STATES: [(&str, MarkState); 4] = [
    ("creating", MarkState::Creating),
    ("ready", MarkState::Ready),
    ("draining", MarkState::Draining),
    ("deleting", MarkState::Deleting),
];

/// Why a mark could not be read. Either way the domain that carries it is left alone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MarkError {
    /// A part of the mark is missing, doubled or not what it should be.
    #[error("the mark cannot be read: {what}")]
    Unreadable {
        /// The part, never its value.
        what: &'static str,
        /// What could be read all the same.
        bears: Box<Bears>,
    },
    /// A newer version of this program wrote the mark.
    #[error("the mark was written by a newer version of this program (version {version} of its {what})")]
    NewerTool {
        /// The part that has a version.
        what: &'static str,
        /// The version found.
        version: u32,
        /// What could be read all the same.
        bears: Box<Bears>,
    },
}

/// What could be read of a mark that is not whole, to say whose it probably is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Bears {
    /// The fleet.
    pub fleet: Option<Label>,
    /// The provider entry.
    pub provider: Option<Label>,
    /// The host.
    pub host: Option<Label>,
    /// The proxy.
    pub proxy: Option<ProxyKey>,
}

impl MarkError {
    /// What could be read all the same.
    #[must_use]
    pub fn bears(&self) -> &Bears {
        match self {
            Self::Unreadable { bears, .. } | Self::NewerTool { bears, .. } => bears,
        }
    }

    /// Whether the mark may be of `fleet`: it says so, or it does not say. What may be ours is
    /// blocked, never an orphan (L17).
    #[must_use]
    pub fn may_be_of(&self, fleet: &Label) -> bool {
        self.bears().fleet.as_ref().is_none_or(|found| found == fleet)
    }
}

/// The mark as the metadata call takes it: without prefix, which libvirt adds.
pub fn write(mark: &Mark) -> Result<String, XmlError> {
    body("instance", mark).to_xml()
}

/// The mark as a child of `<metadata>` in a domain's XML: with prefix and namespace.
#[must_use]
pub fn element(mark: &Mark) -> Element {
    body(&[PREFIX, ":instance"].concat(), mark).with(&["xmlns:", PREFIX].concat(), NAMESPACE)
}

fn body(name: &str, mark: &Mark) -> Element {
    let state = STATES.iter().find(|(_, state)| *state == mark.state).map_or("", |(text, _)| *text);
    let optional = |name: &str, value: Option<String>| value.map(|value| Element::text(name, value));
    Element::new(name)
        .with("version", FORMAT.to_string())
        .child(Element::text("fleet", &mark.fleet))
        .child(Element::text("provider", &mark.provider))
        .child(Element::text("host", &mark.host))
        .child(Element::text("proxy", mark.proxy.to_string()))
        .child(Element::text("domainUuid", &mark.machine))
        .child(Element::text("state", state))
        .child(fingerprint("spec", &mark.spec))
        .child(fingerprint("catalogue", &mark.catalogue))
        .children(mark.addresses.iter().map(|address| Element::text("address", address)))
        .child(Element::text("port", mark.port.to_string()))
        .child(Element::text("labels", &mark.labels))
        .child(Element::text("protect", mark.protect.to_string()))
        .child(Element::text("createdAt", mark.created_at.to_string()))
        .children(optional("startedAt", mark.started_at.map(|at| at.to_string())))
        .children(optional("source", mark.source.clone()))
        .child(Element::text("tool", &mark.tool))
        .children(optional("uid", mark.uid.clone()))
}

fn fingerprint(name: &str, print: &Fingerprint) -> Element {
    Element::new(name).with("version", print.version.to_string()).with("hash", &print.hash).children(
        print.parts.iter().map(|(name, digest)| Element::new("part").with("name", name).with("digest", digest)),
    )
}

/// Reads a mark as libvirt gives it back: any prefix or none, any indentation.
///
/// Values are trimmed; names, UUID, state and digests are lowered (L17). A `createdAt` that is not
/// a time makes the whole unreadable (L20).
pub fn read(xml: &str) -> Result<Mark, MarkError> {
    let root = Element::read(xml)
        .ok()
        .filter(|root| root.name() == "instance")
        .ok_or(MarkError::Unreadable { what: "it is not well-formed XML", bears: Box::default() })?;
    let reader = Reader { bears: Box::new(Bears::of(&root)), root: &root };
    reader.check_version("format", &root, FORMAT)?;
    let spec = reader.fingerprint("spec", "its spec hash")?;
    let catalogue = reader.fingerprint("catalogue", "its catalogue hash")?;
    let state = reader.lowered("state", "its state")?;
    let machine = reader.lowered("domainUuid", "its domain UUID")?;
    let protect = match reader.lowered("protect", "its protection")?.as_str() {
        "true" => true,
        "false" => false,
        _ => return Err(reader.unreadable("its protection")),
    };
    Ok(Mark {
        fleet: reader.parsed::<Label>("fleet", "its fleet")?.into(),
        provider: reader.parsed::<Label>("provider", "its provider entry")?.into(),
        host: reader.parsed::<Label>("host", "its host")?.into(),
        proxy: reader.parsed("proxy", "its proxy")?,
        machine: Uuid::try_parse(&machine).map_err(|_| reader.unreadable("its domain UUID"))?.to_string(),
        state: STATES
            .iter()
            .find(|(text, _)| *text == state)
            .map(|(_, state)| *state)
            .ok_or_else(|| reader.unreadable("its state"))?,
        spec,
        catalogue,
        addresses: root.all("address").map(|address| address.value().to_owned()).collect(),
        port: reader.parsed("port", "its port")?,
        labels: reader.lowered("labels", "its labels digest")?,
        protect,
        created_at: reader
            .time("createdAt", "its time of making")?
            .ok_or_else(|| reader.unreadable("its time of making"))?,
        started_at: reader.time("startedAt", "its time of starting")?,
        source: reader.optional("source", "its source")?.map(str::to_owned),
        tool: reader.optional("tool", "its tool")?.unwrap_or_default().to_owned(),
        uid: reader.optional("uid", "its uid")?.map(str::to_owned),
    })
}

impl Bears {
    fn of(root: &Element) -> Self {
        fn parsed<T: std::str::FromStr>(root: &Element, name: &str) -> Option<T> {
            let mut found = root.all(name);
            let value = found.next()?.value().to_lowercase().parse().ok();
            if found.next().is_some() { None } else { value }
        }
        Self {
            fleet: parsed(root, "fleet"),
            provider: parsed(root, "provider"),
            host: parsed(root, "host"),
            proxy: parsed(root, "proxy"),
        }
    }
}

struct Reader<'a> {
    root: &'a Element,
    bears: Box<Bears>,
}

impl<'a> Reader<'a> {
    fn unreadable(&self, what: &'static str) -> MarkError {
        MarkError::Unreadable { what, bears: self.bears.clone() }
    }

    /// The element of that name; `None` when it is absent or empty, an error when there are two.
    fn single(&self, name: &str, what: &'static str) -> Result<Option<&'a Element>, MarkError> {
        let mut found = self.root.every().iter().filter(|child| child.name() == name);
        let first = found.next();
        if found.next().is_some() { Err(self.unreadable(what)) } else { Ok(first) }
    }

    fn optional(&self, name: &str, what: &'static str) -> Result<Option<&'a str>, MarkError> {
        Ok(self.single(name, what)?.map(Element::value).filter(|value| !value.is_empty()))
    }

    fn lowered(&self, name: &str, what: &'static str) -> Result<String, MarkError> {
        let element = self.single(name, what)?.ok_or_else(|| self.unreadable(what))?;
        Ok(element.value().to_lowercase())
    }

    fn parsed<T: std::str::FromStr>(&self, name: &str, what: &'static str) -> Result<T, MarkError> {
        self.lowered(name, what)?.parse().map_err(|_| self.unreadable(what))
    }

    fn time(&self, name: &str, what: &'static str) -> Result<Option<Timestamp>, MarkError> {
        let value = self.optional(name, what)?;
        value.map(str::parse).transpose().map_err(|_| self.unreadable(what))
    }

    fn check_version(&self, what: &'static str, element: &Element, known: u32) -> Result<u32, MarkError> {
        let version = element.attribute("version").and_then(|version| version.trim().parse::<u32>().ok());
        match version {
            Some(version) if version > known => Err(MarkError::NewerTool { what, version, bears: self.bears.clone() }),
            Some(version) if version > 0 => Ok(version),
            _ => Err(self.unreadable("a version")),
        }
    }

    fn fingerprint(&self, name: &'static str, what: &'static str) -> Result<Fingerprint, MarkError> {
        let element = self.single(name, what)?.ok_or_else(|| self.unreadable(what))?;
        let version = self.check_version(name, element, FINGERPRINT)?;
        let hash = element.attribute("hash").unwrap_or_default().trim().to_lowercase();
        if hash.len() != 64 || !hash.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(self.unreadable(what));
        }
        let mut parts = BTreeMap::new();
        for part in element.all("part") {
            let (Some(name), Some(digest)) = (part.attribute("name"), part.attribute("digest")) else {
                return Err(self.unreadable(what));
            };
            if parts.insert(name.trim().to_owned(), digest.trim().to_lowercase()).is_some() {
                return Err(self.unreadable(what));
            }
        }
        Ok(Fingerprint { version, hash, parts })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::samples::mark;
    use super::*;

    fn unreadable(xml: &str) -> &'static str {
        match read(xml) {
            Err(MarkError::Unreadable { what, .. }) => what,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_mark_is_read_as_it_was_written() {
        let mark = mark();
        assert_eq!(read(&write(&mark).unwrap()), Ok(mark.clone()));
        assert_eq!(read(&element(&mark).to_xml().unwrap()), Ok(mark));
    }

    #[test]
    fn l17_padded_and_upper_case_values_are_the_same_mark() {
        let xml = write(&mark()).unwrap();
        let changed = xml
            .replace("<fleet>crawl-eu<", "<fleet>\n  CRAWL-EU\t <")
            .replace("<host>h1<", "<host> H1 <")
            .replace("<proxy>default/p1<", "<proxy> Default/P1<")
            .replace(
                "<domainUuid>00000000-0000-4000-8000-000000000001<",
                "<domainUuid> 00000000-0000-4000-8000-000000000001 <",
            )
            .replace(&"a".repeat(64), &"A".repeat(64))
            .replace("<state>ready<", "<state>Ready <");
        assert_ne!(xml, changed);
        assert_eq!(read(&changed), Ok(mark()));
    }

    #[test]
    fn l20_a_time_of_making_that_cannot_be_read_makes_the_mark_unreadable() {
        let xml = write(&mark()).unwrap();
        assert_eq!(unreadable(&xml.replace("2026-11-29T10:00:00Z", "yesterday")), "its time of making");
        assert_eq!(unreadable(&xml.replace("2026-11-29T10:00:00Z", "")), "its time of making");
        assert!(read(&xml.replace("2026-", "2999-")).is_ok(), "a future time is read; the plan clamps it");
    }

    #[test]
    fn a_missing_doubled_or_damaged_part_makes_the_mark_unreadable() {
        let xml = write(&mark()).unwrap();
        for (from, to, what) in [
            ("<fleet>crawl-eu</fleet>", "", "its fleet"),
            ("<fleet>crawl-eu</fleet>", "<fleet>crawl-eu</fleet><fleet>other</fleet>", "its fleet"),
            ("<host>h1</host>", "<host>h 1</host>", "its host"),
            ("<proxy>default/p1</proxy>", "<proxy>p1</proxy>", "its proxy"),
            ("4000-8000", "4000-800", "its domain UUID"),
            ("<state>ready<", "<state>done<", "its state"),
            ("<protect>false<", "<protect>no<", "its protection"),
            ("<port>3128<", "<port>70000<", "its port"),
            ("version=\"1\"", "version=\"one\"", "a version"),
            (&"a".repeat(64), &"a".repeat(63), "its spec hash"),
            ("</instance>", "", "it is not well-formed XML"),
        ] {
            let changed = xml.replace(from, to);
            assert_ne!(xml, changed, "{from}");
            assert_eq!(unreadable(&changed), what);
        }
    }

    #[test]
    fn an_unreadable_mark_says_whose_it_may_be() {
        let xml = write(&mark()).unwrap().replace("<port>3128<", "<port><");
        let error = read(&xml).unwrap_err();
        assert!(error.may_be_of(&"crawl-eu".parse().unwrap()));
        assert!(!error.may_be_of(&"other".parse().unwrap()));
        assert_eq!(error.bears().proxy, Some("default/p1".parse().unwrap()));
        let error = read(&xml.replace("<fleet>crawl-eu</fleet>", "")).unwrap_err();
        assert!(error.may_be_of(&"other".parse().unwrap()), "a mark that does not say may be anyone's");
    }

    #[test]
    fn a_newer_version_of_mark_or_hash_is_told_from_damage() {
        let xml = write(&mark()).unwrap();
        let newer = xml.replace("<instance version=\"1\"", "<instance version=\"2\"").replace("<port>3128</port>", "");
        assert!(matches!(read(&newer), Err(MarkError::NewerTool { what: "format", version: 2, .. })), "{newer}");
        let newer = xml.replace("<catalogue version=\"1\"", "<catalogue version=\"7\"");
        assert!(matches!(read(&newer), Err(MarkError::NewerTool { what: "catalogue", version: 7, .. })), "{newer}");
    }

    #[test]
    fn elements_that_are_not_known_are_passed_over() {
        let xml = write(&mark()).unwrap().replace("<port>", "<colour>blue</colour><!-- note --><port>");
        assert_eq!(read(&xml), Ok(mark()));
    }

    fn trimmed() -> impl Strategy<Value = String> {
        "[!-~é]{1,8}( [!-~é]{1,8}){0,2}"
    }

    proptest! {
        #[test]
        fn any_mark_survives_writing_and_reading(
            source in proptest::option::of(trimmed()), uid in proptest::option::of(trimmed()), tool in trimmed(),
            addresses in proptest::collection::vec(trimmed(), 0..3), port in any::<u16>(), protect in any::<bool>(),
            at in 0_i64..4_000_000_000, started in proptest::option::of(0_i64..4_000_000_000), state in 0_usize..4,
            machine in any::<u128>(), parts in proptest::collection::btree_map("[a-z-]{1,9}", "[0-9a-f]{8}", 0..4),
        ) {
            let time = |second| Timestamp::from_second(second).unwrap();
            let mut mark = mark();
            mark.spec.parts = parts;
            let mark = Mark {
                source, uid, tool, addresses, port, protect, state: STATES[state].1, created_at: time(at),
                started_at: started.map(time), machine: Uuid::from_u128(machine).to_string(), ..mark
            };
            prop_assert_eq!(read(&write(&mark).unwrap()), Ok(mark.clone()));
            prop_assert_eq!(read(&element(&mark).to_xml().unwrap()), Ok(mark));
        }

        #[test]
        fn reading_a_damaged_mark_never_panics(at in 0_usize..900, length in 0_usize..40, junk in "(?s).{0,6}") {
            let xml = write(&mark()).unwrap();
            let from = (0..=at.min(xml.len())).rev().find(|at| xml.is_char_boundary(*at)).unwrap();
            let to = (0..=(from + length).min(xml.len())).rev().find(|at| xml.is_char_boundary(*at)).unwrap();
            let damaged = [&xml[..from], &junk, &xml[to.max(from)..]].concat();
            let _ = read(&damaged);
            let _ = read(&junk);
        }
    }
}
