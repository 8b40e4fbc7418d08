//! How many connections there are, what goes over which, and what `check` says of one that fails.

use std::fs;
use std::time::Duration;

use super::daemons::Sshd;
use super::lab::{lab, tool, until};
use super::relay::{Door, Relay, Traffic, lead_through};
use super::scene::{Scene, assert_whole, end, fresh_image, proofs};

const MIB: u64 = 1 << 20;

/// Over the one relay go the calls of host b and then the upload, on connections 1 and 2.
pub fn upload_has_its_own() {
    let scene = Scene::new("conn-own", fresh_image("conn-own", 24), "budgets: {}");
    scene.relay.traffic(Traffic::Narrow(6 << 20));
    let mut run = scene.apply();
    until("the upload to b has begun", 90, Duration::from_millis(2), || {
        assert!(!run.has_ended());
        (scene.relay.up() > 4 * MIB).then_some(())
    });
    assert_eq!(scene.relay.accepted(), 2, "one connection for calls and one for the upload");
    // Whatever is asked over the first connection gets no answer from here on; upload, refresh, the
    // look at the length and the proof need none.
    scene.relay.hold(1);
    until("the proof is there", 40, Duration::from_millis(10), || (proofs("b").len() == 1).then_some(()));
    assert_whole("b");
    assert!(!run.has_ended());
    // Nor does a check, which dials for itself.
    let check = scene.fleet.run(&["check"]).must(0);
    assert!(check.stdout.contains("2 hosts: 2 ready, 0 not ready."), "{}", check.stdout);
    assert_eq!(scene.relay.accepted(), 3);
    scene.relay.heal();
    end(run, 120).must(0);
    assert_eq!(scene.relay.accepted(), 3);
    scene.converges();
    scene.strike();
}

pub fn rekeying() {
    let scene = Scene::new("conn-rekey", fresh_image("conn-rekey", 96), "budgets: {}");
    let often = Sshd::with("RekeyLimit 1M 3s");
    let mut run = scene.apply();
    let mut looks = 0;
    while !run.has_ended() {
        // No listing is lost beside it.
        scene.fleet.diff(0);
        looks += 1;
    }
    let run = end(run, 120).must(0);
    let uploads = run.calls("b", "upload");
    let image: Vec<_> = uploads.iter().filter(|call| call["length"] == 96 * MIB).collect();
    assert_eq!((image.len(), image[0]["error"].is_null()), (1, true), "{image:?}");
    assert!(looks > 0);
    assert_whole("b");
    drop(often);
    scene.converges();
    scene.strike();
}

/// New keys every three seconds while nothing is asked for: the connection lives on.
pub fn rekeying_while_idle() {
    let scene = Scene::fresh("conn-idle", 24);
    let often = Sshd::with("RekeyLimit default 3s");
    let slow = Relay::to(&lab("LAB_SSH_A"));
    lead_through(&scene.fleet, "LAB_SSH_A", &slow);
    scene.fleet.unwant("conn-idle-b");
    slow.traffic(Traffic::Narrow(2 << 20));
    end(scene.apply(), 120).must(0);
    assert_eq!(scene.relay.accepted(), 1, "the connection to b was lost while it was idle");
    drop(often);
    slow.heal();
    scene.fleet.manifest("conn-idle-b", "b", "tiny", "fresh", super::fleet::EMPTY);
    scene.converges();
    scene.strike();
}

/// What `check` says of host b when one thing is wrong.
pub fn check_tells_apart() {
    let scene = Scene::blank("conn-check");
    let config = scene.fleet.folder.join("config.yaml");
    let good = fs::read_to_string(&config).unwrap();
    let known = scene.fleet.folder.join("known_hosts");
    let keys = fs::read_to_string(&known).unwrap();
    let says = |what: &str, reason: &str, stage: &str| {
        let run = scene.fleet.run(&["check", "--target", "lab/b"]).must(1);
        let (line, next) = (format!("{reason} at {stage}: "), "→ ");
        assert!(run.stdout.contains(&line) && run.stdout.contains(next), "{what}: {line:?}\n{}", run.stdout);
        run
    };
    let b = format!("name: b, address: '{}'", scene.relay.address());
    let with = |more: &str| fs::write(&config, good.replace(&b, &format!("{b}, {more}"))).unwrap();

    let run = {
        fs::write(&known, keys.lines().filter(|line| !line.contains(&port(&scene))).collect::<Vec<_>>().join("\n"))
            .unwrap();
        says("unknown key", "HostKeyMismatch", "ssh")
    };
    let name = known.to_str().unwrap();
    assert!(run.stdout.contains(name) && run.stdout.contains("SHA256:") && run.stdout.contains("ssh-keyscan -p "));
    // Host a's keys under this name: the first line of the kind that b shows is named.
    let of_a = |line: &&str| line.contains("]:2201 ");
    let others: Vec<&str> = keys.lines().filter(|line| !line.contains(&port(&scene))).collect();
    let wrong: Vec<String> = keys.lines().filter(of_a).map(|line| line.replace("]:2201 ", &port(&scene))).collect();
    let own = others.len();
    fs::write(&known, format!("{}\n{}\n", others.join("\n"), wrong.join("\n"))).unwrap();
    let run = says("changed key", "HostKeyMismatch", "ssh");
    assert!(run.stdout.contains(&format!("the host key has changed: {name}:{}", own + 1)), "{}", run.stdout);
    fs::write(&known, &keys).unwrap();

    with("socket: /run/libvirt/none-sock");
    says("no such socket", "Unreachable", "socket");
    let stranger = scene.fleet.folder.join("stranger");
    tool("ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-f", stranger.to_str().unwrap()]);
    fs::write(&config, good.replace(&lab("LAB_KEY"), stranger.to_str().unwrap())).unwrap();
    let run = says("a key that nobody knows", "Unauthorized", "ssh");
    assert!(run.stdout.contains("SHA256:") && run.stdout.contains("authorized_keys"), "{}", run.stdout);
    fs::write(&config, good.replace(&lab("LAB_KEY"), "/run/lab/ssh/missing")).unwrap();
    says("no key", "CredentialsUnavailable", "credentials");
    fs::write(&config, good.replace(&lab("LAB_KEY"), &format!("{}.pub", lab("LAB_KEY")))).unwrap();
    let run = says("a public key", "CredentialsUnavailable", "credentials");
    assert!(run.stdout.contains("is a public key"), "{}", run.stdout);
    fs::write(&config, &good).unwrap();

    scene.relay.door(Door::Silent);
    says("a silent peer", "Timeout", "ssh");
    scene.relay.door(Door::Garbage);
    says("garbage", "Unreachable", "ssh");
    scene.relay.heal();
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    fs::write(&config, good.replace(&scene.relay.address().to_string(), &nobody.to_string())).unwrap();
    says("nobody listens", "Unreachable", "tcp");
    fs::write(&config, &good).unwrap();
    let forbidden = Sshd::with("AllowStreamLocalForwarding no");
    says("forwarding is off", "Unreachable", "socket");
    drop(forbidden);
    scene.fleet.run(&["check"]).must(0);
    scene.converges();
    scene.strike();
}

/// How a `known_hosts` line of the relay goes on after the address.
fn port(scene: &Scene) -> String {
    format!("]:{} ", scene.relay.address().port())
}
