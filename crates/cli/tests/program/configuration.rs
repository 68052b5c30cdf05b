//! Flags, environment, file, defaults.

use serde_json::Value;

use crate::folder::Folder;

fn setting(shown: &Value, key: &str) -> (String, String) {
    let settings = shown["settings"].as_array().unwrap();
    let setting = settings.iter().find(|s| s["key"] == key).unwrap();
    let text = |name: &str| setting[name].as_str().unwrap_or("-").to_owned();
    (text("value"), text("from"))
}

#[test]
fn a_flag_wins_over_the_environment_the_environment_over_the_file_the_file_over_the_default() {
    let folder = Folder::new();
    let show = ["config", "show", "--json"];
    let shown = folder.run(&show).ok().json();
    assert_eq!(setting(&shown, "log.level"), ("info".into(), "default".into()));

    folder.write("sendoff.toml", "store = 'sqlite:file.db'\n[log]\nlevel = 'warn'\n");
    let shown = folder.run(&show).ok().json();
    assert_eq!(setting(&shown, "log.level"), ("warn".into(), "sendoff.toml:3".into()));

    let environment = [("SENDOFF_LOG_LEVEL", "debug"), ("SENDOFF_STORE", "sqlite:env.db")];
    let shown = folder.run_with(&show, &environment).ok().json();
    assert_eq!(setting(&shown, "log.level"), ("debug".into(), "SENDOFF_LOG_LEVEL".into()));
    assert_eq!(setting(&shown, "store"), ("sqlite:env.db".into(), "SENDOFF_STORE".into()));

    let flags = ["config", "show", "--json", "--log-level", "error", "--store", "sqlite:flag.db"];
    let shown = folder.run_with(&flags, &environment).ok().json();
    assert_eq!(setting(&shown, "log.level"), ("error".into(), "--log-level".into()));
    assert_eq!(setting(&shown, "store"), ("sqlite:flag.db".into(), "--store".into()));
}

#[test]
fn what_wins_is_what_is_used() {
    let folder = Folder::new();
    folder.write("sendoff.toml", "store = 'sqlite:file.db'\nsource = 'file'\n");
    let environment = [("SENDOFF_STORE", "sqlite:env.db")];
    folder.run_with(&["migrate"], &environment).ok();
    assert!(folder.path("env.db").exists() && !folder.path("file.db").exists());
    let send = ["send", "--topic", "t", "body", "--json"];
    let sent = folder.run_with(&send, &environment).ok().json();
    assert_eq!(sent["source"], "file");
}

#[test]
fn an_unknown_key_a_bad_value_and_a_syntax_error_name_the_file_and_the_line() {
    let folder = Folder::new();
    for (text, line, words) in [
        ("# one\nstroe = 'sqlite:a.db'\n", 2, "`stroe` is not a setting"),
        ("[relay]\n\nleese = '1s'\n", 3, "`relay.leese` is not a setting"),
        ("[relay]\nlease = '10'\n", 2, "`10` is not a duration"),
        ("store = 'sqlite:a.db\n", 1, "not TOML"),
        ("source = 7.5\n", 1, "of type float"),
    ] {
        folder.write("sendoff.toml", text);
        let said = folder.run(&["config", "show"]);
        assert_eq!(said.code, 2, "{said:?}");
        assert!(said.err.contains(&format!("sendoff.toml:{line}")), "{said:?}");
        assert!(said.err.contains(words), "{said:?}");
    }
}

#[test]
fn a_file_that_was_named_has_to_be_there() {
    let folder = Folder::new();
    let said = folder.run(&["config", "show", "--config", "other.toml"]);
    assert_eq!(said.code, 2);
    assert!(said.err.contains("other.toml"), "{said:?}");
    let said = folder.run_with(&["config", "show"], &[("SENDOFF_CONFIG", "third.toml")]);
    assert_eq!(said.code, 2);
    assert!(said.err.contains("third.toml"), "{said:?}");
}

#[test]
fn a_bad_variable_is_named_and_a_stray_one_is_told() {
    let folder = Folder::new();
    let said = folder.run_with(&["config", "show"], &[("SENDOFF_RELAY_LEASE", "long")]);
    assert_eq!(said.code, 2);
    assert!(said.err.contains("SENDOFF_RELAY_LEASE"), "{said:?}");
    let said = folder.run_with(&["config", "show"], &[("SENDOFF_STROE", "x")]).ok();
    assert!(said.out.contains("ignored: SENDOFF_STROE"), "{said:?}");
}

#[test]
fn passwords_are_masked_wherever_the_configuration_is_shown() {
    let folder = Folder::new();
    folder
        .write("sendoff.toml", "store = 'postgres://u:hush@h/d'\nto = 'nats://me:hush@h:4222/S'\n");
    for arguments in [vec!["config", "show"], vec!["config", "show", "--json"]] {
        let said = folder.run(&arguments).ok();
        assert!(said.out.contains("postgres://u:***@h/d"), "{said:?}");
        assert!(said.out.contains("nats://me:***@h:4222/S"), "{said:?}");
        assert!(!format!("{said:?}").contains("hush"), "{said:?}");
    }
}
