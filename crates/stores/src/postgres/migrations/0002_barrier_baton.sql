-- The baton: how acknowledgements of one barrier hand on the duty to look whether it is complete.
--
-- A VOLATILE function in PL/pgSQL takes a fresh snapshot for each of its statements at READ COMMITTED.
-- Everything here relies on that: what is read after a lock was waited for sees what its holder has
-- committed. At REPEATABLE READ and SERIALIZABLE the UPDATE of the barrier's row, or the lock on a
-- member, fails with 40001 instead wherever something has changed; the transaction's owner runs it
-- again.
--
-- None of these is meant to be called by itself. They run with the rights of whoever calls them,
-- which is the owner's where one of the entry functions does.

-- The id of a barrier's message: `continuation_id` of the Rust crates.
CREATE OR REPLACE FUNCTION sendoff.barrier_message_id(
    p_tenant text, p_id text, p_incarnation uuid, p_epoch integer, p_word text
) RETURNS text
    LANGUAGE sql IMMUTABLE
AS $$
    SELECT 'barrier-' || substr(encode(sha256(convert_to(
        $1 || E'\n' || $2 || E'\n' || $3::text || E'\n' || $4::text || E'\n' || $5 || E'\n',
        'UTF8')), 'hex'), 1, 32)
$$;

-- How many more members of a group have to count, and how many of the pending ones have to be
-- watched for that: `Quota::watched` of the Rust crates.
CREATE OR REPLACE FUNCTION sendoff.barrier_lacking(
    p_quota jsonb, p_pending bigint, p_ok bigint, p_failed bigint
) RETURNS bigint
    LANGUAGE sql IMMUTABLE
AS $$
    SELECT greatest(0,
        CASE WHEN $1 ->> 'wanted' = 'all' THEN $2 + $3 + $4
             ELSE ($1 -> 'wanted' ->> 'at_least')::bigint END
        - CASE WHEN $1 ->> 'counting' = 'successful' THEN $3 ELSE $3 + $4 END)
$$;
CREATE OR REPLACE FUNCTION sendoff.barrier_watches(
    p_quota jsonb, p_pending bigint, p_ok bigint, p_failed bigint
) RETURNS bigint
    LANGUAGE sql IMMUTABLE
AS $$
    SELECT CASE WHEN $2 = 0 THEN 0
        ELSE $2 - least(greatest(sendoff.barrier_lacking($1, $2, $3, $4), 1), $2) + 1 END
$$;

-- Sends an errand of a barrier, which the relay runs itself.
CREATE OR REPLACE FUNCTION sendoff.barrier_errand(
    p_barrier sendoff.barrier, p_act text, p_due_at timestamptz
) RETURNS void
    LANGUAGE sql VOLATILE
AS $$
    INSERT INTO sendoff.outbox (id, source, topic, headers, body, due_at)
    SELECT CASE WHEN $2 = 'first_failure' THEN gen_random_uuid()::text
                ELSE sendoff.barrier_message_id(($1).tenant, ($1).id, ($1).incarnation, ($1).epoch,
                         'errand-' || replace($2, '_', '-')) END,
           'sendoff.barrier', '$sendoff.barrier', '{"content-type": "application/json"}',
           convert_to('{'
               || CASE WHEN ($1).tenant = '' THEN '' ELSE '"tenant":' || to_json(($1).tenant) || ',' END
               || '"barrier":' || to_json(($1).id) || ',"incarnation":"' || ($1).incarnation
               || '","epoch":' || ($1).epoch || ',"act":"' || $2 || '"}', 'UTF8'),
           $3
$$;

