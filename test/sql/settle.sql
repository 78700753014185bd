-- Deleting and changing visibility by receipt handle: every state a handle
-- can be in, one by one, in batches and in arrays.
\set ECHO none
\getenv folder PG_ABS_SRCDIR
\set helpers :folder /sql/helpers.psql
\i :helpers
\set ECHO all

-- an error text without the handle in it
CREATE FUNCTION masked(text) RETURNS text LANGUAGE sql AS
	$$ SELECT regexp_replace($1, '[A-Za-z0-9+/]{56}', '<handle>', 'g') $$;
CREATE FUNCTION try_delete(queue_name text, handle text) RETURNS text LANGUAGE sql AS
	$$ SELECT masked(try(format('SELECT sqs_delete(%L, %L)', queue_name, handle))) $$;
CREATE FUNCTION try_hide(queue_name text, handle text, timeout text DEFAULT '1') RETURNS text LANGUAGE sql AS
	$$ SELECT masked(try(format('SELECT sqs_change_visibility(%L, %L, %s)', queue_name, handle, timeout))) $$;

SELECT sqs_create_queue('s');
SELECT sqs_create_queue('other');

--
-- Delete
--

-- in flight: gone; and again: no error, nothing to delete
SELECT FROM sqs_send('s', 'a');
SELECT take('s') AS h \gset
SELECT sqs_delete('s', :'h'), sqs_delete('s', :'h') AS again;
SELECT sqs_delete('s', :'h') AS and_again;
SELECT count(*) FROM sqs_peek('s');
-- visibility expired, not received since
SELECT FROM sqs_send('s', 'a');
SELECT take('s', 10) AS h \gset
CALL let_pass('s', '20 s');
SELECT sqs_delete('s', :'h');
SELECT bodies('s') IS NULL AS gone;
-- received again since: the old handle deletes, the new one then finds nothing
SELECT FROM sqs_send('s', 'a');
SELECT take('s', 0) AS h1 \gset
SELECT take('s', 0) AS h2 \gset
SELECT take('s', 1000) AS h3 \gset
SELECT sqs_delete('s', :'h2'), sqs_delete('s', :'h3'), sqs_delete('s', :'h1');
-- extended, and received with timeout 0
SELECT FROM sqs_send('s', 'a');
SELECT take('s', 0) AS h \gset
SELECT from_now(sqs_change_visibility('s', :'h', 100));
SELECT sqs_delete('s', :'h');
-- past retention: success, nothing deleted
SELECT FROM sqs_send('s', 'a');
SELECT take('s') AS h \gset
CALL let_pass('s', '5 days');
SELECT sqs_delete('s', :'h'), sqs_delete('s', :'h') AS again;
-- purged
SELECT FROM sqs_send('s', 'a');
SELECT take('s') AS h \gset
SELECT sqs_purge_queue('s');
SELECT sqs_delete('s', :'h');
-- undone with its transaction
SELECT FROM sqs_send('s', 'a');
SELECT take('s') AS h \gset
BEGIN;
SELECT sqs_delete('s', :'h');
ROLLBACK;
BEGIN;
SAVEPOINT x;
SELECT sqs_delete('s', :'h');
ROLLBACK TO x;
SELECT sqs_delete('s', :'h'), sqs_delete('s', :'h') AS again;
COMMIT;
-- sent, received and deleted in one transaction
BEGIN;
SELECT FROM sqs_send('s', 'a');
SELECT sqs_delete('s', take('s'));
COMMIT;
SELECT bodies('s') IS NULL AS gone;
-- a handle of a receive rolled back still names the message
SELECT FROM sqs_send('s', 'a');
BEGIN;
SELECT take('s') AS h \gset
ROLLBACK;
SELECT sqs_delete('s', :'h');

--
-- Change visibility
--

