/*-------------------------------------------------------------------------
 *
 * maintain.c
 *	  What queues need done when nobody uses them: by sqs_maintain() in one
 *	  pass, and by the background worker bit by bit.
 *
 * Messages past their retention are removed; messages received as often as
 * their queue allows, whose last visibility timeout is over, move to the
 * dead-letter queue; receives that a rollback took back are counted; names of
 * deleted queues are forgotten.
 *
 * Nothing here waits for anyone.  A table or a row that somebody has is passed
 * over, and met again next time.
 *
 * Whoever runs this may be a superuser, but a queue's owner decides what code
 * its triggers and index expressions run.  So everything that touches a
 * queue's table happens as its owner, in a security-restricted operation.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "maintain.h"
#include "sql.h"

#define FORGET_SECONDS "3600"	/* most that pg_sqs.cooldown can be */

PG_FUNCTION_INFO_V1(sqs_maintain);

/* The queues there are. */
List *
maintain_list(void)
{
	List	   *list = NIL;
	SqlResult	rows;

	rows = sql_run(SQL_LIST,
				   "SELECT q.id, coalesce(d.id, 0), q.name,"
				   " extract(epoch FROM q.modified_at)::numeric * 1000000"
				   " FROM sqs.queue q LEFT JOIN sqs.queue d"
				   " ON d.name = q.dead_letter_queue AND d.id <> q.id"
				   " ORDER BY q.id", 0, NULL);
	for (int i = 0; i < rows.rows; i++)
	{
		ListedQueue *queue = palloc0(sizeof(ListedQueue));

		queue->id = pg_strtoint32(sql_value(&rows, i, 0));
		queue->dead_letter_id = pg_strtoint32(sql_value(&rows, i, 1));
		strlcpy(queue->name, sql_value(&rows, i, 2), sizeof(queue->name));
		queue->modified_at = strtoi64(sql_value(&rows, i, 3), NULL, 10);
		queue->relid = catalog_queue_table(queue->id);
		list = lappend(list, queue);
	}
	return list;
}

/* Locks a table to change it; false if somebody is in the way. */
static bool
lock_at_once(Oid relid)
{
	return OidIsValid(relid) &&
		ConditionalLockRelationOid(relid, RowExclusiveLock);
}

/*
 * Begins to maintain a queue; false where it is gone or its table is locked.
 * Ends with maintain_end(), or the end of the (sub)transaction.
 */
bool
maintain_begin(Maintenance *m, const ListedQueue *listed)
{
	Oid			owner;

	memset(m, 0, sizeof(Maintenance));
	m->listed = listed;
	if (!lock_at_once(listed->relid))
		return false;
	owner = catalog_table_owner(listed->relid);
	if (!OidIsValid(owner))
		return false;
	identity_assume(owner, &m->own);
	if (catalog_find(listed->name, &m->queue) &&
		m->queue.relid == listed->relid &&
		storage_open(&m->queue, RowExclusiveLock, &m->table))
		return true;
	maintain_end(m);
	return false;
}

/*
 * Ends it, and goes back to be who we were.  Where nothing was changed, the
 * table's locks are released: one pass may meet more queues than the server
 * has room for locks.
 */
void
maintain_end(Maintenance *m)
{
	bool		unlock = m->changed == 0 && !m->redriving;

	if (m->redriving)
		redrive_close(&m->redrive);
	if (m->table != NULL)
		storage_close(m->table, unlock);
	if (unlock)
		UnlockRelationOid(m->listed->relid, RowExclusiveLock);
	m->redriving = false;
	m->table = NULL;
	identity_resume(&m->own);
}

/* Opens the dead-letter queue; false if that cannot be. */
static bool
open_redrive(Maintenance *m)
{
	if (m->redriving || m->no_redrive || m->redrive_busy)
		return m->redriving;
	if (m->listed->dead_letter_id == 0)
		m->no_redrive = true;
	else if (!lock_at_once(catalog_queue_table(m->listed->dead_letter_id)))
		m->redrive_busy = true;
	else
	{
		m->redriving = redrive_open(&m->queue, &m->redrive);
		m->no_redrive = !m->redriving;
	}
	return m->redriving;
}

/* Moves the message found last to the dead-letter queue. */
static StorageResult
move_message(Maintenance *m, Message *message, TimestampTz now)
{
	StorageResult result = storage_delete(m->table, message, false);

	if (result == STORAGE_DONE)
		redrive_insert(&m->redrive, &m->queue, message, now);
	return result;
}

/* Counts a queue's messages for its metrics, if it is time. */
void
maintain_gauges(const ListedQueue *listed)
{
	Maintenance m;

	if (!maintain_begin(&m, listed))
		return;
	metrics_refresh(&m.queue);
	maintain_end(&m);
}

/*
 * Does what is to be done with a message met by a walk; false if somebody has
 * it, so that it must be met again.
 */
static bool
meet_message(Maintenance *m, Walk *walk, Message *message)
{
	TimestampTz expiry = message_expiry(&m->queue, message);
	StorageResult result;

	if (expiry <= walk->now)
		result = storage_delete(m->table, message, false);
	else
	{
		walk->next_expiry = Min(walk->next_expiry, expiry);
		if (message->visible_at > walk->now ||
			!redrive_is_due(&m->queue, message))
			return true;
		if (!open_redrive(m))
			return !m->redrive_busy;
		result = move_message(m, message, walk->now);
	}
	if (result == STORAGE_DONE)
		m->changed++;
	return result != STORAGE_BUSY && result != STORAGE_LOCKED;
}

