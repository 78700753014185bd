-- The extension dropped and made again under a session's feet: it remembers
-- nothing of what is gone.
\set VERBOSITY terse
SET client_min_messages = error;
SELECT current_database() AS home \gset
CREATE DATABASE regress_sqs_extension;
\c regress_sqs_extension
SET client_min_messages = error;

CREATE EXTENSION pg_sqs;
SELECT sqs_create_queue('a');
SELECT (sqs_send('a', 'm1')).message_id IS NOT NULL AS sent;
SELECT body, receipt_handle AS h FROM sqs_receive('a', 1, 0) \gset
-- a queue's messages do not go by accident
DROP EXTENSION pg_sqs;
DROP EXTENSION pg_sqs CASCADE;
SELECT count(*) FROM pg_namespace WHERE nspname = 'sqs';
SELECT sqs_send('a', 'x');

-- made again: other queues of the same names and numbers
CREATE EXTENSION pg_sqs;
SELECT * FROM sqs_list_queues();
SELECT body FROM sqs_receive('a');
SELECT sqs_create_queue('a');
SELECT (sqs_send('a', 'm2')).message_id IS NOT NULL AS sent;
SET pg_sqs_test.handle = :'h';
DO $$ BEGIN
	PERFORM sqs_delete('a', current_setting('pg_sqs_test.handle'));
EXCEPTION WHEN sqlstate 'SQ012' THEN
	RAISE 'the old handle is refused';
END $$;
SELECT body FROM sqs_receive('a', 1, 0);

-- undone
BEGIN;
DROP EXTENSION pg_sqs CASCADE;
ROLLBACK;
SELECT body, receive_count FROM sqs_receive('a', 1, 0);
-- with the transaction that sent
BEGIN;
SELECT (sqs_send('a', 'm3')).message_id IS NOT NULL AS sent;
DROP EXTENSION pg_sqs CASCADE;
CREATE EXTENSION pg_sqs;
SELECT sqs_create_queue('b');
SELECT (sqs_send('b', 'm4')).message_id IS NOT NULL AS sent;
COMMIT;
SELECT * FROM sqs_list_queues();
SELECT body FROM sqs_receive('b');
DROP EXTENSION pg_sqs CASCADE;

-- in a schema of its own, called without it in the path
CREATE SCHEMA other;
CREATE EXTENSION pg_sqs SCHEMA other;
SELECT other.sqs_create_queue('a');
SELECT (other.sqs_send('a', 'm5')).message_id IS NOT NULL AS sent;
SELECT body FROM other.sqs_receive('a');

\c :home
DROP DATABASE regress_sqs_extension;
