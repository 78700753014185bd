/*-------------------------------------------------------------------------
 *
 * pin.c
 *	  Prepared transactions hold the cursor of a queue.
 *
 * A prepared transaction leaves a pin, which holds the cursor (cursor.c) until
 * whoever finds the transaction ended reports the pin's position: nothing
 * else tells, for it may end in any session, or by a restart.  Of transactions
 * prepared before the slot was made (or when pins had run out) nothing is
 * known: they hold the cursor at the very start (slot->unknown).
 *
 * Pins in use are guarded by their slot's lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/twophase.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "storage/proc.h"
#include "storage/procarray.h"

#include "compat.h"
#include "shmem.h"

/*
 * Leaves the pin of a transaction being prepared in a locked slot.  pin -1
 * (there was none left) holds the cursor at the start instead.
 */
void
pin_add(QueueSlot *slot, int pin, TransactionId xid, Position position,
		int receivable)
{
	cursor_lower(slot, pin >= 0 ? position : POSITION_MIN);
	if (pin < 0)
	{
		if (!TransactionIdIsValid(slot->unknown) ||
			TransactionIdPrecedes(slot->unknown, xid))
			slot->unknown = xid;
		return;
	}
	shmem_pins[pin].xid = xid;
	shmem_pins[pin].position = position;
	shmem_pins[pin].receivable = receivable;
	shmem_pins[pin].next = slot->first_pin;
	slot->first_pin = pin;
}

/* The lowest position that a prepared transaction may make count. */
Position
pin_lowest(const QueueSlot *slot)
{
	Position	lowest = POSITION_MAX;

	if (TransactionIdIsValid(slot->unknown))
		return POSITION_MIN;
	for (int pin = slot->first_pin; pin >= 0; pin = shmem_pins[pin].next)
		lowest = position_min(lowest, shmem_pins[pin].position);
	return lowest;
}

/* Whether a slot depends on the outcome of prepared transactions. */
bool
pin_is_held(const QueueSlot *slot)
{
	return slot->first_pin >= 0 || TransactionIdIsValid(slot->unknown);
}

/* Whether a process holds any lock on a table; holders as GetLockConflicts. */
static bool
is_holder(const VirtualTransactionId *holders, int n, const PGPROC *proc)
{
	VirtualTransactionId vxid;

	GET_VXID_FROM_PGPROC(vxid, *proc);
	for (int i = 0; i < n; i++)
		if (VirtualTransactionIdEquals(holders[i], vxid))
			return true;
	return false;
}

/*
 * Whether a transaction prepared up to a transaction id, and still open, may
 * have touched a table: it has a lock on it then.
 */
static bool
is_held_by_prepared(Oid relid, TransactionId last)
{
	VirtualTransactionId *holders = NULL;
	int			n = 0;

	for (int i = 0; i < max_prepared_xacts; i++)
	{
		const PGPROC *proc = &PreparedXactProcs[i];
		TransactionId xid = proc->xid;

		if (!TransactionIdIsValid(xid) || proc->databaseId != MyDatabaseId ||
			TransactionIdPrecedes(last, xid) || !TransactionIdIsInProgress(xid))
			continue;
		if (holders == NULL)
		{
			LOCKTAG		tag;

			SET_LOCKTAG_RELATION(tag, MyDatabaseId, relid);
			holders = GetLockConflicts(&tag, AccessExclusiveLock, &n);
		}
		if (is_holder(holders, n, proc))
			return true;
	}
	return false;
}

/* Clears slot->unknown, if the transactions it stands for have ended. */
static void
resolve_unknown(Oid relid, QueueSlot *slot, uint64 generation,
				TransactionId unknown)
{
	if (!TransactionIdIsValid(unknown) || is_held_by_prepared(relid, unknown))
		return;
	LWLockAcquire(&slot->lock, LW_EXCLUSIVE);
	if (slot->generation == generation && slot->unknown == unknown)
	{
		slot->unknown = InvalidTransactionId;
		cursor_lower(slot, POSITION_MIN);
		wait_wake_unlock(slot, INT_MAX, DT_NOEND);
	}
	else
		LWLockRelease(&slot->lock);
}

/* Takes a pin from the list of a locked slot; false if it is not there. */
static bool
unlink_pin(QueueSlot *slot, int pin, TransactionId xid)
{
	int		   *link = &slot->first_pin;

	while (*link >= 0 && *link != pin)
		link = &shmem_pins[*link].next;
	if (*link < 0 || shmem_pins[pin].xid != xid)
		return false;
	*link = shmem_pins[pin].next;
	return true;
}

/* Reports the position of a pin whose transaction ended, and frees the pin. */
static void
resolve_pin(QueueSlot *slot, uint64 generation, int pin, TransactionId xid)
{
	LWLockAcquire(&slot->lock, LW_EXCLUSIVE);
	if (slot->generation == generation && unlink_pin(slot, pin, xid))
	{
		Pin			ended = shmem_pins[pin];

		cursor_lower(slot, ended.position);
		wait_wake_unlock(slot, ended.receivable, DT_NOEND);
		shmem_release_pin(pin);
	}
	else
		LWLockRelease(&slot->lock);
}

/*
 * Looks which prepared transactions a slot depends on have ended.  What the
 * slot holds is copied: to look, it must not be locked.
 */
void
pin_resolve_all(Oid relid, QueueSlot *slot, TimestampTz now)
{
	int			max = 4 * max_prepared_xacts;
	int		   *pins = palloc_array(int, max);
	TransactionId *xids = palloc_array(TransactionId, max);
	TransactionId unknown;
	uint64		generation;
	int			n = 0;

	LWLockAcquire(&slot->lock, LW_EXCLUSIVE);
	generation = slot->generation;
	unknown = slot->unknown;
	slot->pins_checked = now;
	for (int pin = slot->first_pin; pin >= 0; pin = shmem_pins[pin].next)
	{
		pins[n] = pin;
		xids[n++] = shmem_pins[pin].xid;
	}
	LWLockRelease(&slot->lock);
	for (int i = 0; i < n; i++)
		if (!TransactionIdIsInProgress(xids[i]))
			resolve_pin(slot, generation, pins[i], xids[i]);
	resolve_unknown(relid, slot, generation, unknown);
	pfree(pins);
	pfree(xids);
}
