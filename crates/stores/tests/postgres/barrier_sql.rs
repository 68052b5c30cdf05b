//! Barriers from other languages: the SQL functions, the rights that they need, and what SQL and Rust
//! have to compute alike.

use sendoff_core::barrier::{
    BarrierDesk, BarrierId, Barriers, Counting, Errand, Outcome, Plan, Policy, Probe, Quota, Tally,
    Wanted, continuation_id,
};
use sendoff_core::store::{OutboxDesk, SchemaState};
use serde_json::Value;
use tokio_postgres::Client;

use crate::barrier_stage::{batch, id, plan, stage};
use crate::stage::{connect, database, open};

async fn ask(client: &Client, call: &str) -> Value {
    let text: Option<String> =
        client.query_one(&format!("SELECT ({call})::text"), &[]).await.unwrap().get(0);
    serde_json::from_str(text.as_deref().unwrap_or("null")).unwrap()
}

#[tokio::test]
async fn sql_and_rust_compute_the_same_ids() {
    let (_store, _url, client) = stage().await;
    for (tenant, name) in [("", "b"), ("t", "b"), ("", "ü ☃ \"'\\"), ("täglich", "a/b%c")] {
        for (epoch, word) in [(1_u32, "all"), (7, "deadline"), (2, "errand-ascend")] {
            let incarnation = "0190163d-8694-739b-aea5-966c26f8ad90";
            let of_sql: String = client
                .query_one(
                    "SELECT sendoff.barrier_message_id($1, $2, $3::text::uuid, $4, $5)",
                    &[&tenant, &name, &incarnation, &i32::try_from(epoch).unwrap(), &word],
                )
                .await
                .unwrap()
                .get(0);
            let barrier = BarrierId::of_tenant(tenant, name).unwrap();
            assert_eq!(of_sql, continuation_id(&barrier, incarnation, epoch, word));
        }
    }
}

