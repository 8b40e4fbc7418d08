//! What a look at a file's first bytes tells, as libvirt looks: qcow2, ISO 9660, or raw.

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Probed {
    /// `raw`, `qcow2`, `iso`…
    pub(super) format: String,
    /// Size of the disk inside, for formats that have one.
    pub(super) virtual_size: Option<u64>,
    /// Path of the file below.
    pub(super) backing: Option<String>,
}

const QCOW2_MAGIC: &[u8] = b"QFI\xfb";
const QCOW2_BACKING_OFFSET: usize = 8;
const QCOW2_BACKING_LENGTH: usize = 16;
const QCOW2_SIZE: usize = 24;
const ISO_MAGIC: &[u8] = b"CD001";
const ISO_MAGIC_AT: usize = 32_769;

/// Looks at a file's first bytes.
pub(super) fn probe(content: &[u8]) -> Probed {
    let of = |format: &str| Probed { format: format.to_owned(), virtual_size: None, backing: None };
    if let Some(size) = content.starts_with(QCOW2_MAGIC).then(|| number::<8>(content, QCOW2_SIZE)).flatten() {
        return Probed { virtual_size: Some(size), backing: qcow2_backing(content), ..of("qcow2") };
    }
    if content.get(ISO_MAGIC_AT..).is_some_and(|rest| rest.starts_with(ISO_MAGIC)) {
        return of("iso");
    }
    of("raw")
}

fn qcow2_backing(content: &[u8]) -> Option<String> {
    let offset = usize::try_from(number::<8>(content, QCOW2_BACKING_OFFSET)?).ok()?;
    let length = usize::try_from(number::<4>(content, QCOW2_BACKING_LENGTH)?).ok()?;
    if offset == 0 || length == 0 {
        return None;
    }
    let name = content.get(offset..offset.checked_add(length)?)?;
    Some(String::from_utf8_lossy(name).into_owned())
}

/// A big-endian number of `N` bytes.
fn number<const N: usize>(content: &[u8], at: usize) -> Option<u64> {
    let bytes = content.get(at..at.checked_add(N)?)?;
    Some(bytes.iter().fold(0_u64, |number, byte| (number << 8) | u64::from(*byte)))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The first bytes of a qcow2 file of that virtual size.
    pub(in super::super) fn qcow2(virtual_size: u64, backing: &str) -> Vec<u8> {
        let mut header = QCOW2_MAGIC.to_vec();
        header.extend(3_u32.to_be_bytes());
        header.extend(if backing.is_empty() { 0_u64 } else { 104 }.to_be_bytes());
        header.extend(u32::try_from(backing.len()).unwrap().to_be_bytes());
        header.extend(16_u32.to_be_bytes());
        header.extend(virtual_size.to_be_bytes());
        header.resize(104, 0);
        header.extend(backing.as_bytes());
        header
    }

    #[test]
    fn the_first_bytes_tell_the_format() {
        let found = probe(&qcow2(5 << 20, "/p/base"));
        assert_eq!((found.format.as_str(), found.virtual_size), ("qcow2", Some(5 << 20)));
        assert_eq!(found.backing.as_deref(), Some("/p/base"));
        assert_eq!(probe(&qcow2(1, "")).backing, None);
        let mut iso = vec![0; ISO_MAGIC_AT];
        iso.extend(ISO_MAGIC);
        assert_eq!(probe(&iso).format, "iso");
        let truncated = &qcow2(1, "")[..20];
        for raw in [&b""[..], b"QFI", truncated, b"hello"] {
            assert_eq!(probe(raw).format, "raw");
        }
    }
}
