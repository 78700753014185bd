-- RedrivePolicy, RedriveAllowPolicy, sqs_list_dead_letter_source_queues

\getenv folder PG_ABS_SRCDIR
\set helpers :folder /sql/helpers.psql
\set ECHO none
\i :helpers
\set ECHO all

CREATE FUNCTION try_redrive(policy text) RETURNS text LANGUAGE sql AS $$
	SELECT try(format('SELECT sqs_set_queue_attributes(''src'', %L)', jsonb_build_object('RedrivePolicy', policy)))
$$;
CREATE FUNCTION try_allow(policy text) RETURNS text LANGUAGE sql AS $$
	SELECT try(format('SELECT sqs_set_queue_attributes(''dlq'', %L)', jsonb_build_object('RedriveAllowPolicy', policy)))
$$;
SELECT sqs_create_queue('src'), sqs_create_queue('dlq');

-- an object or its text, a name or an ARN, a number or its text
SELECT sqs_set_queue_attributes('src', '{"RedrivePolicy": {"deadLetterTargetArn": "dlq", "maxReceiveCount": 5}}');
SELECT sqs_get_queue_attributes('src', '{RedrivePolicy}') ->> 'RedrivePolicy';
SELECT policy, try_redrive(policy), sqs_get_queue_attributes('src', '{RedrivePolicy}') ->> 'RedrivePolicy' FROM unnest(ARRAY[
	'{"deadLetterTargetArn":"arn:aws:sqs:local:000000000000:dlq","maxReceiveCount":1}',
	'{"deadLetterTargetArn":"arn:aws-cn:sqs:local:000000000000:dlq","maxReceiveCount":"1000"}',
	' { "maxReceiveCount" : "7" , "deadLetterTargetArn" : "dlq" } ',
	'{"deadLetterTargetArn":"dlq","maxReceiveCount":1.0e1}']) policy;
SELECT * FROM sqs_list_dead_letter_source_queues('dlq');

-- "" removes it
SELECT try_redrive(''), sqs_get_queue_attributes('src', '{RedrivePolicy}');
SELECT try_redrive('');
SELECT * FROM sqs_list_dead_letter_source_queues('dlq');

-- what it cannot be
SELECT policy, try_redrive(policy) FROM unnest(ARRAY[
	'x', '{', '[]', '5', 'null', '"dlq"', '{"maxReceiveCount": 5', '{}',
	'{"maxReceiveCount": 5}', '{"deadLetterTargetArn": "dlq"}', '{"deadLetterTargetArn": "dlq", "maxreceivecount": 5}',
	'{"deadLetterTargetArn": "dlq", "maxReceiveCount": 5, "x": 1}',
	'{"deadLetterTargetArn": "dlq", "maxReceiveCount": 0}', '{"deadLetterTargetArn": "dlq", "maxReceiveCount": 1001}',
	'{"deadLetterTargetArn": "dlq", "maxReceiveCount": -1}', '{"deadLetterTargetArn": "dlq", "maxReceiveCount": "five"}',
	'{"deadLetterTargetArn": "dlq", "maxReceiveCount": ""}', '{"deadLetterTargetArn": "dlq", "maxReceiveCount": 1.5}',
	'{"deadLetterTargetArn": "dlq", "maxReceiveCount": true}', '{"deadLetterTargetArn": "dlq", "maxReceiveCount": null}',
	'{"deadLetterTargetArn": "dlq", "maxReceiveCount": {"n": 5}}', '{"deadLetterTargetArn": "dlq", "maxReceiveCount": 99999999999999999999}',
	'{"deadLetterTargetArn": 5, "maxReceiveCount": 5}', '{"deadLetterTargetArn": null, "maxReceiveCount": 5}',
	'{"deadLetterTargetArn": {"a": "dlq"}, "maxReceiveCount": 5}', '{"deadLetterTargetArn": "", "maxReceiveCount": 5}',
	'{"deadLetterTargetArn": "d l q", "maxReceiveCount": 5}', '{"deadLetterTargetArn": "größe", "maxReceiveCount": 5}',
	'{"deadLetterTargetArn": "arn:aws:sqs:local:dlq", "maxReceiveCount": 5}',
	'{"deadLetterTargetArn": "arn:aws:sns:local:000000000000:dlq", "maxReceiveCount": 5}',
	'{"deadLetterTargetArn": "arn:aws:sqs:local:000000000000:", "maxReceiveCount": 5}',
	'{"deadLetterTargetArn": "arn:aws:sqs:local::dlq", "maxReceiveCount": 5}',
	'{"deadLetterTargetArn": "arn:aws:sqs:local:000000000000:dlq:x", "maxReceiveCount": 5}',
	'{"deadLetterTargetArn": "urn:aws:sqs:local:000000000000:dlq", "maxReceiveCount": 5}',
	'{"deadLetterTargetArn": ":::::", "maxReceiveCount": 5}',
	'{"deadLetterTargetArn": "http://localhost/dlq", "maxReceiveCount": 5}',
	'{"deadLetterTargetArn": "arn:aws:sqs:local:123456789012:dlq", "maxReceiveCount": 5}',
	'{"deadLetterTargetArn": "arn:aws:sqs:eu-west-1:000000000000:dlq", "maxReceiveCount": 5}',
	'{"deadLetterTargetArn": "not-there", "maxReceiveCount": 5}', '{"deadLetterTargetArn": "dlq.fifo", "maxReceiveCount": 5}']) policy;
