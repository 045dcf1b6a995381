-- What all processes go by and operators change: the topology, and the switches (set.sql).
CREATE TABLE published (
    name    varchar(32) COLLATE "C" NOT NULL,  -- topology, switches
    version integer     NOT NULL,
    content text        NOT NULL,              -- JSON, as in the file that processes keep
    who     varchar(64) NOT NULL,
    at      timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT published_version PRIMARY KEY (name, version),
    CONSTRAINT published_first CHECK (version > 0),
    CONSTRAINT published_size CHECK (octet_length(content) <= 2000000)
);

-- Whose database it is: the name of its SET, or "wallet". One row; processes compare it with their own name.
CREATE TABLE belongs_to (
    name varchar(64) COLLATE "C" NOT NULL,
    one  boolean NOT NULL DEFAULT true,
    CONSTRAINT belongs_to_one PRIMARY KEY (one),
    CONSTRAINT belongs_to_no_other CHECK (one)
);

GRANT SELECT ON published, belongs_to TO hongbao_setnode, hongbao_audit;