#[tokio::test]
async fn sql_and_rust_watch_as_many_members() {
    let (_store, _url, client) = stage().await;
    let mut quotas = vec![Wanted::All];
    quotas.extend((1..6).map(Wanted::AtLeast));
    for wanted in quotas {
        for counting in [Counting::Resolved, Counting::Successful] {
            let quota = Quota { wanted, counting };
            let text = serde_json::to_string(&quota).unwrap();
            let rows = client
                .query(
                    "SELECT p, o, f, sendoff.barrier_watches($1::text::jsonb, p, o, f), \
                            sendoff.barrier_lacking($1::text::jsonb, p, o, f) = 0 \
                       FROM generate_series(0::bigint, 4) p, generate_series(0::bigint, 4) o, \
                            generate_series(0::bigint, 4) f",
                    &[&text],
                )
                .await
                .unwrap();
            for row in rows {
                let count = |column| u64::try_from(row.get::<_, i64>(column)).unwrap();
                let tally = Tally { pending: count(0), ok: count(1), failed: count(2) };
                assert_eq!(count(3), quota.watched(tally), "{quota:?} {tally:?}");
                assert_eq!(row.get::<_, bool>(4), quota.met(tally), "{quota:?} {tally:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_creation_by_sql_and_one_by_rust_are_of_the_same_members() {
    let (store, _url, client) = stage().await;
    let made =
        ask(&client, "sendoff.barrier_create('b', ARRAY['ä', 'b', '10'], continue_with => 'done')")
            .await;
    assert_eq!(made["existing"], false);
    let same = plan("b").members(["10", "b", "ä"]).build().unwrap();
    let created = store.create_barrier(&same).await.unwrap().unwrap();
    assert!(created.existing && !created.differs);
    let other = plan("b").members(["10", "b"]).build().unwrap();
    assert!(store.create_barrier(&other).await.unwrap().unwrap().differs);
}

#[tokio::test]
async fn the_functions_refuse_with_stable_codes_and_leave_the_transaction_as_it_was() {
    let (_store, _url, client) = stage().await;
    client.batch_execute("BEGIN").await.unwrap();
    let long = "x".repeat(9_000);
    for (call, code) in [
        ("sendoff.barrier_create('b', ARRAY['a', 'a'])".to_owned(), "duplicate_name"),
        ("sendoff.barrier_create('b', NULL::text[])".to_owned(), "invalid"),
        ("sendoff.barrier_create('', ARRAY['a'])".to_owned(), "invalid"),
        ("sendoff.barrier_create('b', ARRAY['a'], deadline => '8 days')".to_owned(), "invalid"),
        (
            "sendoff.barrier_create('b', ARRAY['a'], on_deadline => 'continue')".to_owned(),
            "invalid",
        ),
        ("sendoff.barrier_create('b', ARRAY['a'], at_least => 2)".to_owned(), "invalid"),
        ("sendoff.barrier_create('b', ARRAY['a'], '$sendoff.x')".to_owned(), "invalid"),
        ("sendoff.barrier_ack('b', 'a')".to_owned(), "not_found"),
        (format!("sendoff.barrier_ack('b', 'a', error => '{long}')"), "too_large"),
    ] {
        let said = ask(&client, &call).await;
        assert_eq!(said["refused"], code, "{call}");
        assert!(said["detail"].as_str().is_some_and(|detail| !detail.is_empty()), "{call}");
    }
    let made =
        ask(&client, "sendoff.barrier_create('b', ARRAY['a', 'b'], deadline => '1 hour')").await;
    assert_eq!(made["complete"], false);
    assert_eq!(ask(&client, "sendoff.barrier_ack('b', 'c')").await["refused"], "unknown_member");
    let first =
        ask(&client, "sendoff.barrier_ack('b', '\\x61'::bytea, result => '{\"n\": 1}')").await;
    assert_eq!(
        (&first["duplicate"], &first["complete"]),
        (&Value::Bool(false), &Value::Bool(false))
    );
    let again = ask(&client, "sendoff.barrier_ack('b', 'a', ok => false)").await;
    assert_eq!(again["conflict"], true);
    assert_eq!(again["winner"]["result"]["n"], 1);
    let last = ask(&client, "sendoff.barrier_ack('b', 'b', ok => false, error => 'no')").await;
    assert_eq!((&last["complete"], &last["remaining"]), (&Value::Bool(true), &Value::from(0)));
    client.batch_execute("COMMIT").await.unwrap();
    let status = ask(&client, "sendoff.barrier_status('b')").await;
    assert_eq!((&status["failed"], &status["state"]), (&Value::from(1), &Value::from("complete")));
    assert!(ask(&client, "sendoff.barrier_status('none')").await.is_null());
}

#[tokio::test]
async fn a_service_needs_the_functions_and_no_table() {
    let (_store, url, client) = stage().await;
    let name = url.rsplit_once('/').unwrap().1;
    let role = format!("service_{name}");
    client
        .batch_execute(&format!("CREATE ROLE {role}; GRANT USAGE ON SCHEMA sendoff TO {role}"))
        .await
        .unwrap();
    let mut service = connect(&url).await;
    service.batch_execute(&format!("SET ROLE {role}")).await.unwrap();
    let denied = service
        .query_one("SELECT sendoff.barrier_create('b', ARRAY['a'])::text", &[])
        .await
        .unwrap_err();
    assert_eq!(denied.code().unwrap().code(), "42501", "not before it was granted");
    client
        .batch_execute(&format!("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA sendoff TO {role}"))
        .await
        .unwrap();
    let barriers = Barriers::new();
    let mut transaction = service.transaction().await.unwrap();
    let asked = plan("b").members(["a", "b"]).build().unwrap();
    barriers.create(&mut transaction, &asked).await.unwrap();
    barriers.ack(&mut transaction, "b", "a", Outcome::ok()).await.unwrap();
    let near = barriers.ack(&mut transaction, "b", "B ", Outcome::ok()).await.unwrap_err();
    assert_eq!(near.refusal().unwrap().near().len(), 1);
    assert!(barriers.ack(&mut transaction, "b", "b", Outcome::ok()).await.unwrap().complete);
    assert!(barriers.status(&mut transaction, "b").await.unwrap().unwrap().complete);
    transaction.commit().await.unwrap();
    let denied = service.execute("DELETE FROM sendoff.barrier_member", &[]).await.unwrap_err();
    assert_eq!(denied.code().unwrap().code(), "42501");
    drop(service);
    client.batch_execute(&format!("DROP OWNED BY {role} CASCADE; DROP ROLE {role}")).await.unwrap();
}

#[tokio::test]
async fn a_schema_of_version_1_is_upgraded_with_what_is_in_it() {
    let url = database().await;
    let client = connect(&url).await;
    let first = include_str!("../../src/postgres/migrations/0001_outbox.sql");
    client.batch_execute(first).await.unwrap();
    client
        .batch_execute(&format!(
            "INSERT INTO sendoff.schema_version (version, checksum) VALUES (1, md5($text${first}$text$)); \
             INSERT INTO sendoff.outbox (id, source, topic) VALUES ('kept', 's', 't')"
        ))
        .await
        .unwrap();
    let store = open(&url);
    let schema = store.schema().await.unwrap();
    assert_eq!((schema.version, schema.state), (1, SchemaState::Missing));
    assert_eq!(store.migrate().await.unwrap().state, SchemaState::Current);
    let versions: Vec<i32> = client
        .query("SELECT version FROM sendoff.schema_version ORDER BY version", &[])
        .await
        .unwrap()
        .iter()
        .map(|row| row.get(0))
        .collect();
    assert_eq!(versions, [1, 2, 3]);
    assert_eq!(store.stats().await.unwrap().pending, 1);
    let asked = plan("b").members(["a"]).build().unwrap();
    store.create_barrier(&asked).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_probe_reads_with_the_roles_own_names_writes_nothing_and_does_not_stop_the_deadline() {
    let (store, _url, client) = stage().await;
    client
        .batch_execute(
            "CREATE TABLE answers (member bytea, well boolean, error text, result jsonb); \
             INSERT INTO answers VALUES ('a', true, NULL, '{\"n\": 1}'), ('b', false, 'no', NULL), \
                 ('unknown', NULL, NULL, NULL)",
        )
        .await
        .unwrap();
    let probed = |name: &str, query: &str| -> Plan {
        plan(name).members(["a", "b", "c"]).probe(Probe::Sql(query.to_owned())).build().unwrap()
    };
    store
        .create_barrier(&probed("b", "SELECT member, well, error, result FROM answers"))
        .await
        .unwrap()
        .unwrap();
    let found = store.reconcile_barrier(&id("b")).await.unwrap().unwrap();
    assert_eq!((found.resolved(), found.duplicates(), found.refused()), (2, 0, 1));
    let found = store.reconcile_barrier(&id("b")).await.unwrap().unwrap();
    assert_eq!((found.resolved(), found.duplicates()), (0, 2));
    for (name, query) in [
        ("writes", "DELETE FROM answers RETURNING member"),
        ("two", "SELECT 'a'::text; DELETE FROM answers"),
        ("number", "SELECT 1"),
        ("slow", "SELECT 'a'::text FROM pg_sleep(60)"),
        ("wrong", "SELEKT"),
    ] {
        let asked = plan(name)
            .members(["a"])
            .deadline(std::time::Duration::from_micros(1))
            .on_deadline(sendoff_core::barrier::OnDeadline::Continue)
            .probe(Probe::Sql(query.to_owned()));
        store.create_barrier(&asked.build().unwrap()).await.unwrap().unwrap();
        if name != "slow" {
            assert!(store.reconcile_barrier(&id(name)).await.is_err(), "{name}");
        }
        let incarnation = store.barrier_status(&id(name)).await.unwrap().unwrap().incarnation;
        let errand = Errand {
            tenant: String::new(),
            barrier: name.to_owned(),
            incarnation,
            epoch: 1,
            act: sendoff_core::barrier::ErrandAct::Deadline,
        };
        assert!(store.run_errand(&errand).await.unwrap(), "{name}");
        let status = store.barrier_status(&id(name)).await.unwrap().unwrap();
        assert_eq!((status.complete, status.missing), (true, 1), "{name}");
    }
    let answers: i64 = client.query_one("SELECT count(*) FROM answers", &[]).await.unwrap().get(0);
    assert_eq!(answers, 3);
}

#[tokio::test]
async fn who_holds_a_members_row_for_long_makes_others_busy_and_loses_nothing() {
    let (store, url, _client) = stage().await;
    let policy = Policy::all();
    let asked = plan("b").members(["a", "b"]).policy(policy).build().unwrap();
    store.create_barrier(&asked).await.unwrap().unwrap();
    let mut holder = connect(&url).await;
    let mut transaction = holder.transaction().await.unwrap();
    let (a, b) = ([("a".to_owned(), Outcome::ok())], [("b".to_owned(), Outcome::ok())]);
    use sendoff_core::barrier::BarrierTransaction;
    transaction.ack_members(&batch("b", &a)).await.unwrap().unwrap();
    // One of the two is watched; either way the desk's answer comes, and says the truth.
    let answer = store.ack_members(&batch("b", &b)).await.unwrap();
    let busy = answer.is_err();
    if let Err(refusal) = answer {
        assert_eq!(refusal.code(), sendoff_core::barrier::RefusalCode::Busy);
    }
    transaction.commit().await.unwrap();
    if busy {
        store.ack_members(&batch("b", &b)).await.unwrap().unwrap();
    }
    assert!(store.barrier_status(&id("b")).await.unwrap().unwrap().complete);
}