-- Ends a barrier whose row this transaction has updated: its state, the continuation, and the errand
-- to its parent. A second continuation of one epoch and reason would break the outbox's unique key.
CREATE OR REPLACE FUNCTION sendoff.barrier_finish(
    p_no bigint, p_state text, p_reason text
) RETURNS void
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    h sendoff.barrier;
BEGIN
    UPDATE sendoff.barrier b
       SET state = p_state, reason = p_reason, completed_at = clock_timestamp(),
           version = b.version + 1,
           continuation = CASE WHEN b.continue_with IS NOT NULL AND p_state <> 'cancelled'
               THEN sendoff.barrier_message_id(b.tenant, b.id, b.incarnation, b.epoch, p_reason) END
     WHERE b.no = p_no RETURNING b.* INTO h;
    IF h.continuation IS NOT NULL THEN
        INSERT INTO sendoff.outbox (id, source, topic, key, headers, body)
        VALUES (h.continuation, 'sendoff.barrier', h.continue_with, h.id,
            jsonb_build_object('content-type', 'application/json', 'sendoff-barrier', h.id,
                'sendoff-barrier-epoch', h.epoch::text, 'sendoff-barrier-reason', p_reason),
            convert_to('{'
                || CASE WHEN h.tenant = '' THEN '' ELSE '"tenant":' || to_json(h.tenant) || ',' END
                || '"barrier":' || to_json(h.id) || ',"epoch":' || h.epoch
                || ',"reason":"' || p_reason || '"}', 'UTF8'));
    END IF;
    IF h.parent_id IS NOT NULL THEN
        PERFORM sendoff.barrier_errand(h, 'ascend', NULL);
    END IF;
END
$$;

-- Marks so many pending members of a group as watched, picked at random, and answers how many it
-- got. Passes over what others have locked, unless it is to wait for them; those that were resolved
-- meanwhile drop out.
CREATE OR REPLACE FUNCTION sendoff.barrier_hand_on(
    p_no bigint, p_group text, p_count bigint, p_wait boolean
) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    l_start integer := (random() * 2147483646)::integer;
    l_got   bigint;
    l_more  bigint := 0;
BEGIN
    IF p_wait THEN
        WITH free AS MATERIALIZED (
            SELECT m.barrier, m.name FROM sendoff.barrier_member m
             WHERE m.barrier = p_no AND m.grp = p_group AND NOT m.watched AND m.resolved_at IS NULL
             ORDER BY m.place LIMIT p_count FOR NO KEY UPDATE)
        UPDATE sendoff.barrier_member m SET watched = true FROM free f
         WHERE m.barrier = ANY (ARRAY[f.barrier]) AND m.name = ANY (ARRAY[f.name]);
        GET DIAGNOSTICS l_got = ROW_COUNT;
        RETURN l_got;
    END IF;
    WITH free AS MATERIALIZED (
        SELECT m.barrier, m.name FROM sendoff.barrier_member m
         WHERE m.barrier = p_no AND m.grp = p_group AND NOT m.watched AND m.resolved_at IS NULL
           AND m.place >= l_start
         ORDER BY m.place LIMIT p_count FOR NO KEY UPDATE SKIP LOCKED)
    UPDATE sendoff.barrier_member m SET watched = true FROM free f
     WHERE m.barrier = ANY (ARRAY[f.barrier]) AND m.name = ANY (ARRAY[f.name]);
    GET DIAGNOSTICS l_got = ROW_COUNT;
    IF l_got < p_count THEN
        WITH free AS MATERIALIZED (
            SELECT m.barrier, m.name FROM sendoff.barrier_member m
             WHERE m.barrier = p_no AND m.grp = p_group AND NOT m.watched AND m.resolved_at IS NULL
             ORDER BY m.place LIMIT p_count - l_got FOR NO KEY UPDATE SKIP LOCKED)
        UPDATE sendoff.barrier_member m SET watched = true FROM free f
         WHERE m.barrier = ANY (ARRAY[f.barrier]) AND m.name = ANY (ARRAY[f.name]);
        GET DIAGNOSTICS l_more = ROW_COUNT;
    END IF;
    RETURN l_got + l_more;
END
$$;

-- Completes a barrier that has what it wants (with p_ends), or makes sure that as many of its members are watched
-- as have to be. The transaction has updated the barrier's row and found it open. Answers its state.
--
-- With p_full every group is counted and exactly as many are watched; without, a plain barrier is
-- only asked whether anything is pending, and few watches are taken back at a time.
CREATE OR REPLACE FUNCTION sendoff.barrier_evaluate(
    p_no bigint, p_full boolean, p_ends boolean DEFAULT true
) RETURNS text
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    h        sendoff.barrier;
    l_met    text[];
    l_unmet  boolean;
    l_left   bigint;
    l_groups text[];
    l_excess bigint[];
    l_wanted bigint;
    l_got    bigint;
    l_short  boolean;
    l_takes  boolean := true;
    l_took   boolean;
