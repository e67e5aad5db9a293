-- Tables and functions of scenewright/providers/shared_limits.py. All times are the server's. Names carry
-- a version, because processes of two versions of the package may share a database.
CREATE TABLE IF NOT EXISTS scenewright_account_1 (
    account TEXT PRIMARY KEY,
    sent BIGINT NOT NULL DEFAULT 0,
    level DOUBLE PRECISION NOT NULL DEFAULT 0,
    leaked TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    reserved DOUBLE PRECISION NOT NULL DEFAULT 0,
    resumes TIMESTAMPTZ NOT NULL DEFAULT 'epoch',
    refusals BIGINT NOT NULL DEFAULT 0,
    in_a_row BIGINT NOT NULL DEFAULT 0,
    allowed INTEGER,
    successes INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS scenewright_account_sent_1 (
    account TEXT NOT NULL,
    n BIGINT NOT NULL,
    at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (account, n)
);
CREATE TABLE IF NOT EXISTS scenewright_account_holder_1 (
    account TEXT NOT NULL,
    holder TEXT NOT NULL,
    under_way INTEGER NOT NULL,
    until TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (account, holder)
);

-- The row of an account, held until the transaction ends, with what leaked from its bucket gone.
CREATE OR REPLACE FUNCTION scenewright_account_row_1(of TEXT, leak DOUBLE PRECISION)
RETURNS scenewright_account_1 LANGUAGE plpgsql AS $$
DECLARE
    a scenewright_account_1;
    now_ TIMESTAMPTZ;
BEGIN
    SELECT * INTO a FROM scenewright_account_1 WHERE account = of FOR UPDATE;
    IF NOT FOUND THEN
        INSERT INTO scenewright_account_1 (account) VALUES (of) ON CONFLICT DO NOTHING;
        SELECT * INTO a FROM scenewright_account_1 WHERE account = of FOR UPDATE;
    END IF;
    now_ := clock_timestamp();
    a.level := greatest(
        0, a.level - coalesce(leak, 0) * greatest(0, extract(epoch FROM now_ - a.leaked)));
    a.leaked := now_;
    RETURN a;
END $$;

-- Whether a request may be sent now. If so it counts; if not: after how many seconds to ask again
-- and why. "tokens" are put into the bucket at the first time; "marked" then tells this request's
-- place, so that it waits for those before it only.
CREATE OR REPLACE FUNCTION scenewright_account_enter_1(
    of TEXT, who TEXT, lease DOUBLE PRECISION, bound INTEGER,
    burst BIGINT, period DOUBLE PRECISION,
    tokens DOUBLE PRECISION, bucket DOUBLE PRECISION, leak DOUBLE PRECISION,
    mark DOUBLE PRECISION,
    OUT granted BOOLEAN, OUT wait DOUBLE PRECISION, OUT why TEXT,
    OUT paused DOUBLE PRECISION, OUT marked DOUBLE PRECISION, OUT refused BIGINT,
    OUT number BIGINT)
LANGUAGE plpgsql AS $$
DECLARE
    a scenewright_account_1;
    before TIMESTAMPTZ;
    busy BIGINT;
    rate_wait DOUBLE PRECISION := 0;
    token_wait DOUBLE PRECISION := 0;
BEGIN
    a := scenewright_account_row_1(of, leak);
    marked := mark;
    IF leak IS NOT NULL THEN
        IF marked IS NULL THEN
            a.level := a.level + tokens;
            a.reserved := a.reserved + tokens;
            marked := a.reserved;
        END IF;
        token_wait := (a.level - greatest(0, a.reserved - marked) - bucket) / leak;
    END IF;
    paused := greatest(0, extract(epoch FROM a.resumes - a.leaked));
    refused := a.refusals;
    number := a.sent;
    IF burst IS NOT NULL THEN
        SELECT at INTO before FROM scenewright_account_sent_1
            WHERE account = of AND n = a.sent - burst;
        IF FOUND THEN
            -- A clock that was set back makes nobody wait for longer than a period.
            rate_wait := least(period, period - extract(epoch FROM a.leaked - before));
        END IF;
    END IF;
    SELECT coalesce(sum(under_way), 0) INTO busy FROM scenewright_account_holder_1
        WHERE account = of AND until > a.leaked;
    wait := greatest(paused, rate_wait, token_wait);
    why := CASE WHEN wait <= 1e-6 THEN 'slots'
                WHEN wait = paused THEN 'paused'
                WHEN wait = rate_wait THEN 'rate' ELSE 'tokens' END;
    granted := wait <= 1e-6 AND busy < least(bound, coalesce(a.allowed, bound));
    wait := greatest(wait, 0);
    IF granted THEN
        IF burst IS NOT NULL THEN
            INSERT INTO scenewright_account_sent_1 VALUES (of, a.sent, a.leaked)
                ON CONFLICT (account, n) DO UPDATE SET at = excluded.at;
        END IF;
        a.sent := a.sent + 1;
        INSERT INTO scenewright_account_holder_1
            VALUES (of, who, 1, a.leaked + make_interval(secs => lease))
            ON CONFLICT (account, holder) DO UPDATE
            SET under_way = scenewright_account_holder_1.under_way + 1, until = excluded.until;
        IF a.sent % 256 = 0 THEN
            DELETE FROM scenewright_account_sent_1
                WHERE account = of AND at < a.leaked - interval '5 minutes';
            DELETE FROM scenewright_account_holder_1
                WHERE account = of AND until < a.leaked - interval '1 hour';
        END IF;
    END IF;
    UPDATE scenewright_account_1 SET
        sent = a.sent, level = a.level, leaked = a.leaked, reserved = a.reserved
        WHERE account = of;
END $$;

-- A request was sent so many seconds after it had been let go. Any two requests whose numbers
-- differ by a multiple of the plan's count stay a period apart, whatever the order of their times.
CREATE OR REPLACE FUNCTION scenewright_account_late_1(
    of TEXT, number BIGINT, seconds DOUBLE PRECISION)
RETURNS VOID LANGUAGE sql AS $$
    UPDATE scenewright_account_sent_1 SET at = at + make_interval(secs => seconds)
        WHERE account = of AND n = number;
$$;

-- A holder has so many requests under way, and goes on holding them for "lease" seconds.
CREATE OR REPLACE FUNCTION scenewright_account_hold_1(
    of TEXT, who TEXT, many INTEGER, lease DOUBLE PRECISION)
RETURNS VOID LANGUAGE sql AS $$
    INSERT INTO scenewright_account_holder_1
        VALUES (of, who, many, clock_timestamp() + make_interval(secs => lease))
        ON CONFLICT (account, holder) DO UPDATE
        SET under_way = excluded.under_way, until = excluded.until;
$$;

-- Tokens given back by a request that waited for them and is not sent.
CREATE OR REPLACE FUNCTION scenewright_account_undo_1(
    of TEXT, tokens DOUBLE PRECISION, leak DOUBLE PRECISION)
RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    a scenewright_account_1;
BEGIN
    a := scenewright_account_row_1(of, leak);
    UPDATE scenewright_account_1 SET level = greatest(0, a.level - tokens), leaked = a.leaked,
        reserved = a.reserved - tokens WHERE account = of;
END $$;

-- A request was answered and used "more" tokens than it took (or fewer: below 0).
CREATE OR REPLACE FUNCTION scenewright_account_answered_1(
    of TEXT, bound INTEGER, more DOUBLE PRECISION, leak DOUBLE PRECISION)
RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    a scenewright_account_1;
BEGIN
    a := scenewright_account_row_1(of, leak);
    a.allowed := least(bound, coalesce(a.allowed, bound));
    a.successes := a.successes + 1;
    IF a.allowed < bound AND a.successes >= a.allowed THEN
        a.allowed := a.allowed + 1;
        a.successes := 0;
    END IF;
    UPDATE scenewright_account_1 SET level = greatest(0, a.level + more), leaked = a.leaked,
        in_a_row = 0, successes = a.successes,
        allowed = CASE WHEN a.allowed < bound THEN a.allowed END WHERE account = of;
END $$;

-- A request was refused. Those that were under way together ("seen" refusals before them) count
-- as one; "initial", "longest" and "share" are the pause where the provider names none or less.
CREATE OR REPLACE FUNCTION scenewright_account_refused_1(
    of TEXT, bound INTEGER, tokens DOUBLE PRECISION, leak DOUBLE PRECISION, seen BIGINT,
    retry_after DOUBLE PRECISION,
    initial DOUBLE PRECISION, longest DOUBLE PRECISION, share DOUBLE PRECISION,
    OUT paused DOUBLE PRECISION)
LANGUAGE plpgsql AS $$
DECLARE
    a scenewright_account_1;
    pause DOUBLE PRECISION := retry_after;
BEGIN
    a := scenewright_account_row_1(of, leak);
    IF seen = a.refusals THEN
        a.refusals := a.refusals + 1;
        a.in_a_row := a.in_a_row + 1;
        a.allowed := greatest(1, least(bound, coalesce(a.allowed, bound)) / 2);
        a.successes := 0;
        pause := greatest(
            coalesce(pause, 0),
            share * least(longest, initial * power(2, least(a.in_a_row - 1, 60))));
    END IF;
    IF pause IS NOT NULL THEN
        a.resumes := greatest(a.resumes, a.leaked + make_interval(secs => pause));
    END IF;
    paused := greatest(0, extract(epoch FROM a.resumes - a.leaked));
    UPDATE scenewright_account_1 SET level = greatest(0, a.level - tokens), leaked = a.leaked,
        refusals = a.refusals, in_a_row = a.in_a_row, allowed = a.allowed,
        successes = a.successes, resumes = a.resumes WHERE account = of;
END $$;
