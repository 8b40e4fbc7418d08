//! A small XML tree: what the recorded host needs to take a domain's or volume's XML apart, to
//! keep metadata by namespace, and to write it all again.
//!
//! Reading and writing are quick-xml's. Comments, processing instructions and white space between
//! elements are dropped; text inside of an element is kept to the byte, as libvirt keeps it.

use quick_xml::XmlVersion;
use quick_xml::events::{BytesEnd, BytesStart, BytesText, Event};
use quick_xml::{Reader, Writer};

/// The deepest nesting that is read. A hostile document may not use the stack up.
const DEPTH_MAX: usize = 100;

/// An element with all that is in it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Element {
    /// The name as written, prefix included.
    pub(super) name: String,
    /// Attributes in their order, declarations of namespaces included.
    pub(super) attributes: Vec<(String, String)>,
    /// What is in it.
    pub(super) children: Vec<Node>,
}

/// What an element holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Node {
    /// Another element.
    Element(Element),
    /// Text, without escapes.
    Text(String),
}

/// Why a text is no XML document, in one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct Malformed(String);

impl Element {
    /// An element with attributes and nothing in it.
    pub(super) fn new(name: &str, attributes: &[(&str, &str)]) -> Self {
        let attributes = attributes.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Self { name: name.to_owned(), attributes, children: Vec::new() }
    }

    /// An element that holds `text`.
    pub(super) fn with_text(name: &str, text: &str) -> Self {
        Self { name: name.to_owned(), attributes: Vec::new(), children: vec![Node::Text(text.to_owned())] }
    }

    /// Adds a child and returns the whole.
    pub(super) fn with(mut self, child: Self) -> Self {
        self.children.push(Node::Element(child));
        self
    }

    /// The elements directly inside.
    pub(super) fn elements(&self) -> impl Iterator<Item = &Self> {
        self.children.iter().filter_map(|node| match node {
            Node::Element(element) => Some(element),
            Node::Text(_) => None,
        })
    }

    /// The same, to be changed.
    pub(super) fn elements_mut(&mut self) -> impl Iterator<Item = &mut Self> {
        self.children.iter_mut().filter_map(|node| match node {
            Node::Element(element) => Some(element),
            Node::Text(_) => None,
        })
    }

    /// The first element of that name directly inside.
    pub(super) fn child(&self, name: &str) -> Option<&Self> {
        self.elements().find(|element| element.name == name)
    }

    /// Follows a path of names from here.
    pub(super) fn at(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |element, name| element.child(name))
    }

    /// An attribute's value.
    pub(super) fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// The text directly inside, exact.
    pub(super) fn text(&self) -> String {
        self.children
            .iter()
            .filter_map(|node| match node {
                Node::Text(text) => Some(text.as_str()),
                Node::Element(_) => None,
            })
            .collect()
    }

    /// Reads a document.
    pub(super) fn parse(text: &str) -> Result<Self, Malformed> {
        let mut reader = Reader::from_str(text);
        let mut open: Vec<Self> = Vec::new();
        let mut root = None;
        loop {
            let event = reader.read_event().map_err(|error| Malformed(error.to_string()))?;
            let closed = match event {
                Event::Start(start) => {
                    if open.len() == DEPTH_MAX {
                        return Err(Malformed("the document is nested too deeply".to_owned()));
                    }
                    open.push(begin(&start)?);
                    None
                }
                Event::Empty(start) => Some(begin(&start)?),
                Event::End(_) => open.pop().map(Self::without_layout),
                Event::Text(text) => {
                    add_text(&mut open, &text.xml_content(XmlVersion::Implicit1_0))?;
                    None
                }
                Event::CData(text) => {
                    add_text(&mut open, &text.xml_content(XmlVersion::Implicit1_0))?;
                    None
                }
                Event::GeneralRef(reference) => {
                    add_text(&mut open, &resolve(&reference)?)?;
                    None
                }
                Event::DocType(_) => return Err(Malformed("document types are not read".to_owned())),
                Event::Comment(_) | Event::Decl(_) | Event::PI(_) => None,
                Event::Eof => break,
            };
            match (closed, open.last_mut()) {
                (Some(element), Some(parent)) => parent.children.push(Node::Element(element)),
                (Some(element), None) if root.is_none() => root = Some(element),
                (Some(_), None) => return Err(Malformed("extra content at the end of the document".to_owned())),
                (None, _) => {}
            }
        }
        match (root, open.last()) {
            (Some(root), None) => Ok(root),
            (_, Some(unclosed)) => Err(Malformed(format!("premature end of data in tag {}", unclosed.name))),
            (None, None) => Err(Malformed("document is empty".to_owned())),
        }
    }

    /// Writes the element, indented by two, with a line end last.
    pub(super) fn write(&self) -> String {
        let mut writer = Writer::new_with_indent(Vec::new(), b' ', 2);
        self.write_into(&mut writer);
        let mut text = String::from_utf8_lossy(&writer.into_inner()).into_owned();
        text.push('\n');
        text
    }

    fn write_into(&self, writer: &mut Writer<Vec<u8>>) {
        let mut start = BytesStart::new(self.name.as_str());
        for (name, value) in &self.attributes {
            start.push_attribute((name.as_str(), value.as_str()));
        }
        // Writing into memory has no failure to report.
        if self.children.is_empty() {
            let _ = writer.write_event(Event::Empty(start));
            return;
        }
        let _ = writer.write_event(Event::Start(start));
        for node in &self.children {
            match node {
                Node::Element(element) => element.write_into(writer),
                Node::Text(text) => {
                    let _ = writer.write_event(Event::Text(BytesText::new(text)));
                }
            }
        }
        let _ = writer.write_event(Event::End(BytesEnd::new(self.name.as_str())));
    }

    /// White space among elements is layout, not content.
    fn without_layout(mut self) -> Self {
        if self.elements().next().is_some() {
            self.children.retain(|node| match node {
                Node::Text(text) => !text.trim().is_empty(),
                Node::Element(_) => true,
            });
        }
        self
    }
}

