-- Acknowledgements.

-- Resolves members of a barrier that is open and hands on what was watched among them. Answers a JSON
-- object: `refused` with a code and a detail where the barrier takes none; otherwise `complete`,
-- `closing`, and in `rows` what was not plainly resolved, as [place, what, micros, outcome, channel].
-- A batch of a thousand that resolves a thousand answers an empty object.
--
-- The plans do not depend on statistics: a member is reached by its name, one after the other in the
-- order of names, so that two batches cannot wait for each other in a circle. Where a list is joined
-- with the members, `= ANY (ARRAY[...])` sees to that: it can be looked up in the primary key for each
-- of the list, and neither hashed nor merged nor turned round.
CREATE OR REPLACE FUNCTION sendoff.barrier_resolve(
    p_tenant text, p_id text, p_names bytea[], p_oks boolean[], p_outcomes text[], p_channel text,
    p_all_or_nothing boolean, p_epoch integer
) RETURNS text
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    -- No more of these than are needed: each costs a few microseconds of every call. A member's row may
    -- be locked by whoever handed the watch to it, for as long as that transaction is open.
    SET search_path = pg_catalog, pg_temp SET lock_timeout = '2s'
    SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
DECLARE
    l_no            bigint;
    l_state         text;
    l_epoch         integer;
    l_expires_at    timestamptz;
    l_opened_at     timestamptz;
    l_closed_at     timestamptz;
    l_plain         boolean;
    l_sealed        boolean;
    l_first_failure boolean;
    l_met           text[];
    l_given         integer := cardinality(p_names);
    l_hits          integer[] := '{}';
    l_groups        text[];
    l_oks           boolean[];
    l_failed        boolean;
    l_watched       boolean;
    l_group         text;
    l_quota         jsonb;
    l_wanted        bigint;
    l_got           bigint;
    l_short_groups  text[] := '{}';
    l_shorts        bigint[] := '{}';
    l_closing       boolean := false;
    l_rows          json;
    l_answer        text;
    g               record;
