/*-------------------------------------------------------------------------
 *
 * metrics.c
 *	  How many messages a queue has, and what was done with it.
 *
 * Counters (messages sent, received, …) are in the queue's slot of shared
 * memory, added at commit; without a slot they are not kept.
 *
 * Gauges (messages visible, not visible, delayed) are kept in the slot as
 * well, approximately: a commit moves a message from one to another, but a
 * message whose time came does so without anyone's act.  So they are counted
 * anew: by the worker where something changed or fell due, and by whoever
 * asks while the queue is small (SMALL_QUEUE), so that their answer is exact.
 * The count starts at the cursor, which skips what is long gone.  Reading the
 * gauges of a large queue costs the same at any backlog.  Without a slot they
 * are counted each time.
 *
 * The in-flight quota is judged by the gauge; only at the limit is the part of
 * the index that can be in flight counted, and no more often than costs one
 * hundredth of the time.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "utils/builtins.h"

#include "compat.h"
#include "pg_sqs.h"

#define SMALL_QUEUE 1000		/* messages counted for every question */
#define METRICS_COLUMNS 13		/* of sqs.metrics() */
#define POISON_RECEIVES 3		/* a message received so often is not the
								 * oldest */

PG_FUNCTION_INFO_V1(sqs_metrics);
PG_FUNCTION_INFO_V1(sqs_reset_metrics);

/* Which gauge a message counts in. */
Metric
metrics_gauge_of(TimestampTz visible_at, int32 receive_count, TimestampTz now)
{
	if (visible_at <= now)
		return METRIC_VISIBLE;
	return receive_count > 0 ? METRIC_NOT_VISIBLE : METRIC_DELAYED;
}

/* Counts a message in its gauge, and for the age of the oldest. */
static void
count_message(const Message *m, TimestampTz now, int64 *values)
{
	TimestampTz since = m->enqueued_at != 0 ? m->enqueued_at : m->sent_at;

	values[metrics_gauge_of(m->visible_at, m->receive_count, now)]++;
	if (m->receive_count < POISON_RECEIVES &&
		(values[METRIC_OLDEST] == 0 || since < values[METRIC_OLDEST]))
		values[METRIC_OLDEST] = since;
}

/* what a count found */
typedef struct Count
{
	int64		values[METRIC_COUNT];
	Position	lowest;			/* of all messages, or the end of those due */
	TimestampTz next_due;		/* the first not due yet; DT_NOEND if none */
} Count;

/* Counts the messages of an open queue from a position on. */
static void
count_from(const Queue *queue, QueueTable *table, Position from,
		   TimestampTz now, Count *count)
{
	Message		m;

	memset(count->values, 0, sizeof(count->values));
	count->lowest = position_after(now);
	count->next_due = DT_NOEND;
	storage_snapshot(table);
	storage_scan_begin(table, from, DT_NOEND);
	while (storage_scan_next(table, &m))
	{
		if (count->lowest.id == PG_INT64_MAX && m.visible_at <= now)
			count->lowest = position_of(&m);
		if (m.visible_at > now && count->next_due == DT_NOEND)
			count->next_due = m.visible_at;
		if (!message_is_expired(queue, &m, now))
			count_message(&m, now, count->values);
	}
	storage_scan_end(table);
}

/* What the transaction's own doings add to gauges; false if it did nothing. */
static bool
add_own(Oid relid, int64 *values)
{
	int64		own[METRIC_COUNT];

	if (!xact_own_metrics(relid, own))
		return false;
	for (int m = METRIC_FIRST_GAUGE; m < METRIC_OLDEST; m++)
		values[m] = Max(values[m] + own[m], 0);
	return true;
}

