-- sqs_send and sqs_send_many: what goes in comes out, and what may not go in

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
-- the error of sending a body, with its parameters
CREATE FUNCTION send_error(queue_name text, message_body text, message_attributes jsonb DEFAULT NULL) RETURNS text LANGUAGE sql AS
$$ SELECT error_of(format('SELECT sqs_send(%L, %L, message_attributes => %L)', queue_name, message_body, message_attributes)) $$;
-- how long messages are hidden, oldest first
CREATE FUNCTION delays(queue_name text) RETURNS interval[] LANGUAGE plpgsql AS $$
DECLARE
	answer interval[];
BEGIN
	EXECUTE (SELECT format('SELECT array_agg(visible_at - sent_at ORDER BY id) FROM sqs.queue_%s', id) FROM sqs.queue WHERE name = queue_name) INTO answer;
	RETURN answer;
END $$;

SELECT sqs_create_queue('send');

-- what a send returns
SELECT message_id IS NOT NULL AS has_id, sequence_number, md5_of_message_body, md5_of_message_attributes FROM sqs_send('send', 'test');
SELECT (sqs_send('send', 'message', 0, '{"Foo": "Bar"}')).md5_of_message_attributes;
SELECT count(*), count(DISTINCT message_id), bool_and(message_id::text ~ '^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$') AS version_4
FROM generate_series(1, 200) n, LATERAL sqs_send('send', 'x' || n);
SET pg_sqs.max_batch_size = 1000;
SELECT count(*) FROM sqs_consume('send', 1000);
-- the row that is received is the one that was sent
SELECT message_id AS sent FROM sqs_send('send', 'test') \gset
SELECT message_id = :'sent' AS same, body, receive_count, sender_id = current_user AS sender, message_group_id, message_deduplication_id, sequence_number, message_attributes, aws_trace_header, dead_letter_queue_source
FROM sqs_consume('send');

-- untyped literals, named arguments, NULL for the default
SELECT md5_of_message_body FROM sqs_send('send', 'a', NULL, NULL, NULL, NULL, NULL, NULL);
SELECT md5_of_message_body FROM sqs_send(queue_name => 'send', message_body => 'a', delay_seconds => '0', message_attributes => '{}', message_group_id => 'g', visibility_timeout => '5', aws_trace_header => 'Root=1');
SELECT body, message_group_id, message_attributes, aws_trace_header FROM sqs_consume('send', 2);

-- required arguments and queues that there are not
SELECT error_of('SELECT sqs_send(NULL, ''a'')');
SELECT error_of('SELECT sqs_send(''send'', NULL)');
SELECT error_of('SELECT sqs_send(''send'', '''')');
SELECT error_of('SELECT sqs_send(''nowhere'', ''a'')');
SELECT error_of('SELECT sqs_send('''', ''a'')');
SELECT error_of(format('SELECT sqs_send(%L, ''a'')', repeat('q', 81)));
SELECT error_of(format('SELECT sqs_send(%L, ''a'')', 'größe'));
BEGIN READ ONLY;
SELECT sqs_send('send', 'a');
ROLLBACK;

