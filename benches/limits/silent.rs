//! A `diff` while one of two hosts does not answer: it may cost the dial budget, and no more.

use std::fs;
use std::net::TcpListener;
use std::time::Duration;

use super::fleet::Fleet;
use super::lab::{lab, tool};
use super::{Figure, seconds, timed};

/// `budgets.dial`, and what the end of a run may take besides.
const DIAL: Duration = Duration::from_secs(10);

pub fn measure() -> Vec<Figure> {
    let fleet = Fleet::blank("silent");
    fleet.want("silent-1", "a");
    fleet.want("silent-2", "b");
    let config = fleet.folder.join("config.yaml");
    let text = fs::read_to_string(&config).unwrap();
    fleet.with_one_host();
    fleet.unwant("silent-2");
    let live = (0..3).map(|_| timed(|| fleet.diff(0)).1).max().unwrap();

    // One that takes the connection and says nothing, and one from which nothing comes back at all:
    // packets to a neighbour that is not there are sent into the bridge and lost.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let lost = "192.0.2.77";
    let bridge = lab("LAB_BRIDGE");
    tool("ip", &["neigh", "add", lost, "lladdr", "02:00:00:00:00:77", "dev", &bridge, "nud", "permanent"]);
    let addresses = [("says nothing", listener.local_addr().unwrap().to_string()), ("is gone", format!("{lost}:22"))];
    fleet.want("silent-2", "b");
    let figure = |(what, address): (&str, String)| {
        fs::write(&config, text.replace(&lab("LAB_SSH_B"), &address)).unwrap();
        let (run, time) = timed(|| fleet.diff(3));
        run.says(&["lab/b   unknown: ", "1 of 2 hosts is unknown"])
            .ends_with("Plan: 1 to create, 0 to start, 0 to update, 0 to replace, 0 to delete, 0 blocked.");
        Figure {
            what: format!("a diff while one of two hosts {what} (the other one alone: {})", seconds(live)),
            measured: seconds(time),
            limit: seconds(DIAL + live),
            within: time <= DIAL + live,
        }
    };
    addresses.into_iter().map(figure).collect()
}
