-- The table people and their ORMs write SQL against. The first nine columns are a public contract.

CREATE SEQUENCE dead_letter_queue_id_seq AS bigint;

CREATE TABLE dead_letter_queue (
    id                   bigint      NOT NULL DEFAULT nextval('dead_letter_queue_id_seq'),
    service_name         text        NOT NULL,
    event_type           text        NOT NULL,
    payload              jsonb,
    error_message        text,
    traceback            text,
    retry_count          integer     NOT NULL DEFAULT 0,
    created_at           timestamptz NOT NULL DEFAULT now(),
    status               text        NOT NULL DEFAULT 'FAILED',

    resolved_by          text,
    error_class          text,
    source               text,
    broker               text,
    broker_kind          text        NOT NULL DEFAULT 'sql',
    vhost                text,
    dialect              text,
    team                 text,
    origin_exchange      text,
    origin_routing_key   text,
    origin_queue         text,
    origin_topic         text,
    origin_partition     integer,
    origin_offset        bigint,
    origin_timestamp     timestamptz,
    consumer             text,
    captured_topic       text,
    captured_partition   integer,
    captured_offset      bigint,
    captured_queue       text,
    captured_exchange    text,
    captured_routing_key text,
    message_key          bytea,
    message_id           text,
    correlation_id       text,
    trace_id             text,
    body                 bytea,
    payload_state        text        NOT NULL DEFAULT 'sql',
    headers              jsonb,
    wire                 bytea,
    failed_at            timestamptz,
    attempts             integer,
    tags                 text[],
    next_retry_at        timestamptz,
    failure_group_id     bigint,
    replay_of            bigint,
    duplicate_of         bigint,
    notes                jsonb,
    capture_session      bigint,
    delivery_tag         bigint,

    PRIMARY KEY (id, created_at),
    CONSTRAINT dead_letter_queue_status_known CHECK (status IN ('FAILED', 'PENDING_RETRY', 'REPLAYING', 'REPLAYED',
        'RESOLVED', 'DEAD', 'DISCARDED', 'DUPLICATE', 'REPEATED')),
    CONSTRAINT dead_letter_queue_resolved_by_known CHECK (resolved_by IN ('consumed', 'quiet', 'operator'))
) PARTITION BY RANGE (created_at);

ALTER SEQUENCE dead_letter_queue_id_seq OWNED BY dead_letter_queue.id;

-- lz4 doubles what a COPY of wide rows reaches; a server built without it keeps its default.
DO $$
DECLARE
    wide text;
BEGIN
    FOREACH wide IN ARRAY ARRAY['payload', 'error_message', 'traceback', 'body', 'headers', 'wire', 'notes'] LOOP
        EXECUTE format('ALTER TABLE dead_letter_queue ALTER COLUMN %I SET COMPRESSION lz4', wide);
    END LOOP;
EXCEPTION WHEN feature_not_supported THEN
    RAISE NOTICE 'this server has no lz4: columns keep the default compression';
END $$;

-- Catches what no partition was made for; maintenance empties it.
CREATE TABLE dead_letter_queue_default PARTITION OF dead_letter_queue DEFAULT;

-- What is due for a retry, by time.
CREATE INDEX dead_letter_queue_due ON dead_letter_queue (next_retry_at) WHERE status = 'PENDING_RETRY';
-- The rare states people filter by; the common one is found along the primary key.
CREATE INDEX dead_letter_queue_dead ON dead_letter_queue (id) WHERE status = 'DEAD';
CREATE INDEX dead_letter_queue_replaying ON dead_letter_queue (id) WHERE status IN ('PENDING_RETRY', 'REPLAYING', 'REPLAYED');
-- The lives of a letter.
CREATE INDEX dead_letter_queue_returns ON dead_letter_queue (replay_of) WHERE replay_of IS NOT NULL;
CREATE INDEX dead_letter_queue_copies ON dead_letter_queue (duplicate_of) WHERE duplicate_of IS NOT NULL;

COMMENT ON TABLE dead_letter_queue IS 'Captured failed messages, one row each. Services may insert rows of their own.';
COMMENT ON COLUMN dead_letter_queue.service_name IS 'The application whose message failed.';
COMMENT ON COLUMN dead_letter_queue.event_type IS 'Message or task type where known, else the original routing key or topic.';
COMMENT ON COLUMN dead_letter_queue.payload IS 'The business payload; NULL where PostgreSQL refuses it as jsonb. The exact bytes are in body.';
COMMENT ON COLUMN dead_letter_queue.retry_count IS 'Our retries; the consumer''s own tries are in attempts.';
COMMENT ON COLUMN dead_letter_queue.created_at IS 'When the letter was captured, by the database''s clock.';
COMMENT ON COLUMN dead_letter_queue.status IS 'FAILED PENDING_RETRY REPLAYING REPLAYED RESOLVED DEAD DISCARDED DUPLICATE REPEATED';
COMMENT ON COLUMN dead_letter_queue.resolved_by IS 'On what ground: consumed (proved), quiet (did not come back), operator.';
COMMENT ON COLUMN dead_letter_queue.error_class IS 'The innermost cause where the dialect gives a chain.';
COMMENT ON COLUMN dead_letter_queue.broker_kind IS 'rabbitmq, kafka, sqs, or sql: written by a service itself.';
COMMENT ON COLUMN dead_letter_queue.dialect IS 'The framework whose headers told the story; NULL when none was recognised.';
COMMENT ON COLUMN dead_letter_queue.origin_exchange IS 'Where the message was first published.';
COMMENT ON COLUMN dead_letter_queue.origin_queue IS 'The queue where it died.';
COMMENT ON COLUMN dead_letter_queue.origin_timestamp IS 'The producer''s time of the original.';
COMMENT ON COLUMN dead_letter_queue.consumer IS 'Who failed: consumer group, actor, class or task; else the failed queue.';
COMMENT ON COLUMN dead_letter_queue.body IS 'The exact bytes; NULL only when there were none.';
COMMENT ON COLUMN dead_letter_queue.payload_state IS 'complete, wrapped, lossy, pointer, tombstone, or sql.';
COMMENT ON COLUMN dead_letter_queue.headers IS 'Headers for reading; {"$b64": …} are bytes, {"$column": …} stands in that column.';
COMMENT ON COLUMN dead_letter_queue.wire IS 'Typed properties and headers, enough to publish the same message again.';
COMMENT ON COLUMN dead_letter_queue.failed_at IS 'When the consumer gave up, if known.';
COMMENT ON COLUMN dead_letter_queue.attempts IS 'The consumer''s own tries: 0 never tried, NULL unknown.';
COMMENT ON COLUMN dead_letter_queue.next_retry_at IS 'When a PENDING_RETRY letter is due; NULL is at once.';
COMMENT ON COLUMN dead_letter_queue.replay_of IS 'The first letter whose replay this is the return of.';
COMMENT ON COLUMN dead_letter_queue.duplicate_of IS 'The letter this is a second copy of.';
COMMENT ON COLUMN dead_letter_queue.notes IS 'What had to be done to store it, doubts, other dialects.';
COMMENT ON COLUMN dead_letter_queue.capture_session IS 'The channel session that delivered it (dlo_capture_sessions).';
COMMENT ON COLUMN dead_letter_queue.delivery_tag IS 'Its delivery tag in that session.';