/* Counts all messages of a queue, and sets the gauges for everyone. */
static void
count_exactly(Queue *queue, int64 *values)
{
	QueueTable *table;
	CursorScan	scan;
	int64		own[METRIC_COUNT];
	Position	from;
	Count		count;
	uint64		changes;

	if (!storage_open(queue, AccessShareLock, &table))
		report_missing_queue(queue->name);
	from = cursor_scan_start(&scan, queue->relid, false);
	changes = shmem_begin_count(queue->relid);
	count_from(queue, table, from, GetCurrentTimestamp(), &count);
	cursor_scan_abandon(&scan);
	storage_close(table, true);
	memcpy(values, count.values, sizeof(count.values));
	if (!xact_own_metrics(queue->relid, own))
		shmem_set_gauges(queue->relid, values, changes, count.next_due);
}

/* The gauges of a queue: exact for a small one, else what is remembered. */
void
metrics_gauges(Queue *queue, int64 *values)
{
	TimestampTz since;
	int64		total;

	if (shmem_read_metrics(queue->relid, values, &since))
	{
		(void) add_own(queue->relid, values);
		total = values[METRIC_VISIBLE] + values[METRIC_NOT_VISIBLE] +
			values[METRIC_DELAYED];
		if (total > SMALL_QUEUE && values[METRIC_OLDEST] != 0)
			return;
	}
	count_exactly(queue, values);
}

/* The messages in flight on an open queue, counted: those due later only. */
static int64
count_in_flight(const Queue *queue, QueueTable *table, TimestampTz now)
{
	Count		count;

	count_from(queue, table, position_after(now), now, &count);
	return count.values[METRIC_NOT_VISIBLE];
}

/* what this session counted last, for the in-flight quota */
static struct
{
	Oid			relid;
	TimestampTz counted;
	TimestampTz cost;
	int64		in_flight;
}			last_count;

/* Whether the count of this session is to be trusted still. */
static bool
last_count_is_good(Oid relid, TimestampTz now)
{
	return last_count.relid == relid && sqs_max_inflight > SMALL_QUEUE &&
		now >= last_count.counted &&
		now - last_count.counted < SQS_LOOK_FACTOR * last_count.cost;
}

/*
 * How many more messages of an open queue may be in flight; INT_MAX where
 * there is no limit near.
 */
int
metrics_in_flight_left(const Queue *queue, QueueTable *table)
{
	int64		values[METRIC_COUNT];
	TimestampTz since;
	TimestampTz now;

	if (sqs_max_inflight == 0)
		return INT_MAX;
	if (shmem_read_metrics(queue->relid, values, &since))
	{
		(void) add_own(queue->relid, values);
		if (values[METRIC_NOT_VISIBLE] + sqs_max_batch_size < sqs_max_inflight)
			return INT_MAX;
	}
	now = GetCurrentTimestamp();
	if (!last_count_is_good(queue->relid, now))
	{
		last_count.relid = queue->relid;
		last_count.in_flight = count_in_flight(queue, table, now);
		last_count.counted = GetCurrentTimestamp();
		last_count.cost = last_count.counted - now;
	}
	return (int) Max(sqs_max_inflight - last_count.in_flight, 0);
}

/* Notes a message that this session took since it counted. */
void
metrics_note_taken(Oid relid)
{
	if (last_count.relid == relid)
		last_count.in_flight++;
}

/* Raises the error of a short poll at the in-flight quota. */
void
metrics_report_over_limit(void)
{
	sqs_error(ERRCODE_SQS_OVER_LIMIT,
			  "The setting pg_sqs.max_inflight is the most messages of a queue that may be in flight.",
			  "Too many messages have been received without being deleted. Please delete your received messages or let them timeout before receiving more.");
}

/*
 * Looks at every message of a queue: sets the gauges, and has the cursor go
 * back to the lowest message there is, which heals it where somebody changed
 * the table by other means than ours.
 */
static void
recount(Queue *queue)
{
	QueueTable *table;
	CursorScan	scan;
	Count		count;
	uint64		changes;

	if (!storage_open(queue, AccessShareLock, &table))
		return;
	(void) cursor_scan_start(&scan, queue->relid, true);
	changes = shmem_begin_count(queue->relid);
	count_from(queue, table, POSITION_MIN, GetCurrentTimestamp(), &count);
	cursor_scan_finish(&scan, count.lowest);
	storage_close(table, true);
	shmem_set_gauges(queue->relid, count.values, changes, count.next_due);
}

