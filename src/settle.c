/*-------------------------------------------------------------------------
 *
 * settle.c
 *	  Deletes received messages and changes their visibility, by handle.
 *
 * On a standard queue every handle of a message that still exists is good,
 * whichever receive it is of.  These calls wait for a transaction that has
 * the row; a call with several handles goes through them in order of id, so
 * that two such calls never wait for each other.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "storage/lockdefs.h"
#include "utils/builtins.h"

#include "pg_sqs.h"

/* one handle of a call, and what came of it */
typedef struct Settle
{
	text	   *handle;
	int32		timeout;		/* -1 = delete */
	Receipt		receipt;
	BatchEntry *entry;			/* NULL = an error is the call's */
	bool		many;			/* of an array: a message gone is no error */
	bool		done;
	TimestampTz visible_at;
} Settle;

PG_FUNCTION_INFO_V1(sqs_delete);
PG_FUNCTION_INFO_V1(sqs_delete_many);
PG_FUNCTION_INFO_V1(sqs_delete_batch);
PG_FUNCTION_INFO_V1(sqs_change_visibility);
PG_FUNCTION_INFO_V1(sqs_change_visibility_many);
PG_FUNCTION_INFO_V1(sqs_change_visibility_batch);

/* Where a failure of an entry goes. */
static Failure *
failure_of(Settle *s)
{
	return s->entry ? &s->entry->failure : NULL;
}

/* Checks VisibilityTimeout, which this call must have. */
static bool
check_timeout(int32 timeout, Failure *failure)
{
	if (timeout < 0 || timeout > SQS_MAX_VISIBILITY_TIMEOUT)
		return sqs_fail(failure, ERRCODE_SQS_INVALID_PARAMETER_VALUE, NULL,
						"Value %d for parameter VisibilityTimeout is invalid. Reason: Must be between 0 and %d.",
						timeout, SQS_MAX_VISIBILITY_TIMEOUT);
	return true;
}

/* Refuses to hide a message for over twelve hours since it was received. */
static bool
check_total(Settle *s, TimestampTz now)
{
	if (now - s->receipt.received_at + s->timeout * USECS_PER_SEC >
		SQS_MAX_VISIBILITY_TIMEOUT * USECS_PER_SEC)
		return sqs_fail(failure_of(s), ERRCODE_SQS_INVALID_PARAMETER_VALUE,
						"The limit counts from the receive that returned the receipt handle.",
						"Value %d for parameter VisibilityTimeout is invalid. Reason: Total VisibilityTimeout for the message is beyond the limit [%d seconds]",
						s->timeout, SQS_MAX_VISIBILITY_TIMEOUT);
	return true;
}

/* Fails for a handle whose message can no longer be hidden. */
static bool
fail_gone(Settle *s)
{
	if (s->many)
		return false;
	return sqs_fail(failure_of(s), ERRCODE_SQS_INVALID_PARAMETER_VALUE, NULL,
					"Value %s for parameter ReceiptHandle is invalid. Reason: Message does not exist or is not available for visibility timeout change.",
					excerpt_text(s->handle));
}

/* Deletes the message found; one past its retention counts as gone. */
static void
delete_found(const Queue *queue, QueueTable *table, Settle *s, Message *m)
{
	bool		expired = message_is_expired(queue, m, GetCurrentTimestamp());

	s->done = storage_delete(table, m, true) == STORAGE_DONE && !expired;
	storage_effects(table)->metrics[METRIC_DELETED]++;
}

/* Hides the message found for so many seconds from now. */
static void
hide_found(const Queue *queue, QueueTable *table, Settle *s, Message *m)
{
	TimestampTz now = GetCurrentTimestamp();

	if (!check_total(s, now))
		return;
	m->visible_at = now + s->timeout * USECS_PER_SEC;
	if (message_is_expired(queue, m, now) ||
		storage_update(table, m, true) != STORAGE_DONE)
	{
		(void) fail_gone(s);
		return;
	}
	s->visible_at = m->visible_at;
	s->done = true;
}

/* Carries out one handle. */
static void
settle_one(const Queue *queue, QueueTable *table, Settle *s)
{
	Message		m;

	if (!storage_find(table, s->receipt.id, s->receipt.row_hint, &m))
	{
		if (s->timeout < 0)
			storage_effects(table)->metrics[METRIC_DELETED]++;
		else if (check_total(s, GetCurrentTimestamp()))
			(void) fail_gone(s);
	}
	else if (!receipt_names(&s->receipt, &m))
		(void) receipt_fail(s->handle, failure_of(s));
	else if (s->timeout < 0)
		delete_found(queue, table, s, &m);
	else
		hide_found(queue, table, s, &m);
}

/* Orders handles by message. */
static int
compare_settles(const void *a, const void *b)
{
	const Settle *left = *(Settle *const *) a;
	const Settle *right = *(Settle *const *) b;

	if (left->receipt.id != right->receipt.id)
		return left->receipt.id < right->receipt.id ? -1 : 1;
	return left < right ? -1 : left > right;
}

/* Carries out handles that were parsed and found well formed. */
static void
settle(const Queue *queue, QueueTable *table, Settle *settles, int n)
{
	Settle	  **order = palloc(n * sizeof(Settle *));
	int			norder = 0;

	for (int i = 0; i < n; i++)
		if (settles[i].entry == NULL || settles[i].entry->failure.sqlstate == 0)
			order[norder++] = &settles[i];
	if (norder > 1)
		qsort(order, norder, sizeof(Settle *), compare_settles);
	for (int i = 0; i < norder; i++)
	{
		CHECK_FOR_INTERRUPTS();
		settle_one(queue, table, order[i]);
	}
	storage_close(table, false);
	pfree(order);
}

