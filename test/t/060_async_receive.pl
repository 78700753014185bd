# Which transactions commit without waiting for the disk: those that did
# nothing but receive, and no others.  A crash right after the commit takes
# back the former, whose messages are there again, and none of the latter.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../perl";

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SqsTest;
use Test::More;

my $node = crash_node('main');
$node->start;
$node->safe_psql('postgres', q{
CREATE EXTENSION pg_sqs;
CREATE TABLE flusher (n int);
CREATE TABLE witness (name text);
CREATE TABLE other (n int);
INSERT INTO other VALUES (1);
CREATE SEQUENCE numbers CACHE 1;
SELECT sqs_create_queue(q) FROM unnest('{q,second,dead,watched,dead_watched}'::text[]) q;
SELECT sqs_create_queue('poison', '{"RedrivePolicy": {"deadLetterTargetArn": "dead", "maxReceiveCount": 1}}');
SELECT sqs_create_queue('poison_watched', '{"RedrivePolicy": {"deadLetterTargetArn": "dead_watched", "maxReceiveCount": 1}}');
SELECT sqs_create_queue('short', '{"MessageRetentionPeriod": 60}');

-- does its work at the end of the name it is given
CREATE FUNCTION witness() RETURNS trigger LANGUAGE plpgsql AS
'BEGIN INSERT INTO public.witness VALUES (TG_ARGV[0]); RETURN NEW; END';
DO $$
DECLARE watched int := (SELECT id FROM sqs.queue WHERE name = 'watched');
	dead int := (SELECT id FROM sqs.queue WHERE name = 'dead_watched');
BEGIN
	EXECUTE format('CREATE TRIGGER t AFTER UPDATE ON sqs.queue_%s FOR EACH ROW EXECUTE FUNCTION witness(%L)', watched, 'a trigger of the queue');
	EXECUTE format('CREATE TRIGGER t AFTER INSERT ON sqs.queue_%s FOR EACH ROW EXECUTE FUNCTION witness(%L)', dead, 'a trigger of the dead-letter queue');
END $$;

CREATE FUNCTION receive_and_write(name text) RETURNS text LANGUAGE plpgsql AS
'DECLARE b text; BEGIN SELECT body INTO b FROM sqs_receive(''q''); INSERT INTO witness VALUES (name); RETURN b; END';
CREATE FUNCTION write_and_receive(name text) RETURNS text LANGUAGE plpgsql AS
'BEGIN INSERT INTO witness VALUES (name); RETURN (SELECT body FROM sqs_receive(''q'')); END';

CREATE TABLE receiving (name text);
CREATE FUNCTION receive() RETURNS trigger LANGUAGE plpgsql AS
'BEGIN PERFORM sqs_receive(''q''); RETURN NEW; END';
CREATE TRIGGER t BEFORE INSERT ON receiving FOR EACH ROW EXECUTE FUNCTION receive();
CREATE TABLE received (name text);
CREATE TRIGGER t AFTER INSERT ON received FOR EACH ROW EXECUTE FUNCTION receive();
CREATE TABLE late (name text);
CREATE CONSTRAINT TRIGGER t AFTER INSERT ON late DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION receive();

SELECT sqs_send(q, 'm') FROM unnest('{watched,poison,poison_watched}'::text[]) q;
SELECT sqs_send('q', 'm' || n) FROM generate_series(1, 500) n;
SELECT sqs_send('second', 'm' || n) FROM generate_series(1, 10) n;
SELECT FROM sqs_receive('poison', 1, 0);
SELECT FROM sqs_receive('poison_watched', 1, 0);
SELECT sqs_send('short', 'old');
DO $$ BEGIN
	EXECUTE format('UPDATE sqs.queue_%s SET sent_at = sent_at - interval ''1 hour''', (SELECT id FROM sqs.queue WHERE name = 'short'));
END $$;
});
# what was there before any of it
$node->safe_psql('postgres', 'CHECKPOINT');
hold_wal($node);

# What the commit of the one transaction in some statements did, by where WAL
# is flushed to after it.
sub commit_of
{
	my ($sql) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', qq{
\\o /dev/null
INSERT INTO flusher VALUES (1);
SELECT pg_current_wal_insert_lsn() AS before \\gset
$sql
\\o
SELECT CASE WHEN pg_current_wal_insert_lsn() = :'before' THEN 'wrote nothing'
	WHEN pg_current_wal_flush_lsn() > :'before' THEN 'waited'
	ELSE 'did not wait' END;
});
	return "$out$err";
}

my @writing;    # names of cases that write

sub commit_is
{
	my ($expected, @cases) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	while (my ($name, $sql) = splice(@cases, 0, 2))
	{
		push @writing, $name if $sql =~ /:name/ || $name =~ /^a trigger/;
		is(commit_of($sql =~ s/:name/'$name'/gr), $expected, $name);
	}
	return;
}

my $receive = q{SELECT FROM sqs_receive('q');};