fn begin(start: &BytesStart<'_>) -> Result<Element, Malformed> {
    let mut element = Element { name: start.name().0.to_owned(), ..Element::default() };
    for attribute in start.attributes() {
        let attribute = attribute.map_err(|error| Malformed(error.to_string()))?;
        let value =
            attribute.normalized_value(XmlVersion::Implicit1_0).map_err(|error| Malformed(error.to_string()))?;
        element.attributes.push((attribute.key.0.to_owned(), value.into_owned()));
    }
    Ok(element)
}

fn add_text(open: &mut [Element], text: &str) -> Result<(), Malformed> {
    match open.last_mut() {
        Some(element) => {
            match element.children.last_mut() {
                Some(Node::Text(before)) => before.push_str(text),
                _ => element.children.push(Node::Text(text.to_owned())),
            }
            Ok(())
        }
        None if text.trim().is_empty() => Ok(()),
        None => Err(Malformed("start tag expected, '<' not found".to_owned())),
    }
}

fn resolve(reference: &quick_xml::events::BytesRef<'_>) -> Result<String, Malformed> {
    if let Some(c) = reference.resolve_char_ref().map_err(|error| Malformed(error.to_string()))? {
        return Ok(c.to_string());
    }
    quick_xml::escape::resolve_predefined_entity(reference)
        .map(str::to_owned)
        .ok_or_else(|| Malformed(format!("entity '{}' not defined", &**reference)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_inside_of_an_element_survives_to_the_byte() {
        let text = "<a>\n  <b q=\"1 &lt; 2\">  padded &amp; &#x41;\n</b>\n  <c/>\n</a>\n";
        let read = Element::parse(text).unwrap();
        assert_eq!(read.child("b").unwrap().text(), "  padded & A\n");
        assert_eq!(read.child("b").unwrap().attribute("q"), Some("1 < 2"));
        assert_eq!(Element::parse(&read.write()).unwrap(), read);
        assert_eq!(read.write(), "<a>\n  <b q=\"1 &lt; 2\">  padded &amp; A\n</b>\n  <c/>\n</a>\n");
    }

    #[test]
    fn what_is_no_document_is_refused() {
        for text in ["", "text", "<a>", "<a></b>", "<a/><b/>", "<a>&nope;</a>", "<a b=1/>", "<!DOCTYPE a><a/>"] {
            assert!(Element::parse(text).is_err(), "{text}");
        }
        assert!(Element::parse(&format!("{}{}", "<a>".repeat(200), "</a>".repeat(200))).is_err());
    }
}
