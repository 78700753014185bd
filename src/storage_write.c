/*-------------------------------------------------------------------------
 *
 * storage_write.c
 *	  Writes the rows of a queue's table, and their index entries.
 *
 * The head of storage.c says how a table is written and which locks are taken.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "commands/sequence.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "compat.h"
#include "pg_sqs.h"
#include "storage.h"

#define INSERT_CHUNK 1000		/* rows given to the table at once */

/* The next id of a queue. */
int64
storage_next_id(QueueTable *table)
{
	return nextval_internal(table->queue->sequence, false);
}

/* Sets a column that may be NULL. */
static inline void
set_column(TupleTableSlot *slot, int attnum, Datum value, bool isnull)
{
	slot->tts_values[attnum - 1] = value;
	slot->tts_isnull[attnum - 1] = isnull;
}

/* Sets the columns that a receive or a change of visibility changes. */
static void
fill_lease(TupleTableSlot *slot, const Message *m)
{
	set_column(slot, Anum_message_visible_at,
			   TimestampTzGetDatum(m->visible_at), false);
	set_column(slot, Anum_message_receive_count,
			   Int32GetDatum(m->receive_count), false);
	set_column(slot, Anum_message_first_received_at,
			   TimestampTzGetDatum(m->first_received_at),
			   m->first_received_at == 0);
	set_column(slot, Anum_message_last_received_at,
			   TimestampTzGetDatum(m->last_received_at),
			   m->last_received_at == m->first_received_at);
}

/* Puts a message into a slot. */
static void
fill_slot(TupleTableSlot *slot, const Message *m)
{
	ExecClearTuple(slot);
	set_column(slot, Anum_message_id, Int64GetDatum(m->id), false);
	set_column(slot, Anum_message_sent_at, TimestampTzGetDatum(m->sent_at), false);
	set_column(slot, Anum_message_message_id,
			   UUIDPGetDatum((pg_uuid_t *) &m->message_id), false);
	set_column(slot, Anum_message_visibility_timeout,
			   Int32GetDatum(m->visibility_timeout), m->visibility_timeout < 0);
	set_column(slot, Anum_message_enqueued_at,
			   TimestampTzGetDatum(m->enqueued_at), m->enqueued_at == 0);
#define SET_POINTER(column) \
	set_column(slot, Anum_message_##column, PointerGetDatum(m->column), \
			   m->column == NULL)
	SET_POINTER(sender_id);
	SET_POINTER(message_group_id);
	SET_POINTER(message_deduplication_id);
	SET_POINTER(aws_trace_header);
	SET_POINTER(dead_letter_queue_source);
	SET_POINTER(body);
	SET_POINTER(message_attributes);
#undef SET_POINTER
	fill_lease(slot, m);
	for (int i = Natts_message; i < slot->tts_tupleDescriptor->natts; i++)
		slot->tts_isnull[i] = true; /* dropped */
	ExecStoreVirtualTuple(slot);
}

/* The slot in which new rows are formed. */
static TupleTableSlot *
new_row_slot(QueueTable *table)
{
	if (table->new_slot == NULL)
		table->new_slot = table_slot_create(table->rel, NULL);
	return table->new_slot;
}

/*
 * Adds an entry to an index.  PostgreSQL remembers the last leaf page of an
 * index to which the session appends, so that it need not search for it, but
 * forgets it with the first entry that goes elsewhere.  An entry that will not
 * go to the end (aside) is kept from causing that.
 */
static void
insert_entry(QueueTable *table, Relation index, Datum *values,
			 ItemPointer tid, IndexUniqueCheck unique, bool aside)
{
	bool		isnull[2] = {false, false};
	BlockNumber end = aside ? RelationGetTargetBlock(index) : InvalidBlockNumber;

	if (end != InvalidBlockNumber)
		RelationSetTargetBlock(index, InvalidBlockNumber);
	index_insert(index, values, isnull, tid, table->rel, unique, false,
				 table->index_info);
	if (end != InvalidBlockNumber &&
		RelationGetTargetBlock(index) == InvalidBlockNumber)
		RelationSetTargetBlock(index, end);
}

