//! A configuration's metadata: one element a namespace, found by that namespace and by nothing
//! else (L21). What an element is called, and by which prefix, makes no difference.

use super::super::calls::{CallError, CallResult, code, part};
use super::error;
use super::xml::Element;

/// libvirt's XML part (`VIR_FROM_XML`).
const PART_XML: i32 = 5;

/// The elements of one configuration's `<metadata>`, each with the URI of its namespace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Metadata(Vec<(String, Element)>);

impl Metadata {
    /// Takes `<metadata>` out of a domain's XML. A second element of one namespace is dropped, and
    /// so is an element of none.
    pub(super) fn take(domain: &mut Element) -> Self {
        let outer = domain.attributes.clone();
        let mut found = Self::default();
        let holders = domain.elements().filter(|element| element.name == "metadata").cloned().collect::<Vec<_>>();
        for holder in holders {
            let scope = [outer.as_slice(), holder.attributes.as_slice()].concat();
            for element in holder.elements() {
                let mut element = element.clone();
                let key = declaration(&element);
                let uri = match (element.attribute(&key), declared(&scope, &key)) {
                    (Some(own), _) => own.to_owned(),
                    (None, Some(inherited)) => {
                        element.attributes.push((key, inherited.to_owned()));
                        inherited.to_owned()
                    }
                    (None, None) => continue,
                };
                if found.element(&uri).is_none() {
                    found.0.push((uri, element));
                }
            }
        }
        domain.children.retain(|node| !matches!(node, super::xml::Node::Element(e) if e.name == "metadata"));
        found
    }

    /// The `<metadata>` to put back; nothing when there is none.
    pub(super) fn to_element(&self) -> Option<Element> {
        if self.0.is_empty() {
            return None;
        }
        let whole = Element::new("metadata", &[]);
        Some(self.0.iter().fold(whole, |whole, (_, element)| whole.with(element.clone())))
    }

    /// The URIs and elements.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Element)> {
        self.0.iter().map(|(uri, element)| (uri.as_str(), element))
    }

    /// Changes elements in place.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (&str, &mut Element)> {
        self.0.iter_mut().map(|(uri, element)| (uri.as_str(), element))
    }

    fn element(&self, uri: &str) -> Option<&Element> {
        self.0.iter().find(|(found, _)| found == uri).map(|(_, element)| element)
    }

    /// Whether there is an element of that namespace.
    pub(super) fn has(&self, uri: &str) -> bool {
        self.element(uri).is_some()
    }

    /// The element of namespace `uri`, without its prefix, as libvirt gives it.
    pub(super) fn get(&self, uri: &str) -> CallResult<String> {
        match self.element(uri) {
            Some(element) => Ok(bare(element).write().trim_end().to_owned()),
            None => Err(absent()),
        }
    }

    /// Puts an element in the place of the one of its namespace. Elements of `text` without a
    /// namespace get `uri`, under `prefix`.
    pub(super) fn set(&mut self, uri: &str, prefix: &str, text: &str) -> CallResult<()> {
        let starts_well = prefix.starts_with(|c: char| c.is_alphabetic() || c == '_');
        if !starts_well || prefix.contains(':') {
            return Err(error::internal(PART_XML, "failed to validate prefix for a new XML namespace"));
        }
        let mut element = Element::parse(text)
            .map_err(|malformed| error::malformed(part::DOMAIN, format!("(metadata_xml):1: {malformed}")))?;
        // Measured on 9.0: an element that declares the caller's prefix itself is refused, even for
        // the same URI.
        let given = format!("xmlns:{prefix}");
        if element.attribute(&given).is_some() {
            return Err(error::internal(PART_XML, "failed to create a new XML namespace"));
        }
        adopt(&mut element, prefix, false);
        let own = element.attribute(&declaration(&element)).unwrap_or(uri).to_owned();
        element.attributes.push((given, uri.to_owned()));
        self.0.retain(|(found, _)| *found != own);
        self.0.push((own, element));
        Ok(())
    }

    /// Adds an element of a namespace of which nothing else is known.
    pub(super) fn put(&mut self, uri: &str, element: Element) {
        self.0.push((uri.to_owned(), element));
    }
}

/// 80: no element of that namespace.
fn absent() -> CallError {
    error::other(
        code::NO_DOMAIN_METADATA,
        part::DOMAIN,
        "metadata not found: Requested metadata element is not present",
    )
}

