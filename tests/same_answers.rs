//! The recorded host against the live one: the same calls in the same order, answer by answer.
//!
//! Runs inside `tests/realhost/lab`; anywhere else every test reports itself as ignored.

#![allow(missing_docs, clippy::unwrap_used, clippy::too_many_lines)]

use std::fmt::Debug;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use egress_plan::provider::libvirt::host::calls::{
    AddressSource, CallResult, Calls, Config, DomainStats, UndefineWith, Volume, Which,
};
use egress_plan::provider::libvirt::host::link::{Link, Opened, Purpose};
use egress_plan::provider::libvirt::host::live::LocalLink;
use egress_plan::provider::libvirt::host::recorded::{MARK_NAMESPACE, RecordedHost, RecordedLink, World, record};
use egress_plan::provider::libvirt::host::target::LocalTarget;
use jiff::Timestamp;
use libtest_mimic::{Arguments, Trial};
use tokio::runtime::Runtime;
use uuid::Uuid;

const BUDGET: Duration = Duration::from_secs(10);
const TYPES: [&str; 2] = ["kvm", "qemu"];
const ALL: UndefineWith =
    UndefineWith { managed_save: true, snapshots: true, nvram: true, checkpoints: true, tpm: true };

fn main() -> std::process::ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let ignored = std::env::var_os("EGRESS_PLAN_LAB").is_none();
    let tests: [(&str, fn()); 2] = [
        ("a_recorded_host_answers_as_the_live_one", same_answers),
        ("a_recording_of_a_live_host_is_a_fixpoint", fixpoint),
    ];
    let trial = |(name, run): (&str, fn())| {
        Trial::test(name, move || {
            run();
            Ok(())
        })
        .with_ignored_flag(ignored)
    };
    libtest_mimic::run(&arguments, tests.map(trial).into()).exit_code()
}

/// The lab's pool, its folder and its bridge.
struct Lab {
    pool: String,
    folder: String,
    bridge: String,
}

impl Lab {
    fn new(which: &str) -> Self {
        let variable = |name: &str| std::env::var(name).unwrap();
        Self {
            pool: variable(&format!("LAB_POOL_{which}")),
            folder: variable(&format!("LAB_POOL_{which}_DIR")),
            bridge: variable("LAB_BRIDGE"),
        }
    }

    fn live(&self, runtime: &Runtime) -> Opened {
        let sockets = vec![std::env::var("LAB_SOCKET").unwrap()];
        let link = LocalLink::new(LocalTarget { sockets, pool: self.pool.clone() });
        runtime.block_on(link.open(Purpose::Calls, BUDGET)).unwrap()
    }

    fn domain(&self, number: u8, metadata: &str, bridge: &str, firmware: bool) -> String {
        let (attribute, choice) = if firmware {
            (" firmware='efi'", "<firmware><feature enabled='no' name='secure-boot'/></firmware>")
        } else {
            ("", "")
        };
        format!(
            "<domain type='qemu'><name>m{number}</name><uuid>{}</uuid><metadata>{metadata}</metadata>
            <memory unit='MiB'>64</memory><vcpu>1</vcpu>
            <os{attribute}><type arch='x86_64' machine='q35'>hvm</type>{choice}</os><features><acpi/></features><devices>
            <disk type='file' device='disk'><driver name='qemu' type='qcow2'/>
            <source file='{}/m{number}.qcow2'/><target dev='vda' bus='virtio'/></disk>
            <interface type='bridge'><mac address='52:54:00:00:00:{number:02x}'/><source bridge='{bridge}'/>
            <model type='virtio'/></interface>
            <channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel></devices></domain>",
            uuid(number),
            self.folder
        )
    }
}

fn uuid(number: u8) -> Uuid {
    Uuid::parse_str(&format!("00000000-0000-4000-8000-0000000000{number:02x}")).unwrap()
}

fn served(host: RecordedHost, runtime: &Runtime) -> Box<dyn Calls> {
    let link = RecordedLink::new(Arc::new(Mutex::new(World::new(host))));
    runtime.block_on(link.open(Purpose::Calls, BUDGET)).unwrap().calls
}

