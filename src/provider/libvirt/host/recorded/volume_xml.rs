//! A volume's XML, as far as making one acts on it.

use super::super::calls::{CallResult, code, part};
use super::error;
use super::xml::Element;

/// What is to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct VolumeXml {
    pub(super) name: String,
    /// Bytes; absent only for an overlay, which then is as large as its base.
    pub(super) capacity: Option<u64>,
    /// Bytes; absent means all of the capacity.
    pub(super) allocation: Option<u64>,
    pub(super) format: String,
    pub(super) backing: Option<String>,
    pub(super) mode: Option<u32>,
}

impl VolumeXml {
    /// Reads a volume's XML with libvirt's refusals.
    pub(super) fn parse(text: &str) -> CallResult<Self> {
        let tree = Element::parse(text).map_err(|malformed| {
            error::malformed(part::STORAGE, format!("(storage_volume_definition):1: {malformed}"))
        })?;
        if tree.name != "volume" {
            return Err(error::xml(5, format!("expecting root element of 'volume', not '{}'", tree.name)));
        }
        let name = tree.child("name").map(Element::text).unwrap_or_default();
        if name.is_empty() {
            return Err(error::xml(part::STORAGE, "missing volume name element"));
        }
        let backing = tree.at(&["backingStore", "path"]).map(|path| path.text().trim().to_owned());
        let format = tree.at(&["target", "format"]).and_then(|format| format.attribute("type")).unwrap_or("raw");
        if !["raw", "qcow2"].contains(&format) {
            return Err(error::unsupported(part::STORAGE, format!("unknown volume format type {format}")));
        }
        let capacity = tree.child("capacity").map(size).transpose()?;
        if capacity.is_none() && backing.is_none() {
            return Err(error::xml(part::STORAGE, "missing capacity element"));
        }
        let mode = match tree.at(&["target", "permissions", "mode"]).map(Element::text) {
            Some(text) => Some(
                u32::from_str_radix(text.trim(), 8).map_err(|_| error::xml(part::STORAGE, "malformed octal mode"))?,
            ),
            None => None,
        };
        Ok(Self {
            name,
            capacity,
            allocation: tree.child("allocation").map(size).transpose()?,
            format: format.to_owned(),
            backing,
            mode,
        })
    }
}

/// A size with libvirt's units: powers of 1,024 with an `i` or alone, of 1,000 with a `B`.
fn size(element: &Element) -> CallResult<u64> {
    let unit = element.attribute("unit").unwrap_or("bytes");
    let factor: u64 = match unit {
        "b" | "byte" | "bytes" | "B" => 1,
        "k" | "K" | "KiB" => 1 << 10,
        "M" | "MiB" => 1 << 20,
        "G" | "GiB" => 1 << 30,
        "T" | "TiB" => 1 << 40,
        "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        _ => return Err(error::other(code::INVALID_ARG, part::NONE, format!("unknown suffix '{unit}'"))),
    };
    let number: u64 = element
        .text()
        .trim()
        .parse()
        .map_err(|_| error::xml(part::STORAGE, format!("malformed {} element", element.name)))?;
    number
        .checked_mul(factor)
        .ok_or_else(|| error::other(OVERFLOW, part::NONE, format!("value too large: {number}{unit}")))
}

/// `VIR_ERR_OVERFLOW`.
const OVERFLOW: i32 = 82;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overlay_is_read_with_all_that_matters() {
        let text = "<volume><name>o.qcow2</name><capacity unit='GiB'>10</capacity><allocation>0</allocation>
            <target><format type='qcow2'/><permissions><mode>0640</mode></permissions></target>
            <backingStore><path>/p/base</path><format type='qcow2'/></backingStore></volume>";
        let read = VolumeXml::parse(text).unwrap();
        assert_eq!((read.capacity, read.allocation, read.mode), (Some(10 << 30), Some(0), Some(0o640)));
        assert_eq!((read.format.as_str(), read.backing.as_deref()), ("qcow2", Some("/p/base")));
    }

    #[test]
    fn a_volume_that_cannot_be_made_is_refused_with_libvirts_code() {
        for (text, code, domain) in [
            ("<volume>", 35, 18),
            ("<vol/>", 27, 5),
            ("<volume><capacity>1</capacity></volume>", 27, 18),
            ("<volume><name/><capacity>1</capacity></volume>", 27, 18),
            ("<volume><name>a</name></volume>", 27, 18),
            ("<volume><name>a</name><capacity>x</capacity></volume>", 27, 18),
            ("<volume><name>a</name><capacity unit='TiB'>99999999999</capacity></volume>", 82, 0),
            ("<volume><name>a</name><capacity>1</capacity><target><format type='odd'/></target></volume>", 67, 18),
        ] {
            let error = VolumeXml::parse(text).unwrap_err();
            assert_eq!((error.code, error.domain), (code, domain), "{text}: {error}");
        }
    }
}