/*
 * Walks some messages of a queue, and does with each what is to be done.
 * True if that was all.
 */
bool
maintain_walk(Maintenance *m, Walk *walk, int max_rows)
{
	Message		message;
	bool		more = true;

	walk->now = GetCurrentTimestamp();
	storage_snapshot(m->table);
	storage_scan_begin(m->table, walk->from, walk->until);
	while (max_rows-- > 0 && (more = storage_scan_next(m->table, &message)))
	{
		Position	at = position_of(&message);

		m->met++;
		if (!meet_message(m, walk, &message))
			walk->again = position_min(walk->again, at);
		walk->from = position_at(at.visible_at, at.id + 1);
	}
	storage_scan_end(m->table);
	return !more;
}

/* Writes a message that has so many more receives, or moves it. */
static StorageResult
add_receives(Maintenance *m, Message *message, int n, TimestampTz now)
{
	message_count_receives(message, n, now);
	if (redrive_is_due(&m->queue, message) && open_redrive(m))
		return move_message(m, message, now);
	return storage_update(m->table, message, false);
}

/*
 * Counts the receives of a message that were rolled back.  False if that must
 * wait: a receive has the message now.
 */
static bool
count_lost(Maintenance *m, int64 id)
{
	TimestampTz now = GetCurrentTimestamp();
	Message		message;
	bool		exists;
	int			n;

	storage_snapshot(m->table);
	exists = storage_find(m->table, id, 0, &message);
	if (exists && message.visible_at > now)
		return false;
	n = lost_take(storage_effects(m->table), id);
	if (n == 0 || !exists)
		return true;
	if (add_receives(m, &message, n, now) == STORAGE_DONE)
	{
		m->changed++;
		return true;
	}
	lost_put_back(storage_effects(m->table), n);
	return false;
}

/*
 * Counts the receives of a queue that were rolled back, or some of them; false
 * if any must be tried again.
 */
bool
maintain_count_lost(Maintenance *m)
{
	LostList	lost = {0};
	bool		done;

	lost_list(&lost, m->queue.relid);
	done = lost.n < LOST_AT_ONCE;
	for (int i = 0; i < lost.n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		done &= count_lost(m, lost.ids[i]);
	}
	return done;
}

/* Forgets names of queues deleted longer ago than any cooldown lasts. */
void
maintain_deleted_queues(void)
{
	if (IsolationUsesXactSnapshot() ||
		!lock_at_once(catalog_relation("deleted_queue")))
		return;
	(void) sql_run(SQL_ROW,
				   "DELETE FROM sqs.deleted_queue WHERE ctid = ANY (ARRAY("
				   "SELECT ctid FROM sqs.deleted_queue WHERE deleted_at <"
				   " clock_timestamp() - interval '" FORGET_SECONDS " s'"
				   " FOR UPDATE SKIP LOCKED))", 0, NULL);
}

/* Does everything there is to do for a queue. */
static void
maintain_queue(const ListedQueue *listed)
{
	Walk		walk = {0};
	Maintenance m;

	if (!maintain_begin(&m, listed))
		return;
	walk.from = POSITION_MIN;
	walk.until = DT_NOEND;
	(void) maintain_count_lost(&m);
	(void) maintain_walk(&m, &walk, INT_MAX);
	maintain_end(&m);
	maintain_gauges(listed);
}

/* Tells the caller which queue could not be maintained, and why. */
static void
warn_of_failure(const ListedQueue *listed, ErrorData *error)
{
	if (error->sqlerrcode == ERRCODE_QUERY_CANCELED)
		ReThrowError(error);
	ereport(WARNING,
			errcode(error->sqlerrcode),
			errmsg("could not maintain queue \"%s\": %s",
				   listed->name, error->message),
			error->detail ? errdetail_internal("%s", error->detail) : 0,
			error->hint ? errhint("%s", error->hint) : 0);
	FreeErrorData(error);
}

/* Maintains a queue in a subtransaction, so that its failure stays its own. */
static void
maintain_apart(const ListedQueue *listed)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	ErrorData  *volatile error = NULL;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		maintain_queue(listed);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	if (error != NULL)
		warn_of_failure(listed, error);
}

/* sqs_maintain(): one pass over everything */
Datum
sqs_maintain(PG_FUNCTION_ARGS)
{
	MemoryContext context;
	List	   *queues;
	ListCell   *lc;

	PreventCommandIfReadOnly("sqs_maintain()");
	check_extension_owner();
	queues = maintain_list();
	context = AllocSetContextCreate(CurrentMemoryContext, "sqs_maintain",
									ALLOCSET_DEFAULT_SIZES);
	foreach(lc, queues)
	{
		MemoryContext old = MemoryContextSwitchTo(context);

		CHECK_FOR_INTERRUPTS();
		maintain_apart(lfirst(lc));
		MemoryContextSwitchTo(old);
		MemoryContextReset(context);
	}
	MemoryContextDelete(context);
	maintain_deleted_queues();
	PG_RETURN_VOID();
}
