/*-------------------------------------------------------------------------
 *
 * catalog_read.c
 *	  Reads sqs.queue.
 *
 * What is committed now counts, whatever the isolation level, or a queue made
 * a moment ago would be there for one call and not for the next.  A scan
 * returns every version of a row and visibility is tested here: an MVCC scan
 * at SERIALIZABLE would have sessions that create or change other queues
 * conflict with this one.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relscan.h"
#include "access/table.h"
#include "access/tableam.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/snapmgr.h"

#include "compat.h"
#include "pg_sqs.h"

/* columns of sqs.queue that are read here */
enum
{
	Anum_queue_id = 1,
	Anum_queue_name = 2,
	Anum_queue_fifo = 3,
	Anum_queue_delay_seconds = 6,
	Anum_queue_maximum_message_size = 7,
	Anum_queue_message_retention_period = 8,
	Anum_queue_receive_message_wait_time_seconds = 9,
	Anum_queue_visibility_timeout = 10,
	Anum_queue_dead_letter_queue = 11,
	Anum_queue_max_receive_count = 12
};

typedef struct CatalogScan
{
	Relation	rel;
	Snapshot	snapshot;
	SysScanDesc scan;
} CatalogScan;

/* Starts a scan of sqs.queue, for the queue of a name or (NULL) for all. */
static void
begin_scan(CatalogScan *scan, const char *name)
{
	ScanKeyData key;

	if (name != NULL)
		ScanKeyInit(&key, Anum_queue_name, BTEqualStrategyNumber, F_TEXTEQ,
					CStringGetTextDatum(name));
	scan->rel = table_open(catalog_relation("queue"), AccessShareLock);
	scan->snapshot = RegisterSnapshot(GetLatestSnapshot());
	scan->scan = systable_beginscan(scan->rel,
									catalog_relation("queue_name_key"),
									name != NULL, SnapshotAny,
									name != NULL ? 1 : 0, &key);
}

/* The next row, NULL at the end. */
static HeapTuple
next_row(CatalogScan *scan)
{
	HeapTuple	tuple;

	do
		tuple = systable_getnext(scan->scan);
	while (HeapTupleIsValid(tuple) &&
		   !table_tuple_satisfies_snapshot(scan->rel, scan->scan->slot,
										   scan->snapshot));
	return tuple;
}

/* Ends the scan. */
static void
end_scan(CatalogScan *scan)
{
	systable_endscan(scan->scan);
	UnregisterSnapshot(scan->snapshot);
	table_close(scan->rel, AccessShareLock);
}

/* Copies the row of sqs.queue. */
static void
load_row(HeapTuple tuple, TupleDesc desc, Queue *queue)
{
	bool		isnull;
	Datum		value;

#define INT_COLUMN(n) DatumGetInt32(heap_getattr(tuple, n, desc, &isnull))
	queue->id = INT_COLUMN(Anum_queue_id);
	queue->fifo = DatumGetBool(heap_getattr(tuple, Anum_queue_fifo, desc, &isnull));
	queue->delay_seconds = INT_COLUMN(Anum_queue_delay_seconds);
	queue->maximum_message_size = INT_COLUMN(Anum_queue_maximum_message_size);
	queue->message_retention_period = INT_COLUMN(Anum_queue_message_retention_period);
	queue->receive_message_wait_time_seconds =
		INT_COLUMN(Anum_queue_receive_message_wait_time_seconds);
	queue->visibility_timeout = INT_COLUMN(Anum_queue_visibility_timeout);
	queue->dead_letter_queue[0] = '\0';
	queue->max_receive_count = 0;
	value = heap_getattr(tuple, Anum_queue_dead_letter_queue, desc, &isnull);
	if (!isnull)
	{
		char	   *target = TextDatumGetCString(value);

		strlcpy(queue->dead_letter_queue, target, SQS_MAX_NAME + 1);
		pfree(target);
		queue->max_receive_count = INT_COLUMN(Anum_queue_max_receive_count);
	}
#undef INT_COLUMN
}

/* Reads the row of a queue; false if there is none of that name. */
bool
catalog_read(const char *name, Queue *queue)
{
	CatalogScan scan;
	HeapTuple	tuple;

	begin_scan(&scan, name);
	tuple = next_row(&scan);
	if (HeapTupleIsValid(tuple))
	{
		strlcpy(queue->name, name, sizeof(queue->name));
		load_row(tuple, RelationGetDescr(scan.rel), queue);
	}
	end_scan(&scan);
	return HeapTupleIsValid(tuple);
}

/* A text column of a row, NULL for NULL. */
static char *
text_column(CatalogScan *scan, HeapTuple tuple, int column)
{
	bool		isnull;
	Datum		value = heap_getattr(tuple, column,
									 RelationGetDescr(scan->rel), &isnull);

	return isnull ? NULL : TextDatumGetCString(value);
}

/* Whether a queue has its table. */
static bool
has_table(CatalogScan *scan, HeapTuple tuple)
{
	bool		isnull;
	Datum		id = heap_getattr(tuple, Anum_queue_id,
								  RelationGetDescr(scan->rel), &isnull);

	return OidIsValid(catalog_queue_table(DatumGetInt32(id)));
}

/* Order of names: that of their bytes. */
static int
compare_names(const ListCell *a, const ListCell *b)
{
	return strcmp(lfirst(a), lfirst(b));
}

/*
 * Names of all queues, in byte order; of those that start with a prefix, or
 * have this dead-letter queue, unless that is NULL.
 */
List *
catalog_names(const char *prefix, const char *dead_letter_queue)
{
	CatalogScan scan;
	HeapTuple	tuple;
	List	   *names = NIL;

	(void) catalog_owner();		/* an error without the extension */
	begin_scan(&scan, NULL);
	while ((tuple = next_row(&scan)) != NULL)
	{
		char	   *name = text_column(&scan, tuple, Anum_queue_name);
		char	   *target = text_column(&scan, tuple,
										 Anum_queue_dead_letter_queue);

		CHECK_FOR_INTERRUPTS();
		if ((prefix == NULL || strncmp(name, prefix, strlen(prefix)) == 0) &&
			(dead_letter_queue == NULL ||
			 (target != NULL && strcmp(target, dead_letter_queue) == 0)) &&
			has_table(&scan, tuple))
			names = lappend(names, name);
	}
	end_scan(&scan);
	list_sort(names, compare_names);
	return names;
}
