//! A kind of host, as far as the trials need to know it.

use crate::bench::Bench;

/// The one host of the config.
pub const HOST: &str = "lab/h1";

/// What a kind of host is like, and what somebody else can do to machines on it, past the program.
/// Machines are named as on the host.
pub trait Ground: Send + Sync {
    /// A config of `fleet`: an entry `lab`, a host `h1`, a machine type `tiny`, and an image `blank`
    /// that no other fleet has.
    fn config(&self, fleet: &str) -> String;

    /// Makes what the config names besides: files in the config's folder.
    fn prepare(&self, folder: &std::path::Path);

    /// Names of the files in the store that begin with the machine's name.
    fn files(&self, bench: &Bench, machine: &str) -> Vec<String>;

    /// Switches a machine off.
    fn switch_off(&self, bench: &Bench, machine: &str);

    /// Pauses a machine.
    fn pause(&self, bench: &Bench, machine: &str);

    /// Switches a machine off with its memory saved. Its host has been started anew since, if that can
    /// be had: then no reason of the state tells any more.
    fn save(&self, bench: &Bench, machine: &str);

    /// Removes a file from the store.
    fn remove_file(&self, bench: &Bench, file: &str);

    /// Makes a running machine of somebody else's that has this name. It has no mark and no disk.
    fn squat(&self, bench: &Bench, machine: &str);

    /// All that the host tells of a machine, whoever's it is.
    fn told(&self, bench: &Bench, machine: &str) -> String;

    /// Removes a machine of somebody else's.
    fn evict(&self, bench: &Bench, machine: &str);
}
