//! A Kubernetes cluster as a source of manifests and a place for what came of them: custom resources,
//! their status, events, the fleet's lease and the outputs of a run.
//!
//! Uses what `load` reads and `report` tells; knows nothing of commands. No call here is needed for a
//! run on files.

pub mod client;
pub mod crd;
pub mod events;
pub mod lease;
pub mod outputs;
pub mod publish;
pub mod source;
pub mod status;