-- in flight: from now, not from the receive; again and again; not remembered
SELECT FROM sqs_send('s', 'a');
SELECT take('s', 10) AS h \gset
SELECT from_now(sqs_change_visibility('s', :'h', 100));
CALL let_pass('s', '50 s');
SELECT from_now(sqs_change_visibility('s', :'h', 100));
SELECT from_now(sqs_change_visibility('s', :'h', t)) FROM unnest('{1, 43199, 0}'::int[]) t;
-- 0: visible at once; count and first receive stay
SELECT body, receive_count, from_now(first_received_at), from_now(visible_at) FROM sqs_receive('s');
-- message deleted
SELECT FROM sqs_send('s', 'b');
SELECT take('s') AS h2 \gset
SELECT sqs_delete('s', :'h2');
SELECT try_hide('s', :'h2');
SELECT try_hide('s', :'h2', '0');
-- expired, not received again: hidden again
CALL let_pass('s', '100 s');
SELECT from_now(sqs_change_visibility('s', :'h', 100));
SELECT bodies('s') IS NULL AS hidden;
-- an older handle, message received again: changes the current state
CALL let_pass('s', '100 s');
SELECT take('s', 1000) AS h2 \gset
SELECT bodies('s') IS NULL AS hidden;
SELECT from_now(sqs_change_visibility('s', :'h', 0));
SELECT bodies('s') AS exposed;
-- received with timeout 0
SELECT FROM sqs_send('s', 'zero');
SELECT take('s', 0) AS h \gset
SELECT from_now(sqs_change_visibility('s', :'h', 100));
SELECT bodies('s') IS NULL AS hidden;
-- never more than 12 hours from the receive
SELECT try_hide('s', :'h', '43199');
SELECT try_hide('s', :'h', '43200');
SELECT from_now(visible_at) FROM sqs_receive('s', 1, 0);
SELECT sqs_purge_queue('s');
SELECT try_hide('s', :'h', '43199') AS purged;
SELECT try_hide('s', :'h', '43200') AS purged_too;
-- past retention
SELECT FROM sqs_send('s', 'a');
SELECT take('s') AS h \gset
CALL let_pass('s', '5 days');
SELECT try_hide('s', :'h');
SELECT sqs_purge_queue('s');
-- range, NULL
SELECT FROM sqs_send('s', 'a');
SELECT take('s') AS h \gset
SELECT try_hide('s', :'h', t) FROM unnest('{-2147483648, -1, 43201, 2147483647}'::text[]) t;
SELECT try_hide('s', :'h', 'NULL');
-- undone with its savepoint
BEGIN;
SAVEPOINT x;
SELECT from_now(sqs_change_visibility('s', :'h', 0));
SELECT bodies('s', 10, 0);
ROLLBACK TO x;
SELECT bodies('s') IS NULL AS hidden_again;
COMMIT;
SELECT sqs_purge_queue('s');

