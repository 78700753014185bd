-- sqs_backoff: base * 2^(receive_count - 1), at most max

CREATE FUNCTION error_of(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	hint text;
	answer text;
BEGIN
	EXECUTE query INTO answer;
	RETURN 'no error: ' || coalesce(answer, 'NULL');
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
	RETURN concat_ws(E'\n', sqlstate || ' ' || sqlerrm, 'HINT ' || nullif(hint, ''));
END $$;

SELECT n, sqs_backoff(n) FROM unnest('{1,2,3,4,5,9,10,11,12,30,31,32,33,63,64,65,2147483647}'::int[]) n;
SELECT n, sqs_backoff(n, 30, 43200) FROM generate_series(1, 13) n;

-- named arguments, NULL for the default
SELECT sqs_backoff(receive_count => 3, base_seconds => 10), sqs_backoff(3, max_seconds => 3),
	sqs_backoff(4, NULL, NULL), sqs_backoff('11', NULL, '1800');

-- the ends of each range
SELECT sqs_backoff(2147483647, 2147483647, 43200), sqs_backoff(1, 1, 1), sqs_backoff(1, 2147483647),
	sqs_backoff(32, 2147483647), sqs_backoff(33, 2147483647), sqs_backoff(1, 43200, 43200);

SELECT error_of('SELECT sqs_backoff(NULL)');
SELECT error_of('SELECT sqs_backoff(0)');
SELECT error_of('SELECT sqs_backoff(-1)');
SELECT error_of('SELECT sqs_backoff(-2147483648)');
SELECT error_of('SELECT sqs_backoff(1, 0)');
SELECT error_of('SELECT sqs_backoff(1, -5)');
SELECT error_of('SELECT sqs_backoff(1, 1, 0)');
SELECT error_of('SELECT sqs_backoff(1, 1, -1)');
SELECT error_of('SELECT sqs_backoff(1, 1, 43201)');

-- it may stand in an index and in a parallel plan
SELECT provolatile, proparallel FROM pg_catalog.pg_proc WHERE proname = 'sqs_backoff';

DROP FUNCTION error_of;