/// The attribute that declares the namespace of this element's name.
fn declaration(element: &Element) -> String {
    element.name.split_once(':').map_or_else(|| "xmlns".to_owned(), |(prefix, _)| format!("xmlns:{prefix}"))
}

fn declared<'a>(scope: &'a [(String, String)], key: &str) -> Option<&'a str> {
    scope.iter().rev().find(|(name, _)| name == key).map(|(_, uri)| uri.as_str())
}

/// Gives `prefix` to every element that has no namespace. `defaulted` tells whether an element
/// further out declares a default one.
fn adopt(element: &mut Element, prefix: &str, defaulted: bool) {
    let defaulted = defaulted || element.attribute("xmlns").is_some();
    if !defaulted && !element.name.contains(':') {
        element.name = format!("{prefix}:{}", element.name);
    }
    for child in element.elements_mut() {
        adopt(child, prefix, defaulted);
    }
}

/// The element without the prefix of its namespace, on itself and on what is in it.
fn bare(element: &Element) -> Element {
    fn strip(element: &mut Element, prefix: &str) {
        if let Some(local) = element.name.strip_prefix(prefix) {
            element.name = local.to_owned();
        }
        for child in element.elements_mut() {
            strip(child, prefix);
        }
    }
    let mut bare = element.clone();
    let key = declaration(element);
    bare.attributes.retain(|(name, _)| *name != key);
    if let Some((prefix, _)) = element.name.split_once(':') {
        strip(&mut bare, &format!("{prefix}:"));
    }
    bare
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(metadata: &str) -> Metadata {
        let text = format!("<domain xmlns:o='urn:outer'><metadata xmlns:m='urn:m'>{metadata}</metadata></domain>");
        Metadata::take(&mut Element::parse(&text).unwrap())
    }

    #[test]
    fn l21_metadata_is_found_by_its_namespace_alone() {
        let found = of("<x:one xmlns:x='urn:x'>A</x:one><x:one xmlns:x='urn:y' q='1'><x:k/></x:one><o:c/><m:d/><e/>");
        assert_eq!(found.get("urn:x").unwrap(), "<one>A</one>");
        assert_eq!(found.get("urn:y").unwrap(), "<one q=\"1\">\n  <k/>\n</one>");
        assert_eq!(found.get("urn:outer").unwrap(), "<c/>");
        assert_eq!(found.get("urn:m").unwrap(), "<d/>");
        for uri in ["", "urn:z", "one", "x", "urn:X"] {
            assert_eq!(found.get(uri).unwrap_err().code, code::NO_DOMAIN_METADATA, "{uri}");
        }
    }

    #[test]
    fn the_second_element_of_a_namespace_is_dropped() {
        let found = of("<a:one xmlns:a='urn:x'/><b:two xmlns:b='urn:x'/>");
        assert_eq!(found.get("urn:x").unwrap(), "<one/>");
        assert_eq!(found.iter().count(), 1);
    }

    #[test]
    fn setting_replaces_the_element_of_the_namespace_whatever_its_prefix() {
        let mut found = of("<x:one xmlns:x='urn:x'>A</x:one>");
        found.set("urn:x", "k", "<one z='1'><in/></one>").unwrap();
        assert_eq!(found.get("urn:x").unwrap(), "<one z=\"1\">\n  <in/>\n</one>");
        // Measured: the declaration of the caller's prefix stays beside the element's own.
        found.set("urn:x", "egress", "<p:one xmlns:p='urn:x'><p:in/></p:one>").unwrap();
        assert_eq!(found.get("urn:x").unwrap(), "<one xmlns:egress=\"urn:x\">\n  <in/>\n</one>");
        assert_eq!(found.iter().count(), 1);
        assert_eq!(found.set("urn:x", "k", "<one><").unwrap_err().code, code::XML_DETAIL);
        for (prefix, text) in [("1k", "<one/>"), ("a:b", "<one/>"), ("k", "<k:one xmlns:k='urn:x'/>")] {
            assert_eq!(found.set("urn:x", prefix, text).unwrap_err().code, code::INTERNAL_ERROR, "{prefix} {text}");
        }
        // An element that brings its own namespace is found under that one.
        found.set("urn:q", "k", "<p:one xmlns:p='urn:zz'/>").unwrap();
        assert_eq!(found.get("urn:q").unwrap_err().code, code::NO_DOMAIN_METADATA);
        assert_eq!(found.get("urn:zz").unwrap(), "<one xmlns:k=\"urn:q\"/>");
    }
}
