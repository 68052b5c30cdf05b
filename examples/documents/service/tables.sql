-- The service's own tables.

CREATE TABLE IF NOT EXISTS batches (id text PRIMARY KEY);

CREATE TABLE IF NOT EXISTS documents (
    batch text NOT NULL REFERENCES batches,
    name text NOT NULL,
    -- Where the partner answers: nobody else can know it, and it says which document is meant.
    key text NOT NULL UNIQUE DEFAULT gen_random_uuid()::text,
    -- Written with the acknowledgement, in its transaction.
    answered_by text,
    -- Written by the continuation: done, failed or missing, and the receipt or the error.
    state text NOT NULL DEFAULT 'sent',
    note text,
    PRIMARY KEY (batch, name)
);

-- Answers that no document takes, for a person to look at.
CREATE TABLE IF NOT EXISTS refused (
    batch text NOT NULL,
    name text NOT NULL,
    reason text NOT NULL,
    PRIMARY KEY (batch, name)
);

-- One row for each continuation that was applied, named by its message.
CREATE TABLE IF NOT EXISTS summaries (
    message text PRIMARY KEY,
    batch text NOT NULL REFERENCES batches,
    done bigint NOT NULL,
    failed bigint NOT NULL,
    missing bigint NOT NULL,
    written_at timestamptz NOT NULL DEFAULT now()
);

-- The partner's book, as far as we may read it: here a table, elsewhere a foreign table, or a report
-- that is loaded. The probe looks there for answers that were lost.
CREATE TABLE IF NOT EXISTS partner_book (
    batch text NOT NULL,
    document text NOT NULL,
    ok boolean NOT NULL,
    error text,
    result jsonb,
    PRIMARY KEY (batch, document)
);
