/*-------------------------------------------------------------------------
 *
 * receive.c
 *	  sqs_receive, sqs_consume and sqs_peek.
 *
 * A receive walks the messages due by now in (visible_at, id) order and takes
 * each by writing its new visible_at; one that another transaction has is
 * passed over, never waited for.  A message past its retention is removed on
 * the way, one received too often moves to the dead-letter queue.  Time is
 * the wall clock at each attempt, not the transaction's start.
 *
 * New leases end after the clock that bounds the walk, so that a walk never
 * meets what it just took.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "storage/lockdefs.h"
#include "utils/builtins.h"

#include "compat.h"
#include "pg_sqs.h"

#define MANY_GONE 4				/* it was kept from running for a while: what
								 * it would see next is gone, too */
#define BLOCKED_NAP (250 * 1000)	/* before another look, where nobody tells
									 * that it is worth it */

typedef enum ReceiveKind
{
	RECEIVE_LEASE,				/* sqs_receive: hide for a while */
	RECEIVE_CONSUME,			/* sqs_consume: delete */
	RECEIVE_PEEK				/* sqs_peek: leave alone */
} ReceiveKind;

typedef struct Receive
{
	ReceiveKind kind;
	FunctionCallInfo fcinfo;	/* where rows go */
	Queue		queue;
	QueueTable *table;
	int			wanted;			/* MaxNumberOfMessages */
	int			max;			/* and the in-flight quota */
	int32		visibility_timeout; /* -1 = the message's or the queue's */
	TimestampTz now;			/* clock of this attempt */
	TimestampTz received_at;	/* and of its receives, from which leases
								 * count; 0 = a new one is due, for others
								 * were faster */
	Position	blocked;		/* the first row someone merely locked */
	int			gone;			/* rows that others took since the snapshot */
	int			most_gone;		/* of them, before it looks anew */
	bool		waits;			/* for messages, with others maybe */
	bool		more;			/* there was one after those found */
	LostList	lost;			/* of the queue */
	int			found;
	bool		only_leases;	/* it wrote nothing that must not be lost */
	bool		over_limit;		/* the in-flight quota is used up */
	bool		redriving;		/* redrive is open */
	bool		no_redrive;		/* there is no queue to move to */
	Redrive		redrive;
} Receive;

PG_FUNCTION_INFO_V1(sqs_receive);
PG_FUNCTION_INFO_V1(sqs_consume);
PG_FUNCTION_INFO_V1(sqs_peek);

/* Returns a message. */
static void
return_message(Receive *r, const Message *m, text *handle)
{
	message_result_row(r->fcinfo, m, handle);
	r->found++;
}

/*
 * Whether a message is ours now.  One that somebody merely locked may be free
 * again at any time, and nobody will tell: the cursor must not pass it.
 */
static bool
is_taken(Receive *r, Position at, StorageResult result)
{
	if (result == STORAGE_LOCKED)
		r->blocked = position_min(r->blocked, at);
	if (result == STORAGE_GONE)
	{
		r->gone++;
		r->received_at = 0;
	}
	return result == STORAGE_DONE;
}

/* Takes a message and returns it, unless another transaction has it. */
static void
take_message(Receive *r, Message *m, Position at)
{
	Effects    *effects;
	text	   *handle = NULL;

	if (r->kind == RECEIVE_PEEK)
	{
		if (storage_row_state(r->table) < ROW_CLAIMED)
			return_message(r, m, NULL);
		return;
	}
	if (r->received_at == 0)
		r->received_at = Max(GetCurrentTimestamp(), r->now);
	message_count_receives(m, 1, r->received_at);
	if (r->kind == RECEIVE_LEASE)
	{
		m->visible_at = r->received_at +
			message_lease(&r->queue, m, r->visibility_timeout);
		if (!is_taken(r, at, storage_update(r->table, m, false)))
			return;
		handle = receipt_make(&r->queue, m, storage_row_hint(r->table));
		metrics_note_taken(r->queue.relid);
	}
	else
	{
		m->visible_at = 0;
		if (!is_taken(r, at, storage_delete(r->table, m, false)))
			return;
	}
	effects = storage_effects(r->table);
	effects->metrics[METRIC_RECEIVED]++;
	if (r->kind == RECEIVE_CONSUME)
		effects->metrics[METRIC_DELETED]++;
	effects_lose_receive(effects, m->id);
	return_message(r, m, handle);
}

/* Whether a message is to be moved, and there is a queue to move it to. */
static bool
must_redrive(Receive *r, const Message *m)
{
	if (!redrive_is_due(&r->queue, m) || r->no_redrive)
		return false;
	if (r->redriving)
		return true;
	if (r->kind == RECEIVE_PEEK)
		r->no_redrive = !redrive_find(&r->queue, &r->redrive.queue);
	else
	{
		r->redriving = redrive_open(&r->queue, &r->redrive);
		r->no_redrive = !r->redriving;
	}
	return !r->no_redrive;
}

/* Moves a message to the dead-letter queue. */
static bool
move_message(Receive *r, Message *m, Position at)
{
	if (!is_taken(r, at, storage_delete(r->table, m, false)))
		return false;
	redrive_insert(&r->redrive, &r->queue, m, r->now);
	r->only_leases = false;
	return true;
}

