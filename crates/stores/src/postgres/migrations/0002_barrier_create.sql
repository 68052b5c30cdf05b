-- Creations.

-- Whether a message has left the outbox.
CREATE OR REPLACE FUNCTION sendoff.barrier_has_left(p_message text) RETURNS boolean
    LANGUAGE sql STABLE
AS $$
    SELECT NOT EXISTS (
        SELECT FROM sendoff.message_key k, LATERAL (
            SELECT FROM sendoff.outbox o WHERE o.seq = k.seq OFFSET 0) AS o
         WHERE k.id = $1 AND k.source = 'sendoff.barrier')
$$;

-- Whether a barrier's time is over. It is not while its continuation stands in the outbox, waiting,
-- held or in quarantine: whoever gets that has to find the barrier.
CREATE OR REPLACE FUNCTION sendoff.barrier_is_over(p_barrier sendoff.barrier) RETURNS boolean
    LANGUAGE sql STABLE
AS $$
    SELECT ($1).expires_at <= clock_timestamp() AND sendoff.barrier_has_left(($1).continuation)
$$;

-- Writes the members of an array, at random places, with as many of each group watched as have to
-- be, and makes sure of it: a barrier with none watched would never complete.
CREATE OR REPLACE FUNCTION sendoff.barrier_fill(
    p_no bigint, p_policy jsonb, p_names bytea[], p_groups text[]
) RETURNS void
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    l_needed  jsonb;
    l_watched bigint;
    l_sum     bigint;
BEGIN
    SELECT coalesce(jsonb_object_agg(n.grp, n.needed), '{}'), coalesce(sum(n.needed), 0)
      INTO l_needed, l_sum
      FROM (SELECT coalesce(u.grp, '') AS grp,
                   sendoff.barrier_watches(p_policy -> 'groups' -> coalesce(u.grp, ''), count(*), 0, 0)
                       AS needed
              FROM unnest(p_names, p_groups) AS u(name, grp) GROUP BY coalesce(u.grp, '')) AS n;
    INSERT INTO sendoff.barrier_member (barrier, name, grp, place, watched)
    SELECT p_no, s.name, s.grp, s.place, s.nth <= (l_needed ->> s.grp)::bigint
      FROM (SELECT g.name, g.grp, g.place,
                   row_number() OVER (PARTITION BY g.grp ORDER BY g.place) AS nth
              FROM (SELECT u.name, coalesce(u.grp, '') AS grp,
                           (random() * 2147483646)::integer AS place
                      FROM unnest(p_names, p_groups) AS u(name, grp)) AS g) AS s;
    SELECT count(*) INTO l_watched FROM sendoff.barrier_member m
     WHERE m.barrier = p_no AND m.watched AND m.resolved_at IS NULL;
    IF l_watched IS DISTINCT FROM l_sum THEN
        RAISE EXCEPTION 'of a new barrier % members are watched, not %', l_watched, l_sum;
    END IF;
END
$$;

-- Creates a barrier or finds it. p_plan has continue_with, policy, plain, first_failure, sealed,
-- strict, deadline_us, on_deadline, parent, parent_member (in hexadecimal digits) and probe; what is
-- in it was checked by whoever made it. Answers a JSON object: `refused` with a detail, or `existing`,
-- `differs` and `complete`.
CREATE OR REPLACE FUNCTION sendoff.barrier_insert(
    p_tenant text, p_id text, p_names bytea[], p_groups text[], p_handed text, p_plan jsonb
) RETURNS text
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
DECLARE
    h        sendoff.barrier;
    p        sendoff.barrier;
    l_member sendoff.barrier_member;
    l_digest bytea;
    l_now    timestamptz := clock_timestamp();
    l_parent text := p_plan ->> 'parent';
    l_name   bytea := decode(p_plan ->> 'parent_member', 'hex');
