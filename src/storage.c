/*-------------------------------------------------------------------------
 *
 * storage.c
 *	  Opens a queue's table, and finds its rows.
 *
 * This file, storage_row.c, storage_write.c and storage_executor.c are all that
 * touches a queue's table and its indexes.
 *
 * The path of a message takes neither planner nor executor: rows are found by
 * an index scan or by their TID, and written through the table access method,
 * with the two index entries added by hand.  A table that has triggers, other
 * indexes, checks or generated columns is written through the executor's
 * ExecSimpleRelation* functions instead (table->writer), which know of all
 * that; Queue.plain says which it is.
 *
 * Snapshots.  Each attempt sees the latest committed state, whatever the
 * isolation level: a message is not data that a transaction must see
 * unchanged, and nothing here may raise a serialization failure.  Under
 * SERIALIZABLE an MVCC snapshot newer than the transaction's would raise one
 * inside the scan, so there the scan returns every version (SnapshotAny,
 * which predicate locking ignores) and visibility is tested here.
 *
 * Locks.  The table's RowExclusiveLock is held to the end of the transaction
 * once something was changed.  Row locks: a claim never waits; a delete or a
 * change by receipt handle waits for whoever has the row, and follows it to
 * its newest version.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/index.h"
#include "catalog/pg_am.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "storage/procarray.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "compat.h"
#include "pg_sqs.h"
#include "storage.h"

#define MANY_DEAD 1000			/* dead entries that a look ahead may meet */

/*
 * Locks the table of a queue, finding it again if it changed; false if gone.
 * What is found while its lock is held does not change any more.
 */
static bool
lock_table(Queue *queue, LOCKMODE lockmode)
{
	for (;;)
	{
		Oid			locked = queue->relid;
		bool		found;

		LockRelationOid(locked, lockmode);
		if (catalog_is_current(queue))
			return true;
		found = catalog_find(queue->name, queue);
		if (found && queue->relid == locked)
			return true;
		UnlockRelationOid(locked, lockmode);
		if (!found)
			return false;
	}
}

/*
 * Opens the table of a queue: RowExclusiveLock to change it, AccessShareLock
 * to look.  False where the queue is gone by now.
 */
bool
storage_open(Queue *queue, LOCKMODE lockmode, QueueTable **result)
{
	QueueTable *table;

	if (!lock_table(queue, lockmode))
		return false;
	table = palloc0(sizeof(QueueTable));
	table->queue = queue;
	table->lockmode = lockmode;
	table->rel = table_open(queue->relid, NoLock);
	table->slot = table_slot_create(table->rel, NULL);
	if (lockmode != AccessShareLock && !queue->plain)
		table->writer = storage_open_writer(table->rel);
	*result = table;
	return true;
}

/* Lets triggers run as the table's owner: the caller writes for the system. */
void
storage_as_owner(QueueTable *table)
{
	table->as_owner = true;
}

/* The primary key of an open table: not every call needs it. */
Relation
storage_pkey(QueueTable *table)
{
	if (table->pkey == NULL)
		table->pkey = index_open(table->queue->pkey, table->lockmode);
	return table->pkey;
}

/* Its index on (visible_at, id). */
Relation
storage_due_index(QueueTable *table)
{
	if (table->due == NULL)
		table->due = index_open(table->queue->due_index, table->lockmode);
	return table->due;
}

/*
 * Closes a table.  Its lock stays to the end of the transaction, unless the
 * caller wants it released and nothing was changed.
 */
void
storage_close(QueueTable *table, bool unlock)
{
	LOCKMODE	release = unlock && !table->changed ? table->lockmode : NoLock;

	if (table->scan != NULL)
		index_endscan(table->scan);
	ExecDropSingleTupleTableSlot(table->slot);
	if (table->new_slot != NULL)
		ExecDropSingleTupleTableSlot(table->new_slot);
	if (table->writer != NULL)
		storage_close_writer(table->writer);
	if (table->snapshot != NULL)
		UnregisterSnapshot(table->snapshot);
	if (table->pkey != NULL)
		index_close(table->pkey, release);
	if (table->due != NULL)
		index_close(table->due, release);
	table_close(table->rel, release);
	if (table->changed)
		CommandCounterIncrement();
	pfree(table);
}

