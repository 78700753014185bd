-- sqs_get_queue_attributes, sqs_set_queue_attributes

\getenv folder PG_ABS_SRCDIR
\set helpers :folder /sql/helpers.psql
\set ECHO none
\i :helpers
\set ECHO all

-- what a call to set these attributes says, and what it leaves behind
CREATE FUNCTION try_set(attributes text) RETURNS text LANGUAGE sql AS $$
	SELECT try(format('SELECT sqs_set_queue_attributes(''q'', %L)', attributes))
$$;
-- attributes without what differs from run to run
CREATE FUNCTION attributes_of(queue_name text) RETURNS TABLE (attribute text, value text) LANGUAGE sql AS $$
	SELECT key, CASE WHEN key LIKE '%Timestamp' THEN regexp_replace(value, '^\d{10}$', 'seconds') ELSE value END
	FROM jsonb_each_text(sqs_get_queue_attributes(queue_name)) ORDER BY key COLLATE "C"
$$;

-- a fresh queue
SELECT sqs_create_queue('q');
SELECT * FROM attributes_of('q');
SELECT bool_and(jsonb_typeof(value) = 'string') FROM jsonb_each(sqs_get_queue_attributes('q'));

-- some
SELECT sqs_get_queue_attributes('q', '{VisibilityTimeout,DelaySeconds,VisibilityTimeout}');
SELECT sqs_get_queue_attributes('q', '{}'), sqs_get_queue_attributes('q', NULL) ?& '{QueueArn,VisibilityTimeout}';
SELECT sqs_get_queue_attributes(queue_name => 'q', attribute_names => ARRAY['QueueArn']);
SELECT sqs_get_queue_attributes('q', '{All,QueueArn}') ? 'DelaySeconds';
SELECT sqs_get_queue_attributes('q', '{{Policy,RedrivePolicy},{KmsMasterKeyId,FifoQueue}}');
SELECT try($$SELECT sqs_get_queue_attributes('q', '{Foobar}')$$);
SELECT try($$SELECT sqs_get_queue_attributes('q', '{"VisibilityTimeout "}')$$);
SELECT try($$SELECT sqs_get_queue_attributes('q', '{visibilitytimeout}')$$);
SELECT try($$SELECT sqs_get_queue_attributes('q', '{QueueArn,NULL}')$$);
SELECT try($$SELECT sqs_get_queue_attributes('q', '{""}')$$);
SELECT try($$SELECT sqs_get_queue_attributes('not-there')$$);
SELECT try($$SELECT sqs_get_queue_attributes(NULL)$$);
SELECT try($$SELECT sqs_get_queue_attributes(repeat('q', 81))$$);
SELECT try($$SELECT sqs_get_queue_attributes('größe')$$);

-- the ARN follows the settings
SELECT setting, context FROM pg_settings WHERE name IN ('pg_sqs.region', 'pg_sqs.account_id') ORDER BY name;

-- ranges: the ends, and one beyond
SELECT try_set('{"DelaySeconds": 0, "MaximumMessageSize": 1024, "MessageRetentionPeriod": 60, "ReceiveMessageWaitTimeSeconds": 0, "VisibilityTimeout": 0, "KmsDataKeyReusePeriodSeconds": 60}');
SELECT sqs_get_queue_attributes('q', '{DelaySeconds,MaximumMessageSize,MessageRetentionPeriod,ReceiveMessageWaitTimeSeconds,VisibilityTimeout}');
SELECT try_set('{"DelaySeconds": "900", "MaximumMessageSize": 1048576, "MessageRetentionPeriod": "1209600", "ReceiveMessageWaitTimeSeconds": 20, "VisibilityTimeout": "43200", "KmsDataKeyReusePeriodSeconds": "86400"}');
SELECT sqs_get_queue_attributes('q', '{DelaySeconds,MaximumMessageSize,MessageRetentionPeriod,ReceiveMessageWaitTimeSeconds,VisibilityTimeout}');
SELECT name, try_set(format('{%I: %s}', name, value)) FROM (VALUES
	('DelaySeconds', -1), ('DelaySeconds', 901), ('MaximumMessageSize', 1023), ('MaximumMessageSize', 1048577),
	('MessageRetentionPeriod', 59), ('MessageRetentionPeriod', 1209601), ('ReceiveMessageWaitTimeSeconds', -1),
	('ReceiveMessageWaitTimeSeconds', 21), ('VisibilityTimeout', -1), ('VisibilityTimeout', 43201),
	('KmsDataKeyReusePeriodSeconds', 59), ('KmsDataKeyReusePeriodSeconds', 86401)) v(name, value);

