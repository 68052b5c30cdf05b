-- How barriers stand. Times are microseconds since 1970, names hexadecimal digits.

CREATE OR REPLACE FUNCTION sendoff.barrier_micros(p_at timestamptz) RETURNS bigint
    LANGUAGE sql IMMUTABLE
AS $$ SELECT (extract(epoch FROM $1) * 1000000)::bigint $$;

CREATE OR REPLACE FUNCTION sendoff.barrier_standing(p_barrier sendoff.barrier) RETURNS json
    LANGUAGE sql STABLE
AS $$
    SELECT json_build_object(
        'id', ($1).id, 'total', c.total, 'resolved', c.resolved,
        'pending', c.total - c.resolved - c.missing, 'failed', c.failed, 'missing', c.missing,
        'state', CASE WHEN sendoff.barrier_is_over($1) THEN 'expired' ELSE ($1).state END,
        'overdue', ($1).state IN ('open', 'closing') AND ($1).deadline_at <= clock_timestamp(),
        'dispatched', CASE WHEN ($1).continuation IS NOT NULL THEN
            sendoff.barrier_has_left(($1).continuation) END,
        'reason', ($1).reason, 'epoch', ($1).epoch, 'sealed', ($1).sealed,
        'created_at', sendoff.barrier_micros(($1).created_at),
        'deadline_at', sendoff.barrier_micros(($1).deadline_at),
        'on_deadline', ($1).on_deadline,
        'completed_at', sendoff.barrier_micros(($1).completed_at),
        'last_ack_at', sendoff.barrier_micros(c.last_ack_at),
        'expires_at', sendoff.barrier_micros(($1).expires_at),
        'continue_with', ($1).continue_with, 'handed', ($1).handed,
        'parent', ($1).parent_id, 'parent_member', encode(($1).parent_member, 'hex'),
        'incarnation', ($1).incarnation)
      FROM (SELECT count(*) AS total,
                   count(*) FILTER (WHERE m.resolved_at IS NOT NULL AND NOT m.missing) AS resolved,
                   count(*) FILTER (WHERE NOT m.ok) AS failed,
                   count(*) FILTER (WHERE m.missing) AS missing,
                   max(m.resolved_at) FILTER (WHERE NOT m.missing) AS last_ack_at
              FROM sendoff.barrier_member m WHERE m.barrier = ($1).no) AS c
$$;

-- Null where there is no such barrier.
CREATE OR REPLACE FUNCTION sendoff.barrier_state(p_tenant text, p_id text) RETURNS text
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
    SELECT sendoff.barrier_standing(b)::text FROM sendoff.barrier b
     WHERE b.tenant = $1 AND b.id = $2 AND NOT b.gone
$$;
REVOKE ALL ON FUNCTION sendoff.barrier_state(text, text) FROM PUBLIC;

-- Barriers of a tenant in the order of their ids.
CREATE OR REPLACE FUNCTION sendoff.barrier_list(
    p_tenant text, p_after text, p_rows integer
) RETURNS text
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
    SELECT coalesce(json_agg(sendoff.barrier_standing(b.row) ORDER BY (b.row).id), '[]')::text
      FROM (SELECT b AS row FROM sendoff.barrier b
             WHERE b.tenant = $1 AND NOT b.gone AND b.id > coalesce($2, '')
             ORDER BY b.id LIMIT $3) AS b
$$;
REVOKE ALL ON FUNCTION sendoff.barrier_list(text, text, integer) FROM PUBLIC;

-- A page of members as [name, micros, outcome, channel], after p_after by name; null where there is no
-- such barrier. With 'only' it is the one member p_after, resolved or not.
CREATE OR REPLACE FUNCTION sendoff.barrier_page(
    p_tenant text, p_id text, p_which text, p_after bytea, p_rows integer
) RETURNS text
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET jit = off
    SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
DECLARE
    l_no   bigint;
    l_page json;
BEGIN
    SELECT b.no INTO l_no FROM sendoff.barrier b
     WHERE b.tenant = p_tenant AND b.id = p_id AND NOT b.gone AND NOT sendoff.barrier_is_over(b);
    IF l_no IS NULL THEN
        RETURN NULL;
    END IF;
    IF p_which = 'only' THEN
        SELECT json_agg(json_build_array(encode(m.name, 'hex'),
                   sendoff.barrier_micros(CASE WHEN NOT m.missing THEN m.resolved_at END),
                   m.outcome, m.channel)) INTO l_page
          FROM sendoff.barrier_member m WHERE m.barrier = l_no AND m.name = p_after;
    ELSIF p_which IN ('failed', 'missing') THEN
        -- When a member was given up is no time at which it was resolved.
        SELECT json_agg(json_build_array(encode(p.name, 'hex'),
                   sendoff.barrier_micros(CASE WHEN NOT p.missing THEN p.resolved_at END),
                   p.outcome, p.channel) ORDER BY p.name) INTO l_page
          FROM (SELECT m.* FROM sendoff.barrier_member m
                 WHERE m.barrier = l_no AND m.name > p_after
                   AND m.resolved_at IS NOT NULL AND m.ok IS NOT TRUE
                   AND m.missing = (p_which = 'missing')
                 ORDER BY m.name LIMIT p_rows) AS p;
    ELSE
        SELECT json_agg(json_build_array(encode(p.name, 'hex'), sendoff.barrier_micros(p.resolved_at),
                   p.outcome, p.channel) ORDER BY p.name) INTO l_page
          FROM (SELECT m.* FROM sendoff.barrier_member m
                 WHERE m.barrier = l_no AND m.name > p_after AND NOT m.missing
                   AND (coalesce(m.resolved_at, 'infinity') = 'infinity') = (p_which = 'pending')
                 ORDER BY m.name LIMIT p_rows) AS p;
    END IF;
    RETURN coalesce(l_page, '[]')::text;
