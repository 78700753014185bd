/*-------------------------------------------------------------------------
 *
 * shmem.c
 *	  Shared memory: a slot for each queue in use, and how to find it.
 *
 * The tables are the truth.  A slot only holds what makes it fast: where to
 * start looking, who waits, and counters.  So it exists only if the extension
 * is preloaded, a queue may find no slot, and a slot may be taken away for
 * another queue: each time all that is lost is time.
 *
 * The directory, a hash table from (database, table) to slot, is guarded by
 * directory_lock; what is in a slot by the slot's own lock, taken after it.
 * Each session remembers which slot a queue had; whether it still has, it
 * sees when it has locked the slot.
 *
 * When all slots are taken, a newcomer gets that of the queue not used for
 * longest, unless even that one was used a moment ago: two queues that kept
 * taking a slot from each other would be worse off than one without.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/twophase.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/shmem.h"
#include "utils/hsearch.h"

#include "compat.h"
#include "shmem.h"

#define TRANCHE "pg_sqs"
#define IDLE_TIME (60 * USECS_PER_SEC)	/* before a queue loses its slot */
#define RETRY_TIME USECS_PER_SEC	/* between attempts at that */
#define REMEMBERED 64			/* slots a session knows without looking up */

typedef struct DirectoryEntry
{
	SlotKey		key;
	int			slot;
} DirectoryEntry;

SharedState *shmem = NULL;
Pin		   *shmem_pins = NULL;
Waiter	   *shmem_waiters = NULL;

static HTAB *directory = NULL;
static char *slots = NULL;
static shmem_request_hook_type prev_request_hook = NULL;
static shmem_startup_hook_type prev_startup_hook = NULL;

/* which slot a queue had when we last saw it, by the table's OID */
static struct
{
	Oid			relid;
	int			slot;
}			remembered[REMEMBERED];

/* How many pins there are: enough for transactions that touch four queues. */
static int
pin_count(void)
{
	return 4 * max_prepared_xacts;
}

/* Asks for the memory. */
static void
request_shmem(void)
{
	Size		size = MAXALIGN(sizeof(SharedState));

	if (prev_request_hook)
		prev_request_hook();
	size = add_size(size, mul_size(sqs_max_queues + 1, SLOT_SIZE));
	size = add_size(size, mul_size(pin_count(), sizeof(Pin)));
	size = add_size(size, mul_size(MaxBackends, sizeof(Waiter)));
	size = add_size(size, hash_estimate_size(sqs_max_queues,
											 sizeof(DirectoryEntry)));
	RequestAddinShmemSpace(add_size(size, 4 * PG_CACHE_LINE_SIZE));
}

/* Sets up the slots, all free. */
static void
init_slots(int tranche)
{
	for (int i = 0; i < sqs_max_queues; i++)
	{
		QueueSlot  *slot = shmem_slot(i);

		memset(slot, 0, sizeof(QueueSlot));
		LWLockInitialize(&slot->lock, tranche);
		slot->next_free = i + 1 < sqs_max_queues ? i + 1 : -1;
		for (int m = 0; m < METRIC_COUNT; m++)
			pg_atomic_init_u64(&slot->metrics[m], 0);
		for (int cell = 0; cell < CELLS; cell++)
			pg_atomic_init_u64(&slot->taking[cell].id, 0);
	}
	shmem->first_free_slot = 0;
}

/* Sets up everything else. */
static void
init_state(int tranche)
{
	LWLockInitialize(&shmem->directory_lock, tranche);
	LWLockInitialize(&shmem->lost_lock, tranche);
	pg_atomic_init_u64(&shmem->full_until, 0);
	shmem->first_free_pin = -1;
	for (int i = 0; i < pin_count(); i++)
	{
		shmem_pins[i].next = shmem->first_free_pin;
		shmem->first_free_pin = i;
	}
	for (int i = 0; i < MaxBackends; i++)
		shmem_waiters[i].slot = -1;
}

/* Makes the memory, or finds what is there. */
static void
startup_shmem(void)
{
	HASHCTL		info = {
		.keysize = sizeof(SlotKey),
		.entrysize = sizeof(DirectoryEntry)
	};
	bool		found;
	void	   *memory;

	if (prev_startup_hook)
		prev_startup_hook();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	shmem = ShmemInitStruct("pg_sqs", sizeof(SharedState), &found);
	memory = ShmemInitStruct("pg_sqs slots",
							 mul_size(sqs_max_queues + 1, SLOT_SIZE), &found);
	slots = (char *) TYPEALIGN(PG_CACHE_LINE_SIZE, memory);
	shmem_pins = ShmemInitStruct("pg_sqs pins",
								 mul_size(Max(pin_count(), 1), sizeof(Pin)),
								 &found);
	shmem_waiters = ShmemInitStruct("pg_sqs waiters",
									mul_size(MaxBackends, sizeof(Waiter)),
									&found);
	directory = ShmemInitHash("pg_sqs directory", sqs_max_queues,
							  sqs_max_queues, &info, HASH_ELEM | HASH_BLOBS);
	if (!found)
	{
		memset(shmem, 0, sizeof(SharedState));
		shmem->tranche = LWLockNewTrancheId(TRANCHE);
		init_state(shmem->tranche);
		init_slots(shmem->tranche);
	}
	register_tranche(shmem->tranche, TRANCHE);
	LWLockRelease(AddinShmemInitLock);
}

