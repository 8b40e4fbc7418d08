//! Secrets that are planted wherever the program meets one, and the search for them in all that it
//! said in the whole suite.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use super::fleet::{Fleet, Image, Settings, records};
use super::lab::lab;

pub const IN_USER_DATA: &str = "planted-in-user-data-5d1f0c";
pub const IN_SECRET: &str = "planted-in-a-secret-9e27ab";
pub const IN_VENDOR_DATA: &str = "planted-in-vendor-data-40c8d3";
pub const IN_QUERY: &str = "planted-in-a-query-b6a914";
const IN_PASSWORD: &str = "planted-in-a-password-72f3e8";

/// Every secret that a run of the suite has met.
fn secrets() -> Vec<String> {
    let mut secrets: Vec<String> =
        [IN_USER_DATA, IN_SECRET, IN_VENDOR_DATA, IN_QUERY, IN_PASSWORD].map(str::to_owned).into();
    let key = fs::read_to_string(lab("LAB_KEY")).unwrap();
    secrets.extend(key.lines().filter(|line| !line.starts_with("-----")).map(str::to_owned));
    let known_hosts = fs::read_to_string(lab("LAB_KNOWN_HOSTS")).unwrap();
    secrets.extend(known_hosts.lines().map(|line| line.split(' ').next_back().unwrap().to_owned()));
    // The last line of a key's body may be a few characters, which prove nothing.
    secrets.retain(|secret| secret.len() >= 16);
    assert!(secrets.len() >= 5 + 4 + 5, "{} secrets", secrets.len());
    secrets
}

/// A collector that keeps the body of each request; returns its URL and how many it has.
fn collector() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut length = 0;
            for line in reader.by_ref().lines() {
                let line = line.unwrap_or_default();
                if let Some((name, value)) = line.split_once(':')
                    && name.eq_ignore_ascii_case("content-length")
                {
                    length = value.trim().parse().unwrap();
                }
                if line.is_empty() {
                    break;
                }
            }
            let mut body = vec![0; length];
            if reader.read_exact(&mut body).is_ok() {
                let number = counter.fetch_add(1, Ordering::SeqCst);
                fs::write(records().join(format!("traces-{number}.otlp")), &body).unwrap();
            }
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
    });
    (url, count)
}

pub fn traces() {
    let (url, count) = collector();
    let fleet = Fleet::blank("traces");
    let cloud_init = format!("cloudInit: \"#cloud-config\\n# {IN_USER_DATA}\\n\"");
    fleet.manifest("traces-1", "a", "tiny", "blank", &cloud_init);
    fleet.run_with(&["apply", "--auto-approve"], &[("OTEL_EXPORTER_OTLP_ENDPOINT", &url)]).must(0);
    assert!(count.load(Ordering::SeqCst) > 0);
    let bodies: Vec<u8> = files()
        .into_iter()
        .filter(|path| path.extension().is_some_and(|ending| ending == "otlp"))
        .flat_map(|path| fs::read(path).unwrap())
        .collect();
    for name in ["libvirt.define", "libvirt.dial", "action.create", "lab/a"] {
        assert!(holds(&bodies, name), "no {name} among {} bytes", bodies.len());
    }
    fleet.destroy();
}

/// User and password in an image's URL: refused when the config is loaded.
pub fn password_in_url() {
    let image =
        Image { key: "blank", url: format!("../user:{IN_PASSWORD}@images.invalid/blank.qcow2"), ..Image::blank() };
    let fleet = Fleet::new("password", "lab", "libvirt", &[image], &Settings::default());
    let config = fleet.folder.join("config.yaml");
    let text = fs::read_to_string(&config).unwrap().replace(&format!("{}/../", lab("LAB_WEB")), "http://");
    assert!(text.contains(&format!("url: http://user:{IN_PASSWORD}@images.invalid/")));
    fs::write(&config, text).unwrap();
    fleet.want("password-1", "a");
    fleet.run(&["diff"]).must(1).says(&["config.yaml:"]);
    fleet.run(&["diff", "--log-format", "text", "-vv"]).must(1).says(&["config.yaml:"]);
}

fn files() -> Vec<PathBuf> {
    fn add(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { add(&path, found) } else { found.push(path) }
        }
    }
    let mut found = Vec::new();
    add(&records(), &mut found);
    found.sort();
    found
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

/// Files below the records that hold `text`, whatever else is in them.
fn search(text: &str) -> Vec<String> {
    let output = Command::new("grep").args(["-rlaF", "-e", text]).arg(records()).output().unwrap();
    // 1 says that nothing was found.
    assert!(output.status.code().is_some_and(|code| code <= 1), "{output:?}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

pub fn nowhere() {
    // What every run says is found, so that a search that finds nothing means something.
    assert!(search("libvirt call").len() > 20);
    let found: Vec<String> = secrets()
        .iter()
        .flat_map(|secret| search(secret).into_iter().map(|file| format!("{}… in {file}", &secret[..12])))
        .collect();
    assert!(found.is_empty(), "{found:#?}");
}

pub fn every_line_is_json() {
    let mut lines = 0;
    for path in files() {
        let name = path.to_str().unwrap();
        if !name.ends_with(".stderr") || name.ends_with("-text.stderr") {
            continue;
        }
        for line in fs::read_to_string(&path).unwrap().lines() {
            let value: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{name}: {error}: {line}"));
            assert!(value.is_object() && value["ts"].is_string(), "{name}: {line}");
            lines += 1;
        }
    }
    assert!(lines > 1000, "only {lines} lines");
}