BEGIN
    IF p_all_or_nothing THEN
        BEGIN
            l_answer := sendoff.barrier_resolve(
                p_tenant, p_id, p_names, p_oks, p_outcomes, p_channel, false, p_epoch);
            IF l_answer::json -> 'rows' IS NOT NULL AND EXISTS (
                SELECT FROM json_array_elements(l_answer::json -> 'rows') AS r
                 WHERE r ->> 1 IN ('unknown', 'late')) THEN
                RAISE EXCEPTION USING ERRCODE = 'SB001';
            END IF;
            RETURN l_answer;
        EXCEPTION WHEN SQLSTATE 'SB001' THEN
            -- Everything since BEGIN is undone: members, watches, and a continuation.
            RETURN json_build_object('undone', true, 'rows', l_answer::json -> 'rows');
        END;
    END IF;
    SELECT b.no, b.state, b.epoch, b.expires_at, b.opened_at, coalesce(b.completed_at, b.closing_at),
           b.plain, b.sealed, b.first_failure, b.met
      INTO l_no, l_state, l_epoch, l_expires_at, l_opened_at, l_closed_at,
           l_plain, l_sealed, l_first_failure, l_met
      FROM sendoff.barrier b WHERE b.tenant = p_tenant AND b.id = p_id AND NOT b.gone;
    IF l_no IS NULL THEN
        RETURN '{"refused":"not_found"}';
    ELSIF clock_timestamp() >= l_expires_at - interval '1 hour' THEN
        RETURN '{"refused":"expired","detail":"barrier expired"}';
    ELSIF l_state = 'cancelled' THEN
        RETURN '{"refused":"cancelled","detail":"the barrier was cancelled"}';
    ELSIF p_epoch <> l_epoch THEN
        RETURN json_build_object('refused', 'conflict', 'detail', 'the acknowledgement is for epoch '
            || p_epoch || ', the barrier is at epoch ' || l_epoch);
    END IF;

    IF l_state <> 'open' THEN
        -- Nothing is resolved any more.
    ELSIF l_given = 1 THEN
        -- Written so that only the primary key can answer it: the index of pending members may look
        -- cheaper while it is small, and the plan is kept.
        UPDATE sendoff.barrier_member m
           SET resolved_at = clock_timestamp(), ok = p_oks[1], outcome = p_outcomes[1],
               channel = p_channel
         WHERE m.barrier = l_no AND m.name = p_names[1]
           AND coalesce(m.resolved_at, 'infinity') = 'infinity'
     RETURNING m.watched, m.grp INTO l_watched, l_group;
        IF FOUND THEN
            l_failed := NOT p_oks[1];
            IF NOT l_watched AND NOT (l_failed AND l_first_failure) THEN
                RETURN '{}';
            END IF;
            l_hits := '{1}';
            IF l_watched THEN
                l_groups := ARRAY[l_group];
                l_oks := ARRAY[p_oks[1]];
            END IF;
        END IF;
    ELSE
        WITH given AS MATERIALIZED (
            SELECT DISTINCT ON (u.name) l_no AS barrier, u.name, u.ok, u.outcome, u.n::integer AS n
              FROM unnest(p_names, p_oks, p_outcomes) WITH ORDINALITY AS u(name, ok, outcome, n)
             ORDER BY u.name, u.n),
        hit AS (
            UPDATE sendoff.barrier_member m
               SET resolved_at = clock_timestamp(), ok = u.ok, outcome = u.outcome,
                   channel = p_channel
              FROM given u
             WHERE m.barrier = ANY (ARRAY[u.barrier]) AND m.name = ANY (ARRAY[u.name])
               AND coalesce(m.resolved_at, 'infinity') = 'infinity'
         RETURNING u.n, m.grp, m.watched, m.ok)
        SELECT coalesce(array_agg(h.n), '{}'), bool_or(NOT h.ok),
               array_agg(h.grp) FILTER (WHERE h.watched), array_agg(h.ok) FILTER (WHERE h.watched)
          INTO l_hits, l_failed, l_groups, l_oks FROM hit h;
    END IF;

    -- What was excluded resolves its member as failed, and ends nothing.
    l_failed := l_failed AND l_first_failure AND p_channel <> 'excluded';
    IF l_failed THEN
        -- The closer is asked for, not waited for: this acknowledgement must not touch the barrier's
        -- row. One that committed before has asked already.
        IF NOT EXISTS (
            SELECT FROM sendoff.barrier_member m
             WHERE m.barrier = l_no AND m.resolved_at IS NOT NULL AND m.ok IS NOT TRUE
               AND NOT m.missing AND m.channel <> 'excluded' AND m.resolved_at >= l_opened_at
               AND m.name NOT IN (SELECT p_names[n] FROM unnest(l_hits) AS n)) THEN
            PERFORM sendoff.barrier_errand(b, 'first_failure', NULL)
               FROM sendoff.barrier b WHERE b.no = l_no;
            l_closing := true;
        END IF;
        IF l_sealed THEN
            l_groups := NULL;
        END IF;
    END IF;

    FOR g IN SELECT u.grp, count(*) AS watched, count(*) FILTER (WHERE u.ok) AS well
               FROM unnest(l_groups, l_oks) AS u(grp, ok) GROUP BY u.grp ORDER BY u.grp
    LOOP
        IF l_plain THEN
            l_wanted := 1;
        ELSE
            SELECT b.policy -> 'groups' -> g.grp INTO l_quota FROM sendoff.barrier b WHERE b.no = l_no;
            IF l_quota ->> 'wanted' = 'all' THEN
                l_wanted := 1;
            ELSIF g.grp = ANY (l_met)
               OR (l_quota ->> 'counting' = 'successful' AND g.well = 0) THEN
                -- These bring the group no nearer to what it wants. It is enough that somebody else
                -- is watched, and stays so until this is committed.
                PERFORM FROM sendoff.barrier_member m
                  WHERE m.barrier = l_no AND m.grp = g.grp AND m.watched AND m.resolved_at IS NULL
                  ORDER BY m.place LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED;
                CONTINUE WHEN FOUND;
                l_wanted := 1;
            ELSIF l_quota ->> 'counting' = 'successful' THEN
                l_wanted := g.well;
            ELSE
                l_wanted := g.watched;
            END IF;
        END IF;
        l_got := sendoff.barrier_hand_on(l_no, g.grp, l_wanted, false);
        IF l_got < l_wanted THEN
            l_short_groups := l_short_groups || g.grp;
            l_shorts := l_shorts || (l_wanted - l_got);
        END IF;
    END LOOP;
    IF cardinality(l_shorts) > 0 THEN
        l_state := sendoff.barrier_settle(l_no, l_short_groups, l_shorts);
    END IF;

    IF cardinality(l_hits) < l_given THEN
        WITH rest AS MATERIALIZED (
            SELECT n, l_no AS barrier, p_names[n] AS name FROM (
                SELECT n FROM generate_series(1, l_given) AS n EXCEPT SELECT unnest(l_hits)) AS r)
        SELECT json_agg(json_build_array(u.n,
                   CASE WHEN m.name IS NULL THEN 'unknown'
                        WHEN m.missing OR m.resolved_at IS NULL THEN 'late' ELSE 'duplicate' END,
                   (extract(epoch FROM CASE WHEN m.missing OR m.resolved_at IS NULL
                       THEN coalesce(l_closed_at, m.resolved_at) ELSE m.resolved_at END)
                       * 1000000)::bigint,
                   m.outcome, m.channel) ORDER BY u.n)
          INTO l_rows
          FROM rest u
          LEFT JOIN sendoff.barrier_member m
            ON m.barrier = ANY (ARRAY[u.barrier]) AND m.name = ANY (ARRAY[u.name]);
    END IF;
    RETURN json_strip_nulls(json_build_object(
        'complete', l_state IN ('complete', 'deadline'), 'closing', l_closing, 'rows', l_rows));
