-- Receiving: what a receive takes, what it returns, and what it leaves.
\set ECHO none
\getenv folder PG_ABS_SRCDIR
\set helpers :folder /sql/helpers.psql
\i :helpers
\set ECHO all

SELECT sqs_create_queue('r');

-- an empty queue
SELECT count(*) FROM sqs_receive('r');

-- every column of a plain message
SELECT message_id AS sent_id FROM sqs_send('r', 'hello') \gset
SELECT *, num_nulls(message_group_id, message_deduplication_id, sequence_number, message_attributes,
	aws_trace_header, dead_letter_queue_source) AS nulls FROM sqs_receive('r') \gset m_
SELECT :'m_message_id' = :'sent_id' AS same_id, length(:'m_receipt_handle') BETWEEN 1 AND 1024 AS handle,
	:'m_body' AS body, :m_receive_count AS receive_count,
	from_now(:'m_sent_at') AS sent, from_now(:'m_first_received_at') AS first_received,
	from_now(:'m_visible_at') AS visible_in, :'m_sender_id' = current_user AS sender, :m_nulls AS nulls;
SELECT count(*) AS hidden_now FROM sqs_receive('r');
SELECT sqs_delete('r', :'m_receipt_handle');

-- and of one that has everything
SELECT FROM sqs_send('r', 'all', message_attributes => '{"k": "v"}', message_group_id => 'g',
	visibility_timeout => 7, aws_trace_header => 'Root=1-5759e988-bd862e3fe1be46a994272793');
SELECT body, from_now(visible_at) AS visible_in, message_group_id, message_attributes, aws_trace_header
FROM sqs_consume('r');

-- visibility timeout: the call's, else the message's, else the queue's
SELECT sqs_set_queue_attributes('r', '{"VisibilityTimeout": 100}');
SELECT FROM sqs_send('r', 'plain');
SELECT FROM sqs_send('r', 'own', visibility_timeout => 200);
SELECT FROM sqs_send('r', 'zero', visibility_timeout => 0);
SELECT body, from_now(visible_at) FROM sqs_receive('r', 3);
CALL let_pass('r', '200 s');
SELECT body, from_now(visible_at) FROM sqs_receive('r', 10, 300) ORDER BY 1;
CALL let_pass('r', '300 s');
-- not remembered: the next receive has the defaults again
SELECT body, from_now(visible_at), receive_count FROM sqs_receive('r', 10) ORDER BY 1;
SELECT sqs_set_queue_attributes('r', '{"VisibilityTimeout": 0}');
CALL let_pass('r', '300 s');
SELECT body, from_now(visible_at), receive_count FROM sqs_receive('r', 10) ORDER BY 1;
SELECT sqs_set_queue_attributes('r', '{"VisibilityTimeout": 43200}');
SELECT count(*), min(from_now(visible_at)), max(from_now(visible_at)) FROM sqs_receive('r');
SELECT sqs_set_queue_attributes('r', '{"VisibilityTimeout": 30}');
SELECT sqs_purge_queue('r');

-- timeout 0: returned again and again, counted, never twice in one call
SELECT FROM sqs_send('r', 'again');
SELECT bodies('r', 10, 0) FROM generate_series(1, 4);
SELECT bodies('r', 10, 43200);
SELECT bodies('r', 10, 0) IS NULL AS hidden;
SELECT sqs_purge_queue('r');

-- order of sending, as many as asked for; one by default
SELECT count(*) FROM sqs_send_many('r', ARRAY(SELECT 'm' || i FROM generate_series(1, 25) i));
SELECT string_agg(body, ' ') FROM sqs_receive('r');
SELECT bodies('r', 2), bodies('r', 3), bodies('r', 10), bodies('r', 10), bodies('r', 10) IS NULL AS none_left;
-- returned to the queue in order of their new time, behind what is due before
CALL let_pass('r', '29 s');
SELECT FROM sqs_send('r', 'young');
SELECT bodies('r', 1);
CALL let_pass('r', '2 s');
SELECT bodies('r', 10);
SELECT sqs_purge_queue('r');
SET pg_sqs.max_batch_size = 10000;
SELECT count(*) FROM sqs_send_many('r', ARRAY(SELECT 'm' || i FROM generate_series(1, 3000) i));
SELECT count(*), count(DISTINCT message_id), count(DISTINCT receipt_handle), min(receive_count), max(receive_count)
FROM sqs_receive('r', 2999);
SELECT bodies('r', 10000);
RESET pg_sqs.max_batch_size;
SELECT sqs_purge_queue('r');

