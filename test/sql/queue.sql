-- sqs_create_queue, sqs_delete_queue, sqs_list_queues

\getenv folder PG_ABS_SRCDIR
\set helpers :folder /sql/helpers.psql
\set ECHO none
\i :helpers
\set ECHO all

SELECT sqs_create_queue('orders');
SELECT sqs_create_queue(queue_name => 'orders-dlq', attributes => '{"DelaySeconds": "5"}', tags => '{"a": "b"}');
SELECT sqs_create_queue('Orders_2', NULL, NULL);
SELECT * FROM sqs_list_queues();
SELECT * FROM sqs_list_queues('orders');
SELECT * FROM sqs_list_queues(queue_name_prefix => 'orders-');
SELECT * FROM sqs_list_queues('%');
SELECT * FROM sqs_list_queues('order_');
SELECT * FROM sqs_list_queues(NULL);
SELECT * FROM sqs_list_queues(repeat('x', 1000));
SELECT sqs_list_queues('orders') || '!' LIMIT 1;

-- its table
SELECT attname, format_type(atttypid, atttypmod), attnotnull, attcollation::regcollation
	FROM pg_attribute WHERE attrelid = queue_table('orders') AND attnum > 0 ORDER BY attnum;
SELECT regexp_replace(pg_get_indexdef(indexrelid), 'queue_\d+', 'queue_N', 'g'), indisprimary
	FROM pg_index WHERE indrelid = queue_table('orders') ORDER BY 2;
SELECT regexp_replace(pg_get_expr(adbin, adrelid), 'queue_\d+', 'queue_N'),
	regexp_replace(pg_get_serial_sequence(adrelid::regclass::text, 'id'), 'queue_\d+', 'queue_N')
	FROM pg_attrdef WHERE adrelid = queue_table('orders');
SELECT unnest(c.reloptions || t.reloptions) FROM pg_class c JOIN pg_class t ON t.oid = c.reltoastrelid
	WHERE c.oid = queue_table('orders');
SELECT obj_description(queue_table('orders')), relpersistence, relowner::regrole = current_user::regrole
	FROM pg_class WHERE oid = queue_table('orders');
SELECT count(*) FROM pg_depend WHERE objid = queue_table('orders') AND deptype = 'e';

-- creating it again: only what is given is compared
SELECT sqs_create_queue('orders');
SELECT sqs_create_queue('orders', '{"VisibilityTimeout": 30, "DelaySeconds": "0", "SqsManagedSseEnabled": "TRUE", "RedrivePolicy": "", "Unlogged": false}');
SELECT sqs_create_queue('orders-dlq', '{"DelaySeconds": 5}', '{"other": "tags"}');
SELECT sqs_list_queue_tags('orders-dlq');
SELECT try($$SELECT sqs_create_queue('orders', '{"VisibilityTimeout": 31}')$$);
SELECT try($$SELECT sqs_create_queue('orders', '{"MessageRetentionPeriod": 60, "DelaySeconds": 1, "VisibilityTimeout": 30}')$$);
SELECT try($$SELECT sqs_create_queue('orders', '{"Unlogged": true}')$$);
SELECT try($$SELECT sqs_create_queue('orders', '{"KmsMasterKeyId": "k"}')$$);
SELECT try($$SELECT sqs_create_queue('orders', '{"Policy": {}}')$$);
SELECT try($$SELECT sqs_create_queue('orders', '{"RedriveAllowPolicy": {"redrivePermission": "denyAll"}}')$$);
SELECT try($$SELECT sqs_create_queue('orders', '{"RedrivePolicy": {"deadLetterTargetArn": "not-there", "maxReceiveCount": 2}}')$$);
SELECT sqs_set_queue_attributes('orders', '{"VisibilityTimeout": 31}');
SELECT sqs_create_queue('orders', '{"VisibilityTimeout": "31"}');
SELECT try($$SELECT sqs_create_queue('orders', '{"VisibilityTimeout": 30}')$$);

-- names
SELECT sqs_create_queue(repeat('a', 80)) = repeat('a', 80);
SELECT sqs_create_queue('-'), sqs_create_queue('_'), sqs_create_queue('0');
SELECT try($$SELECT sqs_create_queue(NULL)$$);
SELECT try($$SELECT sqs_create_queue('')$$);
SELECT try($$SELECT sqs_create_queue(repeat('a', 81))$$);
SELECT try($$SELECT sqs_create_queue('a b')$$);
SELECT try($$SELECT sqs_create_queue('a/b')$$);
SELECT try($$SELECT sqs_create_queue('a.b')$$);
SELECT try($$SELECT sqs_create_queue('größe')$$);
SELECT try($$SELECT sqs_create_queue(repeat('ü', 80))$$);
SELECT try($$SELECT sqs_create_queue(E'a\nb')$$);
SELECT try($$SELECT sqs_create_queue('a"; DROP TABLE sqs.queue; --')$$);
SELECT try($$SELECT sqs_create_queue('arn:aws:sqs:local:000000000000:orders')$$);
SELECT try($$SELECT sqs_create_queue('q', '[]')$$);
SELECT try($$SELECT sqs_create_queue('q', '"VisibilityTimeout"')$$);
SELECT try($$SELECT sqs_create_queue('q', 'null')$$);
SELECT try($$SELECT sqs_create_queue('q', '{}', '[]')$$);
SELECT try($$SELECT sqs_create_queue('q', '{}', '{"k": ["v"]}')$$);

