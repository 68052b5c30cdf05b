//! Targets and routes of the file.

use serde_json::{Value, json};

use crate::folder::Folder;
use crate::stores::on_each;

const ROUTES: &str = "
[target.orders]
to = 'file:orders.jsonl'

[target.mail]
to = 'file:mail.jsonl'

[[route]]
topics = 'mail.>'
target = 'mail'

[[route]]
topics = 'orders.*'
target = 'orders'
";

/// Adds routes to the folder's configuration, which keeps its store.
pub(crate) fn add_routes(folder: &Folder) {
    let file = folder.read("sendoff.toml");
    let store = file.lines().find(|line| line.starts_with("store")).unwrap();
    folder.write("sendoff.toml", format!("{store}\n{ROUTES}"));
}

pub(crate) fn send(folder: &Folder, id: &str, topic: &str, key: &str) {
    folder.run(&["send", "--topic", topic, "--key", key, "--id", id, "body"]).ok();
}

pub(crate) fn ids(folder: &Folder, file: &str) -> Vec<String> {
    let id = |line: &Value| line["id"].as_str().unwrap().to_owned();
    folder.deliveries(file).iter().map(id).collect()
}

#[test]
fn messages_go_where_their_topic_leads_and_to_quarantine_where_it_leads_nowhere() {
    on_each(|folder| {
        add_routes(folder);
        for (id, topic, key) in [
            ("1", "orders.placed", "ada"),
            ("2", "mail.a.b", "ada"),
            ("3", "orders.a.b", "ada"),
            ("4", "orders.placed", "ada"),
            ("5", "orders.placed", "ben"),
        ] {
            send(folder, id, topic, key);
        }
        let said = folder.run(&["relay", "--once", "--json"]);
        assert_eq!(said.code, 3, "{said:?}");
        let mut orders = ids(folder, "orders.jsonl");
        orders.sort();
        assert_eq!(
            (orders, ids(folder, "mail.jsonl")),
            (vec!["1".into(), "5".into()], vec!["2".into()])
        );
        let list = folder.run(&["quarantine", "list", "--json"]).ok().json();
        assert_eq!(list["messages"][0]["id"], "3");
        assert_eq!(list["messages"][0]["reason"], "no_route");
        assert_eq!(
            folder.run(&["show", "4", "--json"]).ok().json()["messages"][0]["place"],
            "held"
        );
        folder.run(&["quarantine", "discard", "--reason", "no_route"]).ok();
        folder.run(&["relay", "--once"]).ok();
        assert!(ids(folder, "orders.jsonl").contains(&"4".to_owned()));
    });
}

#[test]
fn one_target_for_everything_wins_over_the_routes_and_not_in_the_same_file() {
    let folder = Folder::with_store();
    add_routes(&folder);
    send(&folder, "1", "elsewhere", "k");
    let said = folder.run(&["relay", "--once", "--to", "file:all.jsonl"]).ok();
    assert!(said.err.contains("routes of the file are not used"), "{said:?}");
    assert_eq!(ids(&folder, "all.jsonl"), ["1"]);
    let text = folder.read("sendoff.toml");
    folder.write("sendoff.toml", format!("to = 'stdout:'\n{text}"));
    let said = folder.run(&["relay", "--once"]);
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.err.contains("sendoff.toml:1") && said.err.contains("both"), "{said:?}");
}

#[test]
fn what_is_wrong_with_targets_and_routes_is_told_with_its_line() {
    let folder = Folder::new();
    let good = "[target.a]\nto = 'stdout:'\n[[route]]\ntopics = '>'\ntarget = 'a'\n";
    for (text, line, words) in [
        (format!("{good}[target.b]\nurl = 'x'\n"), 7, "`target.b.url` is not a setting"),
        (format!("{good}[target.b]\n\n"), 6, "the target `b` has no `to`"),
        (format!("{good}[target.b.webhook]\nsecret = 'x'\n"), 7, "`target.b.webhook.secret`"),
        (format!("{good}[[route]]\ntopic = 'x'\n"), 7, "`route.topic` is not a setting"),
        (format!("{good}[[route]]\ntopics = 'x'\n"), 6, "`topics` and `target`"),
        (
            format!("{good}[[route]]\ntopics = 'a.>.b'\ntarget = 'a'\n"),
            7,
            "`>` stands for the rest",
        ),
        (
            format!("{good}[[route]]\ntopics = 'x'\ntarget = 'c'\n"),
            6,
            "the target `c`, which is not",
        ),
        (format!("{good}[[route]]\ntopics = 7.5\ntarget = 'a'\n"), 7, "of type float"),
        ("[target.a]\nto = 'stdout:'\n".to_owned(), 1, "no route leads to the target `a`"),
        ("[[route]]\ntopics = '>'\ntarget = 'a'\n".to_owned(), 1, "the target `a`, which is not"),
        ("target = 'a'\n".to_owned(), 1, "`target` is no table"),
        ("[route]\ntopics = '>'\n".to_owned(), 1, "`route` is no list of tables"),
        (
            "[target.a]\nto = 'kafka://x'\n[[route]]\ntopics = '>'\ntarget = 'a'\n".to_owned(),
            1,
            "there is no scheme",
        ),
        (
            "[target.a]\nto = 'stdout:'\nwebhook.in_flight = 'many'\n[[route]]\ntopics = '>'\n\
             target = 'a'\n"
                .to_owned(),
            3,
            "`many` is not a whole number",
        ),
    ] {
        folder.write("sendoff.toml", &text);
        let said = folder.run(&["config", "show"]);
        assert_eq!(said.code, 2, "{text}: {said:?}");
        assert!(said.err.contains(&format!("sendoff.toml:{line}")), "{text}: {said:?}");
        assert!(said.err.contains(words), "{text}: {said:?}");
    }
}

#[test]
fn targets_and_routes_are_shown_without_secrets() {
    let folder = Folder::new();
    folder.write(
        "sendoff.toml",
        "[target.partner]\nto = 'https://me:hush@partner.example/hooks'\n\
         [target.partner.webhook]\nsecrets = 'whsec_aHVzaGh1c2hodXNoaHVzaGh1c2hodXNo'\nin_flight = 3\n\
         [[route]]\ntopics = 'a.>'\ntarget = 'partner'\n",
    );
    for form in [&["config", "show"][..], &["config", "show", "--json"][..]] {
        let said = folder.run(form).ok();
        assert!(!said.out.contains("hush") && !said.out.contains("aHVz"), "{said:?}");
        assert!(said.out.contains("partner.example"), "{said:?}");
    }
    let shown = folder.run(&["config", "show", "--json"]).ok().json();
    assert_eq!(shown["targets"][0]["name"], "partner");
    assert_eq!(shown["targets"][0]["settings"]["webhook.in_flight"], "3");
    let route = json!({ "topics": "a.>", "target": "partner", "from": "sendoff.toml:6" });
    assert_eq!(shown["routes"], json!([route]));
}
