-- sqs_add_permission, sqs_remove_permission, sqs_list_permissions

\getenv folder PG_ABS_SRCDIR
\set helpers :folder /sql/helpers.psql
\set ECHO none
\i :helpers
\set ECHO all

-- who has what on a queue's table, beside its owner
CREATE FUNCTION grants(queue_name text) RETURNS TABLE (grantee text, privileges text) LANGUAGE sql AS $$
	SELECT coalesce(r.rolname, 'public'), string_agg(a.privilege_type, ',' ORDER BY a.privilege_type)
	FROM pg_class c, aclexplode(c.relacl) a LEFT JOIN pg_roles r ON r.oid = a.grantee
	WHERE c.oid = queue_table(queue_name) AND a.grantee <> c.relowner GROUP BY 1 ORDER BY 1 $$;

CREATE ROLE regress_ann;
CREATE ROLE regress_bob;
CREATE ROLE "regress Ce""c";
SELECT sqs_create_queue('q');

-- each action is a privilege
DO $$
DECLARE
	action text;
BEGIN
	FOREACH action IN ARRAY '{SendMessage,ReceiveMessage,DeleteMessage,ChangeMessageVisibility,GetQueueAttributes,GetQueueUrl,ListDeadLetterSourceQueues}'::text[] LOOP
		PERFORM sqs_add_permission('q', 'one', '{regress_ann}', ARRAY[action]);
		RAISE INFO '% = %', action, (SELECT privileges FROM grants('q'));
		PERFORM sqs_remove_permission('q', 'one');
	END LOOP;
END $$;
SELECT sqs_add_permission('q', 'all', '{regress_ann}', '{*}');
SELECT * FROM grants('q');
SELECT sqs_remove_permission(queue_name => 'q', label => 'all');
SELECT * FROM grants('q');
SELECT * FROM sqs_list_permissions('q');

-- several roles, actions and labels; a privilege stays while a label grants it
SELECT sqs_add_permission(queue_name => 'q', label => 'consumers', roles => ARRAY['regress_ann', 'regress Ce"c', 'regress_ann'], actions => ARRAY['ReceiveMessage', 'DeleteMessage', 'ReceiveMessage']);
SELECT sqs_add_permission('q', 'movers', '{regress_ann,regress_bob}', '{ChangeMessageVisibility,SendMessage}');
SELECT sqs_add_permission('q', 'a-Z_9', '{public}', '{SendMessage}');
SELECT * FROM sqs_list_permissions('q');
SELECT * FROM grants('q');
SELECT sqs_remove_permission('q', 'consumers');
SELECT * FROM sqs_list_permissions(queue_name => 'q');
SELECT * FROM grants('q');
SELECT sqs_remove_permission('q', 'movers'), sqs_remove_permission('q', 'a-Z_9');
SELECT * FROM grants('q');

-- a send-only role cannot read, a receiver cannot delete
SELECT sqs_add_permission('q', 'send', '{regress_ann}', '{SendMessage}'), sqs_add_permission('q', 'receive', '{regress_bob}', '{ReceiveMessage}');
SET ROLE regress_ann;
SELECT (sqs_send('q', 'secret')).message_id IS NOT NULL;
SELECT try($$SELECT * FROM sqs_receive('q')$$);
SELECT try($$SELECT * FROM sqs_peek('q')$$);
SELECT try($$SELECT * FROM sqs_list_permissions('q')$$);
SET ROLE regress_bob;
SELECT try($$SELECT sqs_send('q', 'x')$$);
SELECT body FROM sqs_receive('q', visibility_timeout => 0);
SELECT try($$SELECT sqs_delete('q', (SELECT receipt_handle FROM sqs_receive('q')))$$);
SELECT * FROM sqs_list_permissions('q');
RESET ROLE;
SELECT sqs_remove_permission('q', 'send');
SET ROLE regress_ann;
SELECT try($$SELECT sqs_send('q', 'x')$$);
RESET ROLE;
SELECT sqs_remove_permission('q', 'receive');

