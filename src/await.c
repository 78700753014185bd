/*-------------------------------------------------------------------------
 *
 * await.c
 *	  CALL sqs_wait(): waits until a message can be received.
 *
 * A function called by SELECT keeps its statement's snapshot while it sleeps,
 * and with it holds vacuum back.  A procedure need not: this one commits the
 * transaction of the CALL, and after each look that of the look, so that it
 * sleeps without snapshot, lock or transaction id.  Hence it cannot be called
 * inside a transaction block.
 *
 * It takes nothing: somebody else may get the message first.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "executor/spi.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/lockdefs.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"

#include "pg_sqs.h"

#define BLOCKED_NAP (250 * 1000)	/* before another look at a locked row */

PG_FUNCTION_INFO_V1(sqs_wait);

/* Whether a receive would return this message. */
static bool
is_receivable(const Queue *queue, QueueTable *table, const Message *m,
			  TimestampTz now)
{
	return storage_row_state(table) == ROW_FREE &&
		!message_is_expired(queue, m, now) && !redrive_is_due(queue, m);
}

/*
 * Walks what is due, from a position.  *first is the first row met, which
 * stays; *blocked tells of one that somebody merely locked.
 */
static bool
walk(const Queue *queue, QueueTable *table, Position from, TimestampTz now,
	 Position *first, bool *blocked)
{
	bool		found = false;
	Message		m;

	*first = position_after(now);
	*blocked = false;
	storage_scan_begin(table, from, now);
	while (!found && storage_scan_next(table, &m))
	{
		*first = position_min(*first, position_of(&m));
		found = is_receivable(queue, table, &m, now);
		*blocked |= storage_row_state(table) == ROW_LOCKED;
	}
	storage_scan_end(table);
	return found;
}

/* Looks whether there is a message in an open queue, or when one may be. */
static bool
look(const Queue *queue, QueueTable *table, TimestampTz *next_due)
{
	CursorScan	scan;
	bool		full = false;
	bool		found;
	bool		blocked;
	TimestampTz now;

	do
	{
		Position	first;
		Position	from = cursor_scan_start(&scan, queue->relid, full);

		now = GetCurrentTimestamp();
		storage_snapshot(table);
		found = walk(queue, table, from, now, &first, &blocked);
		cursor_scan_finish(&scan, first);
		full = !found && cursor_heal_is_due(&scan);
	} while (full);
	*next_due = found ? now : storage_next_due(table, now);
	if (blocked)
		*next_due = Min(*next_due, now + BLOCKED_NAP);
	return found;
}

/* Opens the queue and looks. */
static bool
open_and_look(text *name, TimestampTz *next_due)
{
	Queue		queue;
	QueueTable *table;
	bool		found;

	catalog_get(name, &queue);
	if (!storage_open(&queue, AccessShareLock, &table))
		report_missing_queue(queue.name);
	check_message_privilege(&queue, ACL_SELECT);
	found = look(&queue, table, next_due);
	storage_close(table, true);
	return found;
}

/* Looks in a transaction of its own. */
static bool
look_and_commit(text *name, TimestampTz *next_due)
{
	bool		found;

	PushActiveSnapshot(GetTransactionSnapshot());
	found = open_and_look(name, next_due);
	PopActiveSnapshot();
	SPI_commit();
	return found;
}

/* Looks and sleeps until there is a message, or the deadline is past. */
static bool
wait_until(text *name, Oid relid, TimestampTz deadline)
{
	WaitState	wait;
	TimestampTz next_due;
	bool		found;

	wait_begin(&wait, relid, false);
	do
	{
		wait_prepare(&wait);
		found = look_and_commit(name, &next_due);
	} while (!found && wait_sleep(&wait, deadline, next_due));
	wait_end(&wait, found);
	return found;
}

/* Refuses to run where it could not commit. */
static void
check_not_atomic(FunctionCallInfo fcinfo)
{
	if (fcinfo->context == NULL || !IsA(fcinfo->context, CallContext) ||
		castNode(CallContext, fcinfo->context)->atomic)
		ereport(ERROR,
				errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				errmsg("sqs_wait() cannot run inside a transaction block"),
				errhint("Call it on its own, or use the wait_time_seconds of sqs_receive()."));
}

/* sqs_wait() */
Datum
sqs_wait(PG_FUNCTION_ARGS)
{
	TupleDesc	desc;
	Queue		queue;
	text	   *name;
	Datum		found;
	bool		isnull = false;

	check_not_atomic(fcinfo);
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	name = PG_ARGISNULL(0) ? NULL : PG_GETARG_TEXT_P_COPY(0);
	catalog_get(name, &queue);
	if (PG_ARGISNULL(1))
		report_missing_parameter("WaitTimeSeconds");
	check_seconds("WaitTimeSeconds", PG_GETARG_INT32(1), SQS_MAX_WAIT_SECONDS);

	(void) SPI_connect_ext(SPI_OPT_NONATOMIC);
	SPI_commit();
	found = BoolGetDatum(wait_until(name, queue.relid, GetCurrentTimestamp() +
									PG_GETARG_INT32(1) * USECS_PER_SEC));
	(void) SPI_finish();
	return HeapTupleGetDatum(heap_form_tuple(desc, &found, &isnull));
}
