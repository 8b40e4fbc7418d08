//! Traces over OTLP, against a collector in this process.

use std::net::TcpListener;

use wiremock::matchers::{method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::{Ended, egress_plan, run};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

fn holds(body: &[u8], what: &[u8]) -> bool {
    body.windows(what.len()).any(|window| window == what)
}

/// Runs a short command with this collector, away from the threads that serve it.
async fn run_with(endpoint: String, more: Vec<(&'static str, &'static str)>) -> Ended {
    let work = move || {
        let mut command = egress_plan("schema plan --log-format json");
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint).envs(more);
        run(command)
    };
    tokio::task::spawn_blocking(work).await.expect("ends")
}

async fn collector(answer: ResponseTemplate) -> MockServer {
    let server = MockServer::start().await;
    Mock::given(method("POST")).and(path("/v1/traces")).respond_with(answer).mount(&server).await;
    server
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_sends_its_root_span_under_the_remote_parent() {
    let server = collector(ResponseTemplate::new(200)).await;
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let ended = run_with(server.uri(), vec![("TRACEPARENT", parent), ("OTEL_SERVICE_NAME", "nightly-fleet")]).await;
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));

    let requests = server.received_requests().await.expect("recorded");
    assert_eq!(requests.len(), 1);
    let body = &requests[0].body;
    assert!(holds(body, &hex::decode(TRACE).expect("hex")), "the trace id is that of TRACEPARENT");
    assert!(holds(body, &hex::decode("b7ad6b7169203331").expect("hex")), "the parent is that of TRACEPARENT");
    assert!(holds(body, b"nightly-fleet"), "OTEL_SERVICE_NAME is honoured");
    assert!(holds(body, b"schema"), "the root span names the command");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_service_has_a_name_when_nobody_gives_one() {
    let server = collector(ResponseTemplate::new(200)).await;
    run_with(server.uri(), Vec::new()).await;
    let requests = server.received_requests().await.expect("recorded");
    assert!(holds(&requests[0].body, b"egress-plan"));
    assert!(!holds(&requests[0].body, b"unknown_service"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sdk_can_be_switched_off() {
    let server = collector(ResponseTemplate::new(200)).await;
    let ended = run_with(server.uri(), vec![("OTEL_SDK_DISABLED", "true")]).await;
    assert_eq!(ended.code, Some(0));
    assert_eq!(server.received_requests().await.expect("recorded").len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_refuses_costs_a_warning() {
    let server = collector(ResponseTemplate::new(400)).await;
    assert_warned(&run_with(server.uri(), Vec::new()).await);
    assert_warned(&run_with("http://127.0.0.1:1".to_owned(), Vec::new()).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_no_url_costs_a_warning_without_its_password() {
    for endpoint in ["http://user:hunter2@", "http://user:hunter2@127.0.0.1:1", "hunter2 is no url"] {
        let ended = run_with(endpoint.to_owned(), Vec::new()).await;
        assert_warned(&ended);
        assert!(!ended.stderr.contains("hunter2"), "{}", ended.stderr);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_never_answers_costs_a_warning() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("binds");
    let address = silent.local_addr().expect("bound");
    assert_warned(&run_with(format!("http://{address}"), Vec::new()).await);
}

fn assert_warned(ended: &Ended) {
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(!ended.stdout.is_empty());
    let lines = ended.json_lines();
    assert_eq!(lines.len(), 1, "{}", ended.stderr);
    assert_eq!(lines[0]["level"], "warn");
    assert!(
        lines[0]["message"].as_str().is_some_and(|message| message.contains("traces") || message.contains("Traces"))
    );
}
