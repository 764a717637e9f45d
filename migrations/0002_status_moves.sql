-- Which status may follow which. The same table stands in src/policy/moves.rs; a test compares the two.
-- The check constraint knows only the words. A trigger on UPDATE costs capture nothing.

CREATE FUNCTION dlo_check_status_move() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.status = OLD.status OR NEW.status = ANY (CASE OLD.status
        WHEN 'FAILED'        THEN ARRAY['PENDING_RETRY', 'REPLAYING', 'RESOLVED', 'DEAD', 'DISCARDED']
        WHEN 'PENDING_RETRY' THEN ARRAY['FAILED', 'REPLAYING', 'RESOLVED', 'DEAD', 'DISCARDED']
        WHEN 'REPLAYING'     THEN ARRAY['FAILED', 'PENDING_RETRY', 'REPLAYED', 'RESOLVED', 'DEAD']
        WHEN 'REPLAYED'      THEN ARRAY['FAILED', 'PENDING_RETRY', 'REPLAYING', 'RESOLVED', 'DEAD', 'DISCARDED']
        WHEN 'RESOLVED'      THEN ARRAY['FAILED', 'PENDING_RETRY', 'REPLAYING', 'DEAD']
        WHEN 'DEAD'          THEN ARRAY['FAILED', 'PENDING_RETRY', 'REPLAYING', 'RESOLVED', 'DISCARDED']
        WHEN 'DISCARDED'     THEN ARRAY['FAILED']
        WHEN 'DUPLICATE'     THEN ARRAY['FAILED', 'DISCARDED']
        ELSE ARRAY[]::text[]
    END) THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'a letter that is % cannot become %', OLD.status, NEW.status
        USING ERRCODE = 'check_violation', CONSTRAINT = 'dlo_status_move', HINT = 'reopen it first (FAILED), where that is allowed';
END $$;

CREATE TRIGGER dlo_status_move BEFORE UPDATE OF status ON dead_letter_queue
    FOR EACH ROW EXECUTE FUNCTION dlo_check_status_move();
