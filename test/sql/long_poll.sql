-- Long polling, as far as one session can see it: how long it lasts.
\set ECHO none
\getenv folder PG_ABS_SRCDIR
\set helpers :folder /sql/helpers.psql
\i :helpers
\set ECHO all

-- whether a receive took as long as it should, or less than a second more
CREATE FUNCTION poll(sql text, at_least numeric) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	started timestamptz := clock_timestamp();
	n int;
	took numeric;
BEGIN
	EXECUTE 'SELECT count(*) FROM ' || sql INTO n;
	took := extract(epoch FROM clock_timestamp() - started);
	RETURN n || CASE WHEN took >= at_least AND took < at_least + 1 THEN ' in time' ELSE ' after ' || took || ' s' END;
END
$$;

SELECT sqs_create_queue('lp');
-- nothing comes: it ends with the time, without an error
SELECT poll($$ sqs_receive('lp', wait_time_seconds => 1) $$, 1);
-- something is there: at once, with what is there
SELECT count(*) FROM sqs_send_many('lp', '{a, b}');
SELECT poll($$ sqs_receive('lp', 10, wait_time_seconds => 20) $$, 0);
SELECT poll($$ sqs_receive('lp', 10, wait_time_seconds => 0) $$, 0);
SELECT sqs_purge_queue('lp');
-- falls due within the time: a delay, and a visibility timeout
SELECT FROM sqs_send('lp', 'delayed', delay_seconds => 1);
SELECT poll($$ sqs_receive('lp', visibility_timeout => 1, wait_time_seconds => 20) $$, 0.7);
SELECT poll($$ sqs_receive('lp', visibility_timeout => 0, wait_time_seconds => 20) $$, 0.7);
-- and not before
SELECT FROM sqs_send('lp', 'much later', delay_seconds => 900);
SELECT poll($$ sqs_consume('lp', 10, wait_time_seconds => 20) $$, 0);
-- the queue's default, and that a call's 0 is less
SELECT sqs_set_queue_attributes('lp', '{"ReceiveMessageWaitTimeSeconds": 1}');
SELECT poll($$ sqs_receive('lp') $$, 1);
SELECT poll($$ sqs_receive('lp', wait_time_seconds => 0) $$, 0);
SELECT poll($$ sqs_consume('lp') $$, 1);
SELECT poll($$ sqs_peek('lp') $$, 0);
SELECT sqs_set_queue_attributes('lp', '{"ReceiveMessageWaitTimeSeconds": 0}');
-- messages that expire, or move, while it waits are no messages
SELECT sqs_create_queue('lp_dlq');
SELECT sqs_set_queue_attributes('lp', '{"RedrivePolicy": {"deadLetterTargetArn": "lp_dlq", "maxReceiveCount": 1}}');
SELECT FROM sqs_send('lp', 'poison');
SELECT bodies('lp', 10, 0);
SELECT poll($$ sqs_receive('lp', wait_time_seconds => 1) $$, 1);
SELECT bodies('lp_dlq', 10, 0);
-- one that its own transaction took is not waited for, one it made free is got
BEGIN;
SELECT FROM sqs_send('lp', 'own');
SELECT take('lp', 600) AS h \gset
SELECT poll($$ sqs_receive('lp', wait_time_seconds => 1) $$, 1);
SELECT sqs_set_queue_attributes('lp', '{"RedrivePolicy": ""}');
SELECT from_now(sqs_change_visibility('lp', :'h', 0));
SELECT poll($$ sqs_receive('lp', wait_time_seconds => 20) $$, 0);
COMMIT;
-- ended by statement_timeout
SET statement_timeout = '300ms';
SELECT * FROM sqs_receive('lp', wait_time_seconds => 20);
RESET statement_timeout;
-- caught by a block, which then polls again
SET statement_timeout = '300ms';
DO $$ BEGIN
	BEGIN
		PERFORM sqs_receive('lp', wait_time_seconds => 20);
	EXCEPTION WHEN query_canceled THEN
		PERFORM sqs_send('lp', 'sent after');
	END;
	PERFORM set_config('lp.got', (SELECT body FROM sqs_receive('lp', wait_time_seconds => 20)), false);
END $$;
RESET statement_timeout;
SHOW lp.got;
-- a poll whose message has a trigger that polls another queue
SELECT queue_table('lp') AS lp_table \gset
CREATE FUNCTION poll_dlq() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('lp.nested', poll($p$ sqs_receive('lp_dlq', wait_time_seconds => 1) $p$, 1), false);
	RETURN NULL;
END
$$;
CREATE TRIGGER poll_dlq AFTER UPDATE ON :lp_table FOR EACH ROW EXECUTE FUNCTION poll_dlq();
SELECT sqs_purge_queue('lp_dlq');
SELECT FROM sqs_send('lp', 'outer');
SELECT poll($$ sqs_receive('lp', wait_time_seconds => 20) $$, 1);
SHOW lp.nested;
SELECT sqs_delete_queue('lp');
SELECT sqs_delete_queue('lp_dlq');
DROP FUNCTION poll_dlq();
DROP FUNCTION poll(text, numeric);
