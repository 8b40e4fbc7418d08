//! The live libvirt host against a real sshd and a real libvirtd.
//!
//! Runs inside `tests/realhost/lab`, which names what it has set up in `LAB_*` variables; anywhere
//! else every test reports itself as ignored. One test at a time: some freeze the daemons.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout
)]

mod calls;
mod faults;

use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use egress_plan::provider::libvirt::host::link::{DialError, Link, Opened, Purpose};
use egress_plan::provider::libvirt::host::live::SshLink;
use egress_plan::provider::libvirt::host::target::{DEFAULT_KEEPALIVE, SshTarget};
use egress_plan::provider::libvirt::host::traced::{Budgets, Labels, Traced};
use libtest_mimic::{Arguments, Trial};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

const BUDGET: Duration = Duration::from_secs(10);
/// Closing has a second; a loaded machine gets three times that.
const CLOSING: Duration = Duration::from_secs(3);
const URI: &str = "https://egress-plan.dev/ns/test/1";

type Test = (&'static str, fn());

const TESTS: &[Test] = &[
    ("a_domain_is_defined_marked_found_and_undefined", calls::domain_life),
    ("a_running_domain_has_two_configurations", calls::running_domain),
    ("a_transient_domain_has_a_live_configuration_only", calls::transient_domain),
    ("volumes_are_made_described_and_removed", calls::volumes),
    ("an_upload_arrives_byte_for_byte", calls::upload),
    ("facts_of_the_host_are_read", calls::facts),
    ("every_kind_of_client_key_logs_in", calls::client_keys),
    ("sockets_are_tried_in_order", calls::sockets),
    ("a_stranger_of_a_host_is_refused", calls::stranger),
    ("the_local_socket_works_as_well", calls::local),
    ("l01_kill_ends_a_call_that_the_daemon_does_not_answer", faults::kill_during_call),
    ("l01_closing_is_quick_while_the_host_is_frozen", faults::close_frozen),
    ("l02_a_budget_ends_a_call_on_a_frozen_host", faults::budget_frozen),
    ("l02_a_cancelled_upload_ends_on_a_frozen_host", faults::cancel_upload_frozen),
    ("l03_a_lost_connection_is_dialled_anew_at_most_twice", faults::redial),
    ("l04_two_hundred_failed_uploads_leave_nothing", faults::failed_uploads),
    ("l04_many_dials_leave_nothing", faults::many_dials),
    ("l04_many_cancelled_calls_leave_nothing", faults::cancelled_calls),
    ("l05_a_silent_host_is_noticed", faults::keepalive),
    ("l08_garbage_on_the_socket_is_an_error_of_that_host", faults::garbage),
    ("l44_a_silent_socket_is_a_timeout_at_its_stage", faults::silent_socket),
    ("l43_a_burst_of_dials_gets_through", faults::burst),
];

fn main() -> std::process::ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let ignored = std::env::var_os("EGRESS_PLAN_LAB").is_none();
    let trial = |(name, test): &Test| {
        let test = *test;
        Trial::test(*name, move || {
            test();
            Ok(())
        })
        .with_ignored_flag(ignored)
    };
    libtest_mimic::run(&arguments, TESTS.iter().map(trial).collect()).exit_code()
}

fn lab(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"))
}

fn target() -> SshTarget {
    let address = lab("LAB_SSH_A");
    let (host, port) = address.rsplit_once(':').unwrap();
    SshTarget {
        host: host.to_owned(),
        port: port.parse().unwrap(),
        host_key_alias: None,
        user: "root".to_owned(),
        key_file: PathBuf::from(lab("LAB_KEY")),
        known_hosts: Some(PathBuf::from(lab("LAB_KNOWN_HOSTS"))),
        sockets: vec![lab("LAB_SOCKET")],
        pool: lab("LAB_POOL_A"),
        keepalive: DEFAULT_KEEPALIVE,
    }
}

/// A runtime of two workers, a link, and connections over it, as a run has them.
struct Bench {
    runtime: Runtime,
    link: Arc<SshLink>,
}

impl Bench {
    fn new(target: SshTarget) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        Self { runtime, link: Arc::new(SshLink::new(target)) }
    }

    fn try_open(&self, purpose: Purpose) -> Result<Opened, DialError> {
        self.runtime.block_on(self.link.open(purpose, BUDGET))
    }

    fn open(&self) -> Opened {
        self.try_open(Purpose::Calls).unwrap_or_else(|error| panic!("{error:?}"))
    }

    fn traced(&self, opened: Opened, budgets: Budgets, cancelled: &CancellationToken) -> Traced {
        let _inside = self.runtime.enter();
        let labels = Labels { provider: "p".to_owned(), host: "h".to_owned(), pool: lab("LAB_POOL_A") };
        Traced::new(opened, labels, budgets, cancelled.clone(), Arc::default())
    }

    fn close(&self) -> Duration {
        let started = Instant::now();
        self.runtime.block_on(self.link.close());
        started.elapsed()
    }
}

fn unwrap_err<T>(outcome: Result<T, DialError>) -> DialError {
    outcome.err().expect("the dial succeeded")
}

fn domain_xml(name: &str, mark: Option<&str>) -> String {
    let mark =
        mark.map_or_else(String::new, |mark| format!("<metadata><m:mark xmlns:m='{URI}'>{mark}</m:mark></metadata>"));
    let disk = format!("{}/{name}.raw", lab("LAB_POOL_A_DIR"));
    format!(
        "<domain type='qemu'><name>{name}</name>{mark}<memory unit='MiB'>64</memory><vcpu>1</vcpu>\
         <os><type arch='x86_64' machine='q35'>hvm</type></os><features><acpi/></features>\
         <devices><disk type='file' device='disk'><driver name='qemu' type='raw'/><source file='{disk}'/>\
         <target dev='vda' bus='virtio'/></disk>\
         <interface type='bridge'><mac address='52:54:00:AA:bb:01'/><source bridge='{}'/><model type='virtio'/></interface>\
         <channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel></devices></domain>",
        lab("LAB_BRIDGE")
    )
}

fn volume_xml(name: &str, capacity: u64, format: &str, more: &str) -> String {
    format!(
        "<volume><name>{name}</name><capacity unit='bytes'>{capacity}</capacity><allocation>0</allocation>\
         <target><format type='{format}'/>{more}</volume>"
    )
}

fn raw_xml(name: &str, capacity: u64) -> String {
    volume_xml(name, capacity, "raw", "<permissions><mode>0600</mode></permissions></target>")
}

/// Bytes that differ along the way, so that a lost or doubled piece shows.
struct Pattern(u64);

impl Read for Pattern {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        for byte in into.iter_mut() {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *byte = self.0.to_be_bytes()[0];
        }
        Ok(into.len())
    }
}
