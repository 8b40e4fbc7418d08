//! The pool: files in a folder, and what libvirt knows of them, which is not the same.
//!
//! libvirt sees a file when it makes it or when the pool is refreshed. Its figures of free space
//! are those of the last refresh, with what was made and deleted since added and subtracted.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::super::calls::{CallResult, PoolInfo, Volume, code, part};
use super::error;
use super::file::{RecordedPool, RecordedVolume};
use super::probe::Probed;
use super::scalar::{Bytes, FileMode};
use super::volume_xml::VolumeXml;

/// Length and allocation of a qcow2 file without content, as measured.
const QCOW2_LENGTH: u64 = 196_616;
const QCOW2_ALLOCATION: u64 = 200_704;

/// The longest file name, in bytes.
const NAME_MAX: usize = 255;

/// The pool, its folder and what libvirt knows of it.
#[derive(Debug, Clone)]
pub(super) struct Pool {
    /// Everything of the file but its volumes; the figures here are libvirt's.
    facts: RecordedPool,
    uuid: String,
    available: u64,
    pub(super) free: u64,
    pub(super) files: BTreeMap<String, File>,
    known: BTreeMap<String, Known>,
    /// Files elsewhere on the host that are known to exist.
    elsewhere: BTreeSet<String>,
    inodes: u64,
}

/// A file in the folder.
#[derive(Debug, Clone)]
pub(super) struct File {
    /// Tells a file from a later one of the same name.
    pub(super) inode: u64,
    pub(super) length: u64,
    pub(super) allocation: u64,
    pub(super) modified: Timestamp,
    pub(super) mode: u32,
    /// What a look at its first bytes finds.
    pub(super) probed: Probed,
    /// Its first bytes, as far as they were uploaded here. Never saved.
    pub(super) content: Vec<u8>,
}

/// A volume as libvirt last looked at it.
#[derive(Debug, Clone)]
struct Known {
    format: String,
    virtual_size: Option<u64>,
    backing: Option<String>,
}

impl Pool {
    /// The pool of a file, recorded at `at` on the host `hostname`.
    pub(super) fn new(mut facts: RecordedPool, at: Timestamp, hostname: &str) -> Self {
        let volumes = std::mem::take(&mut facts.volumes);
        let uuid = facts
            .uuid
            .clone()
            .unwrap_or_else(|| super::config::derived_uuid(&["pool", hostname, &facts.path]).to_string());
        let taken = volumes.iter().fold(0_u64, |sum, volume| sum.saturating_add(volume.allocation.0));
        let available = facts.available.map_or_else(|| facts.capacity.0.saturating_sub(taken), |bytes| bytes.0);
        let free = facts.free.map_or(available, |bytes| bytes.0);
        let mut pool = Self {
            facts,
            uuid,
            available,
            free,
            files: BTreeMap::new(),
            known: BTreeMap::new(),
            elsewhere: BTreeSet::new(),
            inodes: 0,
        };
        for volume in volumes {
            let raw = volume.format == "raw" && volume.backing.is_none();
            let natural = if volume.format == "qcow2" { volume.allocation } else { volume.capacity };
            let length = volume.physical.unwrap_or(natural);
            let probed = Probed {
                virtual_size: (!raw).then_some(volume.capacity.0),
                format: volume.format,
                backing: volume.backing,
            };
            let file = File {
                inode: pool.next_inode(),
                length: length.0,
                allocation: volume.allocation.0,
                modified: volume.modified.unwrap_or(at),
                mode: volume.mode.map_or(0o600, |mode| mode.0),
                probed,
                content: Vec::new(),
            };
            if !volume.unseen {
                pool.known.insert(volume.name.clone(), Known::of(&file));
            }
            pool.files.insert(volume.name, file);
        }
        pool
    }

    /// The pool as a file has it.
    pub(super) fn to_file(&self) -> RecordedPool {
        let volumes = self
            .files
            .iter()
            .map(|(name, file)| {
                let known = self.known.get(name).cloned().unwrap_or_else(|| Known::of(file));
                RecordedVolume {
                    name: name.clone(),
                    capacity: Bytes(known.capacity(file)),
                    format: known.format,
                    allocation: Bytes(file.allocation),
                    physical: Some(Bytes(file.length)),
                    modified: Some(file.modified),
                    backing: known.backing,
                    mode: Some(FileMode(file.mode)),
                    unseen: !self.known.contains_key(name),
                }
            })
            .collect();
        RecordedPool {
            uuid: Some(self.uuid.clone()),
            available: Some(Bytes(self.available)),
            free: (self.free != self.available).then_some(Bytes(self.free)),
            volumes,
            ..self.facts.clone()
        }
    }