-- FIFO queues are checked in full, and not built yet
SELECT try($$SELECT sqs_create_queue('q.fifo')$$);
SELECT try($$SELECT sqs_create_queue('q.fifo', '{"FifoQueue": false}')$$);
SELECT try($$SELECT sqs_create_queue('q', '{"FifoQueue": true}')$$);
SELECT try($$SELECT sqs_create_queue('q', '{"FifoQueue": "false"}')$$);
SELECT try($$SELECT sqs_create_queue('.fifo', '{"FifoQueue": true}')$$);
SELECT try($$SELECT sqs_create_queue(repeat('a', 76) || '.fifo', '{"FifoQueue": true}')$$);
SELECT try($$SELECT sqs_create_queue('q.fifo.fifo', '{"FifoQueue": true}')$$);
SELECT try($$SELECT sqs_create_queue('q.fifo', '{"FifoQueue": true, "DeduplicationScope": "group"}')$$);
SELECT try($$SELECT sqs_create_queue(repeat('a', 75) || '.fifo', '{"FifoQueue": "True"}')$$);
SELECT try($$SELECT sqs_create_queue('q.fifo', '{"FifoQueue": true, "ContentBasedDeduplication": true, "DeduplicationScope": "messageGroup", "FifoThroughputLimit": "perMessageGroupId"}')$$);

-- deleting
SELECT (sqs_send('orders', 'x')).message_id IS NOT NULL;
SELECT sqs_delete_queue('orders');
SELECT try($$SELECT sqs_delete_queue('orders')$$);
SELECT try($$SELECT sqs_delete_queue(NULL)$$);
SELECT try($$SELECT sqs_delete_queue('')$$);
SELECT try($$SELECT sqs_delete_queue(repeat('a', 81))$$);
SELECT try($$SELECT sqs_delete_queue('größe')$$);
SELECT try($$SELECT * FROM sqs_receive('orders')$$);
SELECT sqs_create_queue('orders');
SELECT count(*) FROM sqs_receive('orders');

-- a rollback leaves nothing, not even in this session's memory
BEGIN;
SELECT sqs_create_queue('gone');
SELECT (sqs_send('gone', 'x')).message_id IS NOT NULL;
SELECT sqs_delete_queue('Orders_2');
SELECT * FROM sqs_list_queues() WHERE sqs_list_queues IN ('gone', 'Orders_2');
ROLLBACK;
SELECT * FROM sqs_list_queues() WHERE sqs_list_queues IN ('gone', 'Orders_2');
SELECT try($$SELECT sqs_send('gone', 'x')$$);
SELECT (sqs_send('Orders_2', 'x')).message_id IS NOT NULL;
BEGIN;
SAVEPOINT s;
SELECT sqs_delete_queue('Orders_2');
SELECT sqs_create_queue('Orders_2', '{"VisibilityTimeout": 7}');
ROLLBACK TO s;
SELECT sqs_get_queue_attributes('Orders_2', '{VisibilityTimeout,ApproximateNumberOfMessages}');
SELECT sqs_delete_queue('Orders_2');
SELECT sqs_create_queue('Orders_2', '{"VisibilityTimeout": 8}');
COMMIT;
SELECT sqs_get_queue_attributes('Orders_2', '{VisibilityTimeout,ApproximateNumberOfMessages}');

-- at every isolation level
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT sqs_create_queue('rr'), sqs_create_queue('rr', '{"VisibilityTimeout": 30}');
SELECT sqs_set_queue_attributes('rr', '{"VisibilityTimeout": 9}');
SELECT sqs_get_queue_attributes('rr', '{VisibilityTimeout}'), sqs_delete_queue('rr');
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT sqs_create_queue('rr'), sqs_create_queue('rr', '{"VisibilityTimeout": 30}');
SELECT sqs_set_queue_attributes('rr', '{"VisibilityTimeout": 9}');
SELECT sqs_get_queue_attributes('rr', '{VisibilityTimeout,ApproximateNumberOfMessages}'), sqs_delete_queue('rr');
COMMIT;

