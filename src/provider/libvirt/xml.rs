//! An XML element as a value: built and written by this provider, or read from what a host sent.
//!
//! Names are local names: libvirt gives elements back without the prefix that they were written
//! with. Reading is bounded in depth, expands no entities but XML's own five, and never panics.
//! Depends on `quick-xml` alone; nothing here formats markup by hand.

use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesEnd, BytesStart, BytesText, Event};
use quick_xml::{Reader, Writer, XmlVersion};

/// How deep elements may nest; libvirt's own schemas stay below half of it.
const DEPTH: usize = 100;

/// Why XML could not be written or read. Never holds a value of the document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum XmlError {
    /// A value holds a control character, which XML cannot carry or would change.
    #[error("the value of {element:?} holds a character that XML cannot carry")]
    Unwritable {
        /// The element that would have held it.
        element: String,
    },
    /// The writer failed.
    #[error("the XML of {element:?} could not be written")]
    Write {
        /// The outermost element.
        element: String,
    },
    /// The text is not well-formed XML, or is nested too deeply.
    #[error("not well-formed XML at byte {at}")]
    Malformed {
        /// Where reading stopped.
        at: u64,
    },
}

/// An element with its attributes, its text and its children.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Element {
    name: String,
    attributes: Vec<(String, String)>,
    text: String,
    children: Vec<Element>,
}

impl Element {
    /// An empty element. `name` may carry a prefix.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    /// An element that holds text alone.
    #[must_use]
    pub fn text(name: &str, text: impl Into<String>) -> Self {
        Self { name: name.to_owned(), text: text.into(), ..Self::default() }
    }

    /// Adds an attribute.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.attributes.push((name.to_owned(), value.into()));
        self
    }

    /// Adds a child.
    #[must_use]
    pub fn child(mut self, child: Self) -> Self {
        self.children.push(child);
        self
    }

    /// Adds children.
    #[must_use]
    pub fn children(mut self, children: impl IntoIterator<Item = Self>) -> Self {
        self.children.extend(children);
        self
    }

    /// The local name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The element's own text, trimmed.
    #[must_use]
    pub fn value(&self) -> &str {
        self.text.trim()
    }

    /// An attribute's value.
    #[must_use]
    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The children of that name, in order.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Self> {
        self.children.iter().filter(move |child| child.name == name)
    }

    /// The first child of that name.
    #[must_use]
    pub fn first<'a>(&'a self, name: &'a str) -> Option<&'a Self> {
        self.all(name).next()
    }

    /// Every child, in order.
    #[must_use]
    pub fn every(&self) -> &[Self] {
        &self.children
    }

    /// Writes the element with everything in it, indented by two.
    pub fn to_xml(&self) -> Result<String, XmlError> {
        self.check()?;
        let mut writer = Writer::new_with_indent(Vec::new(), b' ', 2);
        let failed = || XmlError::Write { element: self.name.clone() };
        self.write(&mut writer).map_err(|_| failed())?;
        String::from_utf8(writer.into_inner()).map_err(|_| failed())
    }

    fn check(&self) -> Result<(), XmlError> {
        let fits = |text: &str| !text.chars().any(|c| c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}'));
        if !fits(&self.text) || !self.attributes.iter().all(|(_, value)| fits(value)) {
            return Err(XmlError::Unwritable { element: self.name.clone() });
        }
        self.children.iter().try_for_each(Self::check)
    }

    fn write(&self, writer: &mut Writer<Vec<u8>>) -> std::io::Result<()> {
        let mut start = BytesStart::new(self.name.as_str());
        for (name, value) in &self.attributes {
            start.push_attribute((name.as_str(), value.as_str()));
        }
        if self.text.is_empty() && self.children.is_empty() {
            return writer.write_event(Event::Empty(start));
        }
        writer.write_event(Event::Start(start))?;
        if !self.text.is_empty() {
            writer.write_event(Event::Text(BytesText::new(&self.text)))?;
        }
        for child in &self.children {
            child.write(writer)?;
        }
        writer.write_event(Event::End(BytesEnd::new(self.name.as_str())))
    }

    /// Reads the outermost element of `xml`. Comments and processing instructions are passed over.
    pub fn read(xml: &str) -> Result<Self, XmlError> {
        let mut reader = Reader::from_str(xml);
        let mut open: Vec<Self> = Vec::new();
        loop {
            let event = reader.read_event();
            let malformed = || XmlError::Malformed { at: reader.buffer_position() };
            let closed = match event.map_err(|_| malformed())? {
                Event::Start(tag) => {
                    if open.len() == DEPTH {
                        return Err(malformed());
                    }
                    open.push(Self::opened(&tag).ok_or_else(malformed)?);
                    None
                }
                Event::Empty(tag) => Some(Self::opened(&tag).ok_or_else(malformed)?),
                Event::End(_) => Some(open.pop().ok_or_else(malformed)?),
                Event::Text(text) => {
                    push(&mut open, &text.xml10_content());
                    None
                }
                Event::CData(text) => {
                    push(&mut open, &text.xml10_content());
                    None
                }
                Event::GeneralRef(reference) => {
                    match reference.resolve_char_ref().map_err(|_| malformed())? {
                        Some(character) => push(&mut open, character.encode_utf8(&mut [0; 4])),
                        None => push(&mut open, resolve_predefined_entity(&reference).ok_or_else(malformed)?),
                    }
                    None
                }
                Event::Eof => return Err(malformed()),
                Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => None,
            };
            if let Some(element) = closed {
                match open.last_mut() {
                    Some(parent) => parent.children.push(element),
                    None => return Ok(element),
                }
            }
        }
    }

    fn opened(tag: &BytesStart<'_>) -> Option<Self> {
        let mut element = Self::new(tag.local_name().as_ref());
        // A name has one prefix at most.
        if !is_name(element.name()) || element.name().contains(':') || !is_name(tag.name().as_ref()) {
            return None;
        }
        for attribute in tag.attributes() {
            let attribute = attribute.ok().filter(|attribute| is_name(attribute.key.as_ref()))?;
            let value = attribute.normalized_value(XmlVersion::Implicit1_0).ok()?;
            element.attributes.push((attribute.key.as_ref().to_owned(), value.into_owned()));
        }
        Some(element)
    }
}

