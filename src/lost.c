/*-------------------------------------------------------------------------
 *
 * lost.c
 *	  Receives that were rolled back, until they are counted.
 *
 * A rollback takes the receives of its transaction back, and with them that
 * they were counted.  A message that no consumer survives would come again for
 * ever and never reach the dead-letter queue.  So an abort posts its receives
 * to a ring in shared memory, and the worker adds them to the receive count of
 * the message.  It waits for no one, so if consumers are quick to receive the
 * message again, it does not get it; but they look here as well, and leave it
 * to the worker when it has been received as often as may be.
 *
 * They are taken from the ring by whoever has found the message and is about
 * to write it.  From then on they are that transaction's to lose, and posted
 * again if it aborts; if it does not get the message, it puts them back.  So
 * they are counted once, or not at all after a crash, after PREPARE
 * TRANSACTION, or when more wait than the ring holds: the latest stay.
 *
 * The ring is guarded by lost_lock.  A slot's flag says whether its queue may
 * have some there; it is guarded by the slot's lock, and set after the ring
 * was written, cleared before the ring is read.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "compat.h"
#include "shmem.h"

#define LOST_IN_CHUNK 30

/* receives that an abort takes back; the latest chunk first */
typedef struct LostChunk
{
	struct LostChunk *next;
	int			n;
	int64		ids[LOST_IN_CHUNK];
} LostChunk;

static LostChunk *free_chunks = NULL;	/* of subtransactions that ended */

/* Whether a queue may have lost receives; a guess, made without a lock. */
bool
lost_is_possible(Oid relid)
{
	int			index;

	if (shmem == NULL)
		return false;
	index = shmem_find(relid);
	return index >= 0 ? ((volatile QueueSlot *) shmem_slot(index))->lost :
		((volatile SharedState *) shmem)->lost_waiting > 0;
}

/* Sets the flag of a queue's slot. */
static void
set_flag(Oid relid, bool flag)
{
	QueueSlot  *slot = shmem_lock_queue(relid);

	if (slot == NULL)
		return;
	slot->lost = flag;
	LWLockRelease(&slot->lock);
}

/* Copies the ids of messages with lost receives, one for each. */
static int
copy_ids(Oid relid, int64 *ids, int max)
{
	int			n = 0;

	LWLockAcquire(&shmem->lost_lock, LW_SHARED);
	for (int i = 0; i < LOST_RECEIVES && n < max; i++)
	{
		const LostReceive *entry = &shmem->lost[i];

		if (entry->relid == relid && entry->dboid == MyDatabaseId)
			ids[n++] = entry->id;
	}
	LWLockRelease(&shmem->lost_lock);
	return n;
}

/*
 * Lists the lost receives of a queue, or as many as fit.  The list must be all
 * zeroes or have been used before.
 */
void
lost_list(LostList *list, Oid relid)
{
	list->n = 0;
	if (!lost_is_possible(relid))
		return;
	if (list->ids == NULL)
		list->ids = palloc_array(int64, LOST_AT_ONCE);
	set_flag(relid, false);
	list->n = copy_ids(relid, list->ids, LOST_AT_ONCE);
	if (list->n > 0)
		set_flag(relid, true);
}

/* How many there are of a message. */
int
lost_count(const LostList *list, int64 id)
{
	int			n = 0;

	for (int i = 0; i < list->n; i++)
		if (list->ids[i] == id)
			n++;
	return n;
}

/* Notes a receive of a message, which an abort takes back. */
void
effects_lose_receive(Effects *effects, int64 id)
{
	LostChunk  *chunk = effects->lost;

	if (shmem == NULL)
		return;
	if (chunk == NULL || chunk->n == LOST_IN_CHUNK)
	{
		chunk = free_chunks;
		if (chunk != NULL)
			free_chunks = chunk->next;
		else
			chunk = MemoryContextAlloc(TopTransactionContext,
									   sizeof(LostChunk));
		chunk->n = 0;
		chunk->next = effects->lost;
		effects->lost = chunk;
	}
	chunk->ids[chunk->n++] = id;
}

