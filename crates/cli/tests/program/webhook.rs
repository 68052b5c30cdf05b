//! The relay with a webhook for its target, and what is shown of its secrets.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;

use crate::folder::Folder;

const SECRET: &str = "whsec_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0";

/// A server that answers every request with a status, and gives the first one's head and body.
fn receive(status: &'static str) -> (u16, std::thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let thread = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(stream);
        let mut request = String::new();
        let mut length = 0;
        while !request.ends_with("\r\n\r\n") {
            let from = request.len();
            assert!(reader.read_line(&mut request).unwrap() > 0);
            if let Some(value) = request[from..].strip_prefix("content-length: ") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let answer = format!("HTTP/1.1 {status}\r\nconnection: close\r\n\r\n");
        reader.get_mut().write_all(answer.as_bytes()).unwrap();
        request + std::str::from_utf8(&body).unwrap()
    });
    (port, thread)
}

#[test]
fn a_message_is_posted_with_a_signature() {
    let folder = Folder::with_store();
    let (port, received) = receive("204 No Content");
    let send = ["send", "--topic", "t", "--source", "shop", "--id", "1", "the body"];
    folder.run(&send).ok();
    let to = format!("http://me:secret@127.0.0.1:{port}/hooks?secret");
    let variables = [("SENDOFF_WEBHOOK_SECRETS", SECRET)];
    let said = folder.run_with(&["relay", "--once", "--to", &to], &variables).ok();
    assert!(!format!("{said:?}").contains("secret"), "{said:?}");
    let request = received.join().unwrap();
    assert!(request.starts_with("POST /hooks?secret HTTP/1.1\r\n"), "{request}");
    assert!(request.contains("webhook-id: shop/1\r\n"), "{request}");
    assert!(request.contains("webhook-signature: v1,"), "{request}");
    assert!(request.ends_with("\r\n\r\nthe body"), "{request}");
}

#[test]
fn what_the_receiver_will_not_take_is_set_aside_with_its_status() {
    let folder = Folder::with_store();
    let (port, received) = receive("422 Unprocessable Entity");
    folder.run(&["send", "--topic", "t", "--id", "1", "the body"]).ok();
    let to = format!("http://127.0.0.1:{port}/");
    let said = folder.run(&["relay", "--once", "--to", &to]);
    assert_eq!(said.code, 3, "{said:?}");
    received.join().unwrap();
    let listed = folder.run(&["quarantine", "list"]).ok();
    assert!(format!("{listed:?}").contains("422"), "{listed:?}");
    assert!(!format!("{said:?}{listed:?}").contains("the body"), "{said:?}");
}

#[test]
fn secrets_are_shown_nowhere_not_even_malformed_ones() {
    let folder = Folder::with_store();
    folder.write(
        "sendoff.toml",
        format!("to = 'https://u:secret@h/a?secret'\n[webhook]\nsecrets = '{SECRET}'\n"),
    );
    for arguments in [vec!["config", "show"], vec!["config", "show", "--json"]] {
        let said = folder.run(&arguments).ok();
        assert!(said.out.contains("https://h/a?***"), "{said:?}");
        assert!(!said.out.contains("secret@") && !said.out.contains("whsec_"), "{said:?}");
    }
    for bad in ["c2VjcmV0", "whsec_c2VjcmV0", "whsec_c2VjcmV0!"] {
        let variables = [("SENDOFF_WEBHOOK_SECRETS", bad)];
        let said = folder.run_with(&["config", "show"], &variables);
        assert_eq!(said.code, 2, "{said:?}");
        assert!(said.err.contains("SENDOFF_WEBHOOK_SECRETS"), "{said:?}");
        assert!(!said.err.contains("c2VjcmV0"), "{said:?}");
    }
}
