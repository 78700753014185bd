# What the background worker does with messages, that one queue's trouble is
# no other's, and that the code of a queue's owner runs as that owner.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'pg_sqs'
pg_sqs.maintenance_interval = 100ms
});
$node->start;
$node->safe_psql('postgres', q{
CREATE EXTENSION pg_sqs;
CREATE ROLE mallory LOGIN;
GRANT CREATE ON SCHEMA sqs, public TO mallory;
SELECT sqs_create_queue('dead');
SELECT sqs_create_queue('orders', '{"RedrivePolicy": {"deadLetterTargetArn": "dead", "maxReceiveCount": 3}}');
});
sub sql
{
	return $node->safe_psql('postgres', $_[0]);
}

sub eventually
{
	my ($query, $expected, $name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return ok($node->poll_query_until('postgres', $query, $expected), $name);
}

# Makes a queue that moves to the dead-letter queue given, with one message
# that was received as often as it may be.
sub exhausted
{
	my ($queue, $target, $seconds) = @_;

	sql(qq{
SELECT sqs_create_queue('$queue', '{"RedrivePolicy": {"deadLetterTargetArn": "$target", "maxReceiveCount": 1}}');
SELECT sqs_send('$queue', 'from $queue');
SELECT sqs_receive('$queue', visibility_timeout => $seconds);
});
	return;
}

# Sends another message to such a queue, and receives it as often as it may be.
sub exhausted_again
{
	sql("SELECT sqs_send('$_[0]', 'again'); SELECT sqs_receive('$_[0]', visibility_timeout => 0)"
	);
	return;
}

# exhausted messages move when their visibility timeout is over
exhausted('late', 'dead', 1);
is(sql("SELECT count(*) FROM sqs_peek('dead')"),
	'0', 'an exhausted message stays while it is in flight');
eventually(
	"SELECT body, receive_count, dead_letter_queue_source FROM sqs_peek('dead')",
	'from late|1|late',
	'and moves when that is over');
sql("SELECT sqs_purge_queue('dead')");

# receives that are rolled back
sql("SELECT sqs_send('orders', 'poison')");
for my $n (1 .. 2)
{
	is( sql("BEGIN; SELECT body FROM sqs_receive('orders'); ROLLBACK"),
		'poison', "receive $n is rolled back");
	eventually("SELECT receive_count FROM sqs_peek('orders')",
		$n, 'and counted all the same');
}
is( sql("BEGIN; SELECT body FROM sqs_receive('orders'); ROLLBACK"),
	'poison', 'as is the third');
eventually(
	"SELECT body, receive_count FROM sqs_peek('dead')",
	'poison|3', 'which moves the message to the dead-letter queue');
is(sql("SELECT count(*) FROM sqs.queue_2"), '0', 'none is left behind');
sql("SELECT sqs_purge_queue('dead')");

sql("SELECT sqs_send('orders', 'unlucky')");
sql(q{
BEGIN;
SAVEPOINT s;
SELECT sqs_receive('orders');
ROLLBACK TO s;
SELECT sqs_consume('orders');
ROLLBACK;
});
eventually("SELECT receive_count FROM sqs_peek('orders')",
	2, 'a savepoint counts, and so does sqs_consume');
sql("SELECT sqs_purge_queue('orders')");

# consumers that are so quick to take the message again that the worker never
# finds it free
sql(q{
CREATE PROCEDURE hammer() LANGUAGE plpgsql AS $$
BEGIN
	LOOP
		PERFORM sqs_receive('orders', wait_time_seconds => 5);
		PERFORM pg_sleep(0.2);
		ROLLBACK;
	END LOOP;
END$$;
SELECT sqs_send('orders', 'hot');
});
my @consumers = map { $node->background_psql('postgres') } (1 .. 3);
$_->query_until(qr/started/, "\\echo started\nCALL hammer();\n")
  for @consumers;
eventually("SELECT body, receive_count >= 3 FROM sqs_peek('dead')",
	'hot|t', 'a message that is never free moves as well');
sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'CALL hammer%'"
);
$_->{run}->finish for @consumers;
sql("SELECT sqs_purge_queue('dead')");

# retention
sql(q{
SELECT count(*) FROM sqs_send_many('orders', ARRAY(SELECT 'old ' || i FROM generate_series(1, 5000) i));
UPDATE sqs.queue_2 SET sent_at = sent_at - interval '2 minutes';
SELECT sqs_send('orders', 'new');
SELECT sqs_set_queue_attributes('orders', '{"MessageRetentionPeriod": 60}');
});
eventually("SELECT string_agg(body, ',') FROM sqs.queue_2",
	'new', 'messages past their retention are removed, and no others');

# a policy that is set afterwards
sql(q{
SELECT sqs_create_queue('plain');
SELECT sqs_send('plain', 'received once');
SELECT sqs_receive('plain', visibility_timeout => 0);
SELECT sqs_set_queue_attributes('plain', '{"RedrivePolicy": {"deadLetterTargetArn": "dead", "maxReceiveCount": 1}}');
});
eventually("SELECT body FROM sqs_peek('dead')",
	'received once', 'a new RedrivePolicy counts for the messages there are');
