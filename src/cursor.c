/*-------------------------------------------------------------------------
 *
 * cursor.c
 *	  Where a receive starts to look: past what is already gone.
 *
 * Messages claimed or deleted leave dead entries at the front of the index on
 * (visible_at, id), and one old transaction keeps all of them from being
 * removed.  So a slot remembers a position, H, and the promise is:
 *
 *		Every index entry strictly below H is dead, or belongs to a row that
 *		a transaction still open, prepared or in its end callback has noted
 *		and will report.
 *
 * Whoever touches a row first notes it (xact.c).  When a transaction's
 * outcome is visible, its callback reports the lowest position that counts
 * now: H goes back to it.  A receive moves H forward to where it walked, but
 * no further than anything reported since before it took its snapshot, which
 * it could not see: it holds a cell, and reports lower all cells.
 *
 *		position = cursor_scan_start(&scan, relid, false);
 *		now = clock; new snapshot;				-- in this order, after it
 *		... walk from position, inclusive, to visible_at <= now ...
 *		cursor_scan_finish(&scan, walked_to);
 *
 * walked_to is just after the last entry walked, or position_after(now) at the
 * end.  It must not be past an entry left receivable, nor past a row that
 * was only locked: whoever locks it by hand reports nothing.  But an update
 * that needs another page locks the row, too, until it has that page, and if
 * it had to wait for the processor then, the cursor would stand still for
 * everybody.  So a receive tells in its cell which row it takes, after it
 * noted the row and before it touches it; such a row may be passed.
 *
 * A prepared transaction leaves a pin, which holds H (pin.c).
 *
 * COPY, logical replication or a hand-written UPDATE report nothing.  So now
 * and then a receive looks at everything, from the start, and its finish
 * lowers H to the first message it left: that heals.  It may take one
 * hundredth of the time.
 *
 * The rules were model-checked; each is there because leaving it out lost a
 * message.  All shared state here is guarded by the slot's lock, but for what
 * a receive takes (Taking).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "port/pg_bitutils.h"

#include "compat.h"
#include "shmem.h"

#define HEAL_INTERVAL USECS_PER_SEC /* healing is not done more often, unless
									 * nothing else was found */
#define HEAL_PATIENCE (10 * USECS_PER_SEC)	/* with one that was begun */
#define PIN_INTERVAL (10 * 1000)	/* between looks at prepared transactions */
#define HELD_CELLS 8			/* receives inside one another */

/* the cells this session holds, to be freed if there is an error */
static struct
{
	int			slot;			/* -1 = free */
	uint64		generation;
	int			cell;
	int			level;			/* of nested transactions */
}			held[HELD_CELLS];
static int	held_count = 0;

/* Takes a free cell of a locked slot, and remembers it; -1 if there is none. */
static int
take_cell(QueueSlot *slot, int index)
{
	int			cell;

	if (slot->used_cells == PG_UINT64_MAX || held_count == HELD_CELLS)
		return -1;
	cell = pg_rightmost_one_pos64(~slot->used_cells);
	held[held_count].slot = index;
	held[held_count].generation = slot->generation;
	held[held_count].cell = cell;
	held[held_count].level = GetCurrentTransactionNestLevel();
	held_count++;
	slot->used_cells |= UINT64CONST(1) << cell;
	slot->cells[cell] = POSITION_MAX;
	pg_atomic_write_u64(&slot->taking[cell].id, 0);
	return cell;
}

/* Forgets the i-th cell held. */
static void
forget_held(int i)
{
	held[i] = held[--held_count];
}

/* Frees a cell of a locked slot, unless the slot was recycled meanwhile. */
static void
clear_cell(QueueSlot *slot, uint64 generation, int cell)
{
	if (slot->generation == generation)
		slot->used_cells &= ~(UINT64CONST(1) << cell);
}

