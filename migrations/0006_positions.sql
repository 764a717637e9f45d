-- How far Kafka partitions have been read. A position moves in the transaction that stores the rows before it.

CREATE TABLE dlo_installation (
    single  boolean     PRIMARY KEY DEFAULT true CHECK (single),
    id      uuid        NOT NULL DEFAULT gen_random_uuid(),
    made_at timestamptz NOT NULL DEFAULT now()
);
INSERT INTO dlo_installation DEFAULT VALUES;
COMMENT ON TABLE dlo_installation IS 'The name of this installation, by which members of a consumer group know each other.';

CREATE TABLE dlo_positions (
    cluster_id text        NOT NULL,
    group_id   text        NOT NULL,
    topic      text        NOT NULL,
    partition  int         NOT NULL,
    epoch      int         NOT NULL DEFAULT 0,
    topic_id   uuid        NOT NULL,
    position   bigint      NOT NULL,
    since      bigint      NOT NULL,
    lost       bigint      NOT NULL DEFAULT 0,
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (cluster_id, group_id, topic, partition)
) WITH (fillfactor = 50);

COMMENT ON COLUMN dlo_positions.epoch IS 'Raised when the topic was made anew: its offsets begin again.';
COMMENT ON COLUMN dlo_positions.topic_id IS 'Kafka''s id of the topic; all zero where the broker does not tell.';
COMMENT ON COLUMN dlo_positions.position IS 'The next offset to read: every message before it is in dead_letter_queue.';
COMMENT ON COLUMN dlo_positions.since IS 'The first offset that was to be read in this epoch.';
COMMENT ON COLUMN dlo_positions.lost IS 'Messages that retention removed before they could be read, all epochs together.';

-- Last statement of a capture transaction, sent together with its COMMIT so that no lock outlives a frozen client.
-- Partitions come in one order from every writer. There is no message between p_from and p_first, so a position
-- anywhere there is as good. What is elsewhere is refused, with where it is.
CREATE FUNCTION dlo_positions_move(
    p_cluster text, p_group text, p_topics text[], p_partitions int[], p_epochs int[], p_from bigint[], p_first bigint[], p_to bigint[]
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    moved jsonb := '[]';
BEGIN
    FOR i IN 1 .. cardinality(p_topics) LOOP
        UPDATE dlo_positions SET position = p_to[i], updated_at = now()
        WHERE cluster_id = p_cluster AND group_id = p_group AND topic = p_topics[i] AND partition = p_partitions[i]
            AND epoch = p_epochs[i] AND position BETWEEN p_from[i] AND p_first[i];
        IF NOT FOUND THEN
            moved := moved || jsonb_build_array(jsonb_build_object('topic', p_topics[i], 'partition', p_partitions[i]) || coalesce((
                SELECT jsonb_build_object('epoch', epoch, 'position', position) FROM dlo_positions
                WHERE cluster_id = p_cluster AND group_id = p_group AND topic = p_topics[i] AND partition = p_partitions[i]
            ), '{}'));
        END IF;
    END LOOP;
    IF moved <> '[]' THEN
        RAISE EXCEPTION 'positions of group % are not where they were expected', p_group USING ERRCODE = 'DL005', DETAIL = moved::text;
    END IF;
END $$;