/* Whether a message is to be moved if its lost receives are counted. */
static bool
is_lost_case(Receive *r, const Message *m)
{
	Message		counted = *m;

	counted.receive_count += lost_count(&r->lost, m->id);
	return counted.receive_count > m->receive_count &&
		must_redrive(r, &counted);
}

/*
 * Has such a message moved: by the worker, if there is one, since a consumer
 * that always rolls back would take this back, too.
 */
static void
move_lost_case(Receive *r, Message *m, Position at)
{
	int			lost;

	if (worker_wake())
	{
		r->blocked = position_min(r->blocked, at);
		return;
	}
	lost = lost_take(storage_effects(r->table), m->id);
	m->receive_count += lost;
	if (!move_message(r, m, at))
		lost_put_back(storage_effects(r->table), lost);
}

/* Does with a message that is due what is to be done. */
static void
meet_message(Receive *r, Message *m, Position at)
{
	if (message_is_expired(&r->queue, m, r->now))
	{
		if (r->kind != RECEIVE_PEEK)
			(void) is_taken(r, at, storage_delete(r->table, m, false));
	}
	else if (must_redrive(r, m))
	{
		if (r->kind != RECEIVE_PEEK)
			(void) move_message(r, m, at);
	}
	else if (r->lost.n > 0 && is_lost_case(r, m))
		move_lost_case(r, m, at);
	else
		take_message(r, m, at);
}

/* Walks what is due, from a position; returns where it got to. */
static Position
walk(Receive *r, Position from)
{
	Position	walked_to = from;
	Message		m;

	r->blocked = POSITION_MAX;
	r->gone = 0;
	storage_scan_begin(r->table, from, r->now);
	while (r->found < r->max && r->gone < r->most_gone)
	{
		if (!storage_scan_next(r->table, &m))
		{
			walked_to = position_after(r->now);
			break;
		}
		walked_to = position_of(&m);
		meet_message(r, &m, walked_to);
		walked_to.id++;
	}
	r->more = r->waits && r->found == r->max &&
		storage_scan_next(r->table, &m);
	storage_scan_end(r->table);
	walked_to = position_min(walked_to, r->blocked);
	/* a trigger might have put something behind us */
	if (r->kind != RECEIVE_PEEK && r->queue.plain && !r->redriving)
		xact_own_walked(r->queue.relid, walked_to);
	if (r->redriving)
		redrive_close(&r->redrive);
	r->redriving = r->no_redrive = false;
	return walked_to;
}

/* Looks without taking anything, so the cursor is no business of ours. */
static void
peek(Receive *r)
{
	Position	from;

	if (!cursor_position(r->queue.relid, &from))
		from = POSITION_MIN;
	from = position_min(from, xact_lowest_own(r->queue.relid));
	r->now = GetCurrentTimestamp();
	r->most_gone = INT_MAX;
	storage_snapshot(r->table);
	(void) walk(r, from);
}

/* Whether the in-flight quota leaves room; takes no more than that. */
static bool
has_room(Receive *r)
{
	int			left = r->kind == RECEIVE_LEASE ?
		metrics_in_flight_left(&r->queue, r->table) : INT_MAX;

	r->over_limit = left == 0;
	r->max = Min(r->wanted, left);
	return !r->over_limit;
}

/*
 * Looks once; takes what is due in index order, up to the maximum.  Where many
 * receive, a process may have to wait for its turn to run, and its snapshot
 * is out of date then: it goes on with a new one, from where the cursor is.
 * Its clock stays, or it could meet what it took itself.
 */
static void
attempt(Receive *r)
{
	bool		full = false;
	bool		again = false;

	if (!has_room(r))
	{
		r->now = GetCurrentTimestamp();
		storage_snapshot(r->table);
		return;
	}
	do
	{
		CursorScan	scan;
		Position	from;

		from = cursor_scan_start(&scan, r->queue.relid, full);
		r->most_gone = scan.full ? INT_MAX : MANY_GONE;
		if (!again)
			r->now = r->received_at = GetCurrentTimestamp();
		storage_snapshot(r->table);
		lost_list(&r->lost, r->queue.relid);
		storage_set_walker(r->table, &scan);
		cursor_scan_finish(&scan, walk(r, from));
		storage_set_walker(r->table, NULL);
		again = r->gone >= r->most_gone;
		full = !again && r->found == 0 && cursor_heal_is_due(&scan);
	} while (again || full);
}

/* Opens the queue, and checks what the caller may do with it. */
static void
open_queue(Receive *r)
{
	static const AclMode needed[] = {
		[RECEIVE_LEASE] = ACL_SELECT | ACL_UPDATE,
		[RECEIVE_CONSUME] = ACL_SELECT | ACL_UPDATE | ACL_DELETE,
		[RECEIVE_PEEK] = ACL_SELECT
	};

	if (!storage_open(&r->queue, r->kind == RECEIVE_PEEK ?
					  AccessShareLock : RowExclusiveLock, &r->table))
		report_missing_queue(r->queue.name);
	check_message_privilege(&r->queue, needed[r->kind]);
	r->only_leases &= r->queue.plain && !r->queue.fifo;
}