/* Sets up shared memory, when the library is preloaded. */
void
shmem_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
		return;
	prev_request_hook = shmem_request_hook;
	shmem_request_hook = request_shmem;
	prev_startup_hook = shmem_startup_hook;
	shmem_startup_hook = startup_shmem;
}

/* The slot of an index. */
QueueSlot *
shmem_slot(int index)
{
	return (QueueSlot *) (slots + index * SLOT_SIZE);
}

/* The index of a slot. */
int
shmem_index(const QueueSlot *slot)
{
	return ((const char *) slot - slots) / SLOT_SIZE;
}

/* Whether a slot is that of a queue of this database. */
bool
shmem_slot_is_of(const QueueSlot *slot, Oid relid)
{
	return slot->key.relid == relid && slot->key.dboid == MyDatabaseId;
}

/* The slot a queue had when last seen; -1 = not known. */
static int
recall(Oid relid)
{
	return remembered[relid % REMEMBERED].relid == relid ?
		remembered[relid % REMEMBERED].slot : -1;
}

/* Remembers the slot of a queue. */
static void
remember(Oid relid, int slot)
{
	remembered[relid % REMEMBERED].relid = relid;
	remembered[relid % REMEMBERED].slot = slot;
}

/* Looks a queue up in the directory, which the caller has locked. */
static int
look_up(Oid relid)
{
	SlotKey		key = {.dboid = MyDatabaseId,.relid = relid};
	DirectoryEntry *entry = hash_search(directory, &key, HASH_FIND, NULL);

	if (entry == NULL)
		return -1;
	remember(relid, entry->slot);
	return entry->slot;
}

/*
 * The slot of a queue, -1 = it has none.  Unless the directory or the slot is
 * locked, that is true only until someone recycles the slot.
 */
int
shmem_find(Oid relid)
{
	int			index;

	if (shmem == NULL)
		return -1;
	index = recall(relid);
	if (index >= 0 && shmem_slot_is_of(shmem_slot(index), relid))
		return index;
	LWLockAcquire(&shmem->directory_lock, LW_SHARED);
	index = look_up(relid);
	LWLockRelease(&shmem->directory_lock);
	return index;
}

/*
 * Locks the slot of a queue and returns it; NULL if it has none.  Good in the
 * callbacks at the end of a transaction: neither fails nor allocates.
 */
QueueSlot *
shmem_lock_queue(Oid relid)
{
	QueueSlot  *slot;
	int			index;

	if (shmem == NULL)
		return NULL;
	index = recall(relid);
	if (index >= 0)
	{
		slot = shmem_slot(index);
		LWLockAcquire(&slot->lock, LW_EXCLUSIVE);
		if (shmem_slot_is_of(slot, relid))
			return slot;
		LWLockRelease(&slot->lock);
	}
	LWLockAcquire(&shmem->directory_lock, LW_SHARED);
	index = look_up(relid);
	slot = index >= 0 ? shmem_slot(index) : NULL;
	if (slot != NULL)
		LWLockAcquire(&slot->lock, LW_EXCLUSIVE);
	LWLockRelease(&shmem->directory_lock);
	return slot;
}

/* Frees a slot; it and the directory are locked by the caller. */
static void
free_slot(QueueSlot *slot)
{
	wait_detach_all(slot);
	while (slot->first_pin >= 0)
	{
		int			pin = slot->first_pin;

		slot->first_pin = shmem_pins[pin].next;
		shmem_pins[pin].next = shmem->first_free_pin;
		shmem->first_free_pin = pin;
	}
	(void) hash_search(directory, &slot->key, HASH_REMOVE, NULL);
	slot->key.dboid = slot->key.relid = InvalidOid;
	slot->generation++;
	slot->used_cells = 0;
	slot->next_free = shmem->first_free_slot;
	shmem->first_free_slot = shmem_index(slot);
}

/* Whether a slot has something that must not be forgotten. */
static bool
is_in_use(const QueueSlot *slot)
{
	return slot->first_pin >= 0 || slot->first_waiter >= 0;
}

/* Frees the slot not used for longest, if that is long enough. */
static void
recycle_slot(TimestampTz now)
{
	QueueSlot  *oldest = NULL;

	for (int i = 0; i < sqs_max_queues; i++)
	{
		QueueSlot  *slot = shmem_slot(i);

		if (!is_in_use(slot) &&
			(oldest == NULL || slot->last_used < oldest->last_used))
			oldest = slot;
	}
	if (oldest == NULL)
		return;
	LWLockAcquire(&oldest->lock, LW_EXCLUSIVE);
	if (!is_in_use(oldest) && now - oldest->last_used >= IDLE_TIME)
		free_slot(oldest);
	LWLockRelease(&oldest->lock);
}

