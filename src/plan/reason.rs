//! The closed list of reasons: why a host is not ready, why an action is not taken, why a
//! condition is what it is. One list, so that a reader meets one word for one thing.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A reason, in the spelling that reports, conditions and `check` use.
///
/// A reason classifies for people and for reports. What the program does next never depends on the
/// text beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Reason {
    /// The host is ready.
    Reachable,
    /// A key or known_hosts file is missing or cannot be read.
    CredentialsUnavailable,
    /// TCP, SSH transport or the forwarded socket was refused, or the link died.
    Unreachable,
    /// The host key is unknown, changed or revoked.
    HostKeyMismatch,
    /// The server refused the client's key.
    Unauthorized,
    /// libvirt refused the user.
    Forbidden,
    /// Time ran out.
    Timeout,
    /// The server's software is too old.
    VersionUnsupported,
    /// The pool does not exist.
    PoolNotFound,
    /// The pool exists and is not running.
    PoolNotActive,
    /// The pool is of a type that cannot hold files.
    PoolUnsupported,
    /// Machines name volumes, and the pool holds none of them.
    PoolLooksUnmounted,
    /// The bridge does not exist on the host.
    BridgeNotFound,
    /// No UEFI firmware is installed on the host.
    FirmwareNotFound,
    /// The host cannot run the configured kind of domain (no `/dev/kvm`, for one).
    VirtualizationUnavailable,
    /// Free space is below the reserve.
    LowSpace,
    /// Another host of the config is the same daemon and pool.
    DuplicateHost,
    /// Anything else that the host's API said.
    APIError,
    /// The host could not be observed completely.
    HostUnknown,
    /// Too little space, or too many instances.
    QuotaExceeded,
    /// It will fail again until somebody changes something.
    PermanentError,
    /// It may work on the next run.
    TransientError,
    /// The machine is paused or suspended.
    Paused,
    /// The machine has a saved memory image.
    ManagedSave,
    /// The machine is in a state that this program does not know, or in passing between two.
    StateUnknown,
    /// The machine is between two states and will leave them by itself.
    InTransition,
    /// The machine runs and is not defined on its host any more: it is gone once it stops.
    NotPersistent,
    /// The mark names another domain: the machine was copied.
    CopiedMark,
    /// The mark names another host.
    Misplaced,
    /// The machine's name is not the one that its mark derives.
    Renamed,
    /// The mark cannot be read.
    UnreadableMark,
    /// The mark was written by a newer version of this program.
    NewerTool,
    /// The live and the persistent mark differ.
    MarkDiffers,
    /// A machine has the name that ours would get, without our mark.
    NameTaken,
    /// Another source of manifests made it.
    OtherSource,
    /// The cluster's namespace of a machine was not listed.
    NamespaceNotListed,
    /// The manifest's placement cannot be resolved by the config.
    Unresolved,
    /// The overlay would be shorter than the base image.
    OverlayTooShort,
    /// Another run holds the fleet's lock on the host.
    InProgress,
    /// An orphan younger than `policy.minAge`.
    TooYoung,
    /// `policy.prune` is off.
    PruneDisabled,
    /// The machine is protected.
    Protected,
    /// Left out by `--selector`, `--target` or `--exclude`.
    NotSelected,
    /// It waits for another action of the same run.
    WaitsForOther,
    /// More replacements at a time are not allowed.
    MaxUnavailable,
    /// An action it depends on failed.
    DependencyFailed,
    /// The world is no longer what the plan saw; nothing was done.
    Changed,
    /// The run was interrupted first.
    Interrupted,
    /// No address within the boot deadline.
    BootDeadlineExceeded,
    /// The address could not be read, which says nothing about the machine.
    AddressUnknown,
    /// Everything is as wanted.
    AsWanted,
    /// An action for it is planned and not done.
    Planned,
    /// Nobody has looked from outside yet.
    NotProbed,
}
