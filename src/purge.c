/*-------------------------------------------------------------------------
 *
 * purge.c
 *	  sqs_purge_queue.
 *
 * Deletes every message that was there when the call looked: visible, delayed
 * or in flight; what is sent meanwhile stays.  Messages are deleted in order of
 * id, waiting for each that somebody has: that is the order in which calls
 * with several receipt handles take theirs, so none of them and a purge ever
 * wait for each other.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/lockdefs.h"
#include "utils/builtins.h"

#include "pg_sqs.h"
#include "attribute.h"
#include "sql.h"

PG_FUNCTION_INFO_V1(sqs_purge_queue);

/* Refuses a purge soon after the last one, and notes this one. */
static void
check_purged_lately(const Queue *queue)
{
	const char *args[2];

	if (sqs_cooldown == 0)
		return;
	queue_lock(queue->name);
	args[0] = psprintf("%d", queue->id);
	args[1] = psprintf("%d", sqs_cooldown);
	if (sql_run(SQL_ROW,
				"SELECT FROM sqs.queue WHERE id = $1::int4"
				" AND purged_at > clock_timestamp() - make_interval(secs => $2::float8)",
				2, args).rows > 0)
		sqs_error(ERRCODE_SQS_PURGE_QUEUE_IN_PROGRESS,
				  "Setting pg_sqs.cooldown is this time in seconds; 0 turns it off.",
				  "Only one PurgeQueue operation on %s is allowed every %d seconds.",
				  queue->name, sqs_cooldown);
	sql_run(SQL_ROW,
			"UPDATE sqs.queue SET purged_at = clock_timestamp()"
			" WHERE " SQL_THE_QUEUE, 1, args);
}

/* Deletes every message, waiting for whoever has it. */
static void
delete_all(QueueTable *table)
{
	Message		m;

	storage_snapshot(table);
	storage_scan_by_id(table);
	while (storage_scan_next(table, &m))
		(void) storage_delete(table, &m, true);
	storage_scan_end(table);
}

/* sqs_purge_queue(queue_name) */
Datum
sqs_purge_queue(PG_FUNCTION_ARGS)
{
	Queue		queue;
	QueueTable *table;

	check_may_write("sqs_purge_queue()");
	catalog_get(text_argument(fcinfo, 0), &queue);
	check_queue_owner(&queue);
	check_purged_lately(&queue);
	if (!storage_open(&queue, RowExclusiveLock, &table))
		report_missing_queue(queue.name);
	check_queue_owner(&queue);
	delete_all(table);
	storage_close(table, true);
	PG_RETURN_VOID();
}