/* The effects of the current transaction on an open queue. */
Effects *
storage_effects(QueueTable *table)
{
	if (table->effects == NULL)
		table->effects = xact_effects(table->queue->relid);
	return table->effects;
}

/* Takes a new snapshot, of what is committed now and what we did before. */
void
storage_snapshot(QueueTable *table)
{
	if (table->snapshot != NULL)
		UnregisterSnapshot(table->snapshot);
	table->snapshot = RegisterSnapshot(GetLatestSnapshot());
}

/* The snapshot to scan with: see the head of this file. */
static Snapshot
scan_snapshot(QueueTable *table)
{
	return IsolationIsSerializable() ? SnapshotAny : table->snapshot;
}

/* Whether the row in table->slot is to be seen. */
static bool
row_is_visible(QueueTable *table)
{
	return !IsolationIsSerializable() ||
		table_tuple_satisfies_snapshot(table->rel, table->slot, table->snapshot);
}

/* Sets up the key (visible_at, id) >= from. */
static void
set_from_key(QueueTable *table, Position from)
{
	ScanKeyEntryInitialize(&table->from_keys[0], SK_ROW_MEMBER, 1,
						   BTGreaterEqualStrategyNumber, InvalidOid, InvalidOid,
						   F_TIMESTAMPTZ_CMP,
						   TimestampTzGetDatum(from.visible_at));
	ScanKeyEntryInitialize(&table->from_keys[1], SK_ROW_MEMBER | SK_ROW_END, 2,
						   BTGreaterEqualStrategyNumber, InvalidOid, InvalidOid,
						   F_BTINT8CMP, Int64GetDatum(from.id));
	memset(&table->keys[1], 0, sizeof(ScanKeyData));
	table->keys[1].sk_flags = SK_ROW_HEADER;
	table->keys[1].sk_attno = 1;
	table->keys[1].sk_strategy = BTGreaterEqualStrategyNumber;
	table->keys[1].sk_argument = PointerGetDatum(table->from_keys);
}

/* Whether a table has no files: an unlogged one on a standby, where it is empty. */
static bool
table_is_absent(const QueueTable *table)
{
	return !RelationIsPermanent(table->rel) && RecoveryInProgress();
}

/* Starts a scan of the rows due by a time, from a position, in index order. */
void
storage_scan_begin(QueueTable *table, Position from, TimestampTz until)
{
	int			nkeys = 1;

	if (table_is_absent(table))
		return;
	ScanKeyInit(&table->keys[0], 1, BTLessEqualStrategyNumber, F_TIMESTAMPTZ_LE,
				TimestampTzGetDatum(until));
	if (from.visible_at != DT_NOBEGIN)
	{
		set_from_key(table, from);
		nkeys = 2;
	}
	if (table->snapshot == NULL)
		storage_snapshot(table);
	table->scan = index_beginscan(table->rel, storage_due_index(table), scan_snapshot(table),
								  NULL, nkeys, 0);
	index_rescan(table->scan, table->keys, nkeys, NULL, 0);
}

/* Says which scan takes the rows from now on; NULL = none. */
void
storage_set_walker(QueueTable *table, const CursorScan *walker)
{
	table->walker = walker;
}

/* Starts a scan of all rows, in order of id. */
void
storage_scan_by_id(QueueTable *table)
{
	table->scan = index_beginscan(table->rel, storage_pkey(table),
								  scan_snapshot(table), NULL, 0, 0);
	index_rescan(table->scan, NULL, 0, NULL, 0);
}

/* The next row of the scan; false at its end. */
bool
storage_scan_next(QueueTable *table, Message *message)
{
	while (table->scan != NULL &&
		   index_getnext_slot(table->scan, ForwardScanDirection, table->slot))
	{
		CHECK_FOR_INTERRUPTS();
		if (row_is_visible(table))
		{
			storage_read(table, message);
			return true;
		}
	}
	return false;
}