/*
 * Makes a free slot that of a queue.  Everything about the queue is unknown:
 * the cursor is at the start, and transactions prepared by now may hold
 * anything.  Those prepared later find the slot, as the directory is locked.
 */
static void
assign_slot(QueueSlot *slot, Oid relid, TimestampTz now)
{
	LWLockAcquire(&slot->lock, LW_EXCLUSIVE);
	slot->generation++;
	slot->start = POSITION_MIN;
	slot->used_cells = 0;
	slot->first_pin = -1;
	slot->first_waiter = slot->last_waiter = slot->watcher = -1;
	slot->unknown = max_prepared_xacts > 0 ?
		ReadNextTransactionId() : InvalidTransactionId;
	slot->pins_checked = slot->healed = 0;
	slot->heal_cost = 0;
	slot->lost = shmem->lost_waiting > 0;	/* from when it had no slot */
	slot->last_used = slot->since = now;
	slot->changes = 1;			/* gauges were never counted */
	slot->counted_changes = 0;
	slot->counted_due = DT_NOEND;
	for (int m = 0; m < METRIC_COUNT; m++)
		pg_atomic_write_u64(&slot->metrics[m], 0);
	slot->key.dboid = MyDatabaseId;
	slot->key.relid = relid;
	LWLockRelease(&slot->lock);
}

/* Finds or makes the slot of a queue, with the directory locked. */
static int
create_slot(Oid relid, TimestampTz now)
{
	SlotKey		key = {.dboid = MyDatabaseId,.relid = relid};
	int			index = look_up(relid);
	DirectoryEntry *entry;

	if (index >= 0)
		return index;
	if (shmem->first_free_slot < 0)
		recycle_slot(now);
	index = shmem->first_free_slot;
	if (index < 0 ||
		(entry = hash_search(directory, &key, HASH_ENTER_NULL, NULL)) == NULL)
	{
		pg_atomic_write_u64(&shmem->full_until, now + RETRY_TIME);
		return -1;
	}
	shmem->first_free_slot = shmem_slot(index)->next_free;
	entry->slot = index;
	assign_slot(shmem_slot(index), relid, now);
	remember(relid, index);
	return index;
}

/* The slot of a queue, made if need be; -1 = there is none to be had. */
int
shmem_find_or_create(Oid relid)
{
	int			index = shmem_find(relid);
	TimestampTz now;

	if (index >= 0 || shmem == NULL)
		return index;
	now = GetCurrentTimestamp();
	if (RecoveryInProgress() ||
		now < (TimestampTz) pg_atomic_read_u64(&shmem->full_until))
		return -1;
	LWLockAcquire(&shmem->directory_lock, LW_EXCLUSIVE);
	index = create_slot(relid, now);
	LWLockRelease(&shmem->directory_lock);
	return index;
}

/* Takes away the slot of a queue that is no more; neither fails nor allocates. */
void
shmem_drop(Oid relid)
{
	int			index;

	if (shmem == NULL)
		return;
	LWLockAcquire(&shmem->directory_lock, LW_EXCLUSIVE);
	index = look_up(relid);
	if (index >= 0)
	{
		QueueSlot  *slot = shmem_slot(index);

		LWLockAcquire(&slot->lock, LW_EXCLUSIVE);
		free_slot(slot);
		LWLockRelease(&slot->lock);
	}
	LWLockRelease(&shmem->directory_lock);
}

/* Takes away the slots of a database that is no more. */
void
shmem_forget_database(Oid dboid)
{
	if (shmem == NULL)
		return;
	LWLockAcquire(&shmem->directory_lock, LW_EXCLUSIVE);
	for (int i = 0; i < sqs_max_queues; i++)
	{
		QueueSlot  *slot = shmem_slot(i);

		if (slot->key.dboid != dboid)
			continue;
		LWLockAcquire(&slot->lock, LW_EXCLUSIVE);
		free_slot(slot);
		LWLockRelease(&slot->lock);
	}
	LWLockRelease(&shmem->directory_lock);
	lost_forget_database(dboid);
}

/* Takes a pin from the free ones; -1 = there is none. */
int
shmem_reserve_pin(void)
{
	int			pin;

	if (shmem == NULL)
		return -1;
	LWLockAcquire(&shmem->directory_lock, LW_EXCLUSIVE);
	pin = shmem->first_free_pin;
	if (pin >= 0)
		shmem->first_free_pin = shmem_pins[pin].next;
	LWLockRelease(&shmem->directory_lock);
	return pin;
}

/* Gives a pin back. */
void
shmem_release_pin(int pin)
{
	LWLockAcquire(&shmem->directory_lock, LW_EXCLUSIVE);
	shmem_pins[pin].next = shmem->first_free_pin;
	shmem->first_free_pin = pin;
	LWLockRelease(&shmem->directory_lock);
}