-- bodies come back byte for byte
CREATE TABLE body (n int PRIMARY KEY, body text);
INSERT INTO body VALUES
	(1, '{"a":"\u0000"}'), (2, '{"a":1,"a":2}'), (3, '  {"b" : 1.0,  "a":2 }  '), (4, E'line\r\nline\rline\nline\t'), (5, E'\n'), (6, ' '),
	(7, '<?xml version="1.0"?><a b="c">&amp;<![CDATA[ ]]> </a>'), (8, 'grüße, 世界, 😀'), (9, '\x00\001\\'), (10, E'\u007f\u0080\u0085\ufeff\ufffd'),
	(11, repeat('{"key": "value"}', 10000)), (12, chr(1114111)), (13, 'null'), (14, '''"%$$'), (15, E'e\u0301 \u00e9');
-- one that does not compress
INSERT INTO body SELECT 16, string_agg(md5(n::text), '') FROM generate_series(1, 32768) n;
SELECT n, octet_length(body), md5_of_message_body = md5(body) AS md5 FROM body, LATERAL sqs_send('send', body) ORDER BY n;
SELECT n, received.body COLLATE "C" = body.body COLLATE "C" AS same, octet_length(received.body)
FROM sqs_consume('send', 100) WITH ORDINALITY AS received(message_id, receipt_handle, body, receive_count, sent_at, first_received_at, visible_at, sender_id, message_group_id, message_deduplication_id, sequence_number, message_attributes, aws_trace_header, dead_letter_queue_source, n)
	FULL JOIN body USING (n) ORDER BY n;

-- the characters of XML 1.0, wherever in a body they stand
SELECT send_error('send', E'a\u0001b');
SELECT send_error('send', E'\u001f');
SELECT send_error('send', chr(x'FFFE'::int));
SELECT send_error('send', 'ok ' || E'\u000b' || chr(x'FFFF'::int));
SELECT send_error('send', 'ok ' || chr(x'FFFF'::int) || E'\u000b');
SELECT count(*), count(*) FILTER (WHERE send_error('send', repeat('é', at % 3) || repeat('x', at) || bad || repeat('y', 20 - at)) LIKE format('SQ017 Invalid binary character ''#x%s'' was%%', upper(to_hex(ascii(bad))))) AS refused
FROM generate_series(0, 20) at, (SELECT chr(c) AS bad FROM generate_series(1, 31) c WHERE c NOT IN (9, 10, 13) UNION ALL VALUES (chr(x'FFFE'::int)), (chr(x'FFFF'::int))) AS t;
-- all others (of those beyond U+FFFF the first and the last), in bodies of 4,096 characters
SELECT string_agg(DISTINCT send_error('send', body), ', ')
FROM (SELECT string_agg(chr(c), '' ORDER BY c) AS body FROM generate_series(1, 1114111) c
	WHERE c IN (9, 10, 13) OR c BETWEEN 32 AND 55295 OR c BETWEEN 57344 AND 65533 OR c BETWEEN 65536 AND 70000 OR c > 1110000 GROUP BY c / 4096) AS t;
SELECT sqs_delete_queue('send'), sqs_create_queue('send');

-- a size limit is inclusive; bytes count, of the body and of attributes
SELECT md5_of_message_body = md5(repeat('a', 1048576)) AS whole_megabyte FROM sqs_send('send', repeat('a', 1048576));
SELECT send_error('send', repeat('a', 1048577));
SELECT send_error('send', repeat('é', 524288)), send_error('send', repeat('é', 524288) || 'a');
-- name 1, type 6, value 3
SELECT send_error('send', repeat('a', 1048576 - 10), '{"k": "abc"}'), send_error('send', repeat('a', 1048576 - 9), '{"k": "abc"}');
SELECT send_error('send', repeat('a', 1048576 - 12), '{"é": "é12"}'), send_error('send', repeat('a', 1048576 - 11), '{"é": "é12"}');
SELECT sqs_create_queue('small', '{"MaximumMessageSize": 1024}');
SELECT send_error('small', repeat('a', 1024)), send_error('small', repeat('a', 1025));
-- name 2, type with its label 10, value 3 bytes and not their base64
SELECT send_error('small', repeat('a', 1024 - 15), '{"bb": {"DataType": "Binary.ico", "BinaryValue": "AAEC"}}'),
	send_error('small', repeat('a', 1024 - 14), '{"bb": {"DataType": "Binary.ico", "BinaryValue": "AAEC"}}');
SELECT send_error('small', 'a', jsonb_build_object('k', repeat('x', 1016))), send_error('small', 'a', jsonb_build_object('k', repeat('x', 1017)));
-- neither ids nor the trace header count
SELECT md5_of_message_body = md5(repeat('a', 1024)) AS sent FROM sqs_send('small', repeat('a', 1024), message_group_id => repeat('g', 128), aws_trace_header => repeat('t', 1000));

-- a message's delay
SELECT sqs_create_queue('delayed', '{"DelaySeconds": 7}'), sqs_create_queue('prompt');
SELECT count(*) FROM (VALUES (NULL::int), (0), (1), (900)) AS t(delay), LATERAL sqs_send('delayed', 'a', delay) WHERE message_id IS NOT NULL;
SELECT count(*) FROM (VALUES (NULL::int), (0), (1), (900)) AS t(delay), LATERAL sqs_send('prompt', 'a', delay) WHERE message_id IS NOT NULL;
SELECT delays('delayed'), delays('prompt');
SELECT error_of('SELECT sqs_send(''prompt'', ''a'', -1)');
SELECT error_of('SELECT sqs_send(''prompt'', ''a'', 901)');
SELECT error_of('SELECT sqs_send(''prompt'', ''a'', -2147483648)');

-- a message's own visibility timeout, which a receive that names one overrides
SELECT sqs_create_queue('hidden', '{"VisibilityTimeout": 9}');
SELECT count(*) FROM unnest('{NULL, 0, 1, 43200}'::int[]) timeout, LATERAL sqs_send('hidden', 'timeout ' || coalesce(timeout::text, 'none'), visibility_timeout => timeout) WHERE message_id IS NOT NULL;
SELECT body, date_trunc('second', visible_at - first_received_at) AS hidden_for FROM sqs_receive('hidden', 4) ORDER BY body;
SELECT sqs_create_queue('hidden2');
SELECT md5_of_message_body FROM sqs_send('hidden2', 'a', visibility_timeout => 60);
SELECT date_trunc('second', visible_at - first_received_at) AS hidden_for FROM sqs_receive('hidden2', visibility_timeout => 0);
SELECT receive_count, visible_at - first_received_at BETWEEN '60 s' AND '80 s' AS own_again FROM sqs_receive('hidden2');
SELECT error_of('SELECT sqs_send(''send'', ''a'', visibility_timeout => -1)');
SELECT error_of('SELECT sqs_send(''send'', ''a'', visibility_timeout => 43201)');

-- group ids on a standard queue: kept, returned, and held to their form
SELECT sqs_create_queue('groups');
SELECT count(*) FROM unnest(ARRAY['g', repeat('g', 128), '!"#$%&''()*+,-./:;<=>?@[\]^_`{|}~0Az', NULL]) AS g, LATERAL sqs_send('groups', coalesce(g, 'none'), message_group_id => g) WHERE message_id IS NOT NULL;
SELECT left(body, 40) AS body, message_group_id IS NOT DISTINCT FROM nullif(body, 'none') AS same, sequence_number FROM sqs_receive('groups', 10);
SELECT replace(error_of(format('SELECT sqs_send(''groups'', ''a'', message_group_id => %L)', g)), repeat('g', 129), 'g...') AS error
FROM unnest(ARRAY['', ' ', 'a b', 'é', E'a\n', E'\u007f', '世', repeat('g', 129)]) AS g;

-- a deduplication id is not for a standard queue
SELECT error_of('SELECT sqs_send(''groups'', ''a'', message_deduplication_id => ''d'')');
SELECT error_of('SELECT sqs_send(''groups'', ''a'', message_deduplication_id => '''')');

