//! What the first bytes of an image say: whether they fit its format, and how large the disk is.

use crate::provider::libvirt::naming::Format;

/// How many bytes from the start are looked at.
pub(super) const HEAD: usize = 512;

const QCOW2: &[u8] = b"QFI\xfb";

/// What a raw image never begins with: files that were packed, or are no image at all.
const NOT_RAW: [(&[u8], &str); 9] = [
    (QCOW2, "a qcow2 image"),
    (b"\x1f\x8b", "a gzip file"),
    (b"\xfd7zXZ\0", "an xz file"),
    (b"\x28\xb5\x2f\xfd", "a zstd file"),
    (b"BZh", "a bzip2 file"),
    (b"PK\x03\x04", "a zip file"),
    (b"KDMV", "a VMDK image"),
    (b"<", "a web page"),
    (b"#", "a text"),
];

/// Checks the first bytes against the format. The error says, for people, what they look like.
pub(super) fn check(format: Format, head: &[u8]) -> Result<(), String> {
    match format {
        Format::Qcow2 if head.starts_with(QCOW2) => check_qcow2(head),
        Format::Qcow2 => {
            let what =
                NOT_RAW.iter().find(|(start, _)| head.starts_with(start)).map_or("something else", |(_, name)| name);
            Err(["its first bytes are not those of a qcow2 image but of ", what].concat())
        }
        Format::Raw => match NOT_RAW.iter().find(|(start, _)| head.starts_with(start)) {
            Some((_, name)) => Err(["its first bytes are not those of a raw image but of ", name].concat()),
            None => Ok(()),
        },
    }
}

/// A base that refers to other files would have the host open whatever path its author wrote.
fn check_qcow2(head: &[u8]) -> Result<(), String> {
    let whole = || "it ends within its qcow2 header".to_owned();
    let version = big_endian_32(head, 4).ok_or_else(whole)?;
    if !matches!(version, 2 | 3) {
        return Err("its qcow2 version is not known".to_owned());
    }
    if big_endian_64(head, 8).ok_or_else(whole)? != 0 {
        return Err("it is an overlay of another file".to_owned());
    }
    let external_data = 1 << 2;
    if version == 3 && big_endian_64(head, 72).ok_or_else(whole)? & external_data != 0 {
        return Err("it keeps its data in another file".to_owned());
    }
    big_endian_64(head, 24).map(|_| ()).ok_or_else(whole)
}

/// The size of the disk that an image of `bytes` bytes holds.
pub(super) fn virtual_bytes(format: Format, head: &[u8], bytes: u64) -> Option<u64> {
    match format {
        Format::Qcow2 => big_endian_64(head, 24),
        Format::Raw => Some(bytes),
    }
}

fn big_endian_32(head: &[u8], at: usize) -> Option<u32> {
    head.get(at..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

fn big_endian_64(head: &[u8], at: usize) -> Option<u64> {
    head.get(at..)?.first_chunk().map(|bytes| u64::from_be_bytes(*bytes))
}

#[cfg(test)]
pub(super) mod samples {
    /// The start of a qcow2 image, padded to 512 bytes.
    pub(in super::super) fn qcow2(version: u32, backing: u64, size: u64, incompatible: u64) -> Vec<u8> {
        let mut head = [b"QFI\xfb".to_vec(), version.to_be_bytes().to_vec(), backing.to_be_bytes().to_vec()].concat();
        head.resize(24, 0);
        head.extend(size.to_be_bytes());
        head.resize(72, 0);
        head.extend(incompatible.to_be_bytes());
        head.resize(512, 0);
        head
    }
}

#[cfg(test)]
mod tests {
    use super::samples::qcow2;
    use super::*;

    #[test]
    fn first_bytes_that_do_not_fit_the_format_are_refused() {
        for (format, head, fits) in [
            (Format::Qcow2, qcow2(3, 0, 1 << 30, 0), true),
            (Format::Qcow2, qcow2(2, 0, 1 << 30, 4), true),
            (Format::Qcow2, qcow2(9, 0, 1 << 30, 0), false),
            (Format::Qcow2, b"QFI\xfb\0\0\0\x03".to_vec(), false),
            (Format::Qcow2, b"<html>".to_vec(), false),
            (Format::Qcow2, b"\0\0\0\0".to_vec(), false),
            (Format::Raw, b"\xeb\x63\x90".to_vec(), true),
            (Format::Raw, qcow2(3, 0, 1 << 30, 0), false),
            (Format::Raw, b"\x1f\x8b\x08".to_vec(), false),
            (Format::Raw, b"<!DOCTYPE html>".to_vec(), false),
        ] {
            assert_eq!(check(format, &head).is_ok(), fits, "{format:?} {:?}", &head[..head.len().min(8)]);
        }
    }

    #[test]
    fn an_image_that_refers_to_another_file_is_refused() {
        assert!(check(Format::Qcow2, &qcow2(3, 104, 1 << 30, 0)).is_err());
        assert!(check(Format::Qcow2, &qcow2(3, 0, 1 << 30, 4)).is_err());
    }

    #[test]
    fn l29_the_size_of_the_disk_is_read_from_the_header() {
        assert_eq!(virtual_bytes(Format::Qcow2, &qcow2(3, 0, 3 << 40, 0), 10), Some(3 << 40));
        assert_eq!(virtual_bytes(Format::Raw, b"", 10), Some(10));
    }
}
