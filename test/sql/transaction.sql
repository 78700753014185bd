-- Calls in every kind of transaction and statement there is.
\set ECHO none
\getenv folder PG_ABS_SRCDIR
\set helpers :folder /sql/helpers.psql
\i :helpers
\set ECHO all

SELECT sqs_create_queue('tx', '{"VisibilityTimeout": 600}');

-- two-phase commit: what a prepared transaction took is nobody's until it ends
SELECT count(*) FROM sqs_send_many('tx', '{m1, m2, m3}');
BEGIN;
SELECT bodies('tx', 1);
SELECT FROM sqs_send('tx', 'm4');
PREPARE TRANSACTION 'regress_sqs_1';
BEGIN;
SELECT body FROM sqs_consume('tx', 1);
SAVEPOINT s;
SELECT body FROM sqs_consume('tx', 1);
ROLLBACK TO s;
PREPARE TRANSACTION 'regress_sqs_2';
SELECT bodies('tx'), bodies('tx') AS nothing;
SELECT count(*) FROM sqs_peek('tx');
COMMIT PREPARED 'regress_sqs_1';
SELECT bodies('tx') AS sent_by_it;
ROLLBACK PREPARED 'regress_sqs_2';
SELECT bodies('tx') AS consumed_by_it;
SELECT sqs_purge_queue('tx');
BEGIN;
SELECT FROM sqs_send('tx', 'in time');
PREPARE TRANSACTION 'regress_sqs_3';
COMMIT PREPARED 'regress_sqs_3';
SELECT body FROM sqs_receive('tx', 10, 0, 20);
SELECT sqs_purge_queue('tx');

-- cursors: scrolled, closed early, held over the commit
SELECT count(*) FROM sqs_send_many('tx', ARRAY(SELECT 'm' || i FROM generate_series(1, 9) i));
BEGIN;
DECLARE scrolled SCROLL CURSOR FOR SELECT body FROM sqs_receive('tx', 3);
FETCH ALL FROM scrolled;
FETCH BACKWARD 2 FROM scrolled;
FETCH FIRST FROM scrolled;
DECLARE unread CURSOR FOR SELECT body FROM sqs_receive('tx', 10);
CLOSE unread;
DECLARE held CURSOR WITH HOLD FOR SELECT body FROM sqs_receive('tx', 2);
COMMIT;
FETCH ALL FROM held;
CLOSE held;
SELECT bodies('tx', 1);
BEGIN;
DECLARE held CURSOR WITH HOLD FOR SELECT body FROM sqs_receive('tx', 2);
ROLLBACK;
SELECT bodies('tx', 10);
SELECT sqs_purge_queue('tx');

-- a loop that commits between the messages of a receive
SELECT count(*) FROM sqs_send_many('tx', '{a, b, c}');
CREATE PROCEDURE tx_loop() LANGUAGE plpgsql AS $$
DECLARE
	m record;
BEGIN
	FOR m IN SELECT * FROM sqs_receive('tx', 10) LOOP
		IF m.body = 'b' THEN
			ROLLBACK;
		ELSE
			RAISE WARNING '% deleted: %', m.body, sqs_delete('tx', m.receipt_handle);
			COMMIT;
		END IF;
	END LOOP;
END
$$;
CALL tx_loop();
SELECT body, receive_count FROM sqs_peek('tx');
SELECT sqs_purge_queue('tx');

-- an outbox: sent by triggers of other tables, at once and with the commit
CREATE TEMP TABLE tx_order (id int PRIMARY KEY, total int CHECK (total > 0));
CREATE FUNCTION tx_announce() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM sqs_send('tx', TG_ARGV[0] || ' ' || NEW.id);
	RETURN NULL;
END
$$;
CREATE TRIGGER announce AFTER INSERT ON tx_order FOR EACH ROW EXECUTE FUNCTION tx_announce('row');
CREATE CONSTRAINT TRIGGER announce_late AFTER INSERT ON tx_order DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION tx_announce('commit');
INSERT INTO tx_order VALUES (1, 10), (2, 20);
INSERT INTO tx_order VALUES (3, 10), (4, -1);
BEGIN;
INSERT INTO tx_order VALUES (5, 1);
SAVEPOINT s;
INSERT INTO tx_order VALUES (6, 1);
ROLLBACK TO s;
SELECT bodies('tx') AS before_commit;
COMMIT;
SELECT bodies('tx') AS after_commit;
DROP TABLE tx_order;

