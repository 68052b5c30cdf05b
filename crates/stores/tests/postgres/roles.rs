//! Roles on a real server: what each can do, and what each is refused.

use std::time::Duration;

use sendoff_core::ErrorKind;
use sendoff_core::barrier::{BarrierDesk, BarrierId, Change, OnDeadline, Plan, PlanBuilder};
use sendoff_core::memory::MemoryPublisher;
use sendoff_core::store::doctor::Limits;
use sendoff_core::store::{
    Doctor, Grade, KeptDesk, KeptLook, KeptMark, OutboxDesk, Retention, Which,
};
use sendoff_stores::postgres::{PostgresOptions, PostgresStore, Role, Roles, SchemaName};
use tokio_postgres::Client;

use crate::rights::{NOBODYS, RIGHTS};
use crate::running::{drained, relay};
use crate::senders::send_by_every_driver;
use crate::stage::{connect, eventually, message, migrated, open};

/// Roles belong to the whole server, so the names are this test's own, and are dropped with it.
struct Granted {
    url: String,
    names: Vec<(Role, String)>,
}

impl Granted {
    async fn on(store: &PostgresStore, url: &str) -> Self {
        let mut roles = Roles::none();
        let mut names = Vec::new();
        for role in Role::ALL {
            let name = format!("{role:?} \"{:08x}\"", fastrand::u32(..));
            roles = roles.with(role, &name).unwrap();
            names.push((role, name));
        }
        // Twice: nothing changes.
        store.grant(&roles).await.unwrap();
        store.grant(&roles).await.unwrap();
        Self { url: url.to_owned(), names }
    }

    fn name(&self, role: Role) -> String {
        let (_, name) = self.names.iter().find(|(of, _)| *of == role).unwrap();
        name.clone()
    }

    fn quoted(&self, role: Role) -> String {
        format!("\"{}\"", self.name(role).replace('"', "\"\""))
    }

    /// The database, as this role.
    fn url(&self, role: Role) -> String {
        let name = self.name(role).replace(' ', "%5C%20").replace('"', "%22");
        format!("{}?options=-crole%3D{name}", self.url)
    }

    async fn drop_all(self) {
        let client = connect(&self.url).await;
        for (role, _) in &self.names {
            let name = self.quoted(*role);
            client.batch_execute(&format!("DROP OWNED BY {name}; DROP ROLE {name}")).await.unwrap();
        }
    }
}

fn plan(id: &str) -> PlanBuilder {
    Plan::builder(BarrierId::new(id).unwrap()).members(["m"])
}

