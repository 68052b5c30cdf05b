-- What roles need, version 3.

-- It reads nothing of the table: whoever may only insert can call it. It runs with the caller's rights.
CREATE OR REPLACE FUNCTION sendoff.send(
    topic   text,
    key     text        DEFAULT NULL,
    body    bytea       DEFAULT '',
    headers jsonb       DEFAULT '{}',
    source  text        DEFAULT 'sql',
    id      text        DEFAULT gen_random_uuid()::text,
    due_at  timestamptz DEFAULT NULL
) RETURNS text
    LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
    INSERT INTO sendoff.outbox (id, source, topic, key, headers, body, due_at)
    VALUES ($6, $5, $1, $2, $4, $3, $7);
    SELECT $6
$$;
