-- Metrics: gauges and counters of view sqs_metrics, the counts among a queue's
-- attributes, the in-flight quota.  Counters are kept in shared memory only:
-- where the extension is not preloaded they are NULL, which is as good here.
\set ECHO none
\getenv folder PG_ABS_SRCDIR
\set helpers :folder /sql/helpers.psql
\i :helpers
\set ECHO all

CREATE FUNCTION gauges(queue text) RETURNS text LANGUAGE sql AS $$
	SELECT format('visible %s, not visible %s, delayed %s',
			approximate_number_of_messages_visible,
			approximate_number_of_messages_not_visible,
			approximate_number_of_messages_delayed)
	FROM sqs_metrics WHERE queue_name = queue
$$;
CREATE FUNCTION attributes(queue text) RETURNS text LANGUAGE sql AS $$
	SELECT format('visible %s, not visible %s, delayed %s',
			a ->> 'ApproximateNumberOfMessages',
			a ->> 'ApproximateNumberOfMessagesNotVisible',
			a ->> 'ApproximateNumberOfMessagesDelayed')
	FROM sqs_get_queue_attributes(queue) a
$$;
-- whether the counters are these: sent, bytes, received, empty, deleted
CREATE FUNCTION counters(queue text, VARIADIC expected bigint[]) RETURNS text LANGUAGE sql AS $$
	SELECT CASE WHEN stats_reset IS NULL AND counted = array_fill(NULL::bigint, '{5}')
			OR stats_reset IS NOT NULL AND counted = expected THEN 'as expected'
		ELSE counted::text END
	FROM (SELECT stats_reset, ARRAY[number_of_messages_sent, sent_message_size,
			number_of_messages_received, number_of_empty_receives,
			number_of_messages_deleted] AS counted
		FROM sqs_metrics WHERE queue_name = queue) m
$$;

SELECT sqs_create_queue('m');
SELECT gauges('m'), attributes('m'), counters('m', 0, 0, 0, 0, 0);

-- sends, one delayed; receives; deletes, twice the same; an empty receive
SELECT count(*) FROM sqs_send_many('m', '{aa,bb,cc}');
SELECT FROM sqs_send('m', 'dd', delay_seconds => 900);
SELECT FROM sqs_send('m', 'e', message_attributes => '{"k": "v"}');
SELECT gauges('m'), attributes('m'), counters('m', 5, 17, 0, 0, 0);
SELECT take('m', 100) AS h \gset
SELECT count(*) FROM sqs_receive('m', 2, 100);
SELECT gauges('m'), attributes('m'), counters('m', 5, 17, 3, 0, 0);
SELECT sqs_delete('m', :'h'), sqs_delete('m', :'h') AS again;
SELECT gauges('m'), counters('m', 5, 17, 3, 0, 2);
SELECT count(*) FROM sqs_consume('m');
SELECT gauges('m'), counters('m', 5, 17, 4, 0, 3);
SELECT count(*) FROM sqs_receive('m');
SELECT gauges('m'), counters('m', 5, 17, 4, 1, 3);

-- a visibility timeout that is changed
SELECT count(*) FROM sqs_send_many('m', '{f}');
SELECT take('m', 100) AS h \gset
SELECT gauges('m');
SELECT sqs_change_visibility('m', :'h', 0) IS NOT NULL AS changed;
SELECT gauges('m');

-- a transaction sees what it did; undone, it never happened
BEGIN;
SELECT count(*) FROM sqs_send_many('m', '{g,h}');
SAVEPOINT s;
SELECT count(*) FROM sqs_receive('m', 10);
SELECT gauges('m');
ROLLBACK TO s;
SELECT gauges('m');
ROLLBACK;
SELECT gauges('m'), counters('m', 6, 18, 5, 1, 3);

-- a large queue is not counted each time
SELECT count(*) FROM sqs_send_many('m', array_fill('x'::text, '{1500}'));
SELECT gauges('m');
SELECT count(*) FROM sqs_receive('m', 10);
SELECT count(*) FROM sqs_send_many('m', '{y,z}', delay_seconds => 800);
SELECT gauges('m'), attributes('m');
SELECT sqs_purge_queue('m');
SELECT gauges('m'), attributes('m'), counters('m', 1508, 1520, 15, 1, 3);