-- labels
SELECT sqs_add_permission('q', 'l', '{regress_ann}', '{SendMessage}');
SELECT try($$SELECT sqs_add_permission('q', 'l', '{regress_bob}', '{SendMessage}')$$);
SELECT try($$SELECT sqs_remove_permission('q', 'other')$$);
SELECT try($$SELECT sqs_remove_permission('q', 'L')$$);
SELECT try($$SELECT sqs_add_permission('q', NULL, '{regress_bob}', '{SendMessage}')$$);
SELECT try($$SELECT sqs_add_permission('q', '', '{regress_bob}', '{SendMessage}')$$);
SELECT try($$SELECT sqs_add_permission('q', 'a b', '{regress_bob}', '{SendMessage}')$$);
SELECT try($$SELECT sqs_add_permission('q', 'größe', '{regress_bob}', '{SendMessage}')$$);
SELECT try($$SELECT sqs_add_permission('q', repeat('l', 81), '{regress_bob}', '{SendMessage}')$$);
SELECT try($$SELECT sqs_add_permission('q', repeat('l', 80), '{regress_bob}', '{SendMessage}')$$);
SELECT try($$SELECT sqs_remove_permission('q', repeat('l', 80))$$);
SELECT try($$SELECT sqs_remove_permission('q', NULL)$$);
SELECT try($$SELECT sqs_remove_permission('q', '')$$);

-- actions
SELECT try($$SELECT sqs_add_permission('q', 'm', '{regress_bob}', '{PurgeQueue}')$$);
SELECT try($$SELECT sqs_add_permission('q', 'm', '{regress_bob}', '{SendMessage,DeleteQueue}')$$);
SELECT try($$SELECT sqs_add_permission('q', 'm', '{regress_bob}', '{sendmessage}')$$);
SELECT try($$SELECT sqs_add_permission('q', 'm', '{regress_bob}', '{""}')$$);
SELECT try($$SELECT sqs_add_permission('q', 'm', '{regress_bob}', '{NULL}')$$);
SELECT try($$SELECT sqs_add_permission('q', 'm', '{regress_bob}', '{}')$$);
SELECT try($$SELECT sqs_add_permission('q', 'm', '{regress_bob}', NULL)$$);
SELECT try($$SELECT sqs_add_permission('q', 'm', '{regress_bob}', '{SendMessage,ReceiveMessage,DeleteMessage,ChangeMessageVisibility,GetQueueAttributes,GetQueueUrl,ListDeadLetterSourceQueues,*}')$$);
SELECT try($$SELECT sqs_add_permission('q', 'm', '{regress_bob}', '{SendMessage,ReceiveMessage,DeleteMessage,ChangeMessageVisibility,GetQueueAttributes,GetQueueUrl,ListDeadLetterSourceQueues}')$$);

-- roles
SELECT try($$SELECT sqs_add_permission('q', 'n', '{regress_nobody}', '{SendMessage}')$$);
SELECT try($$SELECT sqs_add_permission('q', 'n', '{regress_bob,regress_nobody}', '{SendMessage}')$$);
SELECT try($$SELECT sqs_add_permission('q', 'n', '{PUBLIC}', '{SendMessage}')$$);
SELECT try($$SELECT sqs_add_permission('q', 'n', '{"regress_bob; DROP TABLE sqs.queue"}', '{SendMessage}')$$);
SELECT try($$SELECT sqs_add_permission('q', 'n', '{""}', '{SendMessage}')$$);
SELECT try($$SELECT sqs_add_permission('q', 'n', '{NULL}', '{SendMessage}')$$);
SELECT try($$SELECT sqs_add_permission('q', 'n', '{}', '{SendMessage}')$$);
SELECT try($$SELECT sqs_add_permission('q', 'n', NULL, '{SendMessage}')$$);
SELECT try($$SELECT sqs_add_permission('q', 'n', ARRAY[repeat('r', 1000)], '{SendMessage}')$$);

-- queues
SELECT try($$SELECT sqs_add_permission(NULL, 'n', '{regress_bob}', '{SendMessage}')$$);
SELECT try($$SELECT sqs_add_permission('not-there', 'n', '{regress_bob}', '{SendMessage}')$$);
SELECT try($$SELECT sqs_remove_permission('not-there', 'n')$$);
SELECT try($$SELECT sqs_remove_permission(NULL, 'n')$$);
SELECT try($$SELECT * FROM sqs_list_permissions('not-there')$$);
SELECT try($$SELECT * FROM sqs_list_permissions(NULL)$$);
SELECT * FROM sqs_list_permissions('q');

