# Where no background worker runs, pg_cron does its work.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
my $sharedir = $node->config_data('--sharedir');
plan skip_all => 'pg_cron is not installed'
  unless -f "$sharedir/extension/pg_cron.control";

$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'pg_cron,pg_sqs'
cron.database_name = 'postgres'
cron.use_background_workers = on
pg_sqs.worker = off
});
$node->start;
$node->safe_psql('postgres', q{
CREATE SCHEMA "My Queues";
CREATE EXTENSION pg_sqs SCHEMA "My Queues";
CREATE DATABASE shop;
CREATE ROLE clerk LOGIN;
GRANT USAGE ON SCHEMA "My Queues" TO clerk;
});

# What a statement raises: its error and hint.
sub error_of
{
	my ($database, $statement, @options) = @_;
	my (undef, undef, $stderr) =
	  $node->psql($database, "\\set VERBOSITY verbose\n$statement", @options);

	$stderr =~ s/^LOCATION:.*//m;
	$stderr =~ s/^psql:<stdin>:\d+: //m;
	chomp $stderr;
	return $stderr;
}

like(
	error_of('postgres', 'SELECT "My Queues".sqs_schedule_maintenance()'),
	qr/^ERROR:  55000: extension "pg_cron" is not installed in this database\nHINT:  Run CREATE EXTENSION pg_cron\.$/,
	'without the extension, the hint is to create it');

$node->safe_psql('postgres', 'CREATE EXTENSION pg_cron');
my $job = $node->safe_psql('postgres',
	'SELECT "My Queues".sqs_schedule_maintenance()');
is( $node->safe_psql(
		'postgres',
		"SELECT schedule, command, database, username = current_user FROM cron.job WHERE jobid = $job AND jobname = 'pg_sqs maintenance of postgres'"
	),
	q{* * * * *|SELECT "My Queues".sqs_maintain()|postgres|t},
	'a job for each minute');
is( $node->safe_psql(
		'postgres', q{SELECT "My Queues".sqs_schedule_maintenance('@reboot')}),
	$job,
	'scheduled again it is the same job');
like(
	error_of(
		'postgres', q{SELECT "My Queues".sqs_schedule_maintenance('often')}),
	qr/invalid schedule: often/,
	'what pg_cron refuses is refused');
like(
	error_of(
		'postgres',
		'SELECT "My Queues".sqs_schedule_maintenance()',
		extra_params => [ '-U', 'clerk' ]),
	qr/^ERROR:  42501: must be owner of extension pg_sqs$/,
	'only the owner may');

# an exhausted message whose visibility timeout is over
$node->safe_psql('postgres', q{
SET search_path = "My Queues";
SELECT sqs_create_queue('dead');
SELECT sqs_create_queue('orders', '{"RedrivePolicy": {"deadLetterTargetArn": "dead", "maxReceiveCount": 1}}');
SELECT sqs_send('orders', 'poison');
SELECT sqs_receive('orders', visibility_timeout => 0);
});
is( $node->safe_psql(
		'postgres', q{SELECT body FROM "My Queues".sqs_peek('dead')}),
	'',
	'nothing moves by itself');
$node->restart;
ok( $node->poll_query_until(
		'postgres', q{SELECT body FROM "My Queues".sqs_peek('dead')},
		'poison'),
	'a scheduled run moves the message to the dead-letter queue');
is( $node->safe_psql(
		'postgres',
		"SELECT count(*) FROM cron.job_run_details WHERE jobid = $job AND status = 'failed'"
	),
	'0',
	'no run failed');

is( $node->safe_psql(
		'postgres', 'SELECT "My Queues".sqs_unschedule_maintenance()'),
	't',
	'the job is ended');
is( $node->safe_psql(
		'postgres', 'SELECT "My Queues".sqs_unschedule_maintenance()'),
	'f',
	'when there is none, the answer is no');

# from another database than pg_cron's
$node->safe_psql('shop', 'CREATE EXTENSION pg_sqs');
my $error = error_of('shop', "SELECT sqs_schedule_maintenance('0 * * * *')");
like(
	$error,
	qr/^ERROR:  55000: extension "pg_cron" is not installed in this database\nDETAIL:  The jobs of pg_cron are kept in database "postgres"\.\nHINT:  Run this in database "postgres": SELECT cron\.schedule_in_database/,
	'from another database the hint is what to run where');
my ($statement) = $error =~ /"postgres": (SELECT .*)$/m;
$job = $node->safe_psql('postgres', $statement);
is( $node->safe_psql(
		'postgres',
		"SELECT jobname, schedule, command, database FROM cron.job WHERE jobid = $job"
	),
	'pg_sqs maintenance of shop|0 * * * *|SELECT public.sqs_maintain()|shop',
	'and that works');
$error = error_of('shop', 'SELECT sqs_unschedule_maintenance()');
($statement) = $error =~ /"postgres": (SELECT .*)$/m;
is($node->safe_psql('postgres', $statement), 't', 'for the end as well');

# not loaded at all
$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', 'pg_sqs');
$node->adjust_conf('postgresql.conf', 'cron.database_name', undef);
$node->adjust_conf('postgresql.conf', 'cron.use_background_workers', undef);
$node->restart;
like(
	error_of('shop', 'SELECT sqs_schedule_maintenance()'),
	qr/^ERROR:  55000: .*\nHINT:  Install pg_cron, add it to shared_preload_libraries/,
	'where pg_cron is not loaded, the hint says so');
$node->stop;
done_testing();
