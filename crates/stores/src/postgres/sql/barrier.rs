//! Barriers: calls of the functions that the migration makes. Each answers one column of JSON text.

use std::time::Duration;

pub(in crate::postgres) const BARRIER_INSERT: &str =
    "SELECT sendoff.barrier_insert($1, $2, $3, $4, $5, $6)";
pub(in crate::postgres) const BARRIER_RESOLVE: &str =
    "SELECT sendoff.barrier_resolve($1, $2, $3, $4, $5, $6, $7, $8)";
pub(in crate::postgres) const BARRIER_RESOLVE_ONE: &str =
    "SELECT sendoff.barrier_resolve_one($1, $2, $3, $4, $5, $6, $7)";
pub(in crate::postgres) const BARRIER_GROW: &str = "SELECT sendoff.barrier_grow($1, $2, $3, $4)";
pub(in crate::postgres) const BARRIER_SEAL: &str = "SELECT sendoff.barrier_seal($1, $2)";
pub(in crate::postgres) const BARRIER_CANCEL: &str = "SELECT sendoff.barrier_cancel($1, $2)";
pub(in crate::postgres) const BARRIER_REOPEN: &str = "SELECT sendoff.barrier_reopen($1, $2, $3)";

pub(in crate::postgres) const BARRIER_STATE: &str = "SELECT sendoff.barrier_state($1, $2)";
pub(in crate::postgres) const BARRIER_PAGE: &str =
    "SELECT sendoff.barrier_page($1, $2, $3, $4, $5)";
pub(in crate::postgres) const BARRIER_LIST: &str = "SELECT sendoff.barrier_list($1, $2, $3)";
pub(in crate::postgres) const BARRIER_REASONS: &str = "SELECT sendoff.barrier_reasons($1, $2)";
pub(in crate::postgres) const BARRIER_NAMES: &str = "SELECT json_agg(encode(n, 'hex'))::text \
      FROM sendoff.barrier_names($1, $2, $3, $4) AS n";
pub(in crate::postgres) const BARRIER_WITNESS: &str = "SELECT coalesce(nullif(sendoff.barrier_witness($1, $2, $3, $4, $5, $6, $7, $8)::text, ''), 'null')";

pub(in crate::postgres) const BARRIER_DUE: &str = "SELECT sendoff.barrier_due($1, $2, $3, $4, $5)";
pub(in crate::postgres) const BARRIER_CLOSE: &str =
    "SELECT sendoff.barrier_close($1, $2, $3)::text";
pub(in crate::postgres) const BARRIER_GIVE_UP: &str =
    "SELECT to_json(encode(sendoff.barrier_give_up($1, $2, $3, $4), 'hex'))::text";
pub(in crate::postgres) const BARRIER_CLOSED: &str = "SELECT sendoff.barrier_closed($1, $2)::text";
pub(in crate::postgres) const BARRIER_FINDINGS: &str =
    "SELECT coalesce(json_agg(f), '[]')::text FROM sendoff.barrier_findings($1, $2) AS f";
pub(in crate::postgres) const BARRIER_MEND: &str = "SELECT to_json(sendoff.barrier_mend($1))::text";
pub(in crate::postgres) const BARRIER_SWEEP: &str = "SELECT sendoff.barrier_sweep($1)::text";

/// Which barrier an id means now, with its probe.
pub(in crate::postgres) const BARRIER_WHICH: &str = "SELECT (SELECT json_build_object( \
        'incarnation', b.incarnation, 'epoch', b.epoch, 'probe', b.probe)::text \
      FROM sendoff.barrier b WHERE b.tenant = $1 AND b.id = $2 AND NOT b.gone)";

/// Sets a probe's transaction up: names mean what they mean to the role that runs it.
pub(in crate::postgres) fn probe_session(timeout: Option<Duration>) -> String {
    let bound = timeout.map_or_else(String::new, |timeout| {
        format!("; SET LOCAL statement_timeout = {}", timeout.as_millis())
    });
    format!("SET TRANSACTION READ ONLY; SET LOCAL search_path TO DEFAULT{bound}; SELECT 1")
}
