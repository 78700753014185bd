/*-------------------------------------------------------------------------
 *
 * worker_queue.c
 *	  Which queue the background worker looks after, when.
 *
 * There may be a thousand queues, most of them idle, and a look at one costs
 * a transaction.  So a queue is looked at when shared memory says that
 * something was committed to it, or when something known falls due: the next
 * message in the index, the end of a retention period.  A queue without a
 * slot in shared memory is looked at now and then, less and less often while
 * nothing is found.
 *
 * Two walks over the index on (visible_at, id) find what there is to do, some
 * messages at a time, each part in a transaction of its own.  The short one
 * goes on from where it stood to what is due now, and so meets each message
 * when its visibility timeout ends.  The long one goes over everything: it
 * alone finds what is past its retention, what became exhausted because the
 * queue's RedrivePolicy changed, and what was committed late, behind the
 * short one.  It may take one hundredth of the time.
 *
 * All state is the worker's own, and changed when the transaction that did
 * the work is committed.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "maintain.h"
#include "worker.h"

#define ROWS_AT_ONCE 2000		/* walked in one transaction */
#define OVERLAP (2 * USECS_PER_SEC) /* what is committed later than that, only
									 * the long walk meets */
#define LONG_INTERVAL (60 * USECS_PER_SEC)	/* between two long walks */
#define LOOK_FACTOR 10			/* rest after a look that found nothing */
#define IDLE_DELAY (60 * USECS_PER_SEC) /* to the next look if nothing is
										 * heard */
#define MIN_DELAY USECS_PER_SEC /* if nothing can be heard, from here ... */
#define MAX_DELAY (20 * USECS_PER_SEC)	/* ... to here */
#define RETRY_DELAY USECS_PER_SEC	/* if somebody was in the way */
#define FORGET_DELAY (600 * USECS_PER_SEC)	/* for names of deleted queues */

typedef struct WorkerQueue
{
	Oid			relid;			/* hash key */
	bool		is_listed;		/* by the last list */
	ListedQueue listed;
	uint64		changes;		/* commits known of at the last look */
	TimestampTz look_at;		/* whatever is heard */
	TimestampTz rest_until;		/* not before, whatever is heard */
	TimestampTz delay;			/* to the next look, without a slot */
	Walk		short_walk;
	Walk		long_walk;
	bool		long_walking;	/* in the middle of it */
	uint64		long_changes;	/* commits known of when it began */
	TimestampTz long_cost;		/* time it took so far */
	TimestampTz long_done;
	TimestampTz long_after;		/* the next begins no sooner */
	TimestampTz expiry;			/* the next one, by the last long walk */
	TimestampTz lost_at;		/* lost receives are not counted before */
	Trouble		trouble;
} WorkerQueue;

/* one look at a queue: in a transaction, so nothing is final yet */
typedef struct Look
{
	WorkerQueue after;			/* what the queue will be */
	TimestampTz began;
	bool		more;			/* there is more to walk at once */
} Look;

static HTAB *queues = NULL;
static bool listed = false;
static uint64 listed_generation;	/* of the catalog */
static TimestampTz forget_at = 0;
static Trouble list_trouble;
static Trouble forget_trouble;

/* Makes the table of queues. */
void
worker_queues_init(void)
{
	HASHCTL		ctl = {0};

	ctl.keysize = sizeof(Oid);
	ctl.entrysize = sizeof(WorkerQueue);
	queues = hash_create("pg_sqs queues of the worker", 64, &ctl,
						 HASH_ELEM | HASH_BLOBS);
}

/* Makes a queue begin both walks anew, since anything may be due. */
static void
start_over(WorkerQueue *queue)
{
	queue->short_walk.from = POSITION_MIN;
	queue->short_walk.again = POSITION_MAX;
	queue->long_walking = false;
	queue->long_after = queue->expiry = 0;
	queue->look_at = queue->rest_until = queue->delay = 0;
}

/* Takes in what the catalog says of a queue. */
static void
enter_queue(const ListedQueue *row)
{
	bool		found;
	WorkerQueue *queue;

	queue = hash_search(queues, &row->relid, HASH_ENTER, &found);
	if (!found)
	{
		memset(queue, 0, sizeof(WorkerQueue));
		queue->relid = row->relid;
	}
	if (!found || queue->listed.modified_at != row->modified_at ||
		queue->listed.dead_letter_id != row->dead_letter_id)
		start_over(queue);
	queue->listed = *row;
	queue->is_listed = true;
}

