-- One row an attempt to send one letter back.

CREATE TABLE dlo_replays (
    id            bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    letter_id     bigint      NOT NULL,
    letter_created_at timestamptz NOT NULL,
    token         uuid        NOT NULL,
    source        text,
    target        jsonb       NOT NULL,
    sent_exchange text,
    sent_routing_key text,
    state         text        NOT NULL DEFAULT 'PENDING',
    verdict       text,
    error         text,
    requested_by  text        NOT NULL,
    requested_at  timestamptz NOT NULL DEFAULT now(),
    instance      text,
    leased_at     timestamptz,
    lease_until   timestamptz,
    done_at       timestamptz,
    returned_as   bigint,
    CONSTRAINT dlo_replays_state_known CHECK (state IN ('PENDING', 'LEASED', 'DONE', 'IN_DOUBT')),
    CONSTRAINT dlo_replays_verdict_known CHECK (verdict IN ('ACCEPTED', 'ROUTED', 'CONSUMED', 'DIED_AGAIN', 'UNROUTABLE', 'REFUSED'))
);

CREATE UNIQUE INDEX dlo_replays_token ON dlo_replays (token);
CREATE INDEX dlo_replays_letter ON dlo_replays (letter_id);
CREATE INDEX dlo_replays_open ON dlo_replays (id) WHERE state = 'PENDING';
CREATE INDEX dlo_replays_leased ON dlo_replays (lease_until) WHERE state = 'LEASED';
-- A letter is on its way once at a time, whoever asks.
CREATE UNIQUE INDEX dlo_replays_once ON dlo_replays (letter_id) WHERE state IN ('PENDING', 'LEASED');

COMMENT ON TABLE dlo_replays IS 'One row an attempt to send one letter back.';
COMMENT ON COLUMN dlo_replays.token IS 'Travels as header dlo-replay-id; unguessable.';
COMMENT ON COLUMN dlo_replays.verdict IS 'What is known: ACCEPTED, ROUTED, CONSUMED, DIED_AGAIN, UNROUTABLE, REFUSED.';
COMMENT ON COLUMN dlo_replays.returned_as IS 'The row in which the message came back.';

-- Wakes the replay loop of every instance without polling at speed.
CREATE FUNCTION dlo_notify_replays() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('dlo_replays', '');
    RETURN NULL;
END $$;
CREATE TRIGGER dlo_replays_wake AFTER INSERT ON dlo_replays FOR EACH STATEMENT EXECUTE FUNCTION dlo_notify_replays();
