-- Closing by a deadline or a first failure, in two phases, and looking after what was left behind.
-- Each function is a transaction of its own: phase 1 is committed before phase 2 begins, or what has
-- read the barrier as open would not be waited for.

-- What an errand finds, without a lock: `stands` is null where there is nothing to do (any more).
CREATE OR REPLACE FUNCTION sendoff.barrier_due(
    p_tenant text, p_id text, p_incarnation text, p_epoch integer, p_act text
) RETURNS text
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
    SELECT coalesce((
        SELECT json_build_object('no', b.no, 'probe', b.probe, 'parent', b.parent_id,
            'member', encode(b.parent_member, 'hex'), 'reason', b.reason, 'early',
            $5 = 'deadline' AND b.state = 'open' AND b.deadline_at > clock_timestamp(),
            'stands', CASE
                WHEN $5 = 'ascend' AND b.parent_id IS NOT NULL
                 AND b.state IN ('complete', 'deadline', 'cancelled') THEN 'ended'
                WHEN $5 <> 'ascend' AND b.state = 'closing' THEN 'closing'
                WHEN b.state = 'open' AND ($5 = 'deadline' AND b.on_deadline = 'continue'
                  OR $5 = 'first_failure' AND b.first_failure) THEN 'open' END)::text
          FROM sendoff.barrier b
         WHERE b.tenant = $1 AND b.id = $2 AND NOT b.gone AND b.incarnation::text = $3
           AND b.epoch = $4), '{}')
$$;
REVOKE ALL ON FUNCTION sendoff.barrier_due(text, text, text, integer, text) FROM PUBLIC;

-- Phase 1. Answers whether the barrier is closing.
CREATE OR REPLACE FUNCTION sendoff.barrier_close(
    p_no bigint, p_epoch integer, p_reason text
) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET lock_timeout = '2s'
AS $$
DECLARE
    h sendoff.barrier;
BEGIN
    -- Waits for whoever seals or grows, and sees what that has made of it.
    UPDATE sendoff.barrier b SET version = b.version + 1 WHERE b.no = p_no AND b.epoch = p_epoch
        RETURNING b.* INTO h;
    IF h.state IS DISTINCT FROM 'open' THEN
        RETURN coalesce(h.state = 'closing', false);
    ELSIF p_reason = 'deadline' THEN
        IF h.on_deadline <> 'continue' OR h.deadline_at > clock_timestamp() THEN
            RETURN false;
        END IF;
    ELSIF NOT h.sealed OR NOT h.first_failure OR NOT EXISTS (
        SELECT FROM sendoff.barrier_member m WHERE m.barrier = p_no AND m.resolved_at IS NOT NULL
           AND m.ok IS NOT TRUE AND NOT m.missing AND m.resolved_at >= h.opened_at) THEN
        RETURN false;
    END IF;
    UPDATE sendoff.barrier b
       SET state = 'closing', reason = p_reason, closing_at = clock_timestamp() WHERE b.no = p_no;
    RETURN true;
END
$$;
REVOKE ALL ON FUNCTION sendoff.barrier_close(bigint, integer, text) FROM PUBLIC;

-- Phase 2: gives up at most p_rows pending members after p_after as missing, but for those that
-- somebody has locked. Answers the last one's name, or null where there were fewer.
CREATE OR REPLACE FUNCTION sendoff.barrier_give_up(
    p_no bigint, p_epoch integer, p_after bytea, p_rows integer
) RETURNS bytea
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
    SET enable_mergejoin = off
AS $$
DECLARE
    l_count integer;
    l_names bytea[];
