//! `verify`: it has to be able to say no.

use serde_json::Value;

use crate::folder::Folder;
use crate::http::request;
use crate::up::Up;

const FILE: &str = "sendoff-data/delivered.jsonl";

/// A folder with orders 1 to 4 of one customer, all delivered.
fn with_four_orders() -> (Folder, Vec<String>) {
    let folder = Folder::new();
    let up = Up::start(&folder, &["--port", "0", "--rate", "0"]);
    for _ in 0..4 {
        assert_eq!(request(up.port(), "POST", "/orders", br#"{"customer":"ada"}"#).0, 201);
    }
    up.stop();
    let lines: Vec<String> = folder.read(FILE).lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 4);
    (folder, lines)
}

fn verify(folder: &Folder, lines: &[&str]) -> (i32, Value) {
    folder.write(FILE, lines.iter().map(|line| format!("{line}\n")).collect::<String>());
    let said = folder.run(&["verify", "--json"]);
    (said.code, said.json())
}

#[test]
fn each_way_to_break_the_promise_is_seen() {
    let (folder, lines) = with_four_orders();
    let [a, b, c, d] = [&lines[0], &lines[1], &lines[2], &lines[3]].map(String::as_str);
    let (code, fine) = verify(&folder, &[a, b, c, d]);
    assert_eq!((code, &fine["ok"]), (0, &Value::from(true)), "{fine}");

    let stranger = a.replacen("\"id\":\"", "\"id\":\"x", 1);
    let altered = a.replace("ada", "eve");
    for (broken, delivered) in [
        ("lost", vec![a, b, d]),
        ("unknown", vec![a, b, c, d, &stranger]),
        ("out_of_order", vec![a, c, b, d]),
        ("altered", vec![&altered, b, c, d]),
        ("unreadable", vec![a, b, "no delivery", c, d]),
    ] {
        let (code, verdict) = verify(&folder, &delivered);
        assert_eq!((code, &verdict["ok"]), (7, &Value::from(false)), "{broken}: {verdict}");
        assert_eq!(verdict[broken], 1, "{broken}: {verdict}");
    }
    let said = folder.run(&["verify"]);
    assert_eq!(said.code, 7);
    assert!(said.out.contains("BROKEN"), "{said:?}");
}

#[test]
fn duplicates_are_told_and_are_no_reason_to_fail() {
    let (folder, lines) = with_four_orders();
    let [a, b, c, d] = [&lines[0], &lines[1], &lines[2], &lines[3]].map(String::as_str);
    let (code, verdict) = verify(&folder, &[a, b, c, b, c, d]);
    assert_eq!((code, &verdict["duplicates"]), (0, &Value::from(2)), "{verdict}");
    let said = folder.run(&["verify"]).ok();
    assert!(said.out.contains("duplicates               2"), "{}", said.out);
}

#[test]
fn a_torn_last_line_is_no_delivery() {
    let (folder, lines) = with_four_orders();
    let mut text = lines.iter().map(|line| format!("{line}\n")).collect::<String>();
    text.truncate(text.len() - 1);
    folder.write(FILE, &text);
    let said = folder.run(&["verify", "--json"]);
    assert_eq!(said.code, 7, "a line that was never confirmed does not count as delivered");
    assert_eq!(said.json()["lost"], 1);
    assert!(said.json()["torn_bytes"].as_u64().unwrap() > 0);
}

#[test]
fn a_folder_that_up_has_not_written_is_told() {
    let folder = Folder::new();
    let said = folder.run(&["verify", "--json"]);
    assert_eq!(said.code, 6);
    assert!(said.error()["next"].as_str().unwrap().contains("sendoff up"), "{said:?}");
    assert!(!folder.path("sendoff-data").exists());
}
