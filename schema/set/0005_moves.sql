-- How far the move of a database to another SET has come; it stands in the SET that gives it away. One at a time.
CREATE TABLE move (
    move_id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    xx         smallint      NOT NULL CHECK (xx BETWEEN 0 AND 99),
    kind       varchar(8)    NOT NULL CHECK (kind IN ('by_time', 'live')),
    target     varchar(64)   NOT NULL,
    valid_from date,         -- by_time: the first business date of the new SET
    step       varchar(16)   NOT NULL,
    begun_at   timestamptz   NOT NULL DEFAULT now(),
    since      timestamptz   NOT NULL DEFAULT now(),
    note       varchar(4000) NOT NULL DEFAULT '{}',  -- JSON: what the steps found
    CHECK ((kind = 'by_time') = (valid_from IS NOT NULL))
);
CREATE UNIQUE INDEX move_one ON move (xx) WHERE step NOT IN ('done', 'aborted');

-- Travels with the rows of a live move: what was written before a beat is there when the beat is.
CREATE TABLE move_beat (
    xx   smallint PRIMARY KEY,
    beat bigint NOT NULL
);

-- The fence of a database that leaves: a row trigger on its leaves, made by the move and gone with them. Grants cannot
-- say it, because a leaf's are not asked when a row comes through the parent.
CREATE FUNCTION moved_away() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'db_% is on its way to another SET', TG_ARGV[0] USING ERRCODE = 'HB002', DETAIL = TG_ARGV[0];
END $$;

GRANT SELECT ON move, move_beat TO hongbao_audit;
