# Whatever an administrator does to a queue's table while it is in use: indexes
# rebuilt, made and dropped, also concurrently, triggers made and dropped, the
# table rewritten and vacuumed.  No message is lost or returned twice, and every
# index agrees with the table in the end.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $seconds = $ENV{PG_SQS_STRESS_SECONDS} || 10;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'pg_sqs'
pg_sqs.maintenance_interval = 100ms
autovacuum_naptime = 1s
});
$node->start;
$node->safe_psql('postgres', q{
CREATE EXTENSION pg_sqs;
SELECT sqs_create_queue('busy', '{"VisibilityTimeout": 1}');
CREATE TABLE sent (message_id uuid);
CREATE TABLE consumed (message_id uuid);
CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN coalesce(NEW, OLD); END $$;
});
my $table = $node->safe_psql('postgres', q{SELECT 'sqs.queue_' || id FROM sqs.queue WHERE name = 'busy'});
my $has_amcheck = $node->safe_psql('postgres',
	q{SELECT count(*) FROM pg_available_extensions WHERE name = 'amcheck'});

# the load
my $dir = $node->basedir;
append_to_file("$dir/load.sql", q{
\set end random(1, 8)
INSERT INTO sent SELECT * FROM sqs_send_many('busy', ARRAY[repeat('x', 10), repeat('y', 3000)]);
SELECT receipt_handle FROM sqs_receive('busy', 5);
BEGIN;
INSERT INTO consumed SELECT message_id FROM sqs_consume('busy', 3);
\if :end = 1
ROLLBACK;
\else
COMMIT;
\endif
});
my ($out, $err) = ('', '');
my $load = IPC::Run::start(
	[
		'pgbench', '-n', '-c', 6, '-j', 1, '-T', $seconds, '-f', "$dir/load.sql",
		'-h', $node->host, '-p', $node->port, 'postgres'
	],
	'>', \$out, '2>', \$err);

my @commands = (
	"REINDEX TABLE CONCURRENTLY $table",
	"CREATE INDEX CONCURRENTLY extra ON $table (sent_at, receive_count)",
	"REINDEX TABLE $table",
	"VACUUM $table",
	"CREATE TRIGGER keep BEFORE UPDATE OR DELETE ON $table FOR EACH ROW EXECUTE FUNCTION keep()",
	"DROP INDEX CONCURRENTLY sqs.extra",
	"VACUUM FULL $table",
	"DROP TRIGGER keep ON $table",
	"CREATE INDEX extra ON $table (receive_count)",
	"CLUSTER $table USING " . ($table =~ s/sqs\.//r) . '_pkey',
	"DROP INDEX sqs.extra",
	"ALTER TABLE $table SET (fillfactor = 80)",
	"ANALYZE $table");
my $rounds = 0;
while ($load->pumpable)
{
	for my $command (@commands)
	{
		$node->safe_psql('postgres', $command);
	}
	$rounds++;
	last if $rounds > 1000;
	$load->pump_nb;
}
my $ok = $load->finish;
ok($ok, 'no client failed') or diag($err);
like($out, qr/number of failed transactions: 0 /, 'no transaction failed');
note("$rounds rounds; " . ($out =~ /(number of transactions actually.*)/)[0]);

# all there is left
$node->safe_psql('postgres', qq{
CREATE FUNCTION take_rest() RETURNS boolean LANGUAGE plpgsql AS \$\$
BEGIN
	PERFORM set_config('pg_sqs.max_batch_size', '10000', false);
	INSERT INTO consumed SELECT message_id FROM sqs_consume('busy', 10000);
	RETURN NOT EXISTS (SELECT FROM $table);
END
\$\$});
$node->poll_query_until('postgres', 'SELECT take_rest()')
  or die 'messages stay in flight';
is($node->safe_psql('postgres', 'SELECT count(*) - count(DISTINCT message_id) FROM consumed'),
	'0', 'none was consumed twice');
is( $node->safe_psql('postgres', q{
SELECT (SELECT count(*) FROM (SELECT * FROM sent EXCEPT SELECT * FROM consumed) lost),
	(SELECT count(*) FROM (SELECT * FROM consumed EXCEPT SELECT * FROM sent) strange)}),
	'0|0', 'none was lost');

SKIP:
{
	skip 'no amcheck here', 1 unless $has_amcheck;
	$node->safe_psql('postgres', qq{
CREATE EXTENSION amcheck;
SELECT FROM sqs_send_many('busy', array_fill('x'::text, '{100}'));
SELECT FROM sqs_receive('busy', 10);
});
	is( $node->safe_psql('postgres', qq{
SELECT count(bt_index_parent_check(indexrelid, true)) FROM pg_index
WHERE indrelid = '$table'::regclass OR indrelid = (SELECT reltoastrelid FROM pg_class WHERE oid = '$table'::regclass)}),
		'3', 'the indexes agree with the table');
}
unlike(slurp_file($node->logfile), qr/TRAP|PANIC|deadlock detected/, 'nothing broke');

done_testing();