BEGIN
    SELECT b.* INTO h FROM sendoff.barrier b WHERE b.no = p_no;
    IF NOT h.sealed AND NOT p_full THEN
        RETURN 'open';
    END IF;
    IF h.plain AND NOT p_full THEN
        IF EXISTS (SELECT FROM sendoff.barrier_member m
                    WHERE m.barrier = p_no AND m.resolved_at IS NULL) THEN
            RETURN 'open';
        END IF;
        PERFORM sendoff.barrier_finish(p_no, 'complete', 'all');
        RETURN 'complete';
    END IF;
    -- Once more where members were resolved between the count and the look. Once more as well where
    -- watches were taken back: a watched member that failed and was committed after the count handed
    -- nothing on, since others were watched then. What is taken now is locked until this commits, so
    -- whoever fails from here on does not count on it.
    FOR l_round IN 1..100 LOOP
        WITH counted AS MATERIALIZED (
            SELECT m.grp, count(*) FILTER (WHERE m.resolved_at IS NULL) AS pending,
                   count(*) FILTER (WHERE m.ok) AS ok,
                   count(*) FILTER (WHERE m.resolved_at IS NOT NULL AND m.ok IS NOT TRUE) AS failed,
                   count(*) FILTER (WHERE m.watched AND m.resolved_at IS NULL) AS watched
              FROM sendoff.barrier_member m WHERE m.barrier = p_no GROUP BY m.grp),
        stands AS MATERIALIZED (
            SELECT q.key AS grp, coalesce(c.pending, 0) AS pending, coalesce(c.watched, 0) AS watched,
                   sendoff.barrier_lacking(q.value, coalesce(c.pending, 0), coalesce(c.ok, 0),
                       coalesce(c.failed, 0)) AS lacking,
                   sendoff.barrier_watches(q.value, coalesce(c.pending, 0), coalesce(c.ok, 0),
                       coalesce(c.failed, 0)) AS needed
              FROM jsonb_each(h.policy -> 'groups') AS q LEFT JOIN counted c ON c.grp = q.key)
        SELECT coalesce(array_agg(s.grp ORDER BY s.grp) FILTER (WHERE s.lacking = 0), '{}'),
               coalesce(bool_or(s.lacking > 0), false), coalesce(sum(s.pending), 0),
               array_agg(s.grp), array_agg(CASE
                   WHEN s.pending = 0 THEN 0
                   -- A group that has what it wants matters no more, but that the end of its last
                   -- member is seen; unless all have and the next acknowledgement is to end it.
                   WHEN s.lacking = 0 AND (p_ends OR l.any_lacking) THEN least(s.watched - 1, 0)
                   ELSE s.watched - s.needed END)
          INTO l_met, l_unmet, l_left, l_groups, l_excess
          FROM stands s, (SELECT coalesce(bool_or(t.lacking > 0), false) AS any_lacking
                            FROM stands t) AS l;
        IF p_ends AND h.sealed AND (l_left = 0 OR NOT l_unmet) THEN
            PERFORM sendoff.barrier_finish(p_no, 'complete', CASE
                WHEN h.total = 0 OR (l_left = 0 AND NOT l_unmet) THEN 'all'
                WHEN l_left = 0 THEN 'unmet' ELSE 'policy' END);
            RETURN 'complete';
        END IF;
        IF h.sealed AND l_unmet AND l_met <> h.met THEN
            UPDATE sendoff.barrier b SET met = l_met WHERE b.no = p_no;
        END IF;
        l_short := false;
        l_took := false;
        FOR i IN 1..cardinality(l_groups) LOOP
            IF l_excess[i] > 0 THEN
                CONTINUE WHEN NOT l_takes;
                WITH extra AS MATERIALIZED (
                    SELECT m.barrier, m.name FROM sendoff.barrier_member m
                     WHERE m.barrier = p_no AND m.grp = l_groups[i] AND m.watched
                       AND m.resolved_at IS NULL
                     ORDER BY m.place LIMIT CASE WHEN p_full THEN l_excess[i]
                                                 ELSE least(l_excess[i], 1000) END
                       FOR NO KEY UPDATE SKIP LOCKED)
                UPDATE sendoff.barrier_member m SET watched = false FROM extra e
                 WHERE m.barrier = ANY (ARRAY[e.barrier]) AND m.name = ANY (ARRAY[e.name]);
                l_took := l_took OR FOUND;
            ELSIF l_excess[i] < 0 THEN
                l_wanted := -l_excess[i];
                l_got := sendoff.barrier_hand_on(p_no, l_groups[i], l_wanted, false);
                IF l_got < l_wanted THEN
                    l_got := l_got
                        + sendoff.barrier_hand_on(p_no, l_groups[i], l_wanted - l_got, true);
                END IF;
                l_short := l_short OR l_got < l_wanted;
            END IF;
        END LOOP;
        IF NOT l_short AND NOT l_took THEN
            RETURN 'open';
        END IF;
        l_takes := l_takes AND NOT l_took;
    END LOOP;
    RAISE EXCEPTION 'the members of the barrier % change faster than they can be counted', h.id
        USING ERRCODE = 'lock_not_available';
