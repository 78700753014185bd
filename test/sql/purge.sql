-- sqs_purge_queue

\getenv folder PG_ABS_SRCDIR
\set helpers :folder /sql/helpers.psql
\set ECHO none
\i :helpers
\set ECHO all

CREATE FUNCTION counts(queue_name text, OUT visible text, OUT in_flight text, OUT delayed text) LANGUAGE sql AS $$
	SELECT a ->> 'ApproximateNumberOfMessages', a ->> 'ApproximateNumberOfMessagesNotVisible', a ->> 'ApproximateNumberOfMessagesDelayed'
	FROM sqs_get_queue_attributes(queue_name) a $$;
SELECT sqs_create_queue('q', '{"VisibilityTimeout": 43200}'), sqs_create_queue('other');

-- visible, in flight and delayed messages go, and no other queue's
SELECT count(*) FROM sqs_send_many('q', '{a,b,c,d}');
SELECT count(*) FROM sqs_send_many('q', '{e,f}', 900);
SELECT count(*) FROM sqs_send_many('other', '{x}');
CREATE TEMP TABLE received AS SELECT * FROM sqs_receive('q', 2);
SELECT * FROM counts('q');
SELECT sqs_purge_queue('q');
SELECT * FROM counts('q');
SELECT * FROM counts('other');
SELECT count(*) FROM sqs_receive('q');
SELECT sqs_delete('q', receipt_handle) FROM received;
SELECT sqs_purge_queue('q');

-- what is sent afterwards stays
SELECT (sqs_send('q', 'later')).message_id IS NOT NULL;
SELECT body FROM sqs_peek('q');

-- rolled back, whole or in part
BEGIN;
SELECT (sqs_send('q', 'mine')).message_id IS NOT NULL;
SAVEPOINT s;
SELECT sqs_purge_queue(queue_name => 'q');
SELECT * FROM counts('q');
SELECT (sqs_send('q', 'after')).message_id IS NOT NULL;
SELECT body FROM sqs_peek('q');
ROLLBACK TO s;
SELECT body FROM sqs_peek('q');
ROLLBACK;
SELECT body FROM sqs_peek('q');

-- at every isolation level, after a receive of the same transaction
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT (sqs_send('q', 'mine')).message_id IS NOT NULL, (SELECT count(*) FROM sqs_receive('q', 1));
SELECT sqs_purge_queue('q');
SELECT * FROM counts('q');
ROLLBACK;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT (sqs_send('q', 'mine')).message_id IS NOT NULL, (SELECT count(*) FROM sqs_receive('q', 1));
SELECT sqs_purge_queue('q');
SELECT * FROM counts('q');
COMMIT;
SELECT * FROM counts('q');

-- many, and large ones
SELECT count(*) FROM sqs_send_many('q', (SELECT array_agg(repeat(i::text, 3000)) FROM generate_series(1, 1000) i));
SELECT (sqs_send('q', repeat('x', 1048576))).message_id IS NOT NULL;
SELECT sqs_purge_queue('q');
SELECT * FROM counts('q');

-- a table with triggers and an index of the user's
CREATE TABLE gone (body text);
CREATE FUNCTION note_gone() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO gone VALUES (old.body); RETURN NULL; END $$;
DO $$
DECLARE
	queue_table text := (SELECT 'sqs.queue_' || id FROM sqs.queue WHERE name = 'q');
BEGIN
	EXECUTE format('CREATE TRIGGER note AFTER DELETE ON %s FOR EACH ROW EXECUTE FUNCTION note_gone()', queue_table);
	EXECUTE format('CREATE INDEX ON %s (message_group_id)', queue_table);
END $$;
SELECT count(*) FROM sqs_send_many('q', '{a,b,c}');
SELECT count(*) FROM sqs_receive('q', 1);
SELECT sqs_purge_queue('q');
SELECT * FROM gone ORDER BY body;
SELECT * FROM counts('q');

-- the 60 seconds between two purges
SET pg_sqs.cooldown = 60;
SELECT sqs_purge_queue('q');
SELECT try($$SELECT sqs_purge_queue('q')$$);
SELECT sqs_purge_queue('other');
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT try($$SELECT sqs_purge_queue('q')$$);
COMMIT;
UPDATE sqs.queue SET purged_at = purged_at - interval '30 s' WHERE name = 'q';
SELECT try($$SELECT sqs_purge_queue('q')$$);
SET pg_sqs.cooldown = 20;
BEGIN;
SELECT sqs_purge_queue('q');
ROLLBACK;
SELECT sqs_purge_queue('q');
SELECT try($$SELECT sqs_purge_queue('q')$$);
RESET pg_sqs.cooldown;
SELECT sqs_purge_queue('q');

-- which queue, and whose
SELECT try($$SELECT sqs_purge_queue(NULL)$$);
SELECT try($$SELECT sqs_purge_queue('')$$);
SELECT try($$SELECT sqs_purge_queue('not-there')$$);
SELECT try($$SELECT sqs_purge_queue(repeat('q', 81))$$);
SELECT try($$SELECT sqs_purge_queue('größe')$$);
CREATE ROLE regress_purger;
SELECT sqs_add_permission('q', 'all', '{regress_purger}', '{*}');
SET ROLE regress_purger;
SELECT try($$SELECT sqs_purge_queue('q')$$);
RESET ROLE;
BEGIN READ ONLY;
SELECT try($$SELECT sqs_purge_queue('q')$$);
COMMIT;

SELECT sqs_delete_queue('q'), sqs_delete_queue('other');
DROP TABLE gone, received;
DROP ROLE regress_purger;
DROP FUNCTION note_gone, counts;
