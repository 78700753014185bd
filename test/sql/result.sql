-- Sets of rows, wherever a query may call for one

SELECT sqs_create_queue('result', '{"VisibilityTimeout": 0}');
SELECT count(*) FROM sqs_send_many('result', '{a,b,c}', message_group_id => 'g');

-- in FROM
SELECT body, message_group_id FROM sqs_peek('result');
SELECT body, n FROM sqs_peek('result', 2) WITH ORDINALITY AS t(message_id, receipt_handle, body, receive_count, sent_at, first_received_at, visible_at, sender_id, message_group_id, message_deduplication_id, sequence_number, message_attributes, aws_trace_header, dead_letter_queue_source, n);
SELECT x.body, y FROM ROWS FROM (sqs_peek('result'), generate_series(1, 4)) AS t(message_id, receipt_handle, body, receive_count, sent_at, first_received_at, visible_at, sender_id, message_group_id, message_deduplication_id, sequence_number, message_attributes, aws_trace_header, dead_letter_queue_source, y), LATERAL (SELECT t.body) AS x;
SELECT n, body FROM generate_series(1, 3) n, LATERAL sqs_peek('result', n);
SELECT (m).body, pg_typeof(m) FROM sqs_peek('result') AS m;

-- in the SELECT list, also beside another set and with fewer rows
SELECT (m).body FROM (SELECT sqs_peek('result', 2) AS m) AS t;
SELECT (m).body, n FROM (SELECT sqs_peek('result', 2) AS m, generate_series(1, 3) AS n) AS t;
SELECT count(*) FROM (SELECT sqs_send_many('result', ARRAY['d', 'e'])) AS t;

-- no rows, of either kind
SELECT sqs_create_queue('empty');
SELECT * FROM sqs_receive('empty');
SELECT sqs_receive('empty');
SELECT sqs_send_many('empty', '{}');
SELECT n, body FROM generate_series(1, 2) n LEFT JOIN LATERAL sqs_receive('empty', n) ON true;
SELECT sqs_list_queues('nothing starts with this');

-- a cursor that goes back, and one that outlives its transaction
BEGIN;
DECLARE back SCROLL CURSOR FOR SELECT body FROM sqs_peek('result');
FETCH ALL FROM back;
FETCH BACKWARD 2 FROM back;
FETCH FIRST FROM back;
DECLARE hold CURSOR WITH HOLD FOR SELECT body FROM sqs_peek('result', 2);
COMMIT;
FETCH ALL FROM hold;
CLOSE hold;

-- stored as rows and as values of the row type
CREATE TABLE message AS SELECT m, (m).body AS body FROM sqs_peek('result', 3) AS m;
CREATE TABLE messages (LIKE message);
INSERT INTO messages SELECT m, (m).body FROM (SELECT sqs_peek('result', 3) AS m) AS t;
SELECT (message.m).body, message.m = messages.m AS same FROM message JOIN messages USING (body) ORDER BY body;
SELECT array_agg((m).body ORDER BY body) FROM (SELECT unnest(array_agg(m)) AS m, unnest(array_agg(body)) AS body FROM message) AS t;

-- more rows than fit into work_mem
SET work_mem = '64kB';
SELECT count(*), count(DISTINCT id) FROM sqs_send_many('empty', array_fill('x'::text, '{20000}')) AS id;
SELECT count(*) FROM (SELECT sqs_send_many('empty', array_fill('x'::text, '{20000}'))) AS t;
-- read backwards as well
SELECT sqs_create_queue('spilled');
SELECT count(*) FROM sqs_send_many('spilled', (SELECT array_agg('body ' || n ORDER BY n) FROM generate_series(1, 2000) n));
BEGIN;
SET LOCAL pg_sqs.max_batch_size = 2000;
DECLARE spilled SCROLL CURSOR FOR SELECT body FROM sqs_peek('spilled', 2000);
MOVE FORWARD ALL FROM spilled;
FETCH BACKWARD 3 FROM spilled;
FETCH ABSOLUTE 2 FROM spilled;
COMMIT;
RESET work_mem;

-- in PL/pgSQL
DO $$
DECLARE
	m sqs_message;
	bodies text := '';
BEGIN
	FOR m IN SELECT * FROM sqs_peek('result', 3) LOOP
		bodies := bodies || m.body;
	END LOOP;
	SELECT * INTO m FROM sqs_receive('result');
	RAISE NOTICE '% %', bodies, m.body;
END $$;

-- a prepared statement goes on after its queue was made anew
PREPARE look AS SELECT body FROM sqs_peek('result', 1);
EXECUTE look;
SELECT sqs_delete_queue('result'), sqs_create_queue('result'), message_id IS NOT NULL FROM sqs_send('empty', 'x');
SELECT md5_of_message_body FROM sqs_send('result', 'new');
EXECUTE look;

-- a row type that was altered is an error, not a crash
BEGIN;
ALTER TYPE sqs_message ADD ATTRIBUTE more text;
SELECT * FROM sqs_peek('result');
ROLLBACK;
BEGIN;
ALTER TYPE sqs_message ADD ATTRIBUTE more text;
SELECT sqs_peek('result');
ROLLBACK;
EXECUTE look;

DROP TABLE message, messages;
SELECT sqs_delete_queue(name) FROM sqs_list_queues() AS name;