sql("SELECT sqs_purge_queue('dead')");

# names of deleted queues
sql(q{
SET pg_sqs.cooldown = 60;
SELECT sqs_create_queue('gone');
SELECT sqs_delete_queue('gone');
SELECT sqs_create_queue('long_gone');
SELECT sqs_delete_queue('long_gone');
UPDATE sqs.deleted_queue SET deleted_at = deleted_at - interval '2 hours' WHERE name = 'long_gone';
});
$node->restart;
eventually('SELECT string_agg(name, \',\') FROM sqs.deleted_queue',
	'gone', 'names of queues deleted long ago are forgotten');
my $worker = sql(
	"SELECT pid FROM pg_stat_activity WHERE backend_type = 'pg_sqs worker'");

# somebody has the message, or the table
exhausted('held', 'dead', 3600);
my $id = sql("SELECT substring(c.relname, '[0-9]+') FROM pg_class c, sqs.queue q WHERE q.name = 'held' AND c.relname = 'queue_' || q.id");
my $holder = $node->background_psql('postgres');
$holder->query_safe("BEGIN; SELECT * FROM sqs.queue_$id FOR UPDATE");
sql("SELECT sqs_set_queue_attributes('held', '{\"VisibilityTimeout\": 5}')");
exhausted('other', 'dead', 0);
eventually("SELECT body FROM sqs_peek('dead')",
	'from other', 'a locked message holds up no other');
$holder->query_safe("UPDATE sqs.queue_$id SET visible_at = now()");
$holder->query_safe('COMMIT');
sql("SELECT sqs_set_queue_attributes('held', '{\"VisibilityTimeout\": 6}')");
eventually("SELECT count(*) FROM sqs_peek('dead')",
	2, 'and moves when it is free');

exhausted('locked', 'dead', 0);
eventually("SELECT count(*) FROM sqs_peek('dead')", 3, 'a queue at work');
$holder->query_safe(
	"BEGIN; LOCK TABLE sqs.queue_$id IN ACCESS EXCLUSIVE MODE");
exhausted('third', 'dead', 0);
eventually("SELECT count(*) FROM sqs_peek('dead')",
	4, 'a locked table holds up no other');
$holder->query_safe('COMMIT');
$holder->query_safe('BEGIN; LOCK TABLE sqs.queue_1 IN SHARE MODE');
exhausted('fourth', 'dead', 0);
exhausted('elsewhere', 'orders', 0);
eventually("SELECT body FROM sqs_peek('orders') WHERE body <> 'new'",
	'from elsewhere', 'nor does a locked dead-letter queue');
$holder->query_safe('COMMIT');
eventually("SELECT count(*) FROM sqs_peek('dead')",
	5, 'which is filled when it is free');
$holder->quit;
sql("SELECT sqs_purge_queue('dead')");

# a queue whose table raises errors
sql(q{
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
$$BEGIN RAISE EXCEPTION 'not today' USING HINT = 'come back tomorrow'; END$$;
SELECT sqs_create_queue('bad', '{"RedrivePolicy": {"deadLetterTargetArn": "dead", "maxReceiveCount": 1}}');
SELECT sqs_send('bad', 'from bad');
SELECT sqs_receive('bad', visibility_timeout => 0);
});
$id = sql("SELECT id FROM sqs.queue WHERE name = 'bad'");
eventually("SELECT body FROM sqs_peek('dead')", 'from bad', 'a good queue');
sql("SELECT sqs_purge_queue('dead')");
sql("CREATE TRIGGER refuse BEFORE DELETE ON sqs.queue_$id FOR EACH ROW EXECUTE FUNCTION refuse()"
);
my $offset = -s $node->logfile;
exhausted_again('bad');
$node->wait_for_log(qr/could not maintain queue "bad": not today/, $offset);
like(
	substr(slurp_file($node->logfile), $offset),
	qr/LOG:  could not maintain queue "bad": not today\n.*HINT:  come back tomorrow/,
	'the error of a queue is logged');
exhausted('good', 'dead', 0);
eventually("SELECT body FROM sqs_peek('dead')",
	'from good', 'and does not keep others from their work');
sql("SELECT sqs_send('bad', 'again')");
exhausted('better', 'dead', 0);
eventually("SELECT count(*) FROM sqs_peek('dead')", 2, 'nor later');
is( scalar(
		() = substr(slurp_file($node->logfile), $offset) =~
		  /could not maintain/g),
	1,
	'it is logged once');
sql("DROP TRIGGER refuse ON sqs.queue_$id");
eventually("SELECT count(*) FROM sqs_peek('dead')",
	3, 'the queue is tried again');
is( sql("SELECT pid FROM pg_stat_activity WHERE backend_type = 'pg_sqs worker'"
	),
	$worker,
	'all by the same worker');
sql("SELECT sqs_purge_queue('dead')");