/*
 * Adds the two index entries of a new row or row version.  New ids go to the
 * end of the primary key, those of updates do not.  Leases go to the end of the
 * other index, unless longer ones or delayed messages are there already; what
 * is sent goes there only where this session appends no leases.
 *
 * An update keeps the id, so it cannot make it a duplicate.  That the id is
 * unchanged is not said: a full page would be searched for versions to delete,
 * at the cost of the receive.  They are left to vacuum.
 */
static void
insert_index_entries(QueueTable *table, TupleTableSlot *slot, bool update)
{
	static Oid	appends_leases = InvalidOid;	/* the last such index */
	Relation	due;
	Datum		values[2];

	/* plain B-trees, of which their access method asks no more */
	if (table->index_info == NULL)
		table->index_info = makeNode(IndexInfo);
	values[0] = slot->tts_values[Anum_message_id - 1];
	insert_entry(table, storage_pkey(table), values, &slot->tts_tid,
				 update ? UNIQUE_CHECK_NO : UNIQUE_CHECK_YES, update);
	due = storage_due_index(table);
	values[0] = slot->tts_values[Anum_message_visible_at - 1];
	values[1] = slot->tts_values[Anum_message_id - 1];
	insert_entry(table, due, values, &slot->tts_tid, UNIQUE_CHECK_NO,
				 !update && appends_leases == RelationGetRelid(due));
	if (update && RelationGetTargetBlock(due) != InvalidBlockNumber)
		appends_leases = RelationGetRelid(due);
	else if (update && appends_leases == RelationGetRelid(due))
		appends_leases = InvalidOid;
}

/* Notes a message that is about to be added, and counts it. */
static void
note_insert(QueueTable *table, const Message *m, TimestampTz now)
{
	Effects    *effects = storage_effects(table);

	effects_note(effects, position_of(m), POSITION_MAX);
	wakes_add(&effects->commit, m->visible_at, now);
	effects->metrics[metrics_gauge_of(m->visible_at, m->receive_count, now)]++;
}

/*
 * Notes that the row in table->slot is about to be updated (message given) or
 * deleted.  A trigger may have it merely locked, and left where it is.
 */
static void
note_write(QueueTable *table, const Message *m)
{
	Position	from = storage_row_position(table);
	Position	to = m ? position_of(m) : POSITION_MAX;

	if (table->writer != NULL)
		to = position_min(to, from);
	effects_note(storage_effects(table), to, from);
}

/* Counts that the row in table->slot was updated (message given) or deleted. */
static void
count_write(QueueTable *table, const Message *m)
{
	Effects    *effects = storage_effects(table);
	TimestampTz now = GetCurrentTimestamp();
	TimestampTz was = storage_row_position(table).visible_at;
	bool		isnull;
	int32		receive_count =
		DatumGetInt32(slot_getattr(table->slot, Anum_message_receive_count,
								   &isnull));

	effects->metrics[metrics_gauge_of(was, receive_count, now)]--;
	wakes_add(&effects->abort, was, now);
	if (m == NULL)
		return;
	effects->metrics[metrics_gauge_of(m->visible_at, m->receive_count, now)]++;
	wakes_add(&effects->commit, m->visible_at, now);
}

/* Adds a message that is noted. */
static void
insert_row(QueueTable *table, const Message *message)
{
	TupleTableSlot *slot = new_row_slot(table);

	fill_slot(slot, message);
	table->changed = true;
	if (table->writer != NULL)
	{
		storage_write_by_executor(table, WRITE_INSERT);
		return;
	}
	table_tuple_insert(table->rel, slot, GetCurrentCommandId(true), 0, NULL);
	insert_index_entries(table, slot, false);
}

/* Adds a message. */
void
storage_insert(QueueTable *table, const Message *message)
{
	note_insert(table, message, GetCurrentTimestamp());
	insert_row(table, message);
}

/* Adds one chunk of messages through the table's bulk insert. */
static void
insert_chunk(QueueTable *table, const Message *messages, TupleTableSlot **slots,
			 int n)
{
	for (int i = 0; i < n; i++)
	{
		if (slots[i] == NULL)
			slots[i] = table_slot_create(table->rel, NULL);
		fill_slot(slots[i], &messages[i]);
	}
	table_multi_insert(table->rel, slots, n, GetCurrentCommandId(true), 0, NULL);
	for (int i = 0; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		insert_index_entries(table, slots[i], false);
	}
}

