/* pg_sqs.sql: the whole SQL interface; the build copies it to pg_sqs--VERSION.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION pg_sqs" to load this file. \quit

--
-- Storage: schema sqs.  A role needs CREATE on it to create queues.
--
CREATE SCHEMA sqs;
COMMENT ON SCHEMA sqs IS 'storage of pg_sqs: the queue catalog and a table per queue';

CREATE SEQUENCE sqs.queue_id_seq AS integer;
COMMENT ON SEQUENCE sqs.queue_id_seq IS 'numbers queues; queue N keeps its messages in sqs.queue_N';

CREATE TABLE sqs.queue (
	id integer NOT NULL DEFAULT pg_catalog.nextval('sqs.queue_id_seq') PRIMARY KEY,
	name text COLLATE "C" NOT NULL UNIQUE,
	fifo boolean NOT NULL DEFAULT false,
	created_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
	modified_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
	delay_seconds integer NOT NULL DEFAULT 0,
	maximum_message_size integer NOT NULL DEFAULT 1048576,
	message_retention_period integer NOT NULL DEFAULT 345600,
	receive_message_wait_time_seconds integer NOT NULL DEFAULT 0,
	visibility_timeout integer NOT NULL DEFAULT 30,
	dead_letter_queue text COLLATE "C",
	max_receive_count integer,
	redrive_permission text,
	redrive_source_queues text[],
	policy text,
	kms_master_key_id text,
	kms_data_key_reuse_period_seconds integer NOT NULL DEFAULT 300,
	sqs_managed_sse_enabled boolean NOT NULL DEFAULT true,
	content_based_deduplication boolean NOT NULL DEFAULT false,
	deduplication_scope text NOT NULL DEFAULT 'queue',
	fifo_throughput_limit text NOT NULL DEFAULT 'perQueue',
	purged_at timestamptz,
	tags jsonb NOT NULL DEFAULT '{}'
) WITH (fillfactor = 50);
COMMENT ON TABLE sqs.queue IS 'one row per queue: its name and attributes; changed through the sqs_ functions';
COMMENT ON COLUMN sqs.queue.id IS 'number of the queue; its messages are in sqs.queue_<id>';
COMMENT ON COLUMN sqs.queue.dead_letter_queue IS 'RedrivePolicy: name of the queue that deadLetterTargetArn names';
COMMENT ON COLUMN sqs.queue.max_receive_count IS 'RedrivePolicy: receives after which a message is moved';
COMMENT ON COLUMN sqs.queue.redrive_permission IS 'RedriveAllowPolicy: allowAll, denyAll or byQueue; NULL where never set';
COMMENT ON COLUMN sqs.queue.redrive_source_queues IS 'RedriveAllowPolicy: names of the queues that sourceQueueArns names';
COMMENT ON COLUMN sqs.queue.purged_at IS 'time of the last purge, for pg_sqs.cooldown';

CREATE TABLE sqs.deleted_queue (
	name text COLLATE "C" NOT NULL,
	deleted_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp()
);
CREATE INDEX deleted_queue_name_idx ON sqs.deleted_queue (name);
COMMENT ON TABLE sqs.deleted_queue IS 'names of queues deleted lately, for pg_sqs.cooldown';

-- a role and the queue's table are kept by OID as well, so that a role can be
-- renamed; the names count where the table has another OID, after a restore
CREATE TABLE sqs.permission (
	queue_id integer NOT NULL,
	label text COLLATE "C" NOT NULL,
	role text COLLATE "C" NOT NULL,
	action text COLLATE "C" NOT NULL,
	privileges text[] NOT NULL,
	role_oid oid NOT NULL,
	table_oid oid NOT NULL,
	PRIMARY KEY (queue_id, label, role, action)
);
COMMENT ON TABLE sqs.permission IS 'what sqs_add_permission granted under which label; the grants themselves are the tables'' own';
COMMENT ON COLUMN sqs.permission.role IS 'name of the role when it was granted; public is everybody';
COMMENT ON COLUMN sqs.permission.privileges IS 'table privileges that the action needs';

SELECT pg_catalog.pg_extension_config_dump('sqs.queue', '');
SELECT pg_catalog.pg_extension_config_dump('sqs.queue_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('sqs.deleted_queue', '');
SELECT pg_catalog.pg_extension_config_dump('sqs.permission', '');

--
-- All this is used by C functions and by a background worker, so who installs
-- the extension does not own it, unless he is a superuser: he could change the
-- tables' columns or add triggers.  What he gets is what dump and restore need,
-- and to say who may create queues.
--
GRANT ALL ON SCHEMA sqs TO @extowner@ WITH GRANT OPTION;
GRANT SELECT, INSERT ON sqs.queue, sqs.deleted_queue, sqs.permission TO @extowner@;
GRANT ALL ON SEQUENCE sqs.queue_id_seq TO @extowner@;

CREATE FUNCTION sqs.queue_changed() RETURNS trigger
	AS 'MODULE_PATHNAME', 'sqs_queue_changed' LANGUAGE C;
COMMENT ON FUNCTION sqs.queue_changed() IS 'makes every session forget what it remembers of the queues';

CREATE TRIGGER queue_changed
	AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON sqs.queue
	FOR EACH STATEMENT EXECUTE FUNCTION sqs.queue_changed();
COMMENT ON TRIGGER queue_changed ON sqs.queue IS 'a change of the catalog reaches every session';
ALTER TABLE sqs.queue ENABLE ALWAYS TRIGGER queue_changed;

--
-- Row types
--
CREATE TYPE sqs_sent AS (
	message_id uuid,
	sequence_number text,
	md5_of_message_body text,
	md5_of_message_attributes text
);
COMMENT ON TYPE sqs_sent IS 'what sqs_send returns';

CREATE TYPE sqs_batch_result AS (
	id text,
	message_id uuid,
	sequence_number text,
	md5_of_message_body text,
	md5_of_message_attributes text,
	error_code text,
	error_message text
);
COMMENT ON TYPE sqs_batch_result IS 'the outcome of one entry of a batch; error_code is NULL on success';

CREATE TYPE sqs_message AS (
	message_id uuid,
	receipt_handle text,
	body text,
	receive_count int,
	sent_at timestamptz,
	first_received_at timestamptz,
	visible_at timestamptz,
	sender_id text,
	message_group_id text,
	message_deduplication_id text,
	sequence_number text,
	message_attributes jsonb,
	aws_trace_header text,
	dead_letter_queue_source text
);
COMMENT ON TYPE sqs_message IS 'a message as sqs_receive, sqs_consume and sqs_peek return it';

--
-- Queues
--
CREATE FUNCTION sqs_create_queue(queue_name text, attributes jsonb DEFAULT '{}', tags jsonb DEFAULT '{}')
	RETURNS text
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION sqs_create_queue(text, jsonb, jsonb) IS 'CreateQueue: creates a queue, or confirms one that has these attributes';

CREATE FUNCTION sqs_delete_queue(queue_name text) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION sqs_delete_queue(text) IS 'DeleteQueue: drops a queue with all its messages';

CREATE FUNCTION sqs_list_queues(queue_name_prefix text DEFAULT '') RETURNS SETOF text
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION sqs_list_queues(text) IS 'ListQueues: names of the queues that start with a prefix, in byte order';

CREATE FUNCTION sqs_get_queue_attributes(queue_name text, attribute_names text[] DEFAULT '{All}')
	RETURNS jsonb
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION sqs_get_queue_attributes(text, text[]) IS 'GetQueueAttributes: attribute names and their values as strings';

CREATE FUNCTION sqs_set_queue_attributes(queue_name text, attributes jsonb) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION sqs_set_queue_attributes(text, jsonb) IS 'SetQueueAttributes: changes the attributes given, all or none';

CREATE FUNCTION sqs_purge_queue(queue_name text) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION sqs_purge_queue(text) IS 'PurgeQueue: deletes every message sent before the call';

CREATE FUNCTION sqs_tag_queue(queue_name text, tags jsonb) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION sqs_tag_queue(text, jsonb) IS 'TagQueue: adds tags, replacing those of the same key';

CREATE FUNCTION sqs_untag_queue(queue_name text, tag_keys text[]) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION sqs_untag_queue(text, text[]) IS 'UntagQueue: removes the tags of these keys';

CREATE FUNCTION sqs_list_queue_tags(queue_name text) RETURNS jsonb
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION sqs_list_queue_tags(text) IS 'ListQueueTags: the tags as a JSON object';

CREATE FUNCTION sqs_add_permission(queue_name text, label text, roles text[], actions text[]) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION sqs_add_permission(text, text, text[], text[]) IS 'AddPermission: grants roles the table privileges that these actions need';

CREATE FUNCTION sqs_remove_permission(queue_name text, label text) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION sqs_remove_permission(text, text) IS 'RemovePermission: revokes what was granted under a label, unless another label grants it too';

CREATE FUNCTION sqs_list_permissions(queue_name text, OUT label text, OUT role text, OUT action text)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION sqs_list_permissions(text) IS 'what sqs_add_permission granted on a queue';

CREATE FUNCTION sqs_list_dead_letter_source_queues(queue_name text) RETURNS SETOF text
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION sqs_list_dead_letter_source_queues(text) IS 'ListDeadLetterSourceQueues: the queues whose RedrivePolicy names this one';

--
-- Messages
--
CREATE FUNCTION sqs_send(queue_name text, message_body text, delay_seconds int DEFAULT NULL,
		message_attributes jsonb DEFAULT NULL, message_group_id text DEFAULT NULL,
		message_deduplication_id text DEFAULT NULL, visibility_timeout int DEFAULT NULL,
		aws_trace_header text DEFAULT NULL)
	RETURNS sqs_sent
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION sqs_send(text, text, int, jsonb, text, text, int, text) IS 'SendMessage: puts a message into a queue, with the caller''s transaction';

CREATE FUNCTION sqs_send_batch(queue_name text, entries jsonb) RETURNS SETOF sqs_batch_result
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION sqs_send_batch(text, jsonb) IS 'SendMessageBatch: sends up to ten messages, with a result for each';

CREATE FUNCTION sqs_send_many(queue_name text, message_bodies text[], delay_seconds int DEFAULT NULL,
		message_attributes jsonb DEFAULT NULL, message_group_id text DEFAULT NULL)
	RETURNS SETOF uuid
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 1000;
COMMENT ON FUNCTION sqs_send_many(text, text[], int, jsonb, text) IS 'sends an array of bodies, all or nothing; returns their message ids in order';

CREATE FUNCTION sqs_receive(queue_name text, max_number_of_messages int DEFAULT 1,
		visibility_timeout int DEFAULT NULL, wait_time_seconds int DEFAULT NULL,
		receive_request_attempt_id text DEFAULT NULL)
	RETURNS SETOF sqs_message
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10;
COMMENT ON FUNCTION sqs_receive(text, int, int, int, text) IS 'ReceiveMessage: takes messages and hides them for their visibility timeout';

CREATE FUNCTION sqs_consume(queue_name text, max_number_of_messages int DEFAULT 1,
		wait_time_seconds int DEFAULT NULL)
	RETURNS SETOF sqs_message
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10;
COMMENT ON FUNCTION sqs_consume(text, int, int) IS 'receives and deletes in the caller''s transaction: gone with its COMMIT, back with its ROLLBACK';

CREATE PROCEDURE sqs_wait(queue_name text, wait_time_seconds int,
		INOUT available boolean DEFAULT NULL)
	AS 'MODULE_PATHNAME' LANGUAGE C;
COMMENT ON PROCEDURE sqs_wait(text, int, boolean) IS 'waits until a message can be received, without holding vacuum back; not inside a transaction block';

CREATE FUNCTION sqs_peek(queue_name text, max_number_of_messages int DEFAULT 10)
	RETURNS SETOF sqs_message
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10;
COMMENT ON FUNCTION sqs_peek(text, int) IS 'shows the messages that a receive would take next, without taking them';

CREATE FUNCTION sqs_delete(queue_name text, receipt_handle text) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION sqs_delete(text, text) IS 'DeleteMessage: deletes a received message; false where it was gone already';

CREATE FUNCTION sqs_delete_batch(queue_name text, entries jsonb) RETURNS SETOF sqs_batch_result
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION sqs_delete_batch(text, jsonb) IS 'DeleteMessageBatch: deletes up to ten messages, with a result for each';

CREATE FUNCTION sqs_delete_many(queue_name text, receipt_handles text[]) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION sqs_delete_many(text, text[]) IS 'deletes the messages of an array of receipt handles; returns how many there were';

CREATE FUNCTION sqs_change_visibility(queue_name text, receipt_handle text, visibility_timeout int)
	RETURNS timestamptz
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION sqs_change_visibility(text, text, int) IS 'ChangeMessageVisibility: hides a message for so many seconds from now; returns the end';

CREATE FUNCTION sqs_change_visibility_batch(queue_name text, entries jsonb)
	RETURNS SETOF sqs_batch_result
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION sqs_change_visibility_batch(text, jsonb) IS 'ChangeMessageVisibilityBatch: for up to ten messages, with a result for each';

CREATE FUNCTION sqs_change_visibility_many(queue_name text, receipt_handles text[], visibility_timeout int)
	RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION sqs_change_visibility_many(text, text[], int) IS 'changes the visibility of an array of receipt handles; returns how many messages there were';

CREATE FUNCTION sqs_backoff(receive_count int, base_seconds int DEFAULT 1, max_seconds int DEFAULT 900)
	RETURNS int
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;
COMMENT ON FUNCTION sqs_backoff(int, int, int) IS 'exponential delay for sqs_change_visibility: base, doubled with each receive, at most max';

CREATE FUNCTION sqs_md5_of_message_attributes(message_attributes jsonb) RETURNS text
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;
COMMENT ON FUNCTION sqs_md5_of_message_attributes(jsonb) IS 'MD5OfMessageAttributes by the SQS algorithm; NULL without attributes';

--
-- Operations
--
CREATE FUNCTION sqs.metrics(
		OUT queue_name text,
		OUT approximate_age_of_oldest_message bigint,
		OUT approximate_number_of_messages_visible bigint,
		OUT approximate_number_of_messages_not_visible bigint,
		OUT approximate_number_of_messages_delayed bigint,
		OUT number_of_messages_sent bigint,
		OUT number_of_messages_received bigint,
		OUT number_of_messages_deleted bigint,
		OUT number_of_empty_receives bigint,
		OUT number_of_deduplicated_sent_messages bigint,
		OUT sent_message_size bigint,
		OUT approximate_number_of_groups_with_inflight_messages bigint,
		OUT stats_reset timestamptz)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'sqs_metrics' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION sqs.metrics() IS 'the rows of view sqs_metrics';

CREATE VIEW sqs_metrics AS SELECT * FROM sqs.metrics();
COMMENT ON VIEW sqs_metrics IS 'CloudWatch''s metrics of each queue the caller may see; counters are NULL where no shared memory keeps them';
GRANT SELECT ON sqs_metrics TO PUBLIC;

CREATE FUNCTION sqs_reset_metrics(queue_name text DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION sqs_reset_metrics(text) IS 'zeroes the counters of a queue, or of all queues the caller owns; not undone by a rollback';

--
-- The cursor: where receives start to look (not needed for any answer)
--
CREATE FUNCTION sqs.cursor(queue_name text, OUT visible_at timestamptz, OUT id bigint,
		OUT prepared boolean, OUT waiters int)
	AS 'MODULE_PATHNAME', 'sqs_cursor' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION sqs.cursor(text) IS 'where receives of a queue start to look, whether a prepared transaction holds that back, and how many sessions wait; NULL without a place in shared memory';

CREATE FUNCTION sqs.verify_cursor(queue_name text) RETURNS bigint
	AS 'MODULE_PATHNAME', 'sqs_verify_cursor' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION sqs.verify_cursor(text) IS 'how many messages receives would have missed, because something else than the sqs_ functions wrote to the table; they no longer do';

--
-- Privileges: queues are guarded by their tables' own
--
GRANT USAGE ON SCHEMA sqs TO PUBLIC;

--
-- Maintenance
--
CREATE FUNCTION sqs_maintain() RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION sqs_maintain() IS 'one pass of what the background worker does; for the owner of the extension and superusers';

CREATE FUNCTION sqs_schedule_maintenance(schedule text DEFAULT '* * * * *') RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION sqs_schedule_maintenance(text) IS 'has pg_cron call sqs_maintain(), where no background worker runs; returns the id of the job';

CREATE FUNCTION sqs_unschedule_maintenance() RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION sqs_unschedule_maintenance() IS 'ends what sqs_schedule_maintenance() began; false where there was no job';

--
-- Background workers.  This comes last: when the transaction commits, the
-- launcher hears of this database.
--
CREATE FUNCTION sqs.announce() RETURNS void
	AS 'MODULE_PATHNAME', 'sqs_announce' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION sqs.announce() IS 'has a background worker started for this database when the transaction commits';
REVOKE ALL ON FUNCTION sqs.announce() FROM PUBLIC;

SELECT sqs.announce();
