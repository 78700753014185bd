-- A queue's table: bodies come back byte for byte, a receive does not rewrite
-- them, and whatever a person may do to a table leaves its messages sound.
\set ECHO none
\getenv folder PG_ABS_SRCDIR
\set helpers :folder /sql/helpers.psql
\i :helpers
\set ECHO all

SELECT sqs_create_queue('st');
SELECT queue_table('st') AS st \gset

--
-- Bodies
--
CREATE TEMP TABLE body (n serial, b text);
INSERT INTO body (b) VALUES
	('{"a":"\u0000"}'), ('{"a":1,"a":2}'), ('  {"b" :  [ 1,2 ] }  '), (' '), (E'\t\r\n\n\r'), ('\x00'), ('NULL'), ('""'),
	(E'\uD83D\uDE00 \u00E4 \uFFFD'), ('<a href="&amp;">''</a>'), ('%s %n %%'), (repeat('x', 126)), (repeat('x', 127)),
	(repeat('x', 2000)), (repeat('abc', 5000)), (repeat('x', 1048576)),
	((SELECT string_agg(md5(i::text), '') FROM generate_series(1, 20000) i)),
	((SELECT string_agg(chr(19968 + i % 20000), '') FROM generate_series(1, 100000) i));
CREATE FUNCTION same_bodies(queue_name text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	b text;
	sent sqs_sent;
	m sqs_message;
	same int := 0;
BEGIN
	FOR b IN SELECT body.b FROM body ORDER BY n LOOP
		sent := sqs_send(queue_name, b);
		SELECT * INTO m FROM sqs_consume(queue_name);
		same := same + (m.body = b AND m.message_id = sent.message_id AND md5(m.body) = sent.md5_of_message_body)::int;
	END LOOP;
	RETURN same;
END
$$;
SELECT same_bodies('st');
SELECT count(*) FROM sqs_send_many('st', ARRAY(SELECT b FROM body ORDER BY n));
SET pg_sqs.max_batch_size = 100;
SELECT count(*), count(*) FILTER (WHERE m.body = b.b)
FROM sqs_receive('st', 100, 0) WITH ORDINALITY m LEFT JOIN body b ON n = m.ordinality;
-- attributes of some size as well
SELECT count(*) FROM generate_series(1, 3), sqs_send('st', 'big attribute',
	message_attributes => jsonb_build_object('k', (SELECT string_agg(md5(i::text), '') FROM generate_series(1, 5000) i)));
SELECT length(message_attributes #>> '{k,StringValue}'), receive_count FROM sqs_receive('st', 100, 0) WHERE body = 'big attribute';
RESET pg_sqs.max_batch_size;
SELECT sqs_purge_queue('st');

--
-- A receive, a change of visibility and a move write no body again
--
SELECT reltoastrelid::regclass AS st_toast FROM pg_class WHERE oid = queue_table('st') \gset
SELECT FROM sqs_send('st', (SELECT string_agg(md5(i::text), '') FROM generate_series(1, 30000) i));
CREATE TEMP TABLE toast AS SELECT ctid AS at, chunk_id, chunk_seq FROM :st_toast;
SELECT count(*) > 400 AS chunks FROM toast;
SELECT pg_current_wal_insert_lsn() AS lsn \gset
SELECT take('st', 0) AS h \gset
SELECT FROM sqs_receive('st', 1, 100);
SELECT from_now(sqs_change_visibility('st', :'h', 0));
BEGIN;
SELECT FROM sqs_receive('st', 1, 100);
ROLLBACK;
SELECT pg_current_wal_insert_lsn() - :'lsn'::pg_lsn < 100000 AS little_wal;
SELECT count(*) AS chunks_changed
FROM toast FULL JOIN (SELECT ctid AS at, chunk_id, chunk_seq FROM :st_toast) now USING (at, chunk_id, chunk_seq)
WHERE toast.at IS NULL OR now.at IS NULL;
SELECT md5(body) = md5((SELECT string_agg(md5(i::text), '') FROM generate_series(1, 30000) i)) AS same,
	receive_count >= 3 AS counted FROM sqs_receive('st', 1, 0);
DROP TABLE toast;
-- the move keeps the body whole, and takes the old one away
SELECT sqs_create_queue('st_dlq');
SELECT sqs_set_queue_attributes('st', '{"RedrivePolicy": {"deadLetterTargetArn": "st_dlq", "maxReceiveCount": 1}}');
SELECT bodies('st') IS NULL AS moved;
VACUUM :st;
SELECT count(*) AS chunks FROM :st_toast;
-- (a worker counts the receive that was rolled back, sooner or later)
SELECT length(body), receive_count >= 4 AS counted FROM sqs_consume('st_dlq');
SELECT sqs_set_queue_attributes('st', '{"RedrivePolicy": ""}');
-- sent and deleted by the transaction that reads it
BEGIN;
SELECT FROM sqs_send('st', (SELECT string_agg(md5(i::text), '') FROM generate_series(1, 30000) i));
SELECT length(body) FROM sqs_consume('st');
COMMIT;

--
-- The table is rewritten: old handles still find their messages
--
SELECT count(*) FROM sqs_send_many('st', ARRAY(SELECT 'm' || i FROM generate_series(1, 300) i));
SET pg_sqs.max_batch_size = 1000;
CREATE TEMP TABLE handle AS SELECT body, receipt_handle AS h FROM sqs_receive('st', 1000, 1000);
SELECT sqs_delete_many('st', ARRAY(SELECT h FROM handle WHERE body LIKE '%1%'));
VACUUM FULL :st;
SELECT count(*) FILTER (WHERE sqs_delete('st', h)) FROM handle WHERE body ~ '^m\d?2$';
DO $$ BEGIN
	EXECUTE format('CLUSTER %s USING %I', queue_table('st'),
		(SELECT relname FROM pg_index JOIN pg_class c ON c.oid = indexrelid WHERE indrelid = queue_table('st') AND NOT indisprimary));
END $$;
SELECT count(*) FILTER (WHERE sqs_change_visibility('st', h, 500) IS NOT NULL) FROM handle WHERE body ~ '^m[2-9]?3$';
SELECT count(*) FILTER (WHERE sqs_delete('st', h)) FROM handle WHERE body ~ '^m[2-9]?3$';
SELECT sqs_delete_many('st', array_agg(h)) FROM handle;
SELECT count(*) FROM sqs_peek('st', 1000);
-- rows that now are where others were: no handle takes another's message
SELECT count(*) FROM sqs_send_many('st', ARRAY(SELECT 'n' || i FROM generate_series(1, 300) i));
SELECT sqs_delete_many('st', array_agg(h)) FROM handle;
SELECT count(*) FROM sqs_consume('st', 1000);
DROP TABLE handle;
RESET pg_sqs.max_batch_size;
-- within the transaction that does it
BEGIN;
SELECT FROM sqs_send('st', 'a');
SELECT take('st', 0) AS h \gset
DO $$ BEGIN EXECUTE format('ALTER TABLE %s SET (fillfactor = 50)', queue_table('st')); END $$;
DO $$ BEGIN EXECUTE format('REINDEX TABLE %s', queue_table('st')); END $$;
SELECT bodies('st'), sqs_delete('st', :'h');
COMMIT;

--
-- Indexes
--
CREATE INDEX st_extra ON :st (message_group_id, sent_at);
CREATE INDEX st_partial ON :st (id) WHERE receive_count > 1;
CREATE INDEX st_expression ON :st (lower(body));
SELECT FROM sqs_send('st', 'Extra', message_group_id => 'g');
SELECT count(*) FROM sqs_send_many('st', '{A, B}');
SELECT bodies('st', 10, 0), bodies('st', 10, 0);
SET enable_seqscan = off;
SELECT body FROM :st WHERE lower(body) = 'extra';
SELECT body FROM :st WHERE message_group_id = 'g' AND sent_at < 'infinity';
SELECT count(*) FROM :st WHERE receive_count > 1 AND id > 0;
RESET enable_seqscan;
SELECT sqs_delete('st', take('st')), body FROM sqs_consume('st');
SELECT sqs_purge_queue('st');
-- a unique one is a rule for senders
CREATE UNIQUE INDEX st_unique ON :st (md5(body));
SELECT FROM sqs_send('st', 'once');
SELECT try($$ SELECT FROM sqs_send('st', 'once') $$);
SELECT try($$ SELECT FROM sqs_send_many('st', '{twice, twice}') $$);
SELECT bodies('st', 10, 0), bodies('st', 10, 0);
DROP INDEX sqs.st_extra, sqs.st_partial, sqs.st_expression, sqs.st_unique;
SELECT bodies('st', 10, 0);
SELECT sqs_purge_queue('st');
-- ours is gone: an error that says what to do; made again, by any name, all is well
SELECT FROM sqs_send('st', 'kept');
SELECT take('st', 0) AS h \gset
CREATE FUNCTION try_st(sql text) RETURNS text LANGUAGE sql AS $$ SELECT regexp_replace(try(sql), 'queue_\d+', 'queue_N', 'g') $$;
DO $$ BEGIN
	EXECUTE (SELECT format('DROP INDEX %s', indexrelid::regclass) FROM pg_index WHERE indrelid = queue_table('st') AND NOT indisprimary);
END $$;
SELECT try_st($$ SELECT FROM sqs_receive('st') $$);
SELECT try_st($$ SELECT FROM sqs_send('st', 'x') $$);
SELECT try_st($$ SELECT sqs_delete('st', 'x') $$);
CREATE INDEX any_name ON :st (visible_at, id);
SELECT bodies('st', 10, 0);
-- one of another shape will not do
DROP INDEX sqs.any_name;
CREATE INDEX any_name ON :st (visible_at DESC, id);
SELECT left(try_st($$ SELECT FROM sqs_receive('st') $$), 50);
CREATE INDEX one_more ON :st (visible_at, id) WHERE id > 0;
SELECT left(try_st($$ SELECT FROM sqs_receive('st') $$), 50);
CREATE INDEX another ON :st (visible_at, id);
SELECT bodies('st', 10, 0), sqs_delete('st', :'h');
DROP INDEX sqs.any_name, sqs.one_more;
SELECT bodies('st') IS NULL AS gone;

--
-- Triggers
--
CREATE TEMP TABLE seen (what text, body text, receive_count int, role name DEFAULT current_user);
CREATE FUNCTION st_note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF TG_OP = 'DELETE' THEN
		INSERT INTO seen VALUES (TG_WHEN || ' ' || TG_OP, OLD.body, OLD.receive_count);
		RETURN OLD;
	END IF;
	INSERT INTO seen VALUES (TG_WHEN || ' ' || TG_OP, NEW.body, NEW.receive_count);
	RETURN NEW;
END
$$;
CREATE TRIGGER note_before BEFORE INSERT OR UPDATE OR DELETE ON :st FOR EACH ROW EXECUTE FUNCTION st_note();
CREATE TRIGGER note_after AFTER INSERT OR UPDATE OR DELETE ON :st FOR EACH ROW EXECUTE FUNCTION st_note();
SELECT FROM sqs_send('st', 't1');
SELECT count(*) FROM sqs_send_many('st', '{t2, t3}');
SELECT take('st', 0) AS h \gset
SELECT from_now(sqs_change_visibility('st', :'h', 100));
SELECT sqs_delete('st', :'h'), sqs_delete('st', :'h') AS again;
SELECT body FROM sqs_consume('st', 10);
SELECT what, body, receive_count, role = current_user AS by_caller FROM seen ORDER BY body, receive_count, ctid;
-- for each statement, which each message is; and for some columns
TRUNCATE seen;
DROP TRIGGER note_before ON :st;
DROP TRIGGER note_after ON :st;
CREATE FUNCTION st_count() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO seen VALUES (concat_ws(' ', TG_WHEN, TG_OP, TG_LEVEL));
	RETURN NULL;
END
$$;
CREATE TRIGGER count_before BEFORE INSERT OR UPDATE OR DELETE ON :st EXECUTE FUNCTION st_count();
CREATE TRIGGER count_after AFTER INSERT OR UPDATE OR DELETE ON :st EXECUTE FUNCTION st_count();
CREATE TRIGGER count_leases AFTER UPDATE OF receive_count ON :st FOR EACH ROW EXECUTE FUNCTION st_count();
CREATE TRIGGER count_bodies AFTER UPDATE OF body ON :st FOR EACH ROW EXECUTE FUNCTION st_count();
SELECT count(*) FROM sqs_send_many('st', '{t2, t3}');
SELECT bodies('st', 2, 0);
SELECT count(*) FROM sqs_consume('st', 1);
SELECT what, count(*) FROM seen GROUP BY what ORDER BY min(ctid);
DROP TRIGGER count_before ON :st;
DROP TRIGGER count_after ON :st;
DROP TRIGGER count_leases ON :st;
DROP TRIGGER count_bodies ON :st;
SELECT sqs_purge_queue('st');
-- it fails: so does the call, and nothing happened
CREATE FUNCTION st_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE 'no % of %', TG_OP, coalesce(NEW.body, OLD.body);
END
$$;
SELECT count(*) FROM sqs_send_many('st', '{t4, t5}');
CREATE TRIGGER refuse AFTER UPDATE ON :st FOR EACH ROW WHEN (NEW.body = 't5') EXECUTE FUNCTION st_refuse();
SELECT try($$ SELECT FROM sqs_receive('st', 2) $$);
SELECT bodies('st', 1, 1000);
SELECT try($$ SELECT FROM sqs_receive('st') $$);
SELECT body FROM sqs_consume('st');
DROP TRIGGER refuse ON :st;
SELECT sqs_purge_queue('st');
TRUNCATE seen;
-- one that is deferred fires with the commit
CREATE CONSTRAINT TRIGGER late AFTER INSERT ON :st DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.body = 'bad') EXECUTE FUNCTION st_refuse();
BEGIN;
SELECT FROM sqs_send('st', 'bad');
SELECT bodies('st');
COMMIT;
SELECT FROM sqs_send('st', 'good');
SELECT body FROM sqs_consume('st', 10);
DROP TRIGGER late ON :st;
-- one that changes the row: later, another body; and one that refuses it
CREATE FUNCTION st_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.body = 'never' THEN RETURN NULL; END IF;
	IF NEW.body = 'urgent' THEN NEW.visible_at := NEW.visible_at - interval '1 h'; END IF;
	NEW.body := upper(NEW.body);
	RETURN NEW;
END
$$;
CREATE TRIGGER change BEFORE INSERT ON :st FOR EACH ROW EXECUTE FUNCTION st_change();
SELECT count(*) FROM sqs_send_many('st', '{slow, never, urgent}');
SELECT bodies('st', 1, 0);
SELECT body, receive_count FROM sqs_consume('st', 10) ORDER BY 1;
DROP TRIGGER change ON :st;
CREATE FUNCTION st_hold() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN CASE WHEN NEW.body <> 'held' THEN NEW END; END $$;
CREATE TRIGGER hold BEFORE UPDATE ON :st FOR EACH ROW EXECUTE FUNCTION st_hold();
SELECT count(*) FROM sqs_send_many('st', '{held, free}');
SELECT bodies('st');
DROP TRIGGER hold ON :st;
SELECT bodies('st');
SELECT sqs_purge_queue('st');
-- each receive passes over such messages once, however many they are
CREATE SEQUENCE st_held;
CREATE OR REPLACE FUNCTION st_hold() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.body <> 'held' THEN RETURN NEW; END IF;
	PERFORM nextval('st_held');
	RETURN NULL;
END
$$;
CREATE TRIGGER hold BEFORE UPDATE ON :st FOR EACH ROW EXECUTE FUNCTION st_hold();
SELECT count(*) FROM sqs_send_many('st', '{held, held, held, held, held, held, one, two, three}');
SELECT body FROM sqs_receive('st');
SELECT body FROM sqs_receive('st');
SELECT body FROM sqs_receive('st');
SELECT last_value FROM st_held;
DROP TRIGGER hold ON :st;
DROP SEQUENCE st_held;
SELECT sqs_purge_queue('st');
-- one that uses the queue itself: each message sent brings another, three times
CREATE FUNCTION st_echo() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF length(NEW.body) < 4 THEN
		PERFORM sqs_send('st', NEW.body || '!');
	END IF;
	RETURN NULL;
END
$$;
CREATE TRIGGER echo AFTER INSERT ON :st FOR EACH ROW EXECUTE FUNCTION st_echo();
SELECT FROM sqs_send('st', 'a');
SELECT bodies('st', 10, 0);
DROP TRIGGER echo ON :st;
-- and one that receives while a receive is going on, and deletes what it returns
CREATE FUNCTION st_greedy() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.body = 'a' THEN
		INSERT INTO seen SELECT 'nested', body, receive_count FROM sqs_receive('st', 2, 0);
	ELSIF NEW.receive_count = 3 THEN
		INSERT INTO seen SELECT 'consumed', body, receive_count FROM sqs_consume('st', 1);
	END IF;
	RETURN NULL;
END
$$;
CREATE TRIGGER greedy AFTER UPDATE ON :st FOR EACH ROW EXECUTE FUNCTION st_greedy();
SELECT bodies('st', 10, 0);
SELECT what, body, receive_count FROM seen;
DROP TRIGGER greedy ON :st;
SELECT body, receive_count FROM sqs_consume('st', 10) ORDER BY 1;
SELECT body FROM sqs_consume('st', 10);
DROP TABLE seen;
SELECT sqs_purge_queue('st');

--
-- TRUNCATE by hand, undone: all that was there is received
--
SELECT sqs_create_queue('cut');
SELECT format('sqs.queue_%s', id) AS cut FROM sqs.queue WHERE name = 'cut' \gset
SELECT count(*) FROM sqs_send_many('cut', '{m1, m2, m3, m4, m5}');
SELECT body FROM sqs_receive('cut', 1, 600);
BEGIN;
TRUNCATE :cut;
SELECT body FROM sqs_receive('cut');
ROLLBACK;
SELECT sqs.verify_cursor('cut') AS missed;
SELECT body FROM sqs_receive('cut', 1, 600);
BEGIN;
SAVEPOINT s;
TRUNCATE :cut;
SELECT body FROM sqs_receive('cut');
SELECT FROM sqs_send('cut', 'not sent');
ROLLBACK TO s;
SELECT sqs.verify_cursor('cut') AS missed;
SELECT body FROM sqs_receive('cut', 1, 600);
COMMIT;
SELECT body FROM sqs_receive('cut', 1, 600);
TRUNCATE :cut;
SELECT body FROM sqs_receive('cut', 10);
SELECT FROM sqs_send('cut', 'm6');
SELECT body FROM sqs_receive('cut', 10);
SELECT sqs_delete_queue('cut');

--
-- Checks, generated values of others, row security
--
ALTER TABLE :st ADD CONSTRAINT short CHECK (length(body) < 10);
SELECT try_st($$ SELECT FROM sqs_send('st', 'much too long') $$);
SELECT try_st($$ SELECT FROM sqs_send_many('st', '{a, much too long}') $$);
SELECT FROM sqs_send('st', 'short');
SELECT bodies('st', 10, 0);
ALTER TABLE :st DROP CONSTRAINT short;
SELECT sqs_purge_queue('st');
ALTER TABLE :st ALTER message_group_id SET NOT NULL;
SELECT try_st($$ SELECT FROM sqs_send('st', 'x') $$);
SELECT FROM sqs_send('st', 'short', message_group_id => 'g');
SELECT bodies('st', 10, 0);
ALTER TABLE :st ALTER message_group_id DROP NOT NULL;
ALTER TABLE :st ADD COLUMN mine text DEFAULT 'mine';
SELECT try_st($$ SELECT FROM sqs_receive('st') $$);
SELECT try_st($$ SELECT FROM sqs_send('st', 'x') $$);
ALTER TABLE :st DROP COLUMN mine;
SELECT bodies('st', 10, 0);
ALTER TABLE :st ENABLE ROW LEVEL SECURITY;
SELECT bodies('st', 10, 0) AS owner_is_not_bound;
CREATE ROLE regress_sqs_bound;
SELECT sqs_add_permission('st', 'all', '{regress_sqs_bound}', '{*}');
CREATE POLICY anything ON :st USING (true);
SET ROLE regress_sqs_bound;
SELECT try($$ SELECT FROM sqs_receive('st') $$);
SELECT try($$ SELECT FROM sqs_send('st', 'x') $$);
SELECT try($$ SELECT sqs_delete('st', 'x') $$);
SELECT try($$ SELECT FROM sqs_peek('st') $$);
SET row_security = off;
SELECT try($$ SELECT FROM sqs_receive('st') $$);
RESET ROLE;
RESET row_security;
ALTER TABLE :st DISABLE ROW LEVEL SECURITY;
SET ROLE regress_sqs_bound;
SELECT bodies('st', 10, 0);
RESET ROLE;
-- rows that are published need an identity, as ever
SET client_min_messages = error;
CREATE PUBLICATION regress_sqs_publication FOR TABLE :st;
ALTER TABLE :st REPLICA IDENTITY NOTHING;
SELECT try_st($$ SELECT FROM sqs_send('st', 'published') $$);
SELECT try_st($$ SELECT FROM sqs_receive('st') $$);
SELECT try_st($$ SELECT FROM sqs_consume('st') $$);
ALTER TABLE :st REPLICA IDENTITY FULL;
SELECT bodies('st', 1, 0);
ALTER TABLE :st REPLICA IDENTITY DEFAULT;
DROP PUBLICATION regress_sqs_publication;
SELECT sqs_delete('st', receipt_handle) FROM sqs_receive('st', 10, 0) WHERE body = 'published';
-- renamed columns are no matter; a renamed table is none
BEGIN;
ALTER TABLE :st RENAME COLUMN body TO x;
SELECT bodies('st', 10, 0) AS names_do_not_matter;
ALTER TABLE :st RENAME TO elsewhere;
SELECT try_st($$ SELECT FROM sqs_receive('st') $$);
ROLLBACK;
SELECT bodies('st', 10, 0);
SELECT sqs_delete_queue('st');
SELECT sqs_delete_queue('st_dlq');
DROP ROLE regress_sqs_bound;

-- unlogged: the same, and it is
SELECT sqs_create_queue('ul', '{"Unlogged": true}');
SELECT relpersistence FROM pg_class WHERE oid = queue_table('ul');
SELECT FROM sqs_send('ul', 'u');
SELECT bodies('ul', 10, 0), sqs_delete('ul', take('ul')), bodies('ul', 10, 0);
SELECT sqs_delete_queue('ul');
DROP FUNCTION same_bodies(text), try_st(text), st_note(), st_count(), st_refuse(), st_change(), st_hold(), st_echo(), st_greedy();
