//! What is on the hosts, told so that two stories can be compared: everything but what is drawn at
//! random and what a clock says.

use std::collections::BTreeMap;

use egress_plan::plan::{HostState, Observed, Plan, Standing};
use egress_plan::provider::libvirt::host::recorded::{RecordedDomain, RecordedVolume};
use egress_plan::provider::libvirt::naming::{BaseName, LockName, ProofName, parse_disk};
use uuid::Uuid;

use crate::ground::{Files, Foreign, Hosts};

/// Sorted lines, one for each thing of the fleet; a thing that is there twice is told twice.
pub type Shape = Vec<String>;

/// The machines that were there before a story.
pub type Before = BTreeMap<(String, String), Uuid>;

pub fn machines(hosts: &Hosts) -> Before {
    let mut found = Before::new();
    hosts.each(|zone, world| {
        let domains = world.to_file().domains;
        found.extend(
            domains.iter().map(|domain| ((zone.to_owned(), domain.name.clone()), domain.uuid.unwrap_or_default())),
        );
    });
    found
}

/// Everything of the fleet, and what a look at it says: which machine is still the one of before, its
/// mark, its disks.
pub fn shape(files: &Files, observed: &Observed, foreign: &Foreign, before: &Before) -> Shape {
    let mut lines = Shape::new();
    for (zone, file) in files {
        for domain in file.domains.iter().filter(|domain| !foreign.has(zone, &domain.name)) {
            let same = before.get(&(zone.clone(), domain.name.clone())) == domain.uuid.as_ref();
            let kept = if same { "as it was" } else { "new" };
            lines.push(format!(
                "{zone}: machine {} {:?} persistent={} autostart={} {kept}",
                domain.name, domain.state, domain.persistent, domain.autostart
            ));
        }
        for volume in file.pool.volumes.iter().filter(|volume| !foreign.has(zone, &volume.name)) {
            lines.push(format!("{zone}: {}", told(volume, &file.domains)));
        }
    }
    for (place, state) in &observed.hosts {
        let HostState::Known(view) = state else {
            lines.push(format!("{place}: unknown {state:?}"));
            continue;
        };
        for instance in &view.instances {
            let mark = match &instance.standing {
                Standing::Ours(mark) => format!(
                    "{:?} {} {} port={} labels={} protect={} started={}",
                    mark.state,
                    mark.spec.hash,
                    mark.catalogue.hash,
                    mark.port,
                    mark.labels,
                    mark.protect,
                    mark.started_at.is_some()
                ),
                Standing::Blocked { reason, .. } => format!("blocked {reason:?}"),
            };
            let disks = (instance.removes.len(), instance.missing_disks.len());
            lines.push(format!("{place}: instance {} {:?} {mark} disks={disks:?}", instance.name, instance.power));
        }
    }
    lines.sort();
    lines
}

/// A volume, its random parts left out.
fn told(volume: &RecordedVolume, domains: &[RecordedDomain]) -> String {
    let owner =
        domains.iter().find(|domain| parse_disk(&domain.name, domain.uuid.unwrap_or_default(), &volume.name).is_some());
    let kind = match owner {
        Some(owner) => {
            let uuid = owner.uuid.unwrap_or_default().to_string();
            format!("disk {}", volume.name.replace(&uuid[..8], "UUID"))
        }
        None => plain(&volume.name),
    };
    let backing = volume.backing.as_deref().map(|path| plain(path.rsplit('/').next().unwrap_or(path)));
    format!("{kind} {} bytes={} file={:?} backing={backing:?}", volume.format, volume.capacity.0, volume.physical)
}

fn plain(name: &str) -> String {
    if let Some(base) = BaseName::parse(name) {
        return format!("base {} {}", base.owner(), base.id());
    }
    if let Some(proof) = ProofName::parse(name) {
        return format!("proof {} {}", proof.base.owner(), proof.base.id());
    }
    if LockName::parse(name).is_some() {
        return "lock".to_owned();
    }
    name.to_owned()
}

/// Whether a line of a shape tells of a base image.
pub fn is_base(line: &str) -> bool {
    line.contains(": base ")
}

/// Whether it tells of what vouches for one.
pub fn is_proof(line: &str) -> bool {
    line.contains(": proof ")
}

/// What is not done and why, as a plan says it.
pub fn held(plan: &Plan) -> Vec<String> {
    let mut held: Vec<String> = plan
        .held
        .iter()
        .map(|held| format!("{:?} {:?} {:?} {:?}", held.place, held.key, held.verdict, held.reason))
        .collect();
    held.sort();
    held
}

/// What one has and the other lacks, each thing counted.
pub fn without(one: &[String], other: &[String]) -> Vec<String> {
    let mut left = other.to_vec();
    let lacks = |line: &&String| match left.iter().position(|there| there == *line) {
        Some(at) => {
            left.swap_remove(at);
            false
        }
        None => true,
    };
    one.iter().filter(lacks).cloned().collect()
}
