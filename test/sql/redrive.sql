-- Dead letters: what a receive moves, when, and what the message keeps.
\set ECHO none
\getenv folder PG_ABS_SRCDIR
\set helpers :folder /sql/helpers.psql
\i :helpers
\set ECHO all

CREATE FUNCTION redrive_to(queue_name text, n int) RETURNS jsonb LANGUAGE sql AS
	$$ SELECT jsonb_build_object('RedrivePolicy', jsonb_build_object('deadLetterTargetArn',
		'arn:aws:sqs:local:000000000000:' || queue_name, 'maxReceiveCount', n)) $$;

SELECT sqs_create_queue('dlq');
SELECT sqs_create_queue('src', redrive_to('dlq', 1));

-- received once, moved at the second attempt, which goes on to the next message
SELECT FROM sqs_send('src', 'poison', message_attributes => '{"k": "v"}', message_group_id => 'g',
	aws_trace_header => 'Root=1-5759e988-bd862e3fe1be46a994272793', visibility_timeout => 77);
SELECT *, message_attributes IS NOT NULL AS x FROM sqs_receive('src', 1, 0) \gset m_
SELECT FROM sqs_send('src', 'next');
SELECT count(*) AS not_before FROM sqs_peek('dlq');
SELECT bodies('src') AS next_only;
SELECT * FROM sqs_receive('dlq') \gset d_
SELECT :'d_message_id' = :'m_message_id' AS same_id, :d_receive_count AS receive_count,
	:'d_sent_at' = :'m_sent_at' AS same_sent, :'d_first_received_at' = :'m_first_received_at' AS same_first,
	:'d_body' AS body, :'d_sender_id' = :'m_sender_id' AS same_sender, :'d_message_group_id' AS group_id,
	:'d_message_attributes' AS attributes, :'d_aws_trace_header' AS trace;
SELECT from_now(:'d_visible_at') AS own_timeout_kept, :'d_dead_letter_queue_source' AS source;
SELECT count(*) AS gone_from_source FROM sqs_peek('src');
-- the source's handle deletes nothing, and is not the dead-letter queue's
SELECT sqs_delete('src', :'m_receipt_handle');
SELECT left(try(format('SELECT sqs_delete(''dlq'', %L)', :'m_receipt_handle')), 5);
SELECT sqs_delete('dlq', :'d_receipt_handle');
SELECT sqs_purge_queue('src');

-- visible there at once, whatever delay or timeout that queue has
SELECT sqs_set_queue_attributes('dlq', '{"DelaySeconds": 900}');
SELECT FROM sqs_send('src', 'a');
SELECT bodies('src', 10, 0), bodies('src', 10, 0) IS NULL AS moved;
SELECT bodies('dlq');
SELECT sqs_set_queue_attributes('dlq', '{"DelaySeconds": 0}');
SELECT sqs_purge_queue('dlq');

-- the largest count of receives; a count lowered later; a policy removed
SELECT sqs_set_queue_attributes('src', redrive_to('dlq', 3));
SELECT FROM sqs_send('src', 'a');
SELECT bodies('src', 10, 0) FROM generate_series(1, 5);
SELECT bodies('dlq', 10, 0);
SELECT sqs_purge_queue('dlq');
SELECT FROM sqs_send('src', 'b');
SELECT bodies('src', 10, 0), bodies('src', 10, 0);
SELECT sqs_set_queue_attributes('src', redrive_to('dlq', 1));
SELECT bodies('src', 10, 0) IS NULL AS moved, bodies('dlq', 10, 0);
SELECT sqs_purge_queue('dlq');
SELECT FROM sqs_send('src', 'c');
SELECT bodies('src', 10, 0);
SELECT sqs_set_queue_attributes('src', '{"RedrivePolicy": ""}');
SELECT bodies('src', 10, 0), count(*) FROM sqs_peek('dlq');
SELECT sqs_purge_queue('src');