/* Adds many messages. */
void
storage_insert_many(QueueTable *table, const Message *messages, int n)
{
	int			nslots = Min(n, INSERT_CHUNK);
	TupleTableSlot **slots = palloc0_array(TupleTableSlot *, nslots);
	TimestampTz now = GetCurrentTimestamp();

	for (int i = 0; i < n; i++)
		note_insert(table, &messages[i], now);
	table->changed = true;
	for (int done = 0; done < n; done += INSERT_CHUNK)
	{
		int			chunk = Min(n - done, INSERT_CHUNK);

		if (table->writer == NULL)
			insert_chunk(table, messages + done, slots, chunk);
		else
			for (int i = 0; i < chunk; i++)
			{
				CHECK_FOR_INTERRUPTS();
				insert_row(table, &messages[done + i]);
			}
	}
	for (int i = 0; i < nslots && slots[i] != NULL; i++)
		ExecDropSingleTupleTableSlot(slots[i]);
	pfree(slots);
}

/*
 * Locks the row in table->slot, so that its update (or deletion) will not have
 * to wait.  What indexes others made may give an update a stronger lock.
 */
static TM_Result
lock_row(QueueTable *table, bool update, bool wait, TM_FailureData *failure)
{
	ItemPointerData tid = table->slot->tts_tid;
	LockTupleMode mode = update && table->writer == NULL ?
		LockTupleNoKeyExclusive : LockTupleExclusive;

	return table_tuple_lock(table->rel, &tid, table->snapshot, table->slot,
							GetCurrentCommandId(true), mode,
							wait ? LockWaitBlock : LockWaitSkip, 0, failure);
}

/* Writes the new version of the row in table->slot, once. */
static TM_Result
update_version(QueueTable *table, const Message *m, bool wait,
			   TM_FailureData *failure)
{
	TupleTableSlot *slot = new_row_slot(table);
	LockTupleMode lockmode;
	TU_UpdateIndexes update_indexes;
	TM_Result	result;

	slot_getallattrs(table->slot);
	ExecClearTuple(slot);
	memcpy(slot->tts_values, table->slot->tts_values,
		   slot->tts_tupleDescriptor->natts * sizeof(Datum));
	memcpy(slot->tts_isnull, table->slot->tts_isnull,
		   slot->tts_tupleDescriptor->natts * sizeof(bool));
	fill_lease(slot, m);
	ExecStoreVirtualTuple(slot);
	if (table->writer != NULL)
	{
		storage_write_by_executor(table, WRITE_UPDATE);
		/* a trigger may have prevented it */
		return ItemPointerIsValid(&slot->tts_tid) ? TM_Ok : TM_Invisible;
	}
	result = table_tuple_update(table->rel, &table->slot->tts_tid, slot,
								GetCurrentCommandId(true), table->snapshot,
								InvalidSnapshot, wait, failure, &lockmode,
								&update_indexes);
	if (result == TM_Ok && update_indexes != TU_None)
		insert_index_entries(table, slot, true);
	return result;
}

/* Deletes the row in table->slot, once. */
static TM_Result
delete_version(QueueTable *table, bool wait, TM_FailureData *failure)
{
	if (table->writer != NULL)
	{
		storage_write_by_executor(table, WRITE_DELETE);
		return TM_Ok;
	}
	return table_tuple_delete(table->rel, &table->slot->tts_tid,
							  GetCurrentCommandId(true), table->snapshot,
							  InvalidSnapshot, wait, failure, false);
}

/*
 * heap_update() need not wait for whoever has the row, but a server built
 * with assertions insists that no caller asks for that.
 */
#ifdef USE_ASSERT_CHECKING
#define can_update_at_once(wait) (wait)
#else
#define can_update_at_once(wait) true
#endif

/*
 * Updates (message given) or deletes the row in table->slot, once.  The table
 * access method writes without a lock of the row first; where the executor
 * writes, or a mere lock is in the way (it may be our own), the row is locked
 * first.
 */