#
# Nothing but receives
#
commit_is(
	'did not wait',
	'a receive' => $receive,
	'a receive of ten' => q{SELECT FROM sqs_receive('q', 10);},
	'a receive that may wait' => q{SELECT FROM sqs_receive('q', 1, NULL, 20);},
	'a receive that hides for no time' => q{SELECT FROM sqs_receive('q', 1, 0);},
	'a receive in a block' => "BEGIN; $receive COMMIT;",
	'receives from two queues' =>
	  "BEGIN; $receive SELECT FROM sqs_receive('second'); $receive COMMIT;",
	'a receive by plpgsql' => q{DO $$ BEGIN PERFORM sqs_receive('q'); END $$;},
	'a receive and COMMIT by plpgsql' =>
	  q{DO $$ BEGIN PERFORM sqs_receive('q'); COMMIT; END $$;},
	'a receive through a cursor' =>
	  q{BEGIN; DECLARE c CURSOR FOR SELECT * FROM sqs_receive('q'); FETCH c; COMMIT;},
	'receives at REPEATABLE READ' =>
	  "BEGIN ISOLATION LEVEL REPEATABLE READ; $receive $receive COMMIT;",
	'receives at SERIALIZABLE' =>
	  "BEGIN ISOLATION LEVEL SERIALIZABLE; $receive $receive COMMIT;",
	'receives in savepoints' =>
	  "BEGIN; $receive SAVEPOINT a; $receive RELEASE a; SAVEPOINT b; $receive RELEASE b; $receive COMMIT;",
	'a receive after one that failed' =>
	  q{DO $$ BEGIN PERFORM sqs_receive('q', 0); EXCEPTION WHEN OTHERS THEN PERFORM sqs_receive('q'); END $$;},
	'a receive among reads' =>
	  "BEGIN; SELECT * FROM other; SELECT FROM sqs_peek('q'); SELECT sqs_get_queue_attributes('q'); $receive SELECT * FROM other; COMMIT;",
	'a receive that removes what is past its retention' =>
	  q{SELECT FROM sqs_receive('short');});

commit_is('wrote nothing',
	'a receive that finds nothing' => q{SELECT FROM sqs_receive('dead');});

#
# Anything else
#
my $write = 'INSERT INTO witness VALUES (:name);';
commit_is(
	'waited',
	'a receive with the setting off' => "SET pg_sqs.async_receive = off; $receive",
	'a receive with the setting off in its transaction' =>
	  "BEGIN; $receive SET LOCAL pg_sqs.async_receive = off; COMMIT;",

	'a write before' => "BEGIN; $write $receive COMMIT;",
	'a write after' => "BEGIN; $receive $write COMMIT;",
	'a write between two receives' => "BEGIN; $receive $write $receive COMMIT;",
	'a write among reads' =>
	  "BEGIN; SELECT * FROM other; $receive SELECT * FROM other; $write SELECT * FROM other; $receive COMMIT;",
	'a write in a savepoint before' =>
	  "BEGIN; SAVEPOINT a; $write RELEASE a; $receive COMMIT;",
	'a write in a savepoint after' =>
	  "BEGIN; $receive SAVEPOINT a; $write RELEASE a; COMMIT;",
	'a write in a savepoint, receives in others' =>
	  "BEGIN; SAVEPOINT a; $receive ROLLBACK TO a; $write SAVEPOINT b; $receive RELEASE b; COMMIT;",
	'a write at REPEATABLE READ' =>
	  "BEGIN ISOLATION LEVEL REPEATABLE READ; $receive $write $receive COMMIT;",
	'a write of what was received' =>
	  q{WITH m AS (SELECT * FROM sqs_receive('q')) INSERT INTO witness SELECT :name FROM m;},
	'a write in a WITH clause' =>
	  q{WITH w AS (INSERT INTO witness VALUES (:name)) SELECT FROM sqs_receive('q');},
	'a write in a WITH clause that is read first' =>
	  q{WITH w AS MATERIALIZED (INSERT INTO witness VALUES (:name) RETURNING 1 AS n) SELECT FROM w, LATERAL sqs_receive('q', w.n);},
	'a write by a function after' => 'SELECT receive_and_write(:name);',
	'a write by a function before' => 'SELECT write_and_receive(:name);',
	'a write whose trigger receives before' =>
	  'INSERT INTO receiving VALUES (:name); ',
	'a write whose trigger receives after' => 'INSERT INTO received VALUES (:name);',
	'a write whose trigger receives at commit' => 'INSERT INTO late VALUES (:name);',
	'a write after a receive that failed' =>
	  q{DO $$ BEGIN PERFORM sqs_receive('q', 0); EXCEPTION WHEN OTHERS THEN INSERT INTO witness VALUES (:name); PERFORM sqs_receive('q'); END $$;},
	'a write through a cursor' =>
	  q{BEGIN; DECLARE c CURSOR FOR SELECT * FROM sqs_receive('q'); INSERT INTO witness VALUES (:name); FETCH c; CLOSE c; COMMIT;},
	'a trigger of the queue' => q{SELECT FROM sqs_receive('watched');},
	'a trigger of the dead-letter queue' => q{SELECT FROM sqs_receive('poison_watched');},

	'a move to the dead-letter queue' => q{SELECT FROM sqs_receive('poison');},
	'a send before' => "BEGIN; SELECT sqs_send('second', 'x'); $receive COMMIT;",
	'a send after' => "BEGIN; $receive SELECT sqs_send('second', 'x'); COMMIT;",
	'a delete' =>
	  q{SELECT sqs_delete('q', receipt_handle) FROM sqs_receive('q');},
	'a change of visibility' =>
	  q{SELECT sqs_change_visibility('q', receipt_handle, 0) FROM sqs_receive('q');},
	'a consume' => q{SELECT FROM sqs_consume('q');},
	'a consume before' => "BEGIN; SELECT FROM sqs_consume('q'); $receive COMMIT;",
	'a consume after' => "BEGIN; $receive SELECT FROM sqs_consume('q'); COMMIT;",
	'a row lock' => "BEGIN; $receive SELECT * FROM other FOR UPDATE; COMMIT;",
	'a row lock before' => "BEGIN; SELECT * FROM other FOR UPDATE; $receive COMMIT;",
	'a sequence' => "BEGIN; SELECT nextval('numbers'); $receive COMMIT;",
	'a table' => "BEGIN; $receive CREATE TABLE made (); COMMIT;",
	'an attribute' =>
	  "BEGIN; $receive SELECT sqs_set_queue_attributes('q', '{\"VisibilityTimeout\": 60}'); COMMIT;",
	'a message in WAL' =>
	  "BEGIN; $receive SELECT pg_logical_emit_message(true, 'a', 'b'); COMMIT;",
	'PREPARE TRANSACTION' => "BEGIN; $receive PREPARE TRANSACTION 'a';",
	'COMMIT PREPARED' => "COMMIT PREPARED 'a';",
	'PREPARE TRANSACTION of a write' => "BEGIN; $receive $write PREPARE TRANSACTION 'b';",
	'COMMIT PREPARED of a write' => "COMMIT PREPARED 'b';");

