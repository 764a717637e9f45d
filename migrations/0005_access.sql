-- Who may, who did, who runs.

CREATE TABLE dlo_tokens (
    name       text        PRIMARY KEY,
    role       text        NOT NULL CHECK (role IN ('viewer', 'operator', 'admin')),
    hash       bytea       NOT NULL UNIQUE,
    created_at timestamptz NOT NULL DEFAULT now(),
    revoked_at timestamptz
);
COMMENT ON COLUMN dlo_tokens.hash IS 'SHA-256 of the token, which is 256 random bits and needs no slow hash.';

CREATE TABLE dlo_audit (
    id      bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at      timestamptz NOT NULL DEFAULT now(),
    actor   text        NOT NULL,
    action  text        NOT NULL,
    letters bigint[],
    details jsonb
);

CREATE TABLE dlo_instances (
    id         text        PRIMARY KEY,
    host       text        NOT NULL,
    version    text        NOT NULL,
    parts      text[]      NOT NULL,
    started_at timestamptz NOT NULL DEFAULT now(),
    seen_at    timestamptz NOT NULL DEFAULT now()
);

-- What needs a person.
CREATE VIEW dlo_open AS
    SELECT id, created_at, service_name, event_type, status, error_class, error_message, attempts, retry_count,
           source, origin_queue, origin_topic, consumer
    FROM dead_letter_queue WHERE status IN ('FAILED', 'DEAD');

CREATE VIEW dlo_failures_weekly AS
    SELECT date_trunc('week', created_at) AS week, service_name, count(*) AS letters,
           count(*) FILTER (WHERE status IN ('FAILED', 'PENDING_RETRY', 'REPLAYING', 'DEAD')) AS open
    FROM dead_letter_queue WHERE status NOT IN ('DUPLICATE', 'REPEATED') GROUP BY 1, 2;