-- not a number
SELECT value, try_set(format('{"VisibilityTimeout": %s}', value)) FROM unnest(ARRAY[
	'"ten"', '""', '" 10"', '"10 "', '"+10"', '"1e1"', '"10.0"', '10.5', '"0x10"', '"--1"', '"-"', '"-0"', 'true', 'null', '{}', '[10]', '{"VisibilityTimeout": 10}',
	'99999999999999999999999999', '"99999999999999999999999999"', '"-99999999999999999999"', '4294967296', '2147483648', '1e400', '"١٠"']) value;
SELECT value, try_set(format('{"VisibilityTimeout": %s}', value)) FROM unnest(ARRAY['10', '"0010"', '1e1', '10.0', '1000e-2']) value;
SELECT sqs_get_queue_attributes('q', '{VisibilityTimeout}');

-- booleans
SELECT value, try_set(format('{"SqsManagedSseEnabled": %s}', value)), sqs_get_queue_attributes('q', '{SqsManagedSseEnabled}')
	FROM unnest(ARRAY['false', 'true', '"FALSE"', '"True"', '"false"']) value;
SELECT value, try_set(format('{"SqsManagedSseEnabled": %s}', value)) FROM unnest(ARRAY['"yes"', '""', '1', '"t"', '" true"', 'null', '[true]']) value;

-- names
SELECT try_set('{"Foobar": 1}');
SELECT try_set('{"": 1}');
SELECT try_set('{"visibilityTimeout": 1}');
SELECT try_set('{"All": 1}');
SELECT length(try_set(format('{"%s": 1}', repeat('x', 100000)))) < 3000;
SELECT try_set(format('{%s: 1}', to_json(repeat('ü', 81))));
SELECT name, try_set(format('{%I: 1}', name)) FROM unnest('{QueueArn,CreatedTimestamp,LastModifiedTimestamp,ApproximateNumberOfMessages,ApproximateNumberOfMessagesNotVisible,ApproximateNumberOfMessagesDelayed}'::text[]) name;
SELECT name, try(format($$SELECT sqs_create_queue('new', '{%I: 1}')$$, name)) FROM unnest('{QueueArn,CreatedTimestamp,Foobar}'::text[]) name;

-- shapes
SELECT try($$SELECT sqs_set_queue_attributes('q', NULL)$$);
SELECT try_set('{}');
SELECT try_set('[]');
SELECT try_set('[{"VisibilityTimeout": 1}]');
SELECT try_set('5');
SELECT try_set('null');
SELECT try($$SELECT sqs_set_queue_attributes(NULL, '{"VisibilityTimeout": 1}')$$);
SELECT try($$SELECT sqs_set_queue_attributes('not-there', '{"VisibilityTimeout": 1}')$$);
SELECT try($$SELECT sqs_set_queue_attributes('not-there', '{}')$$);

-- all or nothing; the last of equal names counts, as jsonb has it
SELECT try_set('{"VisibilityTimeout": 11, "DelaySeconds": 901}'), try_set('{"DelaySeconds": 1, "Foobar": 1}');
SELECT sqs_get_queue_attributes('q', '{VisibilityTimeout,DelaySeconds}');
SELECT try_set('{"VisibilityTimeout": 11, "VisibilityTimeout": 12}'), sqs_get_queue_attributes('q', '{VisibilityTimeout}');

-- FIFO attributes on a standard queue
SELECT value, try_set(value) FROM unnest(ARRAY['{"FifoQueue": true}', '{"FifoQueue": "false"}', '{"ContentBasedDeduplication": true}',
	'{"DeduplicationScope": "queue"}', '{"FifoThroughputLimit": "perQueue"}', '{"FifoThroughputLimit": "perMessageGroupId", "DeduplicationScope": "messageGroup"}']) value;
SELECT try($$SELECT sqs_create_queue('new', '{"ContentBasedDeduplication": false}')$$);
SELECT try($$SELECT sqs_create_queue('new', '{"DeduplicationScope": "queue"}')$$);
SELECT try($$SELECT sqs_create_queue('new.fifo', '{"FifoQueue": true, "FifoThroughputLimit": "perMessageGroupId"}')$$);
SELECT try($$SELECT sqs_create_queue('new.fifo', '{"FifoQueue": true, "FifoThroughputLimit": "perMessageGroupId", "DeduplicationScope": "queue"}')$$);
SELECT try($$SELECT sqs_create_queue('new.fifo', '{"FifoQueue": true, "FifoThroughputLimit": "all"}')$$);
SELECT try($$SELECT sqs_create_queue('new.fifo', '{"FifoQueue": true, "ContentBasedDeduplication": 1}')$$);
SELECT try($$SELECT sqs_create_queue('new.fifo', '{"FifoQueue": true, "QueueArn": "x"}')$$);

