//! Against a connection whose calls wait until it is killed.

use std::io::Write;
use std::sync::{Condvar, Mutex};

use tracing_subscriber::fmt::MakeWriter;

use super::*;

/// A connection of which two calls answer, and all others hang until it is cut.
struct Hanging(Arc<(Mutex<bool>, Condvar)>);

impl Hanging {
    fn opened() -> Opened {
        let cut = Arc::new((Mutex::new(false), Condvar::new()));
        let theirs = Arc::clone(&cut);
        let kill = move || {
            *theirs.0.lock().unwrap() = true;
            theirs.1.notify_all();
        };
        Opened { calls: Box::new(Self(cut)), kill: Arc::new(kill) }
    }

    fn hang<T>(&self) -> CallResult<T> {
        let cut = self.0.1.wait_while(self.0.0.lock().unwrap(), |cut| !*cut).unwrap();
        drop(cut);
        Err(lost())
    }
}

fn lost() -> CallError {
    CallError { code: 38, domain: 7, message: "End of\u{1b}[31m file".to_owned(), dead: true, ended: None }
}

const KNOWN: Uuid = Uuid::from_u128(7);

impl Calls for Hanging {
    fn libvirt_version(&mut self) -> CallResult<u64> {
        Ok(11_006_000)
    }
    fn hypervisor_version(&mut self) -> CallResult<u64> {
        Err(CallError { code: 3, domain: 0, message: "no\nsupport".to_owned(), dead: false, ended: None })
    }
    fn hostname(&mut self) -> CallResult<String> {
        self.hang()
    }
    fn domain_capabilities(&mut self, _: &str) -> CallResult<String> {
        self.hang()
    }
    fn interface_exists(&mut self, _: &str) -> CallResult<Option<bool>> {
        self.hang()
    }
    fn list_domains(&mut self, _: Which) -> CallResult<Vec<DomainRow>> {
        Ok(vec![DomainRow { uuid: KNOWN, name: "egress-a".to_owned(), active: true }])
    }
    fn domain_stats(&mut self) -> CallResult<Vec<DomainStats>> {
        self.hang()
    }
    fn find_domain(&mut self, _: &str) -> CallResult<Option<DomainRow>> {
        self.hang()
    }
    fn domain_exists(&mut self, _: Uuid) -> CallResult<bool> {
        self.hang()
    }
    fn metadata(&mut self, _: Uuid, _: Config, _: &str) -> CallResult<Option<String>> {
        self.hang()
    }
    fn set_metadata(&mut self, _: Uuid, _: &[Config], _: &str, _: &str, _: &str) -> CallResult<()> {
        self.hang()
    }
    fn domain_xml(&mut self, _: Uuid, _: Config) -> CallResult<String> {
        self.hang()
    }
    fn domain_state(&mut self, _: Uuid) -> CallResult<(i32, i32)> {
        Ok((1, 1))
    }
    fn define(&mut self, _: &str) -> CallResult<DomainRow> {
        self.hang()
    }
    fn start(&mut self, _: Uuid) -> CallResult<()> {
        self.hang()
    }
    fn shutdown(&mut self, _: Uuid) -> CallResult<()> {
        self.hang()
    }
    fn destroy(&mut self, _: Uuid) -> CallResult<()> {
        self.hang()
    }
    fn undefine(&mut self, _: Uuid, _: UndefineWith) -> CallResult<()> {
        self.hang()
    }
    fn set_autostart(&mut self, _: Uuid, _: bool) -> CallResult<()> {
        self.hang()
    }
    fn addresses(&mut self, _: Uuid, _: AddressSource, _: i32) -> CallResult<Vec<NicAddresses>> {
        self.hang()
    }
    fn pool(&mut self) -> CallResult<PoolInfo> {
        self.hang()
    }
    fn refresh_pool(&mut self) -> CallResult<()> {
        self.hang()
    }
    fn volume_names(&mut self) -> CallResult<Vec<String>> {
        self.hang()
    }
    fn volume(&mut self, _: &str) -> CallResult<Option<Volume>> {
        self.hang()
    }
    fn create_volume(&mut self, _: &str) -> CallResult<()> {
        self.hang()
    }
    fn delete_volume(&mut self, _: &str) -> CallResult<()> {
        self.hang()
    }
    fn upload(&mut self, _: &str, _: &mut dyn Read, length: u64, sent: &mut dyn FnMut(u64)) -> CallResult<()> {
        sent(1);
        if length == 1 { Ok(()) } else { self.hang() }
    }
}

const LONG: Duration = Duration::from_hours(1);
const SHORT: Duration = Duration::from_millis(1);

/// Budgets that never end anything, less what `shorten` says.
fn budgets(shorten: fn(&mut Budgets)) -> Budgets {
    let mut budgets = Budgets { ordinary: LONG, start: LONG, small_upload: LONG, upload: LONG, upload_silence: LONG };
    shorten(&mut budgets);
    budgets
}

fn traced(budgets: Budgets, cancelled: &CancellationToken, count: &Arc<AtomicU64>) -> Traced {
    let labels = Labels { provider: "kvm2-home".to_owned(), host: "beelink".to_owned(), pool: "default".to_owned() };
    Traced::new(Hanging::opened(), labels, budgets, cancelled.clone(), Arc::clone(count))
}