#
# The setting that is changed for the commit is the session's own again
#
is( $node->safe_psql('postgres', qq{
\\o /dev/null
SET synchronous_commit = local;
BEGIN; SET synchronous_commit = remote_apply; $receive COMMIT;
\\o
SHOW synchronous_commit;
\\o /dev/null
BEGIN; SET LOCAL synchronous_commit = remote_write; $receive COMMIT;
\\o
SHOW synchronous_commit;
}),
	"remote_apply\nremote_apply", 'synchronous_commit after the commit');
commit_is('waited', 'a write in the next transaction' => "$receive $write");

#
# Crash: what waited is there, what did not is undone
#
sub in_queue
{
	my ($body) = @_;

	return $node->safe_psql('postgres',
		"SELECT receive_count FROM sqs_peek('q', 10) WHERE body = '$body'");
}

# The names of the cases above that wrote.
sub witnesses
{
	return [ split /\n/, $node->safe_psql('postgres', q{
SELECT name FROM (TABLE witness UNION ALL TABLE receiving UNION ALL
	TABLE received UNION ALL TABLE late) w ORDER BY name COLLATE "C"}) ];
}

@writing = sort @writing;
is_deeply(witnesses(), \@writing, 'each write was done');

my $body = $node->safe_psql('postgres', q{SELECT body FROM sqs_receive('q')});
like($body, qr/^m/, 'a message received');
is(in_queue($body), '', 'is not to be received');
crash($node);
start_crashed($node);
is(in_queue($body), '0', 'it is when the server was killed');
is_deeply(witnesses(), \@writing, 'no write is lost');
is($node->safe_psql('postgres', q{SELECT body FROM sqs_receive('q')}),
	$body, 'and is received again, first');

hold_wal($node);
$node->safe_psql('postgres', q{INSERT INTO flusher VALUES (1)});
$body = $node->safe_psql('postgres', q{SELECT body FROM sqs_receive('q')});
my $kept = $node->safe_psql('postgres', q{
WITH m AS (SELECT * FROM sqs_receive('q')), w AS (INSERT INTO witness SELECT 'kept' FROM m)
SELECT body FROM m});
my $lost = $node->safe_psql('postgres', q{SELECT body FROM sqs_receive('q')});
immediate_stop($node);
start_crashed($node);
is(in_queue($body), '', 'a receive is kept by a later commit that waited');
is(in_queue($kept), '', 'and so is the receive of that');
is(in_queue($lost), '0', 'not one that came after');
is($node->safe_psql('postgres', q{SELECT count(*) FROM witness WHERE name = 'kept'}),
	'1', 'the write is there after an immediate stop');

$node->stop;
done_testing();
