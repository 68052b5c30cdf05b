-- Changes to a barrier that is there. Each begins with an UPDATE of the barrier's row, so that of
-- two changes, and of a change and an acknowledgement that looks whether it is the last, one sees the
-- other. Each answers a JSON object: `refused` with a detail and nothing changed, or `members`,
-- `complete` and `epoch`.

-- The barrier's row for a change: read first, so that a refusal locks nothing, then updated.
CREATE OR REPLACE FUNCTION sendoff.barrier_lock(p_tenant text, p_id text) RETURNS sendoff.barrier
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    h sendoff.barrier;
BEGIN
    SELECT b.* INTO h FROM sendoff.barrier b
     WHERE b.tenant = p_tenant AND b.id = p_id AND NOT b.gone;
    IF h.no IS NOT NULL THEN
        UPDATE sendoff.barrier b SET version = b.version + 1 WHERE b.no = h.no RETURNING b.* INTO h;
    END IF;
    RETURN h;
END
$$;

CREATE OR REPLACE FUNCTION sendoff.barrier_refusal(p_code text, p_detail text) RETURNS text
    LANGUAGE sql IMMUTABLE
AS $$ SELECT json_build_object('refused', $1, 'detail', $2)::text $$;

CREATE OR REPLACE FUNCTION sendoff.barrier_changed(p_no bigint, p_members bigint) RETURNS text
    LANGUAGE sql STABLE
AS $$
    SELECT json_build_object('members', $2, 'complete', b.state IN ('complete', 'deadline'),
        'epoch', b.epoch)::text FROM sendoff.barrier b WHERE b.no = $1
$$;

CREATE OR REPLACE FUNCTION sendoff.barrier_grow(
    p_tenant text, p_id text, p_names bytea[], p_groups text[]
) RETURNS text
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET lock_timeout = '2s' SET jit = off
    SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
    SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
    h       sendoff.barrier;
    g       record;
    l_quota jsonb;
    l_added bigint := 0;
    l_group text;
BEGIN
    SELECT b.* INTO h FROM sendoff.barrier b
     WHERE b.tenant = p_tenant AND b.id = p_id AND NOT b.gone;
    IF h.no IS NULL THEN
        RETURN sendoff.barrier_refusal('not_found', NULL);
    ELSIF cardinality(p_names) = 0 THEN
        RETURN sendoff.barrier_changed(h.no, 0);
    END IF;
    h := sendoff.barrier_lock(p_tenant, p_id);
    IF h.state <> 'open' OR h.sealed THEN
        RETURN sendoff.barrier_refusal(CASE h.state WHEN 'cancelled' THEN 'cancelled' ELSE 'conflict' END,
            CASE h.state WHEN 'open' THEN 'the list is sealed' ELSE 'the barrier is ' || h.state END
            || ': it does not grow any more');
    ELSIF clock_timestamp() >= h.expires_at - interval '1 hour' THEN
        RETURN sendoff.barrier_refusal('expired', 'barrier expired');
    END IF;
    SELECT coalesce(u.grp, '') INTO l_group FROM unnest(p_names, p_groups) AS u(name, grp)
     WHERE NOT h.policy -> 'groups' ? coalesce(u.grp, '') LIMIT 1;
    IF FOUND THEN
        RETURN sendoff.barrier_refusal('invalid', 'the policy says nothing about '
            || CASE l_group WHEN '' THEN 'the group without a name' ELSE 'the group ' || l_group END);
    END IF;
    SELECT count(*) INTO l_added FROM unnest(p_names) AS u(name)
     WHERE NOT EXISTS (SELECT FROM sendoff.barrier_member m WHERE m.barrier = h.no AND m.name = u.name);
    IF h.total + l_added > 1000000 THEN
        RETURN sendoff.barrier_refusal('too_large', 'it would have ' || h.total + l_added
            || ' members, the limit is 1000000');
    END IF;
    -- Of a quorum every new member is watched, since each raises what has to be watched by one; what
    -- is too much is taken back when the list is sealed.
    INSERT INTO sendoff.barrier_member (barrier, name, grp, place, watched)
    SELECT h.no, u.name, coalesce(u.grp, ''), (random() * 2147483646)::integer,
           h.policy -> 'groups' -> coalesce(u.grp, '') ->> 'wanted' <> 'all'
      FROM unnest(p_names, p_groups) AS u(name, grp)
        ON CONFLICT (barrier, name) DO NOTHING;
    UPDATE sendoff.barrier b SET total = b.total + l_added WHERE b.no = h.no;
    -- A group in which nothing was pending has nobody watched: the barrier's row stood for it.
    FOR g IN SELECT DISTINCT coalesce(u.grp, '') AS grp FROM unnest(p_names, p_groups) AS u(name, grp)
              ORDER BY 1
    LOOP
        IF NOT EXISTS (SELECT FROM sendoff.barrier_member m WHERE m.barrier = h.no AND m.grp = g.grp
                          AND m.watched AND m.resolved_at IS NULL) THEN
            IF sendoff.barrier_hand_on(h.no, g.grp, 1, false) = 0 THEN
                PERFORM sendoff.barrier_hand_on(h.no, g.grp, 1, true);
            END IF;
        END IF;
    END LOOP;
    RETURN sendoff.barrier_changed(h.no, l_added);
END
$$;
REVOKE ALL ON FUNCTION sendoff.barrier_grow(text, text, bytea[], text[]) FROM PUBLIC;

CREATE OR REPLACE FUNCTION sendoff.barrier_seal(p_tenant text, p_id text) RETURNS text
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET lock_timeout = '2s' SET jit = off
    SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
    SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
    h sendoff.barrier;