/// Makes a call from a thread that may block.
async fn on_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn l02_each_kind_of_call_ends_by_its_own_budget() {
    type Row = (&'static str, fn(&mut Budgets), fn(&mut Traced) -> CallResult<()>);
    fn upload(calls: &mut Traced, length: u64) -> CallResult<()> {
        calls.upload("v", &mut std::io::empty(), length, &mut |_| ())
    }
    let rows: [Row; 5] = [
        ("ordinary", |budgets| budgets.ordinary = SHORT, |calls| calls.hostname().map(drop)),
        ("start", |budgets| budgets.start = SHORT, |calls| calls.start(KNOWN)),
        ("small upload", |budgets| budgets.small_upload = SHORT, |calls| upload(calls, SMALL_UPLOAD_MAX)),
        ("upload", |budgets| budgets.upload = SHORT, |calls| upload(calls, SMALL_UPLOAD_MAX + 1)),
        ("silence", |budgets| budgets.upload_silence = SHORT, |calls| upload(calls, SMALL_UPLOAD_MAX + 1)),
    ];
    for (what, shorten, call) in rows {
        let mut calls = traced(budgets(shorten), &CancellationToken::new(), &Arc::default());
        let error = on_thread(move || call(&mut calls)).await.unwrap_err();
        assert_eq!((error.ended, error.dead, error.code), (Some(Ended::Budget), true, 38), "{what}");
        assert!(error.message.starts_with("given up after"), "{what}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn l02_an_interrupt_ends_the_upload_of_an_image_and_nothing_else() {
    let cancelled = CancellationToken::new();
    let mut calls = traced(budgets(|_| ()), &cancelled, &Arc::default());
    let upload = tokio::task::spawn_blocking({
        let cancelled = cancelled.clone();
        move || calls.upload("v", &mut std::io::empty(), 1 << 30, &mut |_| cancelled.cancel())
    });
    let error = upload.await.unwrap().unwrap_err();
    assert_eq!((error.ended, error.dead), (Some(Ended::Cancelled), true));

    // From then on no image upload begins, and its connection lives; seeds and calls run on.
    let mut calls = traced(budgets(|budgets| budgets.ordinary = SHORT), &cancelled, &Arc::default());
    on_thread(move || {
        let error = calls.upload("v", &mut std::io::empty(), 1 << 30, &mut |_| ()).unwrap_err();
        assert_eq!((error.ended, error.dead), (Some(Ended::Cancelled), false));
        calls.upload("v", &mut std::io::empty(), 1, &mut |_| ()).unwrap();
        assert_eq!(calls.libvirt_version(), Ok(11_006_000));
        assert_eq!(calls.hostname().unwrap_err().ended, Some(Ended::Budget));
    })
    .await;
}

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;
    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn every_call_is_counted_and_has_one_line_with_its_fields() {
    let lines = Lines::default();
    let subscriber =
        tracing_subscriber::fmt().json().with_max_level(tracing::Level::DEBUG).with_writer(lines.clone()).finish();
    let count = Arc::default();
    let mut calls = traced(budgets(|_| ()), &CancellationToken::new(), &count);
    tracing::subscriber::with_default(subscriber, || {
        calls.list_domains(Which::Persistent).unwrap();
        calls.domain_state(KNOWN).unwrap();
        calls.domain_state(Uuid::from_u128(8)).unwrap();
        calls.upload("v.iso", &mut std::io::empty(), 1, &mut |_| ()).unwrap();
        assert_eq!(calls.hypervisor_version().unwrap_err().message, "no\nsupport");
    });
    assert_eq!(count.load(Ordering::Relaxed), 5);
    let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 5, "{text}");
    let expected = [
        serde_json::json!({"rpc": "list_domains"}),
        serde_json::json!({"rpc": "domain_state", "domain": "egress-a"}),
        serde_json::json!({"rpc": "domain_state", "domain": Uuid::from_u128(8).to_string()}),
        serde_json::json!({"rpc": "upload", "pool": "default", "volume": "v.iso", "offset": 0, "length": 1}),
        serde_json::json!({
            "rpc": "hypervisor_version", "error": "no support", "libvirt_code": 3, "libvirt_error": 0
        }),
    ];
    for (line, mut expected) in lines.into_iter().zip(expected) {
        assert_eq!((line["level"].as_str(), line["span"]["name"].as_str()), (Some("DEBUG"), Some("libvirt.call")));
        let name = format!("libvirt.{}", expected["rpc"].as_str().unwrap());
        assert_eq!(
            (line["span"]["otel.name"].as_str(), line["span"]["otel.kind"].as_str()),
            (Some(&*name), Some("client"))
        );
        let mut fields = line["fields"].clone();
        assert!(fields["duration_ms"].take().is_u64());
        fields.as_object_mut().unwrap().remove("duration_ms");
        expected["message"] = "libvirt call".into();
        expected["provider"] = "kvm2-home".into();
        expected["host"] = "beelink".into();
        assert_eq!(fields, expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn l04_a_call_leaves_no_watch_behind() {
    let mut calls = traced(budgets(|_| ()), &CancellationToken::new(), &Arc::default());
    on_thread(move || (0..1000).for_each(|_| drop(calls.libvirt_version()))).await;
    let metrics = Handle::current().metrics();
    let ended = async {
        while metrics.num_alive_tasks() > 0 {
            tokio::task::yield_now().await;
        }
    };
    // A watch that was left would live as long as its budget.
    tokio::time::timeout(Duration::from_secs(30), ended).await.unwrap();
}
