# Many clients receive, delete and change the visibility of the same messages,
# ten at a time in random order, sending more meanwhile, and roll some of it
# back: no deadlock, nothing lost, nothing that was deleted comes back.
#
# PG_SQS_STRESS_SECONDS says how long.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $seconds = $ENV{PG_SQS_STRESS_SECONDS} || 15;
my $clients = 32;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'pg_sqs'
max_connections = 60
deadlock_timeout = 100ms
log_lock_waits = off
pg_sqs.maintenance_interval = 100ms
});
$node->start;

# The tables have no unique index: nobody is to wait for anything but messages.
$node->safe_psql('postgres', q{
CREATE EXTENSION pg_sqs;
SELECT sqs_create_queue('storm_dlq');
SELECT sqs_create_queue('storm', '{"VisibilityTimeout": 1,
	"RedrivePolicy": {"deadLetterTargetArn": "storm_dlq", "maxReceiveCount": 1000}}');
CREATE TABLE sent (message_id uuid);
CREATE TABLE deleted (message_id uuid);
CREATE TABLE handle (n serial, message_id uuid, h text);
CREATE INDEX ON handle (n);

CREATE FUNCTION send_some() RETURNS void LANGUAGE sql AS $$
	INSERT INTO sent SELECT * FROM sqs_send_many('storm', ARRAY(SELECT repeat('x', (random() * 3000)::int + 1) FROM generate_series(1, 10)))
$$;
CREATE FUNCTION receive_some() RETURNS void LANGUAGE sql AS $$
	INSERT INTO handle (message_id, h) SELECT message_id, receipt_handle FROM sqs_receive('storm', 10, (random() * 2)::int)
$$;
-- handles of late, of any client, in random order
CREATE FUNCTION some_handles(OUT message_id uuid, OUT entry jsonb) RETURNS SETOF record LANGUAGE sql AS $$
	SELECT message_id, jsonb_build_object('Id', 'e' || row_number() OVER (), 'ReceiptHandle', h)
	FROM (SELECT * FROM (SELECT * FROM handle ORDER BY n DESC LIMIT 150) late ORDER BY random() LIMIT 10) picked
$$;
CREATE FUNCTION delete_some() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	ids uuid[];
	batch jsonb;
BEGIN
	SELECT array_agg(message_id), jsonb_agg(entry) INTO ids, batch FROM some_handles();
	IF batch IS NOT NULL THEN
		INSERT INTO deleted SELECT unnest(ids);
		IF EXISTS (SELECT FROM sqs_delete_batch('storm', batch) WHERE error_code IS NOT NULL) THEN
			RAISE 'a delete failed';
		END IF;
	END IF;
END
$$;
CREATE FUNCTION hide_some() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	batch jsonb;
BEGIN
	SELECT jsonb_agg(entry || jsonb_build_object('VisibilityTimeout', (random() * 2)::int)) INTO batch FROM some_handles();
	IF batch IS NOT NULL THEN
		PERFORM sqs_change_visibility_batch('storm', batch);
	END IF;
END
$$;
});

my $dir = $node->basedir;
my %scripts = (
	send => 'SELECT send_some();',
	receive => 'SELECT receive_some();',
	delete => 'SELECT delete_some();',
	hide => 'SELECT hide_some();',
	undo => q{
\set what random(1, 3)
BEGIN;
\if :what = 1
SELECT delete_some();
\elif :what = 2
SELECT hide_some();
\else
SELECT receive_some();
\endif
ROLLBACK;
});
append_to_file("$dir/$_.sql", $scripts{$_}) for keys %scripts;
my %weight = (send => 3, receive => 6, delete => 3, hide => 4, undo => 2);

sub storm
{
	my ($name, $duration) = @_;
	my ($out, $err);

	my $ok = IPC::Run::run(
		[
			'pgbench', '-n', '-c', $clients, '-j', 2, '-T', $duration,
			(map { ('-f', "$dir/$_.sql\@$weight{$_}") } sort keys %weight),
			'-h', $node->host, '-p', $node->port, 'postgres'
		],
		'>', \$out, '2>', \$err);
	ok($ok, "$name: no client failed") or diag($err);
	like($out, qr/number of failed transactions: 0 /, "$name: no transaction failed");
	my ($done) = $out =~ /number of transactions actually processed: (\d+)/;
	note("$done transactions in $duration s");
	cmp_ok($done, '>', 100, "$name: it was one");
	unlike(slurp_file($node->logfile), qr/ERROR|deadlock detected|TRAP|PANIC/, "$name: nothing in the log");
}

storm('storm', $seconds);

# What is left, once the last visibility timeout is over, is what was sent and
# not deleted; it may have moved to the dead-letter queue.
$node->safe_psql('postgres', q{
CREATE TABLE remaining (message_id uuid);
CREATE FUNCTION take_rest() RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	left_over boolean;
BEGIN
	PERFORM set_config('pg_sqs.max_batch_size', '10000', false);
	INSERT INTO remaining SELECT message_id FROM sqs_consume('storm', 10000);
	INSERT INTO remaining SELECT message_id FROM sqs_consume('storm_dlq', 10000);
	EXECUTE (SELECT format('SELECT EXISTS (SELECT FROM sqs.queue_%s)', id) FROM sqs.queue WHERE name = 'storm') INTO left_over;
	RETURN NOT left_over;
END
$$});
$node->poll_query_until('postgres', 'SELECT take_rest()')
  or die 'messages stay in flight';
is($node->safe_psql('postgres', 'SELECT count(*) - count(DISTINCT message_id) FROM remaining'),
	'0', 'no message was there twice');
is($node->safe_psql('postgres', 'SELECT count(*) FROM (SELECT message_id FROM remaining INTERSECT SELECT message_id FROM deleted) back'),
	'0', 'nothing that was deleted came back');
is( $node->safe_psql('postgres', q{
SELECT count(*) FROM (SELECT message_id FROM sent
	EXCEPT SELECT message_id FROM deleted EXCEPT SELECT message_id FROM remaining) lost}),
	'0', 'nothing was lost');
is( $node->safe_psql('postgres', 'SELECT count(*) FROM (SELECT message_id FROM remaining EXCEPT SELECT message_id FROM sent) strange'),
	'0', 'nothing came from nowhere');
note($node->safe_psql('postgres', "SELECT (SELECT count(*) FROM sent) || ' sent, ' || (SELECT count(*) FROM handle) || ' received, ' ||
	(SELECT count(DISTINCT message_id) FROM deleted) || ' deleted, ' || (SELECT count(*) FROM remaining) || ' left'"));

# purges in the midst of it
$weight{purge} = 1;
append_to_file("$dir/purge.sql", q{SELECT sqs_purge_queue('storm')});
storm('purges', int($seconds / 4) + 1);

done_testing();