BEGIN
    IF NOT EXISTS (SELECT FROM sendoff.barrier b
                    WHERE b.no = p_no AND b.epoch = p_epoch AND b.state = 'closing') THEN
        RETURN NULL;
    END IF;
    WITH next AS MATERIALIZED (
        SELECT m.barrier, m.name FROM sendoff.barrier_member m
         WHERE m.barrier = p_no AND m.name > p_after
           AND coalesce(m.resolved_at, 'infinity') = 'infinity'
         ORDER BY m.name LIMIT p_rows FOR NO KEY UPDATE SKIP LOCKED),
    gone AS (
        UPDATE sendoff.barrier_member m SET resolved_at = clock_timestamp(), missing = true
          FROM next n WHERE m.barrier = ANY (ARRAY[n.barrier]) AND m.name = ANY (ARRAY[n.name]) RETURNING m.name)
    SELECT count(*), (array_agg(g.name ORDER BY g.name DESC))[1:1] INTO l_count, l_names FROM gone g;
    IF l_count < p_rows THEN
        RETURN NULL;
    END IF;
    RETURN l_names[1];
END
$$;
REVOKE ALL ON FUNCTION sendoff.barrier_give_up(bigint, integer, bytea, integer) FROM PUBLIC;

-- The end of phase 2. Answers whether there is nothing left to do.
CREATE OR REPLACE FUNCTION sendoff.barrier_closed(p_no bigint, p_epoch integer) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET lock_timeout = '2s'
    SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
DECLARE
    h sendoff.barrier;
BEGIN
    -- Plainly, so that the barrier's row is not locked for as long as somebody is on his way.
    IF EXISTS (SELECT FROM sendoff.barrier_member m WHERE m.barrier = p_no AND m.resolved_at IS NULL) THEN
        RETURN NOT EXISTS (SELECT FROM sendoff.barrier b
                            WHERE b.no = p_no AND b.epoch = p_epoch AND b.state = 'closing');
    END IF;
    UPDATE sendoff.barrier b SET version = b.version + 1 WHERE b.no = p_no RETURNING b.* INTO h;
    IF h.state IS DISTINCT FROM 'closing' OR h.epoch <> p_epoch THEN
        RETURN true;
    END IF;
    IF EXISTS (SELECT FROM sendoff.barrier_member m WHERE m.barrier = p_no AND m.resolved_at IS NULL) THEN
        RETURN false;
    END IF;
    PERFORM sendoff.barrier_finish(p_no,
        CASE h.reason WHEN 'deadline' THEN 'deadline' ELSE 'complete' END, h.reason);
    RETURN true;
END
$$;
REVOKE ALL ON FUNCTION sendoff.barrier_closed(bigint, integer) FROM PUBLIC;

-- Barriers after p_after that nobody would ever complete. None of this should ever be found: it is
-- looked for so that a fault is seen and mended, not so that barriers work. One statement, and so one
-- snapshot, in which as many are watched as have to be.
CREATE OR REPLACE FUNCTION sendoff.barrier_findings(p_after bigint, p_rows integer) RETURNS TABLE (
    no bigint, tenant text, id text, incarnation text, epoch integer, finding text
)
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
    SELECT b.no, b.tenant, b.id, b.incarnation::text, b.epoch, CASE
        WHEN b.state = 'closing' THEN
            CASE WHEN b.closing_at < clock_timestamp() - interval '1 minute' THEN 'closing' END
        WHEN b.on_deadline = 'continue' AND b.deadline_at < clock_timestamp() - interval '1 minute'
         AND sendoff.barrier_has_left(sendoff.barrier_message_id(
                 b.tenant, b.id, b.incarnation, b.epoch, 'errand-deadline')) THEN 'deadline'
        WHEN b.sealed AND b.first_failure AND f.failed_at IS NOT NULL THEN
            CASE WHEN f.failed_at < clock_timestamp() - interval '1 minute' THEN 'first_failure' END
        WHEN b.sealed AND NOT EXISTS (
            SELECT FROM sendoff.barrier_member m
             WHERE m.barrier = b.no AND m.resolved_at IS NULL) THEN 'finished'
        WHEN EXISTS (
            SELECT FROM jsonb_object_keys(b.policy -> 'groups') AS g(grp)
             WHERE EXISTS (SELECT FROM sendoff.barrier_member m WHERE m.barrier = b.no
                              AND m.grp = g.grp AND NOT m.watched AND m.resolved_at IS NULL)
               AND NOT EXISTS (SELECT FROM sendoff.barrier_member m WHERE m.barrier = b.no
                                  AND m.grp = g.grp AND m.watched AND m.resolved_at IS NULL))
            THEN 'unwatched' END
      FROM (SELECT o.* FROM sendoff.barrier o
             WHERE o.no > $1 AND o.state IN ('open', 'closing') ORDER BY o.no LIMIT $2) AS b
      LEFT JOIN LATERAL (
          SELECT min(m.resolved_at) AS failed_at FROM sendoff.barrier_member m
           WHERE b.first_failure AND m.barrier = b.no AND m.resolved_at IS NOT NULL
             AND m.ok IS NOT TRUE AND NOT m.missing AND m.resolved_at >= b.opened_at) AS f ON true
     ORDER BY b.no
