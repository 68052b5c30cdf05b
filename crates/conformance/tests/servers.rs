//! The private servers do what the tests that stand on them believe.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sendoff_conformance::servers::{Nats, NatsConfig, Postgres, PostgresConfig, Proxy};

fn until(what: &str, condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < Duration::from_secs(20), "waited for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_private_postgres_keeps_what_committed_through_both_kinds_of_crash() {
    let mut postgres = Postgres::start().unwrap();
    let url = postgres.create_database("a \"b\"").unwrap();
    assert!(url.starts_with("postgres://postgres@127.0.0.1:"), "{url}");
    assert_eq!(postgres.execute("postgres", "SHOW fsync").unwrap().trim(), "on");
    postgres.execute("postgres", "CREATE TABLE t (n int); INSERT INTO t VALUES (1)").unwrap();
    postgres.kill().unwrap();
    assert!(postgres.execute("postgres", "SELECT 1").is_err());
    postgres.restart().unwrap();
    postgres.execute("postgres", "INSERT INTO t VALUES (2)").unwrap();
    postgres.kill_hard().unwrap();
    postgres.restart().unwrap();
    let sum = postgres.execute("postgres", "SELECT sum(n) FROM t").unwrap();
    assert_eq!(sum.trim(), "3");
    let data = postgres.data();
    let port = postgres.port();
    drop(postgres);
    assert!(!data.exists());
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
}

#[test]
fn settings_of_a_private_postgres_are_applied() {
    let postgres = Postgres::start_with(PostgresConfig {
        fsync: false,
        settings: vec![("work_mem".to_owned(), "5MB".to_owned())],
        ..PostgresConfig::default()
    })
    .unwrap();
    let shown = |name: &str| postgres.execute("postgres", &format!("SHOW {name}")).unwrap();
    assert_eq!(shown("fsync").trim(), "off");
    assert_eq!(shown("work_mem").trim(), "5MB");
}

#[test]
fn a_paused_postgres_says_nothing_until_it_goes_on() {
    let postgres = Postgres::start().unwrap();
    postgres.pause().unwrap();
    let mut asking = Command::new("sh")
        .args(["-c", "psql \"$0\" -qtAc 'SELECT 41 + 1'", &postgres.url()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // The one fixed wait here: that nothing happens cannot be waited for.
    std::thread::sleep(Duration::from_millis(300));
    assert!(asking.try_wait().unwrap().is_none());
    postgres.resume().unwrap();
    let output = asking.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "42");
}

fn greeting(port: u16) -> std::io::Result<String> {
    let stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_millis(300)))?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    Ok(line)
}

#[test]
fn a_private_nats_comes_back_on_its_port_and_can_be_paused() {
    let mut nats =
        Nats::start_with(NatsConfig { lines: vec!["max_payload: 2MB".to_owned()] }).unwrap();
    let port = nats.port();
    assert!(greeting(port).unwrap().contains("\"max_payload\":2097152"));
    nats.kill().unwrap();
    assert!(greeting(port).is_err());
    nats.restart().unwrap();
    assert_eq!(nats.url(), format!("nats://127.0.0.1:{port}"));
    assert!(greeting(port).unwrap().contains("\"jetstream\":true"));
    nats.pause().unwrap();
    assert!(greeting(port).is_err());
    nats.resume().unwrap();
    assert!(greeting(port).unwrap().starts_with("INFO"));
    drop(nats);
    assert!(greeting(port).is_err());
}

fn program(arguments: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_sendoff-servers"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Reads the two `export` lines and gives the port of each server.
fn exported_ports(child: &mut Child) -> Vec<u16> {
    let out = BufReader::new(child.stdout.take().unwrap());
    let lines: Vec<String> = out.lines().take(2).map(Result::unwrap).collect();
    assert!(lines[0].starts_with("export SENDOFF_TEST_POSTGRES_URL='postgres://"));
    assert!(lines[1].starts_with("export SENDOFF_TEST_NATS_URL='nats://"));
    lines
        .iter()
        .map(|line| {
            let digits = line.rsplit(':').next().unwrap();
            let digits: String = digits.chars().take_while(char::is_ascii_digit).collect();
            digits.parse().unwrap()
        })
        .collect()
}

fn listens(port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).is_ok()
}