-- a delete or change of visibility before the attempt still works
SELECT sqs_set_queue_attributes('src', redrive_to('dlq', 1));
SELECT FROM sqs_send('src', 'a');
SELECT take('src', 0) AS h \gset
SELECT from_now(sqs_change_visibility('src', :'h', 100));
SELECT bodies('src') IS NULL AS in_flight, count(*) FROM sqs_peek('dlq');
SELECT sqs_delete('src', :'h');

-- peek shows what a receive would return
SELECT sqs_set_queue_attributes('src', redrive_to('dlq', 3));
SELECT FROM sqs_send('src', 'poison');
SELECT bodies('src', 1, 0), bodies('src', 1, 0), bodies('src', 1, 0);
SELECT FROM sqs_send('src', 'good');
SELECT body FROM sqs_peek('src');
SELECT count(*) FROM sqs_peek('dlq');
-- a consume moves too; all of it is undone with the transaction
BEGIN;
SELECT body FROM sqs_consume('src', 10);
SELECT body, receive_count FROM sqs_peek('dlq');
ROLLBACK;
SELECT count(*) FROM sqs_peek('dlq');
BEGIN;
SAVEPOINT x;
SELECT bodies('src');
ROLLBACK TO x;
COMMIT;
SELECT count(*) FROM sqs_peek('dlq');
SELECT body FROM sqs_consume('src', 10);
SELECT bodies('dlq');
SELECT sqs_purge_queue('dlq');
SELECT sqs_set_queue_attributes('src', redrive_to('dlq', 1));

-- many at once, in order; expired ones are not moved
SET pg_sqs.max_batch_size = 1000;
SELECT count(*) FROM sqs_send_many('src', ARRAY(SELECT 'm' || i FROM generate_series(1, 500) i));
SELECT count(*) FROM sqs_receive('src', 1000, 0);
SELECT FROM sqs_send('src', 'last');
SELECT bodies('src', 1);
SELECT count(*), count(DISTINCT message_id), min(receive_count), max(receive_count),
	array_agg(body ORDER BY ordinality) = ARRAY(SELECT 'm' || i FROM generate_series(1, 500) i) AS in_order FROM sqs_receive('dlq', 1000, 0) WITH ORDINALITY;
RESET pg_sqs.max_batch_size;
SELECT sqs_purge_queue('src'), sqs_purge_queue('dlq');
SELECT FROM sqs_send('src', 'old');
SELECT bodies('src', 10, 0);
CALL let_pass('src', '5 days');
SELECT bodies('src') IS NULL AS nothing, count(*) FROM sqs_peek('dlq');
-- the retention clock goes on from when it was sent
SELECT FROM sqs_send('src', 'old');
SELECT bodies('src', 10, 0);
CALL let_pass('src', '3 days');
SELECT bodies('src') IS NULL AS moved;
SELECT from_now(sent_at) FROM sqs_peek('dlq');
CALL let_pass('dlq', '1 day');
SELECT bodies('dlq') IS NULL AS expired;

-- a chain: what the first dead-letter queue gives up goes to the next
SELECT sqs_create_queue('grave');
SELECT sqs_set_queue_attributes('dlq', redrive_to('grave', 2));
SELECT FROM sqs_send('src', 'a');
SELECT bodies('src', 10, 0), bodies('src', 10, 0) IS NULL AS moved;
SELECT bodies('dlq', 10, 0), bodies('dlq', 10, 0) IS NULL AS moved;
SELECT body, receive_count, dead_letter_queue_source FROM sqs_receive('grave');
SELECT sqs_set_queue_attributes('dlq', '{"RedrivePolicy": ""}');
-- a circle comes to an end as well
SELECT sqs_set_queue_attributes('dlq', redrive_to('src', 1));
SELECT FROM sqs_send('src', 'round');
SELECT bodies('src', 10, 0), bodies('src', 10, 0) IS NULL AS moved, bodies('dlq', 10, 0) IS NULL AS moved_back,
	bodies('src', 10, 0) IS NULL AS and_forth;
SELECT sqs_set_queue_attributes('dlq', '{"RedrivePolicy": ""}');
SELECT bodies('dlq');
SELECT sqs_purge_queue('dlq');