/* Frees the cells held by a transaction of this level or one inside it. */
void
cursor_release_cells(int level)
{
	for (int i = held_count - 1; i >= 0; i--)
	{
		QueueSlot  *slot = shmem_slot(held[i].slot);

		if (held[i].level < level)
			continue;
		LWLockAcquire(&slot->lock, LW_EXCLUSIVE);
		clear_cell(slot, held[i].generation, held[i].cell);
		LWLockRelease(&slot->lock);
		forget_held(i);
	}
}

/* Frees the cell of a scan, whose slot is locked. */
static void
return_cell(QueueSlot *slot, CursorScan *scan)
{
	clear_cell(slot, scan->generation, scan->cell);
	for (int i = held_count - 1; i >= 0; i--)
		if (held[i].slot == scan->slot && held[i].cell == scan->cell &&
			held[i].generation == scan->generation)
			forget_held(i);
	scan->cell = -1;
}

/* Reports a position to a locked slot. */
void
cursor_lower(QueueSlot *slot, Position position)
{
	slot->start = position_min(slot->start, position);
	for (uint64 used = slot->used_cells; used != 0; used &= used - 1)
	{
		int			cell = pg_rightmost_one_pos64(used);

		slot->cells[cell] = position_min(slot->cells[cell], position);
	}
}

/* Reports a position for the queue of a table, and wakes its waiters. */
void
cursor_report(Oid relid, Position position, int receivable)
{
	QueueSlot  *slot = shmem_lock_queue(relid);

	if (slot == NULL)
		return;
	cursor_lower(slot, position);
	wait_wake_unlock(slot, receivable, DT_NOEND);
}

/* Whether it is time that a receive looks at everything. */
static bool
heal_is_due(const QueueSlot *slot, TimestampTz now, TimestampTz at_least)
{
	return now - slot->healed >= Max(SQS_LOOK_FACTOR * slot->heal_cost, at_least);
}

/*
 * Whether a receive that found nothing must look at everything before it may
 * say so (cursor_scan_start with full).
 */
bool
cursor_heal_is_due(const CursorScan *scan)
{
	return scan->slot >= 0 && !scan->full &&
		heal_is_due(shmem_slot(scan->slot), GetCurrentTimestamp(), 0);
}

/* Fills in a scan from a locked slot; returns where it starts. */
static Position
join_slot(CursorScan *scan, QueueSlot *slot, bool full, TimestampTz now)
{
	scan->generation = slot->generation;
	scan->cell = take_cell(slot, scan->slot);
	scan->full = full || !position_before(POSITION_MIN, slot->start) ||
		heal_is_due(slot, now, HEAL_INTERVAL);
	slot->last_used = now;
	if (!scan->full)
		return slot->start;
	scan->began = now;
	slot->healed = now + HEAL_PATIENCE; /* others need not, meanwhile */
	return POSITION_MIN;
}

/*
 * Begins to look for messages of a queue, at the returned position; at the
 * very start if full.  The clock and the snapshot must be taken after.
 */
Position
cursor_scan_start(CursorScan *scan, Oid relid, bool full)
{
	TimestampTz now;
	QueueSlot  *slot;
	Position	start;

	scan->slot = shmem_find_or_create(relid);
	scan->cell = -1;
	scan->full = true;
	if (scan->slot < 0)
		return POSITION_MIN;
	now = GetCurrentTimestamp();
	slot = shmem_slot(scan->slot);
	if (pin_is_held(slot) && now - slot->pins_checked >= PIN_INTERVAL)
		pin_resolve_all(relid, slot, now);
	slot = shmem_lock_queue(relid);
	if (slot == NULL)
	{
		scan->slot = -1;
		return POSITION_MIN;
	}
	scan->slot = shmem_index(slot);
	start = join_slot(scan, slot, full, now);
	LWLockRelease(&slot->lock);
	return position_min(start, xact_lowest_own(relid));
}

