//! Which files are read.

use std::os::unix::fs::symlink;

use super::*;

/// Names of the files that were read, relative to `dir`, and the problems.
fn names(dir: &Path, arguments: &[&Path]) -> (Vec<String>, Vec<String>) {
    let arguments: Vec<PathBuf> = arguments.iter().map(|path| path.to_path_buf()).collect();
    let gathered = gather(&arguments, &mut std::io::empty());
    let prefix = format!("{}/", dir.display());
    let relative = |text: &str| text.replace(&prefix, "");
    let files = gathered.files.iter().map(|file| relative(&file.name)).collect();
    (files, gathered.problems.iter().map(|problem| relative(&problem.to_string())).collect())
}

fn mounted(dir: &Path) -> PathBuf {
    let m = dir.join("m");
    fs::create_dir_all(m.join("..2026_01_01")).expect("made");
    for name in ["p1.yaml", "squid.yaml"] {
        fs::write(m.join("..2026_01_01").join(name), "a: 1\n").expect("written");
        symlink(format!("..data/{name}"), m.join(name)).expect("linked");
    }
    symlink("..2026_01_01", m.join("..data")).expect("linked");
    for name in ["p2.yml", "p2.yml~", "#p2.yml#", ".p1.yaml.swp", ".lint.yaml", "README.md"] {
        fs::write(m.join(name), "a: 1\n").expect("written");
    }
    symlink("someone@pc.1", m.join(".#p1.yaml")).expect("linked");
    m
}

#[test]
fn c24_a_mounted_config_map_shows_each_file_once() {
    let dir = tempfile::tempdir().expect("a folder");
    let m = mounted(dir.path());
    let expected = vec!["m/p1.yaml".to_owned(), "m/p2.yml".to_owned(), "m/squid.yaml".to_owned()];
    assert_eq!(names(dir.path(), &[&m]), (expected.clone(), Vec::new()));
    assert_eq!(names(dir.path(), &[&m, &m.join("p1.yaml")]), (expected, Vec::new()));

    let current = dir.path().join("current");
    symlink("m", &current).expect("linked");
    assert_eq!(names(dir.path(), &[&current]).0.len(), 3);

    fs::rename(m.join("..2026_01_01"), m.join("..2026_01_02")).expect("renamed");
    fs::remove_file(m.join("..data")).expect("removed");
    symlink("..2026_01_02", m.join("..data")).expect("linked");
    assert_eq!(names(dir.path(), &[&m]).0.len(), 3);
}

#[test]
fn c24_what_dangles_is_an_error_and_a_link_to_a_folder_above_ends() {
    let dir = tempfile::tempdir().expect("a folder");
    let m = mounted(dir.path());
    symlink("nowhere.yaml", m.join("p3.yaml")).expect("linked");
    fs::create_dir(m.join("sub")).expect("made");
    fs::write(m.join("sub/p4.json"), "{}").expect("written");
    symlink("..", m.join("sub/up")).expect("linked");
    let (files, problems) = names(dir.path(), &[&m]);
    assert_eq!(problems, ["m/p3.yaml: this does not exist"]);
    assert_eq!(files, ["m/p1.yaml", "m/p2.yml", "m/squid.yaml", "m/sub/p4.json"]);
}

#[test]
fn a_file_that_is_not_there_is_an_error_and_the_others_are_read() {
    let dir = tempfile::tempdir().expect("a folder");
    let m = mounted(dir.path());
    let (files, problems) = names(dir.path(), &[&dir.path().join("none"), &m.join("README.md")]);
    assert_eq!(files, ["m/README.md"]);
    assert_eq!(problems, ["none: this does not exist"]);
}

#[test]
fn r29_what_cannot_be_read_is_an_error() {
    let dir = tempfile::tempdir().expect("a folder");
    let m = mounted(dir.path());
    symlink("sub", m.join("sub")).expect("linked");
    let (files, problems) = names(dir.path(), &[&m]);
    assert_eq!(problems, ["m/sub: this cannot be read"]);
    assert_eq!(files.len(), 3);
}

#[test]
fn a_folder_that_is_given_twice_is_read_once() {
    let dir = tempfile::tempdir().expect("a folder");
    let m = mounted(dir.path());
    fs::create_dir(m.join("sub")).expect("made");
    fs::write(m.join("sub/p4.json"), "{}").expect("written");
    let arguments = [m.join("sub"), m.clone(), m.clone()];
    let gathered = gather(&arguments, &mut std::io::empty());
    assert_eq!(gathered.files.len(), 4);
    assert!(gathered.folders.iter().all(|folder| gathered.files.iter().any(|file| folder.holds(file))));
}