SELECT length(try_redrive(format('{"deadLetterTargetArn": "%s", "maxReceiveCount": 5}', repeat('x', 100000)))) < 2000;
SELECT try($$SELECT sqs_set_queue_attributes('src', '{"RedrivePolicy": ["dlq", 5]}')$$);
SELECT try($$SELECT sqs_set_queue_attributes('src', '{"RedrivePolicy": null}')$$);
SELECT try($$SELECT sqs_set_queue_attributes('src', '{"RedrivePolicy": true}')$$);
SELECT sqs_get_queue_attributes('src', '{RedrivePolicy}');
-- in a new queue as well; a queue can be its own, once it is there
SELECT try($$SELECT sqs_create_queue('src2', '{"RedrivePolicy": {"deadLetterTargetArn": "src2", "maxReceiveCount": 5}}')$$);
SELECT sqs_create_queue('src2', '{"RedrivePolicy": {"deadLetterTargetArn": "dlq", "maxReceiveCount": 5}}');
SELECT sqs_create_queue('src2', '{"RedrivePolicy": "{\"maxReceiveCount\":\"5\",\"deadLetterTargetArn\":\"arn:aws:sqs:local:000000000000:dlq\"}"}');
SELECT try($$SELECT sqs_create_queue('src2', '{"RedrivePolicy": {"deadLetterTargetArn": "dlq", "maxReceiveCount": 6}}')$$);
SELECT try_redrive('{"deadLetterTargetArn": "src", "maxReceiveCount": 5}');
SELECT * FROM sqs_list_dead_letter_source_queues('src');

-- the names are what is stored: ARNs follow the settings
SELECT name, dead_letter_queue, max_receive_count FROM sqs.queue ORDER BY name;

-- a target deleted later: the policy dangles, messages stay
SELECT sqs_create_queue('dlq2'), try_redrive('{"deadLetterTargetArn": "dlq2", "maxReceiveCount": 1}');
SELECT sqs_delete_queue('dlq2');
SELECT sqs_get_queue_attributes('src', '{RedrivePolicy}') ->> 'RedrivePolicy';
SELECT sqs_set_queue_attributes('src', '{"VisibilityTimeout": 0}');
SELECT (sqs_send('src', 'x')).message_id IS NOT NULL;
SELECT body FROM sqs_receive('src');
SELECT body FROM sqs_receive('src');
SELECT try_redrive('{"deadLetterTargetArn": "dlq2", "maxReceiveCount": 1}');
SELECT sqs_create_queue('src', '{"RedrivePolicy": {"deadLetterTargetArn": "dlq2", "maxReceiveCount": 1}}');
SELECT sqs_create_queue('dlq2');
SELECT * FROM sqs_list_dead_letter_source_queues('dlq2');
SELECT body FROM sqs_receive('src');
SELECT body, receive_count, dead_letter_queue_source FROM sqs_receive('dlq2');

-- ListDeadLetterSourceQueues
SELECT sqs_create_queue(name, '{"RedrivePolicy": {"deadLetterTargetArn": "dlq", "maxReceiveCount": 5}}') FROM unnest('{zz,Zz,a_,a-}'::text[]) name;
SELECT * FROM sqs_list_dead_letter_source_queues('dlq');
DO $$ BEGIN EXECUTE format('DROP TABLE sqs.queue_%s', (SELECT id FROM sqs.queue WHERE name = 'zz')); END $$;
SELECT * FROM sqs_list_dead_letter_source_queues(queue_name => 'dlq');
SELECT try($$SELECT sqs_list_dead_letter_source_queues('zz')$$);
SELECT try($$SELECT sqs_list_dead_letter_source_queues(NULL)$$);
SELECT try($$SELECT sqs_list_dead_letter_source_queues('')$$);
SELECT try($$SELECT sqs_list_dead_letter_source_queues(repeat('ü', 80))$$);
SELECT sqs_delete_queue(name) FROM unnest('{Zz,a_,a-,zz}'::text[]) name;

-- RedriveAllowPolicy
SELECT policy, try_allow(policy), sqs_get_queue_attributes('dlq', '{RedriveAllowPolicy}') ->> 'RedriveAllowPolicy' FROM unnest(ARRAY[
	'{"redrivePermission": "allowAll"}', '{"redrivePermission":"denyAll"}',
	'{"redrivePermission": "byQueue", "sourceQueueArns": ["src2", "arn:aws:sqs:local:000000000000:src", "src2", "not-there-yet"]}',
	'{"sourceQueueArns": ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"], "redrivePermission": "byQueue"}', '']) policy;