# the catalog itself is broken for a while
$offset = -s $node->logfile;
sql('ALTER TABLE sqs.queue RENAME COLUMN modified_at TO broken');
$node->wait_for_log(
	qr/LOG:  could not maintain queues: column q\.modified_at does not exist/,
	$offset);
exhausted_again('better');
eventually("SELECT body FROM sqs_peek('dead')",
	'again', 'queues known before are maintained all the same');
sql('ALTER TABLE sqs.queue RENAME COLUMN broken TO modified_at');
exhausted('repaired', 'dead', 0);
eventually("SELECT count(*) FROM sqs_peek('dead')",
	2, 'and new ones when the catalog is repaired');
sql("SELECT sqs_purge_queue('dead')");

# a hostile owner
sub sql_as_mallory
{
	return $node->safe_psql('postgres', $_[0],
		extra_params => [ '-U', 'mallory' ]);
}

sql_as_mallory(q{
SELECT sqs_create_queue('trap2');
SELECT sqs_create_queue('trap', '{"RedrivePolicy": {"deadLetterTargetArn": "trap2", "maxReceiveCount": 1}}');
CREATE TABLE public.seen (what text, who text);
CREATE FUNCTION public.note(what text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO public.seen VALUES (what, current_user);
	BEGIN
		ALTER ROLE mallory SUPERUSER;
	EXCEPTION WHEN OTHERS THEN NULL;
	END;
	BEGIN
		RESET SESSION AUTHORIZATION;
		INSERT INTO public.seen VALUES (what || ', reset', current_user);
	EXCEPTION WHEN OTHERS THEN NULL;
	END;
	RETURN what;
END$$;
CREATE FUNCTION public.note_row() RETURNS trigger LANGUAGE plpgsql AS
$$BEGIN PERFORM public.note(TG_NAME); RETURN coalesce(NEW, OLD); END$$;
CREATE FUNCTION public.note_constant(what text) RETURNS text
	IMMUTABLE LANGUAGE plpgsql AS $$BEGIN RETURN public.note(what); END$$;
});
my $trap = sql("SELECT id FROM sqs.queue WHERE name = 'trap'");
my $trap2 = sql("SELECT id FROM sqs.queue WHERE name = 'trap2'");
sql_as_mallory(qq{
SELECT sqs_send('trap', 'bait');
SELECT sqs_receive('trap', visibility_timeout => 2);
CREATE TRIGGER removed BEFORE DELETE ON sqs.queue_$trap FOR EACH ROW EXECUTE FUNCTION public.note_row();
CREATE TRIGGER added AFTER INSERT ON sqs.queue_$trap2 FOR EACH ROW EXECUTE FUNCTION public.note_row();
CREATE INDEX trap_expression ON sqs.queue_$trap2 ((body || public.note_constant('expression')));
CREATE INDEX trap_predicate ON sqs.queue_$trap2 (visible_at, id) WHERE public.note_constant('predicate') IS NOT NULL;
DROP INDEX sqs.queue_${trap2}_due;
CREATE INDEX due_again ON sqs.queue_$trap2 (visible_at, id);
TRUNCATE public.seen;
});
# (whoever so much as plans a query of the table runs his functions: do not)
eventually("SELECT count(*) FROM public.seen WHERE what = 'added'",
	1, 'a message of a hostile owner moves');
exhausted('mine', 'trap2', 0);
eventually("SELECT count(*) FROM public.seen WHERE what = 'added'",
	2, 'so does a message into the dead-letter queue of one');
is( sql("SELECT string_agg(DISTINCT what, ',') FROM public.seen WHERE who <> 'mallory'"),
	'',
	'everything of his ran as he himself');
is( sql("SELECT string_agg(DISTINCT what, ',' ORDER BY what) FROM public.seen"),
	'added,expression,predicate,removed',
	'and it did run');
is(sql("SELECT rolsuper FROM pg_roles WHERE rolname = 'mallory'"),
	'f', 'he gained nothing');

# a hostile owner of the extension, which any database owner can be, has no
# say in what the worker does to its catalog; but he may maintain his queues
$node->safe_psql('postgres', 'CREATE DATABASE lair OWNER mallory');
$node->safe_psql(
	'lair', q{
CREATE EXTENSION pg_sqs;
CREATE FUNCTION rise() RETURNS trigger LANGUAGE plpgsql AS
$$BEGIN ALTER ROLE mallory SUPERUSER; RETURN NULL; END$$;
}, extra_params => [ '-U', 'mallory' ]);
for my $table (qw(queue deleted_queue))
{
	my (undef, undef, $stderr) = $node->psql(
		'lair',
		"CREATE CONSTRAINT TRIGGER rise AFTER DELETE ON sqs.$table DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION rise()",
		extra_params => [ '-U', 'mallory' ]);
	like($stderr, qr/permission denied/, "no trigger of his on sqs.$table");
}
is( $node->safe_psql(
		'lair', 'SELECT sqs_maintain()', extra_params => [ '-U', 'mallory' ]),
	'',
	'he may call sqs_maintain()');

$node->stop;
done_testing();
