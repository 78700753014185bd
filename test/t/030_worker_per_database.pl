# One worker in each database that has the extension, found without being told
# where; none elsewhere; and never in the way of a command on a database.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'pg_sqs'
max_worker_processes = 20
pg_sqs.maintenance_interval = 200ms
log_min_messages = debug1
});
$node->start;

# Waits until exactly these databases have a worker.
sub workers_are
{
	my ($expected, $name) = @_;
	my $list = join(',', sort @$expected);

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	ok( $node->poll_query_until(
			'postgres', q{
SELECT coalesce(string_agg(datname, ',' ORDER BY datname COLLATE "C"), '')
FROM pg_stat_activity WHERE backend_type = 'pg_sqs worker'}, $list),
		$name);
}

sub worker_pid
{
	return $node->safe_psql('postgres',
		"SELECT pid FROM pg_stat_activity WHERE backend_type = 'pg_sqs worker' AND datname = '$_[0]'"
	);
}

# How often a worker was started in a database so far.
sub starts_in
{
	my $log = slurp_file($node->logfile);
	my $n = () = $log =~
	  /starting background worker process "pg_sqs worker for database $_[0]"/g;
	return $n;
}

$node->poll_query_until('postgres',
	"SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'pg_sqs launcher'"
) or die "no launcher";
pass('the launcher is listed by its name');

$node->safe_psql('postgres', "CREATE DATABASE $_") for qw(shop bare);
workers_are([], 'no worker where there is no extension');

$node->safe_psql('shop', 'CREATE EXTENSION pg_sqs');
workers_are(['shop'], 'CREATE EXTENSION starts a worker');

$node->safe_psql('bare', 'BEGIN; CREATE EXTENSION pg_sqs; ROLLBACK');
workers_are(['shop'], 'CREATE EXTENSION rolled back starts none that stays');

# template copy, and the other commands that need the database alone
my ($rc, $out, $err) =
  $node->psql('postgres', 'CREATE DATABASE copy TEMPLATE shop');
is($rc, 0, 'CREATE DATABASE with a template that has a worker');
workers_are([qw(copy shop)], 'the copy gets a worker, the template keeps one');

($rc, $out, $err) =
  $node->psql('postgres', 'ALTER DATABASE copy RENAME TO clone');
is($rc, 0, 'ALTER DATABASE RENAME');
workers_are([qw(clone shop)], 'the renamed database has a worker again');

my $tablespace = PostgreSQL::Test::Utils::tempdir;
$node->safe_psql('postgres', "CREATE TABLESPACE other LOCATION '$tablespace'");
($rc, $out, $err) =
  $node->psql('postgres', 'ALTER DATABASE clone SET TABLESPACE other');
is($rc, 0, 'ALTER DATABASE SET TABLESPACE');
workers_are([qw(clone shop)], 'the moved database has a worker again');

($rc, $out, $err) = $node->psql('postgres', 'DROP DATABASE clone');
is($rc, 0, 'DROP DATABASE');
workers_are(['shop'], 'the dropped database has none');

$node->safe_psql('postgres', 'CREATE DATABASE copy TEMPLATE shop');
workers_are([qw(copy shop)], 'a copy again');
($rc, $out, $err) = $node->psql('postgres', 'DROP DATABASE copy (FORCE)');
is($rc, 0, 'DROP DATABASE with FORCE');
workers_are(['shop'], 'and none again');

# a template, and a database that lets nobody in, are left alone
$node->safe_psql('postgres', 'CREATE DATABASE copy TEMPLATE shop');
workers_are([qw(copy shop)], 'a copy once more');
$node->safe_psql('postgres',
	'ALTER DATABASE copy IS_TEMPLATE true; ALTER DATABASE shop ALLOW_CONNECTIONS false'
);
workers_are([], 'no worker in a template, nor where none may connect');
$node->safe_psql('postgres',
	'ALTER DATABASE copy IS_TEMPLATE false; ALTER DATABASE shop ALLOW_CONNECTIONS true'
);
workers_are([qw(copy shop)], 'workers when that is undone');
$node->safe_psql('postgres', 'DROP DATABASE copy');

# DROP EXTENSION, and the extension made again
my $pid = worker_pid('shop');
$node->safe_psql('shop', 'DROP EXTENSION pg_sqs CASCADE');
workers_are([], 'DROP EXTENSION ends the worker');
$node->safe_psql('shop', 'CREATE EXTENSION pg_sqs');
workers_are(['shop'], 'the extension made again has a worker again');
isnt(worker_pid('shop'), $pid, 'which is another process');

# many databases: a start each, and no more
$node->safe_psql('postgres', "CREATE DATABASE many$_") for (1 .. 6);
$node->safe_psql('many6', 'CREATE EXTENSION pg_sqs');
workers_are([qw(many6 shop)], 'one of many databases has the extension');
$node->restart;
workers_are([qw(many6 shop)], 'found again after a restart');
my %before = map { $_ => starts_in("many$_") } (1 .. 5);
$node->safe_psql('postgres', 'CREATE DATABASE copy TEMPLATE shop');
workers_are([qw(copy many6 shop)],
	'a later copy is found, so the launcher has looked again');
is_deeply(
	{ map { $_ => starts_in("many$_") } (1 .. 5) },
	\%before, 'databases without the extension are asked once');

# the database of a broken DROP DATABASE is not tried
$node->safe_psql('postgres', 'CREATE DATABASE broken TEMPLATE shop');
workers_are([qw(broken copy many6 shop)], 'a copy to break');
$node->safe_psql('postgres',
	"UPDATE pg_database SET datconnlimit = -2 WHERE datname = 'broken'; SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'broken'"
);
workers_are([qw(copy many6 shop)], 'an invalid database has no worker');
$node->safe_psql('postgres', 'DROP DATABASE broken');

# a long interval between rounds does not make a worker deaf
$node->safe_psql('postgres',
	"ALTER SYSTEM SET pg_sqs.maintenance_interval = '1h'; SELECT pg_reload_conf()"
);
($rc, $out, $err) = $node->psql('postgres', 'DROP DATABASE copy');
is($rc, 0, 'DROP DATABASE with an hour between rounds');

my $log = slurp_file($node->logfile);
my @errors = grep { /(FATAL|PANIC):/ && !/administrator command|shutdown/ }
  split /\n/, $log;
is(join("\n", @errors), '', 'nothing went wrong on the way');
$node->stop;
done_testing();
