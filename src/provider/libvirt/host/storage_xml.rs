//! Reads libvirt's XML of pools and volumes.
//!
//! Values are taken by the path of their element and nothing else is looked at, so that elements of
//! newer servers do no harm.

use std::collections::BTreeMap;

use jiff::Timestamp;
use quick_xml::Reader;
use quick_xml::events::Event;

use super::calls::{PoolInfo, Volume};

/// The XML is not that of a pool or a volume.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the server's XML of a {what} cannot be read: {why}")]
pub struct XmlError {
    what: &'static str,
    why: String,
}

/// Reads a pool's XML, which does not say whether the pool is running. The folder is empty for a kind
/// of pool that has none.
///
/// # Errors
/// When it is not XML, its root is another one, or its sizes are no numbers.
pub fn parse_pool(xml: &str) -> Result<PoolInfo, XmlError> {
    let mut values = values("pool", xml)?;
    Ok(PoolInfo {
        kind: values.take("pool@type"),
        uuid: values.take("pool/uuid"),
        path: values.take("pool/target/path"),
        active: false,
        capacity: values.size("pool/capacity")?,
        available: values.size("pool/available")?,
    })
}

/// Reads a volume's XML. It says nothing of the length of a file that is empty.
///
/// # Errors
/// When it is not XML, its root is another one, or its sizes are no numbers.
pub fn parse_volume(xml: &str) -> Result<Volume, XmlError> {
    let mut values = values("volume", xml)?;
    let physical = if values.0.contains_key("volume/physical") { values.size("volume/physical")? } else { 0 };
    let backing = values.take("volume/backingStore/path");
    Ok(Volume {
        capacity: values.size("volume/capacity")?,
        allocation: values.size("volume/allocation")?,
        physical: Some(physical),
        modified: timestamp(&values.take("volume/target/timestamps/mtime")),
        mode: u32::from_str_radix(&values.take("volume/target/permissions/mode"), 8).ok(),
        format: values.take("volume/target/format@type"),
        path: values.take("volume/target/path"),
        name: values.take("volume/name"),
        backing: (!backing.is_empty()).then_some(backing),
    })
}

/// `seconds.nanoseconds` since 1970, as libvirt writes times.
fn timestamp(text: &str) -> Option<Timestamp> {
    let (seconds, nanoseconds) = text.split_once('.').unwrap_or((text, "0"));
    Timestamp::new(seconds.parse().ok()?, format!("{nanoseconds:0<9}").parse().ok()?).ok()
}

/// Texts by the path of their element, attributes by `path@name`.
struct Values(BTreeMap<String, String>);

impl Values {
    fn take(&mut self, path: &str) -> String {
        self.0.remove(path).unwrap_or_default()
    }

    fn size(&mut self, path: &str) -> Result<u64, XmlError> {
        let text = self.take(path);
        text.parse().map_err(|_| XmlError { what: "pool or volume", why: format!("{path} is not a number") })
    }
}

fn values(root: &'static str, xml: &str) -> Result<Values, XmlError> {
    let failed = |why: &dyn std::fmt::Display| XmlError { what: root, why: why.to_string() };
    let mut reader = Reader::from_str(xml);
    let mut found = BTreeMap::new();
    let mut path: Vec<String> = Vec::new();
    loop {
        let event = reader.read_event().map_err(|error| failed(&error))?;
        match &event {
            Event::Start(element) | Event::Empty(element) => {
                path.push(element.name().as_ref().to_owned());
                for attribute in element.attributes() {
                    let attribute = attribute.map_err(|error| failed(&error))?;
                    let name = attribute.key.as_ref().to_owned();
                    let value = attribute
                        .normalized_value(quick_xml::XmlVersion::Implicit1_0)
                        .map_err(|error| failed(&error))?;
                    found.entry(format!("{}@{name}", path.join("/"))).or_insert_with(|| value.into_owned());
                }
                if matches!(event, Event::Empty(_)) {
                    path.pop();
                }
            }
            Event::End(_) => {
                path.pop();
            }
            Event::Text(text) => append(&mut found, &path, text),
            Event::CData(text) => append(&mut found, &path, text),
            Event::GeneralRef(reference) => {
                let character = reference.resolve_char_ref().map_err(|error| failed(&error))?;
                let text = character
                    .map(String::from)
                    .or_else(|| quick_xml::escape::resolve_predefined_entity(reference).map(str::to_owned))
                    .ok_or_else(|| failed(&"an entity that XML does not define"))?;
                append(&mut found, &path, &text);
            }
            Event::Eof => break,
            _ => {}
        }
    }
    let mut values: BTreeMap<String, String> =
        found.into_iter().map(|(path, text)| (path, text.trim().to_owned())).collect();
    values.retain(|path, _| path.split(['/', '@']).next() == Some(root));
    if values.is_empty() { Err(failed(&format!("its root is not {root}"))) } else { Ok(Values(values)) }
}

