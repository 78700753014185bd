-- Where the benchmark keeps what it measures, and the table that it compares
-- a queue with: what one would write by hand, at its best.
CREATE EXTENSION pg_sqs;
CREATE EXTENSION pg_stat_statements;
CREATE SCHEMA bench;

CREATE TABLE bench.hand (
	id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	visible_at timestamptz NOT NULL DEFAULT now(),
	sent_at timestamptz NOT NULL DEFAULT now(),
	message_id uuid NOT NULL DEFAULT gen_random_uuid(),
	receive_count int NOT NULL DEFAULT 0,
	body text NOT NULL
);
CREATE INDEX ON bench.hand (visible_at, id);

-- The state of a session at a moment of a run; a run is what lies between two.
CREATE TABLE bench.mark (
	part text,
	variant text,
	pair int,
	i int,
	at timestamptz DEFAULT clock_timestamp(),
	cpu_ns bigint,
	lsn pg_lsn DEFAULT pg_current_wal_insert_lsn()
);

-- CPU time of this backend; in clock ticks of 10 ms where the kernel keeps no
-- finer account
CREATE FUNCTION bench.cpu_ns() RETURNS bigint LANGUAGE sql VOLATILE AS $$
	SELECT coalesce(
		nullif(split_part(pg_read_file('/proc/self/schedstat', 0, 1000, true), ' ', 1), '')::bigint,
		(split_part(stat, ' ', 14)::bigint + split_part(stat, ' ', 15)::bigint) * 10000000)
	FROM pg_read_file('/proc/self/stat', 0, 10000) AS stat
$$;
ALTER TABLE bench.mark ALTER cpu_ns SET DEFAULT bench.cpu_ns();

-- per iteration of a run, or other measured values of one
CREATE TABLE bench.measured (
	part text,
	variant text,
	pair int,
	per_second numeric,
	cpu_us numeric,
	wal_bytes numeric,
	ms numeric,
	buffers numeric
);

CREATE FUNCTION bench.measure(part text, variant text, pair int) RETURNS void LANGUAGE sql AS $$
	INSERT INTO bench.measured (part, variant, pair, per_second, cpu_us, wal_bytes)
	SELECT $1, $2, $3,
		n / extract(epoch FROM max(at) - min(at)), (max(cpu_ns) - min(cpu_ns)) / 1000.0 / n, (max(lsn) - min(lsn)) / n
	FROM bench.mark AS mark, LATERAL (SELECT max(i) - min(i) AS n FROM bench.mark AS m
		WHERE (m.part, m.variant, m.pair) = ($1, $2, $3)) AS count
	WHERE (mark.part, mark.variant, mark.pair) = ($1, $2, $3)
	GROUP BY n
$$;

CREATE FUNCTION bench.median(part text, variant text, value text) RETURNS numeric LANGUAGE sql AS $$
	SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY (to_jsonb(measured) ->> value)::float8)::numeric
	FROM bench.measured WHERE (measured.part, measured.variant) = ($1, $2)
$$;

-- median over the pairs of this / that, less what a base variant needs
CREATE FUNCTION bench.ratio(part text, this text, that text, value text, base text DEFAULT NULL)
	RETURNS numeric LANGUAGE sql AS $$
	SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY
		((to_jsonb(a) ->> value)::float8 - coalesce((to_jsonb(c) ->> value)::float8, 0)) /
		((to_jsonb(b) ->> value)::float8 - coalesce((to_jsonb(c) ->> value)::float8, 0)))::numeric
	FROM bench.measured AS a
		JOIN bench.measured AS b ON (b.part, b.variant, b.pair) = (a.part, $3, a.pair)
		LEFT JOIN bench.measured AS c ON (c.part, c.variant, c.pair) = (a.part, $5, a.pair)
	WHERE (a.part, a.variant) = ($1, $2)
$$;

-- What is printed: a row per figure, its target beside it
CREATE TABLE bench.figure (
	n int GENERATED ALWAYS AS IDENTITY,
	what text,
	ours numeric,
	theirs numeric,
	ratio numeric,
	target text
);

CREATE FUNCTION bench.show(value numeric) RETURNS text LANGUAGE sql IMMUTABLE AS $$
	SELECT CASE WHEN value IS NULL THEN '' WHEN value >= 1000 THEN to_char(value, 'FM9,999,999,999')
		WHEN value >= 100 THEN round(value)::text WHEN value >= 10 THEN round(value, 1)::text
		ELSE round(value, 2)::text END
$$;

CREATE FUNCTION bench.verdict(value numeric, target text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
	SELECT CASE WHEN target IS NULL THEN '' WHEN value IS NULL THEN 'not measured'
		WHEN CASE WHEN target LIKE '>=%' THEN value >= substr(target, 4)::numeric
			ELSE value <= substr(target, 4)::numeric END THEN 'met' ELSE 'MISSED' END
$$;

-- bodies to send in bulk, stored as they are
CREATE TABLE bench.bodies (n int PRIMARY KEY, bodies text[]);
ALTER TABLE bench.bodies ALTER bodies SET STORAGE EXTERNAL;
INSERT INTO bench.bodies
	SELECT n, ARRAY(SELECT rpad('message ' || i, 50, '.') FROM generate_series(1, n) AS i)
	FROM (VALUES (1000), (10000)) AS sizes (n);