END
$$;

-- Marks so many pending members of a group as watched, waiting for whoever has locked them, one after
-- the other. Answers how many there were too few.
--
-- The barrier's row must not be locked by whoever waits here: a member that was watched in the
-- meantime may be acknowledged by somebody who wants that row next. Each wait is for a member that a
-- fresh look finds unwatched, and whoever acknowledged it when it was watched has looked later; so
-- those who wait for each other here would each have looked before the other.
CREATE OR REPLACE FUNCTION sendoff.barrier_hand_on_patiently(
    p_no bigint, p_group text, p_count bigint
) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    l_left bigint := p_count;
    l_name bytea;
BEGIN
    LOOP
        SELECT m.name INTO l_name FROM sendoff.barrier_member m
         WHERE m.barrier = p_no AND m.grp = p_group AND NOT m.watched AND m.resolved_at IS NULL
         ORDER BY m.place LIMIT 1;
        EXIT WHEN NOT FOUND;
        PERFORM FROM sendoff.barrier_member m
          WHERE m.barrier = p_no AND m.name = l_name AND NOT m.watched
            AND coalesce(m.resolved_at, 'infinity') = 'infinity' FOR NO KEY UPDATE;
        IF FOUND THEN
            UPDATE sendoff.barrier_member m SET watched = true
             WHERE m.barrier = p_no AND m.name = l_name;
            l_left := l_left - 1;
        END IF;
        EXIT WHEN l_left = 0;
        l_left := l_left - sendoff.barrier_hand_on(p_no, p_group, l_left, false);
        EXIT WHEN l_left = 0;
    END LOOP;
    RETURN l_left;
END
$$;

-- The end of a hand-on that found too few: p_short[i] more of the group p_groups[i] have to be
-- watched. Waits, for a bounded time, for acknowledgements that are being committed and for whoever
-- does the same. Answers the barrier's state.
CREATE OR REPLACE FUNCTION sendoff.barrier_settle(
    p_no bigint, p_groups text[], p_short bigint[]
) RETURNS text
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    l_state text;
    l_short boolean := false;
BEGIN
    FOR i IN 1..cardinality(p_groups) LOOP
        p_short[i] := sendoff.barrier_hand_on_patiently(p_no, p_groups[i], p_short[i]);
    END LOOP;
    IF 0 = ALL (p_short) THEN
        RETURN 'open';
    END IF;
    UPDATE sendoff.barrier b SET version = b.version + 1 WHERE b.no = p_no
        RETURNING b.state INTO l_state;
    IF l_state <> 'open' THEN
        -- Closed meanwhile: whoever closes it completes it.
        RETURN l_state;
    END IF;
    -- Nothing was left that is not watched; unless a growth, or a watch taken back, came before the
    -- lock.
    FOR i IN 1..cardinality(p_groups) LOOP
        IF p_short[i] > 0
           AND sendoff.barrier_hand_on(p_no, p_groups[i], p_short[i], true) < p_short[i] THEN
            l_short := true;
        END IF;
    END LOOP;
    IF l_short THEN
        RETURN sendoff.barrier_evaluate(p_no, false);
    END IF;
    RETURN 'open';
END
$$;
