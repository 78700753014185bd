# Whatever ends a worker or the launcher, they come back; where they must not
# run, they do not; and what keeps them from running is said once.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('primary');
$node->init(allows_streaming => 1);
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'pg_sqs'
restart_after_crash = on
pg_sqs.maintenance_interval = 200ms
});
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION pg_sqs');

# The process id of the one process of a kind, when it is not this one.
sub other_process
{
	my ($node, $kind, $not) = @_;
	my $where = "FROM pg_stat_activity WHERE backend_type = 'pg_sqs $kind'";

	$node->poll_query_until('postgres',
		"SELECT count(*) = 1 AND min(pid) <> $not $where")
	  or return 'none';
	return $node->safe_psql('postgres', "SELECT pid $where");
}

sub set_and_reload
{
	my ($node, $setting) = @_;

	$node->safe_psql('postgres',
		"ALTER SYSTEM SET $setting; SELECT pg_reload_conf()");
	return;
}

my $launcher = other_process($node, 'launcher', 0);
my $worker = other_process($node, 'worker', 0);
like($worker, qr/^\d+$/, 'a worker runs');

# terminated
$node->safe_psql('postgres', "SELECT pg_terminate_backend($worker)");
my $next = other_process($node, 'worker', $worker);
like($next, qr/^\d+$/, 'a terminated worker is started again');

$node->safe_psql('postgres', "SELECT pg_terminate_backend($launcher)");
like(other_process($node, 'launcher', $launcher),
	qr/^\d+$/, 'a terminated launcher is started again');
is(other_process($node, 'worker', 0), $next, 'its worker runs on, alone');

$node->safe_psql('postgres', 'CREATE DATABASE other');
$node->safe_psql('other', 'CREATE EXTENSION pg_sqs');
ok( $node->poll_query_until(
		'postgres',
		"SELECT count(*) = 2 FROM pg_stat_activity WHERE backend_type = 'pg_sqs worker'"
	),
	'the new launcher starts workers');
$node->safe_psql('postgres', 'DROP DATABASE other');

# cancelled: nothing ends
$launcher = other_process($node, 'launcher', 0);
$node->safe_psql('postgres',
	"SELECT pg_cancel_backend($next), pg_cancel_backend($launcher)");
is(other_process($node, 'worker', 0), $next, 'a cancelled worker goes on');
is(other_process($node, 'launcher', 0),
	$launcher, 'and so does a cancelled launcher');

# switched off and on
set_and_reload($node, 'pg_sqs.worker = off');
ok( $node->poll_query_until(
		'postgres',
		"SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'pg_sqs worker'"
	),
	'pg_sqs.worker off ends the worker');
set_and_reload($node, 'pg_sqs.worker = on');
$worker = other_process($node, 'worker', $next);
like($worker, qr/^\d+$/, 'pg_sqs.worker on starts it again');

# crash
my $offset = -s $node->logfile;
is(kill('KILL', $worker), 1, 'worker killed');
$node->wait_for_log(qr/all server processes terminated; reinitializing/,
	$offset);
$node->poll_query_until('postgres', undef, '')
  or die 'no restart after the crash';
like(other_process($node, 'worker', $worker),
	qr/^\d+$/, 'a worker runs after the crash restart');

# standby
$node->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'backup', has_streaming => 1);
$standby->start;
$node->wait_for_catchup($standby);
is( $standby->safe_psql(
		'postgres',
		"SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'pg_sqs%'"
	),
	'0',
	'nothing of ours runs on a standby');
$standby->promote;
like(other_process($standby, 'worker', 0),
	qr/^\d+$/, 'a promoted standby has its worker');
$standby->stop;

# no room
$node->safe_psql('postgres', 'CREATE DATABASE other TEMPLATE postgres');
$node->append_conf('postgresql.conf', 'max_worker_processes = 3');
$offset = -s $node->logfile;
$node->restart;
$node->wait_for_log(qr/could not start pg_sqs worker for database/, $offset);
like(other_process($node, 'worker', 0), qr/^\d+$/, 'room for one worker');
my $served = $node->safe_psql('postgres',
	"SELECT datname FROM pg_stat_activity WHERE backend_type = 'pg_sqs worker'"
);
my $waiting = $served eq 'other' ? 'postgres' : 'other';
$node->safe_psql($served, 'DROP EXTENSION pg_sqs CASCADE');
ok( $node->poll_query_until(
		'postgres',
		"SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'pg_sqs worker' AND datname = '$waiting'"
	),
	'the other database has its worker as soon as there is room');
my $log = substr(slurp_file($node->logfile), $offset);
is(scalar(() = $log =~ /could not start pg_sqs worker/g),
	1, 'that there was no room is said once');
like($log, qr/HINT:  Increase max_worker_processes/, 'with a hint');

# pg_upgrade
$node->stop;
system_or_bail('pg_ctl', '-w', '-D', $node->data_dir, '-l', $node->logfile,
	'-o', '-b --cluster-name=upgrade', 'start');
is( $node->safe_psql(
		'postgres',
		"SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'pg_sqs%'"
	),
	'0',
	'nothing of ours runs while pg_upgrade works');
system_or_bail('pg_ctl', '-w', '-D', $node->data_dir, 'stop');

done_testing();