/// Whether `text` may be a name. The reader below takes whatever stands there, so that damaged markup
/// would pass as an element; every name that XML allows passes here.
fn is_name(text: &str) -> bool {
    let odd = |c: char| c.is_control() || c.is_whitespace() || "\"'<>/=&".contains(c);
    !text.is_empty() && !text.contains(odd)
}

fn push(open: &mut [Element], text: &str) {
    if let Some(element) = open.last_mut() {
        element.text.push_str(text);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn values_are_escaped_and_control_characters_refused() {
        let element = Element::new("a").with("b", "<\"&'>").child(Element::text("c", "]]> & <d/>"));
        let xml = element.to_xml().unwrap();
        assert_eq!(Element::read(&xml).unwrap().attribute("b"), Some("<\"&'>"));
        assert_eq!(Element::read(&xml).unwrap().first("c").unwrap().value(), "]]> & <d/>");
        for bad in ["\0", "\u{1}", "a\nb", "\u{ffff}"] {
            assert_eq!(
                Element::new("a").child(Element::text("c", bad)).to_xml(),
                Err(XmlError::Unwritable { element: "c".to_owned() })
            );
        }
    }

    #[test]
    fn what_is_not_xml_is_an_error() {
        let deep = ["<a>".repeat(5_000), "</a>".repeat(5_000)].concat();
        for bad in ["", "text", "<a>", "</a>", "<a></b>", "<a b='1' b='2'/>", "<a>&unknown;</a>", "<a>&#0;</a>", &deep]
        {
            assert!(Element::read(bad).is_err(), "{:?}", &bad[..bad.len().min(30)]);
        }
    }

    #[test]
    fn a_name_that_is_none_is_an_error() {
        // Found by fuzzing: markup that was damaged was read as an element of a strange name.
        for bad in [
            "<a=\"/x\"/>",
            "<a:/>",
            "<a:b:c/>",
            "<::a/>",
            "<a\"/>",
            "<b c\"='1'/>",
            "<b ='1'/>",
            "<a\u{1}/>",
            "<b><a'></a'></b>",
        ] {
            assert!(Element::read(bad).is_err(), "{bad:?}");
        }
        for good in ["<ä:é/>", "<_a.b-c xml:lang='x'/>", "<a xmlns:q='urn:q' q:b='1'/>"] {
            assert!(Element::read(good).is_ok(), "{good:?}");
        }
    }

    #[test]
    fn an_entity_bomb_does_not_expand() {
        let bomb = "<!DOCTYPE a [<!ENTITY x 'xxxxxxxx'><!ENTITY y '&x;&x;&x;'>]><a>&y;</a>";
        assert!(Element::read(bomb).is_err());
    }

    proptest! {
        #[test]
        fn reading_never_panics(text in "(?s).{0,200}", markup in r"(<[a-c:/!?]{1,3}( x='[&#;a]{0,4}')?/?>|&[a-z#0-9]{0,4};|[a-z ]{1,3}|<!\[CDATA\[|\]\]>|<!--|-->){0,30}") {
            let _ = Element::read(&text);
            let _ = Element::read(&markup);
        }

        #[test]
        fn what_was_written_is_read(name in "[a-z]{1,8}", value in "[^\\p{C}]{0,40}", inner in "[^\\p{C}]{1,40}") {
            let element = Element::new(&name).with("x", value.clone()).child(Element::text("i", inner.clone()));
            let read = Element::read(&element.to_xml().unwrap()).unwrap();
            prop_assert_eq!(read.attribute("x"), Some(value.as_str()));
            prop_assert_eq!(read.first("i").unwrap().value(), inner.trim());
        }
    }
}