async fn code(client: &Client, statement: &str) -> Option<String> {
    client.batch_execute("BEGIN").await.unwrap();
    let ran = client.batch_execute(statement).await;
    client.batch_execute("ROLLBACK").await.unwrap();
    ran.err().map(|error| error.code().map_or_else(|| error.to_string(), |c| c.code().to_owned()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_role_may_do_its_work_and_is_refused_everything_else() {
    let (store, url) = migrated().await;
    store.create_barrier(&plan("made").build().unwrap()).await.unwrap().unwrap();
    let granted = Granted::on(&store, &url).await;
    let mut faults = Vec::new();
    for rights in RIGHTS {
        let client = connect(&granted.url(rights.role)).await;
        let who: String = client.query_one("SELECT current_user::text", &[]).await.unwrap().get(0);
        assert_eq!(who, granted.name(rights.role));
        for statement in rights.may {
            if let Some(code) = code(&client, statement).await {
                faults.push(format!("{:?} is refused ({code}): {statement}", rights.role));
            }
        }
        for statement in rights.may_not.iter().chain(NOBODYS) {
            let code = code(&client, statement).await;
            if code.as_deref() != Some("42501") {
                faults.push(format!("{:?} is not refused ({code:?}): {statement}", rights.role));
            }
        }
    }
    granted.drop_all().await;
    assert!(faults.is_empty(), "{faults:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_writers_role_sends_by_every_driver_and_the_relays_role_publishes() {
    let (store, url) = migrated().await;
    let granted = Granted::on(&store, &url).await;
    let ids = send_by_every_driver(&granted.url(Role::Writer), &SchemaName::default()).await;
    let target = MemoryPublisher::new();
    let relays = relay(open(&granted.url(Role::Relay)), &target);
    drained(&store).await;
    let mut arrived = target.ids();
    arrived.sort();
    assert_eq!(arrived, ids);
    // An errand, too: a barrier that is over at its deadline.
    let deadline = Duration::from_millis(100);
    let late = plan("late").continue_with("late.done");
    let late = late.deadline(deadline).on_deadline(OnDeadline::Continue);
    store.create_barrier(&late.build().unwrap()).await.unwrap().unwrap();
    let id = BarrierId::new("late").unwrap();
    eventually("the deadline closes it", || async {
        store.barrier_status(&id).await.unwrap().unwrap().complete.then_some(())
    })
    .await;
    drained(&store).await;
    relays.stop().await;
    granted.drop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_operators_role_has_the_whole_desk_but_migrations() {
    let (store, url) = migrated().await;
    let granted = Granted::on(&store, &url).await;
    store.send_all(&[message("1", "k"), message("2", "k")]).await.unwrap();
    let set_aside = "UPDATE sendoff.outbox SET quarantined_at = now(), quarantine_reason = 'permanent' \
                      WHERE id = '1'";
    connect(&url).await.batch_execute(set_aside).await.unwrap();
    let desk = open(&granted.url(Role::Operator));
    assert_eq!(desk.stats().await.unwrap().quarantined, 1);
    assert_eq!(desk.find("1", None).await.unwrap().len(), 1);
    assert_eq!(desk.quarantined(0, 10).await.unwrap().len(), 1);
    assert_eq!(desk.requeue(&Which::All).await.unwrap().messages, 1);
    connect(&url).await.batch_execute(set_aside).await.unwrap();
    assert_eq!(desk.discard(&Which::All).await.unwrap().messages, 1);
    desk.schema().await.unwrap();
    desk.create_barrier(&plan("b").build().unwrap()).await.unwrap().unwrap();
    let id = BarrierId::new("b").unwrap();
    desk.change_barrier(&id, &Change::Cancel).await.unwrap().unwrap();
    // A writer's desk has nothing.
    let writer = open(&granted.url(Role::Writer));
    assert_eq!(writer.stats().await.unwrap_err().kind(), ErrorKind::Denied);
    // What is missing is the owner's to mend.
    connect(&url).await.batch_execute("DROP TABLE sendoff.tally").await.unwrap();
    assert_eq!(desk.migrate().await.unwrap_err().kind(), ErrorKind::Denied);
    granted.drop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_relays_role_keeps_and_the_operators_role_alone_sends_again() {
    let (store, url) = migrated().await;
    let granted = Granted::on(&store, &url).await;
    let desk = open(&granted.url(Role::Operator));
    desk.set_retention(Retention::KeepFor(Duration::from_secs(3600))).await.unwrap();
    store.send_all(&[message("1", "k"), message("2", "k")]).await.unwrap();
    let target = MemoryPublisher::new();
    let relays = relay(open(&granted.url(Role::Relay)), &target);
    drained(&store).await;
    // From a table that is read by its role, and not by its partitions' own.
    let kept = desk.kept(&KeptLook { rows_max: 10, ..KeptLook::default() }).await.unwrap();
    let marks: Vec<KeptMark> = kept.iter().map(|message| message.mark).collect();
    assert_eq!(marks.len(), 2);
    for (role, _) in &granted.names {
        let asked = open(&granted.url(*role));
        if *role == Role::Operator {
            assert_eq!(asked.resend(&marks).await.unwrap().sent, 2);
            continue;
        }
        let refused = asked.resend(&marks).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Denied, "{role:?}: {refused}");
        let refused = asked.set_retention(Retention::DeleteBehind).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Denied, "{role:?}: {refused}");
    }
    drained(&store).await;
    assert_eq!(target.ids(), ["1", "2", "1", "2"]);
    relays.stop().await;
    let kept = desk.kept(&KeptLook { rows_max: 10, ..KeptLook::default() }).await.unwrap();
    assert_eq!(kept.len(), 2, "what is sent again is not kept a second time");
    granted.drop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_examination_finds_that_each_role_has_the_rights_of_its_work() {
    let (store, url) = migrated().await;
    let granted = Granted::on(&store, &url).await;
    for (role, check, grade) in [
        (Role::Writer, "privileges-to-send", Grade::Ok),
        (Role::Writer, "privileges-to-relay", Grade::Warning),
        (Role::Relay, "privileges-to-relay", Grade::Ok),
        (Role::Relay, "privileges-to-send", Grade::Warning),
        // What only a whole examination comes to.
        (Role::Relay, "kept", Grade::Ok),
        (Role::Operator, "kept", Grade::Ok),
    ] {
        let findings = open(&granted.url(role)).examine(&Limits::default()).await;
        let found = findings.iter().find(|finding| finding.check == check);
        assert_eq!(found.map(|finding| finding.grade), Some(grade), "{role:?}: {findings:?}");
    }
    granted.drop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_may_not_grant_is_told_what_he_lacks_and_nothing_is_changed() {
    let (store, url) = migrated().await;
    let granted = Granted::on(&store, &url).await;
    let as_operator = open(&granted.url(Role::Operator));
    let roles = Roles::none().with(Role::Writer, granted.name(Role::Relay)).unwrap();
    let error = as_operator.grant(&roles).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
    let text = error.to_string();
    assert!(text.contains("belongs to") && text.contains(&granted.name(Role::Operator)), "{text}");

    // The owner without CREATEROLE grants to roles that are there, and cannot make others.
    let owner = granted.quoted(Role::Operator);
    let client = connect(&url).await;
    let give = format!(
        "ALTER SCHEMA sendoff OWNER TO {owner}; DO $$ DECLARE t regclass; f regprocedure; BEGIN \
           FOR t IN SELECT oid FROM pg_class WHERE relnamespace = 'sendoff'::regnamespace \
                     AND relkind IN ('r', 'p') LOOP EXECUTE format('ALTER TABLE %s OWNER TO {owner}', t); \
           END LOOP; \
           FOR f IN SELECT oid FROM pg_proc WHERE pronamespace = 'sendoff'::regnamespace \
           LOOP EXECUTE format('ALTER FUNCTION %s OWNER TO {owner}', f); END LOOP; END $$"
    );
    client.batch_execute(&give).await.unwrap();
    as_operator.grant(&roles).await.unwrap();
    let missing = Roles::none().with(Role::Writer, "sendoff_nobody_made_it").unwrap();
    let error = as_operator.grant(&missing).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
    assert!(error.to_string().contains("CREATEROLE"), "{error}");
    let himself = Roles::none().with(Role::Relay, granted.name(Role::Operator)).unwrap();
    assert_eq!(as_operator.grant(&himself).await.unwrap_err().kind(), ErrorKind::Invalid);

    let empty = PostgresStore::new(
        &url,
        PostgresOptions { schema: SchemaName::new("none").unwrap(), ..Default::default() },
    );
    assert_eq!(empty.unwrap().grant(&roles).await.unwrap_err().kind(), ErrorKind::SchemaMissing);
    client.batch_execute("DROP SCHEMA sendoff CASCADE").await.unwrap();
    granted.drop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fresh_schema_gives_everybody_nothing_and_every_definer_has_a_fixed_search_path() {
    let (_, url) = migrated().await;
    let client = connect(&url).await;
    let list = |sql: &'static str| {
        let client = &client;
        async move {
            let rows = client.query(sql, &[]).await.unwrap();
            rows.iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>()
        }
    };
    // 0 is PUBLIC. No list of rights means the default ones: none, but EXECUTE on functions.
    let everybodys = list(
        "SELECT p.proname || ' ' || a.privilege_type FROM pg_proc p, \
                aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a \
          WHERE p.pronamespace = 'sendoff'::regnamespace AND a.grantee = 0 \
         UNION ALL SELECT c.relname || ' ' || a.privilege_type FROM pg_class c, aclexplode(c.relacl) a \
          WHERE c.relnamespace = 'sendoff'::regnamespace AND a.grantee = 0 \
         UNION ALL SELECT n.nspname || ' ' || a.privilege_type FROM pg_namespace n, \
                aclexplode(n.nspacl) a WHERE n.nspname = 'sendoff' AND a.grantee = 0",
    )
    .await;
    assert_eq!(everybodys, ["send EXECUTE"], "and that one runs with its caller's rights");
    let send_is_definers: bool = client
        .query_one(
            "SELECT prosecdef FROM pg_proc WHERE pronamespace = 'sendoff'::regnamespace \
                AND proname = 'send'",
            &[],
        )
        .await
        .unwrap()
        .get(0);
    assert!(!send_is_definers);
    let loose = list(
        "SELECT oid::regprocedure::text FROM pg_proc WHERE pronamespace = 'sendoff'::regnamespace \
            AND prosecdef AND NOT coalesce('search_path=pg_catalog, pg_temp' = ANY (proconfig), false)",
    )
    .await;
    assert!(loose.is_empty(), "{loose:?}");
    let definers = list(
        "SELECT proname::text FROM pg_proc WHERE pronamespace = 'sendoff'::regnamespace AND prosecdef",
    )
    .await;
    assert!(definers.len() > 20, "the walk met them: {definers:?}");
}

#[test]
fn what_is_printed_is_one_transaction_and_quotes_every_name() {
    let roles = Roles::none()
        .with(Role::Writer, "a \"b\"; DROP TABLE x")
        .unwrap()
        .with(Role::Acker, "a \"b\"; DROP TABLE x")
        .unwrap();
    let text = roles.grants(&SchemaName::new("S").unwrap());
    assert!(text.starts_with("BEGIN;\n") && text.ends_with("COMMIT;\n"), "{text}");
    assert!(text.contains("ON \"S\".outbox TO \"a \"\"b\"\"; DROP TABLE x\";"), "{text}");
    assert!(!text.contains("sendoff"), "{text}");
    // Rights are taken away before any are given: the name stands for two roles.
    assert!(text.rfind("REVOKE ALL").unwrap() < text.find("GRANT").unwrap(), "{text}");
    for name in ["", "pg_read_all_data", "it's", "a$$b", "tab\t"] {
        assert!(Roles::none().with(Role::Writer, name).is_err(), "{name:?}");
    }
}
