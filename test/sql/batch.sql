-- sqs_send_batch, sqs_delete_batch, sqs_change_visibility_batch: an answer for each entry, and errors of the whole call

CREATE FUNCTION error_of(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	hint text;
BEGIN
	EXECUTE query;
	RETURN 'no error';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
	RETURN concat_ws(E'\n', sqlstate || ' ' || sqlerrm, 'HINT ' || nullif(hint, ''));
END $$;
-- the whole-call error of a batch
CREATE FUNCTION batch_error(entries jsonb, call text DEFAULT 'sqs_send_batch', queue_name text DEFAULT 'batch') RETURNS text LANGUAGE sql AS
$$ SELECT error_of(format('SELECT %s(%L, %L)', call, queue_name, entries)) $$;
-- an entry of a send
CREATE FUNCTION entry(id text, body text DEFAULT 'a', more jsonb DEFAULT '{}') RETURNS jsonb LANGUAGE sql AS
$$ SELECT jsonb_build_object('Id', id, 'MessageBody', body) || more $$;
CREATE FUNCTION sent(queue_name text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	answer bigint;
BEGIN
	EXECUTE (SELECT format('SELECT count(*) FROM sqs.queue_%s', id) FROM sqs.queue WHERE name = queue_name) INTO answer;
	RETURN answer;
END $$;

SELECT sqs_create_queue('batch');

-- results come in the order of the entries
SELECT id, message_id IS NOT NULL AS sent, sequence_number, md5_of_message_body, md5_of_message_attributes, error_code, error_message
FROM sqs_send_batch('batch', '[{"Id": "z", "MessageBody": "message"}, {"Id": "A-b_9", "MessageBody": "test"}, {"Id": "a", "MessageBody": "foobar", "MessageAttributes": {"Foo": {"DataType": "String", "StringValue": "Bar"}}}]');
SELECT message_id IS NOT NULL AS sent, id FROM sqs_send_batch(entries => jsonb_build_array(entry('1'), entry(repeat('x', 80))), queue_name => 'batch');
-- in the SELECT list as well
SELECT (result).id, (result).md5_of_message_body FROM (SELECT sqs_send_batch('batch', jsonb_build_array(entry('1'), entry('2'))) AS result) AS t;
SELECT body, message_attributes FROM sqs_consume('batch', 10);

-- everything an entry can have; null is the same as nothing
SELECT id, md5_of_message_attributes, error_code FROM sqs_send_batch('batch', '[
	{"Id": "all", "MessageBody": "all", "DelaySeconds": 0, "MessageAttributes": {"k": 1}, "MessageGroupId": "g", "VisibilityTimeout": 77,
	 "MessageSystemAttributes": {"AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1"}}},
	{"Id": "null", "MessageBody": "null", "DelaySeconds": null, "MessageAttributes": null, "MessageSystemAttributes": null, "MessageGroupId": null, "MessageDeduplicationId": null, "VisibilityTimeout": null},
	{"Id": "text", "MessageBody": "text", "DelaySeconds": "0", "VisibilityTimeout": "78", "MessageAttributes": {}, "MessageSystemAttributes": {}}]');
SELECT body, message_attributes, message_group_id, aws_trace_header, date_trunc('second', visible_at - first_received_at) AS hidden_for FROM sqs_receive('batch', 10);

-- a bad entry fails alone, with the code and text of AWS
SELECT sqs_create_queue('mixed', '{"MaximumMessageSize": 1024}');
SELECT id, message_id IS NOT NULL AS sent, md5_of_message_body IS NOT NULL AS md5, error_code, error_message FROM sqs_send_batch('mixed', jsonb_build_array(
	entry('good1'), entry('control', E'a\u0001'), entry('good2', repeat('b', 1024)), entry('long', repeat('c', 1025)), entry('empty', ''), '{"Id": "none"}'::jsonb, '{"Id": "nobody", "MessageBody": null}'::jsonb,
	entry('good3')));
SELECT id, error_code, error_message FROM sqs_send_batch('mixed', jsonb_build_array(
	entry('delay', more => '{"DelaySeconds": 901}'), entry('text', more => '{"DelaySeconds": "-1"}'), entry('half', more => '{"DelaySeconds": 1.5}'), entry('huge', more => '{"DelaySeconds": 3000000000}'),
	entry('word', more => '{"DelaySeconds": "soon"}'), entry('blank', more => '{"DelaySeconds": ""}'), entry('bool', more => '{"DelaySeconds": true}'), entry('array', more => '{"DelaySeconds": [5]}'),
	entry('timeout', more => '{"VisibilityTimeout": 43201}'), entry('timeout2', more => '{"VisibilityTimeout": {}}')));
SELECT id, error_code, error_message FROM sqs_send_batch('mixed', jsonb_build_array(
	entry('body', more => '{"MessageBody": 5}'), entry('json', more => '{"MessageBody": {"a": 1}}'), entry('group', more => '{"MessageGroupId": 5}'), entry('group2', more => '{"MessageGroupId": ""}'), entry('group3', more => '{"MessageGroupId": "a b"}'),
	entry('dedup', more => '{"MessageDeduplicationId": "d"}'), entry('attr', more => '{"MessageAttributes": []}'), entry('attr2', more => '{"MessageAttributes": {"a b": 1}}'), entry('attr3', more => '{"MessageAttributes": {"a": {"DataType": "String"}}}'), entry('attr4', more => '{"MessageAttributes": "a"}')));
SELECT id, error_code, error_message FROM sqs_send_batch('mixed', jsonb_build_array(
	entry('sys', more => '{"MessageSystemAttributes": {"Other": {"DataType": "String", "StringValue": "v"}}}'), entry('sys2', more => '{"MessageSystemAttributes": {"AWSTraceHeader": {"DataType": "Number", "StringValue": "1"}}}'),
	entry('sys3', more => '{"MessageSystemAttributes": {"AWSTraceHeader": {"DataType": "String", "StringValue": ""}}}'), entry('sys4', more => '{"MessageSystemAttributes": ["AWSTraceHeader"]}'),
	entry('sys5', more => '{"MessageSystemAttributes": {"AWSTraceHeader": {"DataType": "String", "StringValue": "a\u0001"}}}'), entry('sys6', more => '{"MessageSystemAttributes": {"AWSTraceHeader": {"DataType": "String.x", "StringValue": "a"}}}'),
	entry('sys7', more => '{"MessageSystemAttributes": {"AWSTraceHeader": "short form"}}')));
SELECT body = 'a' AS short, aws_trace_header FROM sqs_consume('mixed', 10);

-- errors of the whole call: nothing is sent
SELECT batch_error('[]');
SELECT batch_error('[]', 'sqs_delete_batch');
SELECT batch_error('[]', 'sqs_change_visibility_batch');
SELECT batch_error(NULL), batch_error('null');
SELECT batch_error('{"Id": "a", "MessageBody": "b"}');
SELECT batch_error('"a"');
SELECT batch_error('5');
SELECT batch_error('["a"]');
SELECT batch_error(jsonb_build_array(entry('a'), NULL));
SELECT batch_error(jsonb_build_array(entry('a'), '[{"Id": "b"}]'::jsonb));
SELECT batch_error('[{"MessageBody": "a"}]');
SELECT batch_error(jsonb_build_array(entry('a'), entry(NULL)), 'sqs_send_batch');
SELECT batch_error('[{"Id": "a"}, {"ReceiptHandle": "h"}]', 'sqs_delete_batch');
SELECT batch_error('[{"Id": 5, "MessageBody": "a"}]');
SELECT batch_error('[{"Id": {"a": "b"}, "MessageBody": "a"}]');
SELECT batch_error('[{"Id": "a", "MessageBody": "a", "messageBody": "b"}]');
SELECT batch_error('[{"Id": "a", "MessageBody": "a"}, {"Id": "b", "MessageBody": "a", "ReceiptHandle": null}]');
SELECT batch_error('[{"Id": "a", "ReceiptHandle": "h", "VisibilityTimeout": 5}]', 'sqs_delete_batch');
SELECT batch_error('[{"Id": "a", "ReceiptHandle": "h", "Timeout": 5}]', 'sqs_change_visibility_batch');
SELECT DISTINCT id, batch_error(jsonb_build_array(entry('a'), entry(id)))
FROM unnest(ARRAY['', 'a:b', 'a b', 'é', 'a.b', E'a\n', repeat('x', 81)]) AS id ORDER BY id;
SELECT DISTINCT batch_error(jsonb_build_array(jsonb_build_object('Id', 'a b', 'ReceiptHandle', 'h')), call) FROM unnest('{sqs_delete_batch,sqs_change_visibility_batch}'::text[]) AS call;
SELECT batch_error(jsonb_build_array(entry('id_1'), entry('id_2'), entry('id_2'), entry('id_1')));
SELECT batch_error(jsonb_build_array(entry('b'), entry('c'), entry('a'), entry('c'), entry('b')));
SELECT batch_error('[{"Id": "a", "ReceiptHandle": "h"}, {"Id": "a", "ReceiptHandle": "i"}]', 'sqs_delete_batch');
SELECT batch_error('[{"Id": "a", "ReceiptHandle": "h", "VisibilityTimeout": 1}, {"Id": "a", "ReceiptHandle": "i", "VisibilityTimeout": 1}]', 'sqs_change_visibility_batch');
-- ids are case sensitive
SELECT count(*) FROM sqs_send_batch('batch', jsonb_build_array(entry('a'), entry('A'), entry('a-'), entry('a_'), entry('0'))) WHERE error_code IS NULL;
SELECT batch_error((SELECT jsonb_agg(entry('id' || n)) FROM generate_series(1, 20) n));
SELECT batch_error((SELECT jsonb_agg(jsonb_build_object('Id', n::text, 'ReceiptHandle', 'h')) FROM generate_series(1, 11) n), 'sqs_delete_batch');
SELECT batch_error((SELECT jsonb_agg(jsonb_build_object('Id', n::text, 'ReceiptHandle', 'h', 'VisibilityTimeout', 1)) FROM generate_series(1, 11) n), 'sqs_change_visibility_batch');
SELECT count(*) FROM sqs_send_batch('batch', (SELECT jsonb_agg(entry('id' || n)) FROM generate_series(1, 10) n)) WHERE error_code IS NULL;
-- the setting moves that limit either way
SET pg_sqs.max_batch_size = 3;
SELECT batch_error((SELECT jsonb_agg(entry('id' || n)) FROM generate_series(1, 4) n));
SET pg_sqs.max_batch_size = 1000;
SELECT count(*), count(DISTINCT message_id), array_agg(id ORDER BY n) = array_agg('id' || n ORDER BY n) AS in_order
FROM sqs_send_batch('batch', (SELECT jsonb_agg(entry('id' || n, more => '{"DelaySeconds": 900}') ORDER BY n) FROM generate_series(1, 1000) n))
	WITH ORDINALITY AS t(id, message_id, sequence_number, md5_of_message_body, md5_of_message_attributes, error_code, error_message, n);
RESET pg_sqs.max_batch_size;
-- entries beyond any setting are not looked at
SELECT batch_error((SELECT jsonb_agg(n) FROM generate_series(1, 10001) n));
SELECT batch_error((SELECT jsonb_agg(n) FROM generate_series(1, 10000) n));

-- the size of all messages together
SELECT sent('batch') AS before \gset
SELECT batch_error(jsonb_build_array(entry('a', repeat('x', 524288)), entry('b', repeat('y', 524289))));
SELECT batch_error(jsonb_build_array(entry('a', repeat('x', 524288)), entry('b', repeat('y', 524278), '{"MessageAttributes": {"k": "1234"}}')));
SELECT id, error_code FROM sqs_send_batch('batch', jsonb_build_array(entry('a', repeat('x', 524288)), entry('b', repeat('y', 524277), '{"MessageAttributes": {"k": "1234"}}')));
-- it is not the queue's own limit
SELECT sqs_create_queue('two', '{"MaximumMessageSize": 2048}');
SELECT id, error_code FROM sqs_send_batch('two', jsonb_build_array(entry('a', repeat('x', 2037), '{"MessageAttributes": {"k": "1234"}}'), entry('b', 'y')));

-- which error comes first: empty, id, size, repeated, too many
SELECT batch_error(jsonb_build_array(entry('a', repeat('x', 1048577)), entry('a'), entry('a b')));
SELECT batch_error(jsonb_build_array(entry('a', repeat('x', 1048577)), entry('a')));
SELECT batch_error((SELECT jsonb_agg(entry('id' || n % 11)) FROM generate_series(1, 12) n));
SELECT batch_error((SELECT jsonb_agg(entry('id' || n)) FROM generate_series(1, 12) n));
SELECT sent('batch') - :before AS sent_by_the_one_that_passed;

-- queues that there are not
SELECT call, batch_error('[{"Id": "a"}]', call, 'nowhere') FROM unnest('{sqs_send_batch,sqs_delete_batch,sqs_change_visibility_batch}'::text[]) AS call;
SELECT call, batch_error('[{"Id": "a"}]', call, NULL) FROM unnest('{sqs_send_batch,sqs_delete_batch,sqs_change_visibility_batch}'::text[]) AS call;

-- delete: what is gone already counts as deleted, garbage does not
SELECT sqs_create_queue('delete'), sqs_create_queue('other');
SELECT count(*) FROM sqs_send_many('delete', '{a,b,c}'), sqs_send('other', 'o');
CREATE TABLE handle AS SELECT body, receipt_handle AS handle FROM sqs_receive('delete', 10) UNION ALL SELECT body, receipt_handle FROM sqs_receive('other');
SELECT id, message_id, sequence_number, md5_of_message_body, md5_of_message_attributes, error_code, regexp_replace(error_message, '"[A-Za-z0-9+/=]{40,}"', '"HANDLE"') AS error_message
FROM sqs_delete_batch('delete', (SELECT jsonb_agg(jsonb_build_object('Id', n, 'ReceiptHandle', h) ORDER BY n) FROM (
	SELECT 'b' AS n, to_jsonb(handle) AS h FROM handle WHERE body = 'b' UNION ALL SELECT 'a', to_jsonb(handle) FROM handle WHERE body = 'a' UNION ALL SELECT 'again', to_jsonb(handle) FROM handle WHERE body = 'a'
	UNION ALL SELECT 'foreign', to_jsonb(handle) FROM handle WHERE body = 'o' UNION ALL SELECT 'empty', '""' UNION ALL SELECT 'garbage', '"garbage"' UNION ALL SELECT 'mangled', to_jsonb(reverse(handle)) FROM handle WHERE body = 'c'
	UNION ALL SELECT 'null', 'null' UNION ALL SELECT 'number', '5' UNION ALL SELECT 'object', '{}') AS t));
SELECT error_code, error_message FROM sqs_delete_batch('delete', '[{"Id": "none"}]');
SELECT sent('delete');

-- change of visibility
SELECT count(*) FROM sqs_send_many('other', '{p,q,r}');
TRUNCATE handle;
INSERT INTO handle SELECT body, receipt_handle FROM sqs_receive('other', 10);
SELECT body FROM handle ORDER BY body;
SELECT sqs_delete('other', handle) FROM handle WHERE body = 'r';
SELECT id, message_id, md5_of_message_body, error_code, regexp_replace(error_message, '[A-Za-z0-9+/=]{40,}', 'HANDLE') AS error_message
FROM sqs_change_visibility_batch('other', (SELECT jsonb_agg(jsonb_build_object('Id', n, 'ReceiptHandle', coalesce(handle, 'garbage')) || timeout ORDER BY n) FROM (VALUES
	('1', 'p', '{"VisibilityTimeout": 0}'::jsonb), ('2', 'q', '{"VisibilityTimeout": "100"}'), ('3', 'q', '{"VisibilityTimeout": 43201}'), ('4', 'q', '{"VisibilityTimeout": -1}'), ('5', 'q', '{"VisibilityTimeout": null}'),
	('6', 'q', '{"VisibilityTimeout": "x"}'), ('7', 'r', '{"VisibilityTimeout": 10}'), ('8', 'x', '{"VisibilityTimeout": 10}'), ('9', 'q', '{"VisibilityTimeout": 43200}'), ('10', 'q', '{"VisibilityTimeout": [1]}')) AS t(n, body, timeout) LEFT JOIN handle USING (body)));
-- p is there at once, q is hidden
SELECT body, receive_count FROM sqs_receive('other', 10);

-- no entry of a call that rolls back is done
BEGIN;
SELECT id, error_code FROM sqs_send_batch('delete', jsonb_build_array(entry('a')));
ROLLBACK;
SELECT sent('delete');

BEGIN READ ONLY;
SELECT sqs_send_batch('batch', '[]');
ROLLBACK;

SELECT sqs_delete_queue(name) FROM sqs_list_queues() AS name;
DROP TABLE handle;
DROP FUNCTION batch_error, error_of, entry, sent;