-- encryption: one kind ends the other
CREATE FUNCTION encryption() RETURNS jsonb LANGUAGE sql AS
	$$ SELECT sqs_get_queue_attributes('q', '{KmsMasterKeyId,KmsDataKeyReusePeriodSeconds,SqsManagedSseEnabled}') $$;
SELECT try_set('{"SqsManagedSseEnabled": true, "KmsDataKeyReusePeriodSeconds": 300}'), encryption();
SELECT try_set('{"KmsMasterKeyId": "alias/aws/sqs"}'), encryption();
SELECT try_set('{"KmsDataKeyReusePeriodSeconds": 60}'), encryption();
SELECT try_set('{"KmsMasterKeyId": "k", "SqsManagedSseEnabled": true}');
SELECT try_set('{"KmsMasterKeyId": "k", "SqsManagedSseEnabled": false}'), encryption();
SELECT try_set('{"KmsMasterKeyId": "", "KmsDataKeyReusePeriodSeconds": 300}'), encryption();
SELECT try_set('{"KmsMasterKeyId": "again"}'), encryption();
SELECT try_set('{"SqsManagedSseEnabled": true}'), encryption();
SELECT try_set('{"KmsMasterKeyId": "", "SqsManagedSseEnabled": true}'), encryption();
SELECT try_set('{"KmsMasterKeyId": {}}'), try_set('{"KmsMasterKeyId": null}');
SELECT try_set(format('{"KmsMasterKeyId": "%s"}', repeat('k', 2048))), try_set(format('{"KmsMasterKeyId": "%s"}', repeat('k', 2049)));
SELECT try($$SELECT sqs_create_queue('new', '{"KmsMasterKeyId": "k", "SqsManagedSseEnabled": "true"}')$$);
SELECT sqs_create_queue('kms', '{"KmsMasterKeyId": "ключ"}');
SELECT sqs_get_queue_attributes('kms', '{KmsMasterKeyId,KmsDataKeyReusePeriodSeconds,SqsManagedSseEnabled}');
SELECT sqs_create_queue('kms', '{"KmsMasterKeyId": "ключ", "KmsDataKeyReusePeriodSeconds": 300}');

-- Policy: kept as given
SELECT try_set('{"Policy": "{ \"Version\":\"2012-10-17\",\"Version\": 1,  \"Statement\": [] }"}');
SELECT sqs_get_queue_attributes('q', '{Policy}') ->> 'Policy';
SELECT try_set('{"Policy": {"Statement": {"Sid": "größe"}}}');
SELECT sqs_get_queue_attributes('q', '{Policy}') ->> 'Policy';
SELECT value, try_set(format('{"Policy": %s}', value)) FROM unnest(ARRAY['5', 'null', 'true', '[]', '"x"', '"[]"', '"{"', '"{} {}"', '"{\"a\": \"\\u0000\"}"', '" "', '"{\"a\": \"\\ud800\"}"']) value;
SELECT sqs_get_queue_attributes('q', '{Policy}') ->> 'Policy';
SELECT try_set('{"Policy": ""}'), sqs_get_queue_attributes('q', '{Policy}');
SELECT try_set('{"Policy": ""}');
SELECT try_set(format('{"Policy": "{\"a\": \"%s\"}"}', repeat('a', 8183))), try_set(format('{"Policy": "{\"a\": \"%s\"}"}', repeat('a', 8184)));
SELECT n, try_set(jsonb_build_object('Policy', jsonb_build_object('Statement', (SELECT jsonb_agg('{}'::jsonb) FROM generate_series(1, n))))::text) FROM unnest('{20,21}'::int[]) n;
SELECT n, try_set(jsonb_build_object('Policy', jsonb_build_object('Statement', jsonb_build_object('Principal', jsonb_build_object('AWS', (SELECT jsonb_agg(i) FROM generate_series(1, n) i)))))::text) FROM unnest('{50,51}'::int[]) n;
SELECT n, try_set(jsonb_build_object('Policy', jsonb_build_object('Statement', jsonb_build_array(jsonb_build_object('Principal', '*', 'Condition', jsonb_build_object('StringEquals', (SELECT jsonb_object_agg(i, i) FROM generate_series(1, n) i))))))::text) FROM unnest('{10,11}'::int[]) n;