/* Reads the catalog; in a transaction. */
static void
list_queues(void *arg)
{
	HASH_SEQ_STATUS seq;
	WorkerQueue *queue;
	ListCell   *lc;
	uint64		generation = catalog_generation();
	List	   *list = maintain_list();

	hash_seq_init(&seq, queues);
	while ((queue = hash_seq_search(&seq)) != NULL)
		queue->is_listed = false;
	foreach(lc, list)
	{
		if (OidIsValid(((ListedQueue *) lfirst(lc))->relid))
			enter_queue(lfirst(lc));
	}
	hash_seq_init(&seq, queues);
	while ((queue = hash_seq_search(&seq)) != NULL)
	{
		if (!queue->is_listed)
			hash_search(queues, &queue->relid, HASH_REMOVE, NULL);
	}
	listed_generation = generation;
	listed = true;
}

/* Whether it is time for the long walk to begin. */
static bool
long_walk_is_due(const WorkerQueue *queue, uint64 changes, TimestampTz now)
{
	if (now < queue->long_after)
		return false;
	return now >= queue->expiry ||
		(now >= queue->long_done + LONG_INTERVAL &&
		 (changes == 0 || changes != queue->long_changes));
}

/* Whether a queue is to be looked at. */
static bool
look_is_due(const WorkerQueue *queue, TimestampTz now)
{
	uint64		changes;

	if (now < queue->rest_until || now < queue->trouble.retry_at)
		return false;
	if (now >= queue->look_at ||
		(now >= queue->lost_at && lost_is_possible(queue->relid)))
		return true;
	changes = shmem_changes(queue->relid);
	return changes != queue->changes &&
		(queue->listed.dead_letter_id != 0 ||
		 long_walk_is_due(queue, changes, now));
}

/* Walks a part of what has fallen due. */
static void
walk_short(Look *look, Maintenance *m)
{
	Walk	   *walk = &look->after.short_walk;

	walk->again = POSITION_MAX;
	walk->until = GetCurrentTimestamp();
	if (maintain_walk(m, walk, ROWS_AT_ONCE))
	{
		walk->from = position_at(walk->now - OVERLAP, PG_INT64_MIN);
		walk->from = position_min(walk->from, walk->again);
	}
	else
		look->more = true;
}

/* Begins the long walk, where the cursor is: before it nothing is left. */
static void
begin_long_walk(WorkerQueue *queue)
{
	Walk	   *walk = &queue->long_walk;

	if (!cursor_position(queue->relid, &walk->from))
		walk->from = POSITION_MIN;
	walk->until = walk->next_expiry = DT_NOEND;
	walk->again = POSITION_MAX;
	queue->long_walking = true;
	queue->long_changes = queue->changes;
	queue->long_cost = 0;
}

/* Ends it.  What was in somebody's hands is met again by the short one. */
static void
end_long_walk(WorkerQueue *queue, TimestampTz now)
{
	queue->long_walking = false;
	queue->long_done = now;
	queue->long_after = now + SQS_LOOK_FACTOR * queue->long_cost;
	queue->expiry = queue->long_walk.next_expiry;
	queue->short_walk.from = position_min(queue->short_walk.from,
										  queue->long_walk.again);
}

/* Walks a part of everything, if it is time. */
static void
walk_long(Look *look, Maintenance *m)
{
	WorkerQueue *queue = &look->after;
	TimestampTz began = GetCurrentTimestamp();
	bool		finished;

	if (!queue->long_walking)
	{
		if (!long_walk_is_due(queue, queue->changes, began))
			return;
		begin_long_walk(queue);
	}
	finished = maintain_walk(m, &queue->long_walk, ROWS_AT_ONCE);
	queue->long_cost += Max(GetCurrentTimestamp() - began, 0);
	if (finished)
		end_long_walk(queue, began);
	else
		look->more = true;
}