fn volume(name: &str, capacity: u64, allocation: u64, format: &str, backing: Option<&str>) -> String {
    let backing = backing.map_or_else(String::new, |path| {
        format!("<backingStore><path>{path}</path><format type='qcow2'/></backingStore>")
    });
    format!(
        "<volume><name>{name}</name><capacity>{capacity}</capacity><allocation>{allocation}</allocation>
        <target><format type='{format}'/></target>{backing}</volume>"
    )
}

/// An answer as it is compared: the value, or code and part of the refusal.
fn answer<T: Debug>(result: CallResult<T>) -> String {
    match result {
        Ok(value) => format!("{value:?}"),
        Err(error) => format!("{}/{}{}", error.code, error.domain, if error.dead { " dead" } else { "" }),
    }
}

/// What of a volume does not depend on the moment or on the host's file system.
fn shape(volume: Option<Volume>) -> impl Debug {
    volume.map(|v| (v.name, v.format, v.capacity, v.physical, v.backing, v.mode))
}

fn figures(stats: Vec<DomainStats>) -> impl Debug {
    let disks = |stats: DomainStats| {
        (
            stats.uuid,
            stats.state,
            stats.reason,
            stats.disks.into_iter().map(|d| (d.path, d.capacity)).collect::<Vec<_>>(),
        )
    };
    stats.into_iter().map(disks).collect::<Vec<_>>()
}

/// Sorted: neither host promises an order.
fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names
}