-- a queue that is its own dead-letter queue: messages stay receivable, no receive hangs
SELECT sqs_create_queue('self');
SELECT sqs_set_queue_attributes('self', redrive_to('self', 1));
SELECT FROM sqs_send('self', 'a');
SELECT bodies('self', 10, 0) FROM generate_series(1, 3);
SELECT count(*) FROM sqs_peek('self');
SELECT sqs_delete_queue('self');

-- the dead-letter queue was deleted: messages stay; made again, they move
SELECT FROM sqs_send('src', 'a');
SELECT sqs_delete_queue('dlq');
SELECT bodies('src', 10, 0) FROM generate_series(1, 3);
SELECT count(*) FROM sqs_peek('src');
SELECT sqs_create_queue('dlq');
SELECT bodies('src', 10, 0) IS NULL AS moved;
SELECT bodies('dlq', 10, 0);
-- renamed meanwhile or not there: an open transaction that made it sees it
SELECT sqs_delete_queue('dlq');
SELECT FROM sqs_send('src', 'b');
BEGIN;
SELECT sqs_create_queue('dlq');
SELECT bodies('src', 10, 0), bodies('src', 10, 0) IS NULL AS moved, (SELECT body FROM sqs_peek('dlq'));
ROLLBACK;
SELECT bodies('src', 10, 0);
SELECT sqs_create_queue('dlq');
SELECT sqs_purge_queue('src');

-- the consumer needs no right on the dead-letter queue
CREATE ROLE regress_sqs_consumer;
SELECT sqs_add_permission('src', 'work', '{regress_sqs_consumer}', '{ReceiveMessage,DeleteMessage}');
SELECT FROM sqs_send('src', 'poison');
SET ROLE regress_sqs_consumer;
SELECT try($$ SELECT FROM sqs_peek('dlq') $$);
SELECT try($$ SELECT FROM sqs_send('dlq', 'x') $$);
SELECT bodies('src', 10, 0), bodies('src', 10, 0) IS NULL AS moved;
RESET ROLE;
SELECT body, sender_id = current_user AS same_sender FROM sqs_receive('dlq', 1, 0);
SELECT sqs_purge_queue('dlq');

-- a trigger on the dead-letter queue's table runs as its owner
CREATE ROLE regress_sqs_owner;
CREATE TABLE public.moved (body text, by name);
CREATE FUNCTION note_moved() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO public.moved VALUES (NEW.body, current_user);
	RETURN NEW;
END
$$;
GRANT INSERT ON public.moved TO regress_sqs_owner;
SELECT queue_table('dlq') AS dlq_table \gset
GRANT USAGE ON SCHEMA sqs TO regress_sqs_owner;
GRANT regress_sqs_owner TO CURRENT_USER;
GRANT CREATE ON SCHEMA sqs TO regress_sqs_owner;
ALTER TABLE :dlq_table OWNER TO regress_sqs_owner;
CREATE TRIGGER note_moved AFTER INSERT ON :dlq_table FOR EACH ROW EXECUTE FUNCTION note_moved();
SELECT FROM sqs_send('src', 'poison');
SET ROLE regress_sqs_consumer;
SELECT bodies('src', 10, 0), bodies('src', 10, 0) IS NULL AS moved, current_user;
RESET ROLE;
SELECT * FROM public.moved;
-- row security there is for people, not for the move
DROP TRIGGER note_moved ON :dlq_table;
ALTER TABLE :dlq_table ENABLE ROW LEVEL SECURITY;
SELECT FROM sqs_send('src', 'poison 2');
SET ROLE regress_sqs_consumer;
SELECT bodies('src', 10, 0), bodies('src', 10, 0) IS NULL AS moved;
RESET ROLE;
SELECT bodies('dlq');
SELECT sqs_delete_queue('src');
SELECT sqs_delete_queue('dlq');
SELECT sqs_delete_queue('grave');
DROP TABLE public.moved;
REVOKE ALL ON SCHEMA sqs FROM regress_sqs_owner;
DROP ROLE regress_sqs_consumer, regress_sqs_owner;
DROP FUNCTION redrive_to(text, int), note_moved();