END
$$;
REVOKE ALL ON FUNCTION sendoff.barrier_resolve(
    text, text, bytea[], boolean[], text[], text, boolean, integer) FROM PUBLIC;

-- One acknowledgement. Nearly every one is of a pending member that nobody watches, of a barrier that is
-- open: that is one statement, with as few settings around it as it can do with. Everything else is
-- the other function's business, also where the watch came to the member while this waited for its row.
CREATE OR REPLACE FUNCTION sendoff.barrier_resolve_one(
    p_tenant text, p_id text, p_name bytea, p_ok boolean, p_outcome text, p_channel text,
    p_epoch integer
) RETURNS text
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET lock_timeout = '2s' SET enable_seqscan = off
AS $$
BEGIN
    UPDATE sendoff.barrier_member m
       SET resolved_at = clock_timestamp(), ok = p_ok, outcome = p_outcome, channel = p_channel
      FROM sendoff.barrier b
     WHERE b.tenant = p_tenant AND b.id = p_id AND NOT b.gone AND b.state = 'open' AND b.plain
       AND clock_timestamp() < b.expires_at - interval '1 hour'
       AND (p_epoch IS NULL OR p_epoch = b.epoch)
       AND (p_ok OR NOT b.first_failure)
       AND m.barrier = ANY (ARRAY[b.no]) AND m.name = p_name AND NOT m.watched
       AND coalesce(m.resolved_at, 'infinity') = 'infinity';
    IF FOUND THEN
        RETURN '{}';
    END IF;
    RETURN sendoff.barrier_resolve(p_tenant, p_id, ARRAY[p_name], ARRAY[p_ok], ARRAY[p_outcome],
                                   p_channel, false, p_epoch);
END
$$;
REVOKE ALL ON FUNCTION sendoff.barrier_resolve_one(
    text, text, bytea, boolean, text, text, integer) FROM PUBLIC;
