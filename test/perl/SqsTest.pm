# SqsTest: what tests with crashes and many clients share.
#
# A killed server keeps what the kernel has: a commit that did not wait is
# lost only while its WAL is in shared memory.  The WAL writer would write it
# within a moment, so it is stopped (hold_wal); then all that reaches the disk
# is what a commit waited for, at the latest.

package SqsTest;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Time::HiRes qw(usleep);

our @EXPORT = qw(preloaded_node crash_node hold_wal crash immediate_stop start_crashed
  client endless_client finish_clients);

# A server that is running, with pg_sqs preloaded but no worker.
sub preloaded_node
{
	my ($conf) = @_;
	my $node = PostgreSQL::Test::Cluster->new('main');

	$node->init;
	$node->append_conf('postgresql.conf',
		"shared_preload_libraries = 'pg_sqs'\npg_sqs.worker = off\n" . ($conf // ''));
	$node->start;
	return $node;
}

# A server where nothing writes WAL, or has it flushed, but its clients.
sub crash_node
{
	my ($name, $conf) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	$node->init;
	$node->append_conf('postgresql.conf', qq{
shared_preload_libraries = 'pg_sqs'
pg_sqs.worker = off
autovacuum = off
checkpoint_timeout = 1h
wal_buffers = 16MB
wal_writer_delay = 10s
wal_writer_flush_after = 1GB
bgwriter_lru_maxpages = 0
max_prepared_transactions = 20
log_checkpoints = on
} . ($conf // ''));
	return $node;
}

# Stops the WAL writer, until the server ends.
sub hold_wal
{
	my ($node) = @_;

	$node->{sqs_walwriter} = $node->safe_psql('postgres',
		"SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'");
	kill('STOP', $node->{sqs_walwriter});
	return;
}

# Kills every process of the server, at once.  Where nobody collects the dead,
# the postmaster's would still look alive to the next, so its lock file is
# removed; the next also looks whether shared memory is in use.
sub crash
{
	my ($node) = @_;
	my @pids = split /\n/, $node->safe_psql('postgres',
		'SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()');

	$node->kill9;
	kill('KILL', @pids);
	unlink($node->data_dir . '/postmaster.pid');
	return;
}

# As pg_ctl stop -m immediate does, which is a crash to those inside.
sub immediate_stop
{
	my ($node) = @_;

	kill('QUIT', $node->{_pid});
	kill('KILL', $node->{sqs_walwriter}) if $node->{sqs_walwriter};
	$node->stop('immediate', fail_ok => 1);
	return;
}

# Starts a server after a crash, when the last process of it has gone.
sub start_crashed
{
	my ($node) = @_;

	for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		return if $node->start(fail_ok => 1);
		usleep(100_000);
	}
	die "server does not start after a crash";
}

# Starts psql with a script, which ends with the first error, or when the
# server is gone.  What it prints can be read when finish_clients returns.
sub client
{
	my ($node, $script) = @_;
	my $file = PostgreSQL::Test::Utils::tempdir() . '/client';

	append_to_file("$file.sql", $script);
	return start_client($node, $file, [ 'cat', "$file.sql" ],
		'-v', 'ON_ERROR_STOP=1');
}

# Starts psql with a script that it runs again and again, whatever errors it
# gets, until its connection is gone.
sub endless_client
{
	my ($node, $script) = @_;

	return start_client($node, PostgreSQL::Test::Utils::tempdir() . '/client',
		[ 'yes', $script ]);
}

sub start_client
{
	my ($node, $file, $source, @options) = @_;
	my $run = IPC::Run::start(
		$source, '|',
		[ 'psql', '-XAtq', @options, '-d', $node->connstr('postgres') ],
		'>', "$file.out", '2>', "$file.err",
		IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
	return { run => $run, file => $file };
}

# Waits until clients have ended, however; takes in what they printed.
sub finish_clients
{
	for my $client (@_)
	{
		$client->{run}->finish;
		$client->{out} = slurp_file("$client->{file}.out");
		$client->{err} = slurp_file("$client->{file}.err");
	}
	return;
}

1;