-- counts and times over several receives; a handle of its own for each
SELECT FROM sqs_send('r', 'counted');
CREATE TEMP TABLE seen AS SELECT 1 AS n, * FROM sqs_receive('r', 1, 0);
CALL let_pass('r', '100 s');
INSERT INTO seen SELECT 2, * FROM sqs_receive('r', 1, 0);
INSERT INTO seen SELECT 3, * FROM sqs_receive('r', 1, 0);
SELECT n, receive_count, from_now(first_received_at), from_now(sent_at) FROM seen ORDER BY n;
SELECT count(DISTINCT receipt_handle) AS handles, count(DISTINCT message_id) AS messages FROM seen;
DROP TABLE seen;
SELECT sqs_purge_queue('r');

-- delayed messages
SELECT FROM sqs_send('r', 'later', delay_seconds => 900);
SELECT FROM sqs_send('r', 'now', delay_seconds => 0);
SELECT bodies('r');
CALL let_pass('r', '899 s');
SELECT bodies('r') AS now_only;
CALL let_pass('r', '1 s');
SELECT bodies('r') AS later_too;
SELECT sqs_purge_queue('r');
SELECT sqs_set_queue_attributes('r', '{"DelaySeconds": 60}');
SELECT FROM sqs_send('r', 'queue''s delay');
SELECT FROM sqs_send('r', 'none', delay_seconds => 0);
SELECT count(*) FROM sqs_send_many('r', '{many}');
SELECT count(*) FROM sqs_send_many('r', '{many at once}', delay_seconds => 0);
SELECT bodies('r');
SELECT sqs_set_queue_attributes('r', '{"DelaySeconds": 0}');
SELECT bodies('r') IS NULL AS still_delayed;
SELECT sqs_purge_queue('r');

-- retention: gone once its age is the period, visible, delayed or in flight
SELECT sqs_set_queue_attributes('r', '{"MessageRetentionPeriod": 600}');
SELECT FROM sqs_send('r', 'in flight');
SELECT receipt_handle AS old_handle FROM sqs_receive('r', 1, 43200) \gset
SELECT FROM sqs_send('r', 'visible');
CALL let_pass('r', '590 s');
SELECT FROM sqs_send('r', 'young');
CALL let_pass('r', '10 s');
SELECT bodies('r') AS young_only;
SELECT sqs_delete('r', :'old_handle') AS expired_in_flight;
-- the ones met were removed
SELECT sqs_set_queue_attributes('r', '{"MessageRetentionPeriod": 1209600}');
CALL let_pass('r', '30 s');
SELECT bodies('r');
-- shortening the period is retroactive
SELECT sqs_set_queue_attributes('r', '{"MessageRetentionPeriod": 60}');
CALL let_pass('r', '60 s');
SELECT count(*) AS peeked FROM sqs_peek('r');
SELECT count(*) AS received FROM sqs_receive('r', 10);
SELECT sqs_set_queue_attributes('r', '{"MessageRetentionPeriod": 345600}');
SELECT count(*) AS peeked FROM sqs_peek('r');

-- a transaction rolled back: nothing was sent, received or consumed
SELECT FROM sqs_send('r', 'kept');
BEGIN;
SELECT FROM sqs_send('r', 'lost');
SELECT bodies('r') AS own_sends_too;
SELECT bodies('r') IS NULL AS all_taken;
ROLLBACK;
SELECT bodies('r', 10, 0);
BEGIN;
SELECT body FROM sqs_consume('r', 10);
SELECT count(*) FROM sqs_consume('r', 10);
ROLLBACK;
SELECT body, receipt_handle IS NULL AS no_handle, receive_count FROM sqs_consume('r', 10);
SELECT count(*) FROM sqs_consume('r', 10);