static TM_Result
write_version(QueueTable *table, const Message *m, bool wait,
			  TM_FailureData *failure)
{
	TM_Result	result = TM_BeingModified;

	table->changed = true;
	if (table->writer == NULL && (m == NULL || can_update_at_once(wait)))
	{
		result = m ? update_version(table, m, wait, failure) :
			delete_version(table, wait, failure);
		if (result != TM_BeingModified || storage_row_state(table) >= ROW_CLAIMED)
			return result;
	}
	result = lock_row(table, m != NULL, wait, failure);
	if (result != TM_Ok)
		return result;
	return m ? update_version(table, m, true, failure) :
		delete_version(table, true, failure);
}

/*
 * Whether the row in table->slot is locked because another receive is about to
 * update it: see the head of cursor.c.
 */
static bool
is_being_taken(QueueTable *table, int64 id)
{
	TransactionId locker;

	if (table->walker == NULL)
		return false;
	locker = storage_row_locker(table);
	return TransactionIdIsValid(locker) &&
		cursor_is_taken(table->walker, id, locker);
}

/* Whether someone else has the row in table->slot, or only a lock of it. */
static StorageResult
busy_or_locked(QueueTable *table, int64 id)
{
	if (storage_row_state(table) >= ROW_CLAIMED || is_being_taken(table, id) ||
		storage_row_state(table) >= ROW_CLAIMED)	/* meanwhile */
		return STORAGE_BUSY;
	return STORAGE_LOCKED;
}

/*
 * Whether someone else has the row in table->slot, and who does not wait may
 * pass it over at once; most often the row itself says that nobody has.
 */
static bool
is_claimed(QueueTable *table, int64 id, StorageResult *result)
{
	BufferHeapTupleTableSlot *slot = (BufferHeapTupleTableSlot *) table->slot;
	uint16		infomask;
	RowState	state;

	if (!TTS_IS_BUFFERTUPLE(table->slot))
		return false;
	infomask = ((volatile HeapTupleHeaderData *) slot->base.tuple->t_data)->t_infomask;
	if (infomask & HEAP_XMAX_INVALID)
		return false;
	if (HEAP_XMAX_IS_LOCKED_ONLY(infomask))
	{
		*result = STORAGE_BUSY;
		return is_being_taken(table, id);
	}
	state = storage_row_state(table);
	*result = state == ROW_GONE ? STORAGE_GONE : STORAGE_BUSY;
	return state >= ROW_CLAIMED;
}

/*
 * Updates or deletes the row found last.  Where it waits for others, it goes
 * on with the newest version of the row, of which *message then has the rest.
 */
static StorageResult
write_row(QueueTable *table, Message *message, bool update, bool wait)
{
	TimestampTz visible_at = message->visible_at;
	StorageResult result;

	if (!wait && is_claimed(table, message->id, &result))
		return result;
	for (;;)
	{
		TM_FailureData failure;
		ItemPointerData next;

		note_write(table, update ? message : NULL);
		if (table->walker != NULL)
			cursor_scan_takes(table->walker, message->id);
		switch (write_version(table, update ? message : NULL, wait, &failure))
		{
			case TM_Ok:
				count_write(table, update ? message : NULL);
				return STORAGE_DONE;
			case TM_BeingModified:
			case TM_WouldBlock:
				return busy_or_locked(table, message->id);
			case TM_Updated:
				if (!wait)
					return STORAGE_GONE;
				next = failure.ctid;
				if (!storage_fetch_version(table, &next, message->id))
					return STORAGE_GONE;
				storage_read(table, message);
				message->visible_at = visible_at;
				break;
			case TM_SelfModified:
				if (!wait || table->scan != NULL)
					return STORAGE_GONE;
				/* changed by this call already: make that be seen */
				CommandCounterIncrement();
				storage_snapshot(table);
				if (!storage_find(table, message->id, 0, message))
					return STORAGE_GONE;
				message->visible_at = visible_at;
				break;
			case TM_Invisible:
				return STORAGE_KEPT;
			default:
				return STORAGE_GONE;
		}
	}
}

/*
 * Writes the lease of the row found last: visible_at, receive_count and the
 * receive times.  With wait, only visible_at survives a concurrent change.
 */
StorageResult
storage_update(QueueTable *table, Message *message, bool wait)
{
	return write_row(table, message, true, wait);
}

/* Deletes the row found last. */
StorageResult
storage_delete(QueueTable *table, Message *message, bool wait)
{
	return write_row(table, message, false, wait);
}