/* The VisibilityTimeout argument, which must be there. */
static int32
timeout_argument(FunctionCallInfo fcinfo, int n)
{
	if (PG_ARGISNULL(n))
		report_missing_parameter("VisibilityTimeout");
	(void) check_timeout(PG_GETARG_INT32(n), NULL);
	return PG_GETARG_INT32(n);
}

/* Carries out a single handle. */
static void
settle_single(FunctionCallInfo fcinfo, const Queue *queue, QueueTable *table,
			  Settle *s, int32 timeout)
{
	memset(s, 0, sizeof(Settle));
	s->timeout = timeout;
	s->handle = text_argument(fcinfo, 1);
	(void) receipt_parse(queue, s->handle, &s->receipt, NULL);
	settle(queue, table, s, 1);
}

/* Carries out an array of handles, all or nothing; returns how many were done. */
static int64
settle_array(FunctionCallInfo fcinfo, const Queue *queue, QueueTable *table,
			 int32 timeout)
{
	int			n;
	Datum	   *handles = array_argument(fcinfo, 1, "ReceiptHandles", &n);
	Settle	   *settles;
	int64		done = 0;

	settles = palloc_extended(Max(n, 1) * sizeof(Settle),
							  MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	for (int i = 0; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		settles[i].timeout = timeout;
		settles[i].many = true;
		settles[i].handle = text_element(handles[i]);
		(void) receipt_parse(queue, settles[i].handle, &settles[i].receipt, NULL);
	}
	settle(queue, table, settles, n);
	for (int i = 0; i < n; i++)
		done += settles[i].done ? 1 : 0;
	return done;
}

/* Reads an entry of a batch into a Settle. */
static void
read_entry(const Queue *queue, BatchEntry *entry, bool hide, Settle *s)
{
	bool		isnull = false;

	s->entry = entry;
	s->timeout = -1;
	if (!batch_text(entry, "ReceiptHandle", &s->handle))
		return;
	if (!receipt_parse(queue, s->handle, &s->receipt, &entry->failure) || !hide)
		return;
	if (!batch_int(entry, "VisibilityTimeout", &s->timeout, &isnull))
		return;
	if (isnull)
		(void) fail_missing_parameter(&entry->failure, "VisibilityTimeout");
	else
		(void) check_timeout(s->timeout, &entry->failure);
}

/* Carries out a batch. */
static void
settle_batch(FunctionCallInfo fcinfo, const Queue *queue, QueueTable *table,
			 bool hide)
{
	static const char *const delete_members[] = {"Id", "ReceiptHandle", NULL};
	static const char *const hide_members[] = {
		"Id", "ReceiptHandle", "VisibilityTimeout", NULL
	};
	BatchEntry *entries;
	Settle	   *settles;
	int			n;

	entries = batch_parse(jsonb_argument(fcinfo, 1),
						  hide ? "ChangeMessageVisibilityBatchRequestEntry" :
						  "DeleteMessageBatchRequestEntry",
						  hide ? hide_members : delete_members, &n);
	batch_check(entries, n);
	settles = palloc0_array(Settle, n);
	for (int i = 0; i < n; i++)
		read_entry(queue, &entries[i], hide, &settles[i]);
	settle(queue, table, settles, n);
	batch_return(fcinfo, entries, NULL, n);
}

/* sqs_delete() */
Datum
sqs_delete(PG_FUNCTION_ARGS)
{
	Queue		queue;
	QueueTable *table;
	Settle		s;

	table = open_queue_to_write(fcinfo, "sqs_delete()", ACL_DELETE, &queue);
	settle_single(fcinfo, &queue, table, &s, -1);
	PG_RETURN_BOOL(s.done);
}

/* sqs_delete_many() */
Datum
sqs_delete_many(PG_FUNCTION_ARGS)
{
	Queue		queue;
	QueueTable *table;

	table = open_queue_to_write(fcinfo, "sqs_delete_many()", ACL_DELETE, &queue);
	PG_RETURN_INT64(settle_array(fcinfo, &queue, table, -1));
}

/* sqs_delete_batch() */
Datum
sqs_delete_batch(PG_FUNCTION_ARGS)
{
	Queue		queue;
	QueueTable *table;

	table = open_queue_to_write(fcinfo, "sqs_delete_batch()", ACL_DELETE, &queue);
	result_begin(fcinfo, BATCH_RESULT_COLUMNS);
	settle_batch(fcinfo, &queue, table, false);
	return (Datum) 0;
}

/* sqs_change_visibility() */
Datum
sqs_change_visibility(PG_FUNCTION_ARGS)
{
	Queue		queue;
	QueueTable *table;
	Settle		s;

	table = open_queue_to_write(fcinfo, "sqs_change_visibility()", ACL_UPDATE, &queue);
	settle_single(fcinfo, &queue, table, &s, timeout_argument(fcinfo, 2));
	PG_RETURN_TIMESTAMPTZ(s.visible_at);
}

/* sqs_change_visibility_many() */
Datum
sqs_change_visibility_many(PG_FUNCTION_ARGS)
{
	Queue		queue;
	QueueTable *table;

	table = open_queue_to_write(fcinfo, "sqs_change_visibility_many()", ACL_UPDATE, &queue);
	PG_RETURN_INT64(settle_array(fcinfo, &queue, table, timeout_argument(fcinfo, 2)));
}

/* sqs_change_visibility_batch() */
Datum
sqs_change_visibility_batch(PG_FUNCTION_ARGS)
{
	Queue		queue;
	QueueTable *table;

	table = open_queue_to_write(fcinfo, "sqs_change_visibility_batch()", ACL_UPDATE, &queue);
	result_begin(fcinfo, BATCH_RESULT_COLUMNS);
	settle_batch(fcinfo, &queue, table, true);
	return (Datum) 0;
}