/* Ends the scan. */
void
storage_scan_end(QueueTable *table)
{
	if (table->scan != NULL)
		index_endscan(table->scan);
	table->scan = NULL;
}

/* Whether an entry of a scan leads to a row that is to be seen. */
static bool
entry_is_live(QueueTable *table, IndexScanDesc scan)
{
	do
	{
		if (index_fetch_heap(scan, table->slot) && row_is_visible(table))
			return true;
	} while (scan->xs_heap_continue);
	return false;
}

/*
 * When to look for messages again: as soon as the next one falls due after a
 * time; DT_NOEND if none does.  Messages deleted while they were in flight
 * have left entries ahead.  If there are many, the time is that of one of
 * them: no message falls due before.
 */
TimestampTz
storage_next_due(QueueTable *table, TimestampTz after)
{
	TimestampTz due = DT_NOEND;
	IndexScanDesc scan;
	ScanKeyData key;

	if (table_is_absent(table))
		return DT_NOEND;
	ScanKeyInit(&key, 1, BTGreaterStrategyNumber, F_TIMESTAMPTZ_GT,
				TimestampTzGetDatum(after));
	scan = index_beginscan(table->rel, storage_due_index(table), scan_snapshot(table),
						   NULL, 1, 0);
	scan->xs_want_itup = true;
	index_rescan(scan, &key, 1, NULL, 0);
	for (int i = 0; due == DT_NOEND &&
		 index_getnext_tid(scan, ForwardScanDirection) != NULL; i++)
	{
		bool		isnull;

		CHECK_FOR_INTERRUPTS();
		if (i == MANY_DEAD || entry_is_live(table, scan))
			due = DatumGetTimestampTz(index_getattr(scan->xs_itup, 1,
													scan->xs_itupdesc,
													&isnull));
	}
	index_endscan(scan);
	return due;
}

/* Whether the row in table->slot is the message of this id. */
static bool
row_has_id(QueueTable *table, int64 id)
{
	bool		isnull;

	return DatumGetInt64(slot_getattr(table->slot, Anum_message_id,
									  &isnull)) == id;
}

/*
 * Fetches the row version at a TID.  SnapshotAny keeps predicate locking out
 * of it; what a snapshot says is tested after.
 */
bool
storage_fetch_version(QueueTable *table, ItemPointer tid, int64 id)
{
	return table_tuple_fetch_row_version(table->rel, tid, SnapshotAny,
										 table->slot) &&
		row_has_id(table, id);
}

/* Finds a row where a receipt handle says it was. */
static bool
find_by_hint(QueueTable *table, int64 id, uint64 hint)
{
	ItemPointerData tid;

	if (table->rel->rd_rel->relam != HEAP_TABLE_AM_OID ||
		(hint & 0xffff) == 0 || (hint & 0xffff) > MaxHeapTuplesPerPage ||
		(hint >> 16) >= RelationGetNumberOfBlocks(table->rel))
		return false;
	ItemPointerSet(&tid, (BlockNumber) (hint >> 16),
				   (OffsetNumber) (hint & 0xffff));
	return storage_fetch_version(table, &tid, id) &&
		table_tuple_satisfies_snapshot(table->rel, table->slot, table->snapshot);
}

/* Finds a row by the primary key. */
static bool
find_by_key(QueueTable *table, int64 id)
{
	IndexScanDesc scan;
	ScanKeyData key;
	bool		found = false;

	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(id));
	scan = index_beginscan(table->rel, storage_pkey(table), scan_snapshot(table),
						   NULL, 1, 0);
	index_rescan(scan, &key, 1, NULL, 0);
	while (!found && index_getnext_slot(scan, ForwardScanDirection, table->slot))
	{
		CHECK_FOR_INTERRUPTS();
		found = row_is_visible(table);
	}
	index_endscan(scan);
	return found;
}

/* Finds the message of an id; the hint says where it was, 0 = not known. */
bool
storage_find(QueueTable *table, int64 id, uint64 hint, Message *message)
{
	if (table->snapshot == NULL)
		storage_snapshot(table);
	if (!find_by_hint(table, id, hint) && !find_by_key(table, id))
		return false;
	storage_read(table, message);
	return true;
}