-- rolled back with its GRANT
SELECT sqs_remove_permission('q', 'm');
BEGIN;
SELECT sqs_add_permission('q', 'rolled-back', '{regress_bob}', '{SendMessage}'), sqs_remove_permission('q', 'l');
ROLLBACK;
SELECT * FROM sqs_list_permissions('q');
SELECT * FROM grants('q');
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT sqs_add_permission('q', 'ser', '{regress_bob,public}', '{SendMessage,*}');
SELECT * FROM sqs_list_permissions('q');
SELECT sqs_remove_permission('q', 'ser');
COMMIT;
SELECT * FROM sqs_list_permissions('q');
BEGIN READ ONLY;
SELECT try($$SELECT sqs_add_permission('q', 'ro', '{regress_bob}', '{SendMessage}')$$);
SELECT try($$SELECT sqs_remove_permission('q', 'l')$$);
SELECT * FROM sqs_list_permissions('q');
COMMIT;

-- a role renamed, a role dropped, a privilege revoked by hand
SELECT sqs_add_permission('q', 'b', '{regress_bob,regress_ann}', '{ReceiveMessage}');
ALTER ROLE regress_bob RENAME TO "regress_bob II";
CREATE ROLE regress_bob;
SELECT * FROM sqs_list_permissions('q');
DROP OWNED BY regress_ann;
DROP ROLE regress_ann;
SELECT * FROM sqs_list_permissions('q');
CREATE ROLE regress_ann;
SELECT * FROM sqs_list_permissions('q');
SELECT sqs_add_permission('q', 'l', '{regress_ann}', '{SendMessage}');
DO $$ BEGIN EXECUTE format('REVOKE UPDATE ON %s FROM "regress_bob II"', queue_table('q')); END $$;
SELECT * FROM sqs_list_permissions('q');
SELECT try($$SELECT sqs_remove_permission('q', 'b')$$);
SELECT sqs_add_permission('q', 'b', '{"regress_bob II"}', '{ReceiveMessage}');
SELECT sqs_remove_permission('q', 'b');
SELECT * FROM grants('q');

-- the owner keeps what is the owner's
SELECT sqs_add_permission('q', 'self', ARRAY[current_user], '{*}');
SELECT label, role = current_user AS self, action FROM sqs_list_permissions('q');
SELECT sqs_remove_permission('q', 'self');
SELECT string_agg(privilege_type, ',' ORDER BY privilege_type) FROM pg_class c, aclexplode(c.relacl) a WHERE c.oid = queue_table('q') AND a.grantee = c.relowner AND privilege_type IN ('DELETE', 'INSERT', 'SELECT', 'UPDATE');

-- only the owner grants; a new owner, and members of its role, do as well
SELECT sqs_add_permission('q', 'all', '{regress_ann}', '{*}');
SET ROLE regress_ann;
SELECT try($$SELECT sqs_add_permission('q', 'x', '{regress_bob}', '{SendMessage}')$$);
SELECT try($$SELECT sqs_remove_permission('q', 'all')$$);
RESET ROLE;
DO $$ BEGIN EXECUTE format('ALTER TABLE %s OWNER TO regress_bob', queue_table('q')); END $$;
GRANT regress_bob TO regress_ann;
SET ROLE regress_ann;
SELECT sqs_add_permission('q', 'x', '{public}', '{SendMessage}');
SELECT * FROM sqs_list_permissions('q');
SELECT sqs_remove_permission('q', 'all');
RESET ROLE;
SELECT * FROM grants('q');

-- deleted with the queue; the same name starts anew
SELECT sqs_delete_queue('q');
SELECT count(*) FROM sqs.permission;
SELECT sqs_create_queue('q');
SELECT * FROM sqs_list_permissions('q');
SELECT sqs_delete_queue('q');
DROP ROLE regress_ann, regress_bob, "regress_bob II", "regress Ce""c";
DROP FUNCTION grants;
