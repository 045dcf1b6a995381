-- 0010 Jobs: when each of those that run now and then (audit, backups) has last succeeded and failed, so that one that
-- stops running is missed. Explained in schema/wallet.sql and docs/decisions/0060-jobs-on-record.md. Lock: none.
CREATE TABLE job_run (
    job          varchar(32) COLLATE "C" NOT NULL,
    known_since  timestamptz NOT NULL DEFAULT clock_timestamp(),
    succeeded_at timestamptz,
    failed_at    timestamptz,
    failure      varchar(400),  -- why it failed last, as a sentence; NULL if it never did
    CONSTRAINT job_run_job PRIMARY KEY (job),
    CONSTRAINT job_run_name CHECK (job ~ '^[a-z][a-z-]*$')
);

-- An installation that is never audited is to be told so; other jobs are known once they have run.
INSERT INTO job_run (job) VALUES ('audit');

-- Note that a job has succeeded, or with `why` that it has failed. Index: job_run_job.
CREATE FUNCTION note_job(name varchar, why varchar) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$
    INSERT INTO job_run AS known (job, succeeded_at, failed_at, failure)
    VALUES (name, CASE WHEN why IS NULL THEN clock_timestamp() END, CASE WHEN why IS NOT NULL THEN clock_timestamp() END,
        left(why, 400))
    ON CONFLICT ON CONSTRAINT job_run_job DO UPDATE SET
        succeeded_at = coalesce(excluded.succeeded_at, known.succeeded_at),
        failed_at = coalesce(excluded.failed_at, known.failed_at),
        failure = coalesce(excluded.failure, known.failure)
$$;

REVOKE EXECUTE ON FUNCTION note_job FROM PUBLIC;
GRANT EXECUTE ON FUNCTION note_job TO hongbao_audit;
GRANT SELECT ON job_run TO hongbao_wallet, hongbao_audit;
