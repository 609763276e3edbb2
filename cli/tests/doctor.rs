//! `pagewise doctor`: says what is off and what to type.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;

use common::{output, pagewise, read_json, text};

#[test]
fn a_machine_on_which_everything_is_off() {
    let root = tempfile::tempdir().unwrap();
    let write = |path: &str, content: &str| {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    };
    write(
        "sys/kernel/mm/transparent_hugepage/enabled",
        "always madvise [never]\n",
    );
    write("proc/sys/vm/max_map_count", "100\n");
    write("proc/sys/vm/overcommit_memory", "2\n");
    let said = text(&output(&[
        "doctor",
        "--all",
        "--root",
        root.path().to_str().unwrap(),
    ]));
    for command in [
        "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled",
        "sudo sysctl -w vm.max_map_count=262144",
        "sudo sysctl -w vm.overcommit_memory=0",
    ] {
        assert!(said.contains(&format!("$ {command}\n")), "{said}");
    }
    assert!(!said.contains('\u{1b}'));
}

#[test]
fn the_library_is_tried() {
    let output = output(&["doctor", "--all"]);
    let said = text(&output);
    assert!(said.lines().next().unwrap().contains("stand-in"), "{said}");
    assert!(said.starts_with("good "), "{said}");
}

#[test]
fn a_missing_library_is_bad() {
    let output = pagewise()
        .arg("doctor")
        .env("PAGEWISE_LIBRARY", "/nowhere.so")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output);
    assert!(said.starts_with("Pagewise does not work here: "), "{said}");
    assert!(said.contains("\nType: make build"), "{said}");
    let output = pagewise()
        .args(["doctor", "--all"])
        .env("PAGEWISE_LIBRARY", "/nowhere.so")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("$ make build"), "{}", text(&output));
}

#[test]
fn three_lines_say_whether_it_works_and_what_to_type() {
    let output = output(&["doctor"]);
    let said = text(&output);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 3, "{said}");
    assert!(lines[0].starts_with("Pagewise works here: "), "{said}");
    assert!(lines[0].contains("stand-in"), "{said}");
    assert!(
        lines[2].starts_with("Type: ") && lines[2].contains("doctor --all"),
        "{said}"
    );
}

/// A user's script is not to be run as root for the sake of figures.
#[test]
fn nobody_is_told_to_compare_as_root() {
    let said = text(&output(&["doctor", "--all"]));
    assert!(!said.contains("sudo pagewise"), "{said}");
}

#[test]
fn findings_as_json() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.json");
    output(&["doctor", "--json", path.to_str().unwrap()]);
    let json = read_json(&path);
    assert_eq!(json["schema"], 1);
    assert_eq!(json["works"], true);
    assert_eq!(json["summary"].as_array().unwrap().len(), 3);
    let findings = json["findings"].as_array().unwrap();
    assert!(findings.iter().any(|f| f["name"] == "PAGEMAP_SCAN"));
    assert!(findings.iter().any(|f| f["name"] == "written pages"));
    assert!(
        findings
            .iter()
            .all(|f| f["state"].is_string() && f["why"].is_string())
    );
}
