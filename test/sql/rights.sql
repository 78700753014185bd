-- Who may do what with messages: the privileges of the queue's table decide.
\set ECHO none
\getenv folder PG_ABS_SRCDIR
\set helpers :folder /sql/helpers.psql
\i :helpers
\set ECHO all

CREATE ROLE regress_sqs_owner;
CREATE ROLE regress_sqs_sender;
CREATE ROLE regress_sqs_receiver;
CREATE ROLE regress_sqs_deleter;
CREATE ROLE regress_sqs_changer;
CREATE ROLE regress_sqs_looker;
CREATE ROLE regress_sqs_nobody;
CREATE ROLE regress_sqs_member IN ROLE regress_sqs_sender, regress_sqs_receiver;

-- creating takes CREATE on schema sqs
SET ROLE regress_sqs_owner;
SELECT left(try($$ SELECT sqs_create_queue('rights') $$), 5);
RESET ROLE;
GRANT CREATE ON SCHEMA sqs TO regress_sqs_owner;
SET ROLE regress_sqs_owner;
SELECT sqs_create_queue('rights');
SELECT sqs_add_permission('rights', 'send', '{regress_sqs_sender}', '{SendMessage}');
SELECT sqs_add_permission('rights', 'receive', '{regress_sqs_receiver}', '{ReceiveMessage}');
SELECT sqs_add_permission('rights', 'delete', '{regress_sqs_deleter}', '{DeleteMessage}');
SELECT sqs_add_permission('rights', 'change', '{regress_sqs_changer}', '{ChangeMessageVisibility}');
SELECT sqs_add_permission('rights', 'look', '{regress_sqs_looker}', '{GetQueueAttributes}');
SELECT FROM sqs_send('rights', 'm');
SELECT take('rights', 0) AS h \gset
RESET ROLE;

-- every call, as every role: '+' = allowed
CREATE TEMP TABLE call (n serial, what text, sql text);
INSERT INTO call (what, sql) VALUES
	('send', 'SELECT FROM sqs_send(''rights'', ''x'')'),
	('send_batch', 'SELECT FROM sqs_send_batch(''rights'', ''[{"Id": "a", "MessageBody": "x"}]'')'),
	('send_many', 'SELECT FROM sqs_send_many(''rights'', ''{x}'')'),
	('receive', 'SELECT FROM sqs_receive(''rights'', 1, 0)'),
	('consume', 'SELECT FROM sqs_consume(''rights'')'),
	('peek', 'SELECT FROM sqs_peek(''rights'')'),
	('delete', format('SELECT sqs_delete(''rights'', %L)', :'h')),
	('delete_batch', format('SELECT FROM sqs_delete_batch(''rights'', %L)', jsonb_build_array(jsonb_build_object('Id', 'a', 'ReceiptHandle', :'h')))),
	('delete_many', format('SELECT sqs_delete_many(''rights'', ARRAY[%L])', :'h')),
	('change', format('SELECT sqs_change_visibility(''rights'', %L, 0)', :'h')),
	('change_batch', format('SELECT FROM sqs_change_visibility_batch(''rights'', %L)', jsonb_build_array(jsonb_build_object('Id', 'a', 'ReceiptHandle', :'h', 'VisibilityTimeout', 0)))),
	('change_many', format('SELECT sqs_change_visibility_many(''rights'', ARRAY[%L], 0)', :'h')),
	('attributes', 'SELECT sqs_get_queue_attributes(''rights'')'),
	('purge', 'SELECT sqs_purge_queue(''rights'')'),
	('delete_queue', 'SELECT sqs_delete_queue(''rights'')');
-- each is tried and undone
CREATE FUNCTION allowed(role name, sql text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	BEGIN
		EXECUTE format('SET LOCAL ROLE %I', role);
		EXECUTE sql;
		RAISE EXCEPTION USING errcode = 'XXUND';
	EXCEPTION
		WHEN sqlstate 'XXUND' THEN RETURN '+';
		WHEN insufficient_privilege THEN RETURN '';
		WHEN OTHERS THEN RETURN sqlstate;
	END;
END
$$;
SELECT what, allowed('regress_sqs_owner', sql) AS owner, allowed('regress_sqs_sender', sql) AS sender,
	allowed('regress_sqs_receiver', sql) AS receiver, allowed('regress_sqs_deleter', sql) AS deleter,
	allowed('regress_sqs_changer', sql) AS changer, allowed('regress_sqs_looker', sql) AS looker,
	allowed('regress_sqs_member', sql) AS member, allowed('regress_sqs_nobody', sql) AS nobody
FROM call ORDER BY n;
-- the error
SET ROLE regress_sqs_nobody;
SELECT try($$ SELECT FROM sqs_send('rights', 'x') $$);
SELECT try($$ SELECT sqs_delete('rights', 'no handle at all') $$);
SELECT try($$ SELECT sqs_purge_queue('rights') $$);
-- a sender cannot read what it sent
RESET ROLE;
SELECT queue_table('rights') AS rights \gset
SET ROLE regress_sqs_sender;
SELECT (sqs_send('rights', 'secret')).md5_of_message_body;
SELECT left(try('SELECT body FROM ' || :'rights'), 5);
SELECT left(try($$ UPDATE sqs.queue SET name = 'mine' $$), 5), left(try($$ INSERT INTO sqs.queue (name) VALUES ('mine') $$), 5),
	left(try($$ DELETE FROM sqs.queue $$), 5);
RESET ROLE;

-- rights granted by hand count the same; one that is taken away ends at once
GRANT INSERT ON :rights TO regress_sqs_nobody;
SELECT allowed('regress_sqs_nobody', sql) FROM call WHERE what = 'send';
REVOKE INSERT ON :rights FROM regress_sqs_nobody;
SELECT allowed('regress_sqs_nobody', sql) FROM call WHERE what = 'send';
SELECT sqs_remove_permission('rights', 'send');
SELECT allowed('regress_sqs_sender', sql) FROM call WHERE what = 'send';
GRANT ALL ON :rights TO regress_sqs_nobody;
SELECT what, allowed('regress_sqs_nobody', sql) FROM call ORDER BY n;
-- the owner may lose rights too; a new owner has them
REVOKE ALL ON :rights FROM regress_sqs_owner;
SELECT allowed('regress_sqs_owner', sql) FROM call WHERE what = 'receive';
ALTER TABLE :rights OWNER TO regress_sqs_looker;
SELECT allowed('regress_sqs_looker', sql), allowed('regress_sqs_owner', sql) FROM call WHERE what = 'purge';

-- a SECURITY DEFINER function lends its owner's
CREATE FUNCTION lend(body text) RETURNS uuid LANGUAGE sql SECURITY DEFINER AS $$ SELECT message_id FROM sqs_send('rights', body) $$;
SET ROLE regress_sqs_receiver;
SELECT lend('lent') IS NOT NULL;
SELECT sender_id = session_user AS sender FROM sqs_receive('rights', 10, 0) WHERE body = 'lent';
RESET ROLE;

SELECT sqs_delete_queue('rights');
DROP FUNCTION allowed(name, text), lend(text);
DROP TABLE call;
REVOKE ALL ON SCHEMA sqs FROM regress_sqs_owner;
DROP ROLE regress_sqs_member, regress_sqs_owner, regress_sqs_sender, regress_sqs_receiver, regress_sqs_deleter,
	regress_sqs_changer, regress_sqs_looker, regress_sqs_nobody;
