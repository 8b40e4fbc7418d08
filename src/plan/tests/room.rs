//! Space and maxInstances.

use crate::plan::change::Verdict;
use crate::plan::fixture::{GIB, World, base_image, image, seen, wanted};
use crate::plan::reason::Reason;

fn free(gib: u64) -> World {
    World::of(&["h1", "h2"]).seeing("h1", |view| view.store.available = gib * GIB)
}

#[test]
fn a_host_takes_as_many_machines_as_its_pool_has_room_for() {
    // 5 GiB are the reserve; a machine takes its disk of 10 GiB and a seed.
    let world = |gib| free(gib).wants(wanted("p1")).wants(wanted("p2"));
    let quota = |name: &str| format!("t/{name} on lab/h1 blocked: QuotaExceeded");
    assert_eq!(world(15).story(), [quota("p1"), quota("p2")], "there is no room for the seed");
    assert_eq!(world(16).story(), ["create t/p1 on lab/h1".to_owned(), quota("p2")]);
    assert_eq!(world(26).story(), ["create t/p1 on lab/h1", "create t/p2 on lab/h1"]);
    let growing = world(26).seeing("h1", |view| view.store.growth = 5 * GIB);
    assert_eq!(growing.story(), ["create t/p1 on lab/h1".to_owned(), quota("p2")], "existing disks grow");
}

#[test]
fn the_message_names_the_pool_what_is_there_and_what_is_needed() {
    let held = free(6).wants(wanted("p1")).plan().held.remove(0);
    assert_eq!((held.verdict, held.reason), (Verdict::Blocked, Reason::QuotaExceeded));
    assert_eq!(
        held.message,
        "pool default on lab/h1 has room for 1.0 GiB more, and 10.0 GiB are needed (6.0 GiB free, 5.0 GiB kept in reserve, 0.0 GiB for existing disks to grow)"
    );
}

#[test]
fn an_image_whose_length_is_known_is_counted_once() {
    let world = |gib| {
        free(gib).wants(wanted("p1").with_image("alpine")).wants(wanted("p2").with_image("alpine")).seeing(
            "h2",
            |view| {
                view.images.insert(image("alpine").id, base_image());
            },
        )
    };
    assert_eq!(world(26).plan().actions.len(), 1, "the image takes a GiB of the room");
    assert_eq!(world(27).plan().actions.len(), 2);
}

#[test]
fn a_replacement_takes_only_what_its_former_machine_does_not_give_back() {
    let world = |disk| free(5).wants(wanted("p1").with_user_data("new").with_disk_of(disk)).has(seen("p1"));
    assert_eq!(world(10).story(), ["replace t/p1 on lab/h1"], "the same disk in a full pool");
    assert_eq!(world(11).story(), ["t/p1 on lab/h1 blocked: QuotaExceeded"], "nothing goes that cannot come back");
    let gone = free(5).wants(wanted("p1")).has(seen("p1").off().without_its_disk());
    assert_eq!(gone.story(), ["t/p1 on lab/h1 blocked: QuotaExceeded"], "a disk that is gone gives nothing back");
}

#[test]
fn a_host_holds_no_more_than_max_instances() {
    let world = |max| {
        World::of(&["h1"])
            .configured("h1", |host| host.max_instances = Some(max))
            .wants(wanted("p1"))
            .wants(wanted("p2"))
            .wants(wanted("p3").with_user_data("new"))
            .has(seen("p3"))
    };
    let creates = |max| world(max).plan().counts().create;
    assert_eq!((creates(0), creates(1), creates(2), creates(3)), (0, 0, 1, 2));
    assert_eq!(world(0).plan().counts().replace, 1, "a replacement is no further machine");
}

#[test]
fn an_absurd_size_is_refused_and_not_wrapped() {
    // L30, R13: 2^34 GiB in bytes do not fit.
    let mut world = free(400).wants(wanted("p1"));
    for proxy in world.desired.proxies.values_mut() {
        if let crate::plan::Mode::Managed(managed) = &mut proxy.mode
            && let Ok(resolved) = &mut managed.resolved
        {
            resolved.reserve_bytes = u64::MAX;
            resolved.disk_bytes = u64::MAX;
        }
    }
    assert_eq!(world.story(), ["t/p1 on lab/h1 blocked: QuotaExceeded"]);
}