$$;
REVOKE ALL ON FUNCTION sendoff.barrier_findings(bigint, integer) FROM PUBLIC;

-- Completes or watches an open barrier anew, from what is there.
CREATE OR REPLACE FUNCTION sendoff.barrier_mend(p_no bigint) RETURNS text
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET lock_timeout = '2s' SET jit = off
    SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
    SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
    l_state text;
BEGIN
    UPDATE sendoff.barrier b SET version = b.version + 1 WHERE b.no = p_no
        RETURNING b.state INTO l_state;
    IF l_state IS DISTINCT FROM 'open' THEN
        RETURN l_state;
    END IF;
    RETURN sendoff.barrier_evaluate(p_no, true);
END
$$;
REVOKE ALL ON FUNCTION sendoff.barrier_mend(bigint) FROM PUBLIC;

-- Deletes at most p_rows rows of barriers whose time is over: first it is gone for everybody, then
-- its members go, then its own row. Waits for nobody.
CREATE OR REPLACE FUNCTION sendoff.barrier_sweep(p_rows integer) RETURNS bigint
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
    SET enable_mergejoin = off
AS $$
DECLARE
    l_no   bigint;
    l_rows bigint;
    l_sum  bigint := 0;
BEGIN
    WITH over AS MATERIALIZED (
        SELECT b.no FROM sendoff.barrier b
         WHERE NOT b.gone AND b.expires_at <= clock_timestamp()
           AND sendoff.barrier_has_left(b.continuation)
         ORDER BY b.expires_at LIMIT 100 FOR UPDATE SKIP LOCKED)
    UPDATE sendoff.barrier b SET gone = true, version = b.version + 1 FROM over o WHERE b.no = o.no;
    FOR l_no IN SELECT b.no FROM sendoff.barrier b WHERE b.gone ORDER BY b.no LIMIT 100
                   FOR UPDATE SKIP LOCKED
    LOOP
        WITH part AS MATERIALIZED (
            SELECT m.barrier, m.name FROM sendoff.barrier_member m WHERE m.barrier = l_no
             ORDER BY m.name LIMIT p_rows - l_sum FOR UPDATE SKIP LOCKED)
        DELETE FROM sendoff.barrier_member m USING part s WHERE m.barrier = ANY (ARRAY[s.barrier]) AND m.name = ANY (ARRAY[s.name]);
        GET DIAGNOSTICS l_rows = ROW_COUNT;
        l_sum := l_sum + l_rows;
        EXIT WHEN l_sum >= p_rows;
        IF NOT EXISTS (SELECT FROM sendoff.barrier_member m WHERE m.barrier = l_no) THEN
            DELETE FROM sendoff.barrier_evidence e WHERE e.barrier = l_no;
            DELETE FROM sendoff.barrier b WHERE b.no = l_no;
            l_sum := l_sum + 1;
        END IF;
    END LOOP;
    RETURN l_sum;
END
$$;
REVOKE ALL ON FUNCTION sendoff.barrier_sweep(integer) FROM PUBLIC;