-- read-only
BEGIN READ ONLY;
SELECT try($$SELECT sqs_create_queue('ro')$$);
SELECT try($$SELECT sqs_delete_queue('orders')$$);
SELECT count(*) > 0 FROM sqs_list_queues();
COMMIT;

-- unlogged
SELECT sqs_create_queue('fast', '{"Unlogged": true}');
SELECT relname ~ '_seq$' AS is_sequence, relpersistence FROM pg_class
	WHERE relname ~ ('^' || split_part(queue_table('fast')::text, '.', 2) || '(_seq)?$') ORDER BY 1;
SELECT sqs_get_queue_attributes('fast', '{Unlogged}'), sqs_get_queue_attributes('orders', '{Unlogged}');
SELECT sqs_create_queue('fast', '{"Unlogged": "true"}');
SELECT try($$SELECT sqs_create_queue('fast', '{"Unlogged": false}')$$);
SELECT try($$SELECT sqs_create_queue('fast2', '{"Unlogged": "yes"}')$$);
SELECT try($$SELECT sqs_set_queue_attributes('fast', '{"Unlogged": false}')$$);
DO $$ BEGIN EXECUTE format('ALTER TABLE %s SET LOGGED', queue_table('fast')); END $$;
SELECT sqs_get_queue_attributes('fast', '{Unlogged}');

-- a table that somebody dropped takes its queue with it
SELECT sqs_create_queue('lost'), sqs_create_queue('lost2', '{}', '{"k": "v"}');
SELECT sqs_add_permission('lost', 'l', '{public}', '{SendMessage}');
DO $$ BEGIN EXECUTE format('DROP TABLE %s, %s', queue_table('lost'), queue_table('lost2')); END $$;
SELECT * FROM sqs_list_queues('lost');
SELECT try($$SELECT sqs_send('lost', 'x')$$);
SELECT try($$SELECT sqs_get_queue_attributes('lost')$$);
SELECT try($$SELECT sqs_set_queue_attributes('lost', '{"VisibilityTimeout": 1}')$$);
SELECT sqs_delete_queue('lost');
SELECT try($$SELECT sqs_delete_queue('lost')$$);
SELECT sqs_create_queue('lost2', '{"VisibilityTimeout": 3}');
SELECT sqs_get_queue_attributes('lost2', '{VisibilityTimeout}'), sqs_list_queue_tags('lost2');
SELECT sqs_delete_queue('lost2');
SELECT count(*) FROM sqs.permission;

-- a relation in the way is passed over; what depends on a table is not dropped
SELECT sqs_create_queue('before');
DO $$ BEGIN EXECUTE format('CREATE TABLE sqs.queue_%s ()', (SELECT last_value + 1 FROM sqs.queue_id_seq)); END $$;
SELECT sqs_create_queue('after');
SELECT (sqs_send('after', 'x')).message_id IS NOT NULL;
DO $$ BEGIN EXECUTE format('DROP TABLE sqs.queue_%s', (SELECT last_value - 1 FROM sqs.queue_id_seq)); END $$;
DO $$ BEGIN EXECUTE format('CREATE VIEW looker AS SELECT body FROM %s', queue_table('after')); END $$;
DO $$ BEGIN PERFORM sqs_delete_queue('after'); EXCEPTION WHEN dependent_objects_still_exist THEN RAISE INFO 'view in the way'; END $$;
SELECT body FROM looker;
DROP VIEW looker;
SELECT sqs_delete_queue('after'), sqs_delete_queue('before');

-- the 60 seconds of a deleted queue's name
SET pg_sqs.cooldown = 60;
SELECT sqs_create_queue('cool');
SELECT sqs_delete_queue('cool');
SELECT try($$SELECT sqs_create_queue('cool')$$);
SET pg_sqs.cooldown = 100;
SELECT try($$SELECT sqs_create_queue('cool')$$);
UPDATE sqs.deleted_queue SET deleted_at = deleted_at - interval '100 s';
SELECT sqs_create_queue('cool');
SELECT sqs_delete_queue('cool');
SELECT count(*) FROM sqs.deleted_queue;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT try($$SELECT sqs_create_queue('cool')$$);
SELECT sqs_create_queue('cooler'), sqs_delete_queue('cooler');
SELECT try($$SELECT sqs_create_queue('cooler')$$);
COMMIT;
RESET pg_sqs.cooldown;
SELECT sqs_create_queue('cool'), sqs_delete_queue('cool');
DELETE FROM sqs.deleted_queue;

