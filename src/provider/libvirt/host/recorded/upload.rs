//! An upload into a volume, with what libvirt really does: the length is only a cap, the volume may
//! vanish underneath, and the end can be reported well although bytes are missing.

use jiff::Timestamp;

use super::super::calls::{CallResult, part};
use super::error;
use super::pool::{File, Pool};
use super::probe::probe;

/// How much of a file's start is kept in memory, for probing and for tests.
pub(super) const KEPT: usize = 4 << 20;

/// The pieces in which a stream is sent.
pub(super) const CHUNK: usize = 64 << 10;

/// The block of the host's file system.
const BLOCK: u64 = 4096;

/// An open stream into a volume's file.
#[derive(Debug)]
pub(super) struct Upload {
    name: String,
    inode: u64,
    /// Where the next byte goes.
    position: u64,
    /// Length of the file before.
    before: u64,
}

impl Upload {
    /// Opens the stream.
    pub(super) fn begin(pool: &Pool, name: &str) -> CallResult<Self> {
        let (inode, before) = pool.open(name)?;
        Ok(Self { name: name.to_owned(), inode, position: 0, before })
    }

    /// The file, unless somebody deleted it meanwhile; then the bytes go nowhere, and well.
    fn file<'a>(&self, pool: &'a mut Pool) -> Option<&'a mut File> {
        pool.files.get_mut(&self.name).filter(|file| file.inode == self.inode)
    }

    /// Writes a piece. When the pool is full, what fits is written; that is told, except for the
    /// last piece of a stream: libvirt loses the failure of that one (measured on 9.0).
    pub(super) fn write(&mut self, pool: &mut Pool, piece: &[u8], last: bool, now: Timestamp) -> CallResult<()> {
        let position = self.position;
        let length = u64::try_from(piece.len()).unwrap_or(u64::MAX);
        self.position = position.saturating_add(length);
        let path = pool.path_of(&self.name);
        let free = pool.free;
        let Some(file) = self.file(pool) else { return Ok(()) };
        let room = file.allocation.saturating_add(free).saturating_sub(position);
        let fits = room.min(length);
        let end = position.saturating_add(fits);
        file.length = file.length.max(end);
        let allocation = file.allocation.max(blocks(end).min(file.allocation.saturating_add(free)));
        let taken = allocation.saturating_sub(file.allocation);
        file.allocation = allocation;
        file.modified = now;
        keep(&mut file.content, position, piece.get(..usize::try_from(fits).unwrap_or(usize::MAX)).unwrap_or(piece));
        pool.free = free.saturating_sub(taken);
        if fits < length && !last {
            return Err(error::system(part::STREAMS, format!("Unable to write {path}: No space left on device")));
        }
        Ok(())
    }

    /// Closes the stream, less the last `lost` bytes, after which libvirt looks at the pool again.
    pub(super) fn end(self, pool: &mut Pool, lost: u64) {
        if let Some(file) = self.file(pool) {
            if file.length == self.position && lost > 0 {
                file.length = self.before.max(self.position.saturating_sub(lost));
                file.content.truncate(usize::try_from(file.length).unwrap_or(usize::MAX));
                let freed = file.allocation.saturating_sub(blocks(file.length));
                file.allocation = file.allocation.saturating_sub(freed);
                pool.free = pool.free.saturating_add(freed);
            }
            if let Some(file) = self.file(pool).filter(|_| self.position > 0) {
                file.probed = probe(&file.content);
            }
        }
        pool.look_after_upload();
    }
}

/// What a length takes on the host.
fn blocks(length: u64) -> u64 {
    length.div_ceil(BLOCK).saturating_mul(BLOCK)
}

/// Keeps a piece as far as it belongs to the start of the file.
fn keep(content: &mut Vec<u8>, position: u64, piece: &[u8]) {
    let Ok(position) = usize::try_from(position) else { return };
    if position >= KEPT {
        return;
    }
    let end = position.saturating_add(piece.len()).min(KEPT);
    if content.len() < end {
        content.resize(end, 0);
    }
    for (kept, byte) in content.iter_mut().skip(position).zip(piece) {
        *kept = *byte;
    }
}

/// More bytes than were announced.
pub(super) fn excess() -> super::super::calls::CallError {
    error::system(part::STREAMS, "cannot write to stream: No space left on device")
}
