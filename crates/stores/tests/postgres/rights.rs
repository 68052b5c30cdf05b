//! What each role may do and what it is refused, statement by statement.

use sendoff_stores::postgres::Role;

const SEND: &str = "INSERT INTO sendoff.outbox (id, source, topic, key, headers, body, due_at) \
                    VALUES ('i', 's', 't', 'k', '{}', 'b', now())";
const SEND_FUNCTION: &str = "SELECT sendoff.send('t', key => 'k', body => 'b')";
const READ: &str = "SELECT id FROM sendoff.outbox";
const CREATE: &str = "SELECT sendoff.barrier_create('b', ARRAY['m'])";
const ACK: &str = "SELECT sendoff.barrier_ack('made', 'm')";
const STATUS: &str = "SELECT sendoff.barrier_status('made')";
const CANCEL: &str = "SELECT sendoff.barrier_cancel('', 'made')";
const CLOSE: &str = "SELECT sendoff.barrier_close(1, 1, 'deadline')";
const LIST: &str = "SELECT sendoff.barrier_list('', NULL, 10)";
const MARK: &str = "UPDATE sendoff.outbox SET retry_at = now(), held = false, holds = true, attempts = 1, \
                    quarantined_at = NULL, quarantine_reason = NULL, last_error = 'e'";
const DELETE: &str = "DELETE FROM sendoff.outbox WHERE seq = 0";
const RULE: &str = "SELECT keeps FROM sendoff.retention";
const SET_RULE: &str = "INSERT INTO sendoff.retention AS r (keeps) VALUES (true) \
                        ON CONFLICT (one) DO UPDATE SET keeps = true, keep_for = r.keep_for";
const KEEP: &str = "INSERT INTO sendoff.kept (published_at, n, seq, created_at, attempts, id, source, \
                                              topic, headers, body) \
                    VALUES (now(), 1, 1, now(), 0, 'i', 's', 't', '{}', 'b')";
const KEPT: &str = "SELECT id FROM sendoff.kept";
const RESEND: &str = "SELECT sent FROM sendoff.resend(ARRAY[now()], ARRAY[1::bigint])";
const KEEP_TURN: &str = "SELECT sendoff.keep_turn()";
const LANE: &str = "UPDATE sendoff.lane SET floor = 0";

/// What nobody may but the owner.
pub(crate) const NOBODYS: &[&str] = &[
    "CREATE TABLE sendoff.mine (x integer)",
    "CREATE FUNCTION sendoff.mine() RETURNS integer LANGUAGE sql AS 'SELECT 1'",
    "ALTER TABLE sendoff.outbox DISABLE TRIGGER outbox_record_keys",
    "ALTER TABLE sendoff.outbox ADD COLUMN x integer",
    "DROP TABLE sendoff.tally",
    "DROP SCHEMA sendoff CASCADE",
    "TRUNCATE sendoff.outbox",
    "LOCK TABLE sendoff.schema_version IN ACCESS EXCLUSIVE MODE",
    "CREATE TRIGGER t AFTER INSERT ON sendoff.outbox EXECUTE FUNCTION sendoff.record_keys()",
    "CREATE INDEX ON sendoff.outbox (topic)",
    "INSERT INTO sendoff.outbox (seq, id, source, topic) OVERRIDING SYSTEM VALUE \
     VALUES (7, 'i', 's', 't')",
    "INSERT INTO sendoff.outbox (id, source, topic, held) VALUES ('i', 's', 't', true)",
    "INSERT INTO sendoff.outbox (id, source, topic, attempts) VALUES ('i', 's', 't', 3)",
    "INSERT INTO sendoff.outbox (id, source, topic, quarantined_at) VALUES ('i', 's', 't', now())",
    "INSERT INTO sendoff.outbox (id, source, topic, created_at) VALUES ('i', 's', 't', now())",
    "UPDATE sendoff.outbox SET body = 'other'",
    "UPDATE sendoff.outbox SET topic = 'other'",
    "UPDATE sendoff.outbox SET key = 'other'",
    "UPDATE sendoff.outbox SET created_at = now()",
    "INSERT INTO sendoff.message_key (id, source, seq) VALUES ('i', 's', 1)",
    "UPDATE sendoff.message_key SET id = 'other'",
    "INSERT INTO sendoff.schema_version (version, checksum) VALUES (99, '')",
    "DELETE FROM sendoff.schema_version",
    "INSERT INTO sendoff.lane (lane) VALUES (64)",
    "DELETE FROM sendoff.lane",
    "UPDATE sendoff.barrier SET state = 'complete'",
    "DELETE FROM sendoff.barrier",
    "UPDATE sendoff.barrier_member SET ok = true",
    "INSERT INTO sendoff.barrier_member (barrier, place, name) VALUES (1, 1, 'x')",
    "DELETE FROM sendoff.barrier_evidence",
    "UPDATE sendoff.kept SET body = 'other'",
    "DELETE FROM sendoff.kept",
    "TRUNCATE sendoff.kept",
    "DROP TABLE sendoff.kept_rest",
    "DELETE FROM sendoff.kept_rest",
    "DELETE FROM sendoff.kept_partition",
    "DELETE FROM sendoff.retention",
    "INSERT INTO sendoff.resent VALUES (1)",
    "SELECT nextval('sendoff.outbox_seq_seq')",
    "SELECT setval('sendoff.outbox_seq_seq', 1)",
];

