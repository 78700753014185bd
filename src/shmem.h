/*-------------------------------------------------------------------------
 *
 * shmem.h
 *	  The layout of shared memory, for shmem.c, cursor.c, pin.c, xact.c and
 *	  wait.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_SQS_SHMEM_H
#define PG_SQS_SHMEM_H

#include "port/atomics.h"
#include "storage/lwlock.h"

#include "pg_sqs.h"

#define CELLS 64				/* receives that can be in flight on a queue
								 * and still move its cursor */
#define LOST_RECEIVES 8192		/* that wait to be counted */

/* whose queue a slot is of */
typedef struct SlotKey
{
	Oid			dboid;			/* InvalidOid = the slot is free */
	Oid			relid;
} SlotKey;

/*
 * Which row the receive of a cell takes just now.  Written by that receive
 * without a lock, xid before id; whoever reads it under the slot's lock knows
 * that the cell does not change hands.
 */
typedef struct Taking
{
	pg_atomic_uint64 id;		/* 0 = none */
	TransactionId xid;
} Taking;

/*
 * A queue in shared memory.  All fields are guarded by its lock, but for key
 * (changed under both its lock and the directory's, so either is enough to
 * read it), next_free (the directory's), metrics (atomic) and taking.
 */
typedef struct QueueSlot
{
	LWLock		lock;
	SlotKey		key;
	uint64		generation;		/* counts the queues that had the slot */
	bool		lost;			/* may have lost receives to be counted */
	Position	start;			/* the cursor, H */
	uint64		used_cells;		/* a bit for each */
	int			first_pin;		/* -1 = none */
	int			first_waiter;	/* -1 = none */
	int			last_waiter;
	int			watcher;		/* the waiter that looks by itself; -1 = none */
	TransactionId unknown;		/* prepared transactions up to this one may
								 * have done what nobody here remembers */
	TimestampTz pins_checked;
	TimestampTz healed;			/* when everything was looked at last */
	TimestampTz heal_cost;		/* and how long that took */
	TimestampTz last_used;
	TimestampTz since;			/* counters count */
	int			next_free;
	pg_atomic_uint64 metrics[METRIC_COUNT];
	uint64		changes;		/* commits that added to metrics */
	uint64		counted_changes;	/* of them when gauges were counted */
	TimestampTz counted_due;	/* the next message due then */
	Position	cells[CELLS];	/* lowest report since the receive started */
	Taking		taking[CELLS];
} QueueSlot;

/* what a slot takes: no two share a cache line */
#define SLOT_SIZE TYPEALIGN(PG_CACHE_LINE_SIZE, sizeof(QueueSlot))

/*
 * What a prepared transaction may yet make count.  In the list of its slot,
 * and guarded by that slot's lock; a free one by the directory's.
 */
typedef struct Pin
{
	TransactionId xid;
	Position	position;
	int			receivable;		/* messages, at most */
	int			next;
} Pin;

/*
 * A session that waits, by its number among the processes; guarded by the
 * lock of the slot it waits on.  Only the session itself sets slot, and
 * whoever recycles the slot clears it.
 */
typedef struct Waiter
{
	int			slot;			/* -1 = does not wait */
	int			prev;
	int			next;
	bool		takes;			/* messages, and does not only look at them */
	bool		looking;		/* awake, maybe with its snapshot taken */
	bool		woken;			/* must look again */
	TimestampTz due;			/* when it will look by itself; DT_NOEND = not
								 * before it is woken */
} Waiter;

/* a receive that was rolled back */
typedef struct LostReceive
{
	Oid			dboid;			/* InvalidOid = this place is free */
	Oid			relid;			/* the queue's table */
	int64		id;				/* the message */
} LostReceive;

typedef struct SharedState
{
	LWLock		directory_lock; /* guards the directory and the free lists */
	int			tranche;		/* of all the locks; set once */
	LWLock		lost_lock;		/* guards the lost receives */
	int			first_free_slot;
	int			first_free_pin;
	pg_atomic_uint64 full_until;	/* no use in asking for a slot before */
	int			lost_waiting;	/* places taken */
	uint64		lost_count;		/* lost receives ever posted */
	LostReceive lost[LOST_RECEIVES];	/* the latest of them */
} SharedState;

/* in shmem.c */
extern SharedState *shmem;		/* NULL = not preloaded */
extern Pin *shmem_pins;
extern Waiter *shmem_waiters;

extern QueueSlot *shmem_slot(int index);
extern int	shmem_index(const QueueSlot *slot);
extern bool shmem_slot_is_of(const QueueSlot *slot, Oid relid);
extern int	shmem_find(Oid relid);
extern int	shmem_find_or_create(Oid relid);
extern QueueSlot *shmem_lock_queue(Oid relid);
extern int	shmem_reserve_pin(void);
extern void shmem_release_pin(int pin);

/* in shmem_metrics.c */
extern void shmem_add_metrics(QueueSlot *slot, const int64 *values);

/* in cursor.c */
extern void cursor_lower(QueueSlot *slot, Position position);
extern void cursor_release_cells(int level);

/* in pin.c */
extern void pin_add(QueueSlot *slot, int pin, TransactionId xid,
					Position position, int receivable);
extern Position pin_lowest(const QueueSlot *slot);
extern bool pin_is_held(const QueueSlot *slot);
extern void pin_resolve_all(Oid relid, QueueSlot *slot, TimestampTz now);

/* in lost.c */
extern bool lost_report(const Effects *effects);
extern void lost_merge(Effects *into, Effects *from);
extern void lost_forget(Effects *effects);
extern void lost_end_transaction(void);

/* in wait.c */
extern void wait_wake_unlock(QueueSlot *slot, int receivable,
							 TimestampTz due);
extern void wait_detach_all(QueueSlot *slot);
extern void wait_release(int level);

#endif							/* PG_SQS_SHMEM_H */