/* When to look at a queue again, whatever is heard of it till then. */
static TimestampTz
next_look(const Look *look, Maintenance *m, TimestampTz now)
{
	const WorkerQueue *queue = &look->after;
	TimestampTz next = now + (queue->changes != 0 ? IDLE_DELAY : queue->delay);

	if (look->more)
		return 0;
	if (queue->listed.dead_letter_id != 0)
		next = Min(next, storage_next_due(m->table, queue->short_walk.now));
	if (position_before(queue->short_walk.again, POSITION_MAX))
		next = Min(next, now + RETRY_DELAY);
	return Min(next, Max(queue->expiry, queue->long_after));
}

/* Notes when the next look at a queue is due, by what this one found. */
static void
plan_next(Look *look, Maintenance *m)
{
	WorkerQueue *queue = &look->after;
	TimestampTz now = GetCurrentTimestamp();

	queue->delay = m->met > 0 ? MIN_DELAY :
		Min(Max(2 * queue->delay, MIN_DELAY), MAX_DELAY);
	queue->look_at = next_look(look, m, now);
	queue->rest_until = m->changed > 0 ? 0 :
		now + LOOK_FACTOR * Max(now - look->began, 0);
}

/* Looks at a queue, in a transaction. */
static void
look_at_queue(void *arg)
{
	Look	   *look = arg;
	WorkerQueue *queue = &look->after;
	Maintenance m;

	look->began = GetCurrentTimestamp();
	queue->changes = shmem_changes(queue->relid);
	if (!maintain_begin(&m, &queue->listed))
	{
		queue->look_at = queue->rest_until = look->began + RETRY_DELAY;
		return;
	}
	if (!maintain_count_lost(&m))
		queue->lost_at = look->began + RETRY_DELAY;
	if (queue->listed.dead_letter_id != 0)
		walk_short(look, &m);
	walk_long(look, &m);
	plan_next(look, &m);
	maintain_end(&m);
}

/* Looks at a queue; what was found counts if that could be committed. */
static void
visit_queue(WorkerQueue *queue)
{
	Look		look = {0};

	look.after = *queue;
	if (!worker_run(look_at_queue, &look, &queue->trouble, queue->listed.name))
		return;
	look.after.trouble = queue->trouble;
	*queue = look.after;
}

/* Counts the messages of a queue, in a transaction. */
static void
count_messages(void *arg)
{
	maintain_gauges(&((WorkerQueue *) arg)->listed);
}

/* Does what is due for a queue; returns when to come back. */
static TimestampTz
attend_queue(WorkerQueue *queue)
{
	TimestampTz now = GetCurrentTimestamp();

	if (look_is_due(queue, now))
		visit_queue(queue);
	if (now >= queue->trouble.retry_at &&
		shmem_count_is_due(queue->relid, now))
		(void) worker_run(count_messages, queue, &queue->trouble,
						  queue->listed.name);
	return Max(Max(queue->look_at, queue->rest_until),
			   queue->trouble.retry_at);
}

/* The queues, in a form that outlives transactions. */
static List *
collect_queues(void)
{
	HASH_SEQ_STATUS seq;
	WorkerQueue *queue;
	List	   *list = NIL;

	hash_seq_init(&seq, queues);
	while ((queue = hash_seq_search(&seq)) != NULL)
		list = lappend(list, queue);
	return list;
}

/* Forgets names of deleted queues, in a transaction. */
static void
forget_deleted(void *arg)
{
	maintain_deleted_queues();
}

/* Does so, now and then. */
static void
forget_deleted_sometimes(void)
{
	TimestampTz now = GetCurrentTimestamp();

	if (now < forget_at || now < forget_trouble.retry_at ||
		!worker_run(forget_deleted, NULL, &forget_trouble, NULL))
		return;
	forget_at = now + FORGET_DELAY;
}

/* One round over all queues; returns when there is something to do again. */
TimestampTz
worker_queues_round(void)
{
	TimestampTz next = DT_NOEND;
	ListCell   *lc;

	if ((!listed || listed_generation != catalog_generation()) &&
		GetCurrentTimestamp() >= list_trouble.retry_at)
		(void) worker_run(list_queues, NULL, &list_trouble, NULL);
	foreach(lc, collect_queues())
		next = Min(next, attend_queue(lfirst(lc)));
	forget_deleted_sometimes();
	return next;
}
