//! The image that a recorded host is given. A file answers for the host, so nothing is fetched: what
//! is "uploaded" is the head of an image and no more.

use std::io::Write as _;

use sha2::{Digest as _, Sha256};
use tempfile::TempPath;

use super::image::{Format, ImageSource};
use super::image_cache::Spooled;
use crate::plan::Reason;
use crate::provider::error::{Class, ProviderError};

/// Bytes of disk that a simulated image claims to hold: 2 GiB, about what distributions ship.
const VIRTUAL_BYTES: u64 = 2 << 30;

/// An image that stands for the one that would have been downloaded; its file is gone with the
/// second value.
pub(super) fn image(source: &ImageSource) -> Result<(Spooled, TempPath), ProviderError> {
    let mut head = vec![0_u8; 512];
    if source.format == Format::Qcow2 {
        // Magic, version 3, and at byte 24 the size of the disk (QEMU, docs/interop/qcow2).
        for (at, bytes) in
            [(0, b"QFI\xfb".to_vec()), (4, 3_u32.to_be_bytes().to_vec()), (24, VIRTUAL_BYTES.to_be_bytes().to_vec())]
        {
            head.splice(at..at + bytes.len(), bytes);
        }
    }
    let failed = |error: std::io::Error| {
        ProviderError::new(
            Class::Transient,
            Reason::TransientError,
            "simulate the image",
            &source.key,
            error.to_string(),
        )
    };
    let mut file = tempfile::NamedTempFile::with_prefix("egress-plan-simulated-").map_err(failed)?;
    file.write_all(&head).map_err(failed)?;
    let path = file.into_temp_path();
    let spooled = Spooled {
        path: path.to_path_buf(),
        bytes: u64::try_from(head.len()).unwrap_or(u64::MAX),
        sha256: hex::encode(Sha256::digest(&head)),
        format: source.format,
    };
    Ok((spooled, path))
}