-- the oldest message; one that was received three times is not it
SELECT sqs_create_queue('age');
SELECT approximate_age_of_oldest_message FROM sqs_metrics WHERE queue_name = 'age';
SELECT FROM sqs_send('age', 'old');
SELECT try(format('UPDATE %s SET sent_at = sent_at - interval ''1 h''', queue_table('age')));
SELECT FROM sqs_send('age', 'young');
SELECT approximate_age_of_oldest_message BETWEEN 3600 AND 3700 AS an_hour FROM sqs_metrics WHERE queue_name = 'age';
SELECT try(format('UPDATE %s SET receive_count = 3 WHERE body = ''old''', queue_table('age')));
SELECT approximate_age_of_oldest_message < 100 AS young FROM sqs_metrics WHERE queue_name = 'age';

-- the in-flight quota: an error of a short poll, nothing for a long poll
SELECT sqs_create_queue('quota', '{"VisibilityTimeout": 600}');
SELECT count(*) FROM sqs_send_many('quota', '{1,2,3,4,5}');
SET pg_sqs.max_inflight = 3;
SELECT bodies('quota', 2), bodies('quota', 2) AS third;
SELECT try($$SELECT sqs_receive('quota')$$);
SELECT count(*) FROM sqs_receive('quota', wait_time_seconds => 1);
-- a message consumed is not in flight
SELECT body FROM sqs_consume('quota');
-- one that is deleted makes room; a receive takes no more than there is room for
SET pg_sqs.max_inflight = 0;
SELECT take('quota') AS h \gset
SET pg_sqs.max_inflight = 3;
SELECT try($$SELECT sqs_receive('quota')$$);
SELECT sqs_delete('quota', :'h');
SELECT gauges('quota');
SELECT try($$SELECT sqs_receive('quota')$$);
SET pg_sqs.max_inflight = 4;
SELECT count(*) FROM sqs_send_many('quota', '{6,7}');
SELECT bodies('quota');
-- a session that receives without a pause does not get past it either
SELECT sqs_create_queue('many');
SELECT count(*) FROM generate_series(1, 6) AS i, sqs_send_many('many', array_fill('m' || i, ARRAY[1000]));
SET pg_sqs.max_inflight = 3000;
SET pg_sqs.max_batch_size = 100;
DO $$
DECLARE
	taken bigint := 0;
BEGIN
	FOR i IN 1 .. 60 LOOP
		taken := taken + count(*) FROM sqs_receive('many', 100, 600);
	END LOOP;
EXCEPTION WHEN SQLSTATE 'SQ018' THEN
	PERFORM set_config('test.taken', taken::text, false);
END $$;
SHOW test.taken;
RESET pg_sqs.max_batch_size;
SELECT sqs_delete_queue('many');
RESET pg_sqs.max_inflight;

-- who sees which rows: those who may read the queue
CREATE ROLE regress_metrics;
SELECT sqs_add_permission('age', 'watch', '{regress_metrics}', '{GetQueueAttributes}');
SET ROLE regress_metrics;
SELECT queue_name FROM sqs_metrics ORDER BY 1;
SELECT try($$SELECT sqs_reset_metrics('age')$$);
SELECT sqs_reset_metrics();
RESET ROLE;
SELECT counters('m', 1508, 1520, 15, 1, 3);

-- zeroing counters leaves gauges alone
SELECT sqs_reset_metrics('m');
SELECT counters('m', 0, 0, 0, 0, 0), counters('age', 2, 8, 0, 0, 0);
SELECT sqs_reset_metrics();
SELECT counters('age', 0, 0, 0, 0, 0), gauges('age');
SELECT try($$SELECT sqs_reset_metrics('nowhere')$$);

SELECT sqs_delete_queue(q) FROM sqs_list_queues() q;
DROP OWNED BY regress_metrics;
DROP ROLE regress_metrics;