BEGIN
    h := sendoff.barrier_lock(p_tenant, p_id);
    IF h.no IS NULL THEN
        RETURN sendoff.barrier_refusal('not_found', NULL);
    ELSIF h.sealed THEN
        RETURN sendoff.barrier_changed(h.no, 0);
    ELSIF h.state <> 'open' THEN
        RETURN sendoff.barrier_refusal(CASE h.state WHEN 'cancelled' THEN 'cancelled' ELSE 'conflict' END,
            'the barrier is ' || h.state || ': it is not sealed any more');
    ELSIF clock_timestamp() >= h.expires_at - interval '1 hour' THEN
        RETURN sendoff.barrier_refusal('expired', 'barrier expired');
    END IF;
    UPDATE sendoff.barrier b SET sealed = true WHERE b.no = h.no RETURNING b.* INTO h;
    IF h.first_failure AND EXISTS (
        SELECT FROM sendoff.barrier_member m WHERE m.barrier = h.no AND m.resolved_at IS NOT NULL
           AND m.ok IS NOT TRUE AND NOT m.missing AND m.resolved_at >= h.opened_at) THEN
        -- Whoever failed before asked in vain, since nothing ends before the list is sealed.
        PERFORM sendoff.barrier_errand(h, 'first_failure', NULL);
    ELSE
        PERFORM sendoff.barrier_evaluate(h.no, true);
    END IF;
    RETURN sendoff.barrier_changed(h.no, 0);
END
$$;
REVOKE ALL ON FUNCTION sendoff.barrier_seal(text, text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION sendoff.barrier_cancel(p_tenant text, p_id text) RETURNS text
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET lock_timeout = '2s'
AS $$
DECLARE
    h sendoff.barrier;
BEGIN
    h := sendoff.barrier_lock(p_tenant, p_id);
    IF h.no IS NULL THEN
        RETURN sendoff.barrier_refusal('not_found', NULL);
    ELSIF h.state IN ('complete', 'deadline') THEN
        RETURN sendoff.barrier_refusal('conflict', 'the barrier has ended: it is ' || h.state);
    ELSIF h.state <> 'cancelled' THEN
        PERFORM sendoff.barrier_finish(h.no, 'cancelled', 'cancelled');
    END IF;
    RETURN sendoff.barrier_changed(h.no, 0);
END
$$;
REVOKE ALL ON FUNCTION sendoff.barrier_cancel(text, text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION sendoff.barrier_reopen(
    p_tenant text, p_id text, p_names bytea[]
) RETURNS text
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET lock_timeout = '2s' SET jit = off
    SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
    SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
    h       sendoff.barrier;
    l_now   timestamptz := clock_timestamp();
    l_name  bytea;
    l_count bigint;
    l_again bigint;
BEGIN
    h := sendoff.barrier_lock(p_tenant, p_id);
    IF h.no IS NULL THEN
        RETURN sendoff.barrier_refusal('not_found', NULL);
    ELSIF h.state = 'cancelled' THEN
        RETURN sendoff.barrier_refusal('cancelled', 'the barrier was cancelled');
    ELSIF h.state NOT IN ('complete', 'deadline') THEN
        RETURN sendoff.barrier_refusal('conflict', 'the barrier has not ended: it is ' || h.state);
    ELSIF sendoff.barrier_is_over(h) THEN
        RETURN sendoff.barrier_refusal('expired', 'barrier expired');
    END IF;
    IF cardinality(p_names) > 0 THEN
        SELECT u.name INTO l_name FROM unnest(p_names) AS u(name)
         WHERE NOT EXISTS (SELECT FROM sendoff.barrier_member m
                            WHERE m.barrier = h.no AND m.name = u.name) LIMIT 1;
        IF FOUND THEN
            RETURN sendoff.barrier_refusal('unknown_member', 'a name is not on the list');
        END IF;
    END IF;
    SELECT count(*) INTO l_count FROM sendoff.barrier_member m
     WHERE m.barrier = h.no AND m.resolved_at IS NOT NULL AND m.ok IS NOT TRUE
       AND (cardinality(p_names) = 0 OR m.name = ANY (p_names));
    IF l_count = 0 OR l_count < (SELECT count(DISTINCT n) FROM unnest(p_names) AS n) THEN
        RETURN sendoff.barrier_refusal('conflict',
            'only members that failed or are missing can be reopened');
    END IF;
    UPDATE sendoff.barrier_member m
       SET resolved_at = NULL, ok = NULL, missing = false, outcome = NULL, channel = '',
           watched = false, place = (random() * 2147483646)::integer
     WHERE m.barrier = h.no AND m.resolved_at IS NOT NULL AND m.ok IS NOT TRUE
       AND (cardinality(p_names) = 0 OR m.name = ANY (p_names));
    GET DIAGNOSTICS l_again = ROW_COUNT;
    UPDATE sendoff.barrier b
       SET state = 'open', reason = NULL, epoch = b.epoch + 1, opened_at = l_now, closing_at = NULL,
           completed_at = NULL, continuation = NULL, met = '{}',
           deadline_at = l_now + (b.deadline_at - b.opened_at),
           expires_at = least(l_now + interval '7 days', (
               SELECT p.expires_at FROM sendoff.barrier p
                WHERE p.tenant = b.tenant AND p.id = b.parent_id AND NOT p.gone))
     WHERE b.no = h.no RETURNING b.* INTO h;
    IF h.on_deadline = 'continue' THEN
        PERFORM sendoff.barrier_errand(h, 'deadline', h.deadline_at);
    END IF;
    PERFORM sendoff.barrier_evaluate(h.no, true);
    RETURN sendoff.barrier_changed(h.no, l_again);
END
$$;
REVOKE ALL ON FUNCTION sendoff.barrier_reopen(text, text, bytea[]) FROM PUBLIC;
