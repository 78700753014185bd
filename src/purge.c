/*-------------------------------------------------------------------------
 *
 * purge.c
 *	  sqs_purge_queue.
 *
 * Deletes every message that was there when the call looked: visible, delayed
 * or in flight; what is sent meanwhile stays.  First all rows that nobody has
 * are deleted, then one after the other those that somebody had, waiting for
 * each.  Waiting last means that a consumer which still wants a row of ours
 * has mostly been served before we hold any, so that the two seldom deadlock.
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

typedef struct IdList
{
	int64	   *ids;
	int			n;
	int			size;
} IdList;

PG_FUNCTION_INFO_V1(sqs_purge_queue);

/* Adds an id to a list. */
static void
add_id(IdList *list, int64 id)
{
	if (list->n == list->size)
	{
		list->size = Max(list->size * 2, 64);
		list->ids = list->ids ?
			repalloc_huge(list->ids, sizeof(int64) * list->size) :
			palloc(sizeof(int64) * list->size);
	}
	list->ids[list->n++] = id;
}

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

/* Deletes every message that can be had at once, and lists the others. */
static void
delete_free(QueueTable *table, IdList *busy)
{
	Message		m;

	storage_snapshot(table);
	storage_scan_begin(table, POSITION_MIN, DT_NOEND);
	while (storage_scan_next(table, &m))
		if (storage_delete(table, &m, false) != STORAGE_DONE)
			add_id(busy, m.id);
	storage_scan_end(table);
}

/* Deletes the messages listed, waiting for whoever has them. */
static void
delete_busy(QueueTable *table, const IdList *busy)
{
	Message		m;

	for (int i = 0; i < busy->n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (storage_find(table, busy->ids[i], 0, &m))
			(void) storage_delete(table, &m, true);
	}
}

/* sqs_purge_queue(queue_name) */
Datum
sqs_purge_queue(PG_FUNCTION_ARGS)
{
	Queue		queue;
	QueueTable *table;
	IdList		busy = {0};

	check_may_write("sqs_purge_queue()");
	catalog_get(text_argument(fcinfo, 0), &queue);
	check_queue_owner(&queue);
	check_purged_lately(&queue);
	if (!storage_open(&queue, RowExclusiveLock, &table))
		report_missing_queue();
	check_queue_owner(&queue);
	delete_free(table, &busy);
	delete_busy(table, &busy);
	storage_close(table, true);
	PG_RETURN_VOID();
}
