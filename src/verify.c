/*-------------------------------------------------------------------------
 *
 * verify.c
 *	  Looks whether a queue's cursor keeps its promise (see cursor.c).
 *
 * A message below the cursor that nobody has locked is one that no receive
 * would find, unless the transaction that put it there is in its end callback
 * and about to report it.  That takes microseconds.  So what is found is
 * looked at again, for a while; what stays was not reported: somebody wrote
 * to the table by hand, or there is a defect.  It is reported then.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "storage/lockdefs.h"
#include "utils/builtins.h"

#include "compat.h"
#include "shmem.h"

#define ATTEMPTS 50
#define NAP 10					/* milliseconds between two */

/* messages that are below the cursor, each time we look */
typedef struct Suspects
{
	Position   *positions;
	int			n;
	int			size;
} Suspects;

PG_FUNCTION_INFO_V1(sqs_cursor);
PG_FUNCTION_INFO_V1(sqs_verify_cursor);

/* Adds a message to the suspects. */
static void
add_suspect(Suspects *suspects, Position position)
{
	if (suspects->n == suspects->size)
	{
		suspects->size = Max(2 * suspects->size, 64);
		suspects->positions = suspects->positions == NULL ?
			palloc_array(Position, suspects->size) :
			repalloc_huge(suspects->positions,
						  suspects->size * sizeof(Position));
	}
	suspects->positions[suspects->n++] = position;
}

/* Whether a message is among suspects, which are in order. */
static bool
is_suspect(const Suspects *suspects, Position position)
{
	int			low = 0;
	int			high = suspects->n;

	while (low < high)
	{
		int			middle = low + (high - low) / 2;

		if (position_before(suspects->positions[middle], position))
			low = middle + 1;
		else
			high = middle;
	}
	return low < suspects->n &&
		!position_before(position, suspects->positions[low]);
}

/*
 * Finds the messages below the cursor that nobody has; with suspects of an
 * earlier look, only those among them.
 */
static Suspects
look(QueueTable *table, Oid relid, const Suspects *earlier)
{
	Suspects	found = {0};
	Position	cursor;
	Message		m;

	if (!cursor_position(relid, &cursor))
		return found;
	storage_snapshot(table);
	storage_scan_begin(table, POSITION_MIN, cursor.visible_at);
	while (storage_scan_next(table, &m))
	{
		Position	at = position_of(&m);

		if (position_before(at, cursor) && storage_row_state(table) == ROW_FREE &&
			(earlier == NULL || is_suspect(earlier, at)))
			add_suspect(&found, at);
	}
	storage_scan_end(table);
	return found;
}

/*
 * Verifies the cursor of a queue that is open; returns how many messages it
 * was past, and has it go back to the first.
 */
static int
verify_cursor(QueueTable *table, Oid relid)
{
	Suspects	suspects = look(table, relid, NULL);

	for (int i = 0; i < ATTEMPTS && suspects.n > 0; i++)
	{
		Position   *old = suspects.positions;

		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 NAP, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		suspects = look(table, relid, &suspects);
		pfree(old);
	}
	if (suspects.n > 0)
		cursor_report(relid, suspects.positions[0], suspects.n);
	return suspects.n;
}

/* Opens the queue of a call, to look at it. */
static QueueTable *
open_queue(FunctionCallInfo fcinfo, Queue *queue)
{
	QueueTable *table;

	catalog_get(text_argument(fcinfo, 0), queue);
	if (!storage_open(queue, AccessShareLock, &table))
		report_missing_queue(queue->name);
	check_queue_privilege(queue, ACL_SELECT);
	return table;
}

/* sqs.verify_cursor() */
Datum
sqs_verify_cursor(PG_FUNCTION_ARGS)
{
	Queue		queue;
	QueueTable *table = open_queue(fcinfo, &queue);
	int			n = verify_cursor(table, queue.relid);

	storage_close(table, true);
	PG_RETURN_INT64(n);
}

/* How many sessions wait on a locked slot. */
static int
count_waiters(const QueueSlot *slot)
{
	int			n = 0;

	for (int i = slot->first_waiter; i >= 0; i = shmem_waiters[i].next)
		n++;
	return n;
}

/* sqs.cursor() */
Datum
sqs_cursor(PG_FUNCTION_ARGS)
{
	Queue		queue;
	Datum		values[4] = {0};
	bool		nulls[4] = {false, false, false, false};
	TupleDesc	desc;
	QueueSlot  *slot;

	storage_close(open_queue(fcinfo, &queue), true);
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	slot = shmem_lock_queue(queue.relid);
	if (slot == NULL)
		PG_RETURN_NULL();
	values[0] = TimestampTzGetDatum(slot->start.visible_at);
	values[1] = Int64GetDatum(slot->start.id);
	values[2] = BoolGetDatum(pin_is_held(slot));
	values[3] = Int32GetDatum(count_waiters(slot));
	LWLockRelease(&slot->lock);
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values,
											 nulls));
}
