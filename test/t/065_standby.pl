# A standby shows queues and changes none; promoted, it goes on at once with
# what was replicated, and with what was prepared.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('primary');
$node->init(allows_streaming => 1);
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'pg_sqs'
pg_sqs.worker = off
max_prepared_transactions = 10
});
$node->start;
$node->safe_psql('postgres', q{
CREATE EXTENSION pg_sqs;
CREATE TABLE handle (receipt_handle text);
SELECT sqs_create_queue('dead');
SELECT sqs_create_queue('later');
SELECT sqs_create_queue('q', '{"RedrivePolicy": {"deadLetterTargetArn": "dead", "maxReceiveCount": 3}}', '{"team": "a"}');
SELECT sqs_add_permission('q', 'anyone', '{public}', '{SendMessage}');
SELECT sqs_create_queue('unlogged', '{"Unlogged": true}');
SELECT sqs_send('unlogged', 'm');
});
$node->backup('backup');

# one that has shared memory of ours, one that has not
my %standbys;
for my $name (qw(preloaded bare))
{
	my $standby = PostgreSQL::Test::Cluster->new($name);

	$standby->init_from_backup($node, 'backup', has_streaming => 1);
	$standby->append_conf('postgresql.conf', q{
pg_sqs.worker = on
pg_sqs.maintenance_interval = 200ms
});
	$standby->append_conf('postgresql.conf', 'shared_preload_libraries = \'\'')
	  if $name eq 'bare';
	$standby->start;
	$standbys{$name} = $standby;
}

$node->safe_psql('postgres', q{
SELECT sqs_send('q', 'm' || n) FROM generate_series(1, 6) n;
SELECT sqs_send('q', 'delayed', 1);
WITH m AS (SELECT * FROM sqs_receive('q', 1, 43200)) INSERT INTO handle SELECT receipt_handle FROM m;
SELECT FROM sqs_receive('q', 1, 2);
BEGIN; SELECT sqs_send('q', 'prepared'); PREPARE TRANSACTION 'send';
BEGIN; SELECT FROM sqs_consume('q'); PREPARE TRANSACTION 'consume';
});
$node->wait_for_catchup($_) for values %standbys;