/// A role's.
pub(crate) struct Rights {
    pub(crate) role: Role,
    pub(crate) may: &'static [&'static str],
    pub(crate) may_not: &'static [&'static str],
}

pub(crate) const RIGHTS: &[Rights] = &[
    Rights {
        role: Role::Writer,
        may: &[SEND, SEND_FUNCTION],
        may_not: &[
            READ,
            "SELECT count(*) FROM sendoff.outbox",
            "SELECT id FROM sendoff.message_key",
            "SELECT version FROM sendoff.schema_version",
            "SELECT lane FROM sendoff.lane",
            "INSERT INTO sendoff.outbox (id, source, topic) VALUES ('i', 's', 't') RETURNING seq",
            "SELECT last_value FROM sendoff.outbox_seq_seq",
            "SELECT id FROM sendoff.barrier",
            CREATE,
            ACK,
            STATUS,
            CANCEL,
            CLOSE,
            LIST,
            MARK,
            DELETE,
            LANE,
            RULE,
            SET_RULE,
            KEEP,
            KEPT,
            RESEND,
            KEEP_TURN,
            "SELECT sendoff.barrier_resolve_one('', 'made', 'm', true, '{}', '', NULL)",
            "SELECT sendoff.barrier_finish(1, 'complete', 'all')",
            "SELECT sendoff.barrier_micros(now())",
        ],
    },
    Rights {
        role: Role::Acker,
        may: &[
            ACK,
            "SELECT sendoff.barrier_ack('made', 'm'::bytea)",
            STATUS,
            "SELECT sendoff.barrier_resolve_one('', 'made', 'm', true, '{}', '', NULL)",
        ],
        may_not: &[
            SEND,
            SEND_FUNCTION,
            READ,
            CREATE,
            CANCEL,
            CLOSE,
            LIST,
            MARK,
            DELETE,
            LANE,
            SET_RULE,
            KEPT,
            RESEND,
            KEEP_TURN,
            "SELECT name FROM sendoff.barrier_member",
            "SELECT sendoff.barrier_page('', 'made', 'resolved', '', 10)",
            "SELECT sendoff.barrier_state('', 'made')",
            "SELECT sendoff.barrier_reopen('', 'made', ARRAY['m'::bytea])",
        ],
    },
    Rights {
        role: Role::Coordinator,
        may: &[CREATE, ACK, STATUS, CANCEL, LIST, "SELECT incarnation FROM sendoff.barrier"],
        may_not: &[
            SEND,
            SEND_FUNCTION,
            READ,
            CLOSE,
            MARK,
            DELETE,
            LANE,
            SET_RULE,
            KEPT,
            RESEND,
            KEEP_TURN,
            "SELECT handed FROM sendoff.barrier",
            "SELECT name FROM sendoff.barrier_member",
            "SELECT sendoff.barrier_give_up(1, 1, '', 10)",
            "SELECT sendoff.barrier_sweep(10)",
        ],
    },
    Rights {
        role: Role::Relay,
        may: &[
            READ,
            MARK,
            DELETE,
            LANE,
            CLOSE,
            RULE,
            KEEP,
            KEPT,
            KEEP_TURN,
            "DELETE FROM sendoff.resent",
            "SELECT last_value FROM sendoff.outbox_seq_seq",
            "SELECT version FROM sendoff.schema_version",
            "SELECT sendoff.barrier_sweep(10)",
            "INSERT INTO sendoff.tally VALUES (1)",
            "DELETE FROM sendoff.tally",
            "UPDATE sendoff.total SET published = 0",
            "DELETE FROM sendoff.message_key",
        ],
        may_not: &[SEND, SEND_FUNCTION, CREATE, CANCEL, SET_RULE, RESEND],
    },
    Rights {
        role: Role::Operator,
        may: &[
            READ, MARK, DELETE, CREATE, ACK, CANCEL, LIST, STATUS, CLOSE, RULE, SET_RULE, KEPT,
            RESEND, KEEP_TURN,
        ],
        may_not: &[
            SEND,
            SEND_FUNCTION,
            LANE,
            KEEP,
            "DELETE FROM sendoff.resent",
            "DELETE FROM sendoff.message_key",
        ],
    },
];