-- a savepoint rolled back takes its sends and receives with it
BEGIN;
SELECT FROM sqs_send('r', 'before');
SAVEPOINT a;
SELECT FROM sqs_send('r', 'within');
SELECT bodies('r');
SAVEPOINT b;
SELECT FROM sqs_send('r', 'deeper');
SELECT bodies('r');
ROLLBACK TO b;
SELECT bodies('r') IS NULL AS nothing_visible;
ROLLBACK TO a;
SELECT bodies('r', 10, 0) AS before_only;
SAVEPOINT c;
SELECT bodies('r', 10, 0) AS counted;
RELEASE c;
COMMIT;
SELECT bodies('r', 10, 0) AS released_counts;
DO $$
BEGIN
	PERFORM sqs_receive('r');
	PERFORM sqs_send('r', 'in the block');
	RAISE division_by_zero;
EXCEPTION WHEN division_by_zero THEN
	NULL;
END
$$;
SELECT bodies('r', 10, 0) AS before_only;
SELECT sqs_purge_queue('r');

-- sent and received by one statement: what it sent before is there
SELECT bodies('r'), sqs_send('r', 'x') IS NULL AS sent, bodies('r'), bodies('r') AS nothing;
SELECT sqs_purge_queue('r');
-- each row of a statement is a receive of its own
SELECT count(*) FROM sqs_send_many('r', ARRAY(SELECT 'm' || i FROM generate_series(1, 8) i));
SELECT count(*), count(DISTINCT body) FROM generate_series(1, 20) i, sqs_receive('r', 1 + 0 * i);
SELECT sqs_purge_queue('r');

-- peek claims nothing and counts nothing
SELECT count(*) FROM sqs_send_many('r', ARRAY(SELECT 'm' || i FROM generate_series(1, 12) i));
SELECT count(*), string_agg(body, ' ') FROM sqs_peek('r');
SELECT body, receive_count, receipt_handle IS NULL AS no_handle, first_received_at IS NULL AS never_received,
	visible_at = sent_at AS at_once FROM sqs_peek('r', 2);
SELECT bodies('r', 2);
SELECT body, receive_count FROM sqs_peek('r', 2);
SELECT sqs_purge_queue('r');

-- read-only transactions
BEGIN READ ONLY;
SELECT try($$ SELECT FROM sqs_send('r', 'x') $$);
SELECT try($$ SELECT FROM sqs_send_many('r', '{x}') $$);
SELECT try($$ SELECT FROM sqs_send_batch('r', '[]') $$);
SELECT try($$ SELECT FROM sqs_receive('r') $$);
SELECT try($$ SELECT FROM sqs_consume('r') $$);
SELECT try($$ SELECT sqs_delete('r', 'x') $$);
SELECT try($$ SELECT sqs_delete_many('r', '{x}') $$);
SELECT try($$ SELECT FROM sqs_delete_batch('r', '[]') $$);
SELECT try($$ SELECT sqs_change_visibility('r', 'x', 1) $$);
SELECT try($$ SELECT sqs_change_visibility_many('r', '{x}', 1) $$);
SELECT try($$ SELECT FROM sqs_change_visibility_batch('r', '[]') $$);
SELECT count(*) AS peek_is_allowed FROM sqs_peek('r');
COMMIT;