fn append(found: &mut BTreeMap<String, String>, path: &[String], text: &str) {
    if !path.is_empty() {
        found.entry(path.join("/")).or_default().push_str(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_is_read_with_its_backing_file_and_times() {
        let xml = r"<volume type='file'>
  <name>a&amp;b.qcow2</name>
  <key>/pool/a&amp;b.qcow2</key>
  <capacity unit='bytes'>10737418240</capacity>
  <allocation unit='bytes'>200704</allocation>
  <physical unit='bytes'>196928</physical>
  <target>
    <path>/pool/a&amp;b.qcow2</path>
    <format type='qcow2'/>
    <permissions><mode>0600</mode><owner>0</owner><group>0</group></permissions>
    <timestamps><atime>1.5</atime><mtime>1700000000.25</mtime><ctime>2.5</ctime></timestamps>
    <compat>1.1</compat>
  </target>
  <backingStore>
    <path>/pool/base.qcow2</path>
    <format type='raw'/>
    <permissions><mode>0644</mode></permissions>
    <timestamps><mtime>9.9</mtime></timestamps>
  </backingStore>
</volume>";
        let volume = parse_volume(xml).unwrap();
        assert_eq!(
            volume,
            Volume {
                name: "a&b.qcow2".to_owned(),
                path: "/pool/a&b.qcow2".to_owned(),
                format: "qcow2".to_owned(),
                capacity: 10_737_418_240,
                allocation: 200_704,
                physical: Some(196_928),
                modified: Timestamp::new(1_700_000_000, 250_000_000).ok(),
                backing: Some("/pool/base.qcow2".to_owned()),
                mode: Some(0o600),
            }
        );
    }

    #[test]
    fn a_volume_without_the_optional_parts_is_read() {
        let volume = parse_volume(
            "<volume><name>n</name><capacity>0</capacity><allocation>0</allocation><backingStore/></volume>",
        )
        .unwrap();
        assert_eq!((volume.backing, volume.modified, volume.physical, volume.mode), (None, None, Some(0), None));
    }

    #[test]
    fn a_pool_is_read() {
        let xml = "<pool type='dir'><name>default</name><uuid>u-1</uuid><capacity unit='bytes'>3</capacity>\
                   <available unit='bytes'>2</available><source></source><target><path>/var/lib/pool</path></target></pool>";
        let pool = parse_pool(xml).unwrap();
        assert_eq!((pool.kind.as_str(), pool.uuid.as_str(), pool.path.as_str()), ("dir", "u-1", "/var/lib/pool"));
        assert_eq!((pool.capacity, pool.available), (3, 2));
    }

    #[test]
    fn what_is_no_volume_is_an_error() {
        for xml in [
            "",
            "<pool/>",
            "<volume>",
            "text",
            "<volume><capacity>x</capacity></volume>",
            "<volume><capacity>0</capacity><allocation>0</allocation><physical>x</physical></volume>",
            "<volume><a></volume>",
        ] {
            assert!(parse_volume(xml).is_err(), "{xml}");
        }
    }

    #[test]
    fn a_time_is_seconds_and_a_fraction() {
        for (text, time) in [
            ("1.000000001", Timestamp::new(1, 1).ok()),
            ("1.5", Timestamp::new(1, 500_000_000).ok()),
            ("7", Timestamp::new(7, 0).ok()),
            ("", None),
            ("x.1", None),
            ("1.x", None),
            ("99999999999999999.0", None),
        ] {
            assert_eq!(timestamp(text), time, "{text}");
        }
    }
}
