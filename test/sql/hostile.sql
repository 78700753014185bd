-- A hostile search_path: what a schema there shadows is never called, and every
-- call does what it always does.
\set ECHO none
\getenv folder PG_ABS_SRCDIR
\set helpers :folder /sql/helpers.psql
\i :helpers
\set ECHO all

CREATE SCHEMA hostile;
CREATE TABLE hostile.called (what text);
GRANT USAGE ON SCHEMA hostile TO PUBLIC;

-- whatever runs one of these was led astray
CREATE FUNCTION hostile.trap(what text) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
	RAISE EXCEPTION 'called hostile %', what;
END
$$;

-- operators on the types that queues use
DO $$
DECLARE
	t text;
	op text;
	n int := 0;
BEGIN
	FOREACH t IN ARRAY '{text, int, bigint, timestamptz, uuid, jsonb, boolean, interval, name, oid, regclass, "char", text[], real, "double precision", numeric}'::text[] LOOP
		FOREACH op IN ARRAY '{=, <>, <, <=, >, >=, ||, +, -, *, ~, ~~, @>, ->, ->>, #>, #>>, ?}'::text[] LOOP
			n := n + 1;
			EXECUTE format('CREATE FUNCTION hostile.op_%s(%s, %2$s) RETURNS boolean LANGUAGE plpgsql AS
				$f$ BEGIN PERFORM hostile.trap(%L); RETURN NULL; END $f$', n, t, 'operator ' || op || ' of ' || t);
			EXECUTE format('CREATE OPERATOR hostile.%s (LEFTARG = %s, RIGHTARG = %2$s, FUNCTION = hostile.op_%s)', op, t, n);
		END LOOP;
	END LOOP;
	-- a subscript's and a cast's operand types differ
	FOREACH op IN ARRAY '{->, ->>, ?, @>, -, ||}'::text[] LOOP
		n := n + 1;
		EXECUTE format('CREATE FUNCTION hostile.op_%s(jsonb, text) RETURNS boolean LANGUAGE plpgsql AS
			$f$ BEGIN PERFORM hostile.trap(%L); RETURN NULL; END $f$', n, 'operator ' || op || ' of jsonb, text');
		EXECUTE format('CREATE OPERATOR hostile.%s (LEFTARG = jsonb, RIGHTARG = text, FUNCTION = hostile.op_%s)', op, n);
	END LOOP;
	FOREACH op IN ARRAY '{+, -}'::text[] LOOP
		n := n + 1;
		EXECUTE format('CREATE FUNCTION hostile.op_%s(timestamptz, interval) RETURNS timestamptz LANGUAGE plpgsql AS
			$f$ BEGIN PERFORM hostile.trap(%L); RETURN NULL; END $f$', n, 'operator ' || op || ' of timestamptz, interval');
		EXECUTE format('CREATE OPERATOR hostile.%s (LEFTARG = timestamptz, RIGHTARG = interval, FUNCTION = hostile.op_%s)', op, n);
	END LOOP;
END
$$;

-- every function of pg_catalog, and of this extension, that has a plain signature
DO $$
DECLARE
	f record;
BEGIN
	FOR f IN
		SELECT DISTINCT ON (p.proname, p.proargtypes::text) p.proname,
			(SELECT coalesce(string_agg(format_type(t, NULL), ', ' ORDER BY n), '') FROM unnest(p.proargtypes) WITH ORDINALITY a(t, n)) AS arguments
		FROM pg_proc p
		WHERE p.pronamespace IN ('pg_catalog'::regnamespace, 'sqs'::regnamespace)
			AND p.prokind = 'f' AND p.provariadic = 0
			AND p.proname ~ '^(now|clock_timestamp|nextval|setval|currval|lower|upper|format|quote_|count|coalesce|to_jsonb|jsonb_|json_|array_|unnest|length|octet_length|substr|left|right|md5|sha256|gen_random_uuid|pg_get_|pg_size|has_|obj_|to_reg|regexp_|string_|string_to|greatest|least|current_|session_|set_config|format_type|starts_with|split_part|text|int4|int8|bool|timestamptz|date_part|extract|make_interval|pg_advisory|pg_notify|pg_sleep|pg_try|txid_|pg_current|col_description|queue_changed)'
			AND NOT EXISTS (SELECT FROM unnest(p.proargtypes) t WHERE t IN (SELECT oid FROM pg_type WHERE typtype = 'p'))
			AND p.prorettype NOT IN (SELECT oid FROM pg_type WHERE typtype = 'p')
	LOOP
		EXECUTE format('CREATE FUNCTION hostile.%I(%s) RETURNS text LANGUAGE plpgsql AS
			$f$ BEGIN PERFORM hostile.trap(%L); RETURN NULL; END $f$', f.proname, f.arguments, 'function ' || f.proname);
	END LOOP;
END
$$;
CREATE FUNCTION hostile.count_agg(bigint, anyelement) RETURNS bigint LANGUAGE sql AS 'SELECT 666::bigint';
CREATE AGGREGATE hostile.count(anyelement) (SFUNC = hostile.count_agg, STYPE = bigint, INITCOND = '0');

-- types, relations and a cast
CREATE DOMAIN hostile.text AS pg_catalog.text CHECK (length(value) < 0);
CREATE DOMAIN hostile.jsonb AS pg_catalog.jsonb CHECK (false);
CREATE DOMAIN hostile.uuid AS pg_catalog.uuid CHECK (false);
CREATE DOMAIN hostile.timestamptz AS pg_catalog.timestamptz CHECK (false);
CREATE DOMAIN hostile.int4 AS pg_catalog.int4 CHECK (false);
CREATE DOMAIN hostile.int8 AS pg_catalog.int8 CHECK (false);
CREATE DOMAIN hostile.regclass AS pg_catalog.regclass CHECK (false);
CREATE TYPE hostile.sqs_message AS (x int);
CREATE TYPE hostile.sqs_sent AS (x int);
CREATE TABLE hostile.queue (name pg_catalog.text);
CREATE TABLE hostile.permission (queue_id int);
CREATE TABLE hostile.deleted_queue (name pg_catalog.text);
CREATE TABLE hostile.pg_class (relname name);
CREATE TABLE hostile.pg_namespace (nspname name);
CREATE TABLE hostile.pg_roles (rolname name);
CREATE TABLE hostile.pg_extension (extname name);
CREATE TABLE hostile.queue_1 (body pg_catalog.text);
CREATE SEQUENCE hostile.queue_1_seq;

CREATE ROLE regress_sqs_reader;
SET search_path = hostile, pg_catalog, public;
-- the trap works
SELECT 'a'::pg_catalog.text OPERATOR(hostile.=) 'a'::pg_catalog.text;
SELECT 'a'::pg_catalog.text = 'a'::pg_catalog.text;

SELECT public.sqs_create_queue('h', '{"VisibilityTimeout": "100"}', '{"team": "a"}');
SELECT public.sqs_create_queue('h', '{"VisibilityTimeout": 100}');
SELECT public.sqs_create_queue('h_dlq');
SELECT public.sqs_set_queue_attributes('h', '{"RedrivePolicy": {"deadLetterTargetArn": "h_dlq", "maxReceiveCount": 1}, "DelaySeconds": 0}');
SELECT public.sqs_list_queues();
SELECT public.sqs_list_queues('h_');
SELECT pg_catalog.jsonb_object_keys(public.sqs_get_queue_attributes('h', '{RedrivePolicy, VisibilityTimeout, ApproximateNumberOfMessages}'));
SELECT public.sqs_tag_queue('h', '{"k": "v"}');
SELECT public.sqs_untag_queue('h', '{team}');
SELECT public.sqs_list_queue_tags('h');
SELECT public.sqs_add_permission('h', 'l', '{regress_sqs_reader}', '{ReceiveMessage}');
SELECT * FROM public.sqs_list_permissions('h');
SELECT public.sqs_remove_permission('h', 'l');
SELECT public.sqs_list_dead_letter_source_queues('h_dlq');

SELECT FROM public.sqs_send('h', 'm1', message_attributes => '{"k": "v", "n": 1, "b": {"DataType": "Binary", "BinaryValue": "eA=="}}', message_group_id => 'g');
SELECT id, error_code FROM public.sqs_send_batch('h', '[{"Id": "a", "MessageBody": "m2"}, {"Id": "b", "MessageBody": ""}]');
SELECT pg_catalog.count(*) FROM public.sqs_send_many('h', '{m3, m4}');
SELECT body FROM public.sqs_peek('h');
SELECT body, receipt_handle AS h FROM public.sqs_receive('h', 1) \gset m_
SELECT :'m_body';
SELECT public.sqs_change_visibility('h', :'m_h', 0) IS NOT NULL;
SELECT body FROM public.sqs_receive('h', 1);
SELECT body FROM public.sqs_consume('h', 10);
SELECT body, receive_count, dead_letter_queue_source FROM public.sqs_receive('h_dlq', 1, 0);
SELECT public.sqs_delete('h', :'m_h');
SELECT public.sqs_delete_many('h', '{}'), public.sqs_change_visibility_many('h', '{}', 1);
SELECT id, error_code FROM public.sqs_delete_batch('h', '[{"Id": "a", "ReceiptHandle": "x"}]');
SELECT id, error_code FROM public.sqs_change_visibility_batch('h', '[{"Id": "a", "ReceiptHandle": "x", "VisibilityTimeout": 1}]');
SELECT public.sqs_backoff(3);
SELECT public.sqs_md5_of_message_attributes('{"MyAttribute": "foobar"}');
SELECT public.sqs_purge_queue('h_dlq');
SELECT approximate_number_of_messages_visible FROM public.sqs_metrics WHERE queue_name OPERATOR(pg_catalog.=) 'h_dlq';
SELECT public.sqs_delete_queue('h'), public.sqs_delete_queue('h_dlq');

RESET search_path;
DROP ROLE regress_sqs_reader;
DROP SCHEMA hostile CASCADE;