    /// Says that a file outside of the folder exists.
    pub(super) fn add_elsewhere(&mut self, path: &str) {
        self.elsewhere.insert(path.to_owned());
    }

    /// The name of a path's file in the folder; nothing for a path elsewhere.
    pub(super) fn name_of<'a>(&self, path: &'a str) -> Option<&'a str> {
        path.strip_prefix(self.facts.path.as_str())?.strip_prefix('/').filter(|name| !name.contains('/'))
    }

    /// The file at a path.
    pub(super) fn file_at(&self, path: &str) -> Option<&File> {
        self.files.get(self.name_of(path)?)
    }

    /// Whether there is a file at a path.
    pub(super) fn exists(&self, path: &str) -> bool {
        self.file_at(path).is_some() || self.elsewhere.contains(path)
    }

    /// The path of a file in the folder.
    pub(super) fn path_of(&self, name: &str) -> String {
        format!("{}/{name}", self.facts.path)
    }

    /// The pool's name.
    pub(super) fn name(&self) -> &str {
        &self.facts.name
    }

    /// Whether it is running.
    pub(super) fn is_active(&self) -> bool {
        self.facts.active
    }

    /// How many bytes an upload loses at its end.
    pub(super) fn lost_tail(&self) -> u64 {
        self.facts.lost_tail.0
    }

    fn next_inode(&mut self) -> u64 {
        self.inodes = self.inodes.saturating_add(1);
        self.inodes
    }

    fn there(&self) -> CallResult<()> {
        if self.facts.missing {
            let message = format!("Storage pool not found: no storage pool with matching name '{}'", self.name());
            return Err(error::other(code::NO_STORAGE_POOL, part::STORAGE, message));
        }
        Ok(())
    }

    fn running(&self) -> CallResult<()> {
        self.there()?;
        if self.facts.active {
            return Ok(());
        }
        Err(error::invalid(part::STORAGE, format!("storage pool '{}' is not active", self.name())))
    }

    /// Figures and facts; an inactive pool answers with what was last known.
    pub(super) fn info(&self) -> CallResult<PoolInfo> {
        self.there()?;
        Ok(PoolInfo {
            uuid: self.uuid.clone(),
            kind: self.facts.kind.clone(),
            path: self.facts.path.clone(),
            active: self.facts.active,
            capacity: self.facts.capacity.0,
            available: self.available,
        })
    }

    /// Looks at the folder again.
    pub(super) fn refresh(&mut self) -> CallResult<()> {
        self.running()?;
        if self.facts.busy_refreshes > 0 {
            self.facts.busy_refreshes = self.facts.busy_refreshes.saturating_sub(1);
            let what = format!("pool '{}' has asynchronous jobs running", self.name());
            return Err(error::internal(part::STORAGE, what));
        }
        if self.facts.folder_gone {
            self.facts.active = false;
            let what = format!("cannot open directory '{}': No such file or directory", self.facts.path);
            return Err(error::system(part::NONE, what));
        }
        self.look();
        Ok(())
    }

    /// What libvirt does by itself after an upload, unless it cannot.
    pub(super) fn look_after_upload(&mut self) {
        if self.facts.active && !self.facts.folder_gone && self.facts.busy_refreshes == 0 {
            self.look();
        }
    }

    fn look(&mut self) {
        let visible = self.files.iter().filter(|(name, _)| !name.chars().any(char::is_control));
        self.known = visible.map(|(name, file)| (name.clone(), Known::of(file))).collect();
        self.available = self.free;
    }

    /// Names of the volumes that libvirt knows. libvirt's order is that of a hash table; this one is
    /// always the same and not sorted either.
    pub(super) fn names(&self) -> CallResult<Vec<String>> {
        self.running()?;
        Ok(self.known.keys().rev().cloned().collect())
    }

    /// A volume. Length and time are the file's; format and backing file are what libvirt saw last.
    pub(super) fn volume(&self, name: &str) -> CallResult<Option<Volume>> {
        self.running()?;
        let (Some(known), Some(file)) = (self.known.get(name), self.files.get(name)) else { return Ok(None) };
        Ok(Some(Volume {
            name: name.to_owned(),
            path: self.path_of(name),
            format: known.format.clone(),
            capacity: known.capacity(file),
            allocation: file.allocation,
            physical: Some(file.length),
            modified: Some(file.modified),
            backing: known.backing.clone(),
            mode: Some(file.mode),
        }))
    }

    /// A volume that libvirt knows, for an upload: its file's inode and length.
    pub(super) fn open(&self, name: &str) -> CallResult<(u64, u64)> {
        self.running()?;
        if !self.known.contains_key(name) {
            return Err(error::no_volume(name));
        }
        if let Some(file) = self.files.get(name) {
            return Ok((file.inode, file.length));
        }
        let path = self.path_of(name);
        Err(error::system(part::STREAMS, format!("Unable to open stream for '{path}': No such file or directory")))
    }

    /// Makes a volume.
    pub(super) fn create(&mut self, xml: &str, now: Timestamp) -> CallResult<()> {
        self.running()?;
        let wanted = VolumeXml::parse(xml)?;
        let name = wanted.name.clone();
        if self.known.contains_key(&name) {
            let what = format!("storage volume '{name}' exists already");
            return Err(error::other(code::STORAGE_VOL_EXIST, part::STORAGE, what));
        }
        if name.contains('/') {
            return Err(error::invalid(part::STORAGE, format!("volume name '{name}' cannot contain '/'")));
        }
        let path = self.path_of(&name);
        if self.files.contains_key(&name) || name == "." || name == ".." {
            return Err(error::invalid(part::STORAGE, format!("volume target path '{path}' already exists")));
        }
        if name.len() > NAME_MAX {
            return Err(error::system(part::STORAGE, format!("Failed to create file '{path}': File name too long")));
        }
        let file = self.make(&wanted, &path, now)?;
        self.free = self.free.saturating_sub(file.allocation);
        self.available = self.available.saturating_sub(file.allocation);
        self.known.insert(name.clone(), Known::of(&file));
        self.files.insert(name, file);
        Ok(())
    }

    fn make(&mut self, wanted: &VolumeXml, path: &str, now: Timestamp) -> CallResult<File> {
        if let Some(backing) = wanted.backing.as_deref().filter(|backing| !self.exists(backing)) {
            let what = format!("inaccessible backing store volume {backing}: No such file or directory");
            return Err(error::system(part::STORAGE, what));
        }
        let below = wanted.backing.as_deref().and_then(|path| self.file_at(path)).map(File::capacity);
        let Some(capacity) = wanted.capacity.or(below) else {
            return Err(error::xml(part::STORAGE, "missing capacity element"));
        };
        let qcow2 = wanted.format == "qcow2";
        let (length, allocation) =
            if qcow2 { (QCOW2_LENGTH, QCOW2_ALLOCATION) } else { (capacity, wanted.allocation.unwrap_or(capacity)) };
        if allocation > self.free {
            // Measured: qemu-img makes a qcow2 file, and its failure has no code of its own.
            return Err(if qcow2 {
                let what = format!(
                    "Child process (/usr/bin/qemu-img create -f qcow2 {path}) unexpected exit status 1: \
                     qemu-img: {path}: Could not write qcow2 header: No space left on device"
                );
                error::internal(part::NONE, what)
            } else {
                let what = format!("cannot allocate {allocation} bytes in file '{path}': No space left on device");
                error::system(part::STORAGE, what)
            });
        }
        let probed = Probed {
            format: wanted.format.clone(),
            virtual_size: qcow2.then_some(capacity),
            backing: wanted.backing.clone(),
        };
        let inode = self.next_inode();
        let mode = wanted.mode.unwrap_or(0o600);
        Ok(File { inode, length, allocation, modified: now, mode, probed, content: Vec::new() })
    }

    /// Removes a volume. That overlays need it, or that somebody uploads into it, hinders nothing.
    pub(super) fn delete(&mut self, name: &str) -> CallResult<()> {
        self.running()?;
        if self.known.remove(name).is_none() {
            return Err(error::no_volume(name));
        }
        if let Some(file) = self.files.remove(name) {
            self.free = self.free.saturating_add(file.allocation);
            self.available = self.available.saturating_add(file.allocation);
        }
        Ok(())
    }
}

impl File {
    /// Bytes that it holds for a reader.
    pub(super) fn capacity(&self) -> u64 {
        self.probed.virtual_size.unwrap_or(self.length)
    }
}

impl Known {
    fn of(file: &File) -> Self {
        let Probed { format, virtual_size, backing } = file.probed.clone();
        Self { format, virtual_size, backing }
    }

    /// Of a file that libvirt takes for raw, the length is its capacity, whatever is in it.
    fn capacity(&self, file: &File) -> u64 {
        self.virtual_size.map_or(file.length, |seen| file.probed.virtual_size.unwrap_or(seen))
    }
}