/// Makes every call that a rule of the recorded host is about, and tells what came of each.
fn script(calls: &mut dyn Calls, lab: &Lab) -> Vec<(&'static str, String)> {
    use Config::{Live, Persistent};

    let mut told = Vec::new();
    macro_rules! ask {
        ($($call:expr;)*) => { $( told.push((stringify!($call), answer($call))); )* };
    }
    let (c, bridge) = (calls, lab.bridge.as_str());
    let (base, missing) = (format!("{}/base.qcow2", lab.folder), format!("{}/none", lab.folder));
    let mut image = b"QFI\xfb\0\0\0\x03".to_vec();
    image.extend([0; 12]);
    image.extend(16_u32.to_be_bytes());
    image.extend((5_u64 << 20).to_be_bytes());
    image.resize(100_104, 0);
    let marked = lab.domain(1, "<k:m xmlns:k='urn:k'>  pad </k:m><o:x xmlns:o='urn:o'><o:y/></o:x><z/>", bridge, false);
    let plain = lab.domain(1, "", bridge, false);
    ask! {
        c.volume_names();
        c.interface_exists(bridge);
        c.interface_exists("nope");
        c.domain_capabilities("qemu").map(|xml| xml.contains("<value>efi</value>"));
        c.domain_capabilities("xen");
        c.create_volume(&volume("a.raw", 1 << 20, 0, "raw", None));
        c.volume("a.raw").map(shape);
        c.create_volume(&volume("a.raw", 1, 0, "raw", None));
        c.create_volume(&volume("a/b", 1, 0, "raw", None));
        c.create_volume(&volume(".", 1, 0, "raw", None));
        c.create_volume(&volume("", 1, 0, "raw", None));
        c.create_volume(&volume(&"x".repeat(256), 1, 0, "raw", None));
        c.create_volume("<volume>");
        c.create_volume("<vol/>");
        c.create_volume("<volume><name>q</name></volume>");
        c.create_volume(&volume("q", 1, 0, "odd", None));
        c.create_volume("<volume><name>q</name><capacity unit='furlong'>1</capacity></volume>");
        c.create_volume("<volume><name>q</name><capacity unit='TiB'>99999999999</capacity></volume>");
        c.create_volume("<volume><name>q</name><capacity>x</capacity></volume>");
        c.create_volume("<volume><name>full</name><capacity unit='KiB'>4</capacity>
            <target><permissions><mode>0640</mode></permissions></target></volume>");
        c.volume("full").map(|v| v.map(|v| (v.allocation, v.mode)));
        c.create_volume(&volume("base.qcow2", 1 << 30, 0, "qcow2", None));
        c.volume("base.qcow2").map(|v| v.map(|v| (v.format, v.capacity, v.backing)));
        c.create_volume(&volume("m1.qcow2", 1 << 20, 0, "qcow2", Some(&base)));
        c.volume("m1.qcow2").map(shape);
        c.create_volume(&volume("lost.qcow2", 1 << 20, 0, "qcow2", Some(&missing)));
        c.volume("none").map(shape);
        c.delete_volume("none");
        c.create_volume(&volume("up.raw", 0, 0, "raw", None));
        c.volume("up.raw").map(shape);
        c.upload("up.raw", &mut &image[..], 100_104, &mut |_| {});
        // The daemon looks at the pool by itself after an upload, and refuses to look twice at once.
        refresh(&mut *c);
        c.volume("up.raw").map(shape);
        c.upload("none", &mut &b"a"[..], 1, &mut |_| {});
        c.upload("a.raw", &mut &b"abc"[..], 3, &mut |_| {});
        refresh(&mut *c);
        c.volume("a.raw").map(shape);
        c.define(&marked);
        c.define(&plain.replace("m1<", "m9<"));
        c.define(&plain.replace("-8000-", "-8001-"));
        c.define("<domain");
        c.define("<foo/>");
        c.define("<domain type='qemu'><memory>1</memory></domain>");
        c.define(&lab.domain(8, "", bridge, false).replace("'qemu'>", "'xen'>"));
        c.metadata(uuid(1), Persistent, "urn:k");
        c.metadata(uuid(1), Persistent, "urn:o");
        c.metadata(uuid(1), Persistent, "urn:z");
        c.metadata(uuid(1), Persistent, "");
        c.metadata(uuid(1), Live, "urn:k");
        c.set_metadata(uuid(1), &[Live], "urn:n", "n", "<n/>");
        c.set_metadata(uuid(1), &[Live, Persistent], "urn:n", "n", "<n/>");
        c.set_metadata(uuid(1), &[Persistent], "urn:n", "n", "<n a='1'><b> c </b></n>");
        c.metadata(uuid(1), Persistent, "urn:n");
        c.set_metadata(uuid(1), &[Persistent], "urn:n", "n", "<n:n xmlns:n='urn:n'/>");
        c.set_metadata(uuid(1), &[Persistent], "urn:n", "1n", "<n/>");
        c.set_metadata(uuid(1), &[Persistent], "urn:n", "n", "<n>");
        c.set_metadata(uuid(1), &[Persistent], "urn:q", "q", "<p:n xmlns:p='urn:p'/>");
        c.metadata(uuid(1), Persistent, "urn:q");
        c.metadata(uuid(1), Persistent, "urn:p");
        c.domain_state(uuid(1));
        c.shutdown(uuid(1));
        c.destroy(uuid(1));
        c.addresses(uuid(1), AddressSource::Agent, 1);
        c.addresses(uuid(1), AddressSource::Lease, 1);
        c.start(uuid(1));
        c.start(uuid(1));
        c.domain_state(uuid(1));
        c.list_domains(Which::Persistent);
        c.find_domain("m1");
        c.find_domain("zz");
        c.domain_exists(uuid(1));
        c.domain_exists(uuid(7));
        c.domain_stats().map(figures);
        c.addresses(uuid(1), AddressSource::Lease, 1);
        c.set_metadata(uuid(1), &[Live], "urn:l", "l", "<l/>");
        c.metadata(uuid(1), Live, "urn:l");
        c.metadata(uuid(1), Persistent, "urn:l");
        c.define(&plain);
        c.metadata(uuid(1), Persistent, "urn:k");
        c.metadata(uuid(1), Live, "urn:k");
        c.undefine(uuid(1), UndefineWith::default());
        c.list_domains(Which::Persistent);
        c.list_domains(Which::Transient);
        c.metadata(uuid(1), Persistent, "urn:k");
        c.set_metadata(uuid(1), &[Persistent], "urn:n", "n", "<n/>");
        c.domain_xml(uuid(1), Persistent).map(|xml| xml.is_empty());
        c.undefine(uuid(1), UndefineWith::default());
        c.set_autostart(uuid(1), true);
        c.define(&plain.replace("-8000-", "-8001-"));
        c.destroy(uuid(1));
        c.destroy(uuid(1));
        c.domain_state(uuid(1));
        c.domain_exists(uuid(1));
        c.undefine(uuid(1), UndefineWith::default());
        c.start(uuid(1));
        c.metadata(uuid(1), Persistent, "urn:k");
        c.domain_xml(uuid(1), Persistent);
        c.set_autostart(uuid(1), true);
        c.shutdown(uuid(1));
        c.addresses(uuid(1), AddressSource::Agent, 1);
        c.define(&lab.domain(2, "", bridge, false));
        c.start(uuid(2));
        c.domain_state(uuid(2));
        c.create_volume(&volume("m2.qcow2", 1 << 20, 0, "qcow2", Some(&base)));
        c.define(&lab.domain(2, "", "br-nope", false));
        c.start(uuid(2));
        c.domain_state(uuid(2));
        c.set_autostart(uuid(2), true);
        c.delete_volume("base.qcow2");
        c.define(&lab.domain(2, "", bridge, true));
        c.start(uuid(2));
        c.create_volume(&volume("base.qcow2", 1 << 30, 0, "qcow2", None));
        c.start(uuid(2));
        c.undefine(uuid(2), UndefineWith::default());
        c.destroy(uuid(2));
        c.domain_state(uuid(2));
        c.undefine(uuid(2), UndefineWith::default());
        c.undefine(uuid(2), ALL);
        c.delete_volume("m2.qcow2");
        c.delete_volume("m2.qcow2");
        c.volume_names().map(sorted);
    }
    told
}

/// A refresh as the program makes it: again while jobs run in the pool.
fn refresh(calls: &mut dyn Calls) -> CallResult<()> {
    (0..1000).map(|_| calls.refresh_pool()).find(|result| !matches!(result, Err(error) if error.code == 1)).unwrap()
}

fn same_answers() {
    let (lab, runtime) = (Lab::new("A"), Runtime::new().unwrap());
    let mut live = lab.live(&runtime).calls;
    let host = record(&mut *live, &lab.bridge, &TYPES, Timestamp::now()).unwrap();
    let mut recorded = served(host, &runtime);
    let (expected, told) = (script(&mut *live, &lab), script(&mut *recorded, &lab));
    let differing = expected.iter().zip(&told).filter(|(live, recorded)| live != recorded).collect::<Vec<_>>();
    assert!(differing.is_empty(), "live and recorded host differ:\n{differing:#?}");
    assert_eq!(expected.len(), told.len());
}

fn fixpoint() {
    let (lab, runtime) = (Lab::new("B"), Runtime::new().unwrap());
    let mut live = lab.live(&runtime).calls;
    for number in [21, 22] {
        live.create_volume(&volume(&format!("m{number}.qcow2"), 1 << 20, 0, "qcow2", None)).unwrap();
    }
    let mark = format!("<e:instance xmlns:e='{MARK_NAMESPACE}'><fleet>f</fleet></e:instance>");
    live.define(&lab.domain(21, &mark, &lab.bridge, true)).unwrap();
    live.start(uuid(21)).unwrap();
    live.define(&lab.domain(22, "<n:x xmlns:n='urn:nova'>CANARY</n:x>", &lab.bridge, false)).unwrap();
    live.start(uuid(22)).unwrap();
    live.undefine(uuid(22), ALL).unwrap();

    let now = Timestamp::now();
    let first = record(&mut *live, &lab.bridge, &TYPES, now).unwrap();
    for number in [21, 22] {
        live.destroy(uuid(number)).unwrap();
    }
    live.undefine(uuid(21), ALL).unwrap();
    let text = first.to_yaml().unwrap();
    assert!(text.contains(MARK_NAMESPACE) && text.contains("urn:nova") && !text.contains("CANARY"), "{text}");
    let mut recorded = served(RecordedHost::parse(&text, Path::new("lab.yaml")).unwrap(), &runtime);
    let again = record(&mut *recorded, &lab.bridge, &TYPES, now).unwrap();
    assert_eq!(again.to_yaml().unwrap(), text);
}