END
$$;
REVOKE ALL ON FUNCTION sendoff.barrier_page(text, text, text, bytea, integer) FROM PUBLIC;

-- What a barrier waits for, beside how it stands; null where there is none.
CREATE OR REPLACE FUNCTION sendoff.barrier_reasons(p_tenant text, p_id text) RETURNS text
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
    SELECT json_build_object(
        'standing', sendoff.barrier_standing(b),
        'now', sendoff.barrier_micros(clock_timestamp()),
        'waiting_for', (SELECT coalesce(json_agg(encode(p.name, 'hex') ORDER BY p.name), '[]') FROM (
            SELECT m.name FROM sendoff.barrier_member m
             WHERE m.barrier = b.no AND m.resolved_at IS NULL ORDER BY m.name LIMIT 100) AS p),
        'recent', (SELECT count(*) FROM sendoff.barrier_member m
            WHERE m.barrier = b.no AND NOT m.missing AND m.resolved_at > l.at - interval '1 minute'),
        'evidence', (SELECT coalesce(json_agg(json_build_array(sendoff.barrier_micros(e.at), e.kind,
                encode(e.member, 'hex'),
                ARRAY(SELECT encode(n, 'hex') FROM unnest(e.near) AS n), e.ok, e.channel)
                ORDER BY e.n), '[]') FROM sendoff.barrier_evidence e WHERE e.barrier = b.no))::text
      FROM sendoff.barrier b, LATERAL (
          SELECT max(m.resolved_at) AS at FROM sendoff.barrier_member m
           WHERE m.barrier = b.no AND NOT m.missing) AS l
     WHERE b.tenant = $1 AND b.id = $2 AND NOT b.gone
$$;
REVOKE ALL ON FUNCTION sendoff.barrier_reasons(text, text) FROM PUBLIC;

-- Which of p_names are members (as given), and the first p_rows members whatever they are: what near
-- misses are looked for in.
CREATE OR REPLACE FUNCTION sendoff.barrier_names(
    p_tenant text, p_id text, p_names bytea[], p_rows integer
) RETURNS SETOF bytea
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
    SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
    SELECT m.name FROM sendoff.barrier b, unnest($3) AS u(name), sendoff.barrier_member m
     WHERE b.tenant = $1 AND b.id = $2 AND NOT b.gone AND m.barrier = b.no AND m.name = u.name
    UNION ALL
    (SELECT m.name FROM sendoff.barrier b, sendoff.barrier_member m
      WHERE b.tenant = $1 AND b.id = $2 AND NOT b.gone AND m.barrier = b.no
      ORDER BY m.name LIMIT $4)
$$;
REVOKE ALL ON FUNCTION sendoff.barrier_names(text, text, bytea[], integer) FROM PUBLIC;

-- Keeps refused acknowledgements, the last 100 of each barrier.
CREATE OR REPLACE FUNCTION sendoff.barrier_witness(
    p_tenant text, p_id text, p_kinds text[], p_members bytea[], p_near bytea[], p_near_of integer[],
    p_oks boolean[], p_channel text
) RETURNS void
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    l_no bigint;
BEGIN
    SELECT b.no INTO l_no FROM sendoff.barrier b
     WHERE b.tenant = p_tenant AND b.id = p_id AND NOT b.gone;
    IF l_no IS NULL THEN
        RETURN;
    END IF;
    INSERT INTO sendoff.barrier_evidence (barrier, kind, member, near, ok, channel)
    SELECT l_no, u.kind, u.member,
           ARRAY(SELECT n.name FROM unnest(p_near, p_near_of) AS n(name, of) WHERE n.of = u.n),
           u.ok, p_channel
      FROM unnest(p_kinds, p_members, p_oks) WITH ORDINALITY AS u(kind, member, ok, n)
     ORDER BY u.n DESC LIMIT 100;
    DELETE FROM sendoff.barrier_evidence e WHERE e.barrier = l_no AND e.n <= (
        SELECT o.n FROM sendoff.barrier_evidence o WHERE o.barrier = l_no
         ORDER BY o.n DESC OFFSET 100 LIMIT 1);
END
$$;
REVOKE ALL ON FUNCTION sendoff.barrier_witness(
    text, text, text[], bytea[], bytea[], integer[], boolean[], text) FROM PUBLIC;