#[test]
fn the_program_serves_until_its_input_ends() {
    let mut child = program(&[]);
    let ports = exported_ports(&mut child);
    assert!(ports.iter().all(|port| listens(*port)));
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    assert!(!ports.iter().any(|port| listens(*port)));
}

#[test]
fn servers_stop_and_their_folders_go_when_the_program_is_killed() {
    let mut child = program(&[]);
    let ports = exported_ports(&mut child);
    let folder_of = |pid: u32| {
        let list = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
        list.split_whitespace()
            .filter_map(|child| std::fs::read_to_string(format!("/proc/{child}/cmdline")).ok())
            .filter_map(|line| Some(line.split_once("sendoff-servers-guard\0")?.1.to_owned()))
            .map(|path| path.trim_end_matches('\0').to_owned())
            .collect::<Vec<_>>()
    };
    let folders = folder_of(child.id());
    // The new cluster that is copied, PostgreSQL's and NATS's.
    assert_eq!(folders.len(), 3);
    assert!(folders.iter().all(|folder| Path::new(folder).is_dir()));
    child.kill().unwrap();
    child.wait().unwrap();
    until("the servers to stop", || !ports.iter().any(|port| listens(*port)));
    until("the folders to go", || !folders.iter().any(|folder| Path::new(folder).exists()));
}

#[test]
fn the_program_runs_a_command_with_the_servers_and_ends_with_its_code() {
    let child = program(&[
        "sh",
        "-c",
        "psql \"$SENDOFF_TEST_POSTGRES_URL\" -qtAc 'SELECT 7' && echo \"$SENDOFF_TEST_NATS_URL\"; exit 3",
    ]);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let (seven, nats) = said.trim().split_once('\n').unwrap();
    assert_eq!(seven, "7");
    assert!(!listens(nats.rsplit(':').next().unwrap().parse().unwrap()));
    assert_eq!(output.status.code(), Some(3));
}

/// A server that sends back what it gets.
fn echo() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                let mut buffer = [0; 64];
                while let Ok(length @ 1..) = stream.read(&mut buffer) {
                    stream.write_all(&buffer[..length]).unwrap();
                }
            });
        }
    });
    port
}

fn ask(stream: &mut TcpStream, wait: Duration) -> std::io::Result<[u8; 4]> {
    stream.set_read_timeout(Some(wait))?;
    stream.write_all(b"ping")?;
    let mut answer = [0; 4];
    stream.read_exact(&mut answer)?;
    Ok(answer)
}

#[test]
fn the_proxy_forwards_delays_stalls_cuts_and_refuses() {
    const LONG: Duration = Duration::from_secs(20);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let proxy = runtime.block_on(Proxy::to_port(echo())).unwrap();
    let connect = || TcpStream::connect(proxy.address()).unwrap();
    let mut stream = connect();
    assert_eq!(&ask(&mut stream, LONG).unwrap(), b"ping");

    proxy.delay(Duration::from_millis(50));
    let begun = Instant::now();
    ask(&mut stream, LONG).unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(100), "both directions");
    proxy.delay(Duration::ZERO);

    proxy.stall();
    let silent = ask(&mut stream, Duration::from_millis(200)).unwrap_err();
    assert_eq!(silent.kind(), std::io::ErrorKind::WouldBlock);
    proxy.resume();
    let mut answer = [0; 4];
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"ping", "what came in during a stall is forwarded");

    proxy.cut();
    assert!(ask(&mut stream, LONG).is_err());
    assert!(ask(&mut connect(), LONG).is_ok());

    proxy.refuse();
    assert!(ask(&mut connect(), LONG).is_err());
    proxy.resume();
    assert!(ask(&mut connect(), LONG).is_ok());
}