/* Keeps the chunks of a subtransaction that aborted for reuse. */
void
lost_forget(Effects *effects)
{
	while (effects->lost != NULL)
	{
		LostChunk  *chunk = effects->lost;

		effects->lost = chunk->next;
		chunk->next = free_chunks;
		free_chunks = chunk;
	}
}

/* Forgets those chunks, whose memory ends with the transaction. */
void
lost_end_transaction(void)
{
	free_chunks = NULL;
}

/*
 * Merges those of a subtransaction into those of its parent: few into the
 * parent's chunk, for there may be many subtransactions.
 */
void
lost_merge(Effects *into, Effects *from)
{
	LostChunk  *first = into->lost;
	LostChunk  *last = from->lost;

	if (last == NULL)
		return;
	if (first != NULL && last->next == NULL &&
		first->n + last->n <= LOST_IN_CHUNK)
	{
		memcpy(first->ids + first->n, last->ids, last->n * sizeof(int64));
		first->n += last->n;
		lost_forget(from);
		return;
	}
	while (last->next != NULL)
		last = last->next;
	last->next = into->lost;
	into->lost = from->lost;
}

/* Takes those of a message out of the ring; returns how many there were. */
static int
remove_message(Oid relid, int64 id)
{
	int			n = 0;

	LWLockAcquire(&shmem->lost_lock, LW_EXCLUSIVE);
	for (int i = 0; i < LOST_RECEIVES; i++)
	{
		LostReceive *entry = &shmem->lost[i];

		if (entry->id != id || entry->relid != relid ||
			entry->dboid != MyDatabaseId)
			continue;
		entry->dboid = entry->relid = InvalidOid;
		n++;
	}
	shmem->lost_waiting -= n;
	LWLockRelease(&shmem->lost_lock);
	return n;
}

/* Takes those of a message that is to be written; returns how many. */
int
lost_take(Effects *effects, int64 id)
{
	int			n = remove_message(effects->relid, id);

	for (int i = 0; i < n; i++)
		effects_lose_receive(effects, id);
	return n;
}

/* Posts a lost receive; lost_lock is held. */
static void
post(Oid relid, int64 id)
{
	LostReceive *entry = &shmem->lost[shmem->lost_count++ % LOST_RECEIVES];

	if (!OidIsValid(entry->dboid))
		shmem->lost_waiting++;
	entry->dboid = MyDatabaseId;
	entry->relid = relid;
	entry->id = id;
}

/*
 * Posts what an abort took back; neither fails nor allocates.  The caller sets
 * the flag of the queue's slot afterwards, if this returns true.
 */
bool
lost_report(const Effects *effects)
{
	if (effects->lost == NULL)
		return false;
	LWLockAcquire(&shmem->lost_lock, LW_EXCLUSIVE);
	for (const LostChunk *chunk = effects->lost; chunk; chunk = chunk->next)
		for (int i = 0; i < chunk->n; i++)
			post(effects->relid, chunk->ids[i]);
	LWLockRelease(&shmem->lost_lock);
	return true;
}

/* Puts back the n that were taken last: another has the message. */
void
lost_put_back(Effects *effects, int n)
{
	LWLockAcquire(&shmem->lost_lock, LW_EXCLUSIVE);
	while (n-- > 0)
	{
		if (effects->lost->n == 0)
			effects->lost = effects->lost->next;
		post(effects->relid, effects->lost->ids[--effects->lost->n]);
	}
	LWLockRelease(&shmem->lost_lock);
	set_flag(effects->relid, true);
}

/* Forgets the lost receives of a database that is no more. */
void
lost_forget_database(Oid dboid)
{
	LWLockAcquire(&shmem->lost_lock, LW_EXCLUSIVE);
	for (int i = 0; i < LOST_RECEIVES; i++)
	{
		LostReceive *entry = &shmem->lost[i];

		if (entry->dboid != dboid)
			continue;
		entry->dboid = entry->relid = InvalidOid;
		shmem->lost_waiting--;
	}
	LWLockRelease(&shmem->lost_lock);
}
