-- How a second copy of a RabbitMQ message is told from a new message, across crashes, replicas and frozen writers.
--
-- A session is the life of one channel on one queue. Its rows carry its id and their delivery tags; acks known
-- to have reached the broker are recorded with the next batch. What lies between is the window in which the
-- broker may deliver again. Whoever receives a redelivery raises the queue's epoch first; a writer whose
-- session has not been seen alive since that epoch cannot commit any more.

CREATE TABLE dlo_queue_epochs (
    source text   NOT NULL,
    queue  text   NOT NULL,
    epoch  bigint NOT NULL DEFAULT 1,
    PRIMARY KEY (source, queue)
);

CREATE TABLE dlo_capture_sessions (
    id          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    source      text        NOT NULL,
    queue       text        NOT NULL,
    instance    text        NOT NULL,
    opened_at   timestamptz NOT NULL DEFAULT now(),
    closed_at   timestamptz,
    commits     bigint      NOT NULL DEFAULT 0,
    acked_tag   bigint      NOT NULL DEFAULT 0,
    floor_id    bigint      NOT NULL,
    ceiling_id  bigint      NOT NULL,
    claimed     bigint[]    NOT NULL DEFAULT '{}'
) WITH (fillfactor = 50);

CREATE INDEX dlo_capture_sessions_queue ON dlo_capture_sessions (source, queue);

COMMENT ON COLUMN dlo_capture_sessions.commits IS 'How many of its transactions have committed.';
COMMENT ON COLUMN dlo_capture_sessions.acked_tag IS 'Every delivery up to this tag is known to be acked.';
COMMENT ON COLUMN dlo_capture_sessions.floor_id IS 'Rows not known to be acked have a greater id.';
COMMENT ON COLUMN dlo_capture_sessions.ceiling_id IS 'Rows of this session have this id or a smaller one.';
COMMENT ON COLUMN dlo_capture_sessions.claimed IS 'Rows whose second copy has been stored.';

-- Last statement of a capture transaction, sent together with its COMMIT so that no lock outlives a frozen client.
-- Returns an id that no row of the session is above. p_commit numbers the session's transactions: one whose
-- answer got lost is not written twice.
CREATE FUNCTION dlo_capture_fence(p_session bigint, p_commit bigint, p_epoch bigint, p_acked bigint, p_floor bigint)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    current_epoch bigint;
    ceiling       bigint;
BEGIN
    SELECT e.epoch INTO current_epoch
    FROM dlo_queue_epochs e JOIN dlo_capture_sessions s ON e.source = s.source AND e.queue = s.queue
    WHERE s.id = p_session FOR SHARE OF e;
    UPDATE dlo_capture_sessions
    SET commits = p_commit, acked_tag = greatest(acked_tag, p_acked), floor_id = greatest(floor_id, p_floor),
        ceiling_id = (SELECT last_value FROM dead_letter_queue_id_seq)
    WHERE id = p_session AND commits = p_commit - 1
    RETURNING ceiling_id INTO ceiling;
    IF NOT FOUND THEN
        IF (SELECT commits FROM dlo_capture_sessions WHERE id = p_session) >= p_commit THEN
            RAISE EXCEPTION 'commit % of capture session % is done already', p_commit, p_session USING ERRCODE = 'DL003';
        END IF;
        RAISE EXCEPTION 'this database does not know commit % of capture session %', p_commit - 1, p_session
            USING ERRCODE = 'DL004', HINT = 'it was restored from a backup; the session starts again';
    END IF;
    IF current_epoch IS DISTINCT FROM p_epoch THEN
        RAISE EXCEPTION 'capture session % was last seen alive at epoch %, the queue is at %', p_session, p_epoch, current_epoch
            USING ERRCODE = 'DL001';
    END IF;
    RETURN ceiling;
END $$;

-- Marks rows as having got their second copy; refuses when another writer was first.
CREATE FUNCTION dlo_capture_claim(p_session bigint, p_rows bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE dlo_capture_sessions SET claimed = claimed || p_rows WHERE id = p_session AND NOT claimed && p_rows;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'another writer claimed rows of capture session % first', p_session USING ERRCODE = 'DL002';
    END IF;
END $$;

-- Rows that the table above refuses in every form: never lost, and in nobody's way.
CREATE TABLE dlo_quarantine (
    id          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    captured_at timestamptz NOT NULL DEFAULT now(),
    source      text        NOT NULL,
    queue       text,
    error       text        NOT NULL,
    body        bytea,
    message_key bytea,
    wire        bytea
);
COMMENT ON TABLE dlo_quarantine IS 'Messages that dead_letter_queue refused even as bare bytes, with the error.';
