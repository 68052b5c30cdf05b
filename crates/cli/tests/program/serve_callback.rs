//! Partners' callbacks: tokens, and what they are not good for.

use serde_json::{Value, json};

use crate::folder::Folder;
use crate::http::{Answer, request_with};
use crate::serve::{SECRET, Server, is_problem};
use crate::stores::on_each;

fn call(server: &Server, path: &str, body: &str) -> Answer {
    request_with(server.port, "POST", path, "", body.as_bytes())
}

fn forbidden(server: &Server, path: &str) {
    let answer = call(server, path, "");
    is_problem(&answer, "forbidden");
    // The same words whatever is wrong, and nothing of the token.
    assert_eq!(answer.value["detail"], "the token is not good for this");
}

/// The paths of the tokens in an answer, by member.
fn paths(tokens: &Value) -> Vec<String> {
    let tokens = tokens.as_array().unwrap_or_else(|| panic!("{tokens}"));
    tokens.iter().map(|token| token["path"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_partner_acknowledges_its_member_with_its_token_and_no_account() {
    on_each(|folder| {
        let server = Server::start(folder, &["--log-level", "trace"]);
        let asked =
            r#"{"id":"b 1","members":["a","d/e",{"base64":"/w=="}],"callbacks_expire_s":60}"#;
        let created = server.ok("POST", "/v1/barriers", asked, 201);
        let paths = paths(&created["callbacks"]);
        assert_eq!(paths.len(), 3);

        let first = call(&server, &paths[0], "");
        assert_eq!(
            (first.status, &first.value),
            (200, &json!({"duplicate":false,"conflict":false}))
        );
        let again = call(&server, &paths[0], r#"{"ok":false}"#);
        assert_eq!(again.value, json!({"duplicate":true,"conflict":true}));
        let second = call(&server, &paths[1], r#"{"ok":false,"error":"torn","result":[1]}"#);
        assert_eq!(second.value["duplicate"], false);
        assert_eq!(call(&server, &paths[2], "{}").status, 200);
        let status = server.ok("GET", "/v1/barriers/b%201", "", 200);
        assert_eq!((&status["complete"], &status["failed"]), (&json!(true), &json!(1)));
        let results = server.ok("GET", "/v1/barriers/b%201/results?failures", "", 200);
        let failure = &results["members"][0];
        assert_eq!((&failure["error"], &failure["channel"]), (&json!("torn"), &json!("callback")));

        let tokens: Vec<&str> =
            paths.iter().map(|path| path.split_once("token=").unwrap().1).collect();
        let log = server.stop();
        assert!(tokens.iter().all(|token| !log.contains(token)), "{log}");
    });
}

#[test]
fn a_token_is_good_for_nothing_else() {
    on_each(|folder| {
        let server = Server::start(folder, &[]);
        for id in ["b", "c"] {
            let asked = format!(r#"{{"id":"{id}","members":["a","x"]}}"#);
            server.ok("POST", "/v1/barriers", &asked, 201);
        }
        let made = |body: &str| server.ok("POST", "/v1/barriers/b/tokens", body, 200);
        let token = |body: &str| {
            let made = made(body);
            made["tokens"][0]["token"].as_str().unwrap().to_owned()
        };
        let good = token(r#"{"members":["a"]}"#);
        for path in [
            format!("/v1/callbacks/b/x?token={good}"),
            format!("/v1/callbacks/c/a?token={good}"),
            format!("/v1/callbacks/other/a?token={good}"),
            format!("/v1/callbacks/b/A?token={good}"),
            format!("/v1/callbacks/b/a?token={}", &good[1..]),
            format!("/v1/callbacks/b/a?token={good}A"),
            "/v1/callbacks/b/a?token=".to_owned(),
            "/v1/callbacks/b/a?token=%FF".to_owned(),
            format!("/v1/callbacks/%FF/a?token={good}"),
            format!("/v1/callbacks/b/a?token={}", token(r#"{"members":["a"],"expires_s":0}"#)),
        ] {
            forbidden(&server, &path);
        }
        is_problem(&call(&server, "/v1/callbacks/b/a", ""), "unauthorized");
        // A token is no account.
        let bearer = format!("authorization: Bearer {good}\r\n");
        let answer = request_with(server.port, "GET", "/v1/barriers/b", &bearer, b"");
        is_problem(&answer, "unauthorized");
        // A name that is not on the list, with a good token: near misses are nobody's business.
        let foreign = token(r#"{"members":["A"]}"#);
        let answer = call(&server, &format!("/v1/callbacks/b/A?token={foreign}"), "");
        is_problem(&answer, "unknown_member");
        assert!(answer.value["near"].is_null(), "{}", answer.value);
        assert_eq!(server.ok("GET", "/v1/barriers/b", "", 200)["resolved"], 0);

        // A larger body than an outcome ever needs.
        let path = format!("/v1/callbacks/b/a?token={good}");
        is_problem(&call(&server, &path, &" ".repeat(70_000)), "too_large");
        is_problem(&call(&server, &path, "{"), "invalid");
        assert_eq!(call(&server, &path, "").status, 200);
        server.stop();
    });
}

#[test]
fn a_token_of_an_earlier_epoch_is_over_when_the_barrier_is_reopened() {
    on_each(|folder| {
        let server = Server::start(folder, &[]);
        let asked = r#"{"id":"b","members":["a"],"callbacks_expire_s":600}"#;
        let first = paths(&server.ok("POST", "/v1/barriers", asked, 201)["callbacks"]).remove(0);
        assert_eq!(call(&server, &first, r#"{"ok":false}"#).status, 200);
        folder.barrier(&["reopen", "b"]).ok();
        forbidden(&server, &first);
        let made = server.ok("POST", "/v1/barriers/b/tokens", r#"{"members":["a"]}"#, 200);
        assert_eq!(made["epoch"], 2);
        let second = paths(&made["tokens"]).remove(0);
        assert_eq!(call(&server, &second, "").value["duplicate"], false);
        // The new one was good: the barrier is complete, and a late one is no token's fault.
        assert_eq!(call(&server, &second, "").value["duplicate"], true);
        server.stop();
    });
}

#[test]
fn the_command_line_makes_tokens_with_the_same_secret() {
    on_each(|folder| {
        folder.create("b", &["a b", "c"], &[]);
        let error = folder.refused(&["token", "b", "c"], 2, "invalid");
        assert!(error["next"].as_str().unwrap().contains("SENDOFF_SERVE_CALLBACK_SECRET"));
        let with = [("SENDOFF_SERVE_CALLBACK_SECRET", SECRET)];
        let made = folder.run_with(&["barrier", "token", "b", "a b", "c", "--json"], &with).ok();
        let paths = paths(&made.json()["tokens"]);
        let base = [with[0], ("SENDOFF_SERVE_PUBLIC_URL", "https://acks.example.org/")];
        let text =
            folder.run_with(&["barrier", "token", "b", "c", "--expires", "1h"], &base).ok().out;
        assert!(text.starts_with("https://acks.example.org/v1/callbacks/b/c?token="), "{text}");

        let server = Server::start(folder, &[]);
        assert!(paths.iter().all(|path| call(&server, path, "").status == 200));
        assert_eq!(folder.state("b")["complete"], true);
        server.stop();
    });
}

#[test]
fn without_a_secret_there_are_no_callbacks() {
    let folder = Folder::with_store();
    folder.create("b", &["a"], &[]);
    let server = Server::start_with(&folder, &[], &[("SENDOFF_SERVE_TOKENS", crate::serve::TOKEN)]);
    let answer = call(&server, "/v1/callbacks/b/a?token=x", "");
    is_problem(&answer, "callbacks_off");
    server.problem("POST", "/v1/barriers/b/tokens", r#"{"members":["a"]}"#, "callbacks_off");
    server.stop();
}