--
-- Handles that are none
--
SELECT FROM sqs_send('s', 'mine');
SELECT FROM sqs_send('other', 'theirs');
SELECT take('s') AS h \gset
SELECT take('other') AS foreign \gset
SELECT try_delete('s', :'foreign');
SELECT try_hide('s', :'foreign');
SELECT try_delete('s', NULL), try_hide('s', NULL);
SELECT try_delete('s', '');
SELECT try_delete('s', 'garbage');
SELECT try_hide('s', 'garbage');
SELECT try_delete('s', handle) FROM unnest(ARRAY[
	' ' || :'h', :'h' || ' ', :'h' || E'\n', lower(:'h'), reverse(:'h'), :'h' || :'h', '''', 'ü', E'\t',
	repeat('=', 56), repeat('A', 56), repeat('/', 56)]) handle;
-- cut anywhere
SELECT count(*), count(*) FILTER (WHERE try_delete('s', left(:'h', n)) LIKE 'SQ012:%') AS invalid
FROM generate_series(0, length(:'h') - 1) n;
-- one character changed anywhere
SELECT count(*), count(*) FILTER (WHERE try_delete('s', overlay(:'h' PLACING c FROM n FOR 1)) LIKE 'SQ012:%') AS invalid
FROM generate_series(1, length(:'h')) n,
	LATERAL (SELECT CASE WHEN substr(:'h', n, 1) = 'A' THEN 'B' ELSE 'A' END AS c) x;
-- huge
SELECT left(t, 50), length(t) FROM try_delete('s', repeat('xyz%', 2500000)) t;
SELECT left(try_hide('s', repeat(:'h', 100000)), 50);
-- none of it lost the message
SELECT sqs_delete('s', :'h'), sqs_delete('other', :'foreign');
-- of a queue that was deleted and made again, with ids that come again
SELECT FROM sqs_send('other', 'old');
SELECT take('other') AS h \gset
SELECT sqs_delete_queue('other');
SELECT try_delete('other', :'h');
SELECT sqs_create_queue('other');
SELECT FROM sqs_send('other', 'new');
SELECT try_delete('other', :'h');
SELECT bodies('other', 10, 0);
-- the same, and the queue's number comes again, too
SELECT take('other', 0) AS h \gset
SELECT id AS number FROM sqs.queue WHERE name = 'other' \gset
SELECT sqs_delete_queue('other');
SELECT setval('sqs.queue_id_seq', :number, false) = :number AS again;
SELECT sqs_create_queue('other');
SELECT FROM sqs_send('other', 'newest');
SELECT try_delete('other', :'h');
SELECT try_hide('other', :'h');
SELECT bodies('other', 10, 0);
SELECT sqs_delete_queue('other');
-- queues that are none
SELECT try_delete(NULL, 'x');
SELECT try_delete('nowhere', 'x');
SELECT try_hide(NULL, 'x');
SELECT try_hide('nowhere', NULL, 'NULL');

--
-- Arrays: all or nothing
--
SET pg_sqs.max_batch_size = 100;
SELECT count(*) FROM sqs_send_many('s', ARRAY(SELECT 'm' || i FROM generate_series(1, 50) i));
SELECT array_agg(receipt_handle ORDER BY random()) AS hs FROM sqs_receive('s', 100) \gset
SELECT sqs_change_visibility_many('s', :'hs', 0);
SELECT count(*) FROM sqs_receive('s', 100, 0);
SELECT sqs_change_visibility_many('s', :'hs', 1000);
SELECT count(*) FROM sqs_receive('s', 100);
SELECT sqs_delete('s', (:'hs'::text[])[7]);
-- a message that is gone is not counted; one that is named twice was there once
SELECT sqs_change_visibility_many('s', :'hs', 100);
SELECT sqs_delete_many('s', (:'hs'::text[])[1:3] || (:'hs'::text[])[1:3]);
SELECT sqs_change_visibility_many('s', (:'hs'::text[])[1:10] || (:'hs'::text[])[5:10], 100);
SELECT sqs_delete_many('s', '{}'), sqs_change_visibility_many('s', '{}', 0);
-- one that is no handle spoils the call
SELECT masked(try(format('SELECT sqs_delete_many(''s'', %L)', :'hs'::text[] || '{garbage}'::text[])));
SELECT masked(try(format('SELECT sqs_delete_many(''s'', %L)', :'hs'::text[] || '{NULL}'::text[])));
SELECT masked(try(format('SELECT sqs_change_visibility_many(''s'', %L, 0)', '{""}'::text[] || :'hs'::text[])));
SELECT masked(try(format('SELECT sqs_change_visibility_many(''s'', %L, %s)', :'hs'::text[], t)))
FROM unnest('{-1, 43200, 43201}'::int[]) t;
SELECT masked(try($$ SELECT sqs_delete_many('s', NULL) $$));
SELECT masked(try($$ SELECT sqs_change_visibility_many('s', NULL, 1) $$));
SELECT masked(try($$ SELECT sqs_change_visibility_many('s', '{}', NULL) $$));
SELECT try($$ SELECT sqs_delete_many(NULL, '{}') $$);
SELECT try($$ SELECT sqs_delete_many('nowhere', '{}') $$);
SELECT count(*) FROM sqs_receive('s', 100);
-- several dimensions and bounds are of no matter
SELECT sqs_delete_many('s', ARRAY[(:'hs'::text[])[4:5], (:'hs'::text[])[6:7]]);
SELECT sqs_delete_many('s', ('[5:6]=' || (:'hs'::text[])[8:9]::text)::text[]);
SELECT sqs_delete_many('s', :'hs');
SELECT count(*) FROM sqs_peek('s', 100);
RESET pg_sqs.max_batch_size;

--
-- Batches: each entry for itself
--
CREATE FUNCTION batch(VARIADIC handles text[]) RETURNS jsonb LANGUAGE sql AS
	$$ SELECT jsonb_agg(jsonb_build_object('Id', 'e' || n, 'ReceiptHandle', h)) FROM unnest(handles) WITH ORDINALITY x(h, n) $$;
CREATE FUNCTION hide_batch(timeout jsonb, VARIADIC handles text[]) RETURNS jsonb LANGUAGE sql AS
	$$ SELECT jsonb_agg(e || jsonb_build_object('VisibilityTimeout', timeout)) FROM jsonb_array_elements(batch(VARIADIC handles)) e $$;
SELECT sqs_create_queue('other');
SELECT FROM sqs_send('other', 'theirs');
SELECT take('other') AS foreign \gset
SELECT count(*) FROM sqs_send_many('s', '{a, b, c, d}');
SELECT array_agg(receipt_handle ORDER BY body) AS hs FROM sqs_receive('s', 4) \gset
SELECT sqs_delete('s', (:'hs'::text[])[4]);
SELECT id, error_code, masked(error_message) FROM sqs_change_visibility_batch('s',
	hide_batch('0', (:'hs'::text[])[2], 'garbage', (:'hs'::text[])[1], (:'hs'::text[])[4], :'foreign', NULL, (:'hs'::text[])[1]));
SELECT body FROM sqs_receive('s', 10) ORDER BY 1;
SELECT id, error_code, masked(error_message)
FROM unnest('{-1, 0, 43199, 43200, 43201}'::int[]) t, sqs_change_visibility_batch('s', hide_batch(to_jsonb(t), (:'hs'::text[])[1]));
SELECT id, error_code, masked(error_message)
FROM unnest(ARRAY['null', '"12"', '"x"', '1.5', 'true', '99999999999', '[]']::jsonb[]) t, sqs_change_visibility_batch('s', hide_batch(t, (:'hs'::text[])[1]));
SELECT id, error_code, masked(error_message) FROM sqs_change_visibility_batch('s', batch((:'hs'::text[])[1]));
SELECT id, error_code, masked(error_message), num_nulls(message_id, sequence_number, md5_of_message_body, md5_of_message_attributes)
FROM sqs_delete_batch('s', batch((:'hs'::text[])[3], 'garbage', (:'hs'::text[])[1], (:'hs'::text[])[4], :'foreign', NULL, (:'hs'::text[])[3]));
SELECT body FROM sqs_consume('s', 10);
SELECT count(*) AS b_is_left FROM sqs_receive('s', 10, 0);
SELECT sqs_change_visibility('s', (:'hs'::text[])[2], 0) IS NOT NULL AS b_is_left;
SELECT bodies('s');
SELECT masked(try($$ SELECT sqs_delete_batch('s', '[]') $$));
SELECT masked(try($$ SELECT sqs_delete_batch('s', NULL) $$));
SELECT masked(try($$ SELECT sqs_change_visibility_batch('s', '[]') $$));
SELECT masked(try($$ SELECT sqs_change_visibility_batch('s', NULL) $$));
SELECT masked(try(format('SELECT sqs_delete_batch(''s'', %L)', batch(VARIADIC array_fill('x'::text, '{11}')))));
SELECT masked(try($$ SELECT sqs_delete_batch('s', '[{"Id": "a", "ReceiptHandle": "x"}, {"Id": "a", "ReceiptHandle": "y"}]') $$));
SELECT masked(try($$ SELECT sqs_delete_batch('s', '[{"Id": "a b", "ReceiptHandle": "x"}]') $$));
SELECT masked(try($$ SELECT sqs_delete_batch(NULL, '[]') $$));
SELECT masked(try($$ SELECT sqs_delete_batch('nowhere', '[]') $$));
SELECT sqs_delete_queue('s');
SELECT sqs_delete_queue('other');
DROP FUNCTION masked(text), try_delete(text, text), try_hide(text, text, text), batch(text[]), hide_batch(jsonb, text[]);