-- in every clause of a statement
CREATE TEMP TABLE tx_got (body text, n int);
SELECT count(*) FROM sqs_send_many('tx', ARRAY(SELECT 'm' || i FROM generate_series(1, 12) i));
INSERT INTO tx_got SELECT body, receive_count FROM sqs_receive('tx', 2) RETURNING *;
WITH got AS (SELECT * FROM sqs_receive('tx', 2)), deleted AS (SELECT body, sqs_delete('tx', receipt_handle) AS d FROM got)
SELECT * FROM deleted ORDER BY 1;
WITH got AS (INSERT INTO tx_got SELECT body, 0 FROM sqs_consume('tx', 2) RETURNING body) SELECT * FROM got;
UPDATE tx_got SET n = (SELECT receive_count FROM sqs_receive('tx')) WHERE body = 'm1' RETURNING n;
SELECT (r).body, (r).receive_count FROM (SELECT sqs_receive('tx') AS r OFFSET 0) x;
SELECT n, r.body FROM ROWS FROM (sqs_receive('tx', 2), generate_series(1, 3)) AS r (a, b, body, d, e, f, g, h, i, j, k, l, m, o, n);
SELECT body FROM sqs_receive('tx', 3) LIMIT 1;
SELECT count(*) AS the_others_are_taken_too FROM sqs_receive('tx', 10);
SELECT (sqs_send('tx', 'x' || i)).md5_of_message_body = md5('x' || i) AS sent FROM generate_series(1, 2) i;
SELECT count(*) FROM generate_series(1, 3) i WHERE (sqs_send('tx', 'w' || i)).message_id IS NOT NULL;
SELECT bodies('tx');
DELETE FROM tx_got WHERE (sqs_send('tx', body)).message_id IS NULL;
SELECT bodies('tx');
DO $$ BEGIN EXECUTE 'EXPLAIN ANALYZE SELECT sqs_send(''tx'', ''explained'')'; END $$;
DO $$ BEGIN EXECUTE 'EXPLAIN SELECT sqs_send(''tx'', ''not sent'')'; END $$;
SELECT bodies('tx');
DROP TABLE tx_got;

-- a function that says it is parallel safe cannot make it so
CREATE FUNCTION tx_safe(body text) RETURNS boolean LANGUAGE sql PARALLEL SAFE AS $$ SELECT (sqs_send('tx', body)).message_id IS NOT NULL $$;
CREATE TABLE tx_big AS SELECT i FROM generate_series(1, 1000) i;
ALTER TABLE tx_big SET (parallel_workers = 2);
ANALYZE tx_big;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET parallel_leader_participation = off;
SELECT try($$ SELECT count(*) FROM tx_big WHERE tx_safe('p' || i) $$);
SELECT count(*) FROM tx_big WHERE (sqs_send('tx', 'p' || i)).message_id IS NOT NULL;
RESET ALL;
SELECT count(*) FROM sqs_peek('tx', 10);
SELECT sqs_purge_queue('tx');
DROP TABLE tx_big;

-- hundreds of levels and of queues in one transaction
CREATE FUNCTION tx_deep(n int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM sqs_send('tx', 'level ' || n);
	IF n > 1 THEN
		BEGIN
			PERFORM tx_deep(n - 1);
			IF n % 3 = 0 THEN
				RAISE division_by_zero;
			END IF;
		EXCEPTION WHEN division_by_zero THEN
			NULL;
		END;
	END IF;
END
$$;
SELECT tx_deep(100);
SELECT bodies('tx');
SET client_min_messages = warning;
BEGIN;
SELECT count(sqs_create_queue('tx_' || i)) FROM generate_series(1, 100) i;
SELECT count(sqs_send('tx_' || i, 'x')) FROM generate_series(1, 100) i;
SELECT count(*) FROM generate_series(1, 100) i, sqs_receive('tx_' || i);
SAVEPOINT s;
SELECT count(*) FROM generate_series(1, 100) i, sqs_send('tx_' || i, 'undone');
ROLLBACK TO s;
SELECT count(*) FROM generate_series(1, 100) i, sqs_receive('tx_' || i);
COMMIT;
SELECT count(sqs_delete_queue('tx_' || i)) FROM generate_series(1, 100) i;

-- a failed statement leaves nothing behind, whatever it had open
SELECT count(*) FROM sqs_send_many('tx', '{a, b}');
SELECT 1 / (receive_count - 1) FROM sqs_receive('tx', 2);
SELECT try($$ SELECT sqs_send('tx', 'c'), 1 / (i - 3) FROM generate_series(1, 4) i $$);
BEGIN;
SAVEPOINT s;
SELECT 1 / (receive_count - 1) FROM sqs_consume('tx', 2);
ROLLBACK TO s;
SELECT bodies('tx');
COMMIT;

SELECT sqs_delete_queue('tx');
DROP PROCEDURE tx_loop();
DROP FUNCTION tx_announce(), tx_safe(text), tx_deep(int);