-- bad arguments
SELECT try($$ SELECT FROM sqs_receive(NULL) $$);
SELECT try($$ SELECT FROM sqs_receive('') $$);
SELECT try($$ SELECT FROM sqs_receive('nowhere') $$);
SELECT try(format('SELECT FROM sqs_receive(%L)', repeat('r', 81)));
SELECT try(format('SELECT FROM sqs_receive(%L)', repeat('r', 1000000)));
SELECT try($$ SELECT FROM sqs_receive('R') $$);
SELECT try($$ SELECT FROM sqs_receive('schlange-ü') $$);
SELECT try($$ SELECT FROM sqs_receive('r; DROP TABLE sqs.queue') $$);
SELECT try(format('SELECT FROM sqs_receive(''r'', %s)', n)) FROM unnest('{-2147483648, -1, 0, 11, 2147483647}'::int[]) n;
SELECT try(format('SELECT FROM sqs_receive(''r'', 1, %s)', n)) FROM unnest('{-2147483648, -1, 43201, 2147483647}'::int[]) n;
SELECT try(format('SELECT FROM sqs_receive(''r'', 1, 1, %s)', n)) FROM unnest('{-2147483648, -1, 21, 2147483647}'::int[]) n;
SELECT try($$ SELECT FROM sqs_receive('r', receive_request_attempt_id => 'a') $$);
SELECT try($$ SELECT FROM sqs_consume(NULL) $$);
SELECT try($$ SELECT FROM sqs_consume('nowhere') $$);
SELECT try(format('SELECT FROM sqs_consume(''r'', %s)', n)) FROM unnest('{-1, 0, 11}'::int[]) n;
SELECT try(format('SELECT FROM sqs_consume(''r'', 1, %s)', n)) FROM unnest('{-1, 21}'::int[]) n;
SELECT try($$ SELECT FROM sqs_peek(NULL) $$);
SELECT try($$ SELECT FROM sqs_peek('nowhere') $$);
SELECT try(format('SELECT FROM sqs_peek(''r'', %s)', n)) FROM unnest('{-1, 0, 11}'::int[]) n;
SET pg_sqs.max_batch_size = 3;
SELECT try(format('SELECT FROM sqs_receive(''r'', %s)', n)) FROM unnest('{3, 4}'::int[]) n;
RESET pg_sqs.max_batch_size;
-- NULL where a default is
SELECT FROM sqs_send('r', 'defaults');
SELECT body FROM sqs_receive('r', NULL, NULL, NULL, NULL);
SELECT count(*) FROM sqs_peek('r', NULL);
SELECT count(*) FROM sqs_consume('r', NULL, NULL);
SELECT sqs_purge_queue('r');

-- ways to call: prepared, named, a cursor read half-way, a procedure that commits
SELECT count(*) FROM sqs_send_many('r', ARRAY(SELECT 'm' || i FROM generate_series(1, 9) i));
PREPARE take(text, int) AS SELECT body FROM sqs_receive(queue_name => $1, max_number_of_messages => $2);
EXECUTE take('r', 1);
EXECUTE take('r', 2);
BEGIN;
DECLARE half CURSOR FOR SELECT body FROM sqs_receive('r', 3);
FETCH 1 FROM half;
SELECT FROM sqs_send('r', 'm10');
FETCH 1 FROM half;
COMMIT;
SELECT bodies('r', 2);
CREATE PROCEDURE work(queue text) LANGUAGE plpgsql AS $$
DECLARE
	m sqs_message;
BEGIN
	LOOP
		SELECT * INTO m FROM sqs_receive(queue);
		EXIT WHEN m.message_id IS NULL;
		COMMIT;
		RAISE WARNING 'working on %', m.body;
		PERFORM sqs_delete(queue, m.receipt_handle);
		COMMIT;
	END LOOP;
END
$$;
CALL work('r');
SELECT sqs_delete_queue('r');

-- a queue made, used and dropped in one transaction; and one whose creation is undone
BEGIN;
SELECT sqs_create_queue('brief');
SELECT FROM sqs_send('brief', 'x');
SELECT bodies('brief');
SELECT sqs_delete_queue('brief');
SELECT try($$ SELECT FROM sqs_receive('brief') $$);
COMMIT;
BEGIN;
SELECT sqs_create_queue('brief');
SELECT FROM sqs_send('brief', 'x');
ROLLBACK;
SELECT try($$ SELECT FROM sqs_receive('brief') $$);
BEGIN;
SAVEPOINT a;
SELECT sqs_create_queue('brief');
SELECT FROM sqs_send('brief', 'undone');
ROLLBACK TO a;
SELECT try($$ SELECT FROM sqs_receive('brief') $$);
SELECT sqs_create_queue('brief');
SELECT FROM sqs_send('brief', 'y');
COMMIT;
SELECT bodies('brief');
-- a deletion undone
BEGIN;
SELECT sqs_delete_queue('brief');
SELECT try($$ SELECT FROM sqs_receive('brief') $$);
ROLLBACK;
SELECT FROM sqs_send('brief', 'z');
SELECT bodies('brief');
-- a new queue of the same name has none of the old one's messages
SELECT sqs_delete_queue('brief');
SELECT sqs_create_queue('brief');
SELECT bodies('brief') IS NULL AS nothing;
SELECT sqs_delete_queue('brief');
DROP PROCEDURE work(text);
