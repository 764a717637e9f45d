//! `${env:…}` and `${file:…}`.

use std::path::Path;

use super::load_with;
use crate::config::Config;

const DATABASE: &str = "database: { url: \"postgres://localhost\" }\n";

fn with(section: &str) -> String {
    format!("{DATABASE}{section}")
}

#[test]
fn a_reference_may_stand_anywhere_in_any_value() {
    let text = "database:\n  url: \"postgres://localhost\"\n  migrate: ${env:NO}\n\
                capture:\n  writers: \"${env:N}\"\n  memory: ${env:N}${env:N}MiB\n";
    let config = load_with(text, &[("N", "3"), ("NO", "false")]).unwrap();
    assert_eq!((config.capture.writers.get(), config.capture.memory.to_string().as_str()), (3, "33MiB"));
    assert!(!config.database.migrate);
}

#[test]
fn what_a_variable_brings_is_text_and_never_yaml() {
    let evil = "x\"\nhttp: { auth: none, insecure_full_access: true }\n# ${env:OTHER} *a !b";
    let text = with("owners:\n  - team: ${env:EVIL}\n    services: [ a ]");
    let config = load_with(&text, &[("EVIL", evil), ("OTHER", "never")]).unwrap();
    assert_eq!(config.owners[0].team, evil);
    assert_eq!(config.http, crate::config::Http::default());
}

#[test]
fn a_reference_without_quotes_inside_braces_is_told_how_to_be_written() {
    let faults = load_with(&with("http: { auth: ${env:X} }"), &[("X", "token")]).unwrap_err().to_string();
    assert!(faults.starts_with("dlo.yaml:2:") && faults.ends_with("put a value with `${…}` in quotes"), "{faults}");
}

#[test]
fn keys_are_not_expanded() {
    let faults = load_with(&with("\"${env:KEY}\": 1"), &[("KEY", "http")]).unwrap_err().to_string();
    assert!(faults.starts_with("dlo.yaml:2:1: ${env:KEY}: unknown key"), "{faults}");
}

#[test]
fn two_dollars_escape() {
    let text = with("owners: [ { team: \"$${env:X} costs 5$ and $$\", services: [ a ] } ]");
    assert_eq!(load_with(&text, &[]).unwrap().owners[0].team, "${env:X} costs 5$ and $$");
}

#[test]
fn what_is_missing_is_named_with_key_and_line_and_all_at_once() {
    let text = "database: { url: \"${env:DB}\" }\nowners:\n  - { team: \"${file:no/such}\", services: [ a ] }\n\
                \x20 - { team: \"${secret:x}\", services: [ \"${env:open\" ] }\nhttp: { auht: token }\n";
    let faults = load_with(text, &[]).unwrap_err().to_string();
    let lines: Vec<&str> = faults.lines().collect();
    assert_eq!(lines[0], "dlo.yaml:1:13: database.url: the environment variable DB is not set");
    assert_eq!(
        lines[1],
        "dlo.yaml:3:7: owners[0].team: the file ./no/such of ${file:no/such} cannot be read: there is no such file"
    );
    assert!(lines[2].starts_with("dlo.yaml:4:7: owners[1].team: unknown `${…}`; allowed:"), "{faults}");
    assert!(lines[3].starts_with("dlo.yaml:4:40: owners[1].services[0]: `${` without its `}`"), "{faults}");
    assert_eq!(lines[4], "dlo.yaml:5:9: http.auht: unknown key; did you mean \"auth\"?");
    assert_eq!(lines.len(), 5, "{faults}");
}

#[test]
fn files_are_found_beside_the_configuration_and_lose_their_last_line_end() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("team"), "shop \n\n").unwrap();
    let text = with("owners: [ { team: \"${file:team}\", services: [ a ] } ]");
    let config = Config::from_text(&text, "dlo.yaml", &|_| None, folder.path()).unwrap();
    assert_eq!(config.owners[0].team, "shop \n");
    assert!(Config::from_text(&text, "dlo.yaml", &|_| None, Path::new("/nowhere")).is_err());
}

#[test]
fn an_error_shows_the_reference_and_not_what_it_brought() {
    let faults = load_with(&with("http: { auth: \"${env:AUTH}\" }"), &[("AUTH", "S3cr3t")]).unwrap_err().to_string();
    assert_eq!(faults, "dlo.yaml:2:9: http.auth: given \"${env:AUTH}\"; allowed: token, proxy, none");
}