#
# What writes
#
my $h = '(SELECT receipt_handle FROM handle)';
my $entries = qq{(SELECT jsonb_build_array(jsonb_build_object('Id', 'a', 'ReceiptHandle', $h, 'VisibilityTimeout', 0)))};
my %writing = (
	sqs_create_queue => [ q{sqs_create_queue('new')}, q{sqs_create_queue('q')} ],
	sqs_delete_queue => [q{sqs_delete_queue('q')}],
	sqs_set_queue_attributes => [q{sqs_set_queue_attributes('q', '{"DelaySeconds": 1}')}],
	sqs_purge_queue => [q{sqs_purge_queue('q')}],
	sqs_tag_queue => [q{sqs_tag_queue('q', '{"a": "b"}')}],
	sqs_untag_queue => [q{sqs_untag_queue('q', '{team}')}],
	sqs_add_permission => [q{sqs_add_permission('q', 'more', '{public}', '{ReceiveMessage}')}],
	sqs_remove_permission => [q{sqs_remove_permission('q', 'anyone')}],
	sqs_send => [q{sqs_send('q', 'x')}],
	sqs_send_batch => [q{sqs_send_batch('q', '[{"Id": "a", "MessageBody": "x"}]')}],
	sqs_send_many => [q{sqs_send_many('q', '{x,y}')}],
	sqs_receive => [
		q{sqs_receive('q')}, q{sqs_receive('q', 10, 0, 20)},
		q{sqs_receive('dead')} ],
	sqs_consume => [ q{sqs_consume('q')}, q{sqs_consume('dead', 1, 20)} ],
	sqs_delete => [qq{sqs_delete('q', $h)}],
	sqs_delete_batch => [qq{sqs_delete_batch('q', $entries #- '{0,VisibilityTimeout}')}],
	sqs_delete_many => [qq{sqs_delete_many('q', ARRAY[$h])}],
	sqs_change_visibility => [qq{sqs_change_visibility('q', $h, 0)}],
	sqs_change_visibility_batch => [qq{sqs_change_visibility_batch('q', $entries)}],
	sqs_change_visibility_many => [qq{sqs_change_visibility_many('q', ARRAY[$h], 0)}],
	sqs_maintain => [q{sqs_maintain()}],
	sqs_reset_metrics => [ q{sqs_reset_metrics()}, q{sqs_reset_metrics('q')} ],
	sqs_schedule_maintenance => [q{sqs_schedule_maintenance()}],
	sqs_unschedule_maintenance => [q{sqs_unschedule_maintenance()}]);
my @reading = qw(sqs_list_queues sqs_get_queue_attributes sqs_list_queue_tags
  sqs_list_permissions sqs_peek sqs_list_dead_letter_source_queues sqs_backoff
  sqs_md5_of_message_attributes sqs_wait);

# Has each call fail with 25006.
sub refused
{
	my ($on, $where, $begin, @calls) = @_;
	my $script = join '', map { "$begin\n\\o /dev/null\nSELECT $_;\n\\o\n\\echo :SQLSTATE\nROLLBACK;\n" } @calls;
	my ($rc, $out, $err) = $on->psql('postgres', $script, on_error_stop => 0);

	my @states = split /\n/, $out;
	is_deeply([ map { "$_ " . shift(@states) } @calls ], [ map { "$_ 25006" } @calls ], "what writes is refused $where");
	return;
}

my $functions = $node->safe_psql('postgres', q{
SELECT string_agg(DISTINCT proname, ' ' ORDER BY proname) FROM pg_proc p
	JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
WHERE proname LIKE 'sqs\_%'});
my @functions = grep { my $f = $_; !grep { $_ eq $f } @reading } split / /, $functions;
is_deeply(\@functions, [ sort keys %writing ], 'all functions are known here');
refused($standbys{$_}, "on standby $_", 'BEGIN;', map { @{ $writing{$_} } } @functions)
  for sort keys %standbys;
refused($node, 'in a read-only transaction', 'BEGIN READ ONLY;',
	map { @{ $writing{$_} } } grep { $_ ne 'sqs_reset_metrics' } @functions);

#
# What reads: as on the primary
#
my $look = q{
SELECT sqs_list_queues();
SELECT q, sqs_get_queue_attributes(q), sqs_list_queue_tags(q) FROM sqs_list_queues() q WHERE q <> 'unlogged';
SELECT sqs_list_permissions('q');
SELECT sqs_list_dead_letter_source_queues('dead');
SELECT q, body, receive_count, visible_at FROM sqs_list_queues() q, sqs_peek(q, 10) WHERE q <> 'unlogged';
SELECT queue_name, approximate_number_of_messages_visible, approximate_number_of_messages_not_visible, approximate_number_of_messages_delayed FROM sqs_metrics WHERE queue_name <> 'unlogged';
SELECT sqs_backoff(3), sqs_md5_of_message_attributes('{"a": 1}');
};
# wait out what becomes visible by itself meanwhile
$node->poll_query_until('postgres', q{SELECT count(*) = 5 FROM sqs_peek('q', 10)})
  or die 'the messages do not become visible';
my $seen = $node->safe_psql('postgres', $look);
like($seen, qr/m4/, 'the primary shows messages');
for my $name (sort keys %standbys)
{
	my $standby = $standbys{$name};

	is($standby->safe_psql('postgres', $look), $seen, "standby $name shows the same");
	is($standby->safe_psql('postgres', "BEGIN ISOLATION LEVEL REPEATABLE READ; $look"),
		$seen, 'also at REPEATABLE READ');
	is($standby->safe_psql('postgres', q{SELECT number_of_messages_sent, stats_reset FROM sqs_metrics WHERE queue_name = 'q'}),
		'|', 'counters are not kept there');
	is($standby->safe_psql('postgres', q{SELECT sqs.cursor('q') IS NULL, sqs.verify_cursor('q')}),
		't|0', 'nor is a cursor');
	is($standby->safe_psql('postgres', q{
SELECT count(*) FROM sqs_peek('unlogged');
SELECT approximate_number_of_messages_visible FROM sqs_metrics WHERE queue_name = 'unlogged';
SELECT sqs_get_queue_attributes('unlogged', '{ApproximateNumberOfMessages}') ->> 'ApproximateNumberOfMessages';
SELECT sqs.verify_cursor('unlogged');
CALL sqs_wait('unlogged', 1, NULL)}),
		"0\n0\n0\n0\nf", 'an unlogged queue is empty there');
}

# waiting, for what comes from the primary
my @calls = map { [ $_, $standbys{$_}->background_psql('postgres') ] } sort keys %standbys;
for my $call (@calls)
{
	is($call->[1]->query_safe(q{CALL sqs_wait('q', 20, NULL)}), 't', "sqs_wait on standby $call->[0] sees that there is something");
	is($call->[1]->query_safe(q{CALL sqs_wait('dead', 0, NULL)}), 'f', 'and that there is nothing');
	$call->[1]->query_until(qr/waiting/, "\\echo waiting\nCALL sqs_wait('dead', 20, NULL);\n");
}
$node->safe_psql('postgres', q{SELECT sqs_send('dead', 'm')});
for my $call (@calls)
{
	like($call->[1]->query(''), qr/^t/m, "sqs_wait on standby $call->[0] waits for it");
	# and on, over the promotion
	$call->[1]->query_until(qr/waiting/, "\\echo waiting\nCALL sqs_wait('later', 20, NULL);\n");
}
my %waiting = map { $_->[0] => $_->[1] } @calls;

# sessions from before the promotion, which know the queue by then
my %sessions = map { $_ => $standbys{$_}->background_psql('postgres') } keys %standbys;
$_->query_safe(q{SELECT count(*) FROM sqs_peek('q'); SELECT count(*) FROM sqs_metrics; SELECT count(*) FROM sqs_peek('unlogged')}) for values %sessions;

# a message comes, another goes; a queue comes, another changes
my $gone = $node->safe_psql('postgres', q{SELECT sqs_send('q', 'late'); SELECT body FROM sqs_consume('q')}) =~ s/^\(.*\n//r;
$node->safe_psql('postgres', q{
SELECT sqs_set_queue_attributes('q', '{"VisibilityTimeout": 700}');
SELECT sqs_create_queue('another');
SELECT sqs_send('another', 'first');
});
$node->wait_for_catchup($_) for values %standbys;
is($sessions{$_}->query_safe(q{
SELECT sqs_get_queue_attributes('q') ->> 'VisibilityTimeout', body FROM sqs_peek('another')}),
	'700|first', "a session on standby $_ that has looked before sees that")
  for sort keys %sessions;
$node->stop('immediate');

#
# Promotion
#
for my $name (sort keys %standbys)
{
	my $standby = $standbys{$name};

	$standby->promote;
	my $received = $sessions{$name}->query_safe(q{SELECT body FROM sqs_receive('q', 10, 43200)});
	is( join(' ', sort split /\n/, $received),
		join(' ', sort grep { $_ ne $gone } qw(m2 m4 m5 m6 delayed late)),
		"standby $name, promoted: all that is visible is received");
	is($standby->safe_psql('postgres', q{SELECT body FROM sqs_receive('q')}), '', 'once');
	is($sessions{$name}->query_safe(q{SELECT sqs_delete('q', receipt_handle) FROM handle}), 't', 'a handle from before is good');
	$standby->safe_psql('postgres', q{COMMIT PREPARED 'send'});
	is($sessions{$name}->query_safe(q{SELECT body FROM sqs_consume('q', 10)}), 'prepared', 'what was prepared before is received');
	$standby->safe_psql('postgres', q{ROLLBACK PREPARED 'consume'});
	is($sessions{$name}->query_safe(q{SELECT body FROM sqs_consume('q', 10)}), 'm3', 'what a prepared transaction had is, too');
	is($standby->safe_psql('postgres', q{SELECT sqs_send('q', 'new') IS NULL; SELECT body FROM sqs_consume('q')}), "f\nnew", 'and a new message');
	is($sessions{$name}->query_safe(q{SELECT sqs.verify_cursor('q')}), '0', 'the cursor is right');
	is($sessions{$name}->query_safe(q{SELECT sqs_send('unlogged', 'new') IS NULL; SELECT body FROM sqs_receive('unlogged', 10)}), "f\nnew", 'an unlogged queue works');
	$standby->safe_psql('postgres', q{SELECT sqs_send('later', 'm')});
	like($waiting{$name}->query(''), qr/^t/m, 'one who waits since before hears of it');
	$waiting{$name}->quit;
	$sessions{$name}->quit;
	if ($name eq 'preloaded')
	{
		ok($standby->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'pg_sqs worker'}),
			'its worker runs');
	}
	$standby->stop;
}
done_testing();