-- times
SELECT a ->> 'LastModifiedTimestamp' >= a ->> 'CreatedTimestamp' AND abs((a ->> 'CreatedTimestamp')::int8 - extract(epoch FROM clock_timestamp())) < 300 FROM sqs_get_queue_attributes('q') a;
UPDATE sqs.queue SET created_at = '2001-09-09 01:46:40.9+00', modified_at = '2001-09-09 01:46:40.9+00' WHERE name = 'q';
SELECT sqs_get_queue_attributes('q', '{CreatedTimestamp,LastModifiedTimestamp}');
SELECT sqs_tag_queue('q', '{"a": "b"}');
SELECT sqs_get_queue_attributes('q', '{CreatedTimestamp,LastModifiedTimestamp}');
SELECT try_set('{"DelaySeconds": 0}');
SELECT a ->> 'CreatedTimestamp', a ->> 'LastModifiedTimestamp' > '1700000000' FROM sqs_get_queue_attributes('q') a;
UPDATE sqs.queue SET modified_at = '2001-09-09 01:46:40.9+00' WHERE name = 'q';
SELECT sqs_add_permission('q', 'l', '{public}', '{SendMessage}');
SELECT sqs_get_queue_attributes('q') ->> 'LastModifiedTimestamp' > '1700000000';

-- counts: each message is in one of three
CREATE FUNCTION counts(OUT visible text, OUT in_flight text, OUT delayed text) LANGUAGE sql AS $$
	SELECT a ->> 'ApproximateNumberOfMessages', a ->> 'ApproximateNumberOfMessagesNotVisible', a ->> 'ApproximateNumberOfMessagesDelayed'
	FROM sqs_get_queue_attributes('q') a $$;
SELECT try_set('{"VisibilityTimeout": 43200, "MessageRetentionPeriod": 345600}');
SELECT count(*) FROM sqs_send_many('q', '{a,b,c,d,e,f}');
SELECT count(*) FROM sqs_send_many('q', '{g,h}', 900);
SELECT * FROM counts();
SELECT count(*) FROM sqs_receive('q', 3);
SELECT count(*) FROM sqs_receive('q', 1, 0);
SELECT * FROM counts();
BEGIN;
SELECT count(*) FROM sqs_receive('q', 1), sqs_send('q', 'i') i, sqs_send('q', 'j', 10) j;
SELECT * FROM counts();
SELECT sqs_get_queue_attributes('q', '{ApproximateNumberOfMessagesDelayed}'), sqs_get_queue_attributes('q', '{DelaySeconds}');
ROLLBACK;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT (sqs_send('q', 'i')).message_id IS NOT NULL;
SELECT * FROM counts();
ROLLBACK;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT (sqs_send('q', 'i')).message_id IS NOT NULL;
SELECT * FROM counts();
ROLLBACK;
-- what is past its retention is not counted
DO $$ BEGIN EXECUTE format('UPDATE sqs.queue_%s SET sent_at = sent_at - interval ''100 s'' WHERE body IN (''a'', ''g'', ''f'')', (SELECT id FROM sqs.queue WHERE name = 'q')); END $$;
SELECT * FROM counts();
SELECT try_set('{"MessageRetentionPeriod": 100}');
SELECT * FROM counts();
SELECT try_set('{"MessageRetentionPeriod": 345600}');
SELECT * FROM counts();
-- whatever the session's settings
SET datestyle = 'SQL, DMY'; SET timezone = 'Asia/Kathmandu'; SET intervalstyle = 'iso_8601';
SELECT * FROM counts();
RESET datestyle; RESET timezone; RESET intervalstyle;

-- privileges
CREATE ROLE regress_reader;
CREATE ROLE regress_sender;
SELECT sqs_add_permission('q', 'read', '{regress_reader}', '{GetQueueAttributes}'), sqs_remove_permission('q', 'l'), sqs_add_permission('q', 'send', '{regress_sender}', '{SendMessage}');
SET ROLE regress_reader;
SELECT * FROM counts();
SELECT try_set('{"VisibilityTimeout": 1}');
SET ROLE regress_sender;
SELECT try($$SELECT sqs_get_queue_attributes('q')$$);
SELECT try($$SELECT sqs_get_queue_attributes('q', '{QueueArn}')$$);
RESET ROLE;
-- row security: no policy of the owner's runs for another
DO $$ BEGIN EXECUTE format('ALTER TABLE sqs.queue_%s ENABLE ROW LEVEL SECURITY', (SELECT id FROM sqs.queue WHERE name = 'q')); END $$;
SET ROLE regress_reader;
SELECT try($$SELECT sqs_get_queue_attributes('q')$$);
RESET ROLE;
SELECT * FROM counts();

BEGIN READ ONLY;
SELECT try_set('{"VisibilityTimeout": 1}');
SELECT * FROM counts();
COMMIT;

SELECT sqs_delete_queue('q'), sqs_delete_queue('kms');
DROP ROLE regress_reader, regress_sender;
DROP FUNCTION counts, encryption, attributes_of, try_set;
