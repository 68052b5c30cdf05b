-- The functions for every language. They take names as text (in the database's encoding, which is
-- UTF-8 mostly) or as bytea, and answer jsonb: the fields of what was done, or `refused` with a stable
-- code and a `detail`, with nothing changed and the transaction as it was.

CREATE OR REPLACE FUNCTION sendoff.barrier_time(p_micros text) RETURNS text
    LANGUAGE sql IMMUTABLE
AS $$
    SELECT to_char(timestamp '1970-01-01' + $1::bigint * interval '1 microsecond',
        'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
$$;

CREATE OR REPLACE FUNCTION sendoff.barrier_create(
    id                 text,
    members            bytea[],
    continue_with      text     DEFAULT NULL,
    state              jsonb    DEFAULT NULL,
    deadline           interval DEFAULT NULL,
    on_deadline        text     DEFAULT 'mark',
    at_least           bigint   DEFAULT NULL,
    counting           text     DEFAULT 'resolved',
    first_failure_ends boolean  DEFAULT false,
    sealed             boolean  DEFAULT true,
    strict             boolean  DEFAULT false,
    tenant             text     DEFAULT ''
) RETURNS jsonb
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    l_name   bytea;
    l_micros bigint := (extract(epoch FROM deadline) * 1000000)::bigint;
    l_said   jsonb;
    l_code   text;
    l_detail text;
BEGIN
    SELECT u.name INTO l_name FROM unnest(members) AS u(name) GROUP BY u.name HAVING count(*) > 1 LIMIT 1;
    IF FOUND THEN
        l_code := 'duplicate_name';
        l_detail := 'the name ' || encode(l_name, 'escape') || ' stands twice in the list of members';
    ELSIF members IS NULL THEN
        l_code := 'invalid';
        l_detail := 'no members were given; give an empty list to complete at once';
    ELSIF cardinality(members) > 1000000 THEN
        l_code := 'too_large';
        l_detail := cardinality(members) || ' members are over the limit of 1000000 a barrier';
    ELSIF EXISTS (SELECT FROM unnest(members) AS u(name)
                   WHERE u.name IS NULL OR octet_length(u.name) NOT BETWEEN 1 AND 1024) THEN
        l_code := 'invalid';
        l_detail := 'a member''s name has 1 to 1024 bytes';
    ELSIF id IS NULL OR octet_length(id) NOT BETWEEN 1 AND 255 OR octet_length(tenant) > 255
       OR octet_length(continue_with) NOT BETWEEN 1 AND 255
       OR id || tenant || coalesce(continue_with, '') ~ '[\x01-\x1f\x7f-\x9f]'
       OR starts_with(continue_with, '$sendoff.') THEN
        l_code := 'invalid';
        l_detail := 'id, tenant and continue_with have at most 255 bytes and no control character';
    ELSIF octet_length(state::text) > 262144 THEN
        l_code := 'too_large';
        l_detail := 'the state has more than 262144 bytes';
    ELSIF on_deadline NOT IN ('mark', 'continue') OR counting NOT IN ('resolved', 'successful')
       OR on_deadline = 'continue' AND deadline IS NULL THEN
        l_code := 'invalid';
        l_detail := 'on_deadline is mark, or continue with a deadline; counting is resolved or successful';
    ELSIF l_micros NOT BETWEEN 1 AND 601200000000 THEN
        l_code := 'invalid';
        l_detail := 'the deadline is after now, and at most 601200 s away';
    ELSIF at_least < 1 OR sealed AND cardinality(members) > 0 AND at_least > cardinality(members) THEN
        l_code := 'invalid';
        l_detail := 'at_least is 1 to the number of members';
    END IF;
    IF l_code IS NOT NULL THEN
        RETURN jsonb_build_object('refused', l_code, 'detail', l_detail);
    END IF;
    l_said := sendoff.barrier_insert(tenant, id, members, NULL, state::text, jsonb_build_object(
        'continue_with', continue_with, 'plain', at_least IS NULL AND counting = 'resolved',
        'first_failure', first_failure_ends, 'sealed', sealed, 'strict', strict,
        'deadline_us', l_micros, 'on_deadline', on_deadline,
        'policy', jsonb_build_object('first_failure_ends', first_failure_ends, 'groups',
            jsonb_build_object('', jsonb_build_object('counting', counting, 'wanted',
                CASE WHEN at_least IS NULL THEN '"all"'::jsonb
                     ELSE jsonb_build_object('at_least', at_least) END)))));
    IF l_said ? 'refused' THEN
        RETURN l_said;
    END IF;
    RETURN jsonb_build_object('id', id, 'existing', coalesce(l_said -> 'existing', 'false'),
        'differs', coalesce(l_said -> 'differs', 'false'),
        'complete', coalesce(l_said -> 'complete', 'false'));
END
$$;
REVOKE ALL ON FUNCTION sendoff.barrier_create(text, bytea[], text, jsonb, interval, text, bigint, text,
    boolean, boolean, boolean, text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION sendoff.barrier_create(
    id                 text,
    members            text[],
    continue_with      text     DEFAULT NULL,
    state              jsonb    DEFAULT NULL,
    deadline           interval DEFAULT NULL,
    on_deadline        text     DEFAULT 'mark',
    at_least           bigint   DEFAULT NULL,
    counting           text     DEFAULT 'resolved',
    first_failure_ends boolean  DEFAULT false,
    sealed             boolean  DEFAULT true,
    strict             boolean  DEFAULT false,
    tenant             text     DEFAULT ''
) RETURNS jsonb
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
    SELECT sendoff.barrier_create($1, CASE WHEN $2 IS NOT NULL THEN
        ARRAY(SELECT convert_to(u.name, 'UTF8') FROM unnest($2) WITH ORDINALITY AS u(name, n)
               ORDER BY u.n) END, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
$$;
REVOKE ALL ON FUNCTION sendoff.barrier_create(text, text[], text, jsonb, interval, text, bigint, text,
    boolean, boolean, boolean, text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION sendoff.barrier_ack(
    id      text,
    member  bytea,
    ok      boolean DEFAULT true,
    error   text    DEFAULT NULL,
    result  jsonb   DEFAULT NULL,
    channel text    DEFAULT 'sql',
    tenant  text    DEFAULT ''
) RETURNS jsonb
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    l_well    boolean := coalesce(ok, true);
    l_outcome text;
    l_said    json;
    l_row     json;
    l_winner  json;
BEGIN
    l_outcome := '{"ok":' || l_well || coalesce(',"error":' || to_json(error)::text, '')
        || coalesce(',"result":' || result::text, '') || '}';
    IF octet_length(l_outcome) > 8192 THEN
        RETURN jsonb_build_object('refused', 'too_large', 'detail', 'the outcome has '
            || octet_length(l_outcome) || ' bytes as JSON, the limit is 8192');
    ELSIF member IS NULL OR octet_length(member) NOT BETWEEN 1 AND 1024 THEN
        RETURN jsonb_build_object('refused', 'invalid', 'detail', 'a member''s name has 1 to 1024 bytes');
    END IF;
    l_said := sendoff.barrier_resolve_one(coalesce(tenant, ''), id, member, l_well, l_outcome,
        left(coalesce(channel, ''), 64), NULL);
    IF l_said ->> 'refused' IS NOT NULL THEN
        RETURN jsonb_build_object('refused', l_said ->> 'refused', 'detail',
            coalesce(l_said ->> 'detail', 'there is no such barrier'));
    END IF;
    l_row := l_said -> 'rows' -> 0;
    CASE l_row ->> 1
        WHEN 'unknown' THEN
            RETURN jsonb_build_object('refused', 'unknown_member', 'detail',
                encode(member, 'escape') || ' is not on the barrier''s list of members');
        WHEN 'late' THEN
            RETURN jsonb_build_object('refused', 'conflict', 'detail',
                'the barrier was closed before this acknowledgement');
        WHEN 'duplicate' THEN
            -- A NUL in a text is none that jsonb could hold.
            l_winner := replace(l_row ->> 3, '\u0000', '\ufffd')::json;
        ELSE
            NULL;
    END CASE;
    RETURN jsonb_build_object(
            'duplicate', l_winner IS NOT NULL,
            'complete', coalesce((l_said ->> 'complete')::boolean, false),
            'remaining', CASE WHEN (l_said ->> 'complete')::boolean THEN 0 END)
        || CASE WHEN l_winner IS NULL THEN '{}'::jsonb ELSE jsonb_build_object(
            'winner', jsonb_build_object('ok', l_winner -> 'ok', 'error', l_winner -> 'error',
                'result', l_winner -> 'result', 'at', sendoff.barrier_time(l_row ->> 2),
                'channel', l_row ->> 4),
            'conflict', l_winner::jsonb IS DISTINCT FROM l_outcome::jsonb) END;
END
$$;
REVOKE ALL ON FUNCTION sendoff.barrier_ack(text, bytea, boolean, text, jsonb, text, text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION sendoff.barrier_ack(
    id      text,
    member  text,
    ok      boolean DEFAULT true,
    error   text    DEFAULT NULL,
    result  jsonb   DEFAULT NULL,
    channel text    DEFAULT 'sql',
    tenant  text    DEFAULT ''
) RETURNS jsonb
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
    SELECT sendoff.barrier_ack($1, convert_to($2, 'UTF8'), $3, $4, $5, $6, $7)
$$;
REVOKE ALL ON FUNCTION sendoff.barrier_ack(text, text, boolean, text, jsonb, text, text) FROM PUBLIC;

-- Null where there is no such barrier.
CREATE OR REPLACE FUNCTION sendoff.barrier_status(id text, tenant text DEFAULT '') RETURNS jsonb
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
    SELECT jsonb_build_object(
        'id', s ->> 'id', 'total', s -> 'total', 'resolved', s -> 'resolved',
        'pending', s -> 'pending', 'failed', s -> 'failed', 'missing', s -> 'missing',
        'complete', s ->> 'state' IN ('complete', 'deadline'),
        'overdue', coalesce((s ->> 'overdue')::boolean, false), 'dispatched', s -> 'dispatched',
        'state', s ->> 'state', 'reason', s ->> 'reason', 'epoch', s -> 'epoch',
        'sealed', s -> 'sealed', 'created_at', sendoff.barrier_time(s ->> 'created_at'),
        'deadline_at', sendoff.barrier_time(s ->> 'deadline_at'),
        'completed_at', sendoff.barrier_time(s ->> 'completed_at'),
        'last_ack_at', sendoff.barrier_time(s ->> 'last_ack_at'),
        'expires_at', sendoff.barrier_time(s ->> 'expires_at'))
      FROM (SELECT sendoff.barrier_state($2, $1)::json AS s) AS j WHERE s IS NOT NULL
$$;
REVOKE ALL ON FUNCTION sendoff.barrier_status(text, text) FROM PUBLIC;