/*
 * Does so if something changed or fell due since, and it is time; not in a
 * transaction whose own changes are yet to be added.
 */
void
metrics_refresh(Queue *queue)
{
	int64		own[METRIC_COUNT];

	if (!xact_own_metrics(queue->relid, own) &&
		shmem_count_is_due(queue->relid, GetCurrentTimestamp()))
		recount(queue);
}

/* Returns the row of a queue. */
static void
return_metrics(FunctionCallInfo fcinfo, Queue *queue)
{
	static const Metric columns[] = {
		METRIC_VISIBLE, METRIC_NOT_VISIBLE, METRIC_DELAYED, METRIC_SENT,
		METRIC_RECEIVED, METRIC_DELETED, METRIC_EMPTY_RECEIVES,
		METRIC_DEDUPLICATED, METRIC_SENT_BYTES
	};
	Datum		values[METRICS_COLUMNS] = {0};
	bool		nulls[METRICS_COLUMNS] = {false};
	int64		gauges[METRIC_COUNT];
	int64		counters[METRIC_COUNT];
	TimestampTz since;
	bool		counted;

	metrics_gauges(queue, gauges);
	counted = shmem_read_metrics(queue->relid, counters, &since);
	values[0] = CStringGetTextDatum(queue->name);
	values[1] = Int64GetDatum(gauges[METRIC_OLDEST] == 0 ? 0 :
							  Max(GetCurrentTimestamp() - gauges[METRIC_OLDEST], 0) /
							  USECS_PER_SEC);
	for (int i = 0; i < lengthof(columns); i++)
	{
		bool		is_gauge = columns[i] >= METRIC_FIRST_GAUGE;

		values[i + 2] = Int64GetDatum(is_gauge ? gauges[columns[i]] :
									  counters[columns[i]]);
		nulls[i + 2] = (!is_gauge && !counted) ||
			(columns[i] == METRIC_DEDUPLICATED && !queue->fifo);
	}
	nulls[11] = true;			/* groups in flight: FIFO queues only */
	values[12] = TimestampTzGetDatum(counted ? since : 0);
	nulls[12] = !counted;
	result_row(fcinfo, values, nulls);
}

/* sqs.metrics(): a row for each queue that the caller may see */
Datum
sqs_metrics(PG_FUNCTION_ARGS)
{
	ListCell   *lc;

	result_begin(fcinfo, METRICS_COLUMNS);
	foreach(lc, catalog_names(NULL, NULL))
	{
		Queue		queue;

		CHECK_FOR_INTERRUPTS();
		if (catalog_find(lfirst(lc), &queue) && may_count_messages(&queue))
			return_metrics(fcinfo, &queue);
	}
	return (Datum) 0;
}

/* Zeroes the counters of every queue that the user owns. */
static void
reset_all(void)
{
	ListCell   *lc;

	foreach(lc, catalog_names(NULL, NULL))
	{
		Queue		queue;

		CHECK_FOR_INTERRUPTS();
		if (catalog_find(lfirst(lc), &queue) &&
			owns_queue(&queue))
			shmem_reset_counters(queue.relid);
	}
}

/* sqs_reset_metrics(): zeroes the counters of a queue, or of all of the caller's */
Datum
sqs_reset_metrics(PG_FUNCTION_ARGS)
{
	Queue		queue;

	PreventCommandDuringRecovery("sqs_reset_metrics()");
	if (PG_ARGISNULL(0))
		reset_all();
	else
	{
		catalog_get(PG_GETARG_TEXT_PP(0), &queue);
		check_queue_owner(&queue);
		shmem_reset_counters(queue.relid);
	}
	PG_RETURN_VOID();
}