SELECT sqs_set_queue_attributes('dlq', '{"RedriveAllowPolicy": {"redrivePermission": "byQueue", "sourceQueueArns": ["NULL", "src"]}}');
SELECT policy, try_allow(policy) FROM unnest(ARRAY[
	'x', '[]', '5', '{}', '{"redrivePermission": "allow"}', '{"redrivePermission": null}', '{"redrivePermission": ["allowAll"]}',
	'{"sourceQueueArns": ["src"]}', '{"redrivePermission": "allowAll", "x": 1}',
	'{"redrivePermission": "allowAll", "sourceQueueArns": ["src"]}', '{"redrivePermission": "denyAll", "sourceQueueArns": []}',
	'{"redrivePermission": "byQueue"}', '{"redrivePermission": "byQueue", "sourceQueueArns": []}',
	'{"redrivePermission": "byQueue", "sourceQueueArns": "src"}', '{"redrivePermission": "byQueue", "sourceQueueArns": null}',
	'{"redrivePermission": "byQueue", "sourceQueueArns": {"0": "src"}}', '{"redrivePermission": "byQueue", "sourceQueueArns": [5]}',
	'{"redrivePermission": "byQueue", "sourceQueueArns": ["src", null]}', '{"redrivePermission": "byQueue", "sourceQueueArns": [["src"]]}',
	'{"redrivePermission": "byQueue", "sourceQueueArns": ["s r c"]}', '{"redrivePermission": "byQueue", "sourceQueueArns": ["arn:aws:sqs:local:123456789012:src"]}',
	'{"redrivePermission": "byQueue", "sourceQueueArns": ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"]}']) policy;
SELECT sqs_get_queue_attributes('dlq', '{RedriveAllowPolicy}') ->> 'RedriveAllowPolicy';

-- it is asked when a source is set, not when messages move
SELECT try_redrive('{"deadLetterTargetArn": "dlq", "maxReceiveCount": 5}');
SELECT try($$SELECT sqs_set_queue_attributes('src2', '{"RedrivePolicy": {"deadLetterTargetArn": "dlq", "maxReceiveCount": 5}}')$$);
SELECT try($$SELECT sqs_create_queue('src3', '{"RedrivePolicy": {"deadLetterTargetArn": "dlq", "maxReceiveCount": 5}}')$$);
SELECT sqs_create_queue('src2', '{"RedrivePolicy": {"deadLetterTargetArn": "dlq", "maxReceiveCount": 5}}');
SELECT try_allow('{"redrivePermission":"denyAll"}');
SELECT try_redrive('{"deadLetterTargetArn": "dlq", "maxReceiveCount": 5}');
SELECT * FROM sqs_list_dead_letter_source_queues('dlq');
SELECT try_allow('{"redrivePermission":"allowAll"}'), try_redrive('{"deadLetterTargetArn": "dlq", "maxReceiveCount": 5}');
SELECT try_allow('{"redrivePermission":"denyAll"}'), try_allow(''), try_redrive('{"deadLetterTargetArn": "dlq", "maxReceiveCount": 5}');

-- whoever sets it must be able to send to the target
CREATE ROLE regress_src;
GRANT CREATE ON SCHEMA sqs TO regress_src;
SET ROLE regress_src;
SELECT sqs_create_queue('theirs');
SELECT try($$SELECT sqs_set_queue_attributes('theirs', '{"RedrivePolicy": {"deadLetterTargetArn": "dlq", "maxReceiveCount": 5}}')$$);
SELECT try($$SELECT sqs_create_queue('theirs2', '{"RedrivePolicy": {"deadLetterTargetArn": "dlq", "maxReceiveCount": 5}}')$$);
SELECT try($$SELECT sqs_list_dead_letter_source_queues('dlq')$$);
RESET ROLE;
SELECT sqs_add_permission('dlq', 'sender', '{regress_src}', '{SendMessage}');
SET ROLE regress_src;
SELECT sqs_set_queue_attributes('theirs', '{"RedrivePolicy": {"deadLetterTargetArn": "dlq", "maxReceiveCount": 5}}');
SELECT try($$SELECT sqs_list_dead_letter_source_queues('dlq')$$);
RESET ROLE;
SELECT sqs_add_permission('dlq', 'lister', '{regress_src}', '{ListDeadLetterSourceQueues}');
SET ROLE regress_src;
SELECT * FROM sqs_list_dead_letter_source_queues('dlq');
RESET ROLE;

SELECT sqs_delete_queue(name) FROM (SELECT name FROM sqs_list_queues() name) q;
REVOKE CREATE ON SCHEMA sqs FROM regress_src;
DROP ROLE regress_src;
DROP FUNCTION try_redrive, try_allow;
