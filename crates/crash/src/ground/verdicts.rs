//! Whose verdicts the database took: a trigger beside the product that lists every retry and every
//! quarantine whose words name another relay than the lane's owner.
//!
//! Publish failures on purpose name the relay that met them, and the relay writes their words with
//! its verdict. Take-overs wait for settlements that are under way, so the owner that the trigger
//! reads is the one at that moment. What does not belong here: what a foreign verdict means.

/// The relay's sessions have a search path without `public`.
pub(super) const IN_POSTGRES: &str = "
    CREATE TABLE public.foreign_verdict (words text NOT NULL);
    CREATE FUNCTION public.watch_verdict() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO public.foreign_verdict
        SELECT format('row %s, whose lane %s owns: %s', NEW.seq, l.owner, NEW.last_error)
          FROM sendoff.lane l
         WHERE l.lane = NEW.lane
           AND l.owner IS DISTINCT FROM split_part(NEW.last_error, ' by relay ', 2);
        RETURN NULL;
    END $$;
    CREATE TRIGGER watch_verdict AFTER UPDATE ON sendoff.outbox FOR EACH ROW
        WHEN (NEW.last_error LIKE '% by relay %'
              AND (NEW.attempts > OLD.attempts
                   OR NEW.quarantined_at IS NOT NULL AND OLD.quarantined_at IS NULL))
        EXECUTE FUNCTION public.watch_verdict();";

pub(super) const IN_SQLITE: &str = "
    CREATE TABLE foreign_verdict (words TEXT NOT NULL);
    CREATE TRIGGER watch_verdict AFTER UPDATE ON sendoff_outbox
        WHEN new.last_error LIKE '% by relay %'
             AND (new.attempts > old.attempts
                  OR new.quarantined_at IS NOT NULL AND old.quarantined_at IS NULL)
    BEGIN
        INSERT INTO foreign_verdict
        SELECT 'row ' || new.seq || ', whose lane ' || ifnull(l.owner, 'nobody') || ' owns: '
               || new.last_error
          FROM sendoff_lane l
         WHERE l.lane = new.lane
           AND l.owner IS NOT substr(new.last_error, instr(new.last_error, ' by relay ') + 10);
    END;";

pub(super) const FOREIGN: &str = "SELECT words FROM foreign_verdict";