/* Moves the cursor of a locked slot as far as a receive may move it. */
static void
advance(QueueSlot *slot, const CursorScan *scan, Position walked_to)
{
	Position	limit = position_min(slot->cells[scan->cell], pin_lowest(slot));

	limit = position_min(limit, walked_to);
	if (position_before(slot->start, limit))
		slot->start = limit;
}

/*
 * Notes that everything was looked at.  A message that was left and lies
 * below the cursor is one that nobody reported; walking to the end leaves none.
 * Returns how many waiters should be woken for it.
 */
static int
finish_full(QueueSlot *slot, const CursorScan *scan, Position walked_to,
			TimestampTz now)
{
	slot->healed = now;
	slot->heal_cost = Max(now - scan->began, 0);
	if (walked_to.id == PG_INT64_MAX ||
		!position_before(walked_to, slot->start))
		return 0;
	cursor_lower(slot, walked_to);
	return 1;
}

/* Ends a scan that walked to a position: see the head of this file. */
void
cursor_scan_finish(CursorScan *scan, Position walked_to)
{
	QueueSlot  *slot;
	TimestampTz now;
	int			receivable = 0;

	if (scan->slot < 0 || (scan->cell < 0 && !scan->full))
		return;
	now = scan->full ? GetCurrentTimestamp() : 0;
	slot = shmem_slot(scan->slot);
	LWLockAcquire(&slot->lock, LW_EXCLUSIVE);
	if (slot->generation == scan->generation)
	{
		if (scan->full)
			receivable = finish_full(slot, scan, walked_to, now);
		if (scan->cell >= 0)
			advance(slot, scan, walked_to);
	}
	if (scan->cell >= 0)
		return_cell(slot, scan);
	wait_wake_unlock(slot, receivable, DT_NOEND);
}

/* Ends a scan that shall not move the cursor. */
void
cursor_scan_abandon(CursorScan *scan)
{
	QueueSlot  *slot;

	if (scan->slot < 0 || scan->cell < 0)
		return;
	slot = shmem_slot(scan->slot);
	LWLockAcquire(&slot->lock, LW_EXCLUSIVE);
	return_cell(slot, scan);
	LWLockRelease(&slot->lock);
}

/*
 * Tells others that a scan is about to take the row of an id, which it has
 * noted.
 */
void
cursor_scan_takes(const CursorScan *scan, int64 id)
{
	TransactionId xid;
	QueueSlot  *slot;
	Taking	   *taking;

	if (scan->slot < 0 || scan->cell < 0)
		return;
	slot = shmem_slot(scan->slot);
	if (slot->generation != scan->generation)
		return;
	xid = GetCurrentTransactionId();
	taking = &slot->taking[scan->cell];
	if (taking->xid != xid)
	{
		pg_atomic_write_u64(&taking->id, 0);
		pg_write_barrier();
		taking->xid = xid;
		pg_write_barrier();
	}
	pg_atomic_write_u64(&taking->id, (uint64) id);
}

/* Whether the transaction that has locked the row of an id takes it that way. */
bool
cursor_is_taken(const CursorScan *scan, int64 id, TransactionId xid)
{
	QueueSlot  *slot;
	bool		found = false;

	if (scan->slot < 0 || id == 0)
		return false;
	slot = shmem_slot(scan->slot);
	LWLockAcquire(&slot->lock, LW_SHARED);
	if (slot->generation == scan->generation)
		for (uint64 used = slot->used_cells; used != 0 && !found; used &= used - 1)
		{
			Taking	   *taking = &slot->taking[pg_rightmost_one_pos64(used)];

			if (pg_atomic_read_u64(&taking->id) != (uint64) id)
				continue;
			pg_read_barrier();
			found = taking->xid == xid;
		}
	LWLockRelease(&slot->lock);
	return found;
}

/* The cursor of a queue; false if it has none. */
bool
cursor_position(Oid relid, Position *position)
{
	QueueSlot  *slot = shmem_lock_queue(relid);

	if (slot == NULL)
		return false;
	*position = slot->start;
	LWLockRelease(&slot->lock);
	return true;
}