BEGIN
    SELECT sha256(coalesce(string_agg(
               int4send(octet_length(u.name)) || u.name
                   || int4send(octet_length(coalesce(u.grp, '')))
                   || convert_to(coalesce(u.grp, ''), 'UTF8'),
               ''::bytea ORDER BY u.name), ''::bytea))
      INTO l_digest FROM unnest(p_names, p_groups) AS u(name, grp);
    LOOP
        SELECT b.* INTO h FROM sendoff.barrier b
         WHERE b.tenant = p_tenant AND b.id = p_id AND NOT b.gone;
        IF FOUND THEN
            IF sendoff.barrier_is_over(h) THEN
                UPDATE sendoff.barrier b SET gone = true, version = b.version + 1
                 WHERE b.no = h.no AND NOT b.gone AND b.expires_at = h.expires_at;
                CONTINUE;
            END IF;
            IF h.digest <> l_digest AND (p_plan -> 'strict')::boolean THEN
                RETURN json_build_object('refused', 'conflict', 'detail',
                    'the barrier is there already, with other members');
            END IF;
            RETURN json_build_object('existing', true, 'differs', h.digest <> l_digest,
                'complete', h.state IN ('complete', 'deadline'));
        END IF;
        IF l_parent IS NOT NULL THEN
            SELECT b.* INTO p FROM sendoff.barrier b
             WHERE b.tenant = p_tenant AND b.id = l_parent AND NOT b.gone;
            IF NOT FOUND THEN
                RETURN json_build_object('refused', 'not_found', 'detail',
                    'there is no barrier ' || l_parent || ' of which this one could be a member');
            ELSIF p.state <> 'open' OR l_now >= p.expires_at - interval '1 hour' THEN
                RETURN json_build_object('refused', 'conflict', 'detail', 'the barrier ' || l_parent
                    || ', of which this one would be a member, is not open');
            END IF;
            SELECT m.* INTO l_member FROM sendoff.barrier_member m
             WHERE m.barrier = p.no AND m.name = l_name;
            IF NOT FOUND THEN
                RETURN json_build_object('refused', 'unknown_member', 'detail',
                    'the barrier ' || l_parent || ' has no such member');
            ELSIF l_member.resolved_at IS NOT NULL THEN
                RETURN json_build_object('refused', 'conflict', 'detail',
                    'the member of the barrier ' || l_parent || ' is resolved already');
            END IF;
        END IF;
        INSERT INTO sendoff.barrier (
            tenant, id, sealed, plain, first_failure, created_at, opened_at, deadline_at, expires_at,
            total, on_deadline, continue_with, parent_id, parent_member, digest, policy, probe, handed)
        VALUES (p_tenant, p_id, (p_plan -> 'sealed')::boolean, (p_plan -> 'plain')::boolean,
            (p_plan -> 'first_failure')::boolean, l_now, l_now,
            l_now + (p_plan ->> 'deadline_us')::bigint * interval '1 microsecond',
            least(l_now + interval '7 days', p.expires_at), cardinality(p_names),
            p_plan ->> 'on_deadline', p_plan ->> 'continue_with', l_parent, l_name, l_digest,
            p_plan -> 'policy', p_plan ->> 'probe', p_handed)
        -- Waits for whoever creates the same at the same time, and then finds it.
        ON CONFLICT (tenant, id) WHERE NOT gone DO NOTHING
        RETURNING * INTO h;
        EXIT WHEN FOUND;
    END LOOP;
    IF cardinality(p_names) > 0 THEN
        PERFORM sendoff.barrier_fill(h.no, h.policy, p_names, p_groups);
    ELSIF h.sealed THEN
        PERFORM sendoff.barrier_finish(h.no, 'complete', 'all');
        RETURN '{"complete":true}';
    END IF;
    IF h.on_deadline = 'continue' THEN
        PERFORM sendoff.barrier_errand(h, 'deadline', h.deadline_at);
    END IF;
    RETURN '{}';
END
$$;
REVOKE ALL ON FUNCTION sendoff.barrier_insert(text, text, bytea[], text[], text, jsonb) FROM PUBLIC;