-- privileges
CREATE ROLE regress_creator;
CREATE ROLE regress_other;
SET ROLE regress_other;
SELECT try($$SELECT sqs_create_queue('mine')$$);
SELECT try($$SELECT sqs_delete_queue('orders')$$);
SELECT * FROM sqs_list_queues('orders');
SELECT try($$SELECT count(*) FROM sqs.queue$$);
RESET ROLE;
GRANT CREATE ON SCHEMA sqs TO regress_creator;
SET ROLE regress_creator;
SELECT sqs_create_queue('mine', '{"VisibilityTimeout": 5}');
SELECT relowner::regrole FROM pg_class WHERE relname ~ '^queue_\d+(_seq|_pkey|_due)?$' AND relowner = 'regress_creator'::regrole;
SELECT sqs_set_queue_attributes('mine', '{"VisibilityTimeout": 6}'), sqs_tag_queue('mine', '{"a": "b"}');
SELECT (sqs_send('mine', 'x')).message_id IS NOT NULL;
SELECT sqs_get_queue_attributes('mine', '{VisibilityTimeout,ApproximateNumberOfMessages}');
SET ROLE regress_other;
SELECT try($$SELECT sqs_delete_queue('mine')$$);
SELECT try($$SELECT sqs_create_queue('mine')$$);
SELECT try($$SELECT sqs_get_queue_attributes('mine')$$);
SELECT try($$SELECT sqs_set_queue_attributes('mine', '{"VisibilityTimeout": 1}')$$);
SET ROLE regress_creator;
SELECT sqs_delete_queue('mine');
RESET ROLE;
REVOKE CREATE ON SCHEMA sqs FROM regress_creator;
DROP ROLE regress_creator, regress_other;

-- a hostile search_path
CREATE SCHEMA hostile;
CREATE FUNCTION hostile.bad() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE 'hostile'; END $$;
CREATE FUNCTION hostile.text_eq(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT hostile.bad()';
CREATE FUNCTION hostile.int_eq(int, int) RETURNS boolean LANGUAGE sql AS 'SELECT hostile.bad()';
CREATE FUNCTION hostile.text_cat(text, int) RETURNS text LANGUAGE sql AS 'SELECT hostile.bad()::text';
CREATE FUNCTION hostile.clock_timestamp() RETURNS timestamptz LANGUAGE plpgsql AS $$ BEGIN RAISE 'hostile'; END $$;
CREATE FUNCTION hostile.starts_with(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT hostile.bad()';
CREATE FUNCTION hostile.to_regclass(text) RETURNS regclass LANGUAGE plpgsql AS $$ BEGIN RAISE 'hostile'; END $$;
CREATE FUNCTION hostile.nextval(regclass) RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RAISE 'hostile'; END $$;
CREATE FUNCTION hostile.count() RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RAISE 'hostile'; END $$;
CREATE OPERATOR hostile.= (FUNCTION = hostile.text_eq, LEFTARG = text, RIGHTARG = text);
CREATE OPERATOR hostile.= (FUNCTION = hostile.int_eq, LEFTARG = int, RIGHTARG = int);
CREATE OPERATOR hostile.|| (FUNCTION = hostile.text_cat, LEFTARG = text, RIGHTARG = int);
CREATE DOMAIN hostile.text AS pg_catalog.text CHECK (VALUE IS NULL);
CREATE DOMAIN hostile.int4 AS pg_catalog.int4 CHECK (VALUE IS NULL);
CREATE DOMAIN hostile.timestamptz AS pg_catalog.timestamptz CHECK (VALUE IS NULL);
SET search_path = hostile, pg_catalog, public;
SELECT public.sqs_create_queue('h', '{"RedrivePolicy": {"deadLetterTargetArn": "orders", "maxReceiveCount": 2}}', '{"a": "b"}');
SELECT public.sqs_set_queue_attributes('h', '{"DelaySeconds": 0, "Policy": {}, "RedriveAllowPolicy": {"redrivePermission": "byQueue", "sourceQueueArns": ["orders"]}}');
SELECT public.sqs_get_queue_attributes('h', '{DelaySeconds,RedrivePolicy,RedriveAllowPolicy,Policy,ApproximateNumberOfMessages}');
SELECT public.sqs_get_queue_attributes('h') IS NOT NULL;
SELECT public.sqs_tag_queue('h', '{"c": "d"}'), public.sqs_untag_queue('h', '{a}');
SELECT public.sqs_list_queue_tags('h');
SELECT public.sqs_add_permission('h', 'l', '{public}', '{*}');
SELECT * FROM public.sqs_list_permissions('h');
SELECT public.sqs_remove_permission('h', 'l');
SELECT * FROM public.sqs_list_dead_letter_source_queues('orders');
SELECT * FROM public.sqs_list_queues('h');
SELECT public.sqs_purge_queue('h'), public.sqs_delete_queue('h');
SHOW search_path;
RESET search_path;
DROP SCHEMA hostile CASCADE;

SELECT sqs_delete_queue(name) FROM (SELECT name FROM sqs_list_queues() name) q;
SELECT * FROM sqs_list_queues();
