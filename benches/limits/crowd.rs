//! A `diff` over a host with five hundred machines, against a bare loop over the C library.

use std::fs;
use std::time::Duration;

use egress_plan::provider::libvirt::mark::NAMESPACE;
use egress_plan::provider::libvirt::naming::mac_address;
use uuid::Uuid;
use virt::connect::Connect;
use virt_sys as sys;

use super::fleet::Fleet;
use super::lab::{lab, pool, virsh};
use super::{Figure, seconds, timed};

const MACHINES: usize = 500;
const CALLS_LIMIT: usize = 10 + MACHINES;
const RATIO_LIMIT: f64 = 3.0;
const ROUNDS: usize = 5;

pub fn measure() -> Vec<Figure> {
    let fleet = Fleet::blank("crowd");
    // Both hosts of the lab are one daemon, which would be looked at twice.
    fleet.with_one_host();
    want(&fleet, 1);
    fleet.apply(0);
    virsh(&["destroy", &fleet.instance("crowd-0", "a")]);
    let connect = Connect::open(Some(&format!("qemu+unix:///system?socket={}", lab("LAB_SOCKET")))).unwrap();
    clone_the_first(&fleet, &connect);
    want(&fleet, MACHINES);

    let calls = {
        let run = fleet.diff(0).ends_with(&format!(
            "Plan: 0 to create, {MACHINES} to start, 0 to update, 0 to replace, 0 to delete, 0 blocked."
        ));
        run.calls_to("a").count()
    };
    let best = |work: &dyn Fn()| (0..ROUNDS).map(|_| timed(work).1).min().unwrap();
    let bare = best(&|| look(&connect));
    let diff = best(&|| _ = fleet.run(&["diff", "--log-format", "text"]).must(0));
    let ratio = diff.as_secs_f64() / bare.max(Duration::from_millis(1)).as_secs_f64();
    for name in connect.list_all_domains(0).unwrap() {
        name.undefine().unwrap();
    }
    vec![
        Figure {
            what: format!("remote calls of a diff over {MACHINES} machines"),
            measured: calls.to_string(),
            limit: CALLS_LIMIT.to_string(),
            within: calls <= CALLS_LIMIT,
        },
        Figure {
            what: format!("time of that diff against a bare loop over the C library ({})", seconds(bare)),
            measured: format!("{}, {ratio:.1} times", seconds(diff)),
            limit: format!("{RATIO_LIMIT} times"),
            within: ratio <= RATIO_LIMIT,
        },
    ]
}

/// Writes the manifest of a set of machines.
fn want(fleet: &Fleet, replicas: usize) {
    let text = format!(
        "apiVersion: egress-plan.dev/v1alpha1\nkind: ProxySet\nmetadata: {{name: crowd}}\nspec:\n  replicas: {replicas}\n  \
         zones: [a]\n  template:\n    spec:\n      mode: Managed\n      provider: lab\n      port: 3128\n      \
         placement: {{machineType: tiny, image: blank}}\n      cloudInit: \"#cloud-config\\nbootcmd: [[true]]\\n\"\n"
    );
    fs::write(fleet.folder.join("manifests/crowd.yaml"), text).unwrap();
}

/// Defines the other machines as the program would have, disks and mark and all: making them one by
/// one would start each.
fn clone_the_first(fleet: &Fleet, connect: &Connect) {
    let first = fleet.instance("crowd-0", "a");
    let (xml, uuid) = (virsh(&["dumpxml", "--inactive", &first]), virsh(&["domuuid", &first]));
    let disk = |name: &str, uuid: &str, ending: &str| pool("a").join(format!("{name}-{}{ending}", &uuid[..8]));
    for index in 1..MACHINES {
        let proxy = format!("crowd-{index}");
        let (name, new) = (fleet.instance(&proxy, "a"), Uuid::new_v4().to_string());
        for ending in [".qcow2", "-seed.iso"] {
            fs::copy(disk(&first, &uuid, ending), disk(&name, &new, ending)).unwrap();
        }
        let xml = xml
            .replace(&format!("{first}-{}", &uuid[..8]), &format!("{name}-{}", &new[..8]))
            .replace(&uuid, &new)
            .replace(&first, &name)
            .replace("default/crowd-0<", &format!("default/{proxy}<"))
            .replace(&mac_address(&first), &mac_address(&name));
        connect.define_domain_xml(&xml).unwrap();
    }
    virsh(&["pool-refresh", &lab("LAB_POOL_A")]);
}

/// What a diff has to read, in the fewest calls, on the host itself.
#[expect(unsafe_code, reason = "the crate does not make bulk statistics readable")]
fn look(connect: &Connect) {
    let mut found = 0;
    for which in [sys::VIR_CONNECT_LIST_DOMAINS_PERSISTENT, sys::VIR_CONNECT_LIST_DOMAINS_TRANSIENT] {
        for domain in connect.list_all_domains(which).unwrap() {
            let kind = i32::try_from(sys::VIR_DOMAIN_METADATA_ELEMENT).unwrap();
            let mark = domain.metadata(kind, Some(NAMESPACE), sys::VIR_DOMAIN_AFFECT_CONFIG).unwrap();
            found += usize::from(mark.contains("crowd"));
        }
    }
    assert_eq!(found, MACHINES);
    let pool = connect.lookup_storage_pool_by_name(&lab("LAB_POOL_A")).unwrap();
    pool.info().unwrap();
    for volume in pool.list_all_volumes(0).unwrap() {
        volume.name().unwrap();
    }
    let wanted = sys::VIR_DOMAIN_STATS_STATE | sys::VIR_DOMAIN_STATS_BLOCK;
    let mut records = std::ptr::null_mut();
    // SAFETY: the connection is alive, and what the call allocated is freed once.
    unsafe {
        let count = sys::virConnectGetAllDomainStats(
            connect.as_ptr(),
            wanted,
            &raw mut records,
            sys::VIR_CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT,
        );
        assert_eq!(usize::try_from(count).unwrap(), MACHINES);
        sys::virDomainStatsRecordListFree(records);
    }
}
