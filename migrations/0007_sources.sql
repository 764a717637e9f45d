-- What the instances that capture say of their sources, every few seconds: for people who look, and to know which
-- consumer group a source is.

CREATE TABLE dlo_sources (
    name           text        NOT NULL,
    instance       text        NOT NULL,
    broker         text        NOT NULL,
    broker_kind    text        NOT NULL,
    cluster_id     text,
    group_id       text,
    topics         text[],
    queue          text,
    waiting        bigint,
    partitions     jsonb       NOT NULL DEFAULT '[]',
    up             boolean     NOT NULL,
    trouble        text,
    running        boolean     NOT NULL DEFAULT true,
    last_letter_at timestamptz,
    reported_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (name, instance)
) WITH (fillfactor = 50);

COMMENT ON TABLE dlo_sources IS 'Sources as each instance last saw them. The newest row of a source stays when its instance is gone.';
COMMENT ON COLUMN dlo_sources.cluster_id IS 'Kafka: with group_id the key into dlo_positions; NULL until the group was joined.';
COMMENT ON COLUMN dlo_sources.topics IS 'Kafka: as configured; ^ marks a regular expression.';
COMMENT ON COLUMN dlo_sources.waiting IS 'RabbitMQ: messages of the queue that are not stored yet.';
COMMENT ON COLUMN dlo_sources.partitions IS 'Kafka: first and end offset of each partition, where it is stopped, and where somebody set the group''s offset.';
COMMENT ON COLUMN dlo_sources.running IS 'False once the instance has stopped in good order.';