-- the trace header
SELECT sqs_create_queue('traced');
SELECT md5_of_message_attributes FROM sqs_send('traced', 'a', aws_trace_header => 'Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1');
SELECT aws_trace_header, message_attributes FROM sqs_receive('traced');
SELECT error_of('SELECT sqs_send(''traced'', ''a'', aws_trace_header => '''')');
SELECT error_of('SELECT sqs_send(''traced'', ''a'', aws_trace_header => E''a\u0001'')');

-- attributes of either form come back in that of AWS
SELECT sqs_create_queue('attributes');
SELECT md5_of_message_attributes FROM sqs_send('attributes', 'a', message_attributes => '{"b": {"DataType": "Number.int", "StringValue": "1"}, "aa": "v", "n": 1.50, "bin": {"BinaryValue": "AAE=", "DataType": "Binary", "StringValue": null}}');
SELECT message_attributes, sqs_md5_of_message_attributes(message_attributes) FROM sqs_receive('attributes');
SELECT send_error('attributes', 'a', '{"k": ""}');
SELECT send_error('attributes', 'a', '[]');
SELECT send_error('attributes', 'a', '{"k": {"DataType": "Text", "StringValue": "v"}}');

-- a send belongs to its transaction
SELECT sqs_create_queue('transaction');
BEGIN;
SELECT md5_of_message_body FROM sqs_send('transaction', 'rolled back');
ROLLBACK;
BEGIN;
SELECT md5_of_message_body FROM sqs_send('transaction', 'kept');
SAVEPOINT s;
SELECT md5_of_message_body FROM sqs_send('transaction', 'rolled back too');
ROLLBACK TO s;
COMMIT;
SELECT body FROM sqs_receive('transaction', 10);

-- sqs_send_many: ids in order, all or nothing
SELECT sqs_create_queue('many');
SELECT count(*), count(DISTINCT id) FROM sqs_send_many('many', ARRAY['a', 'b', 'c']) AS id;
CREATE TABLE sent AS SELECT id, n FROM sqs_send_many('many', (SELECT array_agg('body ' || n ORDER BY n) FROM generate_series(1, 1000) n), message_group_id => 'g', message_attributes => '{"k": 1}') WITH ORDINALITY AS t(id, n);
SELECT count(*) FROM sqs_consume('many', 3);
SELECT count(*), bool_and('body ' || n = body AND message_group_id = 'g' AND message_attributes = '{"k": {"DataType": "Number", "StringValue": "1"}}') AS same
FROM sqs_consume('many', 1000) JOIN sent ON id = message_id;
SELECT count(*) FROM sqs_send_many('many', '{}');
SELECT count(*) FROM sqs_send_many('many', '{{a,b},{c,d}}', delay_seconds => 5);
SELECT delays('many');
SELECT error_of('SELECT sqs_send_many(''many'', NULL)');
SELECT error_of('SELECT sqs_send_many(NULL, ''{a}'')');
SELECT error_of('SELECT sqs_send_many(''nowhere'', ''{a}'')');
SELECT error_of('SELECT sqs_send_many(''many'', ''{a,NULL}'')');
SELECT error_of('SELECT sqs_send_many(''many'', ''{a,""}'')');
SELECT error_of('SELECT sqs_send_many(''many'', ARRAY[''a'', E''\u0002''])');
SELECT error_of('SELECT sqs_send_many(''many'', ARRAY[''a'', repeat(''b'', 1048577)])');
SELECT error_of('SELECT sqs_send_many(''many'', ''{a}'', 901)');
SELECT error_of('SELECT sqs_send_many(''many'', ''{a}'', message_attributes => ''{"": 1}'')');
SELECT error_of('SELECT sqs_send_many(''many'', ''{a}'', message_group_id => '''')');
SELECT error_of('SELECT sqs_send_many(''many'', ''{}'', message_group_id => '''')');
SELECT array_length(delays('many'), 1) AS none_of_these_sent;

SELECT sqs_delete_queue(name) FROM sqs_list_queues() AS name;
DROP TABLE body, sent;
DROP FUNCTION delays, send_error, error_of;
