-- Maintenance by hand: what sqs_maintain() moves and removes, who may call it,
-- and that one queue's trouble is no other's.
\set ECHO none
\getenv folder PG_ABS_SRCDIR
\set helpers :folder /sql/helpers.psql
\i :helpers
\set ECHO all

CREATE FUNCTION upkeep_dead_letters() RETURNS jsonb LANGUAGE sql AS
	$$ SELECT '{"RedrivePolicy": {"deadLetterTargetArn": "upkeep_dead", "maxReceiveCount": 1}}'::jsonb $$;
-- what is in a queue, and how often it was received
CREATE FUNCTION upkeep_contents(queue_name text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	EXECUTE format('SELECT string_agg(body || ''/'' || receive_count, '' '' ORDER BY id) FROM %s', queue_table(queue_name)) INTO result;
	RETURN result;
END
$$;

SELECT sqs_create_queue('upkeep_dead');
SELECT sqs_create_queue('upkeep', upkeep_dead_letters());
SELECT sqs_maintain();

-- received as often as may be: moved when the visibility timeout is over
SELECT FROM sqs_send('upkeep', 'over');
SELECT bodies('upkeep', 1, 0);
SELECT FROM sqs_send('upkeep', 'in flight');
SELECT bodies('upkeep', 1, 100);
SELECT FROM sqs_send('upkeep', 'new') a, sqs_send('upkeep', 'delayed', 900) b;
SELECT sqs_maintain();
SELECT upkeep_contents('upkeep'), upkeep_contents('upkeep_dead');
SELECT body, receive_count, dead_letter_queue_source, from_now(visible_at) FROM sqs_peek('upkeep_dead');
-- and all of it is undone with the transaction
SELECT bodies('upkeep', 10, 0);
BEGIN;
SELECT sqs_maintain();
SELECT upkeep_contents('upkeep'), upkeep_contents('upkeep_dead');
ROLLBACK;
SELECT upkeep_contents('upkeep'), upkeep_contents('upkeep_dead');
-- at any isolation level
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT count(*) FROM pg_class WHERE false;
SELECT sqs_maintain();
COMMIT;
SELECT upkeep_contents('upkeep'), upkeep_contents('upkeep_dead');
SELECT sqs_purge_queue('upkeep'), sqs_purge_queue('upkeep_dead');

-- past the retention period: removed, wherever it is
SELECT FROM sqs_send('upkeep', 'old') a, sqs_send('upkeep', 'old and delayed', 900) b;
SELECT count(*) FROM sqs_send_many('upkeep', ARRAY(SELECT 'old ' || i FROM generate_series(1, 3000) i));
SELECT FROM sqs_receive('upkeep', 5, 43200);
CALL let_pass('upkeep', '3 days 23:59');
SELECT sqs_maintain();
SELECT length(upkeep_contents('upkeep')) > 30000 AS all_there;
CALL let_pass('upkeep', '1 minute');
SELECT FROM sqs_send('upkeep', 'young');
SELECT sqs_maintain();
SELECT upkeep_contents('upkeep'), upkeep_contents('upkeep_dead');
SELECT sqs_purge_queue('upkeep');

-- a queue that is its own dead-letter queue, and one whose has gone
SELECT sqs_create_queue('upkeep_self');
SELECT sqs_set_queue_attributes('upkeep_self', '{"RedrivePolicy": {"deadLetterTargetArn": "upkeep_self", "maxReceiveCount": 1}}');
SELECT sqs_create_queue('upkeep_gone');
SELECT sqs_create_queue('upkeep_dangling', '{"RedrivePolicy": {"deadLetterTargetArn": "upkeep_gone", "maxReceiveCount": 1}}');
SELECT sqs_delete_queue('upkeep_gone');
SELECT FROM sqs_send('upkeep_self', 'stays') a, sqs_send('upkeep_dangling', 'stays') b;
SELECT bodies('upkeep_self', 1, 0), bodies('upkeep_dangling', 1, 0);
SELECT sqs_maintain();
SELECT upkeep_contents('upkeep_self'), upkeep_contents('upkeep_dangling');
SELECT sqs_delete_queue('upkeep_self'), sqs_delete_queue('upkeep_dangling');

-- a queue whose table raises an error
SELECT sqs_create_queue('upkeep_bad', upkeep_dead_letters());
SELECT sqs_create_queue('upkeep_good', upkeep_dead_letters());
SELECT FROM sqs_send('upkeep', 'from upkeep') a, sqs_send('upkeep_bad', 'from bad') b, sqs_send('upkeep_good', 'from good') c;
SELECT bodies('upkeep', 1, 0), bodies('upkeep_bad', 1, 0), bodies('upkeep_good', 1, 0);
CREATE FUNCTION upkeep_refuse() RETURNS trigger LANGUAGE plpgsql AS
	$$ BEGIN RAISE EXCEPTION 'not today' USING ERRCODE = 'ZZ001', HINT = 'Come back tomorrow.'; END $$;
DO $$ BEGIN EXECUTE format('CREATE TRIGGER upkeep_refuse BEFORE DELETE ON %s FOR EACH ROW EXECUTE FUNCTION upkeep_refuse()', queue_table('upkeep_bad')); END $$;
SELECT sqs_maintain();
SELECT upkeep_contents('upkeep'), upkeep_contents('upkeep_bad'), upkeep_contents('upkeep_good'), upkeep_contents('upkeep_dead');
DO $$ BEGIN EXECUTE format('DROP TRIGGER upkeep_refuse ON %s', queue_table('upkeep_bad')); END $$;
SELECT sqs_maintain();
SELECT upkeep_contents('upkeep_bad'), upkeep_contents('upkeep_dead');
SELECT sqs_delete_queue('upkeep_bad'), sqs_delete_queue('upkeep_good'), sqs_purge_queue('upkeep_dead');

-- no lock is kept of a queue that had nothing to be done
BEGIN;
SELECT sqs_maintain();
SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid()
	AND relation IN (queue_table('upkeep'), queue_table('upkeep_dead'));
COMMIT;

-- names of deleted queues
SET pg_sqs.cooldown = 3600;
SELECT sqs_create_queue('upkeep_one');
SELECT sqs_create_queue('upkeep_two');
SELECT sqs_delete_queue('upkeep_one'), sqs_delete_queue('upkeep_two');
UPDATE sqs.deleted_queue SET deleted_at = deleted_at - interval '1 hour' WHERE name = 'upkeep_two';
SELECT sqs_maintain();
SELECT name FROM sqs.deleted_queue WHERE name LIKE 'upkeep%';
RESET pg_sqs.cooldown;

-- who may
CREATE ROLE regress_sqs_upkeep;
GRANT CREATE ON SCHEMA sqs TO regress_sqs_upkeep;
SET ROLE regress_sqs_upkeep;
SELECT sqs_create_queue('upkeep_theirs');
SELECT try('SELECT sqs_maintain()');
SELECT try('SELECT sqs_schedule_maintenance()');
SELECT try('SELECT sqs_unschedule_maintenance()');
RESET ROLE;
BEGIN READ ONLY;
SELECT try('SELECT sqs_maintain()');
SELECT try('SELECT sqs_schedule_maintenance()');
ROLLBACK;
-- nothing a queue's owner wrote runs as whoever maintains it
CREATE TABLE upkeep_seen (who text, path text);
GRANT INSERT ON upkeep_seen TO regress_sqs_upkeep;
CREATE FUNCTION upkeep_look() RETURNS trigger LANGUAGE plpgsql AS
	$$ BEGIN INSERT INTO public.upkeep_seen VALUES (current_user, current_setting('search_path')); RETURN OLD; END $$;
DO $$ BEGIN EXECUTE format('CREATE TRIGGER upkeep_look AFTER DELETE ON %s FOR EACH ROW EXECUTE FUNCTION upkeep_look()', queue_table('upkeep_theirs')); END $$;
SELECT FROM sqs_send('upkeep_theirs', 'old');
CALL let_pass('upkeep_theirs', '4 days');
TRUNCATE upkeep_seen;
SELECT sqs_maintain();
SELECT * FROM upkeep_seen;
SELECT upkeep_contents('upkeep_theirs'), current_user = session_user AS restored;
SELECT sqs_delete_queue('upkeep_theirs'), sqs_delete_queue('upkeep'), sqs_delete_queue('upkeep_dead');
DROP OWNED BY regress_sqs_upkeep;
DROP ROLE regress_sqs_upkeep;
