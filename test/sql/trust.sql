-- Whom nobody has to trust: the owner of a queue, who installs the extension,
-- and a consumer whose messages move to another's queue
\getenv folder PG_ABS_SRCDIR
\set helpers :folder /sql/helpers.psql
\i :helpers

CREATE ROLE regress_sqs_owner;
CREATE ROLE regress_sqs_user;
GRANT CREATE ON SCHEMA sqs TO regress_sqs_owner;
GRANT CREATE ON SCHEMA public TO regress_sqs_owner, regress_sqs_user;

-- calls inside one another leave the session as it was
CREATE FUNCTION look_around() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM public.sqs_list_queues();
	PERFORM count(*) FROM public.sqs_metrics;
	RETURN NULL;
END
$$;
CREATE TRIGGER look_around AFTER INSERT OR UPDATE ON sqs.queue EXECUTE FUNCTION look_around();
SET ROLE regress_sqs_owner;
SET search_path = public, pg_catalog;
BEGIN;
SELECT sqs_create_queue('source', '{"VisibilityTimeout": 0}');
SELECT current_user, current_setting('search_path');
COMMIT;
SELECT sqs_create_queue('dead');
SELECT current_user, current_setting('search_path');
RESET ROLE;
RESET search_path;
DROP TRIGGER look_around ON sqs.queue;
CREATE FUNCTION look_at_command() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM public.sqs_list_queues();
	PERFORM public.sqs_send('source', tg_tag);
END
$$;
CREATE EVENT TRIGGER look_at_command ON ddl_command_end WHEN TAG IN ('CREATE TABLE')
	EXECUTE FUNCTION look_at_command();
SET search_path = public, pg_catalog;
SELECT sqs_create_queue('third');
SELECT current_user = session_user, current_setting('search_path');
RESET search_path;
DROP EVENT TRIGGER look_at_command;
SELECT bodies('source');
SELECT sqs_purge_queue('source');

-- a dead-letter queue's trigger runs as its owner, and safe from the consumer
SELECT sqs_set_queue_attributes('source',
	'{"RedrivePolicy": {"deadLetterTargetArn": "dead", "maxReceiveCount": 1}}');
SELECT sqs_add_permission('source', 'consumer', '{regress_sqs_user}', '{SendMessage,ReceiveMessage}');
SELECT format('CREATE TRIGGER note_move AFTER INSERT ON %s FOR EACH ROW EXECUTE FUNCTION note_move()',
	queue_table('dead')) AS command \gset
SET ROLE regress_sqs_owner;
CREATE TABLE moves (what text, by text);
CREATE FUNCTION note_move() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO public.moves VALUES (lower('MOVED'), current_user);
	RETURN NULL;
END
$$;
:command;
RESET ROLE;

CREATE SCHEMA regress_sqs_trap AUTHORIZATION regress_sqs_user;
SET ROLE regress_sqs_user;
GRANT USAGE ON SCHEMA regress_sqs_trap TO PUBLIC;
CREATE FUNCTION regress_sqs_trap.lower(text) RETURNS text LANGUAGE sql AS
	$$ SELECT 'trapped ' || current_user $$;
SELECT message_id IS NOT NULL FROM sqs_send('source', 'poison');
SET search_path = regress_sqs_trap, pg_catalog, public;
SELECT body FROM sqs_receive('source');
SELECT body FROM sqs_receive('source');
SELECT current_user, current_setting('search_path');
RESET search_path;
RESET ROLE;
SELECT * FROM moves;
SELECT bodies('dead');

-- nor can it act later, when somebody else has taken over
SELECT format('CREATE CONSTRAINT TRIGGER later AFTER DELETE ON %s
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION note_move()',
	queue_table('source')) AS command \gset
SET ROLE regress_sqs_owner;
:command;
RESET ROLE;
SELECT message_id IS NOT NULL FROM sqs_send('source', 'old');
CALL let_pass('source', '5 days');
SELECT sqs_maintain();
SELECT * FROM moves;

-- what an owner does to his table is his own trouble
SELECT sqs_set_queue_attributes('third', '{"VisibilityTimeout": 0}');
SELECT message_id IS NOT NULL FROM sqs_send('third', 'x');
SELECT format('ALTER TABLE %1$s ALTER message_id DROP NOT NULL, ALTER body DROP NOT NULL;
	UPDATE %1$s SET message_id = NULL, body = NULL, receive_count = 2147483646',
	queue_table('third')) AS command \gset
:command;
SELECT message_id, body, receive_count FROM sqs_receive('third');
SELECT sqs_maintain();
SELECT count(*) FROM sqs_metrics;

SELECT sqs_delete_queue('source'), sqs_delete_queue('dead'), sqs_delete_queue('third');

-- a database owner who is no superuser installs the extension
CREATE DATABASE regress_sqs_trusted OWNER regress_sqs_owner;
ALTER ROLE regress_sqs_owner LOGIN;
\set database :DBNAME
\set superuser :USER
\c regress_sqs_trusted regress_sqs_owner
SET client_min_messages = warning;
CREATE SCHEMA app;
CREATE EXTENSION pg_sqs SCHEMA app;
SET search_path = app, public;
\i :helpers
SELECT sqs_create_queue('dead', '{"VisibilityTimeout": 0}');
SELECT sqs_create_queue('q', '{"VisibilityTimeout": 0, "RedrivePolicy":
	{"deadLetterTargetArn": "dead", "maxReceiveCount": 1}}', '{"team": "billing"}');
SELECT message_id IS NOT NULL FROM sqs_send('q', 'one');
SELECT bodies('q');
SELECT bodies('q');
SELECT bodies('dead');
SELECT sqs_list_queue_tags('q');
SELECT sqs_add_permission('q', 'sender', '{regress_sqs_user}', '{SendMessage}');
SELECT * FROM sqs_list_permissions('q');
SELECT sqs_maintain();
SELECT queue_name, approximate_number_of_messages_visible FROM sqs_metrics;
GRANT CREATE ON SCHEMA sqs TO regress_sqs_user;
GRANT USAGE ON SCHEMA app TO regress_sqs_user;
-- and can read what a dump has to have, but not change what we rely on
SELECT name FROM sqs.queue ORDER BY id;
SELECT try($$ALTER TABLE sqs.queue ALTER visibility_timeout TYPE text$$);
SELECT try($$CREATE TRIGGER t AFTER DELETE ON sqs.deleted_queue EXECUTE FUNCTION sqs.queue_changed()$$);
SELECT try($$ALTER SCHEMA sqs RENAME TO other$$);
SELECT try($$ALTER EXTENSION pg_sqs SET SCHEMA public$$);
SELECT try($$SELECT sqs.announce()$$);
\c regress_sqs_trusted :superuser
SET ROLE regress_sqs_user;
SET search_path = app;
SELECT message_id IS NOT NULL FROM sqs_send('q', 'two');
SELECT body FROM sqs_peek('q');
SELECT sqs_create_queue('mine');
SELECT sqs_maintain();
\c :database
DROP DATABASE regress_sqs_trusted;

DROP TABLE moves;
DROP FUNCTION note_move, look_around, look_at_command;
DROP SCHEMA regress_sqs_trap CASCADE;
DROP OWNED BY regress_sqs_owner, regress_sqs_user;
DROP ROLE regress_sqs_owner, regress_sqs_user;