/* Looks until something is found or the time is over. */
static void
receive_until(Receive *r, TimestampTz deadline)
{
	WaitState	wait;

	r->waits = true;
	wait_begin(&wait, r->queue.relid, true);
	for (;;)
	{
		TimestampTz due;

		wait_prepare(&wait);
		attempt(r);
		if (r->found > 0)
			break;
		due = storage_next_due(r->table, r->now);
		if (r->over_limit || position_before(r->blocked, POSITION_MAX))
			due = Min(due, r->now + BLOCKED_NAP);
		storage_close(r->table, true);
		if (!wait_sleep(&wait, deadline, due))
			break;
		open_queue(r);
	}
	wait_end(&wait, r->more);
	if (r->found > 0)
		storage_close(r->table, false);
}

/* Checks MaxNumberOfMessages. */
static void
check_max(int32 value)
{
	if (value < 1 || value > sqs_max_batch_size)
		sqs_error(ERRCODE_SQS_INVALID_PARAMETER_VALUE,
				  "The setting pg_sqs.max_batch_size is the most messages of one receive.",
				  "Value %d for parameter MaxNumberOfMessages is invalid. Reason: Must be between 1 and %d, if provided.",
				  value, sqs_max_batch_size);
}

/* Refuses ReceiveRequestAttemptId, which only FIFO queues know. */
static void
check_attempt_id(FunctionCallInfo fcinfo, int n, const Queue *queue)
{
	char	   *id = string_argument(fcinfo, n);

	if (id != NULL && !queue->fifo)
		sqs_error(ERRCODE_SQS_INVALID_PARAMETER_VALUE,
				  "Only FIFO queues take a ReceiveRequestAttemptId.",
				  "Value %s for parameter ReceiveRequestAttemptId is invalid. Reason: The request include parameter that is not valid for this queue type.",
				  excerpt(id, strlen(id)));
}

/* Takes the arguments that all three functions have in common. */
static void
begin_receive(Receive *r, ReceiveKind kind, FunctionCallInfo fcinfo,
			  int default_max)
{
	memset(r, 0, sizeof(Receive));
	r->kind = kind;
	r->only_leases = kind == RECEIVE_LEASE;
	r->fcinfo = fcinfo;
	r->visibility_timeout = -1;
	r->wanted = r->max = int_argument(fcinfo, 1, default_max);
	message_result_begin(fcinfo);
	catalog_get(text_argument(fcinfo, 0), &r->queue);
	check_max(r->max);
}

/* Receives, waiting as long as the caller or else the queue says. */
static void
receive(Receive *r, int32 wait_seconds)
{
	if (wait_seconds < 0)
		wait_seconds = r->queue.receive_message_wait_time_seconds;
	open_queue(r);
	if (wait_seconds > 0)
		receive_until(r, GetCurrentTimestamp() + wait_seconds * USECS_PER_SEC);
	else
	{
		attempt(r);
		if (r->over_limit)
			metrics_report_over_limit();
		storage_close(r->table, false);
	}
	if (r->found == 0)
		xact_effects(r->queue.relid)->metrics[METRIC_EMPTY_RECEIVES]++;
	xact_receive_exit(r->only_leases);
}

/* sqs_receive(): takes messages and hides them. */
Datum
sqs_receive(PG_FUNCTION_ARGS)
{
	Receive		r;

	check_may_write("sqs_receive()");
	xact_receive_enter();
	begin_receive(&r, RECEIVE_LEASE, fcinfo, 1);
	if (!PG_ARGISNULL(2))
	{
		r.visibility_timeout = PG_GETARG_INT32(2);
		check_seconds("VisibilityTimeout", r.visibility_timeout,
					  SQS_MAX_VISIBILITY_TIMEOUT);
	}
	if (!PG_ARGISNULL(3))
		check_seconds("WaitTimeSeconds", PG_GETARG_INT32(3),
					  SQS_MAX_WAIT_SECONDS);
	check_attempt_id(fcinfo, 4, &r.queue);
	receive(&r, int_argument(fcinfo, 3, -1));
	return (Datum) 0;
}

/* sqs_consume(): takes messages and deletes them. */
Datum
sqs_consume(PG_FUNCTION_ARGS)
{
	Receive		r;

	check_may_write("sqs_consume()");
	xact_receive_enter();
	begin_receive(&r, RECEIVE_CONSUME, fcinfo, 1);
	if (!PG_ARGISNULL(2))
		check_seconds("WaitTimeSeconds", PG_GETARG_INT32(2),
					  SQS_MAX_WAIT_SECONDS);
	receive(&r, int_argument(fcinfo, 2, -1));
	return (Datum) 0;
}

/* sqs_peek(): shows messages and leaves them alone. */
Datum
sqs_peek(PG_FUNCTION_ARGS)
{
	Receive		r;

	begin_receive(&r, RECEIVE_PEEK, fcinfo, 10);
	open_queue(&r);
	peek(&r);
	storage_close(r.table, false);
	return (Datum) 0;
}
